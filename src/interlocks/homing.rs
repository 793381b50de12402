//! The judgement of a homing: what it needs, and what another stage may have put in its way.

use super::asks::Order;
use super::conditions::Ahead;
use super::judge::{Rules, refusal, refused};
use super::path::{HomeDrive, all_axes, whereabouts_if};
use crate::config::{Homing, Stage};
use crate::model::{AxisId, Code, Home, Refusal, RigError, Snapshot, Time, Trust};
use crate::units::{Distance, Span};

impl Rules {
    /// Judges a homing; moves nothing.
    ///
    /// # Errors
    /// All refusals at once, under the code of the first.
    pub fn judge_home(&self, home: &Home, state: &Snapshot, now: Time) -> Result<HomeDrive, RigError> {
        let (index, stage) = self.stage(&home.stage)?;
        let status = state.stage(stage.id.as_str());
        let Homing::Cycle { timeout, .. } = &stage.home else {
            return Err(no_homing(stage));
        };
        let mut axes = Vec::new();
        for name in &home.axes {
            let Some(i) = stage.axes.iter().position(|a| a.id.axis == *name) else {
                let what = format!("Stage {} has no axis {name}.", stage.id);
                return Err(RigError::new(Code::NotFound, what).on(&stage.id));
            };
            axes.push(i);
        }
        if !axes.is_empty() && axes.len() < stage.axes.len() && !self.traits(index).homes_single_axes {
            let what = format!("The controller of {} homes all its axes together; call home without axes.", stage.id);
            return Err(RigError::new(Code::Unsupported, what).on(&stage.id));
        }
        // Homing is how a position that isn't known becomes known: readings are needed, trust is not.
        let mut refusals = self.readiness(stage, status, now);
        refusals.extend(self.homing_meets(stage, state));
        refusals.extend(self.gates(Ahead { order: Order::Home(home), drive: None }, state).0);
        refused(&stage.id, refusals)?;
        Ok(HomeDrive { stage: stage.id.clone(), axes, timeout: *timeout })
    }

    /// Boxes that a homing could meet: those shared with another stage that is in the way. Boxes of the homing
    /// stage alone can't be judged before its position is known; the rig's owner answers for the homing order. Where two
    /// stages share a box and neither is referenced, the word of a person about one lets the other begin.
    fn homing_meets(&self, stage: &Stage, state: &Snapshot) -> Vec<Refusal> {
        let mut out = Vec::new();
        for keep_out in &self.rig().keep_outs {
            for bounds in &keep_out.boxes {
                let others: Vec<&(AxisId, Span)> = bounds.iter().filter(|(id, _)| id.stage != stage.id).collect();
                let shared = others.len() < bounds.len() && !others.is_empty();
                let met = shared
                    && others.iter().all(|(id, span)| {
                        let axis = all_axes(self.rig()).find(|a| a.id == *id);
                        axis.is_none_or(|a| {
                            let place = whereabouts_if(a, state.stage(id.stage.as_str()), Trust::Assumed);
                            let span = span.widened(keep_out.margin);
                            // A point is taken for a tiny span, so that one rule serves both.
                            let hair = Distance::base(1e-6).unwrap_or_default();
                            place.widened(hair).overlaps(span)
                        })
                    });
                if met {
                    let who: Vec<String> = others.iter().map(|(id, _)| id.to_string()).collect();
                    let who = who.join(" or ");
                    let what = format!(
                        "Homing {} could lead into the keep-out \"{}\" ({}), since {who} is not known to be out of it.",
                        stage.id,
                        keep_out.name,
                        self.ranges(keep_out, bounds)
                    );
                    let allowed = format!(
                        "homing {} while {who} is known to be outside of \"{}\"; a person can declare where it stands, with \
                         `steadyhand reference AXIS VALUE`",
                        stage.id, keep_out.name
                    );
                    let no = refusal(Code::KeepOut, keep_out.name.clone(), what, keep_out.why.clone());
                    out.push(Refusal { allowed: Some(allowed), ..no });
                }
            }
        }
        out
    }
}

/// Why a stage can't be homed whose rig file says `home = "never"`, and what is done instead.
pub fn no_homing(stage: &Stage) -> RigError {
    let axis = stage.axes.first().map_or("AXIS", |a| a.id.axis.as_str());
    let what = format!(
        "Stage {id} has no homing; a person declares where its axes stand, with `steadyhand reference {id}.{axis} VALUE`.",
        id = stage.id
    );
    RigError::new(Code::Unsupported, what).on(&stage.id)
}
