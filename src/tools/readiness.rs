//! What keeps a rig from being ready, and the step that leads on. "Everything is ready" is what is left when
//! nothing is found here.

use std::time::Duration;

use super::words::{self, number};
use crate::config::{Homing, Rig, Stage};
use crate::model::{
    Activity, AxisStatus, CameraStatus, JobState, JobStatus, OutputStatus, Snapshot, StageStatus, StopBy, Time,
};
use crate::units::plain;

/// How old the newest reading may be before it is told; idle stages are read several times a second.
const OLD: Duration = Duration::from_secs(2);

/// One thing that isn't ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hitch {
    /// What, as a clause: `scope is still being identified`.
    pub(crate) what: String,
    /// What to do, by preference: a tool (none: a person does it) with the device it concerns, and the
    /// sentence without its full stop.
    pub(crate) ways: Vec<(Option<&'static str>, Option<String>, String)>,
}

impl Hitch {
    fn new(what: impl Into<String>) -> Hitch {
        Hitch { what: what.into(), ways: Vec::new() }
    }

    fn by(mut self, tool: &'static str, device: Option<&str>, say: impl Into<String>) -> Hitch {
        self.ways.push((Some(tool), device.map(str::to_owned), say.into()));
        self
    }

    fn person(mut self, say: impl Into<String>) -> Hitch {
        self.ways.push((None, None, say.into()));
        self
    }

    fn again(self) -> Hitch {
        self.by("get_state", None, "call get_state {} again in 2 s")
    }

    /// The first way that the caller may go.
    pub(crate) fn next(&self, may: &dyn Fn(&str, Option<&str>) -> bool) -> Option<&str> {
        let open = self.ways.iter().find(|(tool, device, _)| tool.is_none_or(|t| may(t, device.as_deref())));
        open.map(|(_, _, say)| say.as_str())
    }
}

/// All that isn't ready, the weightiest first. `only`: of that stage alone, and of what concerns the whole rig.
pub(crate) fn hitches(rig: &Rig, state: &Snapshot, now: Time, only: Option<&str>, audit: Option<&str>) -> Vec<Hitch> {
    let mut found = Vec::new();
    if let Some(why) = audit {
        let what = format!("the audit log can't be written, so nothing may move: {}", why.trim_end_matches('.'));
        found.push(Hitch::new(what).person("ask the person at the rig to make room for the audit log or to mend it"));
    }
    let wanted = |name: &str| only.is_none_or(|o| o == name);
    // What a person decides comes first: nothing else that the device needs would be taken before.
    found.extend(state.approvals().map(|a| {
        let (id, job) = (&a.id, a.job);
        let say = format!(
            "ask the person at the rig to decide, with `steadyhand approve {id}`; then get_job {{\"job_id\": \"{job}\"}}"
        );
        Hitch::new(format!("{job} waits for a person's approval ({id})")).by("get_job", None, say)
    }));
    for stage in rig.stages.iter().filter(|s| wanted(s.id.as_str())) {
        match state.stage(stage.id.as_str()) {
            Some(status) => found.extend(of_stage(stage, status, state, now)),
            None => found.push(Hitch::new(format!("{} has not reported yet", stage.id)).again()),
        }
    }
    for camera in rig.cameras.iter().filter(|_| only.is_none()) {
        match state.camera(camera.id.as_str()) {
            Some(status) => found.extend(of_camera(status)),
            None => found.push(Hitch::new(format!("{} has not reported yet", camera.id)).again()),
        }
    }
    for output in state.outputs.iter().filter(|_| only.is_none()) {
        found.extend(of_output(output));
    }
    for sensor in state.sensors.iter().filter(|s| only.is_none() && s.fault.is_some()) {
        let name = &sensor.sensor;
        let say = format!("diagnose {{}} says what {name} needs");
        found.push(Hitch::new(format!("sensor {name} can't be read")).by("diagnose", None, say));
    }
    let by_hand = running(state).filter(|j| j.approval.is_none());
    let waiting = by_hand.filter_map(|j| Some((j, j.waits_for.as_ref()?)));
    found.extend(waiting.map(|(j, what)| {
        let say =
            format!("ask the person at the rig to {what} and to confirm it; then get_job {{\"job_id\": \"{}\"}}", j.id);
        Hitch::new(format!("{} waits for a person to {what}", j.id)).by("get_job", None, say)
    }));
    let busy = running(state).filter(|j| j.waits_for.is_none());
    found.extend(busy.map(|j| Hitch::new(format!("{} runs", j.id)).by("get_job", None, wait_for(j)).again()));
    match state.queued {
        0 => {}
        1 => found.push(Hitch::new("one command waits for its turn").again()),
        n => found.push(Hitch::new(format!("{n} commands wait for their turn")).again()),
    }
    found
}

