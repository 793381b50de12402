//! The face that EAA's logic-driven workflows call: image buffers, attributes, list-valued parameters.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::answer::{Answer, Outcome, ToolError};
use super::args::{cut, wrong};
use super::call::{Call, Live};
use super::describe::parameter_words;
use super::schema::{Object, Schema, list, text, wait_s};
use super::wait::{Render, render, run};
use super::words::{self, number};
use crate::config::{Eaa, Parameter, Rig};
use crate::imaging;
use crate::model::{Aim, CameraChange, Code, Epoch, Frame, Move, Moved, Name, RigError, Snapshot};
use crate::plans::Sequence;
use crate::units::{Position, Unit, plain};

/// The image buffers.
pub(crate) const BUFFERS: [&str; 3] = ["image_0", "image_km1", "image_k"];

/// All attributes.
const ATTRIBUTES: [&str; 8] = [
    "image_0",
    "image_km1",
    "image_k",
    "psize_0",
    "psize_km1",
    "psize_k",
    "image_acquisition_call_history",
    "line_scan_call_history",
];

/// How many calls the history keeps. EAA reads the first and the last ones, so those in between go.
const HISTORY: usize = 10_000;

/// One acquired image, never changed once it is here.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) image_id: String,
    pub(crate) frame: Arc<Frame>,
    /// Pixel size in `unit`.
    pub(crate) psize: Option<f64>,
    pub(crate) psize_um: f64,
    pub(crate) unit: Unit,
    /// The call as the history keeps it.
    pub(crate) call: Value,
}

#[derive(Debug, Default)]
struct State {
    first: Option<Arc<Taken>>,
    previous: Option<Arc<Taken>>,
    current: Option<Arc<Taken>>,
    history: Vec<Value>,
}

/// The images k, k−1 and 0 with their history: changed under one lock, so that no reader sees a new number
/// with an old picture.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<State>);

impl Buffers {
    /// A new image k.
    pub(crate) fn push(&self, taken: Taken) {
        let taken = Arc::new(taken);
        let mut s = self.0.lock();
        if s.history.len() >= HISTORY {
            s.history.remove(1);
        }
        s.history.push(taken.call.clone());
        s.first.get_or_insert_with(|| taken.clone());
        s.previous = s.current.replace(taken);
    }

    /// The image in the buffer of that name.
    pub(crate) fn named(&self, buffer: &str) -> Option<Arc<Taken>> {
        let s = self.0.lock();
        match buffer {
            "image_0" | "psize_0" => s.first.clone(),
            "image_km1" | "psize_km1" => s.previous.clone(),
            "image_k" | "psize_k" => s.current.clone(),
            _ => None,
        }
    }

    fn history(&self) -> Vec<Value> {
        self.0.lock().history.clone()
    }
}

/// Arguments of `get_attribute_payload`.
pub(crate) fn payload_input(_: &Rig) -> Schema {
    Object::new().must("name", text(64, "The attribute, such as image_k.")).build()
}

fn eaa(live: &Live) -> Result<&Eaa, ToolError> {
    let eaa = live.handle.rig().eaa.as_ref();
    eaa.ok_or_else(|| ToolError::new(Code::Unsupported, "The rig file has no [eaa] section."))
}

/// Answers `get_attribute_payload`: always `{"result": value}` and nothing beside it.
pub(crate) async fn get_attribute_payload(call: Call) -> Outcome {
    let live = call.live()?.clone();
    let name = call.args.text("name").unwrap_or_default().to_owned();
    let buffers = &call.core.buffers;
    if BUFFERS.contains(&name.as_str()) {
        let Some(taken) = buffers.named(&name) else {
            return Ok(Answer::result(format!("{name} is not set yet."), Value::Null));
        };
        let (most, legacy) = (eaa(&live)?.max_array_bytes, eaa(&live)?.legacy_arrays);
        too_large(&taken, &name, most)?;
        let text = format!(
            "{name}: image {}, {:?} {}, pixels of {} {}.",
            taken.image_id,
            taken.frame.pixels.shape(),
            taken.frame.pixels.dtype(),
            taken.psize.map_or("unknown".into(), plain),
            taken.unit
        );
        let value = super::blocking(move || imaging::array_payload(&taken.frame.pixels, legacy)).await?;
        return Ok(Answer::result(text, value));
    }
    let value = match name.as_str() {
        "psize_0" | "psize_km1" | "psize_k" => number(buffers.named(&name).and_then(|t| t.psize)),
        "image_acquisition_call_history" => json!(buffers.history()),
        "line_scan_call_history" => json!([]),
        _ => {
            let what = format!("There is no attribute {:?}; there are {}.", cut(&name), ATTRIBUTES.join(", "));
            return Err(ToolError::new(Code::NotFound, what).next("list_attributes", "call list_attributes {}"));
        }
    };
    let shown = match &value {
        Value::Null => format!("{name} is not set yet."),
        Value::Array(a) => format!("{name}: {} entries.", a.len()),
        other => format!("{name}: {other}."),
    };
    Ok(Answer::result(shown, value))
}

