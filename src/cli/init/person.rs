//! Questions to the person at the terminal, and what is taken when nobody is there to answer.

use std::io::{self, BufRead, Write};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::super::say;

/// Who answers.
pub(in super::super) trait Person {
    /// Tells something.
    fn say(&mut self, text: &str);
    /// Asks for one line, without its end; `None` when no more lines come.
    fn line(&mut self, question: &str) -> Option<String>;
    /// The same, unless `over` says meanwhile that nobody is to be waited for any more: `None` then, too.
    fn line_unless(&mut self, question: &str, over: &dyn Fn() -> bool) -> Option<String> {
        let _ = over;
        self.line(question)
    }
    /// Whether somebody is there. Nobody means that proposals are taken, and that nothing is moved.
    fn is_there(&self) -> bool;
}

/// The person at the terminal. Questions go to standard error, so that what is printed can be kept.
pub(in super::super) struct Terminal;

impl Person for Terminal {
    fn say(&mut self, text: &str) {
        say(io::stderr(), text);
    }

    fn line(&mut self, question: &str) -> Option<String> {
        self.line_unless(question, &|| false)
    }

    fn line_unless(&mut self, question: &str, over: &dyn Fn() -> bool) -> Option<String> {
        let mut out = io::stderr();
        let _ = write!(out, "{question} ");
        let _ = out.flush();
        LINES.lock().next(over)
    }

    fn is_there(&self) -> bool {
        true
    }
}

/// The terminal's lines, read by a thread one at a time, since nothing takes a read back that waits: who gives up waiting
/// leaves the line to the next question.
struct Lines {
    ask: SyncSender<()>,
    answers: Receiver<Option<String>>,
    asked: bool,
}

static LINES: LazyLock<Mutex<Lines>> = LazyLock::new(|| {
    let (ask, asks) = sync_channel(1);
    let (answer, answers) = sync_channel(1);
    let read = move || {
        while asks.recv().is_ok() {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            if answer.send(read.is_ok_and(|n| n > 0).then(|| line.trim().to_owned())).is_err() {
                return;
            }
        }
    };
    // Without the thread there is no line: its ends of the channels are gone.
    drop(std::thread::Builder::new().name("terminal".into()).spawn(read));
    Mutex::new(Lines { ask, answers, asked: false })
});

impl Lines {
    fn next(&mut self, over: &dyn Fn() -> bool) -> Option<String> {
        if !self.asked && self.ask.send(()).is_err() {
            return None;
        }
        self.asked = true;
        loop {
            match self.answers.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    self.asked = false;
                    return line;
                }
                Err(RecvTimeoutError::Timeout) if over() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Nobody: what is proposed is taken.
pub(in super::super) struct Nobody;

impl Person for Nobody {
    fn say(&mut self, text: &str) {
        say(io::stderr(), text);
    }

    fn line(&mut self, _: &str) -> Option<String> {
        None
    }

    fn is_there(&self) -> bool {
        false
    }
}

/// An answer, asked until `understand` takes it. An empty line takes the proposal. `flag` is what says it beforehand.
///
/// # Errors
/// When nobody is there, or goes, and nothing is proposed.
pub(in super::super) fn ask<T>(
    person: &mut dyn Person,
    question: &str,
    proposal: Option<&str>,
    flag: &str,
    understand: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    let shown = proposal.map_or_else(|| format!("{question}:"), |p| format!("{question} [{p}]:"));
    let proposed = |why: &str| match proposal {
        Some(text) => understand(text).map_err(|e| format!("{question}: {e}")),
        None => Err(format!("{question}? {why}; say it with {flag}")),
    };
    if !person.is_there() {
        return proposed("Nobody is there to answer");
    }
    loop {
        let Some(line) = person.line(&shown) else { return Err(format!("{question}? The input has ended")) };
        let answer = if line.is_empty() { proposed("There is no proposal") } else { understand(&line) };
        match answer {
            Ok(value) => return Ok(value),
            Err(error) => person.say(&format!("  {error}")),
        }
    }
}

/// A yes or a no. Nobody answers with the proposal.
///
/// # Errors
/// When the person goes.
pub(in super::super) fn yes(person: &mut dyn Person, question: &str, proposal: bool) -> Result<bool, String> {
    let shown = if proposal { "yes" } else { "no" };
    ask(person, question, Some(shown), "--yes", |text| match text.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("answer yes or no".into()),
    })
}

/// A yes or a no, as long as `over` does not say that nobody is to be waited for any more: that is a no. Nobody answers
/// with the proposal.
pub(in super::super) fn yes_unless(
    person: &mut dyn Person,
    question: &str,
    proposal: bool,
    over: &dyn Fn() -> bool,
) -> bool {
    if !person.is_there() {
        return proposal;
    }
    let shown = format!("{question} [{}]:", if proposal { "yes" } else { "no" });
    loop {
        match person.line_unless(&shown, over).map(|l| l.to_ascii_lowercase()).as_deref() {
            None | Some("n" | "no") => return false,
            Some("y" | "yes") => return true,
            Some("") => return proposal,
            Some(_) => person.say("  answer yes or no"),
        }
    }
}

/// A number.
pub(in super::super) fn number(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| format!("{text:?} is no number"))
}

/// A number above zero.
pub(in super::super) fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(|v| if v > 0.0 { Ok(v) } else { Err("it must be greater than zero".into()) })
}

#[cfg(test)]
pub(in super::super) mod script {
    //! A person whose answers are written down.

    use std::collections::VecDeque;

    use super::Person;

    pub(in crate::cli) struct Script {
        pub(in super::super) answers: VecDeque<String>,
        pub(in super::super) told: Vec<String>,
    }

    impl Script {
        pub(in crate::cli) fn new(answers: &[&str]) -> Script {
            Script { answers: answers.iter().map(|a| (*a).to_owned()).collect(), told: Vec::new() }
        }
    }

    impl Person for Script {
        fn say(&mut self, text: &str) {
            self.told.push(text.to_owned());
        }

        fn line(&mut self, question: &str) -> Option<String> {
            self.told.push(question.to_owned());
            self.answers.pop_front()
        }

        fn is_there(&self) -> bool {
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::script::Script;
    use super::*;

    #[test]
    fn a_question_is_asked_until_it_is_understood_and_an_empty_line_takes_the_proposal() {
        let mut person = Script::new(&["fast", "-1", "12.5"]);
        assert_eq!(ask(&mut person, "speed", Some("10"), "--axis", positive), Ok(12.5));
        assert_eq!(ask(&mut Script::new(&[""]), "speed", Some("10"), "--axis", positive), Ok(10.0));
        let ended = ask(&mut Script::new(&[""]), "speed", None, "--axis", positive);
        assert!(ended.is_err_and(|e| e.contains("ended")));
        assert_eq!(yes(&mut Script::new(&["maybe", "n"]), "sure?", true), Ok(false));
    }

    #[test]
    fn nobody_takes_what_is_proposed_and_nothing_else() {
        assert_eq!(ask(&mut Nobody, "speed", Some("10"), "--axis", positive), Ok(10.0));
        let refused = ask(&mut Nobody, "speed", None, "--axis x,speed=…", positive);
        assert!(refused.is_err_and(|e| e.contains("--axis x,speed=…")));
    }

    #[test]
    fn what_is_not_finite_is_no_number() {
        for bad in ["nan", "inf", "1e999", "", "1 mm"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
