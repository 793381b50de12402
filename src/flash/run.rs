//! The steps of a run, one order at a time: each setting is written, read back and compared with everything else, then
//! kept, loaded anew as when power comes on, and compared again. Whatever fails leads back to the old settings. Pure.

use crate::devices::settings::{Change, Controller, Keeping, Order, SettingsEvent, Table};

/// What the run wants done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// This order; its answer is told with [`Run::answer`].
    Order(Order),
    /// The journal says this before anything else happens; told with [`Run::kept`].
    Keep(Goal),
    /// A person switches the controller off and on, since it can't be restarted otherwise; told with [`Run::person`]:
    /// [`Order::AwaitRestart`] follows a yes.
    PowerCycle,
    /// It is over.
    Over(Outcome),
}

/// Which settings the controller shall end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The new ones.
    New,
    /// The old ones.
    Old,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The controller holds exactly the new settings.
    New {
        /// It was seen to load them as when power comes on.
        proved: bool,
    },
    /// The controller holds exactly the old settings.
    Old {
        /// It was seen to load them as when power comes on.
        proved: bool,
        /// Why it doesn't hold the new ones.
        why: String,
    },
    /// The controller holds neither, or nobody can tell.
    Mixed {
        /// Why.
        why: String,
        /// The settings that are not as both are, or may not be.
        settings: Vec<Doubt>,
    },
}

/// A setting of a controller that holds neither the old settings nor the new ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Its full name.
    pub name: String,
    /// What it was.
    pub old: String,
    /// What it should have become.
    pub new: String,
    /// What it is, as read last; `None` when that is not known.
    pub now: Option<String>,
}

/// What the run waits for.
#[derive(Debug, Clone, PartialEq)]
enum At {
    Keep,
    /// The settings are read before a write, or after one: then with the change that was sent and how it was answered.
    Read(Option<Change>),
    Write(Change),
    Save,
    Check,
    Restart,
    Person,
    Await,
    /// Is it the same controller, and are its settings what they shall be?
    Again,
    Final,
    /// Nothing more is tried; what there is is read once more, so that what is told is true.
    Look(String),
    Over(Outcome),
}

/// A run.
#[derive(Debug, Clone)]
pub struct Run {
    who: Controller,
    old: Table,
    new: Table,
    saves: bool,
    rescales: fn(&str) -> Vec<String>,
    goal: Goal,
    at: At,
    /// As read last; what was written since is not in it.
    now: Option<Table>,
    /// A write whose outcome was not seen.
    doubtful: Vec<String>,
    writes: usize,
    reads: usize,
    /// How often the way back was begun anew.
    returns: usize,
    proved: bool,
    why: String,
    /// For people: what has been done, in order.
    log: Vec<String>,
}

/// A list that could not be read is asked for so often.
const READS: usize = 3;
/// The way back is tried so often again.
const RETURNS: usize = 2;
/// So many times as many writes as there are settings, and it will never end.
const ROUNDS: usize = 3;

impl Run {
    /// The way from the settings `old`, which the controller has, to `new`.
    pub fn new(who: Controller, old: Table, new: Table, keeping: &Keeping) -> Run {
        Run::towards(Goal::New, who, old, new, keeping, "")
    }

    /// The way on from wherever a run was cut off, to the goal that it had then.
    pub fn resumed(goal: Goal, who: Controller, old: Table, new: Table, keeping: &Keeping) -> Run {
        Run::towards(goal, who, old, new, keeping, "the run before was cut off while it went back")
    }

    fn towards(goal: Goal, who: Controller, old: Table, new: Table, keeping: &Keeping, why: &str) -> Run {
        Run {
            who,
            old,
            new,
            saves: keeping.saves,
            rescales: keeping.rescales,
            goal,
            at: At::Keep,
            now: None,
            doubtful: Vec::new(),
            writes: 0,
            reads: 0,
            returns: 0,
            proved: false,
            why: why.to_owned(),
            log: Vec::new(),
        }
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        match &self.at {
            At::Keep => Step::Keep(self.goal),
            At::Read(_) | At::Check | At::Final | At::Look(_) => Step::Order(Order::Read),
            At::Write(change) => Step::Order(Order::Write { name: change.name.clone(), value: change.new.clone() }),
            At::Save => Step::Order(Order::Save),
            At::Restart => Step::Order(Order::Restart),
            At::Person => Step::PowerCycle,
            At::Await => Step::Order(Order::AwaitRestart),
            At::Again => Step::Order(Order::Identify),
            At::Over(outcome) => Step::Over(outcome.clone()),
        }
    }

