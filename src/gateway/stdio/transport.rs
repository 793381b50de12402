//! The service's transport over lines: what is well-formed goes in, what is not is answered here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ContentBlock, JsonRpcMessage, ProtocolVersion, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::distress;
use super::end::Ending;
use super::lines::{Line, Lines, MAX_LINE};
use super::outbox::{Allowance, Outbox};
use super::triage::{Refusal, Triage, Verdict};
use crate::tools::Turnstile;

/// Both directions of one client's session.
pub(super) struct LineTransport<R, W> {
    lines: Lines<R>,
    triage: Triage,
    outbox: Outbox<W>,
    ending: Ending,
    allowance: Allowance,
    handshake: Arc<Handshake>,
    /// Keeps the client's calls in their order.
    turns: Turnstile,
}

impl<R: AsyncRead + Unpin, W> LineTransport<R, W> {
    /// The transport, and a view of its output for the end.
    pub(super) fn new(
        reader: R,
        writer: W,
        supported: Vec<ProtocolVersion>,
        ending: Ending,
    ) -> (LineTransport<R, W>, Outbox<W>) {
        let outbox = Outbox::new(writer, ending.clone());
        let transport = LineTransport {
            lines: Lines::new(reader),
            triage: Triage::new(supported),
            outbox: outbox.clone(),
            ending,
            allowance: Allowance::new(),
            handshake: Arc::default(),
            turns: Turnstile::default(),
        };
        (transport, outbox)
    }
}

impl<R, W> LineTransport<R, W>
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Answers a refusal. What answers no request comes out of an allowance, so that a client which takes each answer
    /// for a new cause to send garbage can't start a storm.
    fn refuse(&mut self, refusal: &Refusal) {
        tracing::debug!("refused a line: {}", refusal.message);
        if !refusal.id.is_null() || self.allowance.take(Instant::now()) {
            self.outbox.send_own(refusal.to_line());
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = id {
            self.handshake.answered(id);
        }
        let outbox = self.outbox.clone();
        async move {
            let line = if is_large(&message) {
                // Milliseconds of work: a stop that comes meanwhile must not wait for it.
                let written = tokio::task::spawn_blocking(move || line_of(&message)).await;
                written.unwrap_or_else(|e| Err(io::Error::other(e)))?
            } else {
                line_of(&message)?
            };
            outbox.write(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.handshake.settled().await;
        loop {
            let line = tokio::select! {
                biased;
                () = self.ending.token().cancelled() => return None,
                line = self.lines.next() => line,
            };
            match line {
                Line::End => {
                    self.ending.begin("the client's input ended");
                    return None;
                }
                Line::TooLong => {
                    let mib = MAX_LINE / (1024 * 1024);
                    self.refuse(&Refusal::invalid_request(format!("A message may have at most {mib} MiB.")));
                }
                Line::Whole(range) => {
                    let line = self.lines.text(&range);
                    let stop = distress::means_stop(line);
                    let verdict = self.triage.judge(line);
                    if stop && !matches!(&verdict, Verdict::Deliver(m) if distress::reaches_the_tool(m)) {
                        tracing::warn!("a stop came in a form that can't be answered: the axes are stopped");
                        self.ending.stop_axes();
                    }
                    match verdict {
                        Verdict::Deliver(mut message) => {
                            if let JsonRpcMessage::Request(request) = &mut *message
                                && let ClientRequest::CallToolRequest(call) = &mut request.request
                            {
                                call.extensions.insert(self.turns.next());
                            }
                            if let JsonRpcMessage::Request(request) = &*message
                                && matches!(request.request, ClientRequest::InitializeRequest(_))
                            {
                                self.handshake.begin(request.id.clone());
                            }
                            return Some(*message);
                        }
                        Verdict::Answer(refusal) => self.refuse(&refusal),
                        Verdict::Ignore => {}
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// The message as it goes out.
fn line_of(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// From here on an answer is written on another thread.
const LARGE: usize = 64 * 1024;

/// Whether the message carries an array or a picture. Looks at no more than [`LARGE`] bytes of it.
fn is_large(message: &TxJsonRpcMessage<RoleServer>) -> bool {
    let JsonRpcMessage::Response(response) = message else { return false };
    let ServerResult::CallToolResult(result) = &response.result else { return false };
    let mut left = LARGE;
    let block = |content: &ContentBlock| match content {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        _ => 0,
    };
    for bytes in result.content.iter().map(block) {
        let Some(rest) = left.checked_sub(bytes) else { return true };
        left = rest;
    }
    result.structured_content.as_ref().is_some_and(|value| !fits(value, &mut left))
}

/// Takes what the value has in texts and entries off `left`, as far as that goes.
fn fits(value: &Value, left: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        _ => 8,
    };
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(fields) => fields.values().all(|field| fits(field, left)),
        _ => true,
    }
}

/// Holds the client's next messages back while `initialize` is being answered, since requests run concurrently and
/// their handlers would not yet know who asks.
#[derive(Default)]
struct Handshake {
    open: Mutex<Option<RequestId>>,
    done: Notify,
}

/// A handshake takes no time. Should it ever, the end of the input must still be seen.
const HANDSHAKE: Duration = Duration::from_secs(1);

impl Handshake {
    fn begin(&self, id: RequestId) {
        *self.open.lock() = Some(id);
    }

    fn answered(&self, id: &RequestId) {
        if self.open.lock().take_if(|open| open == id).is_some() {
            self.done.notify_one();
        }
    }

    async fn settled(&self) {
        let done = self.done.notified();
        if self.open.lock().is_some() && tokio::time::timeout(HANDSHAKE, done).await.is_err() {
            tracing::warn!("`initialize` is not answered yet; going on");
            *self.open.lock() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolResult;
    use serde_json::json;

    use super::*;

    fn answer(result: CallToolResult) -> TxJsonRpcMessage<RoleServer> {
        JsonRpcMessage::response(ServerResult::CallToolResult(result), RequestId::Number(1))
    }

    #[test]
    fn an_array_or_a_picture_is_written_elsewhere_and_a_state_is_not() {
        let state = json!({ "stages": (0..50).map(|i| json!({ "x": i, "trust": "referenced" })).collect::<Vec<_>>() });
        assert!(!is_large(&answer(CallToolResult::structured(state))));
        let array = json!({ "result": { "shape": [256, 256], "data": "A".repeat(LARGE) } });
        assert!(is_large(&answer(CallToolResult::structured(array))));
        let rows = json!({ "result": (0..200).map(|_| vec![0.5; 200]).collect::<Vec<_>>() });
        assert!(is_large(&answer(CallToolResult::structured(rows))));
        let picture = ContentBlock::image("A".repeat(LARGE + 1), "image/png");
        assert!(is_large(&answer(CallToolResult::success(vec![ContentBlock::text("A picture."), picture]))));
    }
}
