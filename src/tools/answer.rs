//! What a tool answers: prose for the model, the same facts as an object, perhaps a picture; or an error
//! that says what to do next.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::words;
use crate::model::{Code, Epoch, GoTo, Instead, Moved, Refusal, RigError};

/// A tool's good answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) data: Map<String, Value>,
    /// A PNG in base64.
    pub(crate) picture: Option<Arc<str>>,
    /// What to do next, if this caller may.
    pub(crate) next: Option<Next>,
    /// What to do next for a caller that may not.
    pub(crate) otherwise: Option<String>,
    /// Whether `data` goes out as it is, without the rig's name: what EAA reads under `result`.
    pub(crate) bare: bool,
}

impl Answer {
    /// An answer of status `ok`.
    pub(crate) fn ok(text: impl Into<String>) -> Answer {
        let data = Map::from_iter([("status".to_owned(), json!("ok")), ("moved".to_owned(), json!("no"))]);
        Answer { text: text.into(), data, picture: None, next: None, otherwise: None, bare: false }
    }

    /// `{"result": value}` and nothing else.
    pub(crate) fn result(text: impl Into<String>, value: Value) -> Answer {
        let data = Map::from_iter([("result".to_owned(), value)]);
        Answer { text: text.into(), data, picture: None, next: None, otherwise: None, bare: true }
    }

    /// With one more fact.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Answer {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// With what moved.
    pub(crate) fn moved(self, moved: Moved) -> Answer {
        self.with("moved", moved.to_string())
    }

    /// With the number of the stage's state.
    pub(crate) fn epoch(self, epoch: Option<Epoch>) -> Answer {
        self.with("state_epoch", epoch.map_or(0, |e| e.0))
    }

    /// With a next step, which is shown to callers that may call `tool`.
    pub(crate) fn next(mut self, tool: &'static str, say: impl Into<String>) -> Answer {
        self.next = Some(Next { tool, say: say.into() });
        self
    }

    /// With what a caller reads that may not take the next step; without its final full stop.
    pub(crate) fn or_say(mut self, say: impl Into<String>) -> Answer {
        self.otherwise = Some(say.into());
        self
    }

    /// With a sentence at the end of the prose.
    pub(crate) fn say(mut self, sentence: &str) -> Answer {
        self.text.push(' ');
        self.text.push_str(sentence);
        self
    }

    /// What goes to the client; `may` tells whether it may call a tool.
    pub(crate) fn into_result(mut self, rig: &str, may: impl Fn(&str) -> bool) -> CallToolResult {
        let next = self.next.take().filter(|n| may(n.tool)).map(|n| n.say).or(self.otherwise.take());
        if let Some(say) = next.map(|say| words::sentence(&say)) {
            self.text = format!("{} Next: {say}", self.text.trim_end());
            if !self.bare {
                self.data.insert("next".into(), say.into());
            }
        }
        if !self.bare {
            self.data.insert("rig".into(), rig.into());
        }
        let mut content = vec![ContentBlock::text(self.text)];
        if let Some(picture) = self.picture {
            content.push(ContentBlock::image(&*picture, "image/png"));
        }
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(Value::Object(self.data));
        result
    }
}

/// A tool's failure: the facts, and the next step where the tool knows it better than the table of codes.
#[derive(Debug, Clone)]
pub(crate) struct ToolError {
    pub(crate) error: RigError,
    pub(crate) next: Option<Box<Next>>,
    pub(crate) data: Map<String, Value>,
}

/// A next step that a tool proposes: used only if the caller may call that tool.
#[derive(Debug, Clone)]
pub(crate) struct Next {
    /// The tool.
    pub(crate) tool: &'static str,
    /// The sentence that names it, without its final full stop.
    pub(crate) say: String,
}

/// What a tool's handler gives back.
pub(crate) type Outcome = Result<Answer, ToolError>;

impl From<RigError> for ToolError {
    fn from(error: RigError) -> ToolError {
        ToolError { error, next: None, data: Map::new() }
    }
}

impl ToolError {
    /// A failure before anything moved.
    pub(crate) fn new(code: Code, what: impl Into<String>) -> ToolError {
        RigError::new(code, what).into()
    }

    /// With a next step.
    pub(crate) fn next(mut self, tool: &'static str, say: impl Into<String>) -> ToolError {
        self.next = Some(Box::new(Next { tool, say: say.into() }));
        self
    }

    /// With one more fact.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> ToolError {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// What goes to the client. `next` is the whole sentence of what to do.
    pub(crate) fn into_result(self, rig: &str, next: &str) -> CallToolResult {
        let text = self.text(next);
        let mut data = self.data;
        data.insert("status".into(), "error".into());
        data.insert("rig".into(), rig.into());
        data.insert("code".into(), self.error.code.text().into());
        data.insert("message".into(), self.error.what.into());
        data.insert("moved".into(), self.error.moved.to_string().into());
        data.insert("next".into(), next.into());
        if !self.error.refusals.is_empty() {
            data.insert("refusals".into(), refusals(&self.error.refusals));
        }
        if let Some(instead) = &self.error.instead {
            data.insert("instead".into(), instead_json(instead));
        }
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        result.structured_content = Some(Value::Object(data));
        result
    }

