//! What only a person may do to a running rig: `resume`, `release`, `reclaim`, `reference` and `confirm`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::owners::{Which, the_one};
use super::{fail, say};
use crate::gateway::local::{Request, ask};
use crate::model::harmless;

/// How long the server may take: closing a port, for example.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Release a person's stop, so that the rig may move again.
///
/// Look at the rig first. No client can do this for you.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The stage; without it, all.
    #[arg(value_name = "STAGE")]
    stage: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Lend a device's port to another program.
///
/// The port is closed, and with it go all devices that share it; their tools leave the clients' lists until `steadyhand
/// reclaim`.
#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    /// The stage or camera.
    #[arg(value_name = "DEVICE")]
    device: String,
    #[command(flatten)]
    which: Which,
}

/// Take a port back that was lent to another program.
///
/// Its devices are identified anew. A position is believed again if the controller still counts what it counted before;
/// else the stage must be homed, or declared.
#[derive(Debug, Args)]
pub(super) struct ReclaimArgs {
    /// The stage or camera.
    #[arg(value_name = "DEVICE")]
    device: String,
    #[command(flatten)]
    which: Which,
}

/// Declare where an axis stands, for stages that can't be homed.
///
/// From then on it reads this position, with trust `assumed`, as good as your ruler. It holds until the controller
/// restarts, the axis is homed, or its position is lost in motion. After a pulled cable or a restart of the program it
/// comes back if the controller still counts what it counted at rest; a count of 0 never agrees. Nothing moves, and nothing
/// is written to the controller. All limits rest on what you say here: measure it.
#[derive(Debug, Args)]
pub(super) struct ReferenceArgs {
    /// The axis, such as scope.x; its name alone where there is one stage.
    #[arg(value_name = "AXIS")]
    axis: String,
    /// Where it stands, in the axis's own unit.
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: f64,
    /// The unit of the value, where it is another one.
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Say that you have done by hand what a job waits for, such as turning the turret.
///
/// A client that sets a device of driver `manual` is told to ask you; its job goes on when you confirm. `steadyhand jobs`
/// shows what waits.
#[derive(Debug, Args)]
pub(super) struct ConfirmArgs {
    /// The job; needed where several wait.
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// You refuse: the job ends.
    #[arg(long)]
    refused: bool,
    /// Your name, for the log; without it, the one you are logged in with.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    which: Which,
}

pub(super) fn confirm(args: ConfirmArgs) -> ExitCode {
    order(&args.which, &Request::Confirm { job: args.job, done: !args.refused, by: login(args.by) })
}

/// Who gives the order, for the log: the name that was given, else the one that this person is logged in with.
pub(super) fn login(given: Option<String>) -> String {
    let login = || ["USER", "USERNAME"].iter().find_map(|key| std::env::var(key).ok()).filter(|name| !name.is_empty());
    given.or_else(login).unwrap_or_else(|| "a person".into())
}

pub(super) fn resume(args: ResumeArgs) -> ExitCode {
    order(&args.which, &Request::Resume { stage: args.stage })
}

pub(super) fn release(args: ReleaseArgs) -> ExitCode {
    order(&args.which, &Request::Release { device: args.device })
}

pub(super) fn reclaim(args: ReclaimArgs) -> ExitCode {
    order(&args.which, &Request::Reclaim { device: args.device })
}

pub(super) fn reference(args: ReferenceArgs) -> ExitCode {
    order(&args.which, &Request::Reference { axis: args.axis, value: args.value, unit: args.unit })
}

pub(super) fn order(which: &Which, request: &Request) -> ExitCode {
    match the_one(which).and_then(|place| ask(&place, request, PATIENCE).map_err(|e| e.to_string())) {
        Ok(said) if said.ok => {
            say(io::stdout(), &harmless(&said.text));
            ExitCode::SUCCESS
        }
        Ok(said) => fail(&harmless(&said.text)),
        Err(error) => fail(&error),
    }
}
