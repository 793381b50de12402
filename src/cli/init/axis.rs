//! What is decided of one axis: from flags, from what the controller says, from what a person saw. Pure.

use crate::units::{Unit, plain};

/// What the command line says of one axis: `x,unit=mm,sign=-1,travel=0:75,speed=10`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct AxisFlags {
    pub(super) name: String,
    pub(super) channel: Option<String>,
    pub(super) counts: Option<f64>,
    pub(super) unit: Option<Unit>,
    pub(super) sign: Option<f64>,
    pub(super) origin: Option<f64>,
    pub(super) travel: Option<[f64; 2]>,
    pub(super) speed: Option<f64>,
    pub(super) tolerance: Option<f64>,
    pub(super) holds_unpowered: Option<bool>,
    pub(super) toward_sample: Option<char>,
    pub(super) why: Option<String>,
}

impl AxisFlags {
    /// From the text of a flag. `why` comes last, since it may hold commas.
    pub(super) fn parse(text: &str) -> Result<AxisFlags, String> {
        let (text, why) = match text.split_once(",why=") {
            Some((rest, why)) => (rest, Some(why.to_owned())),
            None => (text, None),
        };
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default().trim().to_owned();
        let mut flags = AxisFlags { name, why, ..AxisFlags::default() };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not KEY=VALUE"))?;
            flags.set(key.trim(), value.trim())?;
        }
        Ok(flags)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        use super::person::{number, positive};
        match key {
            "unit" => {
                self.unit = Some(
                    Unit::parse(value).ok_or_else(|| format!("{value:?} is no unit: nm, um, mm, deg, mdeg, mrad"))?,
                )
            }
            "channel" => self.channel = Some(value.to_owned()),
            "counts-per-unit" => self.counts = Some(positive(value)?),
            "sign" => self.sign = Some(sign(value)?),
            "origin" => self.origin = Some(number(value)?),
            "travel" => self.travel = Some(span(value)?),
            "speed" => self.speed = Some(positive(value)?),
            "tolerance" => self.tolerance = Some(positive(value)?),
            "holds-unpowered" => {
                self.holds_unpowered = Some(match value {
                    "true" | "yes" => true,
                    "false" | "no" => false,
                    _ => return Err("holds-unpowered is true or false".into()),
                });
            }
            "toward-sample" => self.toward_sample = direction(value)?,
            _ => {
                return Err(format!(
                    "{key:?} is unknown: channel, counts-per-unit, unit, sign, origin, travel, speed, tolerance, \
                     holds-unpowered, toward-sample, why"
                ));
            }
        }
        Ok(())
    }
}

/// `1`, `+1`, `-1`, `+` or `-`.
pub(super) fn sign(text: &str) -> Result<f64, String> {
    match text {
        "1" | "+1" | "+" => Ok(1.0),
        "-1" | "-" => Ok(-1.0),
        _ => Err("answer + or -".into()),
    }
}

/// `+`, `-` or `none`.
pub(super) fn direction(text: &str) -> Result<Option<char>, String> {
    match text {
        "+" => Ok(Some('+')),
        "-" => Ok(Some('-')),
        "none" => Ok(None),
        _ => Err("answer +, - or none".into()),
    }
}

/// `LOW:HIGH`.
pub(super) fn span(text: &str) -> Result<[f64; 2], String> {
    let (low, high) = text.split_once(':').ok_or("write LOW:HIGH, as in 0:75")?;
    let (low, high) = (super::person::number(low.trim())?, super::person::number(high.trim())?);
    if low < high { Ok([low, high]) } else { Err("the lower end comes first".into()) }
}

/// An axis as it goes into the rig file; numbers in its unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisPlan {
    pub(super) name: String,
    pub(super) channel: String,
    /// Of a controller that only counts.
    pub(super) counts: Option<f64>,
    pub(super) unit: Unit,
    pub(super) sign: f64,
    /// Somebody has seen which way it goes, or says so.
    pub(super) tried: bool,
    pub(super) origin: f64,
    pub(super) travel: [f64; 2],
    pub(super) travel_from: &'static str,
    pub(super) speed: f64,
    pub(super) tolerance: f64,
    /// As the file has it already; else what goes with its homing.
    pub(super) trust: Option<String>,
    pub(super) holds_unpowered: bool,
    pub(super) toward_sample: Option<char>,
    pub(super) why: Option<String>,
}

