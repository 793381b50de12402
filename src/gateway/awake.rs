//! Holds off the machine's sleep while a job runs that may outlive its client: asleep, nobody watches the axes, and
//! nobody could stop them.
//!
//! The system's own tool does it, as a child process that ends when its input does: however this program ends, the sleep
//! is free again. (The crates for this bring a D-Bus stack on Linux, for what one command does.)

use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::actor::RigHandle;
use crate::config::OnClientLost;
use crate::model::{JobState, Snapshot};

/// How long nothing may run before the sleep is free again: jobs come one after the other.
const PAUSE: Duration = Duration::from_secs(5);

/// The tool with its arguments.
#[cfg(target_os = "macos")]
const TOOL: &[&str] = &["caffeinate", "-i", "cat"];
#[cfg(windows)]
const TOOL: &[&str] = &["powershell", "-NoProfile", "-NonInteractive", "-Command", WISH];
#[cfg(not(any(target_os = "macos", windows)))]
const TOOL: &[&str] =
    &["systemd-inhibit", "--what=sleep:idle", "--who=steadyhand", "--why=a job runs on the rig", "--mode=block", "cat"];

/// `ES_CONTINUOUS | ES_SYSTEM_REQUIRED`, until the input ends.
#[cfg(windows)]
const WISH: &str = "$power = Add-Type -PassThru -Namespace Steadyhand -Name Power -MemberDefinition \
    '[DllImport(\"kernel32.dll\")] public static extern uint SetThreadExecutionState(uint state);'; \
    $power::SetThreadExecutionState([uint32]2147483649) | Out-Null; [Console]::In.ReadToEnd() | Out-Null";

/// How soon a tool ends that is not allowed to do it.
const REFUSED: Duration = Duration::from_secs(2);

/// Follows the rig until its thread ends, and holds the sleep off while a job runs; does nothing where the rig file
/// lets no job outlive its client. `hold` begins to hold, and what it gives back ends it when dropped.
pub async fn follow<H>(handle: RigHandle, mut hold: impl FnMut() -> H) {
    if handle.rig().calls.on_client_lost != OnClientLost::Continue {
        return;
    }
    let runs = |state: &Snapshot| state.jobs.iter().any(|j| j.state == JobState::Running);
    let mut changes = handle.changes();
    while changes.wait_for(|state| runs(state)).await.is_ok() {
        let _held = hold();
        loop {
            if changes.wait_for(|state| !runs(state)).await.is_err() {
                return;
            }
            // Another job within the pause: it is held on.
            match tokio::time::timeout(PAUSE, changes.wait_for(|state| runs(state))).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return,
                Err(_) => break,
            }
        }
    }
}

/// The machine doesn't go to sleep while this lives; `None`, and a line in the log, where that can't be had.
pub fn hold() -> Option<Held> {
    match by(TOOL) {
        Ok(held) => Some(held),
        Err(why) => {
            tracing::warn!("the machine's sleep can't be held off while a job runs: {why}");
            None
        }
    }
}

/// A child process, which ends when this is dropped.
#[derive(Debug)]
pub struct Held {
    input: Option<ChildStdin>,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.input.take());
    }
}

/// Starts a tool that ends with its input.
fn by(tool: &[&str]) -> Result<Held, String> {
    let Some((name, arguments)) = tool.split_first() else { return Err("there is no tool for it".into()) };
    // Standard output belongs to the protocol.
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("{name} can't be started: {e}"))?;
    let input = child.stdin.take();
    let name = (*name).to_owned();
    let watched = std::thread::Builder::new().name("awake".into()).spawn(move || watch(child, &name));
    watched.map(|_| Held { input }).map_err(|e| format!("there is no thread to watch it: {e}"))
}

/// Waits for the child's end, so that nothing is left of it; one that fails at once was not allowed.
fn watch(mut child: Child, name: &str) {
    let begun = Instant::now();
    let ended = child.wait();
    if begun.elapsed() < REFUSED && !ended.as_ref().is_ok_and(ExitStatus::success) {
        tracing::warn!("the machine's sleep can't be held off while a job runs: {name} ended with {ended:?}");
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn the_tool_runs_until_it_is_dropped_and_a_missing_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("ended");
        let script = format!("cat; echo over > '{}'", mark.display());
        assert!(Command::new("mkfifo").arg(&mark).status().unwrap().success());
        let held = by(&["sh", "-c", &script]).unwrap();
        drop(held);
        // Opening waits for the writer, who comes when the input has ended.
        let mut line = String::new();
        BufReader::new(std::fs::File::open(&mark).unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "over\n");
        let why = by(&["no-such-tool-anywhere"]).unwrap_err();
        assert!(why.contains("no-such-tool-anywhere can't be started"), "{why}");
    }
}
