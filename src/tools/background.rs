//! Threads for pixels and files: their own, few, and at a lower priority than the thread that stops axes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::ToolError;
use crate::model::{Code, Moved, RigError};

/// Two, so that one picture that is slow to store holds no other up; more would only fight for the cores.
const THREADS: usize = 2;

/// Pieces of work that may wait. Each belongs to a call or a job, and those are bounded too.
const QUEUE: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

static WORKERS: LazyLock<Option<SyncSender<Work>>> = LazyLock::new(start);

fn start() -> Option<SyncSender<Work>> {
    let (send, receive) = sync_channel::<Work>(QUEUE);
    let receive = Arc::new(Mutex::new(receive));
    let started = (0..THREADS).filter(|_| {
        let receive = receive.clone();
        std::thread::Builder::new().name("pixels".into()).spawn(move || run(&receive)).is_ok()
    });
    (started.count() > 0).then_some(send)
}

fn run(receive: &Mutex<Receiver<Work>>) {
    step_back();
    loop {
        // The lock is held while waiting: whoever has it takes the next piece, the other waits for the lock.
        let Ok(work) = receive.lock().recv() else { return };
        // A panic is told by the answer that doesn't come; the thread is needed again.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("work on pixels or files failed");
        }
    }
}

/// Lets everything else go first. Linux alone counts niceness by thread; elsewhere it would slow the program.
#[cfg(target_os = "linux")]
fn step_back() {
    if let Err(error) = rustix::process::nice(10) {
        tracing::debug!("the priority of a thread for pixels could not be lowered: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn step_back() {}

/// Runs what computes or waits for the disk where it may.
///
/// # Errors
/// `internal` when the work panicked, `busy` when too much is waiting.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    let (answer, answered) = oneshot::channel();
    let work: Work = Box::new(move || {
        // Nobody may be waiting any more; a picture is stored all the same.
        let _ = answer.send(work());
    });
    let failed = || RigError::new(Code::Internal, "A fault ended the work on pixels or files.").moved(Moved::Unknown);
    let Some(workers) = WORKERS.as_ref() else { return Err(failed().into()) };
    workers.try_send(work).map_err(|e| match e {
        TrySendError::Full(_) => {
            RigError::new(Code::Busy, "Too many pictures are waiting to be stored.").moved(Moved::Unknown)
        }
        TrySendError::Disconnected(_) => failed(),
    })?;
    answered.await.map_err(|_| failed().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_a_panic_in_it_is_an_error_and_no_end() {
        let here = std::thread::current().id();
        let there = blocking(move || std::thread::current().id()).await.unwrap();
        assert_ne!(here, there);
        let panicked = blocking(|| -> u8 { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(panicked.error.code, Code::Internal);
        for _ in 0..THREADS + 1 {
            assert_eq!(blocking(|| 7).await.unwrap(), 7);
        }
    }
}
