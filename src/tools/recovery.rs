//! What to do next: for each code the steps that lead on, the first that this caller may take, else a person.
//! A step never leads past a limit: it looks, waits, or asks within what is allowed.

use super::answer::Next;
use super::words;
use crate::model::{Activity, Code, Moved, RigError, Snapshot};

/// One way on: the tool (empty means the one that was called) and the sentence, in which `{tool}` is the tool
/// that was called and `{device}` the device concerned.
type Step = (&'static str, &'static str);

/// The ways on from a code.
pub(crate) struct Recovery {
    /// In order of preference.
    steps: &'static [Step],
    /// When this caller may take none of them.
    person: &'static str,
}

/// The ways on from `code`.
pub(crate) fn recovery(code: Code) -> Recovery {
    let (steps, person): (&'static [Step], &'static str) = match code {
        Code::InvalidArgument => (&[("", "call {tool} again with that corrected")], ""),
        Code::NotFound => (
            &[("describe_rig", "call describe_rig {} for the names that this rig has")],
            "ask the person at the rig for the right name",
        ),
        Code::Unsupported => (
            &[("describe_rig", "call describe_rig {} to see what this rig can do")],
            "ask the person at the rig to do it by hand",
        ),
        Code::NotPermitted => (&[], "ask the person at the rig to do it"),
        Code::OutOfTravel | Code::KeepOut => (
            &[
                ("check_move", "call check_move with another target; it names the nearest one that is allowed"),
                ("describe_rig", "call describe_rig {} for the limits"),
            ],
            "ask the person at the rig",
        ),
        Code::Rule => (
            &[
                (
                    "get_state",
                    "bring about what the rule requires, if you may, then call {tool} again; get_state {} shows how things stand",
                ),
                ("describe_rig", "call describe_rig {} for the rules"),
            ],
            "ask the person at the rig",
        ),
        Code::Budget => (
            &[(
                "check_move",
                "go in smaller steps, expose less or wait, as it says; check_move names the nearest target that is allowed",
            )],
            "ask the person at the rig",
        ),
        Code::NotReferenced => (
            &[
                ("home", "call home {\"stage\": \"{device}\"} once its way is free"),
                (
                    "get_state",
                    "ask the person at the rig to have it homed or, if it can't home, to declare where it stands, with \
                     `steadyhand reference AXIS VALUE`; get_state {} shows it then",
                ),
            ],
            "ask the person at the rig to have it homed or, if it can't home, to declare where it stands, with \
             `steadyhand reference AXIS VALUE`",
        ),
        Code::Stale => (
            &[("", "call {tool} again in a second; if it stays so, the controller has gone silent: see diagnose {}")],
            "",
        ),
        Code::AtLimit => (
            &[("move_by", "call get_state {}, then move_by away from that end")],
            "ask the person at the rig to free the switch",
        ),
        Code::MovedOn => (
            &[("get_state", "call get_state {}, decide anew, and pass the new state_epoch as from_epoch")],
            "ask the person at the rig",
        ),
        Code::Stopped => (
            &[("clear_fault", "when it is safe to go on, call clear_fault {\"device\": \"{device}\"}")],
            "ask the person at the rig to release the stop when it is safe, with `steadyhand resume`",
        ),
        Code::Faulted | Code::Alarm => (
            &[
                ("clear_fault", "when its cause is gone, call clear_fault {\"device\": \"{device}\"}"),
                ("diagnose", "call diagnose {} and tell the person at the rig"),
            ],
            "ask the person at the rig to look",
        ),
        Code::Busy => (
            &[("get_state", "call get_state {} until the device is idle, then call {tool} again")],
            "ask the person at the rig",
        ),
        Code::NotConnected | Code::NotResponding | Code::Unplugged | Code::BadRigFile => (
            &[("diagnose", "call diagnose {}; it says what a person has to do")],
            "ask the person at the rig to check cables and power",
        ),
        Code::ControllerReset => (
            &[
                ("home", "call home {\"stage\": \"{device}\"} once its way is free; its position is lost"),
                ("diagnose", "call diagnose {}"),
            ],
            "ask the person at the rig to look and to reference the stage",
        ),
        Code::ControllerRefused | Code::TooLong | Code::CameraFailed => {
            (&[("diagnose", "call diagnose {}")], "ask the person at the rig to look")
        }
        Code::OutputFailed => (
            &[
                ("clear_fault", "ask the person at the rig to look; then call clear_fault {\"device\": \"{device}\"}"),
                ("diagnose", "call diagnose {}"),
            ],
            "ask the person at the rig to look",
        ),
        Code::RefusedByPerson => (
            &[("get_state", "call get_state {} and ask the person at the rig what shall be done instead")],
            "ask the person at the rig what shall be done instead",
        ),
        Code::Stalled | Code::WrongDirection => (
            &[(
                "get_state",
                "ask the person at the rig to look at the axis before anything moves again; get_state {} shows it",
            )],
            "ask the person at the rig to look at the axis before anything moves again",
        ),
        Code::MissedTarget => (
            &[("get_state", "call get_state {} for where it stands, then decide anew")],
            "ask the person at the rig to look",
        ),
        Code::HomingFailed => (
            &[("diagnose", "call diagnose {}; ask the person at the rig to look at the axis before homing again")],
            "ask the person at the rig to look at the axis",
        ),
        Code::StopNotSent | Code::StopNotConfirmed => (
            &[("stop", "ask the person at the rig to use the emergency stop NOW, and call stop {} again")],
            "ask the person at the rig to use the emergency stop NOW",
        ),
        Code::Cancelled => {
            (&[("get_state", "call get_state {} to see where it stands")], "ask the person at the rig where it stands")
        }
        Code::Expired => (&[("", "call {tool} again if it is still wanted")], ""),
        Code::ShuttingDown => (&[], "ask the person at the rig to start the server again"),
        Code::StorageFailed => (&[], "ask the person at the rig to make room for or to mend what the message names"),
        Code::TooLarge => (
            &[("export_array", "call export_array; it writes a file and returns its path")],
            "ask the person at the rig for the file",
        ),
        Code::Internal => (
            &[("get_state", "call get_state {} before anything else, and tell the person at the rig")],
            "tell the person at the rig; ask the person at the rig to restart the server",
        ),
        Code::WatchdogStop => (
            &[
                (
                    "clear_fault",
                    "ask the person at the rig whether everything stands; then call clear_fault {\"device\": \"{device}\"}",
                ),
                ("get_state", "call get_state {}"),
            ],
            "ask the person at the rig whether everything stands, and to restart the server",
        ),
        Code::MovedByHand => (
            &[(
                "get_state",
                "ask the person at the rig whether the stage may be moved again, and to release it with `steadyhand resume`; \
                 get_state {} shows it",
            )],
            "ask the person at the rig whether the stage may be moved again, and to release it with `steadyhand resume`",
        ),
        Code::Released => (
            &[(
                "diagnose",
                "ask the person at the rig whether the other program has done with it, and to take it back with \
                 `steadyhand reclaim`; diagnose {} tells when it is there",
            )],
            "ask the person at the rig to take it back with `steadyhand reclaim`",
        ),
        Code::ApprovalDenied => (
            &[(
                "get_state",
                "don't ask for the same again: ask the person at the rig what shall be done instead; get_state {} shows where it stands",
            )],
            "ask the person at the rig what shall be done instead",
        ),
        Code::ApprovalExpired => {
            (&[("", "make sure that a person is at the rig, then call {tool} again")], "ask for a person at the rig")
        }
        Code::ApprovalStale => (
            &[("get_state", "call get_state {}, decide anew, and call {tool} again; a person will be asked again")],
            "ask the person at the rig",
        ),
        Code::CommandIdUsed => (&[("", "call {tool} with a command_id of its own, if this is another command")], ""),
        Code::OutcomeUnknown => (
            &[(
                "get_state",
                "call get_state {} to see where everything stands, and decide anew, with a new command_id",
            )],
            "ask the person at the rig where everything stands, and decide anew, with a new command_id",
        ),
    };
    Recovery { steps, person }
}

