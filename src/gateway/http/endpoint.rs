//! MCP itself over HTTP: one message in, its answer out.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use rmcp::model::{ClientRequest, GetMeta, JsonRpcMessage, ProtocolVersion};
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::accept::Accepts;
use super::pulse::{PULSE, kept_alive};
use super::{Body, JSON, answer, text};
use crate::gateway::stdio::triage::{METHOD_NOT_FOUND, Refusal, Triage, Verdict, settled};
use crate::gateway::stdio::{Ending, MAX_LINE, distress};
use crate::tools::{Face, may_be_large};

const VERSION_HEADER: &str = "mcp-protocol-version";

/// Where the messages of all clients come together.
pub(super) struct Endpoint {
    service: StreamableHttpService<Face, NeverSessionManager>,
    supported: Vec<ProtocolVersion>,
    ending: Ending,
}

impl Endpoint {
    /// The face's endpoint. `transport` cuts off what is unanswered when the time for answers is over.
    pub(super) fn new(face: Face, ending: Ending, transport: CancellationToken) -> Arc<Endpoint> {
        // Host and Origin were judged by the gate, for all paths alike.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_retry(None)
            .with_sse_keep_alive(Some(PULSE))
            .with_max_request_body_bytes(MAX_LINE)
            .with_cancellation_token(transport);
        let supported = face.supported_protocol_versions().into_owned();
        let service = StreamableHttpService::new(move || Ok(face.clone()), Arc::default(), config);
        Arc::new(Endpoint { service, supported, ending })
    }

    /// Answers a `POST`. Dropping the future, or later the answer's body, takes the call back.
    pub(super) async fn answer(self: Arc<Self>, parts: http::request::Parts, body: Bytes) -> Response<Body> {
        // Also when its sender doesn't wait for the answer.
        let mut unless = StopUnless(distress::means_stop(&body).then_some(&self.ending));
        let (response, reached) = self.judged(parts, &body).await;
        if reached && response.status() == StatusCode::OK {
            unless.0 = None;
        }
        response
    }

    /// The answer, and whether it is that of the tool `stop`, if it is good.
    async fn judged(&self, parts: http::request::Parts, body: &[u8]) -> (Response<Body>, bool) {
        let accepts = Accepts::of(&parts.headers);
        if !accepts.json {
            let what = "An answer is application/json or, for a long call, text/event-stream: accept both.";
            return (text(StatusCode::NOT_ACCEPTABLE, what), false);
        }
        if !is_json(&parts.headers) {
            return (text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The Content-Type must be application/json."), false);
        }
        match Triage::of_one(self.supported.clone()).judge(body) {
            Verdict::Answer(refusal) => (refused(&refusal), false),
            Verdict::Ignore if body.trim_ascii().is_empty() => {
                (refused(&Refusal::invalid_request("The body must be one JSON-RPC message; it is empty.")), false)
            }
            Verdict::Ignore => (answer(StatusCode::ACCEPTED, JSON, ""), false),
            Verdict::Deliver(message) => {
                let reached = distress::reaches_the_tool(&message);
                (self.delivered(parts, *message, accepts).await, reached)
            }
        }
    }

    /// Hands over what was judged, and not the bytes that it was read from: nobody reads those differently then.
    async fn delivered(
        &self,
        mut parts: http::request::Parts,
        mut message: RxJsonRpcMessage<RoleServer>,
        accepts: Accepts,
    ) -> Response<Body> {
        let mut plain = false;
        if let JsonRpcMessage::Request(request) = &mut message {
            match &mut request.request {
                ClientRequest::InitializeRequest(initialize) => {
                    self.settle_header(&mut parts.headers, initialize.params.protocol_version.as_str());
                }
                ClientRequest::CallToolRequest(call) => {
                    let large = may_be_large(&call.params.name);
                    // Without a token the call shows no life of its own, and its answer is a single document.
                    if large || !accepts.events {
                        request.request.get_meta_mut().remove("progressToken");
                    }
                    plain = request.request.get_meta().get_progress_token().is_none();
                }
                _ => {}
            }
        }
        let body = match serde_json::to_vec(&message) {
            Ok(body) => body,
            Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, format!("The message is lost: {error}.")),
        };
        parts.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        parts.headers.remove(header::CONTENT_LENGTH);
        let request = Request::from_parts(parts, Full::new(Bytes::from(body)));
        if !plain {
            return self.service.handle(request).await;
        }
        let service = self.service.clone();
        kept_alive(AbortOnDropHandle::new(tokio::spawn(async move { service.handle(request).await }))).await
    }

    /// A handshake's version was settled in the message; a header that asks for the same must say the same.
    fn settle_header(&self, headers: &mut HeaderMap, version: &str) {
        let asked = headers.get(VERSION_HEADER).and_then(|v| v.to_str().ok());
        if asked.and_then(|asked| settled(&self.supported, asked)) == Some(version)
            && let Ok(version) = HeaderValue::from_str(version)
        {
            headers.insert(VERSION_HEADER, version);
        }
    }
}

/// Stops the axes when it is dropped with an ending in it: a stop came that the tool can't have carried out.
struct StopUnless<'a>(Option<&'a Ending>);

impl Drop for StopUnless<'_> {
    fn drop(&mut self) {
        if let Some(ending) = self.0 {
            tracing::warn!("a stop came in a form that can't be answered: the axes are stopped");
            ending.stop_axes();
        }
    }
}

fn refused(refusal: &Refusal) -> Response<Body> {
    tracing::debug!("refused a message: {}", refusal.message);
    let unknown = refusal.code == METHOD_NOT_FOUND;
    let status = if unknown { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
    answer(status, JSON, refusal.to_json())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON)
}