/// Where rig coordinates begin and which of them are used, for counts that an axis can take: the lower end of the range
/// becomes 0. Of the end with the switch half the pull-off is left out, so that no move meets the switch.
pub(super) fn placed(range: [f64; 2], home: Option<f64>, sign: f64) -> (f64, [f64; 2]) {
    let [low, high] = range;
    let (mut from, mut to) = (low, high);
    if let Some(home) = home.filter(|h| low < *h && *h < high) {
        if high - home < home - low { to = (home + high) / 2.0 } else { from = (low + home) / 2.0 }
    }
    if sign > 0.0 { (-low, [from - low, to - low]) } else { (high, [high - to, high - from]) }
}

/// A first step by hand, in counts: away from the homed end, and at most half of the way to its switch, so that even a
/// step the wrong way meets no switch.
pub(super) fn first_step(range: Option<[f64; 2]>, home: Option<f64>) -> f64 {
    const LONG: f64 = 0.5;
    let (Some([low, high]), Some(home)) = (range, home) else { return LONG };
    let (below, above) = (home - low, high - home);
    let off = below.min(above);
    let way = if off > 0.0 { LONG.min(off / 2.0) } else { LONG };
    if above < below { -way } else { way }
}

/// What a ruler says of a controller's scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// It fits, as far as a ruler can tell.
    Fits,
    /// It went so many times as far as it was told, and the steps per unit that would be right, if they are known.
    Off {
        /// Measured way over ordered way.
        ratio: f64,
        /// What the controller's setting should be.
        steps: Option<f64>,
    },
}

/// Holds the way that was measured against the way that was ordered. `step` is what the controller takes for one step.
/// A ruler reads to half a millimetre or to a twentieth, whichever is coarser.
pub(super) fn by_ruler(ordered: f64, measured: f64, step: Option<f64>) -> Scale {
    let (ordered, measured) = (ordered.abs(), measured.abs());
    if (measured - ordered).abs() <= (0.05 * ordered).max(0.5) {
        return Scale::Fits;
    }
    let steps = step.filter(|s| *s > 0.0 && measured > 0.0).map(|s| ordered / measured / s);
    Scale::Off { ratio: measured / ordered, steps }
}

/// A range in round numbers that lies in `range`, so that no dust of a conversion leads out of it; `step` is the smallest
/// step of the axis.
pub(super) fn inward([low, high]: [f64; 2], step: f64) -> [f64; 2] {
    let fine = 10_f64.powf(step.log10().floor());
    if !(fine.is_normal() && step > 0.0) {
        return [low, high];
    }
    // Written and read again, as in `rounded_up`.
    let clean = |value: f64, whole: f64| plain(whole * fine).parse().unwrap_or(value);
    [clean(low, (low / fine - 1e-6).ceil()), clean(high, (high / fine + 1e-6).floor())]
}

/// The number with three digits that is not above `value`.
pub(super) fn rounded_down(value: f64) -> f64 {
    let fine = 10_f64.powf(value.log10().floor() - 2.0);
    plain((value / fine + 1e-6).floor() * fine).parse().ok().filter(|n| *n > 0.0).unwrap_or(value)
}

