//! A plan that runs: one step at a time, each judged on a reading of this moment and cleared right before its
//! bytes go out.

mod exposure;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::approval::Asked;
use super::camera::CameraUnit;
use super::journal::Entry;
use super::message::{Slot, Waiting};
use super::output::OutputUnit;
use super::sensor::SensorUnit;
use super::stage::StageUnit;
use crate::config::Rig;
use crate::interlocks::{Leg, Panel, Permit};
use crate::model::{
    Activity, Approval, AxisId, AxisReading, Caller, Code, Drift, Event, Frame, Home, JobId, Move, Moved, Name, Origin,
    OutputValue, Report, RigError, SetOutput, Shot, Snapshot, Time,
};
use crate::plans::{Next, Plan, Step};
use crate::store::Written;

/// How long a reading of this moment may take to come.
const FRESH: Duration = Duration::from_millis(1500);
/// How long a job waits for a device that is still being identified: a client's first call comes as soon as the
/// program runs.
const ONLINE: Duration = Duration::from_secs(5);
/// How long an exposure waits for a stage that moves on by itself.
const REST: Duration = Duration::from_secs(3);
/// How long the audit log may take to acknowledge a line.
pub(super) const AUDIT: Duration = Duration::from_secs(2);

/// What a job needs of the rig thread while it is driven.
pub(super) struct Bench<'a> {
    pub(super) rig: &'a Rig,
    pub(super) panel: &'a mut Panel,
    pub(super) stages: &'a mut [StageUnit],
    pub(super) cameras: &'a mut [CameraUnit],
    pub(super) outputs: &'a mut [OutputUnit],
    pub(super) sensors: &'a [SensorUnit],
    /// Stages for which a stop is asked that has not been carried out yet.
    pub(super) stop_pending: u64,
    pub(super) simulated: &'a [bool],
    pub(super) now: Time,
}

impl Bench<'_> {
    fn stage(&self, name: &Name) -> Result<usize, RigError> {
        let index = self.rig.stages.iter().position(|s| s.id == *name);
        index.ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no stage {name}.")))
    }

    fn camera(&self, name: &Name) -> Result<usize, RigError> {
        let index = self.rig.cameras.iter().position(|c| c.id == *name);
        index.ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no camera {name}.")))
    }

    fn output(&self, name: &Name) -> Result<usize, RigError> {
        let index = self.rig.outputs.iter().position(|o| o.id == *name);
        index.ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no output {name}.")))
    }

    /// The state of this moment, for judging.
    pub(super) fn state(&self) -> Snapshot {
        Snapshot {
            at: self.now,
            stages: self.stages.iter().map(|s| s.status.clone()).collect(),
            cameras: self.cameras.iter().map(|c| c.status.clone()).collect(),
            outputs: self.outputs.iter().map(|o| o.status.clone()).collect(),
            sensors: self.sensors.iter().map(|s| s.status.clone()).collect(),
            recent_moves: self.panel.recent_moves(self.now),
            travelled: self.panel.travelled(self.now),
            dose: self.panel.dose(self.now),
            ..Snapshot::default()
        }
    }

    fn positions(&self) -> Vec<AxisReading> {
        self.stages.iter().flat_map(StageUnit::readings).collect()
    }
}

/// Where a step stands.
pub(super) enum Stand {
    /// The plan is asked next.
    Ask,
    /// A person is asked first.
    Asked(Box<Asked>),
    /// A reading is awaited that was asked for at `since`, to judge this on.
    Fresh { since: Time, then: Then },
    /// A leg runs.
    Leg { stage: usize, rest: VecDeque<Leg> },
    /// Homing runs.
    Home { stage: usize },
    /// Standing still.
    Settle { until: Time },
    /// The camera is still being identified.
    Camera { shot: Shot },
    /// The camera takes its settings.
    Set { camera: usize, shot: Shot },
    /// An output is still being identified, or made safe.
    Ready { set: SetOutput },
    /// An output goes to its value, or a person is asked to bring it there.
    Output { output: usize },
    /// The light is opened for the exposure; `None` while it is still being identified.
    Lighting { camera: usize, output: Option<usize> },
    /// The light is put back.
    Dark { output: usize },
    /// Positions are read before the exposure.
    Before { since: Time, camera: usize },
    /// It exposes.
    Exposing { camera: usize, asked_at: Time, before: Vec<AxisReading>, epochs: Vec<u64> },
    /// Positions are read after it.
    After { since: Time, frame: Box<Frame>, epochs: Vec<u64> },
}

pub(super) enum Then {
    Move(Move),
    Leg { stage: usize, leg: Leg, rest: VecDeque<Leg> },
    Home(Home),
}

