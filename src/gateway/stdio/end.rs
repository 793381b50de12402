//! How a session ends: the stop goes out first, and the exit code says whether the axes were seen to stand.

use std::fmt;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// The way to end the program, or one session of it, shared by all that can see a reason: the end of the input, a
/// broken output, a signal. Clones share it.
#[derive(Clone)]
pub struct Ending {
    stop: Arc<dyn Fn() + Send + Sync>,
    first: Arc<dyn Fn() + Send + Sync>,
    token: CancellationToken,
}

impl Ending {
    /// An ending that orders the axes' stop by `stop`, which must not wait and may be called more than once.
    pub fn new(stop: impl Fn() + Send + Sync + 'static) -> Ending {
        let stop: Arc<dyn Fn() + Send + Sync> = Arc::new(stop);
        Ending { first: stop.clone(), stop, token: CancellationToken::new() }
    }

    /// The ending of one session among several. When it begins by itself, `lost` orders the stop of what the session
    /// began, under the same conditions as the stop of [`Ending::new`]. `token` is a child of [`Ending::token`], so
    /// that the session ends with the program, too.
    pub fn of_session(&self, token: CancellationToken, lost: impl Fn() + Send + Sync + 'static) -> Ending {
        Ending { stop: self.stop.clone(), first: Arc::new(lost), token }
    }

    /// Orders the axes' stop, without ending anything.
    pub fn stop_axes(&self) {
        (self.stop)();
    }

    /// Begins to end. When this returns, the stop has been ordered; only then [`Ending::token`] is cancelled.
    pub fn begin(&self, why: &str) {
        if !self.token.is_cancelled() {
            (self.first)();
            tracing::info!("ending: {why}");
            self.token.cancel();
        }
    }

    /// Cancelled once the end has begun; for handlers that answer "shutting down".
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("begun", &self.token.is_cancelled()).finish_non_exhaustive()
    }
}

/// What a session needs of the program around it.
pub struct StdioControl {
    /// Begun by the session at the end of its input, or by others to end the session.
    pub ending: Ending,
    /// Asked once the end has begun: comes back when everything is at rest and closed, with `true`, or, after a
    /// bounded time, with `false` when that could not be confirmed.
    pub still: Pin<Box<dyn Future<Output = bool> + Send>>,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The axes stand still, confirmed. The end of the input and a termination signal both end so: exit code 0.
    Still,
    /// The stop was ordered, but standstill could not be confirmed: exit code 3.
    NotConfirmed,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Still => 0,
            Exit::NotConfirmed => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
