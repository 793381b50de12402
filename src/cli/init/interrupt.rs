//! Ctrl-C, a request to end and a closed terminal while axes may move: they are stopped and seen to stand first.

use std::io;
use std::process::exit;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::say;
use super::super::serve::signal;
use super::super::session::Session;
use super::super::stop::HARDWARE;
use crate::gateway::stdio::Exit;

/// What a shell expects of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// A session that is stopped before a signal ends the program. Whoever holds the lock ends it: nobody else goes on.
pub(super) struct Guarded {
    session: Arc<Session>,
    held: Arc<Mutex<Option<Arc<Session>>>>,
}

impl Guarded {
    /// Watches for signals from here to the program's end: after [`Guarded::close`] they end it at once.
    ///
    /// # Errors
    /// In words, when they can't be watched: nothing may move then.
    pub(super) fn new(session: Session) -> Result<Guarded, String> {
        let session = Arc::new(session);
        let held = Arc::new(Mutex::new(Some(session.clone())));
        let unwatched = |e: io::Error| format!("Ctrl-C can't be watched ({e}), so nothing is moved");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unwatched)?;
        let watched = held.clone();
        let watch = move || {
            let which = runtime.block_on(signal());
            let held = watched.lock();
            let Some(session) = held.as_ref() else { exit(code(which)) };
            say(io::stderr(), &format!("\n{which}: stopping …"));
            if !session.halt() {
                unproved();
            }
            say(io::stderr(), "All axes stand. Nothing was written.");
            exit(code(which));
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(unwatched)?;
        Ok(Guarded { session, held })
    }

    /// What `act` does with the session; it doesn't come back when the program is being ended.
    pub(super) fn with<T>(&self, act: impl FnOnce(&Session) -> T) -> T {
        let done = act(&self.session);
        drop(self.held.lock());
        done
    }

    /// Stops what moves and lets go of the port. Axes that were not seen to stand end the program.
    pub(super) fn close(self) {
        let mut held = self.held.lock();
        drop(self.session);
        if let Some(session) = held.take().and_then(Arc::into_inner)
            && !session.close()
        {
            unproved();
        }
    }
}

/// Ends the program that couldn't prove that the axes stand.
fn unproved() -> ! {
    say(io::stderr(), &format!("error: the axes could not be seen to stand; nothing was written. {HARDWARE}"));
    exit(Exit::NotConfirmed.code().into())
}

fn code(signal: &str) -> i32 {
    if matches!(signal, "SIGINT" | "Ctrl-C") { INTERRUPTED } else { 1 }
}
