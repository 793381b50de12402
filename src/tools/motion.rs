//! Tools that move stages, and what belongs to them: `check_move`, `move_to`, `move_by`, `home`, `go_back`,
//! `save_position`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome, ToolError, instead_json, refusals, sequence_line};
use super::args::{Args, cut, missing, new_name, wrong};
use super::call::Call;
use super::homed::render_home;
use super::schema::{
    Object, Schema, choice, command_id, integer_in, list, must_name_stage, per_axis, stage, text, unit, wait_s,
};
use super::wait::{Render, render, run};
use super::words::{self, both, number};
use crate::config::{Homing, Rig, Stage};
use crate::interlocks::{Verdict, no_homing};
use crate::model::{
    Aim, AxisReading, Code, Epoch, Home, Move, Moved, Name, Report, RigError, Source, StageStatus, Trust,
};
use crate::plans::Sequence;
use crate::store::{SavedAxis, SavedPosition};
use crate::units::{Distance, Position, Unit, plain};

/// The largest state_epoch that survives a client that knows only floating point: 2^53.
const MAX_EPOCH: u64 = 1 << 53;

/// Arguments of `check_move`.
pub(crate) fn check_move_input(rig: &Rig) -> Schema {
    Object::new()
        .with(must_name_stage(rig), "stage", stage(rig))
        .may("targets", per_axis(rig, "Absolute targets, in unit."))
        .may("offsets", per_axis(rig, "Or signed distances from here, in unit."))
        .must("unit", unit(rig))
        .build()
}

/// Arguments of `move_to`.
pub(crate) fn move_to_input(rig: &Rig) -> Schema {
    Object::new()
        .may("stage", stage(rig))
        .may("targets", per_axis(rig, "Absolute positions, in unit; axes left out stay."))
        .may("unit", choice(super::schema::units(rig).iter().map(|u| u.name()), "Unit of targets; required with them."))
        .may("saved_position", text(Name::MAX, "Instead of targets: a name given by save_position."))
        .may("wait_s", wait_s(rig))
        .may("command_id", command_id())
        .build()
}

/// Arguments of `move_by`.
pub(crate) fn move_by_input(rig: &Rig) -> Schema {
    Object::new()
        .with(must_name_stage(rig), "stage", stage(rig))
        .must("offsets", per_axis(rig, "Signed distances, in unit."))
        .must("unit", unit(rig))
        .must("from_epoch", integer_in(0, MAX_EPOCH, "The stage's state_epoch on which you decided."))
        .may("wait_s", wait_s(rig))
        .may("command_id", command_id())
        .build()
}

/// Arguments of `home`.
pub(crate) fn home_input(rig: &Rig) -> Schema {
    let axis = choice(super::schema::axis_names(rig), "Axis.");
    Object::new()
        .with(must_name_stage(rig), "stage", stage(rig))
        .may("axes", list(axis, 0, 16, "Only these axes, where the controller can; default all."))
        .may("wait_s", wait_s(rig))
        .may("command_id", command_id())
        .build()
}

/// Arguments of `go_back`.
pub(crate) fn go_back_input(rig: &Rig) -> Schema {
    Object::new()
        .with(must_name_stage(rig), "stage", stage(rig))
        .may("wait_s", wait_s(rig))
        .may("command_id", command_id())
        .build()
}

/// Arguments of `save_position`.
pub(crate) fn save_position_input(rig: &Rig) -> Schema {
    Object::new()
        .with(must_name_stage(rig), "stage", stage(rig))
        .must("name", text(Name::MAX, "Its name: a-z, 0-9, _ and -. An existing one is replaced."))
        .build()
}

/// Positions by axis.
type Places = Vec<(Name, Position)>;

/// Where a move should end, for its answer.
#[derive(Clone)]
enum Goal {
    To(Places),
    By(Vec<(Name, Distance)>),
    Found,
}

impl Goal {
    /// The target of an axis that began at `began`.
    fn target(&self, axis: &Name, began: Option<Position>) -> Option<Position> {
        match self {
            Goal::To(list) => list.iter().find(|(n, _)| n == axis).map(|(_, p)| *p),
            Goal::By(list) => Some(began? + list.iter().find(|(n, _)| n == axis).map(|(_, d)| *d)?),
            Goal::Found => None,
        }
    }
}