/// A running plan.
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) caller: Caller,
    pub(super) title: String,
    pub(super) uses: Vec<Name>,
    pub(super) started: Time,
    pub(super) doing: String,
    /// Its client is gone, and it goes on all the same.
    pub(super) orphan: bool,
    /// The call that it came from.
    pub(super) origin: Option<Box<Origin>>,
    /// How many steps the interlocks have cleared.
    pub(super) cleared: u32,
    /// Where the axes that take part began, and where they were to go.
    pub(super) began: Vec<AxisReading>,
    pub(super) asked: Vec<AxisReading>,
    plan: Box<dyn Plan>,
    reply: Slot<Report>,
    pub(super) stand: Stand,
    /// What the step in progress may do, after all that had to be asked.
    permit: Option<Permit>,
    intent: Option<(Time, Entry)>,
    pub(super) moved: Moved,
    drifts: Vec<(AxisId, Option<Drift>)>,
    frames: Vec<Arc<Frame>>,
    /// The light that was opened, and what it is put back to.
    lit: Option<(usize, OutputValue)>,
    /// Where the stages stood to which its moves have led.
    arrived: Vec<(usize, Vec<AxisReading>)>,
    /// What a person is asked to do by hand.
    pub(super) waits_for: Option<String>,
    /// What a person is asked to approve.
    pub(super) approval: Option<Arc<Approval>>,
    /// What has to go into the audit log.
    pub(super) events: Vec<Event>,
    /// Why it is to end; it does when what it moves stands still.
    ending: Option<RigError>,
}

impl Job {
    pub(super) fn new(
        id: JobId,
        plan: Box<dyn Plan>,
        caller: Caller,
        origin: Option<Box<Origin>>,
        reply: Slot<Report>,
        intent: Entry,
        now: Time,
    ) -> Job {
        Job {
            id,
            caller,
            title: plan.title(),
            uses: plan.uses(),
            started: now,
            doing: "starting".into(),
            orphan: false,
            origin,
            cleared: 0,
            began: Vec::new(),
            asked: Vec::new(),
            plan,
            reply,
            stand: Stand::Ask,
            permit: None,
            intent: Some((now, intent)),
            moved: Moved::No,
            drifts: Vec::new(),
            frames: Vec::new(),
            lit: None,
            arrived: Vec::new(),
            waits_for: None,
            approval: None,
            events: Vec::new(),
            ending: None,
        }
    }

    /// Whether it is to end.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// What is known of its motions, should nobody see how the last one ends.
    pub(super) fn moved_at_most(&self) -> Moved {
        if matches!(self.stand, Stand::Leg { .. } | Stand::Home { .. }) { Moved::Unknown } else { self.moved }
    }

    /// Whether its caller is gone.
    pub(super) fn is_lost(&self) -> bool {
        self.reply.waiting() == Waiting::Lost
    }

    /// Whether its caller has its number and no longer waits.
    pub(super) fn is_detached(&self) -> bool {
        self.reply.waiting() == Waiting::Detached
    }

    /// Asks it to end: what it moves is stopped, and it ends when that stands still.
    pub(super) fn end(&mut self, why: RigError, bench: &mut Bench<'_>) {
        if self.ending.is_some() {
            return;
        }
        match &self.stand {
            Stand::Leg { stage, .. } | Stand::Home { stage } => {
                bench.stages[*stage].abandon(why.clone(), bench.now);
            }
            Stand::Exposing { camera, .. } => bench.cameras[*camera].abort(bench.now),
            Stand::Output { output } => bench.outputs[*output].abandon(),
            _ => {}
        }
        self.ending = Some(why);
    }

    /// A person has done what this waits for, or refused to.
    ///
    /// # Errors
    /// `not_found` when it waits for nobody.
    pub(super) fn confirm(&mut self, done: bool, by: &str, bench: &mut Bench<'_>) -> Result<(), RigError> {
        match &self.stand {
            Stand::Output { output } if self.ending.is_none() => bench.outputs[*output].confirm(done, by, bench.now),
            _ => Err(RigError::new(Code::NotFound, format!("{} waits for nobody.", self.id))),
        }
    }

    /// Answers its caller.
    pub(super) fn answer(&mut self, result: Result<Report, RigError>) {
        self.reply.answer(result);
    }