fn too_large(taken: &Taken, name: &str, most: usize) -> Result<(), ToolError> {
    let bytes = taken.frame.pixels.bytes();
    if bytes <= most {
        return Ok(());
    }
    let what = format!(
        "{name} has {bytes} bytes ({:?} {}), more than the {most} bytes that one answer may carry. Ways out: its file, a \
         smaller region or ROI, binning.",
        taken.frame.pixels.shape(),
        taken.frame.pixels.dtype()
    );
    Err(ToolError::new(Code::TooLarge, what).next(
        "export_array",
        format!(
            "call export_array {{\"buffer\": \"{name}\", \"name\": \"{}\"}}; it writes a file and returns its path",
            taken.image_id
        ),
    ))
}

/// Answers `list_attributes`.
pub(crate) async fn list_attributes(call: Call) -> Outcome {
    let buffers = &call.core.buffers;
    let one = |name: &str| {
        let taken = buffers.named(name);
        if BUFFERS.contains(&name) {
            let shape = taken.as_ref().map(|t| t.frame.pixels.shape());
            let dtype = taken.as_ref().map(|t| t.frame.pixels.dtype());
            json!({ "name": name, "type": "array", "set": taken.is_some(), "shape": shape, "dtype": dtype })
        } else if name.starts_with("psize") {
            json!({ "name": name, "type": "number", "set": taken.is_some() })
        } else {
            json!({ "name": name, "type": "list", "set": true })
        }
    };
    let rows: Vec<Value> = ATTRIBUTES.iter().map(|n| one(n)).collect();
    let text = format!("Attributes: {}. {} images were acquired.", ATTRIBUTES.join(", "), buffers.history().len());
    Ok(Answer::ok(text)
        .with("attributes", rows)
        .next("get_attribute_payload", "get_attribute_payload {\"name\": \"image_k\"}"))
}

/// Which image is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    /// Image k.
    Current,
    /// Image k−1.
    Previous,
    /// Image 0.
    Initial,
}

/// Answers `get_current_image_info` and its siblings.
pub(crate) async fn get_image_info(call: Call, which: Which) -> Outcome {
    let buffer = match which {
        Which::Current => "image_k",
        Which::Previous => "image_km1",
        Which::Initial => "image_0",
    };
    let Some(t) = call.core.buffers.named(buffer) else {
        let text = format!("{buffer} is not set yet.");
        let empty = Answer::ok(text)
            .next("acquire_image", "acquire_image {} takes one")
            .with("buffer_name", buffer)
            .with("psize", Value::Null);
        return Ok(empty.with("shape", Value::Null).with("dtype", Value::Null));
    };
    let f = &t.frame;
    let text = format!(
        "{buffer} is image {}: {:?} {}, pixels of {} {}.",
        t.image_id,
        f.pixels.shape(),
        f.pixels.dtype(),
        t.psize.map_or("unknown".into(), plain),
        t.unit
    );
    Ok(Answer::ok(text)
        .with("buffer_name", buffer)
        .with("psize", number(t.psize))
        .with("unit", t.unit.name())
        .with("shape", json!(f.pixels.shape()))
        .with("dtype", f.pixels.dtype())
        .with("image_id", t.image_id.as_str())
        .with("acquisition", t.call.clone())
        .with("position_before", words::readings_json(&f.before)))
}

/// Arguments of `set_parameters`.
pub(crate) fn set_parameters_input(rig: &Rig) -> Schema {
    let parameters = rig.eaa.as_ref().map(|e| e.parameters.as_slice()).unwrap_or_default();
    let words: Vec<String> = parameters.iter().map(parameter_words).collect();
    let n = parameters.len();
    Object::new()
        .must("parameters", list(json!({ "type": "number" }), n, n, &format!("In this order: {}.", words.join(", "))))
        .may("wait_s", wait_s(rig))
        .build()
}

