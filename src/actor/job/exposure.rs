//! An exposure within a plan: its light, positions read before and after, the frame.

use std::sync::Arc;

use super::super::stage::StageUnit;
use super::{Bench, FRESH, Flow, Job, ONLINE, REST, Stand};
use crate::model::{AxisReading, CameraChange, Code, Frame, Moved, OutputValue, RigError, SetOutput, Shot, Time};

impl Job {
    /// Opens the camera's light, if it has one and none passes.
    pub(super) fn light(&mut self, camera: usize, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        let Some(light) = bench.rig.cameras[camera].light.as_ref() else { return self.before(camera, bench) };
        let output = bench.output(&light.output)?;
        if bench.outputs[output].is_connecting() && bench.now.since(self.started) < ONLINE {
            return self.wait(Stand::Lighting { camera, output: None });
        }
        let is = bench.outputs[output].status.value.clone();
        if bench.outputs[output].status.ready && is.as_ref().is_some_and(OutputValue::is_lit) {
            return self.before(camera, bench);
        }
        let set = SetOutput { output: light.output.clone(), value: light.open.clone() };
        let state = bench.state();
        let cleared = bench.panel.clear_set(&set, self.permit()?, &state)?;
        bench.outputs[output].set(cleared, bench.now)?;
        self.lit = Some((output, is.unwrap_or_else(|| bench.outputs[output].dark())));
        self.wait(Stand::Lighting { camera, output: Some(output) })
    }

    /// Puts the light back that was opened, unless it is being made safe anyway. Tells which it was.
    pub(super) fn put_light_back(&mut self, bench: &mut Bench<'_>) -> Option<usize> {
        let (index, value) = self.lit.take()?;
        let unit = &mut bench.outputs[index];
        unit.abandon();
        let set = SetOutput { output: unit.status.output.clone(), value };
        let state = bench.state();
        // What is refused has its reason in the state of the light: gone, stopped and so safe, faulty.
        if let Ok(permit) = self.permit()
            && let Ok(cleared) = bench.panel.clear_set(&set, permit, &state)
            && bench.outputs[index].set(cleared, bench.now).is_ok()
        {
            return Some(index);
        }
        None
    }

    pub(super) fn before(&mut self, camera: usize, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        for stage in bench.stages.iter_mut() {
            stage.poll(bench.now);
        }
        self.wait(Stand::Before { since: bench.now, camera })
    }

    /// Whether every stage that is there has been read since.
    fn all_read(since: Time, bench: &Bench<'_>) -> bool {
        let late = bench.now.since(since) >= FRESH;
        late || bench.stages.iter().all(|s| !s.status.link.open || s.status.identity.is_none() || s.read_since(since))
    }

    pub(super) fn shoot(&mut self, since: Time, camera: usize, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        if !Self::all_read(since, bench) {
            return self.wait(Stand::Before { since, camera });
        }
        // One reading at rest may fall between two parts of a motion: what this plan uses is seen at rest once more.
        let ours = |s: &&mut StageUnit| self.uses.contains(&s.status.stage) && s.status.activity.is_motion();
        if let Some(stage) = bench.stages.iter_mut().find(ours) {
            if bench.now.since(since) >= REST {
                let what =
                    format!("Stage {} moves on, though its move was over; no picture was taken.", stage.status.stage);
                return Err(RigError::new(Code::Busy, what).on(&stage.status.stage));
            }
            return self.wait(Stand::Before { since, camera });
        }
        self.still_there(bench)?;
        let shot = Shot { camera: bench.rig.cameras[camera].id.clone(), change: CameraChange::default() };
        let state = bench.state();
        bench.panel.clear_shot(&shot, self.permit()?, &state)?;
        bench.cameras[camera].shoot(bench.now)?;
        let epochs = bench.stages.iter().map(|s| s.status.epoch.0).collect();
        self.wait(Stand::Exposing { camera, asked_at: bench.now, before: bench.positions(), epochs })
    }

    /// A picture is of the place to which the plan has moved: what has a fault since, or is elsewhere, is not there.
    fn still_there(&self, bench: &Bench<'_>) -> Result<(), RigError> {
        for (stage, stood) in &self.arrived {
            let (status, axes) = (&bench.stages[*stage].status, &bench.rig.stages[*stage].axes);
            if let Some(fault) = &status.fault {
                let what = format!("{} No picture was taken.", fault.what);
                return Err(RigError::new(Code::Faulted, what).on(&status.stage));
            }
            let strayed = status.axes.iter().zip(stood).zip(axes).find(|((now, stood), axis)| {
                let way = now.position.zip(stood.position).map(|(now, stood)| (now - stood).abs());
                way.is_none_or(|w| w > axis.tolerance)
            });
            if let Some((_, axis)) = strayed {
                let what =
                    format!("{} is not known to stand where it arrived any more; no picture was taken.", axis.id);
                return Err(RigError::new(Code::MovedOn, what).on(&status.stage));
            }
        }
        Ok(())
    }

    pub(super) fn exposed(
        &mut self,
        camera: usize,
        asked_at: Time,
        before: Vec<AxisReading>,
        epochs: Vec<u64>,
        bench: &mut Bench<'_>,
    ) -> Result<Flow, RigError> {
        let Some(taken) = bench.cameras[camera].take_frame() else {
            return self.wait(Stand::Exposing { camera, asked_at, before, epochs });
        };
        let raw = taken.map_err(|e| e.moved(self.moved))?;
        for stage in bench.stages.iter_mut() {
            stage.poll(bench.now);
        }
        let frame = Frame {
            camera: bench.rig.cameras[camera].id.clone(),
            pixels: raw.pixels,
            significant_bits: raw.significant_bits,
            settings: raw.settings,
            sequence: raw.sequence,
            asked_at,
            received_at: bench.now,
            before,
            after: Vec::new(),
            moved_during: Moved::Unknown,
            simulated: bench.simulated[camera],
        };
        self.wait(Stand::After { since: bench.now, frame: Box::new(frame), epochs })
    }

    pub(super) fn framed(
        &mut self,
        since: Time,
        mut frame: Box<Frame>,
        epochs: Vec<u64>,
        bench: &mut Bench<'_>,
    ) -> Result<Flow, RigError> {
        if !Self::all_read(since, bench) {
            return self.wait(Stand::After { since, frame, epochs });
        }
        frame.after = bench.positions();
        frame.moved_during = moved_during(&frame, &epochs, since, bench);
        self.frames.push(Arc::new(*frame));
        match self.put_light_back(bench) {
            Some(output) => self.wait(Stand::Dark { output }),
            None => Ok(Flow::Again),
        }
    }
}

/// Two readings around an exposure prove a motion; that there was none they prove only when nothing was
/// ordered in between either and each stage was read on both sides.
fn moved_during(frame: &Frame, epochs: &[u64], since: Time, bench: &Bench<'_>) -> Moved {
    let displaced = frame.before.iter().zip(&frame.after).any(|(a, b)| {
        let (Some(a), Some(b)) = (a.position, b.position) else { return false };
        a != b
    });
    let in_motion = bench.stages.iter().any(|s| s.status.activity.is_motion());
    if displaced || in_motion {
        return Moved::Yes;
    }
    let same_state = bench.stages.iter().map(|s| s.status.epoch.0).eq(epochs.iter().copied());
    let all_known = frame.after.iter().chain(&frame.before).all(|r| r.position.is_some());
    let all_read = bench.stages.iter().all(|s| s.read_since(since));
    if same_state && all_known && all_read { Moved::No } else { Moved::Unknown }
}
