//! Every key of the rig file, for people: `docs/rig-file.md` and `steadyhand check --reference` are this table. A test
//! holds it against what the reader really asks for.

/// A table of the rig file.
struct Part {
    /// As the reader's messages call it.
    title: &'static str,
    /// What it is for.
    what: &'static str,
    keys: &'static [Key],
}

/// One key.
struct Key {
    name: &'static str,
    needed: bool,
    /// What may be written.
    value: &'static str,
    /// What it means, and what its absence means.
    what: &'static str,
}

const fn must(name: &'static str, value: &'static str, what: &'static str) -> Key {
    Key { name, needed: true, value, what }
}

const fn may(name: &'static str, value: &'static str, what: &'static str) -> Key {
    Key { name, needed: false, value, what }
}

const PARTS: &[Part] = &[
    Part {
        title: "the file",
        what: "The sections. Those in double brackets may be repeated, one for each thing.",
        keys: &[
            must("rig", "section", "The rig as a whole."),
            may("link", "sections", "Connections: serial ports and network addresses."),
            may("stage", "sections", "Motion: the axes of one controller, or some axes of a chain."),
            may("camera", "sections", "Cameras. A rig has at least one device."),
            may("output", "sections", "Shutters, lights, wheels and digital lines."),
            may("sensor", "sections", "What is only read."),
            may("keep_out", "sections", "Volumes that no carriage may enter."),
            may("rule", "sections", "Conditions over the whole rig, judged before something happens or all the time."),
            may("budget", "section", "How much may be asked for."),
            may("calls", "section", "How long calls and readings may take."),
            may("approvals", "section", "How a person is asked who has to approve something."),
            may("images", "section", "Where pictures go, and how large a preview is."),
            may("log", "section", "How much is logged."),
            may("eaa", "section", "Its presence turns on the tools that EAA's workflows call."),
        ],
    },
    Part {
        title: "[rig]",
        what: "The rig as a whole.",
        keys: &[
            must("name", "name", "In every result; also the name of the folder for pictures."),
            may("scan", "table", "Which axes region and series tools mean. Without it, those tools take no region."),
        ],
    },
    Part {
        title: "`scan`",
        what: "`scan = { x = \"sample.x\", y = \"sample.y\", focus = \"sample.z\", unit = \"um\" }`",
        keys: &[
            must("x", "axis", "To the right in a region's coordinates."),
            must("y", "axis", "Upwards in a region's coordinates."),
            may("focus", "axis", "Along the optical axis."),
            must("unit", "unit of length", "The unit of regions."),
        ],
    },
    Part {
        title: "[[link]]",
        what: "A connection. Each must be used; no port may be named twice, however it is spelled.",
        keys: &[
            must("id", "name", "By this name devices refer to it."),
            may(
                "serial",
                "path or table",
                "`\"/dev/ttyUSB0\"`, `\"COM5\"`, or the adapter's USB identity (below). Either this or `tcp`.",
            ),
            may("tcp", "`\"host:port\"`", "A network address. Either this or `serial`."),
            may("baud", "300 to 10000000", "Bits per second; needed for `serial`, without meaning for `tcp`."),
            may(
                "dtr",
                "true or false",
                "What the line DTR is set to on opening. Without it, it is left alone. Many boards reset when it changes.",
            ),
            may("rts", "true or false", "Likewise RTS."),
        ],
    },
    Part {
        title: "`serial`",
        what: "`serial = { usb = \"1a86:7523\", number = \"A10LX3\" }`: the port is found by what is plugged in, whatever it is called today.",
        keys: &[
            must("usb", "`\"vid:pid\"`", "Vendor and product, four hexadecimal digits each."),
            may(
                "number",
                "text",
                "The adapter's serial number, where two are alike. Several that fit are refused, never guessed among.",
            ),
        ],
    },
    Part {
        title: "[[stage]]",
        what: "The axes of one controller.",
        keys: &[
            must("id", "name", "By this name tools speak of it."),
            must(
                "driver",
                "name",
                "Which protocol its controller speaks; `describe_rig` says on what the driver's claim rests.",
            ),
            must("link", "name", "Its `[[link]]`."),
            must(
                "home",
                "table, or \"never\"",
                "How it finds its reference; \"never\": it can't, and a person declares where it stands, with `steadyhand reference`.",
            ),
            must(
                "axes",
                "sections",
                "One `[stage.axes.NAME]` for each axis. The name is also an argument of tools: a letter first, then a-z, 0-9, _.",
            ),
            may("why", "text", "The owner's words about it, repeated in descriptions."),
        ],
    },
    Part {
        title: "`home`",
        what: "`home = { order = [\"z\", \"x\", \"y\"] }`",
        keys: &[
            must(
                "order",
                "list of axes",
                "Every axis, in the order in which the controller homes them. The judgement takes a homing axis as its whole travel.",
            ),
            may("timeout_s", "1 to 3600", "How long homing may take; 60 without it."),
            may(
                "ask",
                "\"operator\"",
                "A person is asked each time, with `steadyhand approve`; without it, whoever may call `home` lets the stage home.",
            ),
        ],
    },
    Part {
        title: "[stage.axes.NAME]",
        what: "One axis. Numbers are in its `unit`, positions in rig coordinates: `sign × controller's counter + origin`. No limit has a default.",
        keys: &[
            must(
                "unit",
                "nm, um, mm, deg, mdeg, mrad",
                "The unit in which this axis is spoken of, here and in results.",
            ),
            may("channel", "text", "The controller's own name for it; the axis's name without it."),
            may(
                "counts_per_unit",
                "number",
                "How many counts of the controller make one unit; needed where a driver's controllers only count (`zaber`: microsteps). `check` says where the number is found.",
            ),
            must("sign", "1 or -1", "-1 if the controller counts the other way."),
            must("origin", "position", "The rig position at the controller's zero."),
            must("travel", "[low, high]", "Where it may be. Outside is refused, never clamped."),
            must("max_speed_per_s", "speed", "How fast it may go."),
            may(
                "acceleration_per_s2",
                "acceleration",
                "How fast it slows down when it is stopped, in its unit per s². Near keep-outs a way is slowed by what a stop takes. A controller that tells its own acceleration counts too, and the smaller holds; where neither is known, a stop from `max_speed_per_s` is taken to last 0.2 s.",
            ),
            must("tolerance", "distance", "How near to its target it must come to rest, or the move has failed."),
            must(
                "trust",
                "referenced, restored, assumed",
                "The least that must be known of its position before a move. With home = \"never\" only \"assumed\" can be reached: a person's word.",
            ),
            may(
                "toward_sample",
                "\"+\" or \"-\"",
                "The direction that brings sample and optics together; told to the model in words.",
            ),
            may(
                "approach",
                "\"+\" or \"-\"",
                "The side from which each target is approached, so that backlash is always taken up the same way. Needs `approach_by`.",
            ),
            may("approach_by", "distance", "How far before the target it turns; more than the backlash."),
            may("settle_ms", "0 to 60000", "How long it stands still before a picture counts; 0 without it."),
            may(
                "blind_step",
                "distance",
                "The longest `move_by` that a person may approve while nobody knows where the axis stands; it goes at a tenth of the speed. Without it there is none.",
            ),
            must(
                "holds_unpowered",
                "true or false",
                "Whether it stays where it is without power. No stop takes the power from an axis that doesn't.",
            ),
            may(
                "why",
                "text",
                "The owner's words about its limits, repeated in refusals: `why = \"the condenser is 2 mm below\"`.",
            ),
        ],
    },
    Part {
        title: "[[camera]]",
        what: "A camera.",
        keys: &[
            must("id", "name", "By this name tools speak of it."),
            must("driver", "name", "Which protocol it speaks."),
            may("link", "name", "Its `[[link]]`. Needed, but not with `folder`."),
            may(
                "folder",
                "path",
                "With driver `folder`: its PNG, TIFF and NPY files are played in the order of their names, one an exposure, \
                 over and over. A relative path starts at the rig file's folder.",
            ),
            must("pixel_size_um", "0.0001 to 100000", "Micrometres of the sample that one unbinned pixel shows."),
            may("axes", "table", "Which way the stage's axes run in the picture (below)."),
            may("exposure_ms", "0.000001 to 3600000", "Set when it connects."),
            may("gain", "factor", "Set when it connects."),
            may("roi", "[x, y, width, height]", "Region of interest in unbinned pixels, set when it connects."),
            may("binning", "1 to 64", "Set when it connects."),
            may("bits", "8, 10, 12, 14, 16", "Significant bits of a pixel, set when it connects."),
            may(
                "light",
                "name",
                "The output that is opened for each exposure where no light passes, and put back after it. Its delay is \
                 waited for.",
            ),
            may("light_percent", "number", "How bright that is for an exposure; needed for a light in percent."),
        ],
    },
    Part {
        title: "[[output]]",
        what: "A shutter, a light, a wheel with named positions, or a digital line.",
        keys: &[
            must("id", "name", "Its name."),
            must("driver", "name", "What drives it; `manual` where a person does it by hand and confirms."),
            may("link", "name", "Its connection; shared with a stage of the same controller. Not with `manual`."),
            must("kind", "\"shutter\", \"light\", \"wheel\" or \"line\"", "What it is."),
            may("channel", "text", "The device's own name for it; its `id`, or the driver's first, where not given."),
            may("positions", "list of names", "Of a wheel, in the wheel's own order. Not of other kinds."),
            may("max_percent", "number", "Of a light: how bright it may ever be. Not of other kinds."),
            must(
                "on_stop",
                "\"safe\" or \"keep\"",
                "What becomes of it at a stop of everything, at the end of the program, and when its connection comes \
                 back. There is no default; by hand it can only be kept.",
            ),
            may(
                "safe",
                "a value of its kind",
                "With `on_stop = \"safe\"`, and needed there: \"closed\", 0, \"off\", a position.",
            ),
            may("delay_ms", "number", "How long after a change it takes until the change counts; 0 where not given."),
            may("confirm_s", "number", "How long a person is waited for, 600 where not given. Only with `manual`."),
            may("why", "text", "The owner's words about it, shown in descriptions and refusals."),
        ],
    },
    Part {
        title: "[[sensor]]",
        what: "Something that is only read.",
        keys: &[
            must("id", "name", "Its name."),
            must("driver", "name", "What reads it."),
            must("link", "name", "Its connection; shared with other devices of the same controller."),
            must("kind", "\"analog\" or \"digital\"", "What it is."),
            may("channel", "text", "The device's own name for it; its `id`, or the driver's first, where not given."),
            may("unit", "text", "Of an analog sensor: the unit of its values, as people read it."),
            may("scale", "number", "What the device's number is multiplied by; 1 where not given."),
            may("offset", "number", "What is added after that, in the unit; 0 where not given."),
            may("range", "[low, high]", "Of an analog sensor: between which values it works. What is outside is told."),
            may("poll_ms", "number", "How often it is read; 1000 where not given."),
            may("why", "text", "The owner's words about it."),
        ],
    },
    Part {
        title: "`axes`",
        what: "`axes = { right = \"+sample.x\", up = \"-sample.y\" }`",
        keys: &[
            may("right", "sign and axis", "The axis that moves the view to the right."),
            may("up", "sign and axis", "The axis that moves the view upwards."),
        ],
    },
    Part {
        title: "[[keep_out]]",
        what: "A volume that no carriage may enter. The whole swept path counts, not only the target.",
        keys: &[
            must("name", "text", "In refusals."),
            must(
                "boxes",
                "list of tables",
                "`[{ \"sample.x\" = [60.0, 75.0], \"sample.z\" = [1500.0, 4000.0] }]`: the union of boxes; an axis that a box doesn't name is not bounded by it.",
            ),
            may(
                "margin_um",
                "distance",
                "Kept from it along each axis; 0 without it. A way that ends near the box is done more slowly at its end, down to a tenth of the speed, so that a controller that runs on can be stopped before it.",
            ),
            may("why", "text", "The owner's words, repeated in refusals."),
        ],
    },
    Part {
        title: "[[rule]]",
        what: "A condition over the whole rig, in a part of [CEL](https://cel.dev). Its words are below. Nothing that can't be judged is allowed: where the answer hangs on a value that isn't known, a gate refuses and a watch trips.",
        keys: &[
            must("name", "text", "As refusals and events call it."),
            may("why", "text", "The owner's words, repeated in refusals."),
            must(
                "when",
                "\"gate\", \"watch\" or \"both\"",
                "A gate is judged before each leg of a move, each homing, exposure and change of an output; making an output safe, a light 0 or a shutter closed is never hindered. A watch is judged at each pass of the program, at least four times a second, also at rest.",
            ),
            may(
                "then",
                "\"stop\" or \"safe_outputs\"",
                "What a watch does when it trips; needed for it. `stop` stops the stages that move and latches; `safe_outputs` makes every output safe that has a safe value. It does so once, and again only when something moves again or an output has left its safe value.",
            ),
            may(
                "ask",
                "\"operator\"",
                "A gate that doesn't hold asks a person instead of refusing. What can't be judged is refused all the same.",
            ),
            must("require", "condition", "What must hold. At most 1000 bytes."),
        ],
    },
    Part {
        title: "[budget]",
        what: "How much may be asked for. What it doesn't name is not limited by it. Every step of a plan counts.",
        keys: &[
            may(
                "max_step",
                "table",
                "`{ \"sample.z\" = 200.0 }`: how far an axis may go in one move, in its own unit.",
            ),
            may(
                "moves_per_minute",
                "1 to 6000",
                "How many moves may begin within a minute, of all callers and stages together.",
            ),
            may(
                "travel_per_hour",
                "table",
                "`{ \"sample.x\" = 5000.0 }`: how far moves may send an axis within an hour, to and fro together, in its own unit. Homing isn't counted.",
            ),
            may(
                "light_dose",
                "table",
                "`{ lamp = 6000.0 }`: how much light an output may give within an hour, in percent times seconds; what is open or on counts as 100 %. An exposure that would go over it is refused before its light opens, and a light that has given it is made dark, so it needs `on_stop = \"safe\"`.",
            ),
            may(
                "min_free_mb",
                "1 to 100000000",
                "Megabytes that stay free on the disk of the pictures: below that no picture is taken and no array is exported.",
            ),
            may("why", "text", "The owner's words, repeated in refusals."),
        ],
    },
    Part {
        title: "[calls]",
        what: "How long things may take.",
        keys: &[
            may("wait_s", "0.001 to 3600", "After this a call answers with a job; 20 without it."),
            may("max_wait_s", "0.001 to 3600", "The most that a caller may ask for; 600 without it."),
            may(
                "queue_deadline_s",
                "0.001 to 3600",
                "A command that waited longer for its turn is dropped; 10 without it.",
            ),
            may("fresh_ms", "1 to 10000", "How old a reading may be that a motion is judged by; 1000 without it."),
            may(
                "on_client_lost",
                "\"stop\" or \"continue\"",
                "What becomes of a job when the client goes that was given its number; \"stop\" without it. With \"continue\" it goes on as long as a person has a way to stop it. A call that is still waited for stops with its caller in any case.",
            ),
        ],
    },
    Part {
        title: "[approvals]",
        what: "How a person is asked who has to approve something (`ask = \"operator\"`). A person at the rig's computer, with `steadyhand approve`, always counts.",
        keys: &[
            may("expire_s", "5 to 3600", "How long a command waits for a person; 300 without it."),
            may(
                "approve_by",
                "list",
                "`[\"elicitation\"]`: the client is asked, too, and what it answers counts as a person's word. A client that answers by itself approves what its model asked for.",
            ),
        ],
    },
    Part {
        title: "[images]",
        what: "Pictures.",
        keys: &[
            may(
                "dir",
                "path",
                "Where they go; a relative path starts at the rig file's folder. Without it, the Documents folder.",
            ),
            may(
                "path_map",
                "table",
                "`{ \"/data\" = \"Z:\\\\data\" }`: how a path here is written for a client on another machine.",
            ),
            may("preview_px", "64 to 1024", "The longer side of a preview; 1024 without it."),
            may("preview_chars", "4000 to 700000", "The most base64 characters of a preview; 700000 without it."),
            may("raw", "\"tiff\" or \"npy\"", "The container of exact data; TIFF, or NPY under `[eaa]`."),
        ],
    },
    Part {
        title: "[log]",
        what: "The program's log.",
        keys: &[may("level", "error, warn, info, debug, trace", "How much is logged; info without it.")],
    },
    Part {
        title: "[eaa]",
        what: "The tools that EAA's logic-driven workflows call.",
        keys: &[
            may("camera", "name", "The camera of `acquire_image`; needed where there are several."),
            may("legacy_arrays", "true or false", "Arrays carry the older form too (eaa-core 1.0.0)."),
            may("max_array_mb", "1 to 1024", "Larger arrays are refused and `export_array` is named; 8 without it."),
            may("parameters", "list of tables", "What the entries of `set_parameters` are (below)."),
        ],
    },
    Part {
        title: "a parameter",
        what: "`{ axis = \"sample.z\", unit = \"um\" }` or `{ setting = \"exposure_ms\" }`",
        keys: &[
            may("axis", "axis", "The position of an axis; judged as motion."),
            must("unit", "unit", "The unit of its values, with `axis`."),
            may("setting", "\"exposure_ms\" or \"gain\"", "A setting of the camera."),
        ],
    },
];

