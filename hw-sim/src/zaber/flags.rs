//! The warning flags of the protocol, in the order of their precedence.

use std::collections::BTreeSet;

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// A fault, warning or note, highest precedence first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Flag { $($(#[$doc])* $name,)* }

        impl Flag {
            pub(super) fn code(self) -> &'static str {
                match self { $(Flag::$name => stringify!($name),)* }
            }
        }
    };
}

flags! {
    /// Critical system error.
    FF
    /// The driver was disabled by command.
    FO
    /// Stalled and stopped.
    FS
    /// The limit sensor was not where homing looked for it.
    FE
    /// A limit sensor triggered where none should.
    WL
    /// No reference position.
    WR
    /// A reference, but not homed.
    WH
    /// Moved by hand.
    NC
    /// A movement was interrupted.
    NI
    /// A value was rounded.
    NR
}

impl Flag {
    /// Whether `warnings clear` takes it away; the others end with their cause.
    pub(super) fn clearable(self) -> bool {
        !matches!(self, Flag::FF | Flag::FO | Flag::WR | Flag::WH)
    }
}

/// The flag field of a reply: the highest, or `--`.
pub(super) fn highest(flags: &BTreeSet<Flag>) -> &'static str {
    flags.first().map_or("--", |f| f.code())
}

/// The data of the reply to `warnings`: how many, and which.
pub(super) fn listing(flags: &BTreeSet<Flag>) -> String {
    let codes = flags.iter().map(|f| format!(" {}", f.code()));
    codes.fold(format!("{:02}", flags.len()), |text, code| text + &code)
}