fn running(state: &Snapshot) -> impl Iterator<Item = &JobStatus> {
    state.jobs.iter().map(|j| &**j).filter(|j| j.state == JobState::Running)
}

fn wait_for(job: &JobStatus) -> String {
    format!("get_job {{\"job_id\": \"{}\", \"wait_s\": 20}} for its end, or stop {{}}", job.id)
}

/// The first thing that keeps a stage from being ready; what comes after it can't be judged before that is mended.
fn of_stage(stage: &Stage, status: &StageStatus, state: &Snapshot, now: Time) -> Option<Hitch> {
    let name = stage.id.as_str();
    let diagnose = |h: Hitch| h.by("diagnose", None, format!("diagnose {{}} says what {name} needs"));
    match status.activity {
        Activity::Offline if words::activity(status) == "released" => {
            let say = format!("ask the person at the rig to take {name} back, with `steadyhand reclaim {name}`");
            return Some(Hitch::new(format!("a person has lent the port of {name} to another program")).person(say));
        }
        Activity::Offline => return Some(diagnose(Hitch::new(format!("{name} isn't connected")))),
        Activity::Connecting if status.fault.is_none() => {
            return Some(Hitch::new(format!("{name} is still being identified")).again());
        }
        Activity::Moving if status.axes.iter().all(|a| a.target.is_none()) => {
            let what = format!("{name} moves, though not by an order from here");
            return Some(Hitch::new(what).by("stop", None, "call stop {} or ask the person at the rig"));
        }
        Activity::Moving | Activity::Homing => {
            let hitch = Hitch::new(format!("{name} is {}", status.activity.word()));
            return Some(match running(state).next() {
                Some(job) => hitch.by("get_job", None, wait_for(job)),
                None => hitch.by("stop", None, "call get_state {} again in 2 s, or stop {}"),
            });
        }
        Activity::Stopping => {
            return Some(Hitch::new(format!("{name} is being stopped, and not seen at rest yet")).again());
        }
        Activity::Connecting | Activity::Idle => {}
    }
    match status.stopped_by {
        Some(StopBy::Person) => {
            let words = state.person_stop.as_ref().map_or(String::new(), |w| format!(" ({w})"));
            let say = "ask that person to release it when it is safe, with `steadyhand resume`";
            return Some(Hitch::new(format!("a person stopped {name}{words}")).person(say));
        }
        Some(by) => {
            let hitch = Hitch::new(format!("{name} was stopped by {}", words::stopper(by)));
            let say = format!("clear_fault {{\"device\": \"{name}\"}} when it is safe to go on");
            let released = hitch.by("clear_fault", Some(name), say);
            return Some(released.person(format!("ask the person at the rig to release {name}")));
        }
        None => {}
    }
    if let Some(fault) = &status.fault {
        return Some(diagnose(Hitch::new(format!("{name} has a fault, [{}]", fault.code))));
    }
    match status.read_at {
        None => return Some(Hitch::new(format!("{name} has not been read yet")).again()),
        Some(at) if now.since(at) > OLD => {
            let age = plain(now.since(at).as_secs_f64().round());
            return Some(diagnose(Hitch::new(format!("the newest reading of {name} is {age} s old"))));
        }
        Some(_) => {}
    }
    let lost: Vec<&str> = stage
        .axes
        .iter()
        .filter(|a| {
            let now = status.axis(a.id.axis.as_str());
            now.is_none_or(|n| n.position.is_none() || n.trust < a.trust)
        })
        .map(|a| a.id.axis.as_str())
        .collect();
    if !lost.is_empty() {
        let hitch = Hitch::new(format!("{name} is not referenced ({})", lost.join(", ")));
        let say = format!("home {{\"stage\": \"{name}\"}} once its way is free");
        let hitch = hitch.by("home", Some(name), say);
        return Some(hitch.person(match (&stage.home, lost.first()) {
            (Homing::Never, Some(axis)) => format!(
                "ask the person at the rig to declare where {name} stands: `steadyhand reference {name}.{axis} VALUE`"
            ),
            _ => format!("ask the person at the rig to have {name} homed"),
        }));
    }
    outside(stage, status)
}

