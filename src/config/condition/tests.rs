//! Conditions: what they mean, what is told of wrong ones, and texts that want to break the parser.

use std::path::Path;

use super::*;
use crate::config::{self, Rig};

fn rig() -> Rig {
    config::parse(&config::tests::outputs::good(), Path::new("rig.toml"), &config::tests::KNOWN).expect("a good file")
}

fn compile(text: &str) -> Result<Condition, Flaw> {
    Condition::compile(text, &Vocabulary::of(&rig(), true))
}

/// What a condition answers when its words have these values.
fn answer(text: &str, values: &[(&str, Value)]) -> Result<bool, Undecided> {
    let condition = compile(text).unwrap_or_else(|f| panic!("{text}: {f:?}"));
    let of = |r: &Reads| values.iter().find(|(n, _)| *n == r.name).map(|(_, v)| v.clone());
    condition.holds(&condition.reads().iter().map(of).collect::<Vec<_>>())
}

fn number(v: f64) -> Value {
    Value::Number(v)
}

fn text(v: &str) -> Value {
    Value::Text(v.into())
}

#[test]
fn conditions_mean_what_they_say() {
    let (slow, fast, open, shut) = (number(0.05), number(2.0), text("open"), text("closed"));
    let dark = "output.blind == 'closed' || stage.s.speed < 0.1";
    for (blind, speed, holds) in [(&open, &slow, true), (&open, &fast, false), (&shut, &fast, true)] {
        let values = [("output.blind", blind.clone()), ("stage.s.speed", speed.clone())];
        assert_eq!(answer(dark, &values), Ok(holds), "{values:?}");
    }
    let at = |v| [("stage.s.x", number(v))];
    assert_eq!(answer("stage.s.x < 10", &at(9.5)), Ok(true), "whole numbers compare with fractions");
    assert_eq!(answer("stage.s.x + 1 < 10 * 1.0", &at(9.5)), Ok(false));
    assert_eq!(answer("abs(stage.s.x - 5) <= 1 && !(stage.s.x == 5)", &at(4.0)), Ok(true));
    assert_eq!(answer("stage.s.x > 5 ? stage.s.x < 8 : stage.s.x < -1", &at(7.0)), Ok(true));
    let filter = [("output.filter", text("gfp"))];
    assert_eq!(answer("output.filter in ['dapi', 'gfp']", &filter), Ok(true));
}

#[test]
fn what_is_not_known_decides_nothing_unless_the_rest_does() {
    let dark = "output.blind == 'closed' || stage.s.speed < 0.1";
    assert_eq!(answer(dark, &[("stage.s.speed", number(0.0))]), Ok(true));
    assert_eq!(answer(dark, &[("output.blind", text("closed"))]), Ok(true));
    assert_eq!(answer(dark, &[("stage.s.speed", number(3.0))]), Err(Undecided));
    assert_eq!(answer(dark, &[]), Err(Undecided));
    assert_eq!(answer("!stage.s.moving && output.lamp < 5", &[("stage.s.moving", Value::Flag(true))]), Ok(false));
}

#[test]
fn a_wrong_name_is_told_with_the_one_that_was_meant() {
    let flaw = compile("stage.s.x < 1 && stage.s.sped < 2.0").unwrap_err();
    assert_eq!(
        (&"stage.s.x < 1 && stage.s.sped < 2.0"[flaw.at.clone()], flaw.remedy.as_str()),
        ("stage.s.sped", "did you mean `stage.s.speed`?")
    );
    assert!(flaw.message.contains("no `stage.s.sped`"), "{flaw:?}");
    let watch = Condition::compile("move.kind == 'home'", &Vocabulary::of(&rig(), false)).unwrap_err();
    assert!(watch.remedy.contains("only a gate"), "{watch:?}");
    assert!(compile("sample.x < 1.0").unwrap_err().remedy.contains("begin with stage"));
    assert!(compile("output.blnd == 'open'").unwrap_err().remedy.contains("output.blind"));
}

