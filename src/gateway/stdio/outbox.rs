//! The way out to the client: whole messages only, and bounded answers to garbage.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::end::Ending;

/// How many of the transport's own answers may wait for a client that doesn't read. Further ones are dropped.
const OWN_ANSWERS: u32 = 64;

/// The way out. Clones share it.
pub(super) struct Outbox<W> {
    writer: Arc<Mutex<W>>,
    own: Arc<Semaphore>,
    ending: Ending,
}

impl<W> Clone for Outbox<W> {
    fn clone(&self) -> Self {
        Outbox { writer: self.writer.clone(), own: self.own.clone(), ending: self.ending.clone() }
    }
}

impl<W> Outbox<W> {
    pub(super) fn new(writer: W, ending: Ending) -> Outbox<W> {
        Outbox { writer: Arc::new(Mutex::new(writer)), own: Arc::new(Semaphore::new(OWN_ANSWERS as usize)), ending }
    }

    /// Waits until the transport's own answers are out, or for so long.
    pub(super) async fn idle(&self, at_most: Duration) {
        if tokio::time::timeout(at_most, self.own.acquire_many(OWN_ANSWERS)).await.is_err() {
            tracing::debug!("the client doesn't read");
        }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Outbox<W> {
    /// Writes a line that ends with its line feed. A client whose end is gone ends the session: nobody would hear of
    /// what still moves.
    ///
    /// # Errors
    /// As the writer's.
    pub(super) async fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        let written = async {
            writer.write_all(line).await?;
            writer.flush().await
        };
        let result = written.await;
        if let Err(error) = &result {
            self.ending.begin(&format!("the client's output broke: {error}"));
        }
        result
    }

    /// Writes one of the transport's own answers without waiting for it.
    pub(super) fn send_own(&self, line: Vec<u8>) {
        let Ok(permit) = self.own.clone().try_acquire_owned() else { return };
        let outbox = self.clone();
        tokio::spawn(async move {
            // A failure has ended the session; there is nobody left to tell.
            let _ = outbox.write(&line).await;
            drop(permit);
        });
    }
}

/// How often lines that answer no request may be written: [`Allowance::BURST`] at once, then one a second.
pub(super) struct Allowance {
    left: u32,
    refilled: Option<Instant>,
}

impl Allowance {
    const BURST: u32 = 10;
    const REFILL: Duration = Duration::from_secs(1);

    pub(super) fn new() -> Allowance {
        Allowance { left: Self::BURST, refilled: None }
    }

    /// Whether one more may be written now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let refilled = *self.refilled.get_or_insert(now);
        let due = u32::try_from(now.saturating_duration_since(refilled).as_secs()).unwrap_or(u32::MAX);
        if due > 0 {
            self.left = self.left.saturating_add(due).min(Self::BURST);
            self.refilled = Some(refilled + Self::REFILL * due);
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_at_once_then_one_a_second() {
        let mut allowance = Allowance::new();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!((0..1000).filter(|_| allowance.take(at(0))).count(), 10);
        assert!(!allowance.take(at(999)));
        assert!(allowance.take(at(1000)));
        assert!(!allowance.take(at(1001)));
        assert_eq!((0..1000).filter(|_| allowance.take(at(3_600_000))).count(), 10);
    }
}