/// Numbers by axis, in the stage's order, each checked to be an axis of the stage and of the unit's kind.
fn by_axis(args: &Args, name: &'static str, stage: &Stage, unit: Unit) -> Result<Option<Vec<(Name, f64)>>, ToolError> {
    let Some(given) = args.axes(name) else { return Ok(None) };
    let known: Vec<&str> = stage.axes.iter().map(|a| a.id.axis.as_str()).collect();
    if given.is_empty() {
        return Err(wrong(name, &format!("name at least one axis: {}", known.join(", "))));
    }
    let has = |axis: &str| known.contains(&axis);
    if let Some((other, _)) = given.iter().find(|(n, _)| !has(n)) {
        return Err(wrong(name, &format!("stage {} has no axis {other:?}; allowed: {}", stage.id, known.join(", "))));
    }
    for axis in &stage.axes {
        let named = given.iter().any(|(n, _)| *n == axis.id.axis.as_str());
        if named && axis.unit.dimension() != unit.dimension() {
            let (is, own) = (axis.unit.dimension(), axis.unit);
            return Err(wrong("unit", &format!("{unit} doesn't measure {}, which is a {is} in {own}", axis.id)));
        }
    }
    let order = stage
        .axes
        .iter()
        .filter_map(|a| given.iter().find(|(n, _)| *n == a.id.axis.as_str()).map(|(_, v)| (a.id.axis.clone(), *v)));
    Ok(Some(order.collect()))
}

fn position(axis: &Name, value: f64, unit: Unit) -> Result<(Name, Position), ToolError> {
    Position::new(value, unit).map(|p| (axis.clone(), p)).map_err(|e| wrong(axis.as_str(), &e.to_string()))
}

fn distance(axis: &Name, value: f64, unit: Unit) -> Result<(Name, Distance), ToolError> {
    Distance::new(value, unit).map(|p| (axis.clone(), p)).map_err(|e| wrong(axis.as_str(), &e.to_string()))
}

fn in_words(list: &[(Name, f64)], unit: Unit) -> String {
    list.iter().map(|(n, v)| format!("{n} {} {unit}", plain(*v))).collect::<Vec<_>>().join(", ")
}

/// Answers `check_move`.
pub(crate) async fn check_move(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig();
    let (stage, unit) = (call.args.stage(rig)?, call.args.unit()?);
    let targets = by_axis(&call.args, "targets", stage, unit)?;
    let offsets = by_axis(&call.args, "offsets", stage, unit)?;
    let state = live.handle.snapshot();
    let aim = match (targets, offsets) {
        (Some(t), None) => Aim::To(t.iter().map(|(n, v)| position(n, *v, unit)).collect::<Result<_, _>>()?),
        (None, Some(o)) => {
            let from = state.stage(stage.id.as_str()).map_or(Epoch(0), |s| s.epoch);
            Aim::By { offsets: o.iter().map(|(n, v)| distance(n, *v, unit)).collect::<Result<_, _>>()?, from }
        }
        _ => return Err(wrong("targets", "give either targets or offsets")),
    };
    let movement = Move { stage: stage.id.clone(), aim };
    let verdict = live.handle.rules().judge_move(&movement, &state, live.handle.now())?;
    let epoch = state.stage(stage.id.as_str()).map(|s| s.epoch);
    let answer = verdict_answer(&verdict, stage, unit).epoch(epoch);
    Ok(match rig.budget.moves_per_minute {
        Some(most) => answer.with("moves_left_this_minute", (most as usize).saturating_sub(state.recent_moves.len())),
        None => answer,
    })
}