/// What leads on instead of a code's own steps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// This sentence.
    Say(String),
    /// The steps of another code, because of what stands in the way first.
    Of(Code),
}

/// What the state of the device puts before the steps of an error's code: they would be refused, or miss the
/// point.
pub(crate) fn instead(error: &RigError, state: &Snapshot, device: &str, tool: &str) -> Option<Instead> {
    let wait = || {
        let again = if tool == "get_state" { String::new() } else { format!(", then {tool} again") };
        Some(Instead::Say(format!("call get_state {{}} in 2 s, until {device} is identified and read{again}.")))
    };
    if error.code == Code::Busy
        && let Some(job) = state.approvals().map(|a| a.job).next()
    {
        return Some(Instead::Say(format!(
            "{job} waits for a person's approval and is first: wait with get_job {{\"job_id\": \"{job}\", \"wait_s\": 20}}, or \
             cancel_job {{\"job_id\": \"{job}\"}}; then call {tool} again."
        )));
    }
    let gone = matches!(error.code, Code::Unplugged | Code::NotConnected | Code::NotResponding);
    if let Some(camera) = state.camera(device) {
        let opening = !camera.ready && !camera.exposing && camera.fault.is_none();
        return if gone && opening { wait() } else { None };
    }
    if let Some(output) = state.output(device) {
        return if gone && !output.ready && output.fault.is_none() { wait() } else { None };
    }
    let stage = state.stage(device)?;
    if gone && error.moved != Moved::No && stage.activity == Activity::Offline {
        return Some(Instead::Say(format!(
            "{} MAY STILL MOVE, and no stop can reach it: ask the person at the rig to look NOW, and to use the emergency \
             stop if it moves. diagnose {{}} tells when it is connected again.",
            device
        )));
    }
    let unread =
        stage.activity == Activity::Connecting || (stage.read_at.is_none() && stage.activity != Activity::Offline);
    let early = matches!(error.code, Code::NotConnected | Code::NotReferenced | Code::Stale);
    if early && unread && stage.fault.is_none() {
        return wait();
    }
    if matches!(error.code, Code::NotReferenced | Code::ControllerReset) {
        // Homing is refused until these are over.
        return match (stage.stopped_by, &stage.fault) {
            (Some(_), _) => Some(Instead::Of(Code::Stopped)),
            (None, Some(_)) => Some(Instead::Of(Code::Faulted)),
            (None, None) if stage.activity.is_motion() => Some(Instead::Of(Code::Busy)),
            (None, None) => None,
        };
    }
    None
}

