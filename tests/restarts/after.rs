//! What comes next: however it went, it is acknowledged, the reference is found, and it works again.

use std::time::Duration;

use steadyhand::model::{Code, Home, Move, Name, RigError};
use steadyhand::plans::Sequence;

use super::World;
use super::rigs::AXES;
use super::support::aim;
use super::truth::TOLERANCE;

impl World {
    /// However it went: acknowledge, find the reference, and it works again.
    pub fn works_again(&mut self) {
        (self.untouched_since, self.orphaned_since) = (None, None);
        let mut said = Vec::new();
        for _ in 0..5 {
            // What a program that was killed had ordered may go on for minutes: nobody but a person ends that.
            if !self.still() {
                self.note("stop in calm");
                self.lab().stop();
                self.pass(2000);
            }
            let caller = self.callers[0].clone();
            // What the controller does after a freeze or a kill can look like somebody's hand.
            let person = self.lab().person();
            let ticket = self.lab().handle.resume(&person, None);
            said.push(format!("{:?}", self.wait(ticket).map_err(|e| e.to_string())));
            let ticket = self.lab().handle.recover(&caller, &Name::new("scope"));
            said.push(format!("{:?}", self.wait(ticket).map_err(|e| e.to_string())));
            if let Err(e) = self.reference() {
                said.push(e.to_string());
                continue;
            }
            self.pass(200);
            self.believed();
            (self.coasted, self.garbled, self.link) = (false, false, Duration::ZERO);
            match self.go_to_the_middle() {
                Ok(()) => return,
                Err(e) => said.push(e.to_string()),
            }
        }
        self.fail(&format!("it doesn't come back: {said:#?}"));
    }

    fn reference(&mut self) -> Result<(), RigError> {
        if self.peer.homes {
            let home = Home { stage: Name::new("scope"), axes: vec![] };
            let ticket = self.lab().start(Sequence::home("home".into(), home));
            return self.wait(ticket).map(|_| ());
        }
        let at = self.truth();
        for (i, per_mm) in [(0, 1.0), (1, 1.0), (2, 1000.0)] {
            self.lab().reference(AXES[i], at[i] * per_mm)?;
        }
        Ok(())
    }

    /// One axis after the other, on a way that the boxes leave free from wherever it stands.
    fn go_to_the_middle(&mut self) -> Result<(), RigError> {
        let mut refused = None;
        for _ in 0..3 {
            for i in [2, 1, 0] {
                let (middle, most) = (self.frames[i].at(0.5), self.step.filter(|_| i == 2).unwrap_or(f64::MAX));
                let needed = i < 2 || self.boxes.iter().any(|b| b[2].0 > -1e9);
                while needed && (self.truth()[i] - middle).abs() > TOLERANCE[i] {
                    let at = self.truth()[i];
                    let to = at + (middle - at).clamp(-most * 0.99, most * 0.99);
                    let target = aim(&[(AXES[i], to)]);
                    let movement = Move { stage: Name::new("scope"), aim: target };
                    let ticket = self.lab().begin_move(movement);
                    if let Err(e) = self.wait(ticket) {
                        if e.code != Code::KeepOut {
                            return Err(e);
                        }
                        refused = Some(e);
                        break;
                    }
                    if (self.truth()[i] - to).abs() > TOLERANCE[i] {
                        self.fail("a move in calm ended elsewhere");
                    }
                }
            }
            if (0..2).all(|i| (self.truth()[i] - self.frames[i].at(0.5)).abs() <= TOLERANCE[i]) {
                return Ok(());
            }
        }
        match refused {
            Some(e) => Err(e),
            None => self.fail("the middle isn't reached, and nothing refused it"),
        }
    }
}