/// Present values of the parameters; `None` where one is not known.
fn values(eaa: &Eaa, state: &Snapshot) -> Vec<Option<f64>> {
    let settings = state.camera(eaa.camera.as_str()).and_then(|c| c.settings.as_ref());
    let one = |p: &Parameter| match p {
        Parameter::Axis(id, unit) => {
            state.stage(id.stage.as_str())?.axis(id.axis.as_str())?.position.map(|p| p.to(*unit))
        }
        Parameter::ExposureMs => settings.map(|s| s.exposure_ms),
        Parameter::Gain => settings.map(|s| s.gain),
    };
    eaa.parameters.iter().map(one).collect()
}

fn spoken(eaa: &Eaa, values: &[Option<f64>]) -> String {
    let one =
        |(p, v): (&Parameter, &Option<f64>)| format!("{} {}", parameter_words(p), v.map_or("unknown".into(), plain));
    eaa.parameters.iter().zip(values).map(one).collect::<Vec<_>>().join(", ")
}

/// Answers `get_parameters`.
pub(crate) async fn get_parameters(call: Call) -> Outcome {
    let live = call.live()?;
    let eaa = eaa(live)?;
    let now = values(eaa, &live.handle.snapshot());
    let list: Vec<Value> = now.iter().map(|v| number(*v)).collect();
    Ok(Answer::result(format!("Parameters: {}.", spoken(eaa, &now)), json!(list)))
}

/// What a list of parameters asks for.
fn split(eaa: &Eaa, given: &[f64]) -> Result<(Vec<Move>, CameraChange), ToolError> {
    if given.len() != eaa.parameters.len() {
        return Err(wrong(
            "parameters",
            &format!("{} numbers are needed, {} were given", eaa.parameters.len(), given.len()),
        ));
    }
    let (mut moves, mut change) = (Vec::<Move>::new(), CameraChange::default());
    for (parameter, value) in eaa.parameters.iter().zip(given) {
        let positive = || {
            let ok = *value > 0.0;
            ok.then_some(*value)
                .ok_or_else(|| wrong("parameters", &format!("{} must be above zero", parameter_words(parameter))))
        };
        match parameter {
            Parameter::Axis(id, unit) => {
                let to = Position::new(*value, *unit).map_err(|e| wrong("parameters", &e.to_string()))?;
                let ours = moves.iter_mut().find(|m| m.stage == id.stage);
                if let Some(Move { aim: Aim::To(list), .. }) = ours {
                    list.push((id.axis.clone(), to));
                } else {
                    moves.push(Move { stage: id.stage.clone(), aim: Aim::To(vec![(id.axis.clone(), to)]) });
                }
            }
            Parameter::ExposureMs => change.exposure_ms = Some(positive()?),
            Parameter::Gain => change.gain = Some(positive()?),
        }
    }
    Ok((moves, change))
}

/// Answers `set_parameters`: judged as a whole before anything is set or moved.
pub(crate) async fn set_parameters(call: Call) -> Outcome {
    let live = call.live()?.clone();
    let rig = live.handle.rig().clone();
    let eaa = eaa(&live)?.clone();
    let given = call.args.numbers("parameters").ok_or_else(|| wrong("parameters", "finite numbers are needed"))?;
    let (moves, change) = split(&eaa, &given)?;
    let state = live.handle.snapshot();
    for movement in &moves {
        let verdict = live.handle.rules().judge_move(movement, &state, live.handle.now())?;
        if let Some(error) = Option::<RigError>::from(&verdict) {
            return Err(error.on(&movement.stage).into());
        }
    }
    if !change.is_empty() {
        super::camera::set(&call, &eaa.camera, change).await?;
    }
    let Some(first) = moves.first().map(|m| m.stage.clone()) else {
        let stage = rig.stages.first().and_then(|s| call.epoch(s.id.as_str()));
        return Ok(set_answer(&eaa, &live.handle.snapshot(), Moved::No, stage));
    };
    let plan = Sequence::movements(format!("set parameters {given:?}"), moves);
    // EAA can't use a job: the call waits to the end, with signs of life.
    let patience = call.args.number("wait_s").map(|_| call.patience(&rig));
    let show = show(live, eaa, first.clone());
    run(&call, Some(&first), Box::new(plan), patience, show).await
}