/// The reference as Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# The rig file\n\nGenerated from `src/config/reference.rs`, as is `steadyhand check --reference`; \
         `UPDATE_DOCS=1 cargo test --lib rig_file_page` writes it anew.\n\nA rig file is TOML. It says what is there and \
         what is allowed. Unknown keys are refused, since a key that is ignored protects nothing, and limits have no \
         defaults. `steadyhand check --rig FILE` names every problem at once; [`rigs/`](../rigs) has commented examples. \
         **Bold** keys must be there.\n",
    );
    for part in PARTS {
        page.push_str(&format!("\n## {}\n\n{}\n\n| key | value | meaning |\n|---|---|---|\n", part.title, part.what));
        for key in part.keys {
            let name = if key.needed { format!("**`{}`**", key.name) } else { format!("`{}`", key.name) };
            page.push_str(&format!("| {name} | {} | {} |\n", key.value.replace('|', "\\|"), key.what));
        }
    }
    page.push_str(WORDS);
    page
}

/// What conditions are made of.
const WORDS: &str = r#"
## The words of a rule

`ID` is a device, `AXIS` an axis; a hyphen in a name is written `_`, since CEL takes it for a minus. A wrong name, a
comparison of a number with a text, or a text that a device never has is a problem of the rig file, shown under its
column.

