//! What comes next: what was broken is mended, what was told is acknowledged, and it works again.

use std::time::Duration;

use steadyhand::actor::Ticket;
use steadyhand::model::{CameraChange, Fault, Home, Name, Remedy, RigError, Shot, StopBy};
use steadyhand::plans::Sequence;
use steadyhand::store::{Kept, PersonStop, Standstills};

use crate::cell::{AXES, Cell, TOLERANCE, program};
use crate::rows::Truth;
use crate::support::{Lab, answer_of};

impl Cell {
    fn wait<T>(&mut self, ticket: Result<Ticket<T>, RigError>) -> Result<T, RigError> {
        let mut ticket = ticket?;
        let until = self.lab.now() + Duration::from_secs(90);
        loop {
            if let Some(answer) = answer_of(&mut ticket) {
                return answer;
            }
            if self.lab.now() > until {
                self.fail("an order was never answered, in calm");
            }
            self.run(Duration::from_millis(50));
        }
    }

    /// The program is started anew, with what it had put on record.
    fn restart(self) -> Cell {
        let scope = Name::new("scope");
        let (stopped, standstills) = (PersonStop::in_memory(), Standstills::in_memory());
        if self.lab.handle.person_stop().stands() {
            stopped.keep(None);
        }
        standstills.keep(&scope, self.lab.handle.standstills().of(&scope));
        let Cell { lab, .. } = self;
        let Lab { bench, .. } = lab;
        let (lab, fragile) = program(&self.rig, bench, Kept { stopped, standstills });
        Cell { lab, fragile, over: false, ..self }
    }

    /// What a person or a model does until it works again; each in a word.
    pub fn go_on(mut self) -> (Cell, Vec<&'static str>) {
        self.note("what comes next");
        self.stands = None;
        let mut done = Vec::new();
        (self.row.mend)(&mut self);
        self.run(Duration::from_millis(500));
        for round in 0..8 {
            let dead = |f: &Fault| match f.remedy {
                Remedy::Restart => true,
                // It does not come back by itself: it took another controller for the right one from the beginning.
                Remedy::Reconnect => round > 3,
                _ => false,
            };
            if self.over || self.lab.scope().fault.as_ref().is_some_and(dead) {
                self = self.restart();
                done.push("restart");
            }
            let ready = |l: &Lab| {
                let s = l.state();
                s.stages.iter().all(|s| s.read_at.is_some()) && s.cameras.iter().all(|c| c.ready)
            };
            for _ in 0..40 {
                let reads = self.lab.state().stages.iter().all(|s| s.read_at.is_some());
                let camera_fault = self.lab.state().cameras.iter().any(|c| c.fault.is_some());
                if ready(&self.lab) || (reads && camera_fault) || self.lab.scope().fault.is_some() {
                    break;
                }
                self.run(Duration::from_millis(250));
            }
            let scope = self.lab.scope();
            let by_person = scope.stopped_by == Some(StopBy::Person);
            if by_person || scope.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Resume) {
                let ticket = self.lab.handle.resume(&self.lab.person(), None);
                let said = self.wait(ticket);
                self.note(format!("resume: {said:?}"));
                done.push("resume");
            } else if scope.fault.is_some() || scope.stopped_by.is_some() {
                let ticket = self.lab.handle.recover(&self.lab.caller, &scope.stage);
                let said = self.wait(ticket);
                self.note(format!("clear: {said:?}"));
                if said.is_ok() {
                    done.push("clear");
                } else {
                    self.run(Duration::from_secs(2));
                }
            } else if self.lab.state().cameras.iter().any(|c| c.fault.is_some()) {
                let ticket = self.lab.handle.recover(&self.lab.caller, &Name::new("cam"));
                let said = self.wait(ticket);
                self.note(format!("clear the camera: {said:?}"));
                if said.is_ok() { done.push("clear") } else { self.run(Duration::from_secs(2)) }
            } else if ready(&self.lab) {
                break;
            }
        }
        self.believed();
        if let Some(fault) = self.lab.scope().fault {
            self.fail(&format!("it stays faulted: {fault:?}"));
        }
        let known = |cell: &Cell| {
            let scope = cell.lab.scope();
            scope.axes.iter().all(|a| a.trust >= cell.peer.trust())
        };
        if !known(&self) || matches!(self.row.truth, Truth::Unseen | Truth::UnseenHome) {
            done.push(if self.peer.homes { "home" } else { "declare" });
            if self.peer.homes {
                let home = Home { stage: Name::new("scope"), axes: vec![] };
                let ticket = self.lab.start(Sequence::home("home".into(), home));
                if let Err(e) = self.wait(ticket) {
                    self.fail(&format!("it doesn't home in calm: {e}"));
                }
            } else {
                for (i, axis) in AXES.iter().enumerate() {
                    let value = self.truth()[i] * if i == 2 { 1000.0 } else { 1.0 };
                    if let Err(e) = self.lab.reference(axis, value) {
                        self.fail(&format!("{axis} can't be declared in calm: {e}"));
                    }
                }
            }
        }
        done.dedup();
        (self, done)
    }

    /// A move and a picture, in calm.
    pub fn works(&mut self) {
        let movement = self.lab.to(&[("x", 32.0), ("y", 18.0)]);
        let ticket = self.lab.begin_move(movement);
        if let Err(e) = self.wait(ticket) {
            self.fail(&format!("it doesn't move in calm: {e}"));
        }
        let at = self.truth();
        if (at[0] - 32.0).abs() > TOLERANCE[0] || (at[1] - 18.0).abs() > TOLERANCE[1] {
            self.fail("a move in calm ended elsewhere");
        }
        let shot = Shot { camera: Name::new("cam"), change: CameraChange::default() };
        let rig = self.lab.handle.rig().clone();
        let ticket = self.lab.start(Sequence::picture("picture".into(), &rig, vec![], shot));
        if let Err(e) = self.wait(ticket) {
            self.fail(&format!("no picture in calm: {e}"));
        }
    }
}