fn verdict_answer(v: &Verdict, stage: &Stage, asked: Unit) -> Answer {
    let own = |axis: &str| words::unit_of(stage, axis);
    let spoken = |list: &[(Name, Position)]| {
        list.iter()
            .map(|(n, p)| format!("{n} {}", both(*p, own(n.as_str()), Some(asked))))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let as_json = |list: &[(Name, Position)]| -> Map<String, Value> {
        list.iter().map(|(n, p)| (n.to_string(), position_json(*p, own(n.as_str()), asked))).collect()
    };
    let goal = spoken(&v.targets);
    let mut next = None;
    let call = |list| json!({ "stage": stage.id.as_str(), "targets": numbers(list, asked), "unit": asked.name() });
    let mut text = if v.refusals.is_empty() {
        next = Some(("move_to", format!("move_to {}", call(&v.targets))));
        let slow = if v.slow { " slowly, because it leads back from where the stage should not be" } else { "" };
        let near = v
            .near
            .as_ref()
            .map_or(String::new(), |n| format!(" more slowly near the keep-out \"{n}\", so that a stop ends outside"));
        let asks = if v.asks.is_empty() {
            String::new()
        } else {
            format!(" A person will be asked first: {}", super::approvals::reasons(&v.asks))
        };
        format!(
            "Allowed: {} to {goal}{slow}{near}, about {}.{asks} Nothing has moved.",
            stage.id,
            words::seconds(v.duration)
        )
    } else {
        let why: Vec<String> = v
            .refusals
            .iter()
            .map(|r| {
                let owner =
                    r.why.as_deref().map_or(String::new(), |w| format!(" (owner: {})", w.trim_end_matches('.')));
                format!("[{}] {}{owner}", r.code, r.what)
            })
            .collect();
        format!("Refused: {} to {goal}. {} Nothing has moved.", stage.id, why.join(" "))
    };
    if let Some(nearest) = &v.nearest {
        next = Some(("check_move", format!("check_move {}", call(nearest))));
        text.push_str(&format!(" The nearest allowed on this way: {}.", spoken(nearest)));
    } else if let Some(allowed) = v.refusals.iter().find_map(|r| r.allowed.as_deref()) {
        text.push_str(&format!(" Allowed would be {allowed}."));
    }
    if let Some(sequence) = v.instead.as_deref().and_then(sequence_line) {
        text.push_str(&format!(" {sequence}"));
    }
    let swept: Map<String, Value> = v
        .swept
        .iter()
        .map(|(id, s)| {
            let u = own(id.axis.as_str());
            (
                id.to_string(),
                json!({ "from": number(Some(s.low.to(u))), "to": number(Some(s.high.to(u))), "unit": u.name() }),
            )
        })
        .collect();
    let mut answer = Answer::ok(text)
        .with("allowed", v.refusals.is_empty())
        .with("stage", stage.id.as_str())
        .with("targets", as_json(&v.targets))
        .with("swept", swept)
        .with("duration_s", number(Some(v.duration.as_secs_f64())))
        .with("slow", v.slow)
        .with("refusals", refusals(&v.refusals));
    if !v.asks.is_empty() {
        answer = answer.with("asks", super::approvals::asks_json(&v.asks));
    }
    if let Some(nearest) = &v.nearest {
        answer = answer.with("nearest", as_json(nearest));
    }
    if let Some(instead) = &v.instead {
        answer = answer.with("instead", instead_json(instead));
    }
    if let Some((tool, say)) = next {
        answer = answer.next(tool, say);
    }
    answer
}

fn numbers(list: &[(Name, Position)], unit: Unit) -> Map<String, Value> {
    list.iter().map(|(n, p)| (n.to_string(), number(Some(p.to(unit))))).collect()
}

/// A position in the axis's own unit, and in the one that the call spoke if that is another.
fn position_json(p: Position, own: Unit, asked: Unit) -> Value {
    if own == asked || own.dimension() != asked.dimension() {
        return json!({ "position": number(Some(p.to(own))), "unit": own.name() });
    }
    json!({
        "position": number(Some(p.to(own))), "unit": own.name(),
        "as_asked": number(Some(p.to(asked))), "asked_unit": asked.name(),
    })
}

/// Answers `move_to`.
pub(crate) async fn move_to(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig().clone();
    let given = call.args.axes("targets").is_some();
    let (stage, targets, asked, what) = match (given, call.args.text("saved_position")) {
        (true, None) => {
            let (stage, unit) = (call.args.stage(&rig)?, call.args.unit()?);
            let list = by_axis(&call.args, "targets", stage, unit)?.unwrap_or_default();
            let targets = list.iter().map(|(n, v)| position(n, *v, unit)).collect::<Result<Vec<_>, _>>()?;
            (stage, targets, Some(unit), in_words(&list, unit))
        }
        (false, Some(name)) => {
            let (stage, targets) = saved(&call, &rig, name)?;
            (stage, targets, None, format!("saved position {name}"))
        }
        (true, Some(_)) => return Err(wrong("saved_position", "give either targets or saved_position, not both")),
        (false, None) => return Err(missing("targets", "give targets with unit, or saved_position")),
    };
    let plan = Sequence::movement(
        format!("move {} to {what}", stage.id),
        Move { stage: stage.id.clone(), aim: Aim::To(targets.clone()) },
    );
    let show = render_move(&rig, stage, asked, Goal::To(targets));
    run(&call, Some(&stage.id), Box::new(plan), Some(call.patience(&rig)), show).await
}

/// A saved position of this rig as it is now.
fn saved<'r>(call: &Call, rig: &'r Rig, name: &str) -> Result<(&'r Stage, Places), ToolError> {
    let live = call.live()?;
    let Some(found) = live.saved.get(name) else {
        let all = live.saved.all();
        let names: Vec<&str> = all.keys().map(Name::as_str).take(20).collect();
        let there =
            if names.is_empty() { "there is none yet".into() } else { format!("there are {}", names.join(", ")) };
        let what = format!("There is no saved position {:?}; {there}.", cut(name));
        return Err(
            ToolError::new(Code::NotFound, what).next("describe_rig", "call describe_rig {} for the saved positions")
        );
    };
    let stage =
        rig.stage(found.stage.as_str()).filter(|s| found.axes.iter().all(|a| s.axis(a.axis.as_str()).is_some()));
    let Some(stage) = stage else {
        let what =
            format!("The saved position {name} is of stage {}, which this rig has no longer as it was.", found.stage);
        return Err(ToolError::new(Code::NotFound, what));
    };
    if let Some(other) = call.args.text("stage").filter(|s| *s != stage.id.as_str()) {
        return Err(wrong("stage", &format!("the saved position {name} is of stage {}, not {other}", stage.id)));
    }
    Ok((stage, found.axes.iter().map(|a| (a.axis.clone(), a.position)).collect()))
}

