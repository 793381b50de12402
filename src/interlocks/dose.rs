//! The budget of light: how much of it a sample may get within an hour.

use super::judge::Rules;
use super::spent::{HOUR, brightness};
use crate::model::{Code, Name, OutputValue, Refusal, SetOutput, Shot, Snapshot};
use crate::units::plain;

impl Rules {
    /// Why an exposure is refused that would take a light over its dose: its own, and whatever is on meanwhile.
    pub(super) fn too_much_light_of(&self, shot: &Shot, state: &Snapshot) -> Vec<Refusal> {
        let exposure_ms = shot.change.exposure_ms.or_else(|| {
            let settings = state.camera(shot.camera.as_str())?.settings.as_ref()?;
            Some(settings.exposure_ms)
        });
        let seconds = exposure_ms.unwrap_or(0.0) / 1000.0;
        let opens = self.rig().camera(shot.camera.as_str()).and_then(|c| c.light.as_ref());
        let counted = self.rig().budget.light_dose.iter();
        let refusals = counted.filter_map(|(light, most)| {
            let is = state.output(light.as_str()).and_then(|o| o.value.as_ref()).map_or(0.0, brightness);
            // One that is dark is opened as the rig file says.
            let opened = opens.filter(|l| l.output == *light && is <= 0.0).map_or(is, |l| brightness(&l.open));
            let given = given(state, light);
            let more = opened * seconds;
            let over = more > 0.0 && given + more > *most;
            let what = || {
                format!(
                    "The exposure would give {} %·s of {light}, after {} %·s within the last hour; {} %·s are allowed.",
                    plain(more),
                    plain(given),
                    plain(*most)
                )
            };
            over.then(|| self.dose_refused(light, what(), (*most - given).max(0.0)))
        });
        refusals.collect()
    }

    /// Why a light is not made brighter that has given its dose.
    pub(super) fn too_much_light(&self, set: &SetOutput, state: &Snapshot) -> Option<Refusal> {
        let (light, most) = self.rig().budget.light_dose.iter().find(|(light, _)| *light == set.output)?;
        let given = given(state, light);
        let over = brightness(&set.value) > 0.0 && given >= *most;
        let what = || {
            format!("{light} has given {} %·s within the last hour; {} %·s are allowed.", plain(given), plain(*most))
        };
        over.then(|| self.dose_refused(light, what(), 0.0))
    }

    /// The lights that are on and have given all that they may.
    pub fn spent_lights<'a>(&'a self, state: &'a Snapshot) -> impl Iterator<Item = (&'a Name, f64)> {
        let counted = self.rig().budget.light_dose.iter();
        counted.filter_map(|(light, most)| {
            let lit = state
                .output(light.as_str())
                .is_some_and(|o| [&o.value, &o.target].into_iter().flatten().any(OutputValue::is_lit));
            (lit && given(state, light) >= *most).then_some((light, *most))
        })
    }

    fn dose_refused(&self, light: &Name, what: String, left: f64) -> Refusal {
        Refusal {
            code: Code::Budget,
            rule: format!("light_dose of {light}"),
            what,
            why: self.rig().budget.why.clone(),
            allowed: Some(format!("{} %·s of {light} now; more within {} min", plain(left), HOUR.as_secs() / 60)),
        }
    }
}

fn given(state: &Snapshot, light: &Name) -> f64 {
    state.dose.iter().find(|(name, _)| name == light).map_or(0.0, |(_, dose)| *dose)
}
