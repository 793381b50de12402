//! The command line: one file per command. This one parses and dispatches.

mod alone;
mod approve;
mod call;
mod check;
mod completions;
mod connect;
mod demo;
mod doctor;
mod flash;
mod host;
mod http;
mod init;
mod jog;
mod log;
mod logs;
mod man;
mod owners;
mod person;
mod ports;
mod relay;
mod serve;
mod session;
mod status;
mod stop;
mod talk;
mod written;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Lets an AI assistant or a workflow drive a lab's stages and cameras over the Model Context Protocol.
///
/// Without a command it serves one client on standard input and output, which is how an assistant's host starts it.
/// It refuses, stops and records, whoever gives the orders; what only hardware can guarantee (an emergency stop,
/// limit switches, laser interlocks) it does not replace.
#[derive(Debug, Parser)]
#[command(name = "steadyhand", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Ports(ports::PortsArgs),
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Doctor(doctor::DoctorArgs),
    Jog(jog::JogArgs),
    Flash(Box<flash::FlashArgs>),
    Connect(connect::ConnectArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Stop(stop::StopArgs),
    Status(status::StatusArgs),
    Jobs(status::JobsArgs),
    Resume(person::ResumeArgs),
    Release(person::ReleaseArgs),
    Reclaim(person::ReclaimArgs),
    Reference(person::ReferenceArgs),
    Confirm(person::ConfirmArgs),
    Approve(approve::ApproveArgs),
    Allow(approve::AllowArgs),
    Call(call::CallArgs),
    Log(log::LogArgs),
}

/// Parses the process's command line, runs the command, and returns the exit code: 0 when all went well, 1 when
/// the command could not be carried out, 2 for a wrong command line, 3 when axes could not be confirmed to stand.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => serve::run(&args),
        Command::Ports(args) => ports::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Jog(args) => jog::run(&args),
        Command::Flash(args) => flash::run(&args),
        Command::Connect(args) => connect::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Jobs(args) => status::jobs(&args),
        Command::Resume(args) => person::resume(args),
        Command::Release(args) => person::release(args),
        Command::Reclaim(args) => person::reclaim(args),
        Command::Reference(args) => person::reference(args),
        Command::Confirm(args) => person::confirm(args),
        Command::Approve(args) => approve::approve(args),
        Command::Allow(args) => approve::allow(args),
        Command::Call(args) => call::run(&args),
        Command::Log(args) => log::run(&args),
    }
}

/// Whether standard error shows colours: a terminal that can, and a person who hasn't asked for none
/// (<https://no-color.org>).
fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    io::stderr().is_terminal() && !unwanted && !dumb
}

/// Writes lines for a person. Nobody is left to be told when that fails.
fn say(mut to: impl Write, text: &str) {
    let _ = writeln!(to, "{text}");
    let _ = to.flush();
}

/// Ends a command that could not be carried out.
fn fail(text: &str) -> ExitCode {
    // Problems that are drawn with their lines, in colour or not, begin with the word already.
    let drawn = text.starts_with("error: ") || text.starts_with('\u{1b}');
    say(io::stderr(), &if drawn { text.to_owned() } else { format!("error: {text}") });
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests;
