//! `steadyhand jog`: a stage moved by hand from the keyboard, each key one judged step.

mod hand;
mod screen;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use crossterm::event::{self, Event, KeyEventKind};

use super::serve::signal;
use super::session::{IDENTIFY, Session, why_not};
use super::{colours, fail, say};
use crate::actor::Ticket;
use crate::config::{self, Rig};
use crate::devices;
use crate::model::{Aim, Home, Move, Name, Report, RigError, StopBy};
use crate::plans::Sequence;
use hand::{Action, Hand};
use screen::Screen;

/// Move a stage by hand, from the keyboard.
///
/// Each key is one step, judged like every other move: limits, keep-outs and trust hold here too, so that a stage is
/// homed first (h, twice). Arrow keys move the first two axes, PageUp and PageDown the third; x and X, y and Y … move an
/// axis of that name up and down; + and - change the step; space or Esc stops; c releases a stop or an alarm; q ends.
/// Keys that come while the stage moves are not queued. However it ends, the axes are stopped and the terminal is as it
/// was.
#[derive(Debug, Args)]
pub(super) struct JogArgs {
    /// The rig file.
    ///
    /// Without it, `rig.toml` in the current folder is used, else the one in the platform's folder for configuration.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// The stage; needed where there are several.
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// The folder for the audit log, as for `serve`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// How often the positions are shown anew, and keys are looked for.
const TURN: Duration = Duration::from_millis(60);

pub(super) fn run(args: &JogArgs) -> ExitCode {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return fail("jog is for a person at a terminal; programs move a stage through the tools (move_by)");
    }
    let path = match config::find(args.rig.as_deref()) {
        Ok(path) => path,
        Err(none) => return fail(&none.to_string()),
    };
    let rig = match config::load(&path, &devices::known()) {
        Ok(rig) => rig,
        Err(problems) => {
            say(io::stderr(), &problems.render(colours()));
            return ExitCode::FAILURE;
        }
    };
    let stage = match stage(&rig, args.stage.as_deref()) {
        Ok(stage) => stage,
        Err(error) => return fail(&error),
    };
    let session = match Session::open(rig, args.data_dir.as_deref()) {
        Ok(session) => session,
        Err(error) => return fail(&error.to_string()),
    };
    let told = drive(&session, &stage);
    let still = session.close();
    match told {
        Err(error) => fail(&error),
        Ok(()) if still => ExitCode::SUCCESS,
        Ok(()) => {
            say(io::stderr(), "error: the axes could not be seen to stand: look at the rig");
            ExitCode::from(3)
        }
    }
}

/// The stage that is meant.
fn stage(rig: &Rig, named: Option<&str>) -> Result<Name, String> {
    let names: Vec<&str> = rig.stages.iter().map(|s| s.id.as_str()).collect();
    match (named, names.as_slice()) {
        (Some(name), all) if all.contains(&name) => Ok(Name::new(name)),
        (Some(name), all) => Err(format!("there is no stage {name:?}; there are: {}", all.join(", "))),
        (None, [one]) => Ok(Name::new(one)),
        (None, []) => Err("this rig has no stage".into()),
        (None, many) => Err(format!("say which with --stage: {}", many.join(", "))),
    }
}

fn drive(session: &Session, stage: &Name) -> Result<(), String> {
    let ended = Arc::new(AtomicBool::new(false));
    session.runtime().spawn({
        let ended = ended.clone();
        async move {
            signal().await;
            ended.store(true, Ordering::Relaxed);
        }
    });
    let state = session.identified(IDENTIFY);
    let status = state.stage(stage.as_str()).ok_or("the rig thread ended")?;
    if status.identity.is_none() {
        let why = why_not(status);
        return Err(format!("{stage} can't be moved: {why} `steadyhand doctor` looks for the cause"));
    }
    let config = session.handle().rig().stage(stage.as_str()).ok_or("the stage is gone")?.clone();
    let mut hand = Hand::new(&config);
    let mut running: Option<Ticket<Report>> = None;
    let mut screen = Screen::open().map_err(|e| format!("the terminal can't be used: {e}"))?;
    loop {
        if ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(ticket) = &mut running
            && let Some(outcome) = session.runtime().block_on(now(ticket))
        {
            running = None;
            hand.told(outcome.err().map(|e| e.what));
        }
        let state = session.handle().snapshot();
        let Some(status) = state.stage(stage.as_str()) else { return Err("the rig thread ended".into()) };
        screen.show(&hand.lines(status, running.is_some())).map_err(|e| format!("the terminal is gone: {e}"))?;
        if !event::poll(TURN).map_err(|e| format!("the terminal is gone: {e}"))? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(|e| format!("the terminal is gone: {e}"))? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match hand.key(key, running.is_some()) {
            Action::Nothing => {}
            Action::Quit => return Ok(()),
            // The person who stops here releases it here: it is no stop against everybody.
            Action::Stop => session.handle().stop(None, StopBy::Program),
            Action::Release => hand.told(session.release(stage).err().map(|e| e.what)),
            Action::Home => {
                let home = Home { stage: stage.clone(), axes: Vec::new() };
                begin(session, &mut hand, &mut running, Sequence::home(format!("home {stage}, by hand"), home));
            }
            Action::Step(axis, way) => {
                let aim = Aim::By { offsets: vec![(axis.clone(), way)], from: status.epoch };
                let movement = Move { stage: stage.clone(), aim };
                let plan = Sequence::movement(format!("a step of {stage}.{axis} by hand"), movement);
                begin(session, &mut hand, &mut running, plan);
            }
        }
    }
}

fn begin(session: &Session, hand: &mut Hand, running: &mut Option<Ticket<Report>>, plan: Sequence) {
    match session.begin(plan) {
        Ok(ticket) => {
            hand.told(None);
            *running = Some(ticket);
        }
        Err(error) => hand.told(Some(error.what)),
    }
}

/// The outcome, if it has come.
async fn now(ticket: &mut Ticket<Report>) -> Option<Result<Report, RigError>> {
    tokio::time::timeout(Duration::ZERO, ticket.wait()).await.ok()
}