fn show(live: Live, eaa: Eaa, stage: Name) -> Render {
    render(move |report| {
        let mut state = (*live.handle.snapshot()).clone();
        for status in report.stages {
            // The report's own reading of its stages, which the published state may not have yet.
            if let Some(old) = state.stages.iter_mut().find(|s| s.stage == status.stage) {
                *old = status;
            }
        }
        let epoch = state.stage(stage.as_str()).map(|s| s.epoch);
        Ok(set_answer(&eaa, &state, report.moved, epoch))
    })
}

fn set_answer(eaa: &Eaa, state: &Snapshot, moved: Moved, epoch: Option<Epoch>) -> Answer {
    let now = values(eaa, state);
    let list: Vec<Value> = now.iter().map(|v| number(*v)).collect();
    let text = format!("Set: {}. {}", spoken(eaa, &now), words::moved_line(moved, epoch));
    Answer::ok(text).with("parameters", list).moved(moved).epoch(epoch)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn taken(n: u16) -> Taken {
        let mut frame = testing::frame();
        frame.pixels = crate::model::Pixels::U16(ndarray::Array2::from_elem((2, 2), n));
        frame.sequence = n.into();
        Taken {
            image_id: format!("20261130-120000-{n:04}"),
            frame: Arc::new(frame),
            psize: Some(0.65),
            psize_um: 0.65,
            unit: Unit::Um,
            call: json!({ "x_center": n }),
        }
    }

    #[test]
    fn the_first_image_stays_and_the_others_move_up() {
        let b = Buffers::default();
        assert!(b.named("image_k").is_none());
        (1..=3).for_each(|n| b.push(taken(n)));
        let number = |name: &str| b.named(name).unwrap().frame.sequence;
        assert_eq!([number("image_0"), number("image_km1"), number("image_k")], [1, 2, 3]);
        assert_eq!(b.history(), [json!({ "x_center": 1 }), json!({ "x_center": 2 }), json!({ "x_center": 3 })]);
    }

    #[test]
    fn e08_a_reader_never_sees_a_new_number_with_an_old_picture() {
        let b = Arc::new(Buffers::default());
        let writer = {
            let b = b.clone();
            std::thread::spawn(move || (1..=1000).for_each(|n| b.push(taken(n))))
        };
        while !writer.is_finished() {
            if let Some(t) = b.named("image_k") {
                let crate::model::Pixels::U16(p) = &t.frame.pixels else { panic!() };
                assert_eq!(u64::from(p[[0, 0]]), t.frame.sequence);
                assert!(t.image_id.ends_with(&format!("{:04}", t.frame.sequence)));
            }
        }
        writer.join().unwrap();
        assert_eq!(b.history().len(), 1000);
    }

    #[test]
    fn an_array_over_the_cap_is_refused_with_the_ways_out() {
        let e = too_large(&taken(1), "image_k", 7).unwrap_err();
        assert_eq!(e.error.code, Code::TooLarge);
        assert!(e.error.what.contains("8 bytes") && e.error.what.contains("binning"), "{}", e.error.what);
        assert!(e.next.unwrap().say.contains("export_array {\"buffer\": \"image_k\""));
        assert!(too_large(&taken(1), "image_k", 8).is_ok());
    }

    #[test]
    fn parameters_become_moves_and_settings_or_are_refused_whole() {
        let eaa = Eaa {
            parameters: vec![
                Parameter::Axis(crate::model::AxisId::new("scope", "z"), Unit::Um),
                Parameter::ExposureMs,
                Parameter::Axis(crate::model::AxisId::new("scope", "x"), Unit::Mm),
            ],
            ..testing::rig().eaa.unwrap()
        };
        let (moves, change) = split(&eaa, &[300.0, 20.0, 5.0]).unwrap();
        assert_eq!((moves.len(), change.exposure_ms), (1, Some(20.0)));
        assert!(matches!(&moves[0].aim, Aim::To(list) if list.len() == 2 && list[0].1.to(Unit::Um) == 300.0));
        assert!(split(&eaa, &[300.0]).is_err());
        assert!(split(&eaa, &[300.0, 0.0, 5.0]).unwrap_err().error.what.contains("exposure in ms must be above zero"));
        assert!(split(&eaa, &[f64::NAN, 1.0, 5.0]).is_err());
    }
}