/// Answers `move_by`.
pub(crate) async fn move_by(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig().clone();
    let (stage, unit) = (call.args.stage(&rig)?, call.args.unit()?);
    let list = by_axis(&call.args, "offsets", stage, unit)?.unwrap_or_default();
    let offsets = list.iter().map(|(n, v)| distance(n, *v, unit)).collect::<Result<Vec<_>, _>>()?;
    let from = call.args.integer("from_epoch").map(Epoch);
    let from = from.ok_or_else(|| missing("from_epoch", "the state_epoch on which you decided"))?;
    not_passed(&call, &stage.id, from)?;
    let plan = Sequence::movement(
        format!("move {} by {}", stage.id, in_words(&list, unit)),
        Move { stage: stage.id.clone(), aim: Aim::By { offsets: offsets.clone(), from } },
    );
    let show = render_move(&rig, stage, Some(unit), Goal::By(offsets));
    run(&call, Some(&stage.id), Box::new(plan), Some(call.patience(&rig)), show).await
}

/// Refuses at once what the queue could only refuse later: a stage's numbers grow, so that one which has passed
/// doesn't come back. A `command_id` may be known already, and is left to the book and to the queue.
fn not_passed(call: &Call, stage: &Name, from: Epoch) -> Result<(), ToolError> {
    let live = call.live()?;
    let state = live.handle.snapshot();
    let status = state.stage(stage.as_str());
    match status.filter(|s| from < s.epoch && call.args.text("command_id").is_none()) {
        None => Ok(()),
        Some(status) => {
            let (now, stands) = (status.epoch.0, live.handle.rig().stands(status));
            let what =
                format!("Stage {stage} has moved or changed since state_epoch {}; it is {now} now. {stands}", from.0);
            Err(RigError::new(Code::MovedOn, what).on(stage).into())
        }
    }
}

