//! A controller of a few lines that speaks GRBL's `$` commands, and what can be wrong with it.
#![allow(unreachable_pub)]

use std::time::Duration;

use steadyhand::devices::link::memory::Far;
use steadyhand::devices::settings::{Order, Settings, SettingsEvent};
use steadyhand::flash::run::{Goal, Outcome, Run};
use steadyhand::flash::{Hands, carry_out, profile};
use steadyhand::model::Time;

const BANNER: &str = "\r\nGrbl 1.1h ['$' for help]\r\n";

pub struct Peer {
    far: Far,
    settings: Box<dyn Settings>,
    now: Duration,
    table: Vec<(String, String)>,
    line: String,
    heard: String,
    deaf: Duration,
    deaf_until: Duration,
    /// A line that arrives as another one, so often.
    cut: Option<(String, String, u32)>,
    /// What it answers to lines that begin so, once, without storing anything.
    answers: Vec<(String, String)>,
    looping: bool,
    restarting: bool,
    falls: u64,
}

impl Peer {
    pub fn new(table: &[(&str, &str)]) -> Peer {
        let far = Far::default();
        far.wire_dtr(true);
        let settings = (profile::keeping("grbl").expect("grbl").open)(far.connector("peer"), 1);
        let table = table.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Peer {
            far,
            settings,
            now: Duration::ZERO,
            table,
            line: String::new(),
            heard: String::new(),
            deaf: Duration::ZERO,
            deaf_until: Duration::ZERO,
            cut: None,
            answers: Vec::new(),
            looping: false,
            restarting: false,
            falls: 0,
        }
    }

    pub fn deaf_after_writes(self, deaf: Duration) -> Peer {
        Peer { deaf, ..self }
    }

    pub fn cutting(self, line: &str, arrives: &str, times: u32) -> Peer {
        Peer { cut: Some((line.into(), arrives.into(), times)), ..self }
    }

    pub fn saying(mut self, line: &str, says: &str) -> Peer {
        self.answers.push((line.into(), format!("{says}\r\n")));
        self
    }

    pub fn refusing(self, line: &str, error: &str) -> Peer {
        self.saying(line, error)
    }

    pub fn alarming(self, line: &str) -> Peer {
        self.saying(line, "ALARM:14")
    }

    pub fn looping(self) -> Peer {
        Peer { looping: true, ..self }
    }

    pub fn restarting_in_lists(self) -> Peer {
        Peer { restarting: true, ..self }
    }

    pub fn stored(&self, name: &str) -> String {
        self.table.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap_or_default()
    }

    /// All lines that it was sent.
    pub fn heard(&self) -> &str {
        &self.heard
    }

    pub fn writes(&self) -> usize {
        self.heard.lines().filter(|l| l.starts_with('$') && l.contains('=')).count()
    }

    pub fn carry_out(&mut self, run: &mut Run) -> Outcome {
        carry_out(run, self)
    }

    fn hear(&mut self) {
        if self.far.falls() > self.falls {
            self.falls = self.far.falls();
            self.far.give(BANNER.as_bytes());
        }
        for byte in self.far.take() {
            if self.now < self.deaf_until {
                continue;
            }
            match byte {
                b'?' => self.far.give(b"<Idle|MPos:0.000,0.000,0.000|FS:0,0>\r\n"),
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    self.obey(&line);
                }
                other => self.line.push(char::from(other)),
            }
        }
    }

    fn obey(&mut self, line: &str) {
        self.heard += &format!("{line}\n");
        let mut line = line.to_owned();
        if let Some((is, arrives, times)) = &mut self.cut
            && *is == line
            && *times > 0
        {
            *times -= 1;
            line.clone_from(arrives);
        }
        if let Some(i) = self.answers.iter().position(|(begins, _)| line.starts_with(begins.as_str())) {
            let (_, says) = self.answers.remove(i);
            self.far.give(says.as_bytes());
            return;
        }
        let said = match line.as_str() {
            "$I" => "[VER:1.1h.20190830:]\r\n[OPT:V,15,128]\r\nok\r\n".to_owned(),
            "$N" => "$N0=\r\n$N1=\r\nok\r\n".to_owned(),
            "$$" if self.restarting => format!("$100=250.000\r\n$101=25{BANNER}"),
            "$$" if self.looping => (0..400).map(|_| "$15=1\r\n$16=0\r\n$17=1\r\n$18=0\r\n$19=1\r\n").collect(),
            "$$" => self.table.iter().map(|(n, v)| format!("{n}={v}\r\n")).collect::<String>() + "ok\r\n",
            other => match other.split_once('=') {
                Some((name, value)) => match self.table.iter_mut().find(|(n, _)| n == name) {
                    Some((_, stored)) => {
                        *stored = format!("{:.3}", value.parse::<f64>().expect("a number"));
                        self.deaf_until = self.now + self.deaf;
                        "ok\r\n".to_owned()
                    }
                    None => "error:3\r\n".to_owned(),
                },
                None => "error:1\r\n".to_owned(),
            },
        };
        self.far.give(said.as_bytes());
    }
}

impl Hands for Peer {
    fn order(&mut self, order: Order) -> SettingsEvent {
        let end = self.now + Duration::from_secs(120);
        self.settings.order(order, Time(self.now));
        let mut events = Vec::new();
        loop {
            self.hear();
            self.settings.tick(Time(self.now), &mut events);
            if let Some(event) = events.drain(..).find(|e| !matches!(e, SettingsEvent::NoPort(_))) {
                return event;
            }
            self.now += Duration::from_millis(1);
            assert!(self.now < end, "an order without an end");
        }
    }

    fn keep(&mut self, _: Goal) -> Result<(), String> {
        Ok(())
    }

    fn power_cycle(&mut self) -> bool {
        false
    }

    fn ended(&mut self) -> bool {
        false
    }

    fn progress(&mut self, _: &Run) {}
}