    /// Carries it on as far as it goes now. `Some` when it has ended.
    pub(super) fn drive(&mut self, bench: &mut Bench<'_>) -> Option<Result<Report, RigError>> {
        // A step that ends may be followed by one that begins in the same pass; a plan without end may not
        // hold the pass up.
        for _ in 0..16 {
            match self.step(bench) {
                Ok(Flow::Wait) => return None,
                Ok(Flow::Again) => {}
                Ok(Flow::Done) => return Some(Ok(self.report(bench))),
                Err(e) => {
                    let moved = merge(self.moved, e.moved);
                    self.put_light_back(bench);
                    // What was still to come of a move doesn't come.
                    let mine = bench.stages.iter_mut().filter(|s| self.uses.contains(&s.status.stage));
                    mine.for_each(|s| s.goes_on_to(std::iter::empty()));
                    return Some(Err(e.moved(moved)));
                }
            }
        }
        None
    }

    fn report(&mut self, bench: &Bench<'_>) -> Report {
        let mine = |name: &Name| self.uses.contains(name);
        Report {
            moved: self.moved,
            stages: bench.stages.iter().map(|s| &s.status).filter(|s| mine(&s.stage)).cloned().collect(),
            outputs: bench.outputs.iter().map(|o| &o.status).filter(|o| mine(&o.output)).cloned().collect(),
            began: self.began.clone(),
            drifts: std::mem::take(&mut self.drifts),
            frames: std::mem::take(&mut self.frames),
            took: bench.now.since(self.started),
        }
    }

    fn step(&mut self, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        let moving = matches!(self.stand, Stand::Leg { .. } | Stand::Home { .. });
        if let Some(why) = &self.ending
            && !moving
        {
            // Nothing of it moves now; what moved before is known.
            return Err(why.clone().moved(self.moved));
        }
        match std::mem::replace(&mut self.stand, Stand::Ask) {
            Stand::Ask => self.ask(bench),
            Stand::Asked(asked) => self.asked(asked, bench),
            Stand::Fresh { since, then } => self.fresh(since, then, bench),
            Stand::Leg { stage, rest } => self.leg(stage, rest, bench),
            Stand::Home { stage } => match bench.stages[stage].take_outcome() {
                None => self.wait(Stand::Home { stage }),
                Some(outcome) => {
                    self.drifts.extend(bench.stages[stage].take_drifts());
                    self.outcome(outcome)
                }
            },
            Stand::Settle { until } if bench.now < until => self.wait(Stand::Settle { until }),
            Stand::Settle { .. } => Ok(Flow::Again),
            Stand::Camera { shot } => self.begin(Step::Shoot(shot), bench),
            Stand::Set { camera, shot } => match bench.cameras[camera].take_set() {
                None => self.wait(Stand::Set { camera, shot }),
                Some(set) => {
                    set?;
                    self.light(camera, bench)
                }
            },
            Stand::Ready { set } => self.begin(Step::Set(set), bench),
            Stand::Output { output } => match bench.outputs[output].take_outcome() {
                None => {
                    self.waits_for = bench.outputs[output].status.waits_for.clone();
                    self.wait(Stand::Output { output })
                }
                Some(outcome) => {
                    self.waits_for = None;
                    self.outcome(outcome)
                }
            },
            Stand::Lighting { camera, output: None } => self.light(camera, bench),
            Stand::Lighting { camera, output: Some(i) } => match bench.outputs[i].take_outcome() {
                None => self.wait(Stand::Lighting { camera, output: Some(i) }),
                Some(outcome) => {
                    outcome?;
                    self.before(camera, bench)
                }
            },
            // A light that stays on is its own fault, told of as such; the frame is good all the same.
            Stand::Dark { output } => match bench.outputs[output].take_outcome() {
                None if bench.outputs[output].status.target.is_some() => self.wait(Stand::Dark { output }),
                _ => Ok(Flow::Again),
            },
            Stand::Before { since, camera } => self.shoot(since, camera, bench),
            Stand::Exposing { camera, asked_at, before, epochs } => {
                self.exposed(camera, asked_at, before, epochs, bench)
            }
            Stand::After { since, frame, epochs } => self.framed(since, frame, epochs, bench),
        }
    }

    pub(super) fn wait(&mut self, stand: Stand) -> Result<Flow, RigError> {
        self.stand = stand;
        Ok(Flow::Wait)
    }

    fn outcome(&mut self, outcome: Result<Moved, RigError>) -> Result<Flow, RigError> {
        match outcome {
            Ok(moved) => {
                self.moved = merge(self.moved, moved);
                Ok(Flow::Again)
            }
            // The reason for which it was stopped is what its caller asks for.
            Err(e) => match self.ending.take() {
                Some(why) if e.code == why.code || e.code == Code::Stopped => Err(why.moved(e.moved)),
                _ => Err(e),
            },
        }
    }