/// Axes that stand outside their travel, and the one move that brings them back.
fn outside(stage: &Stage, status: &StageStatus) -> Option<Hitch> {
    let place = |a: &crate::config::Axis, s: &AxisStatus| {
        let at = s.position.filter(|p| !a.travel.contains(*p))?;
        Some((a.id.axis.clone(), at, a.travel.nearest(at), a.unit))
    };
    let out: Vec<_> = stage.axes.iter().filter_map(|a| place(a, status.axis(a.id.axis.as_str())?)).collect();
    let (_, _, _, first) = out.first()?;
    let spoken: Vec<String> = out.iter().map(|(n, at, _, u)| format!("{n} at {} {u}", plain(at.to(*u)))).collect();
    let back: serde_json::Map<String, serde_json::Value> = out
        .iter()
        .filter(|(_, _, _, u)| u.dimension() == first.dimension())
        .map(|(n, _, back, _)| (n.to_string(), number(Some(back.to(*first)))))
        .collect();
    let call = serde_json::json!({ "stage": stage.id.as_str(), "targets": back, "unit": first.name() });
    let hitch = Hitch::new(format!("{} stands outside its travel ({})", stage.id, spoken.join(", ")));
    let hitch = hitch.by("move_to", None, format!("move_to {} brings it back, slowly", words::spaced(&call)));
    Some(hitch.person(format!("ask the person at the rig to bring {} back into its travel", stage.id)))
}

fn of_output(status: &OutputStatus) -> Option<Hitch> {
    let name = status.output.as_str();
    if let Some(by) = status.stopped_by {
        let hitch = Hitch::new(format!("{name} was made safe by {}", words::stopper(by)));
        if by == StopBy::Person {
            return Some(hitch.person(format!("ask that person to release {name}")));
        }
        let say = format!("when it is safe to go on, clear_fault {{\"device\": \"{name}\"}}");
        let hitch = hitch.by("clear_fault", Some(name), say);
        return Some(hitch.person(format!("ask the person at the rig to release {name}")));
    }
    if let Some(fault) = &status.fault {
        let hitch = Hitch::new(format!("{name} has a fault, [{}]", fault.code));
        return Some(hitch.by("diagnose", None, format!("diagnose {{}} says what {name} needs")));
    }
    (!status.ready).then(|| Hitch::new(format!("{name} is still being opened or made safe")).again())
}

