//! Which axes are on a link, before a rig file says so: what `init` asks. Nothing of it moves or changes anything.

use std::time::Duration;

use super::link::{Connector, IDLE, Wire, WireEvent};
use super::{asi, zaber};
use crate::model::Time;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surveyed {
    /// A device of that kind answers, and has these channels, as rig files write them.
    Here(Vec<String>),
    /// Nobody of that kind answers.
    Silent,
    /// The port can't be opened, and why.
    NoPort(String),
}

/// What one protocol asks, and how it understands the answers. Pure.
pub(super) trait Questions: Send {
    /// The bytes of the next question; `None` after the last.
    fn next(&mut self) -> Option<Vec<u8>>;

    /// Takes what has come; whether the question is answered, so that the next needn't wait.
    fn hear(&mut self, bytes: &[u8]) -> bool;

    /// What was found.
    fn found(&self) -> Vec<String>;
}

/// How long answers to a question are waited for.
const ANSWER: Duration = Duration::from_millis(400);

/// A survey of one link. No call waits.
pub struct Survey {
    wire: Wire,
    questions: Box<dyn Questions>,
    asked: Option<Time>,
    outcome: Option<Surveyed>,
}

/// The survey that finds devices of that driver; `None` for drivers that need none, since they know what axes there
/// may be.
pub fn survey(driver: &str, connector: Box<dyn Connector>) -> Option<Survey> {
    let questions: Box<dyn Questions> = match driver {
        "zaber" => Box::new(zaber::Census::default()),
        "asi" => Box::new(asi::Roll::default()),
        _ => return None,
    };
    Some(Survey { wire: Wire::new(connector), questions, asked: None, outcome: None })
}

impl Survey {
    /// Takes bytes that are there, asks what is due, and says when it wants to be ticked again.
    pub fn tick(&mut self, now: Time) -> Time {
        let mut bytes = Vec::new();
        match self.wire.pump(now, &mut bytes) {
            Some(WireEvent::NotOpened(what) | WireEvent::Lost(what)) => self.outcome = Some(Surveyed::NoPort(what)),
            Some(WireEvent::Opened) | None => {}
        }
        if !self.wire.is_open() || self.outcome.is_some() {
            return self.wire.wants(now).unwrap_or(now + IDLE);
        }
        let answered = self.questions.hear(&bytes);
        if !answered && let Some(asked) = self.asked.filter(|at| now.since(*at) < ANSWER) {
            let listen = self.wire.listen(now, asked, Some(asked + ANSWER));
            return self.wire.wants(now).map_or(listen, |w| w.min(listen));
        }
        if !self.wire.is_free() {
            return self.wire.wants(now).unwrap_or(now + IDLE);
        }
        match self.questions.next() {
            Some(question) => {
                self.wire.send(&question, now);
                self.asked = Some(now);
            }
            None => {
                let found = self.questions.found();
                self.outcome = Some(if found.is_empty() { Surveyed::Silent } else { Surveyed::Here(found) });
            }
        }
        now
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Surveyed> {
        self.outcome.as_ref()
    }

    /// Lets go of the port.
    pub fn close(&mut self) {
        self.wire.close();
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::memory::Far;
    use super::*;

    /// A survey of a device that answers each line by `device`.
    fn surveyed(driver: &str, device: impl Fn(&str) -> String) -> (Surveyed, String) {
        let far = Far::default();
        far.plug(true);
        let mut survey = survey(driver, far.connector("memory")).expect("it has a survey");
        let (mut now, mut sent) = (Time::ZERO, String::new());
        for _ in 0..100_000 {
            let next = survey.tick(now);
            if let Some(outcome) = survey.outcome() {
                return (outcome.clone(), sent);
            }
            let asked = String::from_utf8(far.take()).expect("ASCII");
            for line in asked.split_inclusive(['\r', '\n']) {
                far.give(device(line).as_bytes());
            }
            sent += &asked;
            now = next.max(now + Duration::from_millis(1));
        }
        panic!("it never ends: {sent:?}");
    }

    #[test]
    fn every_device_of_a_chain_and_its_axes_are_found() {
        let chain = |line: &str| {
            if line.contains("get system.axiscount") {
                "@02 0 00 OK IDLE -- 2\r\n@01 0 00 OK IDLE WR 1\r\n@07 0 99 OK IDLE -- 1\r\n@08 0 00 RJ IDLE -- BADCOMMAND\r\n"
            } else {
                ""
            }
            .to_owned()
        };
        let found = ["1", "2.1", "2.2"].map(str::to_owned).to_vec();
        assert_eq!(surveyed("zaber", chain).0, Surveyed::Here(found), "the answers to another number are nobody's");
    }

    #[test]
    fn the_letters_of_an_asi_controller_are_found_but_not_what_counts_otherwise() {
        let controller = |line: &str| match line.trim_end() {
            "V" => ":A Version: USB-9.2m\r\n".into(),
            "W X" | "W Z" | "W S" => ":A 5.0 \r\n".into(),
            "UM S?" => ":A S=1\r\n".into(),
            l if l.starts_with("UM ") => format!(":A {}=10000\r\n", &l[3..4]),
            "" => String::new(),
            _ => ":N-2\r\n".to_owned(),
        };
        let found = ["X", "Z"].map(str::to_owned).to_vec();
        assert_eq!(surveyed("asi", controller).0, Surveyed::Here(found));
    }

    /// What GRBL would do on a line: `?`, `!`, `~` and bytes above 127 act at once, `/` and spaces are left out, and words
    /// with letter and number are G-code.
    #[test]
    fn what_is_asked_of_another_kind_is_no_order_to_it() {
        for driver in ["zaber", "asi"] {
            let (outcome, sent) = surveyed(driver, |_| "error:1\r\nok\r\n".into());
            assert_eq!(outcome, Surveyed::Silent, "{driver}");
            // GRBL's hold, resume and reset; ASI's reset, HALT and zero; Zaber's broadcasts that move.
            for bad in ["!", "~", "\u{18}", "HALT", "home", "move", "stop", "set ", "Z ", "M ", "R "] {
                assert!(!sent.contains(bad), "{driver}: {sent:?}");
            }
            for line in sent.split(['\r', '\n']) {
                let words: String = line.chars().filter(|c| !" /".contains(*c)).collect();
                let pairs = words.as_bytes().windows(2);
                let gcode =
                    pairs.take(1).any(|w| w[0].is_ascii_alphabetic() && (w[1].is_ascii_digit() || w[1] == b'-'));
                assert!(!gcode && !words.starts_with('$'), "{driver}: {line:?}");
            }
        }
    }

    #[test]
    fn silence_and_a_port_that_is_not_there_are_told_apart() {
        assert_eq!(surveyed("zaber", |_| String::new()).0, Surveyed::Silent);
        let far = Far::default();
        far.plug(false);
        let mut survey = survey("asi", far.connector("memory")).expect("it has a survey");
        let mut now = Time::ZERO;
        while survey.outcome().is_none() && now < Time::ZERO + Duration::from_secs(5) {
            now = survey.tick(now).max(now + Duration::from_millis(1));
        }
        assert!(matches!(survey.outcome(), Some(Surveyed::NoPort(_))), "{:?}", survey.outcome());
    }
}