/// Answers `go_back`.
pub(crate) async fn go_back(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig().clone();
    let stage = call.args.stage(&rig)?;
    let came_from = live.handle.snapshot().stage(stage.id.as_str()).and_then(|s| s.came_from.clone());
    let plan = Sequence::movement(format!("move {} back", stage.id), Move { stage: stage.id.clone(), aim: Aim::Back });
    let show = render_move(&rig, stage, None, came_from.map_or(Goal::Found, Goal::To));
    let outcome = run(&call, Some(&stage.id), Box::new(plan), Some(call.patience(&rig)), show).await;
    outcome.map_err(|e| {
        if e.error.code != Code::NotFound {
            return e;
        }
        e.next("get_state", "call get_state {} for where it stands; go_back works after a move of this session")
    })
}

/// Answers `home`.
pub(crate) async fn home(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig().clone();
    let stage = call.args.stage(&rig)?;
    let named = call.args.texts("axes").unwrap_or_default();
    if let Some(other) = named.iter().find(|n| stage.axis(n).is_none()) {
        let known: Vec<&str> = stage.axes.iter().map(|a| a.id.axis.as_str()).collect();
        return Err(wrong("axes", &format!("stage {} has no axis {other:?}; allowed: {}", stage.id, known.join(", "))));
    }
    if stage.home == Homing::Never {
        let say =
            format!("ask the person at the rig to declare where {} stands; get_state {{}} shows it then", stage.id);
        return Err(ToolError::from(no_homing(stage)).next("get_state", say));
    }
    let order = Home { stage: stage.id.clone(), axes: named.iter().map(|n| Name::new(n)).collect() };
    let which = if named.is_empty() { "all axes".to_owned() } else { named.join(", ") };
    let plan = Sequence::home(format!("home {} ({which})", stage.id), order);
    let show = render_home(&rig, stage);
    run(&call, Some(&stage.id), Box::new(plan), Some(call.patience(&rig)), show).await
}

/// Answers `save_position`.
pub(crate) async fn save_position(call: Call) -> Outcome {
    let live = call.live()?.clone();
    let rig = live.handle.rig().clone();
    let stage = call.args.stage(&rig)?;
    let name = new_name(&call.args, "name")?;
    let state = live.handle.snapshot();
    let Some(status) = state.stage(stage.id.as_str()) else {
        return Err(ToolError::new(Code::NotConnected, format!("Nothing is known of stage {} yet.", stage.id)));
    };
    let position = present(stage, status)?;
    let (n, p) = (name.clone(), position.clone());
    let before = super::blocking(move || live.saved.save(&n, p)).await??;
    let replaced = if before.is_some() { " It replaces the one that had this name." } else { "" };
    let spoken: Vec<String> =
        position.axes.iter().map(|a| format!("{} {} {}", a.axis, plain(a.position.to(a.unit)), a.unit)).collect();
    let text = format!("Saved {name}: {} at {} (trust: {}).{replaced}", stage.id, spoken.join(", "), position.trust);
    Ok(Answer::ok(text)
        .with("name", name.as_str())
        .with("stage", stage.id.as_str())
        .with("axes", words::axes_json(status, stage))
        .with("trust", json!(position.trust))
        .with("replaced", before.is_some())
        .next("move_to", format!("move_to {{\"saved_position\": \"{name}\"}} returns here"))
        .epoch(Some(status.epoch)))
}

/// Where a stage stands, if that is known well enough to come back to.
fn present(stage: &Stage, status: &StageStatus) -> Result<SavedPosition, ToolError> {
    let refuse = |code, what: String| Err(ToolError::from(crate::model::RigError::new(code, what).on(&stage.id)));
    if status.activity.is_motion() {
        return refuse(Code::Busy, format!("Stage {} is {}; save when it stands.", stage.id, status.activity.word()));
    }
    let mut axes = Vec::new();
    let mut least = Trust::Referenced;
    for axis in &stage.axes {
        let now = status.axis(axis.id.axis.as_str());
        let trust = now.map_or(Trust::Unknown, |a| a.trust);
        match now.and_then(|a| a.position) {
            Some(p) if trust >= axis.trust => {
                axes.push(SavedAxis { axis: axis.id.axis.clone(), position: p, unit: axis.unit })
            }
            _ => {
                let what = format!(
                    "The position of {} is {trust}; one can only come back to a position that is {}.",
                    axis.id, axis.trust
                );
                return refuse(Code::NotReferenced, what);
            }
        }
        least = least.min(trust);
    }
    Ok(SavedPosition {
        stage: stage.id.clone(),
        axes,
        trust: least,
        saved_at: crate::store::stamp(std::time::Duration::ZERO),
    })
}