| word | is | meaning |
|---|---|---|
| `stage.ID.AXIS` | number | Where the axis is, in its own unit. Unknown while its trust is `unknown`, so also while it homes. |
| `stage.ID.AXIS.speed` | number | The most at which the motion in progress may take it, in its own unit per second; 0 at rest. |
| `stage.ID.AXIS.trust` | text | `'unknown'`, `'assumed'`, `'restored'` or `'referenced'`. |
| `stage.ID.speed` | number | The same of the carriage in mm/s; in deg/s where all axes turn. |
| `stage.ID.moving` | true or false | Moving, homing or being stopped. |
| `stage.ID.homed` | true or false | Every axis is referenced. |
| `stage.ID.trust` | text | The least trust of its axes. |
| `output.ID` | text or number | A shutter is `'open'` or `'closed'`, a line `'on'` or `'off'`, a wheel its position, a light its percent. Unknown while it changes. |
| `sensor.ID` | number or true, false | An analog value in its unit; a digital one alone: `sensor.lid_closed`. Unknown out of range, faulty or older than three of its polls and 1 s. |
| `camera.ID.exposing` | true or false | It exposes or delivers. |
| `camera.ID.exposure_ms` | number | Its exposure time. |
| `move.kind` | text | `'move'`, `'home'`, `'shot'` or `'output'`: what is about to happen. |
| `move.stage` | text | The stage that is about to move; `''` when none is. |
| `move.target.ID.AXIS` | number | Where the axis will be. A rule that names it is judged before moves alone. |