/// For whom a next step is sought.
pub(crate) struct Situation<'a> {
    /// The tool that was called.
    pub(crate) tool: &'a str,
    /// The device concerned.
    pub(crate) device: Option<&'a str>,
    /// Whether this caller may call a tool, with this device where it needs one.
    pub(crate) may: &'a dyn Fn(&str) -> bool,
}

/// The next step, as a sentence. The tool's own proposal comes first, if the caller may follow it.
pub(crate) fn next(code: Code, proposal: Option<&Next>, at: &Situation<'_>) -> String {
    if let Some(p) = proposal.filter(|p| (at.may)(p.tool)) {
        return words::sentence(&p.say);
    }
    let recovery = recovery(code);
    for (tool, say) in recovery.steps {
        let tool = if tool.is_empty() { at.tool } else { tool };
        let needs_device = say.contains("{device}");
        if !(at.may)(tool) || (needs_device && at.device.is_none()) || !named(say, at.may) {
            continue;
        }
        let say = say.replace("{tool}", at.tool).replace("{device}", at.device.unwrap_or_default());
        return format!("{say}.");
    }
    let person = if recovery.person.is_empty() { "ask the person at the rig" } else { recovery.person };
    format!("{person}.")
}

/// Whether every other tool that a sentence names may be called too.
fn named(say: &str, may: &dyn Fn(&str) -> bool) -> bool {
    let words = say.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    words.filter(|w| super::registry::is_tool(w) && *w != "home" && *w != "stop").all(may)
}

#[cfg(test)]
mod tests {
    use super::super::registry::{TABLE, is_tool};
    use super::super::testing;
    use super::*;
    use crate::model::{StageStatus, StopBy};

    /// `docs/errors.md`.
    fn page() -> String {
        let mut page = String::from(
            "# Errors\n\nGenerated from `src/model.rs` and `src/tools/recovery.rs`; `UPDATE_DOCS=1 cargo test --lib errors_page` \
             writes it anew.\n\nA tool that fails answers `[code] what happened, with numbers and units. Moved: no|yes|unknown. \
             Next: …`. The next step is the first of those below that this caller may take.\n\n| code | what it means | next |\n\
             |---|---|---|\n",
        );
        for code in Code::ALL {
            let r = recovery(*code);
            let mut ways: Vec<&str> = r.steps.iter().map(|(_, say)| *say).collect();
            if !r.person.is_empty() {
                ways.push(r.person);
            }
            let ways = ways.join("; else ").replace("{tool}", "the tool").replace("{device}", "…");
            page.push_str(&format!("| `{code}` | {} | {ways} |\n", code.meaning()));
        }
        page
    }