    /// For people: which settings the controller is on its way to, how many differ still, and what is done now.
    pub fn progress(&self) -> (Goal, usize, usize, String) {
        let (total, left) = match &self.now {
            Some(now) => (self.old.changes(&self.new).len(), now.changes(self.wanted()).len()),
            None => (self.old.changes(&self.new).len(), self.old.changes(self.wanted()).len()),
        };
        let what = match &self.at {
            At::Keep => "writing the journal".into(),
            At::Read(_) | At::Check | At::Final | At::Look(_) => "reading all settings".into(),
            At::Write(c) => format!("{} = {}", c.name, c.new),
            At::Save => "saving".into(),
            At::Restart | At::Person | At::Await => "restarting".into(),
            At::Again => "identifying".into(),
            At::Over(_) => "done".into(),
        };
        (self.goal, total, left, what)
    }

    /// What has been done, for people and for the record.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    fn wanted(&self) -> &Table {
        match self.goal {
            Goal::New => &self.new,
            Goal::Old => &self.old,
        }
    }

    /// The journal was written, or could not be.
    pub fn kept(&mut self, kept: Result<(), String>) {
        match (kept, self.goal) {
            (Ok(()), _) => self.read(None),
            (Err(why), Goal::New) => {
                // Nothing was written: the controller is as it was.
                let why = format!("the journal could not be written: {why}");
                self.at = At::Over(Outcome::Old { proved: true, why });
            }
            // The journal that is there leads to the same settings.
            (Err(_), Goal::Old) => self.read(None),
        }
    }

    /// Somebody wants it to end: back to the old settings, if that is not the way already.
    pub fn turn_back(&mut self) {
        if self.goal == Goal::New && !matches!(self.at, At::Over(_)) {
            self.back("it was told to end");
        }
    }

    /// A person has switched the controller off and on, or won't.
    pub fn person(&mut self, will: bool) {
        if will {
            self.at = At::Await;
        } else {
            self.log.push("not restarted".into());
            self.again();
        }
    }

    /// What came of the last order.
    pub fn answer(&mut self, event: SettingsEvent) {
        match (self.at.clone(), event) {
            (At::Read(after), SettingsEvent::Table(table)) => self.has_read(after, table),
            (At::Check, SettingsEvent::Table(table)) => {
                let wrong = table.differences(self.wanted());
                self.now = Some(table);
                if wrong.is_empty() { self.at = At::Restart } else { self.back(&told("after saving", &wrong)) }
            }
            (At::Final, SettingsEvent::Table(table)) => {
                let wrong = table.differences(self.wanted());
                self.now = Some(table);
                if wrong.is_empty() { self.done() } else { self.back(&told("after a restart", &wrong)) }
            }
            (At::Look(why), SettingsEvent::Table(table)) => {
                self.now = Some(table);
                self.doubtful.clear();
                self.mixed(&why);
            }
            (At::Look(why), event) => {
                self.reads += 1;
                if self.reads >= READS {
                    // A write whose outcome nobody saw may have changed anything.
                    self.now = None;
                    self.mixed(&format!("{why}; and {}", words(&event)));
                }
            }
            (At::Read(_) | At::Check | At::Final, event) => self.unread(event),
            (At::Write(change), SettingsEvent::Done) => {
                self.log.push(format!("{} = {} acknowledged", change.name, change.new));
                self.read(Some(change));
            }
            (At::Write(change), SettingsEvent::Refused(what)) => {
                self.log.push(format!("{} = {} refused: {what}", change.name, change.new));
                self.back(&format!("the controller refused {} = {}: {what}", change.name, change.new));
            }
            (At::Write(change), event) => {
                let what = words(&event);
                self.log.push(format!("{} = {}: {what}", change.name, change.new));
                self.doubtful.push(change.name.clone());
                self.back(&format!("whether {} became {} is not known: {what}", change.name, change.new));
            }
            (At::Save, SettingsEvent::Done) => {
                self.log.push("saved".into());
                self.reads = 0;
                self.at = At::Check;
            }
            (At::Save, event) => self.back(&format!("the settings could not be saved: {}", words(&event))),
            (At::Restart | At::Await, SettingsEvent::Done) => {
                self.log.push("restarted".into());
                self.proved = true;
                self.again();
            }
            (At::Restart, SettingsEvent::Refused(what)) => {
                self.log.push(what);
                self.at = At::Person;
            }
            (At::Restart | At::Await, event) => {
                self.log.push(words(&event));
                self.again();
            }
            (At::Again, SettingsEvent::Known(who)) if who == self.who => {
                self.reads = 0;
                self.at = At::Final;
            }
            (At::Again, SettingsEvent::Known(who)) => {
                self.mixed(&format!("after the restart another controller answers: {who}"));
            }
            (At::Again, event) => {
                self.reads += 1;
                if self.reads >= READS {
                    self.mixed(&format!("after the restart nobody answers: {}", words(&event)));
                }
            }
            (At::Keep | At::Person | At::Over(_), _) => {}
        }
    }

    fn again(&mut self) {
        self.reads = 0;
        self.at = At::Again;
    }

    fn read(&mut self, after: Option<Change>) {
        self.reads = 0;
        self.at = At::Read(after);
    }

    /// All settings were read, perhaps after a write.
    fn has_read(&mut self, after: Option<Change>, table: Table) {
        let before = self.now.replace(table.clone());
        self.doubtful.clear();
        if let (Some(change), Some(mut expected)) = (after, before) {
            expected.set(&change.name, &change.new);
            let rescaled = (self.rescales)(&change.name);
            let wrong: Vec<_> =
                table.differences(&expected).into_iter().filter(|(name, ..)| !rescaled.contains(name)).collect();
            if !wrong.is_empty() {
                return self.back(&told(&format!("after writing {}", change.name), &wrong));
            }
        }
        // A controller that has settings less or more than before is another one, or its list is not whole.
        let alien = table.differences(self.wanted()).into_iter().find(|(_, a, b)| a.is_none() || b.is_none());
        if let Some((name, ..)) = alien {
            return self.mixed(&format!("its list of settings is another one than before: {name}"));
        }
        match table.changes(self.wanted()).into_iter().next() {
            Some(_) if self.writes > ROUNDS * table.iter().count() => {
                self.back("the settings never become what they shall be");
            }
            Some(change) => {
                self.writes += 1;
                self.at = At::Write(change);
            }
            None => {
                // What can't be written may differ all the same.
                let wrong = table.differences(self.wanted());
                if !wrong.is_empty() {
                    return self.back(&told("which can't be written", &wrong));
                }
                self.reads = 0;
                self.at = if self.saves { At::Save } else { At::Restart };
            }
        }
    }

    fn unread(&mut self, event: SettingsEvent) {
        self.reads += 1;
        if self.reads < READS {
            return;
        }
        // Without a list nobody knows what there is to undo, and a write that was acknowledged may have changed anything.
        if matches!(self.at, At::Read(Some(_))) || !self.doubtful.is_empty() {
            self.now = None;
        }
        self.mixed(&format!("its settings can't be read: {}", words(&event)));
    }

    /// Something failed: back to the old settings; and if that is the way already, once more, but not for ever.
    fn back(&mut self, why: &str) {
        self.log.push(why.to_owned());
        match self.goal {
            Goal::New => {
                why.clone_into(&mut self.why);
                (self.goal, self.writes, self.proved) = (Goal::Old, 0, false);
                self.at = At::Keep;
            }
            Goal::Old if self.returns < RETURNS => {
                self.returns += 1;
                (self.writes, self.proved) = (0, false);
                self.read(None);
            }
            Goal::Old => {
                self.reads = 0;
                self.at = At::Look(why.to_owned());
            }
        }
    }

    fn done(&mut self) {
        let proved = self.proved;
        self.at = At::Over(match self.goal {
            Goal::New => Outcome::New { proved },
            Goal::Old => Outcome::Old { proved, why: self.why.clone() },
        });
    }

    fn mixed(&mut self, why: &str) {
        self.log.push(why.to_owned());
        let both =
            if self.why.is_empty() || self.why == why { why.to_owned() } else { format!("{}; then {why}", self.why) };
        let now = self.now.as_ref();
        let of = |setting: &crate::devices::settings::Setting| {
            let new = self.new.get(&setting.name).map_or("", |s| &s.value).to_owned();
            let is = now.and_then(|t| t.get(&setting.name)).map(|s| s.value.clone());
            let doubtful = self.doubtful.contains(&setting.name)
                || matches!(&self.at, At::Write(c) | At::Read(Some(c)) if c.name == setting.name);
            let same = setting.meaning.form.same(&setting.value, &new);
            let as_both = same && is.as_ref().is_some_and(|v| setting.meaning.form.same(v, &new)) && !doubtful;
            (!as_both && setting.meaning.kept).then(|| Doubt {
                name: setting.name.clone(),
                old: setting.value.clone(),
                new,
                now: is.filter(|_| !doubtful),
            })
        };
        let settings = self.old.iter().filter_map(of).collect();
        self.at = At::Over(Outcome::Mixed { why: both, settings });
    }
}

fn told(when: &str, wrong: &[(String, Option<String>, Option<String>)]) -> String {
    let one = |(name, is, wanted): &(String, Option<String>, Option<String>)| {
        let value = |v: &Option<String>| v.clone().unwrap_or_else(|| "missing".into());
        format!("{name} is {}, not {}", value(is), value(wanted))
    };
    let all: Vec<String> = wrong.iter().take(5).map(one).collect();
    let more = if wrong.len() > 5 { format!(" and {} more", wrong.len() - 5) } else { String::new() };
    format!("{when}: {}{more}", all.join(", "))
}

fn words(event: &SettingsEvent) -> String {
    match event {
        SettingsEvent::NoPort(what) | SettingsEvent::Refused(what) | SettingsEvent::Unclear(what) => what.clone(),
        SettingsEvent::Known(who) => format!("it is {who}"),
        SettingsEvent::Table(_) => "it told its settings".into(),
        SettingsEvent::Done => "done".into(),
    }
}