Signs: `< <= > >= == != && || ! + - * / ?:`, `in ['a', 'b']`, `abs(number)`. A divisor is a written number. Words of
`move` are a gate's alone. Any word of a stage is unknown while the stage isn't connected or not read lately.

A gate judges how things **would be**: before a move or a homing `moving` is true and `speed` what it would go at; before
an exposure `exposing` is true and its light is open; before a change of an output the output has its new value. Positions
are where the axes are; `move.target` is where they will be. So one condition serves as gate and watch:

```toml
[[rule]]
name = "no exposure while moving"
when = "both"
then = "stop"
require = "!(camera.main.exposing && stage.sample.moving)"

[[rule]]
name = "dark while slewing"
when = "watch"
then = "safe_outputs"
require = "output.shutter == 'closed' || stage.sample.speed < 0.1"

[[rule]]
name = "laser off while the lid is open"
when = "both"
then = "safe_outputs"
require = "output.laser == 0 || sensor.lid_closed"

[[rule]]
name = "deep focus"
when = "gate"
ask = "operator"
require = "move.target.sample.z < 3500.0"
```

`a || b` holds when either is known to hold, whatever becomes of the other: while nothing is known of the lid, the laser
may stay off. A rule that reads a position hinders the homing that would make it known; say so where that isn't meant:
`move.kind == 'home' || stage.sample.z > 200.0` in a gate, `!stage.sample.homed || stage.sample.z > 200.0` in a watch.
"#;

