//! A workbench on virtual time: a controller of the simulated bench, and `flash` on its port.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;
use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::config::Problems;
use steadyhand::devices::link::memory::Far;
use steadyhand::devices::settings::{Controller, Keeping, Order, Settings, SettingsEvent, Table};
use steadyhand::flash::plan::{Plan, plan};
use steadyhand::flash::profile::{Read, keeping};
use steadyhand::flash::run::{Goal, Outcome, Run};
use steadyhand::flash::{Hands, carry_out};
use steadyhand::model::Time;

/// How long an order may take, so that a test ends.
const LONGEST: Duration = Duration::from_secs(400);

/// What is still to happen: when, and what.
pub type Mishaps = Vec<(Duration, Fault)>;

pub struct Shop {
    pub bench: Bench,
    pub device: String,
    pub keeping: &'static Keeping,
    pub address: u8,
    far: Far,
    settings: Box<dyn Settings>,
    pub now: Duration,
    next: Duration,
    falls: u64,
    pulled: u64,
    /// What the journal on the disk says.
    pub journal: Option<Goal>,
    /// The disk takes no journal.
    pub full: bool,
    /// What a person answers who is asked to switch the controller off and on.
    pub person: bool,
    pub asked_person: usize,
    pub mishaps: Mishaps,
    /// The program dies then.
    pub dies: Option<Duration>,
    pub dead: bool,
    pub orders: Vec<Order>,
}

impl Shop {
    pub fn new(driver: &str, bench: Bench, device: &str, address: u8) -> Shop {
        let keeping = keeping(driver).expect("a driver with settings");
        let far = Far::default();
        far.wire_dtr(true);
        let settings = (keeping.open)(far.connector(device), address);
        let now = bench.now();
        Shop {
            bench,
            device: device.to_owned(),
            keeping,
            address,
            far,
            settings,
            now,
            next: now,
            falls: 0,
            pulled: 0,
            journal: None,
            full: false,
            person: true,
            asked_person: 0,
            mishaps: Vec::new(),
            dies: None,
            dead: false,
            orders: Vec::new(),
        }
    }

    /// The port has no line that restarts the board.
    pub fn without_dtr(self) -> Shop {
        self.far.wire_dtr(false);
        self
    }

    /// The program is started anew; the bench goes on where it is.
    pub fn reborn(mut self) -> Shop {
        self.far = Far::default();
        self.far.wire_dtr(true);
        self.settings = (self.keeping.open)(self.far.connector(&self.device), self.address);
        (self.falls, self.pulled) = (0, self.bench.unplugs(&self.device));
        (self.dies, self.dead) = (None, false);
        self
    }

    fn carry(&mut self) {
        while self.mishaps.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, fault) = self.mishaps.remove(0);
            self.bench.fault(&self.device, fault).expect("a fault that the bench knows");
        }
        if self.far.falls() > self.falls {
            self.falls = self.far.falls();
            self.bench.fault(&self.device, Fault::Reset).expect("a restart");
        }
        self.bench.advance(self.now);
        let plugged = self.bench.plugged(&self.device);
        let pulled = self.bench.unplugs(&self.device);
        self.far.plug(plugged && pulled == self.pulled);
        self.far.plug(plugged);
        self.pulled = pulled;
        if !plugged {
            self.far.take();
            return;
        }
        let bytes = self.far.take();
        if !bytes.is_empty() {
            self.bench.write(&self.device, &bytes);
        }
        self.far.set_unsent(self.bench.unsent(&self.device));
        let back = self.bench.read(&self.device);
        if !back.is_empty() {
            self.far.give(&back);
            self.next = self.now;
        }
    }

    /// Lets so much time pass without the program.
    pub fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += Duration::from_millis(1);
            self.carry();
        }
    }

    /// Switches the controller off and on.
    pub fn power(&mut self) {
        self.bench.fault(&self.device, Fault::Reset).expect("a restart");
        self.rest(Duration::from_secs(3));
    }

    pub fn ask(&mut self, order: Order) -> SettingsEvent {
        self.order(order)
    }

    pub fn known(&mut self) -> Controller {
        match self.ask(Order::Identify) {
            SettingsEvent::Known(who) => who,
            other => panic!("{other:?}"),
        }
    }

    pub fn table(&mut self) -> Table {
        match self.ask(Order::Read) {
            SettingsEvent::Table(table) => table,
            other => panic!("{other:?}"),
        }
    }

    /// The plan of a profile's text.
    pub fn plan(&mut self, text: &str, axis: Option<&str>, allow: &[&str]) -> Result<Plan, Problems> {
        let read = Read::parse(text, Path::new("profile.toml"))?;
        let (who, table) = (self.known(), self.table());
        let allow: Vec<String> = allow.iter().map(|a| (*a).to_owned()).collect();
        plan(&read, self.keeping, &who, &table, axis, &allow)
    }

    pub fn run(&mut self, plan: &Plan) -> Outcome {
        let mut run = Run::new(plan.who.clone(), plan.old.clone(), plan.new.clone(), self.keeping);
        self.carry_out(&mut run)
    }

    pub fn carry_out(&mut self, run: &mut Run) -> Outcome {
        let outcome = carry_out(run, self);
        match outcome {
            Outcome::New { .. } | Outcome::Old { .. } if !self.dead => self.journal = None,
            _ => {}
        }
        outcome
    }
}

impl Hands for Shop {
    fn order(&mut self, order: Order) -> SettingsEvent {
        if self.dead {
            return SettingsEvent::Unclear("the program is dead".into());
        }
        self.orders.push(order.clone());
        let begun = self.now;
        self.settings.order(order, Time(self.now));
        let mut events = Vec::new();
        loop {
            self.carry();
            if self.next <= self.now {
                self.next = self.settings.tick(Time(self.now), &mut events).0;
                self.carry();
            }
            for event in events.drain(..) {
                match event {
                    SettingsEvent::NoPort(_) if self.now < begun + Duration::from_secs(20) => {}
                    SettingsEvent::NoPort(what) => return SettingsEvent::Unclear(what),
                    event => return event,
                }
            }
            if self.dies.is_some_and(|at| at <= self.now) {
                self.dead = true;
                return SettingsEvent::Unclear("the program dies".into());
            }
            assert!(self.now < begun + LONGEST, "an order without an end: {:?}", self.orders.last());
            self.now += Duration::from_micros(500);
        }
    }

    fn keep(&mut self, goal: Goal) -> Result<(), String> {
        if self.dead {
            return Err("the program is dead".into());
        }
        if self.full {
            return Err("no space left".into());
        }
        self.journal = Some(goal);
        Ok(())
    }

    fn power_cycle(&mut self) -> bool {
        self.asked_person += 1;
        if self.person {
            // A person needs some time for it, and the program waits meanwhile.
            let at = self.now + Duration::from_secs(4);
            self.mishaps.push((at, Fault::Reset));
            self.mishaps.sort_by_key(|(at, _)| *at);
        }
        self.person
    }

    fn ended(&mut self) -> bool {
        false
    }

    fn progress(&mut self, _: &Run) {}
}
