//! `steadyhand check`: everything that is wrong with a rig file, at once. Opens no device.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{colours, fail, say};
use crate::config::{self, Rig};
use crate::devices;

/// Say what is wrong with a rig file, or that nothing is.
///
/// Reads the file, opens no device, and shows every problem with its line and what to do about it. Exit code 0 when
/// the file is good, 1 when it is not.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The rig file.
    ///
    /// Without it, `rig.toml` in the current folder is checked, else the one in the platform's folder for
    /// configuration.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// The rig file, said without --rig.
    #[arg(value_name = "FILE", conflicts_with = "rig")]
    file: Option<PathBuf>,
    /// Print every key of the rig file with its meaning instead.
    #[arg(long, conflicts_with_all = ["rig", "file"])]
    reference: bool,
}

pub(super) fn run(args: &CheckArgs) -> ExitCode {
    if args.reference {
        say(io::stdout(), &config::reference());
        return ExitCode::SUCCESS;
    }
    let path = match config::find(args.rig.as_deref().or(args.file.as_deref())) {
        Ok(path) => path,
        Err(none) => return fail(&none.to_string()),
    };
    match config::load(&path, &devices::known()) {
        Ok(rig) => {
            say(io::stdout(), &summary(&rig, &path));
            ExitCode::SUCCESS
        }
        Err(problems) => {
            say(io::stderr(), &problems.render(colours()));
            ExitCode::FAILURE
        }
    }
}

/// What the file says, in a few lines.
fn summary(rig: &Rig, path: &Path) -> String {
    let mut lines = vec![format!("{}: the rig \"{}\" is fine", path.display(), rig.name)];
    for stage in &rig.stages {
        let axes: Vec<String> = stage
            .axes
            .iter()
            .map(|a| {
                let end = |at: crate::units::Position| crate::units::plain(at.to(a.unit));
                format!("{} {} to {} {}", a.id.axis, end(a.travel.low), end(a.travel.high), a.unit)
            })
            .collect();
        lines.push(format!("  stage {} ({}): {}", stage.id, stage.driver, axes.join(", ")));
    }
    for camera in &rig.cameras {
        lines.push(format!("  camera {} ({})", camera.id, camera.driver));
    }
    for output in &rig.outputs {
        lines.push(format!("  {} {} ({})", output.kind.word(), output.id, output.driver));
    }
    for sensor in &rig.sensors {
        lines.push(format!("  {} sensor {} ({})", sensor.kind.word(), sensor.id, sensor.driver));
    }
    for keep_out in &rig.keep_outs {
        lines.push(format!("  keep-out \"{}\"", keep_out.name));
    }
    for rule in &rig.rules {
        lines.push(format!("  rule \"{}\"", rule.name));
    }
    lines.join("\n")
}
