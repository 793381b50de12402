//! Any text as the condition of a rule: a condition that answers for any values, or a flaw within the text.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use steadyhand::config::{self, Condition, Type, Value, Vocabulary};
use steadyhand::devices;

const RIG: &str = include_str!("../../rigs/interlocks.toml");

fn vocabulary() -> &'static Vocabulary {
    static WORDS: OnceLock<Vocabulary> = OnceLock::new();
    WORDS.get_or_init(|| {
        let rig = config::parse(RIG, Path::new("interlocks.toml"), &devices::known()).expect("the example");
        Vocabulary::of(&rig, true)
    })
}

fuzz_target!(|input: (&str, Vec<f64>)| {
    let (text, numbers) = input;
    match Condition::compile(text, vocabulary()) {
        Ok(condition) => {
            let of = |(i, r): (usize, &config::Reads)| {
                let word = vocabulary().word(&r.name)?;
                let number = numbers.get(i).copied().filter(|v| v.abs() <= 1e12)?;
                Some(match word.of {
                    Type::Number => Value::Number(number),
                    Type::Text => Value::Text(word.texts.first().map_or("", String::as_str).into()),
                    Type::Flag => Value::Flag(number > 0.0),
                })
            };
            let values: Vec<Option<Value>> = condition.reads().iter().enumerate().map(of).collect();
            let known = values.iter().all(Option::is_some);
            let answer = condition.holds(&values);
            // All that was checked answers once all is known.
            assert!(answer.is_ok() || !known, "{text}");
        }
        Err(flaw) => assert!(flaw.at.end <= text.len() && !flaw.message.is_empty() && !flaw.remedy.is_empty()),
    }
});