/// The next number of 1, 2, 5, 10, 20, 50 … that is not below `value`.
pub(super) fn rounded_up(value: f64) -> f64 {
    let ten = 10_f64.powf(value.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * ten).find(|n| *n >= value * (1.0 - 1e-9));
    // Written and read again, so that no dust of the multiplication is left.
    nice.and_then(|n| plain(n).parse().ok()).filter(|n| *n > 0.0).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_says_all_there_is_to_say_of_an_axis() {
        let flags = AxisFlags::parse(
            "z,unit=um,sign=-1,origin=5,travel=-10:4000,speed=500,tolerance=2,holds-unpowered=false,toward-sample=+,why=a, b",
        )
        .expect("flags");
        assert_eq!((flags.name.as_str(), flags.unit, flags.sign), ("z", Some(Unit::Um), Some(-1.0)));
        assert_eq!((flags.travel, flags.toward_sample), (Some([-10.0, 4000.0]), Some('+')));
        assert_eq!((flags.holds_unpowered, flags.why.as_deref()), (Some(false), Some("a, b")));
        for bad in
            ["x,unit=ell", "x,sign=2", "x,travel=5:1", "x,travel=5", "x,speed=0", "x,speed=nan", "x,fly=1", "x,mm"]
        {
            assert!(AxisFlags::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn positions_begin_at_the_lower_end_whichever_way_the_controller_counts() {
        // Homed at the upper end, 1 mm off its switch.
        assert_eq!(placed([-75.0, 0.0], Some(-1.0), 1.0), (75.0, [0.0, 74.5]));
        // Homed at the lower end.
        assert_eq!(placed([-75.0, 0.0], Some(-74.0), 1.0), (75.0, [0.5, 75.0]));
        // Mirrored: the homed end becomes 0.
        assert_eq!(placed([-75.0, 0.0], Some(-1.0), -1.0), (0.0, [0.5, 75.0]));
        assert_eq!(placed([-12.0, 30.0], None, 1.0), (12.0, [0.0, 42.0]));
        assert_eq!(placed([-12.0, 30.0], None, -1.0), (30.0, [0.0, 42.0]));
        for (range, home, sign) in [([-75.0, 0.0], Some(-1.0), 1.0), ([-3.0, 9.0], None, -1.0)] {
            let (origin, [low, high]) = placed(range, home, sign);
            let counts = [low, high].map(|rig| (rig - origin) * sign);
            assert!(counts.iter().all(|c| range[0] <= *c && *c <= range[1]), "{counts:?}");
        }
    }

    #[test]
    fn a_first_step_goes_inward_and_is_shorter_than_the_pull_off() {
        assert_eq!(first_step(Some([-75.0, 0.0]), Some(-1.0)), -0.5);
        assert_eq!(first_step(Some([-75.0, 0.0]), Some(-0.5)), -0.25);
        assert_eq!(first_step(Some([-75.0, 0.0]), Some(-74.0)), 0.5);
        assert_eq!(first_step(Some([0.0, 75.0]), Some(0.0)), 0.5, "no pull-off");
        assert_eq!(first_step(None, None), 0.5);
    }

    #[test]
    fn a_ruler_finds_a_wrong_scale_and_says_the_right_setting() {
        assert_eq!(by_ruler(10.0, 10.3, Some(0.004)), Scale::Fits);
        assert_eq!(by_ruler(1.0, 1.4, None), Scale::Fits, "a ruler can't tell");
        // $100 = 250 steps/mm, and it went twice as far.
        assert_eq!(by_ruler(10.0, 20.0, Some(1.0 / 250.0)), Scale::Off { ratio: 2.0, steps: Some(125.0) });
        assert_eq!(by_ruler(-10.0, 0.0, Some(0.004)), Scale::Off { ratio: 0.0, steps: None });
    }

    #[test]
    fn proposals_are_round_numbers_on_the_safe_side() {
        assert_eq!(inward([0.0, 50.800_000_79], 0.000_496), [0.0, 50.8]);
        assert_eq!(inward([-0.04, 25_399.93], 0.19), [0.0, 25_399.9]);
        assert_eq!((rounded_down(46.508_79), rounded_down(10.0), rounded_down(1234.5)), (46.5, 10.0, 1230.0));
        for (value, round) in [(0.01, 0.01), (0.011, 0.02), (0.03, 0.05), (4.0, 5.0), (0.0625, 0.1)] {
            assert_eq!(rounded_up(value), round);
        }
    }
}