    fn ask(&mut self, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        // The audit line precedes the motion.
        if let Some((since, entry)) = &self.intent {
            match entry.written() {
                Written::Yes => self.intent = None,
                Written::Pending if bench.now.since(*since) < AUDIT => return self.wait(Stand::Ask),
                Written::Pending | Written::Failed => {
                    return Err(unwritten());
                }
            }
        }
        // What came back after a lost connection is made safe before anything else goes on.
        if bench.outputs.iter().any(OutputUnit::is_securing) {
            return self.wait(Stand::Ask);
        }
        let state = bench.state();
        match self.plan.next(bench.rig, &state) {
            Next::Done => Ok(Flow::Done),
            Next::Step(step) => {
                self.doing = step.words();
                self.begin(step, bench)
            }
        }
    }

    pub(super) fn begin(&mut self, step: Step, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        let now = bench.now;
        match step {
            Step::Move(m) => {
                let stage = bench.stage(&m.stage)?;
                bench.stages[stage].poll(now);
                self.wait(Stand::Fresh { since: now, then: Then::Move(m) })
            }
            Step::Home(h) => {
                let stage = bench.stage(&h.stage)?;
                bench.stages[stage].poll(now);
                self.wait(Stand::Fresh { since: now, then: Then::Home(h) })
            }
            Step::Settle(time) => self.wait(Stand::Settle { until: now + time }),
            Step::Shoot(shot) => {
                let camera = bench.camera(&shot.camera)?;
                if bench.cameras[camera].is_connecting() && now.since(self.started) < ONLINE {
                    return self.wait(Stand::Camera { shot });
                }
                // What is refused is refused before anybody is asked, and before a light is opened.
                bench.panel.rules().judge_shot(&shot, &bench.state())?;
                if !self.may(&Step::Shoot(shot.clone()), bench)? {
                    return Ok(Flow::Wait);
                }
                if shot.change.is_empty() {
                    return self.light(camera, bench);
                }
                bench.cameras[camera].set(&shot.change, now)?;
                self.wait(Stand::Set { camera, shot })
            }
            Step::Set(set) => {
                let output = bench.output(&set.output)?;
                if bench.outputs[output].is_connecting() && now.since(self.started) < ONLINE {
                    return self.wait(Stand::Ready { set });
                }
                // What is refused is refused before anybody is asked.
                let state = bench.state();
                bench.panel.rules().judge_set(&set, &state)?;
                if !self.may(&Step::Set(set.clone()), bench)? {
                    return Ok(Flow::Wait);
                }
                let cleared = bench.panel.clear_set(&set, self.permit()?, &state)?;
                bench.outputs[output].set(cleared, now)?;
                self.cleared += 1;
                self.wait(Stand::Output { output })
            }
        }
    }

    fn fresh(&mut self, since: Time, then: Then, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        let stage = match &then {
            Then::Move(m) => bench.stage(&m.stage)?,
            Then::Leg { stage, .. } => *stage,
            Then::Home(h) => bench.stage(&h.stage)?,
        };
        let connecting = bench.stages[stage].status.activity == Activity::Connecting;
        if connecting && bench.stages[stage].status.fault.is_none() && bench.now.since(self.started) < ONLINE {
            // The reading that counts is the first after that.
            return self.wait(Stand::Fresh { since: bench.now, then });
        }
        // Without a new reading it is judged on the old one, and refused where that is too old.
        let status = &bench.stages[stage].status;
        let online = status.identity.is_some() && status.link.open && status.activity != Activity::Offline;
        // What is refused anyhow is refused at once.
        let barred = status.fault.is_some() || status.stopped_by.is_some();
        if online && !barred && !bench.stages[stage].read_since(since) && bench.now.since(since) < FRESH {
            if bench.now.since(since) > FRESH / 3 {
                bench.stages[stage].poll(bench.now);
            }
            return self.wait(Stand::Fresh { since, then });
        }
        // A stop that was asked for but not seen yet comes first.
        if bench.stop_pending & (1 << stage) != 0 {
            return self.wait(Stand::Fresh { since, then });
        }
        let state = bench.state();
        match then {
            Then::Move(m) => {
                let rules = bench.panel.rules().clone();
                let verdict = rules.judge_move(&m, &state, bench.now)?;
                let goes = |r: &AxisReading| verdict.targets.iter().find(|(n, _)| *n == r.id.axis).map(|(_, to)| *to);
                let readings = bench.stages[stage].readings();
                let asked = readings.into_iter().filter_map(|r| Some(AxisReading { position: Some(goes(&r)?), ..r }));
                self.asked = asked.collect();
                if let Some(refused) = Option::<RigError>::from(&verdict) {
                    return Err(refused.on(&m.stage));
                }
                let resolved = rules.resolve(&m, &state)?;
                let ids: Vec<&Name> = resolved.from.iter().map(|(n, _)| n).collect();
                self.began = bench.stages[stage].readings().into_iter().filter(|r| ids.contains(&&r.id.axis)).collect();
                let ways =
                    resolved.from.iter().zip(&resolved.targets).map(|((name, from), (_, to))| (name, *to - *from));
                if bench.stages[stage].is_no_motion(ways) {
                    // No backlash to take up either, and `go_back` still leads to where the last motion began.
                    return Ok(Flow::Again);
                }
                if !self.may(&Step::Move(m), bench)? {
                    return Ok(Flow::Wait);
                }
                let mut legs: VecDeque<Leg> = resolved.legs.into();
                bench.stages[stage].remember_start(resolved.from);
                match legs.pop_front() {
                    Some(leg) => self.start_leg(stage, leg, legs, &state, bench),
                    None => Ok(Flow::Again),
                }
            }
            Then::Leg { stage, leg, rest } => self.start_leg(stage, leg, rest, &state, bench),
            Then::Home(h) => {
                bench.panel.rules().judge_home(&h, &state, bench.now)?;
                if !self.may(&Step::Home(h.clone()), bench)? {
                    return Ok(Flow::Wait);
                }
                self.began = bench.stages[stage].readings();
                let cleared = bench.panel.clear_home(&h, self.permit()?, &state, bench.now)?;
                bench.stages[stage].home(cleared, bench.now)?;
                self.cleared += 1;
                self.wait(Stand::Home { stage })
            }
        }
    }

