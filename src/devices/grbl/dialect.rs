//! What differs between GRBL and its descendants, read at identification. What is unknown is treated
//! conservatively: neither a failure nor a guess.

/// The family of a firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// gnea/grbl 1.1 and its close forks.
    Grbl11,
    /// grbl 0.8 and 0.9: no jogs, other reports.
    Grbl09,
    /// grblHAL.
    GrblHal,
    /// FluidNC.
    FluidNc,
    /// Talks like GRBL, but doesn't say what it is.
    Unknown,
}

/// What a controller can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) family: Family,
    /// The version as the controller writes it; never taken apart for numbers beyond the family.
    pub(super) version: String,
    /// `$J=` with its own cancel byte.
    pub(super) jogs: bool,
    /// `$HX` for single axes.
    pub(super) homes_single_axes: bool,
}

impl Dialect {
    /// From a banner or the rest of a `[VER:…]` line; both may be in any case and shape.
    pub(super) fn read(text: &str) -> Dialect {
        let lower = text.to_ascii_lowercase();
        let family = if lower.contains("fluidnc") {
            Family::FluidNc
        } else if lower.contains("grblhal") {
            Family::GrblHal
        } else if has_version(&lower, "0.9") || has_version(&lower, "0.8") {
            Family::Grbl09
        } else if has_version(&lower, "1.1") {
            Family::Grbl11
        } else {
            Family::Unknown
        };
        Dialect {
            family,
            version: text.trim().trim_end_matches(':').to_owned(),
            // An unknown family gets a jog tried: if it refuses, nothing moved, and the refusal is told.
            jogs: family != Family::Grbl09,
            homes_single_axes: matches!(family, Family::GrblHal | Family::FluidNc),
        }
    }

    /// What it learns from a second source: a banner often says more than `[VER:…]`, or less.
    pub(super) fn refined(self, text: &str) -> Dialect {
        let other = Dialect::read(text);
        match (self.family, other.family) {
            (Family::Unknown, _) | (Family::Grbl11, Family::GrblHal | Family::FluidNc) => other,
            _ => Dialect { version: if other.version.is_empty() { self.version } else { other.version }, ..self },
        }
    }

    /// The family's name.
    pub(super) fn model(&self) -> &'static str {
        match self.family {
            Family::Grbl11 | Family::Grbl09 => "Grbl",
            Family::GrblHal => "grblHAL",
            Family::FluidNc => "FluidNC",
            Family::Unknown => "unknown, speaks Grbl",
        }
    }
}

/// Whether a version stands in the text as a word of its own, with a letter or more behind it.
fn has_version(text: &str, version: &str) -> bool {
    text.match_indices(version).any(|(i, _)| {
        let before = text[..i].chars().next_back();
        let after = text[i + version.len()..].chars().next();
        before.is_none_or(|c| !c.is_ascii_digit() && c != '.') && after.is_none_or(|c| !c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_name_and_never_by_guess() {
        for (text, family) in [
            ("4.x FluidNC v4.x.x (HEAD-58a53c2):", Family::FluidNc),
            ("3.8 FluidNC v3.8.2:", Family::FluidNc),
            ("3.7 fluidnc 3.7.13:", Family::FluidNc),
            ("GrblHAL 1.1f ['$' or '$HELP' for help]", Family::GrblHal),
            ("Grbl 1.1f ['$' for help]", Family::Grbl11),
            ("1.1h EVOLUTION 4.20190830:", Family::Grbl11),
            ("Grbl 0.9j ['$' for help]", Family::Grbl09),
            ("Grbl 0.9a ['$' for help]", Family::Grbl09),
            ("Grbl 7 ['$' for help]", Family::Unknown),
            ("", Family::Unknown),
        ] {
            assert_eq!(Dialect::read(text).family, family, "{text}");
        }
    }
}
