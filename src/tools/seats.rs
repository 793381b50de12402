//! Who is served at this moment: one seat for each client's session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Face;
use crate::model::{JobId, Name, Way};

/// What a session asks for when it takes its seat.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The way it came.
    pub way: Way,
    /// The process at the other end, where it is another one.
    pub pid: Option<u32>,
    /// Only what reads, whatever the server's policy grants besides.
    pub read_only: bool,
    /// The client's own limit on a call, if it has said one.
    pub request_timeout: Option<Duration>,
    /// Ends when the session does.
    pub ending: CancellationToken,
}

/// A client's session, as the others see it.
#[derive(Debug)]
pub struct Seat {
    /// Its name in every order: `stdio`, `relay-3`.
    pub id: Name,
    /// The way it came.
    pub way: Way,
    /// The process at the other end, where it is another one.
    pub pid: Option<u32>,
    client: Mutex<String>,
    awaits: Mutex<Vec<JobId>>,
}

impl Default for Seat {
    /// The one client of a face that nobody else visits.
    fn default() -> Seat {
        Seat { id: Name::new("stdio"), way: Way::Stdio, pid: None, client: Mutex::default(), awaits: Mutex::default() }
    }
}

impl Seat {
    /// Notes what the client calls itself.
    pub(crate) fn calls(&self, client: &str) {
        let mut known = self.client.lock();
        if *known != client {
            client.clone_into(&mut known);
        }
    }

    /// Notes that a call of this session waits for the job, until what this gives back is dropped.
    pub(crate) fn awaits(self: &Arc<Seat>, job: JobId) -> impl Drop + use<> {
        struct Waiting(Arc<Seat>, JobId);
        impl Drop for Waiting {
            fn drop(&mut self) {
                let mut jobs = self.0.awaits.lock();
                if let Some(at) = jobs.iter().position(|j| *j == self.1) {
                    jobs.swap_remove(at);
                }
            }
        }
        self.awaits.lock().push(job);
        Waiting(self.clone(), job)
    }

    /// The jobs that calls of this session wait for.
    pub(crate) fn awaited(&self) -> Vec<JobId> {
        self.awaits.lock().clone()
    }

    fn json(&self) -> Value {
        let mut row = json!({ "id": self.id.as_str(), "way": self.way, "client": *self.client.lock() });
        if let Some(pid) = self.pid {
            row["pid"] = pid.into();
        }
        row
    }
}

/// All seats that are taken. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Inner>);

#[derive(Default)]
struct Inner {
    taken: Mutex<Vec<Arc<Seat>>>,
    count: AtomicU64,
    freed: Notify,
}

impl Seats {
    /// Takes a seat. All but that of standard input have numbers, of which none comes again in a run of the program.
    pub(crate) fn take(&self, way: Way, pid: Option<u32>) -> Taken {
        let id = match way {
            Way::Stdio | Way::Internal => Name::new("stdio"),
            Way::Relay | Way::Http | Way::Cli => {
                let kind = match way {
                    Way::Relay => "relay",
                    Way::Http => "http",
                    _ => "cli",
                };
                Name::new(&format!("{kind}-{}", self.0.count.fetch_add(1, Ordering::Relaxed) + 1))
            }
        };
        let seat = Arc::new(Seat { id, way, pid, client: Mutex::default(), awaits: Mutex::default() });
        self.0.taken.lock().push(seat.clone());
        Taken { seat, seats: self.clone() }
    }

    /// How many clients are served: a person's single commands are none.
    pub(crate) fn clients(&self) -> usize {
        self.0.taken.lock().iter().filter(|s| s.way != Way::Cli).count()
    }

    /// Waits until no client is served.
    pub(crate) async fn empty(&self) {
        loop {
            let freed = self.0.freed.notified();
            if self.clients() == 0 {
                return;
            }
            freed.await;
        }
    }

    /// All of them, for reports.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.0.taken.lock().iter().map(|s| s.json()).collect()
    }
}

/// A seat that is free again when this is dropped.
pub(crate) struct Taken {
    seat: Arc<Seat>,
    seats: Seats,
}

impl Taken {
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.0.taken.lock().retain(|s| !Arc::ptr_eq(s, &self.seat));
        self.seats.0.freed.notify_waiters();
    }
}

/// A client's own view of the tools, and its seat.
pub struct Seated {
    /// The tools, for the session to serve.
    pub face: Face,
    pub(crate) seat: Taken,
}

impl Seated {
    /// The seat.
    pub fn seat(&self) -> &Seat {
        &self.seat.seat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_has_a_name_of_its_own_and_is_free_again_when_its_session_ends() {
        let seats = Seats::default();
        let first = seats.take(Way::Relay, Some(7));
        let second = seats.take(Way::Relay, Some(7));
        let command = seats.take(Way::Cli, None);
        let names = [&first, &second, &command].map(|s| s.seat().id.to_string());
        assert_eq!(names, ["relay-1", "relay-2", "cli-3"]);
        assert_eq!((seats.clients(), seats.json().len()), (2, 3));
        drop(first);
        assert_eq!(seats.clients(), 1);
        assert_eq!(seats.take(Way::Relay, None).seat().id.as_str(), "relay-4", "no name comes again");
    }
}
