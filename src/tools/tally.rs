//! How often each tool answered which error: it shows which tools confuse a model.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::model::Code;

/// The counters. Tools and codes are closed lists, so that this can't grow without bound.
#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, BTreeMap<&'static str, u64>>>);

impl Tally {
    /// Counts one.
    pub(crate) fn count(&self, tool: &'static str, code: Code) {
        *self.0.lock().entry(tool).or_default().entry(code.text()).or_default() += 1;
    }

    /// As an object: `{"move_to": {"out_of_travel": 3}}`.
    pub(crate) fn json(&self) -> Value {
        let tools = self.0.lock();
        tools.iter().map(|(tool, codes)| ((*tool).to_owned(), json!(codes))).collect::<Map<_, _>>().into()
    }

    /// As a line a tool: `move_to: out_of_travel 3, stopped 1`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let tools = self.0.lock();
        let one = |(tool, codes): (&&str, &BTreeMap<&str, u64>)| {
            let codes: Vec<String> = codes.iter().map(|(code, n)| format!("{code} {n}")).collect();
            format!("{tool}: {}", codes.join(", "))
        };
        tools.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tools_codes_are_counted_for_themselves() {
        let tally = Tally::default();
        for (tool, code) in [("move_to", Code::OutOfTravel), ("move_to", Code::OutOfTravel), ("home", Code::Stopped)] {
            tally.count(tool, code);
        }
        assert_eq!(tally.json(), json!({"home": {"stopped": 1}, "move_to": {"out_of_travel": 2}}));
        assert_eq!(tally.lines(), ["home: stopped 1", "move_to: out_of_travel 2"]);
    }
}