    /// Whether the step may go on to be cleared; if not, a person is asked, and it waits for that.
    fn may(&mut self, step: &Step, bench: &mut Bench<'_>) -> Result<bool, RigError> {
        self.permit = self.permitted(step, bench)?;
        Ok(self.permit.is_some())
    }

    /// What the step in progress may do.
    fn permit(&self) -> Result<&Permit, RigError> {
        let what = "Nothing was judged to be permitted.";
        self.permit.as_ref().ok_or_else(|| RigError::new(Code::Internal, what))
    }

    fn start_leg(
        &mut self,
        stage: usize,
        leg: Leg,
        rest: VecDeque<Leg>,
        state: &Snapshot,
        bench: &mut Bench<'_>,
    ) -> Result<Flow, RigError> {
        let name = bench.rig.stages[stage].id.clone();
        let cleared = bench.panel.clear_leg(&name, &leg, self.permit()?, state, bench.now)?;
        let ids = &bench.rig.stages[stage].axes;
        let ways = cleared.order().axes.iter().map(|a| (&ids[a.index].id.axis, a.to - a.from));
        if bench.stages[stage].is_no_motion(ways) {
            return self.next_leg(stage, rest, bench);
        }
        bench.stages[stage].go(cleared, bench.now)?;
        bench.stages[stage].goes_on_to(std::iter::once(&leg).chain(&rest));
        self.cleared += 1;
        self.wait(Stand::Leg { stage, rest })
    }

    fn leg(&mut self, stage: usize, rest: VecDeque<Leg>, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        let Some(outcome) = bench.stages[stage].take_outcome() else {
            return self.wait(Stand::Leg { stage, rest });
        };
        self.outcome(outcome)?;
        self.next_leg(stage, rest, bench)
    }

    fn next_leg(&mut self, stage: usize, mut rest: VecDeque<Leg>, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        bench.stages[stage].goes_on_to(rest.iter());
        let Some(leg) = rest.pop_front() else {
            self.arrived.retain(|(other, _)| *other != stage);
            self.arrived.push((stage, bench.stages[stage].readings()));
            return Ok(Flow::Again);
        };
        bench.stages[stage].poll(bench.now);
        self.wait(Stand::Fresh { since: bench.now, then: Then::Leg { stage, leg, rest } })
    }
}

/// The line that must precede what is ordered is not written.
pub(super) fn unwritten() -> RigError {
    RigError::new(Code::StorageFailed, "The audit log could not be written, and nothing moves without it.")
}

pub(super) enum Flow {
    Wait,
    Again,
    Done,
}

/// What two parts of a plan moved together.
fn merge(a: Moved, b: Moved) -> Moved {
    match (a, b) {
        (Moved::Unknown, _) | (_, Moved::Unknown) => Moved::Unknown,
        (Moved::Yes, _) | (_, Moved::Yes) => Moved::Yes,
        (Moved::No, Moved::No) => Moved::No,
    }
}