    /// The first text block: complete in itself.
    pub(crate) fn text(&self, next: &str) -> String {
        let e = &self.error;
        let mut text = format!("[{}] {}", e.code, words::sentence(&e.what));
        let mut said: Vec<&str> = Vec::new();
        for r in &e.refusals {
            if let Some(why) = r.why.as_deref().filter(|w| !said.contains(w)) {
                text.push_str(&format!(" The owner's reason for \"{}\": {}", r.rule, words::sentence(why)));
                said.push(why);
            }
        }
        let allowed: Vec<&str> = e.refusals.iter().filter_map(|r| r.allowed.as_deref()).collect();
        if !allowed.is_empty() {
            text.push_str(&format!(" Allowed: {}", words::sentence(&allowed.join("; "))));
        }
        if let Some(sequence) = e.instead.as_deref().and_then(sequence_line) {
            text.push_str(&format!(" {sequence}"));
        }
        text.push_str(&format!(" Moved: {}. Next: {next}", e.moved));
        text
    }
}

/// What would be allowed instead: the arguments of one `move_to` each.
pub(crate) fn instead_json(instead: &Instead) -> Value {
    let mut m = Map::new();
    if let Some(nearest) = &instead.nearest {
        m.insert("nearest".into(), arguments(nearest));
    }
    if !instead.sequence.is_empty() {
        m.insert("sequence".into(), instead.sequence.iter().map(arguments).collect());
    }
    Value::Object(m)
}

/// The same end in several moves, as a sentence.
pub(crate) fn sequence_line(instead: &Instead) -> Option<String> {
    let calls: Vec<String> =
        instead.sequence.iter().map(|g| format!("move_to {}", words::spaced(&arguments(g)))).collect();
    (!calls.is_empty()).then(|| format!("An allowed sequence, one call each: {}.", calls.join(", then ")))
}

fn arguments(to: &GoTo) -> Value {
    let targets: Map<String, Value> =
        to.targets.iter().map(|(n, v)| (n.to_string(), words::number(Some(*v)))).collect();
    json!({ "stage": to.stage.as_str(), "targets": targets, "unit": to.unit.name() })
}

/// Refusals as results show them.
pub(crate) fn refusals(list: &[Refusal]) -> Value {
    let one = |r: &Refusal| {
        let mut m = Map::from_iter([
            ("code".to_owned(), json!(r.code.text())),
            ("rule".to_owned(), json!(r.rule)),
            ("what".to_owned(), json!(r.what)),
        ]);
        if let Some(why) = &r.why {
            m.insert("why".into(), json!(why));
        }
        if let Some(allowed) = &r.allowed {
            m.insert("allowed".into(), json!(allowed));
        }
        Value::Object(m)
    };
    list.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errors_first_block_is_complete_in_itself() {
        let refusal = Refusal {
            code: Code::OutOfTravel,
            rule: "travel of scope.x".into(),
            what: "80 mm is outside the travel of scope.x, 0 to 75 mm.".into(),
            why: Some("the condenser is 2 mm below".into()),
            allowed: Some("scope.x from 0 to 75 mm".into()),
        };
        let error =
            RigError { refusals: vec![refusal.clone()], ..RigError::new(Code::OutOfTravel, refusal.what.clone()) };
        let result = ToolError::from(error).into_result("demo", "call check_move first.");
        assert_eq!(result.is_error, Some(true));
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(
            text,
            "[out_of_travel] 80 mm is outside the travel of scope.x, 0 to 75 mm. The owner's reason for \"travel of \
             scope.x\": the condenser is 2 mm below. Allowed: scope.x from 0 to 75 mm. Moved: no. Next: call check_move \
             first."
        );
        let data = result.structured_content.unwrap();
        assert_eq!(
            (&data["status"], &data["code"], &data["moved"]),
            (&json!("error"), &json!("out_of_travel"), &json!("no"))
        );
        assert!(data.get("result").is_none());
    }

    #[test]
    fn a_bare_result_has_no_siblings() {
        let result = Answer::result("1.5", json!(1.5)).into_result("demo", |_| true);
        assert_eq!(result.structured_content, Some(json!({ "result": 1.5 })));
    }
    #[test]
    fn a_next_step_is_shown_to_those_who_may_take_it() {
        let answer = || Answer::ok("Allowed.").next("move_to", "call move_to {}");
        let shown = answer().into_result("demo", |t| t == "move_to");
        assert_eq!(shown.content[0].as_text().unwrap().text, "Allowed. Next: call move_to {}.");
        assert_eq!(shown.structured_content.unwrap()["next"], "call move_to {}.");
        let hidden = answer().into_result("demo", |_| false);
        assert_eq!(hidden.content[0].as_text().unwrap().text, "Allowed.");
    }
}
