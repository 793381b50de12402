//! What the tools tell the audit log beside the rig thread: what was refused before it became a job, and who asked for
//! a stop.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::answer::ToolError;
use super::args::cut;
use super::call::Live;
use crate::model::{Caller, Event};
use crate::store::{Receipt, Written};

/// The longest text of refused arguments that is kept, in bytes.
const ARGUMENTS: usize = 2048;

/// Lines of this kind that may wait for the disk at a time.
const PENDING: usize = 64;

/// A client that is refused a thousand times a second fills no queue that a motion needs: what exceeds [`PENDING`] is left
/// out and counted.
#[derive(Default)]
pub(crate) struct Record(Mutex<(VecDeque<Receipt>, u64)>);

/// A call as the log names it.
pub(crate) struct Named<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) call: String,
    pub(crate) tool: &'static str,
    /// As the client sent them.
    pub(crate) arguments: Option<&'a Map<String, Value>>,
}

impl Record {
    /// A call that was refused before it began anything.
    pub(crate) fn refused(&self, live: &Live, named: &Named<'_>, error: &ToolError) {
        let error = &error.error;
        let what = format!("{}: [{}] {}", named.tool, error.code, error.what);
        let mut facts = facts(named);
        facts.extend([("code", error.code.text().into()), ("moved", error.moved.to_string().into())]);
        let device = error.device.clone();
        self.line(live, Event { kind: "refused", device, caller: Some(named.caller.id.to_string()), what, facts });
    }

    /// A stop that a client asked for; it is out already.
    pub(crate) fn stop(&self, live: &Live, named: &Named<'_>) {
        let (facts, caller) = (facts(named), Some(named.caller.id.to_string()));
        let event =
            Event { kind: "stop_asked", device: None, caller, what: "A client asked for a stop.".into(), facts };
        self.line(live, event);
    }

    fn line(&self, live: &Live, mut event: Event) {
        let (pending, left_out) = &mut *self.0.lock();
        pending.retain(|r| r.written() == Written::Pending);
        if pending.len() >= PENDING {
            *left_out += 1;
            return;
        }
        if *left_out > 0 {
            event.facts.insert("left_out_before", (*left_out).into());
        }
        // What the log can't take here has been answered all the same; the next motion finds out.
        if let Ok(receipt) = live.events.append(event) {
            pending.push_back(receipt);
            *left_out = 0;
        }
    }
}

fn facts(named: &Named<'_>) -> BTreeMap<&'static str, Value> {
    let given = named.arguments.map_or_else(|| json!({}), |a| Value::Object(a.clone()));
    let text = given.to_string();
    let arguments = if text.len() <= ARGUMENTS { given } else { json!({ "cut_off": cut(&text), "bytes": text.len() }) };
    [
        ("client", named.caller.client.clone().into()),
        ("way", json!(named.caller.way)),
        ("call", named.call.clone().into()),
        ("tool", named.tool.into()),
        ("arguments", arguments),
    ]
    .into()
}
