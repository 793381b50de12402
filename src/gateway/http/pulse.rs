//! Keeps a long JSON answer alive: white space, which JSON allows before a document, until the document is there.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::task::JoinError;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;

use super::{Body, JSON};
use crate::gateway::stdio::triage::Refusal;

/// How often. Clients and proxies give up a silent connection after 30 s at the earliest.
pub(super) const PULSE: Duration = Duration::from_secs(15);

/// The answer of `work`: as it is, if it comes within [`PULSE`]; else one that has begun and will end with it. `work`
/// must give JSON. Dropping the answer, or this future, ends the work.
pub(super) async fn kept_alive(mut work: AbortOnDropHandle<Response<Body>>) -> Response<Body> {
    match tokio::time::timeout(PULSE, &mut work).await {
        Ok(ended) => ended.unwrap_or_else(|error| fault(&error)),
        Err(_) => {
            let mut pulse = interval_at(Instant::now(), PULSE);
            pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut response = Response::new(Pulsing::Waiting { work, pulse }.boxed());
            response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(JSON));
            response
        }
    }
}

/// The answer for work that ended without one.
pub(super) fn fault(error: &JoinError) -> Response<Body> {
    tracing::error!("answering a request failed: {error}");
    let refusal = Refusal::internal("Internal fault: the request was abandoned. Read the state of the rig.");
    super::answer(StatusCode::INTERNAL_SERVER_ERROR, JSON, refusal.to_json())
}

/// A body that begins before its content is known.
enum Pulsing {
    Waiting { work: AbortOnDropHandle<Response<Body>>, pulse: Interval },
    Answering(Body),
}

impl HttpBody for Pulsing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Pulsing::Waiting { work, pulse } = this {
            match Pin::new(work).poll(cx) {
                Poll::Ready(ended) => {
                    let response = ended.unwrap_or_else(|error| fault(&error));
                    *this = Pulsing::Answering(response.into_body());
                }
                Poll::Pending => return pulse.poll_tick(cx).map(|_| Some(Ok(Frame::data(Bytes::from_static(b" "))))),
            }
        }
        match this {
            Pulsing::Answering(body) => Pin::new(body).poll_frame(cx),
            Pulsing::Waiting { .. } => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn work(after: Duration) -> AbortOnDropHandle<Response<Body>> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(after).await;
            super::super::json(StatusCode::OK, &serde_json::json!({ "done": true }))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_shows_life_every_15_s_and_is_the_same_json() {
        for (seconds, pulses) in [(1, 0), (14, 0), (16, 1), (61, 4)] {
            let response = kept_alive(work(Duration::from_secs(seconds))).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()[header::CONTENT_TYPE], JSON);
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(body.iter().take_while(|b| **b == b' ').count(), pulses, "{seconds} s");
            let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(value["done"], true);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_any_more_ends_the_work() {
        let (alive, ended) = oneshot::channel::<()>();
        let endless = AbortOnDropHandle::new(tokio::spawn(async move {
            let _alive = alive;
            std::future::pending().await
        }));
        let response = kept_alive(endless).await;
        drop(response);
        assert!(ended.await.is_err(), "the work was dropped");
    }

    #[tokio::test]
    async fn work_that_panics_is_answered() {
        let panics = AbortOnDropHandle::new(tokio::spawn(async { panic!("deliberate") }));
        let response = kept_alive(panics).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(value["error"]["code"], -32603);
    }
}