    /// Words of a sentence that are names of tools and can't be plain English.
    fn tools_in(say: &str) -> Vec<&str> {
        say.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).filter(|w| is_tool(w)).collect()
    }

    #[test]
    fn hole_16_every_code_has_a_next_step_with_tools_that_exist() {
        for code in Code::ALL {
            let r = recovery(*code);
            assert!(!r.steps.is_empty() || !r.person.is_empty(), "{code}");
            for (tool, say) in r.steps {
                assert!(tool.is_empty() || is_tool(tool), "{code}: {tool}");
                assert!(tool.is_empty() || say.contains(tool), "{code}: {tool} isn't named");
                assert!(!say.ends_with('.'));
            }
            assert!(!r.person.contains("limit") && !r.person.contains("--"), "{code} must not lead past a limit");
        }
    }

    #[test]
    fn hole_16_a_next_step_names_only_what_the_caller_may_call() {
        let all: Vec<&str> = TABLE.iter().map(|s| s.name).collect();
        let read_only = ["describe_rig", "get_state", "diagnose", "list_events", "check_move", "stop", "whoami"];
        for allowed in [&all[..], &read_only[..], &["diagnose"][..], &[][..]] {
            for code in Code::ALL {
                for device in [None, Some("scope")] {
                    let may = |t: &str| allowed.contains(&t);
                    let tool = allowed.first().copied().unwrap_or("diagnose");
                    let said = next(*code, None, &Situation { tool, device, may: &may });
                    let english = ["stop", "home"];
                    for t in tools_in(&said).into_iter().filter(|t| !english.contains(t) && *t != tool) {
                        assert!(may(t), "{code} for {allowed:?}: {said}");
                    }
                    assert!(!said.contains('{') || said.contains("{}") || said.contains("{\""), "{code}: {said}");
                    assert!(said.ends_with('.') && said.len() > 10, "{code}: {said}");
                }
            }
        }
    }

    #[test]
    fn what_stands_in_the_way_first_is_what_comes_next() {
        let state = |spoil: fn(&mut StageStatus)| {
            let mut s = testing::state();
            spoil(&mut s.stages[0]);
            s
        };
        let error = |code, moved| RigError::new(code, "x").moved(moved);
        let say = |code, moved, spoil| match instead(&error(code, moved), &state(spoil), "scope", "home") {
            Some(Instead::Say(say)) => say,
            other => panic!("{code}: {other:?}"),
        };
        for code in [Code::NotConnected, Code::NotReferenced] {
            let said = say(code, Moved::No, |s| s.activity = Activity::Connecting);
            assert_eq!(said, "call get_state {} in 2 s, until scope is identified and read, then home again.");
        }
        let said = say(Code::Unplugged, Moved::Unknown, |s| s.activity = Activity::Offline);
        assert!(said.contains("MAY STILL MOVE") && said.contains("no stop can reach it"), "{said}");
        let of = |code, spoil| instead(&error(code, Moved::No), &state(spoil), "scope", "move_to");
        assert_eq!(of(Code::NotReferenced, |s| s.stopped_by = Some(StopBy::Model)), Some(Instead::Of(Code::Stopped)));
        assert_eq!(of(Code::ControllerReset, |s| s.fault = Some(testing::fault())), Some(Instead::Of(Code::Faulted)));
        assert_eq!(of(Code::NotReferenced, |s| s.activity = Activity::Homing), Some(Instead::Of(Code::Busy)));
        assert_eq!(of(Code::NotReferenced, |_| ()), None, "homing is what leads on");
        assert_eq!(of(Code::Unplugged, |s| s.activity = Activity::Offline), None, "nothing of it moved");
    }

    #[test]
    fn errors_page_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(written.replace("\r\n", "\n"), page(), "run UPDATE_DOCS=1 cargo test --lib errors_page");
    }
}
