//! Commands of earlier runs that had an id of their client's: what the log says became of them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::LoggedEvent;

/// How many are looked for.
const MOST: usize = 512;

/// A command that an earlier run of the program had begun.
#[derive(Debug, Clone, PartialEq)]
pub struct PastCommand {
    /// What its client called itself.
    pub client: String,
    /// The client's id of it.
    pub id: String,
    /// The hash of its tool and arguments.
    pub hash: String,
    /// The tool that began it.
    pub tool: String,
    /// When its intent was written, RFC 3339 with the local offset.
    pub t: String,
    /// What became of it; `None` when the program ended before that was written.
    pub outcome: Option<PastOutcome>,
}

/// How a command of an earlier run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct PastOutcome {
    /// The error's code, for one that did not end well.
    pub code: Option<String>,
    /// In words.
    pub what: String,
    /// `no`, `yes` or `unknown`.
    pub moved: String,
    /// Where its axes stood then.
    pub positions: Map<String, Value>,
}

/// Collects commands from lines that are given newest first.
#[derive(Default)]
pub(super) struct Commands {
    outcomes: HashMap<(String, String), PastOutcome>,
    seen: HashSet<(String, String)>,
    found: Vec<PastCommand>,
}

impl Commands {
    /// Whether there is no use in going on.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MOST
    }

    /// Whether a line may be about a command, without reading all of it.
    pub(super) fn may_tell(line: &[u8]) -> bool {
        line.windows(COMMAND_ID.len()).any(|w| w == COMMAND_ID.as_bytes())
    }

    pub(super) fn take(&mut self, event: &LoggedEvent) {
        let text = |key: &str| event.facts.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(id), Some(client)) = (text(COMMAND_ID), text("client")) else { return };
        let key = (client, id);
        match event.kind.as_str() {
            "outcome" => {
                self.outcomes.entry(key).or_insert_with(|| PastOutcome {
                    code: text("code"),
                    what: event.what.clone(),
                    moved: text("moved").unwrap_or_else(|| "unknown".into()),
                    positions: event.facts.get("positions").and_then(Value::as_object).cloned().unwrap_or_default(),
                });
            }
            "intent" if !self.is_full() => {
                let outcome = self.outcomes.remove(&key);
                if self.seen.insert(key.clone()) {
                    let (client, id) = key;
                    let (hash, tool) = (text("command_hash").unwrap_or_default(), text("tool").unwrap_or_default());
                    self.found.push(PastCommand { client, id, hash, tool, t: crate::store::local(&event.t), outcome });
                }
            }
            _ => {}
        }
    }

    /// What was found, the newest first.
    pub(super) fn found(self) -> Vec<PastCommand> {
        self.found
    }
}

/// The fact that holds the client's id.
const COMMAND_ID: &str = "command_id";
