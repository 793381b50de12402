//! The audit log as the rig thread sees it: a line is handed over, and its acknowledgement is asked after. The
//! rig thread never waits for a disk.

use crate::model::Event;
use crate::store::{EventLog, Receipt, Written};

/// Where events go.
pub trait Journal: Send {
    /// Hands a line over; `None` when it can't be taken, and then nothing may move.
    fn append(&mut self, event: Event) -> Option<Entry>;

    /// Another way to the same log, for the watchdog.
    fn second(&self) -> Option<Box<dyn Journal>> {
        None
    }

    /// Why lines are not being written, if they aren't.
    fn failing(&self) -> Option<String> {
        None
    }
}

/// A line that was handed over.
#[derive(Debug, Clone)]
pub enum Entry {
    /// It is written.
    Written,
    /// Its receipt tells.
    Pending(Receipt),
}

impl Entry {
    /// Whether it is written, not yet, or can't be.
    pub(super) fn written(&self) -> Written {
        match self {
            Entry::Written => Written::Yes,
            Entry::Pending(receipt) => receipt.written(),
        }
    }
}

impl Journal for std::sync::Arc<EventLog> {
    fn append(&mut self, event: Event) -> Option<Entry> {
        EventLog::append(self, event).ok().map(Entry::Pending)
    }

    fn second(&self) -> Option<Box<dyn Journal>> {
        Some(Box::new(self.clone()))
    }

    fn failing(&self) -> Option<String> {
        EventLog::failing(self)
    }
}