#[cfg(test)]
thread_local! {
    /// What the reader asked for on this thread: section, key, whether it must be there.
    static ASKED: std::cell::RefCell<std::collections::BTreeSet<(String, &'static str, bool)>> = const {
        std::cell::RefCell::new(std::collections::BTreeSet::new())
    };
}

/// Remembers what the reader asked a section for.
#[cfg(test)]
pub(super) fn note(title: &str, asked: &[&'static str], needed: &[&'static str]) {
    let title = if title.starts_with("[stage.axes.") { "[stage.axes.NAME]" } else { title };
    ASKED.with_borrow_mut(|all| all.extend(asked.iter().map(|key| (title.to_owned(), *key, needed.contains(key)))));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_has_exactly_the_keys_that_the_reader_asks_for() {
        super::super::tests::read_everything();
        let asked = ASKED.with_borrow(BTreeSet::clone);
        let told: BTreeSet<(String, &str, bool)> = PARTS
            .iter()
            .flat_map(|part| part.keys.iter().map(|key| (part.title.to_owned(), key.name, key.needed)))
            .collect();
        let untold: Vec<_> = asked.difference(&told).collect();
        let unasked: Vec<_> = told.difference(&asked).collect();
        assert!(untold.is_empty() && unasked.is_empty(), "not in the table: {untold:?}; not asked for: {unasked:?}");
    }

    #[test]
    fn rig_file_page_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rig-file.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(written.replace("\r\n", "\n"), page(), "run UPDATE_DOCS=1 cargo test --lib rig_file_page");
    }
}
