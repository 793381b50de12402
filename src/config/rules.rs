//! `[[rule]]`: conditions over the whole rig, compiled when the file is read. One that could never judge is a problem.

use std::ops::Range;

use super::condition::{Condition, Flaw};
use super::problem::{Sink, quoted};
use super::reader::{Field, Section};
use super::rig::{Rig, Rule, Then, When};
use super::vocabulary::Vocabulary;

/// The most rules of a rig.
const MAX: usize = 128;

/// A rule as far as it could be read before the rig is known.
pub(super) struct RuleDraft<'a> {
    name: Option<String>,
    why: Option<String>,
    when: Option<When>,
    then: Then,
    ask: bool,
    require: Option<(&'a str, Range<usize>)>,
}

/// Reads all rules.
pub(super) fn read<'a>(sink: &mut Sink<'_>, root: &mut Section<'a>) -> Vec<RuleDraft<'a>> {
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    let sections = root.tables(sink, "rule", MAX);
    sections.into_iter().map(|s| one(sink, s, &mut names)).collect()
}

fn one<'a>(sink: &mut Sink<'_>, mut s: Section<'a>, names: &mut Vec<(String, Range<usize>)>) -> RuleDraft<'a> {
    let name = s.need(sink, "name", "name it: name = \"dark while slewing\"").and_then(|f| {
        let name = f.line(sink)?;
        if let Some((_, first)) = names.iter().find(|(n, _)| n == name) {
            let message = format!("there is a rule {} on line {} already", quoted(name), sink.line(first));
            return f.bad(sink, message, "give each a name of its own");
        }
        names.push((name.to_owned(), f.span()));
        Some(name.to_owned())
    });
    let why = s.get("why").and_then(|f| f.line(sink).map(str::to_owned));
    let remedy = "write when = \"gate\" (judged before), \"watch\" (trips at any time) or \"both\"";
    let words = [("gate", When::Gate), ("watch", When::Watch), ("both", When::Both)];
    let when = s.need(sink, "when", remedy).and_then(|f| f.one_of(sink, &words));
    let words = [("stop", Then::Stop), ("safe_outputs", Then::SafeOutputs)];
    let then = match when {
        Some(When::Watch | When::Both) => {
            let remedy = "write what is done when it trips: then = \"stop\" or \"safe_outputs\"";
            s.need_here(sink, "then", remedy).and_then(|f| f.one_of(sink, &words))
        }
        _ => {
            if let Some(f) = s.get("then").filter(|_| when.is_some()) {
                sink.say(
                    f.span(),
                    "`then` has no meaning for a gate, which refuses",
                    "remove it, or write when = \"both\"",
                );
            }
            None
        }
    };
    let ask = s.get("ask").is_some_and(|f| {
        let asks = f.one_of(sink, &[("operator", true)]).is_some();
        if asks && matches!(when, Some(When::Watch | When::Both)) {
            sink.say(f.span(), "a watch can't ask: it trips", "write when = \"gate\", or remove `ask`");
        }
        asks
    });
    let remedy = "write what must be true: require = \"stage.sample.x < 10.0\"";
    let require = s.need(sink, "require", remedy).and_then(|f| text(sink, &f));
    s.finish(sink, &[]);
    RuleDraft { name, why, when, then: then.unwrap_or(Then::Stop), ask, require }
}

fn text<'a>(sink: &mut Sink<'_>, field: &Field<'a>) -> Option<(&'a str, Range<usize>)> {
    let text = field.string(sink)?;
    if text.trim().is_empty() {
        return field.bad(sink, "`require` is empty", "write what must be true");
    }
    Some((text, field.span()))
}

/// Compiles the conditions in the words of the rig.
pub(super) fn compile(sink: &mut Sink<'_>, drafts: Vec<RuleDraft<'_>>, rig: &Rig) -> Option<Vec<Rule>> {
    let (gate, watch) = (Vocabulary::of(rig, true), Vocabulary::of(rig, false));
    let mut rules = Some(Vec::new());
    for draft in drafts {
        let rule = finish(sink, draft, &gate, &watch);
        rules = rules.zip(rule).map(|(mut all, rule)| {
            all.push(rule);
            all
        });
    }
    rules
}

fn finish(sink: &mut Sink<'_>, draft: RuleDraft<'_>, gate: &Vocabulary, watch: &Vocabulary) -> Option<Rule> {
    let when = draft.when?;
    let (text, at) = draft.require?;
    let words = if when == When::Gate { gate } else { watch };
    let require = match Condition::compile(text, words) {
        Ok(condition) => condition,
        // Among other problems a name may be missing because of them.
        Err(flaw) if flaw.unknown && !sink.is_empty() => return None,
        Err(flaw) => {
            let place = place(sink, text, &at, &flaw);
            sink.say(place, flaw.message, flaw.remedy);
            return None;
        }
    };
    Some(Rule { name: draft.name?, why: draft.why, when, then: draft.then, ask: draft.ask, require })
}

/// Where a flaw of a condition stands in the file: within the quotes, unless an escape makes that unknowable.
fn place(sink: &Sink<'_>, text: &str, at: &Range<usize>, flaw: &Flaw) -> Range<usize> {
    match sink.text(at).find(text) {
        Some(start) => at.start + start + flaw.at.start..at.start + start + flaw.at.end,
        None => at.clone(),
    }
}
