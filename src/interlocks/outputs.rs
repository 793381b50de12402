//! Whether an output may be set: a value that it has, within the owner's maximum, and nothing in force against it.

use super::asks::Order;
use super::conditions::Ahead;
use super::judge::{Rules, refused};
use crate::config::Output;
use crate::model::{Code, OutputKind, OutputStatus, OutputValue, Refusal, RigError, SetOutput, Snapshot};
use crate::units::Percent;

impl Rules {
    /// Judges a change of an output.
    ///
    /// # Errors
    /// `not_found`; `invalid_argument` for a value that it doesn't have or may not have; `stopped`, `faulted`,
    /// `not_connected`, `busy` where something stands in the way; `rule_refused` where a rule would not hold. What is safe is allowed in spite of a stop or a
    /// fault.
    pub fn judge_set(&self, set: &SetOutput, state: &Snapshot) -> Result<SetOutput, RigError> {
        let Some(output) = self.rig().output(set.output.as_str()) else {
            return Err(RigError::new(Code::NotFound, format!("This rig has no output {}.", set.output)));
        };
        fits(output, &set.value)?;
        let refuse = |code, what: String| Err(RigError::new(code, what).on(&output.id));
        let Some(status) = state.output(output.id.as_str()) else {
            return refuse(Code::NotConnected, format!("Nothing is known of output {} yet.", output.id));
        };
        let safe = output.safe() == Some(&set.value);
        if !self.makes_safe(set) {
            let (mut refusals, _) = self.gates(Ahead { order: Order::Set(set), drive: None }, state);
            refusals.extend(self.too_much_light(set, state));
            refused(&output.id, refusals)?;
        }
        match obstacle(output, status) {
            Some((Code::Stopped | Code::Faulted, _)) if safe && status.ready => Ok(set.clone()),
            Some((code, what)) => refuse(code, what),
            None => Ok(set.clone()),
        }
    }
}

/// What stands against any change of an output, with its name.
fn obstacle(output: &Output, status: &OutputStatus) -> Option<(Code, String)> {
    let id = &output.id;
    if status.stopped_by.is_some() {
        return Some((Code::Stopped, format!("Output {id} was made safe by a stop, which is still in force.")));
    }
    if let Some(fault) = &status.fault {
        let code = if status.ready { Code::Faulted } else { fault.code };
        return Some((code, format!("Output {id}: {}", fault.what)));
    }
    if !status.ready {
        return Some((Code::NotConnected, format!("Output {id} isn't connected yet, or not yet made safe.")));
    }
    let target = status.target.as_ref()?;
    Some((Code::Busy, format!("Output {id} is still on its way to {target}.")))
}

/// Whether an output of that kind has such a value, and may have it.
fn fits(output: &Output, value: &OutputValue) -> Result<(), RigError> {
    let id = &output.id;
    let wrong = |what: String| Err(RigError::new(Code::InvalidArgument, what).on(id));
    match (output.kind, value) {
        (OutputKind::Shutter, OutputValue::Open(_)) | (OutputKind::Line, OutputValue::On(_)) => Ok(()),
        (OutputKind::Wheel, OutputValue::At(name)) if output.positions.contains(name) => Ok(()),
        (OutputKind::Wheel, OutputValue::At(name)) => {
            let names: Vec<&str> = output.positions.iter().map(|n| n.as_str()).collect();
            wrong(format!("Output {id} has no position {name}; it has {}.", names.join(", ")))
        }
        (OutputKind::Light, OutputValue::Percent(p)) if *p <= output.max => Ok(()),
        (OutputKind::Light, OutputValue::Percent(p)) => {
            let what = format!("{p} is more than output {id} may have, {}.", output.max);
            let refusal = Refusal {
                code: Code::InvalidArgument,
                rule: format!("maximum of {id}"),
                what: what.clone(),
                why: output.why.clone(),
                allowed: Some(format!("{id} from {} to {}", Percent::ZERO, output.max)),
            };
            Err(RigError { refusals: vec![refusal], ..RigError::new(Code::InvalidArgument, what).on(id) })
        }
        (kind, value) => wrong(format!("Output {id} is a {}, which can't be {value}.", kind.word())),
    }
}
