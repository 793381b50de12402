//! Finite quantities with a unit; the only place where units convert.
//!
//! Inside the program a length is in millimetres and an angle in degrees (the *base unit* of its
//! [`Dimension`]); a [`Unit`] appears only where a person, a model or a file speaks.

use std::fmt;
use std::ops::{Add, Neg, Sub};

/// What a number that came from outside can be wrong in.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum UnitError {
    /// NaN or an infinity.
    #[error("a finite number is needed, got {0}")]
    NotFinite(f64),
    /// A length where an angle is needed, or the other way round.
    #[error("{0} does not measure a {1}")]
    Dimension(Unit, Dimension),
}

/// What a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Base unit: millimetre.
    Length,
    /// Base unit: degree.
    Angle,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dimension::Length => "length",
            Dimension::Angle => "angle",
        })
    }
}

/// A unit that a rig file or a tool call may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanometre.
    Nm,
    /// Micrometre.
    Um,
    /// Millimetre, the base unit of lengths.
    Mm,
    /// Degree, the base unit of angles.
    Deg,
    /// Millidegree.
    Mdeg,
    /// Milliradian.
    Mrad,
}

impl Unit {
    /// Every unit, in the order in which schemas list them.
    pub const ALL: [Unit; 6] = [Unit::Nm, Unit::Um, Unit::Mm, Unit::Deg, Unit::Mdeg, Unit::Mrad];

    /// The unit's name as files and tools write it (`um`, `mm`, `deg` …); `µm` is understood too.
    pub fn parse(name: &str) -> Option<Unit> {
        match name {
            "µm" | "μm" => Some(Unit::Um),
            _ => Unit::ALL.into_iter().find(|u| u.name() == name),
        }
    }

    /// `nm`, `um`, `mm`, `deg`, `mdeg` or `mrad`.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nm => "nm",
            Unit::Um => "um",
            Unit::Mm => "mm",
            Unit::Deg => "deg",
            Unit::Mdeg => "mdeg",
            Unit::Mrad => "mrad",
        }
    }

    /// What it measures.
    pub fn dimension(self) -> Dimension {
        match self {
            Unit::Nm | Unit::Um | Unit::Mm => Dimension::Length,
            Unit::Deg | Unit::Mdeg | Unit::Mrad => Dimension::Angle,
        }
    }

    /// How many of this unit make one base unit. Division by it is correctly rounded, so that
    /// 300 um and 0.3 mm are the same position.
    fn per_base(self) -> f64 {
        match self {
            Unit::Nm => 1e6,
            Unit::Um => 1e3,
            Unit::Mm | Unit::Deg => 1.0,
            Unit::Mdeg => 1e3,
            Unit::Mrad => 1e3 * std::f64::consts::PI / 180.0,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A finite number: what is left of an `f64` once NaN and the infinities are refused.
fn finite(value: f64) -> Result<f64, UnitError> {
    if value.is_finite() { Ok(value) } else { Err(UnitError::NotFinite(value)) }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
        pub struct $name(f64);

        impl $name {
            /// Zero.
            pub const ZERO: $name = $name(0.0);

            /// `value` in `unit` (per second for speeds).
            ///
            /// # Errors
            /// [`UnitError::NotFinite`] for NaN, an infinity, or a value that overflows.
            pub fn new(value: f64, unit: Unit) -> Result<Self, UnitError> {
                Ok($name(finite(finite(value)? / unit.per_base())?))
            }

            /// A value in the base unit (mm or degree) that is known to be finite.
            ///
            /// # Errors
            /// [`UnitError::NotFinite`] for NaN or an infinity.
            pub fn base(value: f64) -> Result<Self, UnitError> {
                Ok($name(finite(value)?))
            }

            /// The number in `unit`.
            pub fn to(self, unit: Unit) -> f64 {
                self.0 * unit.per_base()
            }

            /// The number in the base unit, mm or degree.
            pub fn in_base(self) -> f64 {
                self.0
            }

            /// The same without its sign.
            pub fn abs(self) -> Self {
                $name(self.0.abs())
            }

            /// The smaller of two.
            pub fn min(self, other: Self) -> Self {
                $name(self.0.min(other.0))
            }

            /// The larger of two.
            pub fn max(self, other: Self) -> Self {
                $name(self.0.max(other.0))
            }
        }
    };
}

quantity! {
    /// Where an axis is or should be, in rig coordinates. Base unit mm or degree.
    Position
}
quantity! {
    /// A signed way between two positions. Base unit mm or degree.
    Distance
}
quantity! {
    /// A speed; base unit mm/s or degree/s.
    Speed
}

impl Sub for Position {
    type Output = Distance;
    fn sub(self, other: Position) -> Distance {
        Distance(self.0 - other.0)
    }
}

impl Add<Distance> for Position {
    type Output = Position;
    /// Saturates at the largest finite number, so that a position stays finite.
    fn add(self, way: Distance) -> Position {
        Position((self.0 + way.0).clamp(f64::MIN, f64::MAX))
    }
}

impl Sub<Distance> for Position {
    type Output = Position;
    fn sub(self, way: Distance) -> Position {
        self + (-way)
    }
}

impl Add for Distance {
    type Output = Distance;
    fn add(self, other: Distance) -> Distance {
        Distance((self.0 + other.0).clamp(f64::MIN, f64::MAX))
    }
}

impl Neg for Distance {
    type Output = Distance;
    fn neg(self) -> Distance {
        Distance(-self.0)
    }
}

impl Distance {
    /// How long this way takes at `speed`; `None` at a speed of zero.
    pub fn duration_at(self, speed: Speed) -> Option<std::time::Duration> {
        (speed.0 > 0.0).then(|| std::time::Duration::from_secs_f64((self.0.abs() / speed.0).min(1e7)))
    }

    /// The mean speed over `time`; `None` for no time at all.
    pub fn speed_over(self, time: std::time::Duration) -> Option<Speed> {
        (!time.is_zero()).then(|| Speed(self.0.abs() / time.as_secs_f64()))
    }
}

impl Speed {
    /// How far this speed carries in `time`.
    pub fn over(self, time: std::time::Duration) -> Distance {
        Distance((self.0 * time.as_secs_f64()).clamp(f64::MIN, f64::MAX))
    }
}

/// Two positions of one axis, the lower first; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The lower end.
    pub low: Position,
    /// The upper end.
    pub high: Position,
}