fn of_camera(status: &CameraStatus) -> Option<Hitch> {
    let name = &status.camera;
    if let Some(fault) = &status.fault {
        let hitch = Hitch::new(format!("{name} has a fault, [{}]", fault.code));
        return Some(hitch.by("diagnose", None, format!("diagnose {{}} says what {name} needs")));
    }
    // An exposure is part of a job, which is told of.
    (!status.ready && !status.exposing).then(|| Hitch::new(format!("{name} is still being opened")).again())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing;
    use super::*;
    use crate::model::{Caller, Code, Fault, JobId, Name, Remedy, Trust, Way};
    use crate::units::{Position, Unit};

    fn all() -> impl Fn(&str, Option<&str>) -> bool {
        |_, _| true
    }

    /// What isn't ready after `spoil`, and the next step.
    fn told(spoil: impl FnOnce(&mut Snapshot)) -> (String, String) {
        let (rig, mut state) = (testing::rig(), testing::state());
        spoil(&mut state);
        let found = hitches(&rig, &state, state.at, None, None);
        let [hitch] = found.as_slice() else { panic!("one hitch: {found:?}") };
        (hitch.what.clone(), hitch.next(&all()).unwrap().to_owned())
    }

    fn job() -> Arc<JobStatus> {
        Arc::new(JobStatus {
            id: JobId(3),
            title: "move scope".into(),
            caller: Caller { id: Name::new("a"), client: "a".into(), way: Way::Stdio },
            started: Time::ZERO,
            state: JobState::Running,
            doing: String::new(),
            orphan: false,
            waits_for: None,
            approval: None,
        })
    }

    #[test]
    fn a_rig_is_ready_when_nothing_is_found_and_only_then() {
        let (rig, state) = (testing::rig(), testing::state());
        assert_eq!(hitches(&rig, &state, state.at, None, None), []);
        type Case = (&'static str, fn(&mut Snapshot), &'static str, &'static str);
        let cases: [Case; 14] = [
            (
                "connecting",
                |s| s.stages[0].activity = Activity::Connecting,
                "still being identified",
                "get_state {} again in 2 s",
            ),
            ("offline", |s| s.stages[0].activity = Activity::Offline, "isn't connected", "diagnose {}"),
            ("not read", |s| s.stages[0].read_at = None, "has not been read yet", "get_state {} again"),
            ("no status", |s| s.stages.clear(), "has not reported yet", "get_state {} again"),
            (
                "moved by hand",
                |s| s.stages[0].activity = Activity::Moving,
                "not by an order from here",
                "call stop {} or ask the person",
            ),
            ("stopping", |s| s.stages[0].activity = Activity::Stopping, "not seen at rest", "get_state {} again"),
            (
                "stopped",
                |s| s.stages[0].stopped_by = Some(StopBy::Model),
                "stopped by a stop call",
                "clear_fault {\"device\": \"scope\"}",
            ),
            (
                "stopped by a person",
                |s| s.stages[0].stopped_by = Some(StopBy::Person),
                "a person stopped",
                "ask that person",
            ),
            ("faulty", |s| s.stages[0].fault = Some(testing::fault()), "fault, [unplugged]", "diagnose {}"),
            (
                "lost",
                |s| s.stages[0].axes[1].trust = Trust::Unknown,
                "not referenced (y)",
                "home {\"stage\": \"scope\"}",
            ),
            (
                "outside",
                |s| s.stages[0].axes[0].position = Position::new(76.0, Unit::Mm).ok(),
                "outside its travel (x at 76 mm)",
                "move_to {\"stage\": \"scope\", \"targets\": {\"x\": 75}, \"unit\": \"mm\"} brings it back",
            ),
            ("camera", |s| s.cameras[0].ready = false, "cam is still being opened", "get_state {} again"),
            ("a job", |s| s.jobs.push(job()), "job-3 runs", "get_job {\"job_id\": \"job-3\""),
            ("a queue", |s| s.queued = 2, "2 commands wait", "get_state {} again"),
        ];
        for (name, spoil, what, next) in cases {
            let (is, say) = told(spoil);
            assert!(is.contains(what) && say.contains(next), "{name}: {is} / {say}");
        }
        let old = state.at + Duration::from_secs(5);
        assert!(hitches(&rig, &state, old, None, None)[0].what.contains("5 s old"));
        let audit = hitches(&rig, &state, state.at, None, Some("/data/audit: no space left."));
        assert!(audit[0].what.contains("/data/audit: no space left"), "{audit:?}");
    }

    #[test]
    fn a_move_of_ours_leads_to_its_job() {
        let (rig, mut state) = (testing::rig(), testing::state());
        state.stages[0].activity = Activity::Moving;
        state.stages[0].axes[0].target = Position::new(20.0, Unit::Mm).ok();
        state.jobs.push(job());
        let found = hitches(&rig, &state, state.at, None, None);
        assert!(found[0].what.contains("scope is moving") && found[0].next(&all()).unwrap().contains("get_job"));
    }

    #[test]
    fn a_step_that_the_caller_may_not_take_is_a_persons() {
        let (rig, mut state) = (testing::rig(), testing::state());
        let read_only = |t: &str, _: Option<&str>| ["get_state", "diagnose", "stop"].contains(&t);
        state.stages[0].stopped_by = Some(StopBy::Program);
        let found = hitches(&rig, &state, state.at, None, None);
        assert_eq!(found[0].next(&read_only), Some("ask the person at the rig to release scope"));
        state.stages[0].stopped_by = None;
        state.stages[0].axes.iter_mut().for_each(|a| a.trust = Trust::Unknown);
        let found = hitches(&rig, &state, state.at, None, None);
        let say = found[0].next(&read_only).unwrap();
        assert!(say.contains("ask the person") && !say.contains("declare"), "{say}");
    }

    #[test]
    fn of_one_stage_the_others_and_the_cameras_do_not_count() {
        let (rig, mut state) = (testing::rig(), testing::state());
        state.cameras[0].fault =
            Some(Fault { code: Code::Unplugged, what: "x".into(), at: Time::ZERO, remedy: Remedy::Reconnect });
        assert_eq!(hitches(&rig, &state, state.at, Some("scope"), None), []);
        assert_eq!(hitches(&rig, &state, state.at, None, None).len(), 1);
    }
}
