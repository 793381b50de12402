//! The tools on a rig that only looks: what their list costs a chat, and whether the calls that their descriptions show
//! work here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::session::Session;
use super::super::talk::Talk;
use super::facts::Host;
use super::findings::{Finding, Level};
use crate::access::Policy;
use crate::config::Rig;
use crate::model::RigError;
use crate::store::{EventLog, SavedPositions, Store, free_bytes};
use crate::tools::{Face, Live, Parts, RigPart};
use crate::units::plain;

/// What a chat should spend on the list, in tokens.
const BUDGET: usize = 5000;

/// How many bytes make a token, about.
const BYTES_PER_TOKEN: usize = 4;

/// Opens the rig's files, measures the tools, and calls what only reads if `examples` are asked for. What it learns of
/// the folders goes into `host`.
pub(super) fn of(session: &Session, data_dir: Option<&Path>, examples: bool, host: &mut Host) -> Vec<Finding> {
    let rig = session.handle().rig().clone();
    let live = match files(session, &rig, data_dir) {
        Ok(live) => live,
        Err(error) => {
            host.data = Some(Err(error.what));
            return Vec::new();
        }
    };
    host.data = Some(Ok(live.store.data_dir().to_owned()));
    host.images = (!rig.cameras.is_empty()).then(|| live.store.images_dir().to_owned());
    host.free = [free_bytes(live.store.data_dir()), live.store.free_for_images()];
    let found = session.runtime().block_on(async {
        let mut out = vec![cost(&Talk::with(face(&live, false)).await?.tools().await?)];
        if examples {
            tried(face(&live, true), &rig, &mut out).await?;
        }
        Ok::<_, String>(out)
    });
    found.unwrap_or_else(|error| {
        vec![Finding::new(Level::Problem, "tools", format!("They could not be asked: {error}."))]
    })
}

fn files(session: &Session, rig: &Rig, data_dir: Option<&Path>) -> Result<Live, RigError> {
    let store = Store::open(rig, data_dir)?;
    let events = EventLog::open(&store.data_dir().join("audit"))?;
    let (saved, _) = SavedPositions::load(store.data_dir())?;
    let handle = session.handle().clone();
    Ok(Live { handle, store: Arc::new(store), events: Arc::new(events), saved: Arc::new(saved) })
}

/// The tools as a client has them, or those alone that read.
fn face(live: &Live, read_only: bool) -> Face {
    Face::new(Parts {
        rig: RigPart::Live(live.clone()),
        policy: Policy { read_only },
        request_timeout: Duration::from_secs(30),
        shutting_down: CancellationToken::new(),
    })
}

/// Calls what only reads.
async fn tried(face: Face, rig: &Rig, out: &mut Vec<Finding>) -> Result<(), String> {
    let shown: Vec<(&str, &str)> = face.examples();
    let mut talk = Talk::with(face).await?;
    let tools = talk.tools().await?;
    let reads = |name: &str| tools.iter().any(|t| t["name"] == name && t["annotations"]["readOnlyHint"] == json!(true));
    for (tool, arguments) in shown.into_iter().filter(|(tool, _)| reads(tool)) {
        let Some(arguments) = fitted(arguments, rig) else { continue };
        let call = format!("{tool} {arguments}");
        let (well, text) = talk.call(tool, &arguments).await?;
        let first = text.lines().next().unwrap_or_default().to_owned();
        // A refusal that says why and what next is an answer; that nothing came back is none.
        let level = match (well, text.is_empty()) {
            (true, false) => Level::Good,
            (false, false) if first.starts_with("[internal]") => Level::Problem,
            (false, false) => Level::Note,
            (_, true) => Level::Problem,
        };
        out.push(Finding::new(level, call, first));
    }
    Ok(())
}

/// What the list of tools costs.
fn cost(tools: &[Value]) -> Finding {
    let part = |t: &Value| {
        t["name"].to_string().len() + t["description"].to_string().len() + t["inputSchema"].to_string().len()
    };
    let tokens = tools.iter().map(part).sum::<usize>() / BYTES_PER_TOKEN;
    let what = format!("{} of them; their list costs a chat about {tokens} tokens.", tools.len());
    if tokens <= BUDGET {
        return Finding::new(Level::Good, "tools", what);
    }
    Finding::new(Level::Warning, "tools", what)
        .remedy(format!("more than {BUDGET}: shorten the names of axes and devices"))
}

/// An example for the demonstration rig, with this rig's own names and places; `None` where it has nothing of the kind.
fn fitted(example: &str, rig: &Rig) -> Option<Value> {
    let mut arguments: Value = serde_json::from_str(example).ok()?;
    let map = arguments.as_object_mut()?;
    let stage = rig.stages.first();
    for key in ["stage", "device"] {
        if let Some(name) = map.get_mut(key) {
            *name = json!(stage?.id.as_str());
        }
    }
    if let Some(camera) = map.get_mut("camera") {
        *camera = json!(rig.cameras.first()?.id.as_str());
    }
    if let Some(sensor) = map.get_mut("sensor") {
        *sensor = json!(rig.sensors.first()?.id.as_str());
    }
    if map.contains_key("targets") {
        let axis = stage?.axes.first()?;
        let middle = (axis.travel.low.to(axis.unit) + axis.travel.high.to(axis.unit)) / 2.0;
        let middle: f64 = plain(middle).parse().ok()?;
        map.insert("targets".into(), json!({ axis.id.axis.as_str(): middle }));
        map.insert("unit".into(), json!(axis.unit.name()));
    }
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn an_example_names_what_this_rig_has() {
        let text = include_str!("../../../rigs/minimal.toml");
        let rig = config::parse(text, Path::new("minimal.toml"), &crate::devices::known()).expect("a rig");
        let fitted = |e: &str| fitted(e, &rig);
        assert_eq!(fitted(r#"{"stage": "scope"}"#), Some(json!({"stage": "stage"})));
        assert_eq!(
            fitted(r#"{"stage": "scope", "targets": {"y": 1}, "unit": "um"}"#),
            Some(json!({"stage": "stage", "targets": {"x": 37.25}, "unit": "mm"}))
        );
        assert_eq!(fitted(r#"{"camera": "cam"}"#), None, "it has no camera");
        assert_eq!(fitted("{}"), Some(json!({})));
    }
}