/// A move's answer.
fn render_move(rig: &Arc<Rig>, stage: &Stage, asked: Option<Unit>, goal: Goal) -> Render {
    let (rig, stage) = (rig.clone(), stage.id.clone());
    render(move |report| Ok(moved_answer(&rig, &stage, asked, &goal, &report)))
}

fn moved_answer(rig: &Rig, name: &Name, asked: Option<Unit>, goal: &Goal, report: &Report) -> Answer {
    let status = report.stages.iter().find(|s| s.stage == *name);
    let Some(stage) = rig.stage(name.as_str()) else { return Answer::ok("Done.").moved(report.moved) };
    let mut spoken = Vec::new();
    let mut axes = Map::new();
    let mut counted = false;
    for began in report.began.iter().filter(|r| r.id.stage == *name) {
        let end = status.and_then(|s| s.axis(began.id.axis.as_str()));
        let target = goal.target(&began.id.axis, began.position);
        let there = end.and_then(|a| a.position);
        if stirred(began, there, target) {
            spoken.push(way_words(began, there, target, asked));
        }
        let mut m = Map::new();
        m.insert("start".into(), number(began.position.map(|p| p.to(began.unit))));
        if let Some(t) = target {
            m.insert("target".into(), number(Some(t.to(began.unit))));
        }
        m.insert("end".into(), number(end.and_then(|a| a.position).map(|p| p.to(began.unit))));
        m.insert("unit".into(), began.unit.name().into());
        if let Some(u) = asked.filter(|u| *u != began.unit && u.dimension() == began.unit.dimension()) {
            m.insert("end_as_asked".into(), number(end.and_then(|a| a.position).map(|p| p.to(u))));
            m.insert("asked_unit".into(), u.name().into());
        }
        if let Some(a) = end {
            counted |= a.source == Source::Counter;
            m.insert("trust".into(), json!(a.trust));
            m.insert("source".into(), json!(a.source));
        }
        axes.insert(began.id.axis.to_string(), Value::Object(m));
    }
    let epoch = status.map(|s| s.epoch);
    let number_now = epoch.map_or(String::new(), |e| format!(" state_epoch is {} now.", e.0));
    let text = if report.moved == Moved::No {
        format!("{name} stands there already; nothing moved.{number_now}")
    } else {
        // Axes that end where they began are not worth a word; that all of them do is.
        let way = if spoken.is_empty() { "out and back".to_owned() } else { spoken.join(", ") };
        // A counter proves nothing about a jam, and whoever reads only the words must know.
        let by = if counted { ", by the controller's counter" } else { "" };
        format!("{name} moved: {way} in {}, and stands{by}.{number_now}", words::seconds(report.took))
    };
    Answer::ok(text)
        .with("stage", name.as_str())
        .with("axes", axes)
        .with("positions", status.map_or(Value::Null, |s| words::axes_json(s, stage)))
        .with("took_s", number(Some(report.took.as_secs_f64())))
        .moved(report.moved)
        .epoch(epoch)
}

/// Whether an axis ended elsewhere than it began, or than it should.
fn stirred(began: &AxisReading, end: Option<Position>, target: Option<Position>) -> bool {
    let shown = |p: Option<Position>| p.map(|p| plain(p.to(began.unit)));
    let away = target.is_some() && shown(target) != shown(began.position);
    end.is_none() || began.position.is_none() || shown(end) != shown(began.position) || away
}

fn way_words(began: &AxisReading, end: Option<Position>, target: Option<Position>, asked: Option<Unit>) -> String {
    let say =
        |p: Option<Position>| p.map_or("unknown".to_owned(), |p| format!("{} {}", plain(p.to(began.unit)), began.unit));
    let to = end.map_or("unknown".to_owned(), |p| both(p, began.unit, asked));
    let aim = match (target, end) {
        (Some(t), Some(e)) if plain(t.to(began.unit)) != plain(e.to(began.unit)) => {
            format!(" (asked {})", say(Some(t)))
        }
        _ => String::new(),
    };
    format!("{} from {} to {to}{aim}", began.id.axis, say(began.position))
}
