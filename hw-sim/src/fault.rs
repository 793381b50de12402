//! The faults a bench can be given, by name.

use serde::Deserialize;

/// Something that goes wrong on the bench, on command. Each device keeps its own faults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Fault {
    /// The next bytes from host to device are lost on the wire.
    Drop {
        /// How many bytes.
        bytes: usize,
    },
    /// The next bytes from device to host have bits flipped.
    Garble {
        /// How many bytes.
        bytes: usize,
    },
    /// From now on everything the device says comes later; 0 ends it.
    Delay {
        /// By how many milliseconds.
        ms: u64,
    },
    /// Only the next line the device says comes later; what follows keeps its order behind it.
    Late {
        /// By how many milliseconds.
        ms: u64,
    },
    /// A power cycle: volatile state and counters are gone, the carriages stay where they are.
    Reset,
    /// The carriage is stuck; pulses go on.
    Jam {
        /// The axis, by letter or name.
        axis: String,
    },
    /// The carriage is free again.
    Unjam {
        /// The axis, by letter or name.
        axis: String,
    },
    /// The axis' limit switch is held down (`true`) or follows the carriage again (`false`).
    Limit {
        /// The axis, by letter or name.
        axis: String,
        /// Whether something holds the switch down.
        pressed: bool,
    },
    /// The axis' limit switch never closes (a broken wire), until `on` is false.
    SwitchDead {
        /// The axis, by letter or name.
        axis: String,
        /// Whether the wire is broken.
        on: bool,
    },
    /// The cable is pulled: bytes in flight are lost. The device keeps its power and goes on.
    Unplug,
    /// The cable is back. A controller with `dtr_resets` restarts.
    Plug,
    /// The device neither hears nor says anything; motion in progress goes on.
    Silence {
        /// Whether it is silent.
        on: bool,
    },
    /// The device hears and obeys, but nothing that it says arrives (a broken wire).
    Mute {
        /// Whether it is broken.
        on: bool,
    },
    /// The device's clock stands still: no motion, no replies; input waits in its buffer.
    Freeze {
        /// Whether it is frozen.
        on: bool,
    },
    /// Motion runs at this factor of its programmed speed; 1 ends it.
    Slow {
        /// Above 0.
        factor: f64,
    },
    /// The carriage falls short by these steps, as if they had been pulsed and not happened.
    LostSteps {
        /// The axis, by letter or name.
        axis: String,
        /// Steps; positive falls short of positive travel.
        steps: i64,
    },
    /// Somebody pushes the carriage.
    Nudge {
        /// The axis, by letter or name.
        axis: String,
        /// By how many millimetres of the bench frame.
        mm: f64,
    },
    /// These bytes reach the host, verbatim, as if the device had said them.
    Inject {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The EEPROM's checksums are wrong from now on; seen at the next `Reset`.
    CorruptEeprom,
    /// Writes of settings are answered as always, and nothing of them outlives the power, until `on` is false and something
    /// is written again.
    StoreDead {
        /// Whether the memory is dead.
        on: bool,
    },
    /// The next write of a setting lands on another one.
    StoreAt {
        /// The other one, by the controller's own name: `$100`, `1.maxspeed`, `S X`.
        setting: String,
    },
    /// The controller rounds what is written to multiples of this; 0 ends it.
    StoreRound {
        /// The step.
        to: f64,
    },
    /// Writes of that setting are refused, until `on` is false.
    StoreRefuse {
        /// The setting, by the controller's own name.
        setting: String,
        /// Whether they are.
        on: bool,
    },
    /// Power fails in the middle of the next write of a setting: the memory is corrupt then.
    StoreReset,
    /// Somebody turns the axis' manual knob.
    Knob {
        /// The axis, by letter or name.
        axis: String,
        /// By how many millimetres of the bench frame; 0 presses the knob, which stops the axis.
        mm: f64,
    },
    /// What stands outside puts a voltage on an input of a device in a chain.
    Input {
        /// The device's address.
        address: u8,
        /// `di` or `ai`.
        input: String,
        /// The channel, from 1.
        channel: usize,
        /// Volts; a digital input is on above 1.5.
        volts: f64,
    },
    /// The camera loses its next frames: they are exposed but never sent.
    DropFrames {
        /// How many frames.
        frames: u32,
    },
    /// The camera's next frame ends early.
    TruncateFrame {
        /// How many bytes are missing at its end.
        bytes: usize,
    },
    /// An output of a box takes orders and does not follow them, until `on` is false.
    Stuck {
        /// The channel.
        channel: String,
        /// Whether it is stuck.
        on: bool,
    },
}