#[test]
fn values_that_can_t_be_compared_are_told_before_anything_runs() {
    for (wrong, message, remedy) in [
        ("output.lamp == 'off'", "a number can't be compared with a text", "a number in %"),
        ("output.blind == 'close'", "never 'close'", "did you mean 'closed'?"),
        ("'gfb' == output.filter", "never 'gfb'", "'gfp'"),
        ("output.filter in ['gfp', 'red']", "never 'red'", "'dapi', 'gfp'"),
        ("stage.s.moving == 1", "true or false can't be compared with a number", "write stage.s.moving alone"),
        ("stage.s.x && stage.s.moving", "needs true or false", "a number in um"),
        ("output.blind < 3", "needs a number", "one of 'open', 'closed'"),
        ("stage.s.x", "this is a number", "compare it"),
        ("stage.s.x + 1", "this is a number", "compare it"),
        ("true", "always the same", "name what"),
        ("stage.s.x / stage.s.y < 1.0", "that isn't zero", "multiply"),
        ("stage.s.x / 0 < 1.0", "that isn't zero", "multiply"),
        ("stage.s.x < 1e300", "too large", "at most"),
        ("[1, 2].all(v, v < 3)", "no maps, structures or loops", "comparisons"),
        ("size('abc') < stage.s.x", "no `size`", "there are"),
        ("'abc'.startsWith('a')", "can't be called", "comparisons"),
        ("has(stage.s.x)", "this is no name", "docs"),
        ("stage.s.x < {1: 2}", "no maps", "comparisons"),
        ("stage.s.x % 2 == 0", "no `%`", "there are"),
    ] {
        let flaw = compile(wrong).expect_err(wrong);
        assert!(flaw.message.contains(message) && flaw.remedy.contains(remedy), "{wrong}: {flaw:?}");
    }
}

#[test]
fn a_syntax_error_is_shown_where_it_is() {
    let flaw = compile("stage.s.x < && true").unwrap_err();
    assert!((10..=13).contains(&flaw.at.start), "{flaw:?}");
    let flaw = compile("stage.s.x < 5.0 &&\n  stage.s.y <").unwrap_err();
    assert!(flaw.at.start > 18, "{flaw:?}");
}

/// Hostile texts, each of them far too long and then as long as is let through.
fn hostile() -> Vec<String> {
    let pieces = [
        "(", "!", "-", "[", "{", "a?", "a?b:", "a.", "1+", "a&&", "a||", "!(", "-(", "f(", "'", "\"", "a[", "))", "''",
        "in ", "?:", "\n(",
    ];
    let mut all = Vec::new();
    for piece in pieces {
        for length in [100_000, LONGEST] {
            all.push(piece.repeat(length / piece.len()));
            all.push(format!("{}stage.s.moving", piece.repeat((length - 14) / piece.len())));
        }
        // As deep as the first look lets through.
        all.push(format!("{}stage.s.moving{}", piece.repeat(DEEPEST), ")".repeat(DEEPEST)));
    }
    let chain = |op: &str| vec!["stage.s.moving"; LONGEST / (14 + op.len())].join(op);
    all.extend([chain("&&"), chain("||"), chain("=="), chain("?true:")]);
    all
}

#[test]
fn hostile_texts_are_refused_on_a_small_stack() {
    // Half of what the main thread of a Windows program has.
    let work = || {
        let vocabulary = Vocabulary::of(&rig(), true);
        for text in hostile() {
            if let Ok(condition) = Condition::compile(&text, &vocabulary) {
                let unknown = vec![None; condition.reads().len()];
                assert_eq!(condition.holds(&unknown), Err(Undecided), "{text}");
                let flags = vec![Some(Value::Flag(true)); condition.reads().len()];
                assert!(condition.holds(&flags).is_ok(), "{text}");
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(work).unwrap();
    thread.join().unwrap();
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_condition_or_a_flaw_within_it(text in "[a-z.<>=!&|?:()\\[\\]'0-9 +*/-]{0,60}|(stage\\.s\\.x|output\\.blind|'open'|<|==|!=|&&|\\|\\||\\(|\\)|!|\\+|-|\\*|/| in |\\[|\\]| |1|2\\.5|true|abs\\(|\\?|:){1,12}|(!?\\(?(stage\\.s\\.moving|true|stage\\.s\\.x [<>] -?[0-9]|output\\.blind [!=]= 'open')\\)? ?(&&|\\|\\||\\?|:|==) ?){0,6}stage\\.s\\.homed") {
        match compile(&text) {
            Ok(condition) => {
                let words = Vocabulary::of(&rig(), true);
                let value = |r: &Reads| match words.word(&r.name).map(|w| w.of) {
                    Some(Type::Number) => Some(Value::Number(3.0)),
                    Some(Type::Text) => Some(Value::Text("open".into())),
                    Some(Type::Flag) => Some(Value::Flag(true)),
                    None => None,
                };
                let known: Vec<Option<Value>> = condition.reads().iter().map(value).collect();
                proptest::prop_assert!(condition.holds(&known).is_ok(), "{text}: what was checked answers");
            }
            Err(flaw) => proptest::prop_assert!(flaw.at.end <= text.len() && !flaw.remedy.is_empty(), "{text}: {flaw:?}"),
        }
    }
}