/// Positions closer than this (in mm or degree) are the same number after unit conversion; a
/// thousandth of a nanometre, far below what any stage resolves.
const ROUNDING: f64 = 1e-9;

impl Span {
    /// The span between two positions in either order.
    pub fn between(a: Position, b: Position) -> Span {
        Span { low: a.min(b), high: a.max(b) }
    }

    /// Whether a position lies in it, its ends included (to within conversion rounding).
    pub fn contains(self, p: Position) -> bool {
        self.low.0 - ROUNDING <= p.0 && p.0 <= self.high.0 + ROUNDING
    }

    /// Whether two spans share more than a common end.
    pub fn overlaps(self, other: Span) -> bool {
        self.low.0 + ROUNDING < other.high.0 && other.low.0 + ROUNDING < self.high.0
    }

    /// The span, wider by `margin` on both ends.
    pub fn widened(self, margin: Distance) -> Span {
        Span { low: self.low - margin.abs(), high: self.high + margin.abs() }
    }

    /// The span of all that lies in both or between them.
    pub fn hull(self, other: Span) -> Span {
        Span { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The position of the span that is nearest to `p`.
    pub fn nearest(self, p: Position) -> Position {
        p.max(self.low).min(self.high)
    }

    /// How far outside the span `p` is; zero inside.
    pub fn excess(self, p: Position) -> Distance {
        (p - self.nearest(p)).abs()
    }
}

/// A share in percent: 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// Nothing.
    pub const ZERO: Percent = Percent(0.0);
    /// The whole.
    pub const FULL: Percent = Percent(100.0);

    /// A share; `None` for what is not 0 to 100.
    pub fn new(value: f64) -> Option<Percent> {
        (0.0..=100.0).contains(&value).then_some(Percent(value))
    }

    /// The number, 0 to 100.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", plain(self.0))
    }
}

/// Writes a number for people: up to six decimals, no trailing zeros, no exponent up to 10^15. Larger ones are
/// somebody's mistake and are shown so that it can be recognised, not read digit by digit: `1e300`. Not for wires.
pub fn plain(value: f64) -> String {
    if value.abs() > 1e15 {
        return format!("{value:e}");
    }
    let mut s = format!("{value:.6}");
    if s.contains('.') {
        s.truncate(s.trim_end_matches('0').trim_end_matches('.').len());
    }
    if s == "-0" { "0".into() } else { s }
}

/// A number rounded to six decimals in `unit`, for results: what [`plain`] shows, as a number.
pub fn rounded(value: f64) -> f64 {
    let r = (value * 1e6).round() / 1e6;
    if r == 0.0 { 0.0 } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_same_in_every_unit_that_can_write_it() {
        for (a, ua, b, ub) in
            [(300.0, Unit::Um, 0.3, Unit::Mm), (4000.0, Unit::Um, 4.0, Unit::Mm), (1.0, Unit::Nm, 1e-6, Unit::Mm)]
        {
            assert_eq!(Position::new(a, ua).unwrap(), Position::new(b, ub).unwrap());
        }
    }

    #[test]
    fn what_is_not_finite_is_no_quantity() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(matches!(Position::new(bad, Unit::Um), Err(UnitError::NotFinite(_))));
            assert!(Distance::base(bad).is_err());
        }
    }

    #[test]
    fn a_span_holds_its_ends_and_nothing_else() {
        let s = Span::between(Position::new(75.0, Unit::Mm).unwrap(), Position::ZERO);
        assert!(s.contains(Position::ZERO) && s.contains(Position::new(75_000.0, Unit::Um).unwrap()));
        assert!(!s.contains(Position::new(75_000.001, Unit::Um).unwrap()));
        assert_eq!(s.nearest(Position::new(80.0, Unit::Mm).unwrap()).to(Unit::Mm), 75.0);
    }

    #[test]
    fn numbers_for_people_have_no_exponents_unless_nobody_could_read_them() {
        assert_eq!(plain(1e-7), "0");
        assert_eq!(plain(-0.0), "0");
        assert_eq!(plain(12.5), "12.5");
        assert_eq!(plain(1e15), "1000000000000000");
        assert_eq!(plain(100.0), "100");
        assert_eq!((plain(1e300), plain(-2.5e20)), ("1e300".into(), "-2.5e20".into()));
    }
}
