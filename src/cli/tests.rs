//! The command line as it is typed.

mod words;

use super::*;
use crate::config::Kind;

fn parse(line: &str) -> Cli {
    Cli::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn served(line: &str) -> serve::ServeArgs {
    let cli = parse(line);
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => args,
        _ => panic!("{line} does not serve a rig file"),
    }
}

#[test]
fn serve_is_the_default_with_and_without_flags() {
    assert_eq!(served("steadyhand").options.request_timeout_ms, 30_000);
    for line in
        ["steadyhand --rig x.toml --read-only --log debug", "steadyhand serve --rig x.toml --read-only --log debug"]
    {
        let args = served(line);
        assert_eq!(args.rig.as_deref(), Some(std::path::Path::new("x.toml")));
        assert!(args.options.read_only && args.options.log.is_some());
    }
}

#[test]
fn a_wrong_command_line_is_refused() {
    for line in [
        "steadyhand --rig",
        "steadyhand fly",
        "steadyhand --request-timeout-ms 0",
        "steadyhand --request-timeout-ms -5",
        "steadyhand serve --log loud",
        "steadyhand --rig x check",
        "steadyhand check x.toml --rig y.toml",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}

#[test]
fn the_short_help_is_short_and_the_long_one_says_how_it_ends() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
    let mut command = Cli::command();
    let serve = command.find_subcommand_mut("serve").expect("serve");
    assert!(!serve.render_help().to_string().contains("Exit code"));
    assert!(serve.render_long_help().to_string().contains("Exit code 0"));
}

#[test]
fn the_known_drivers_are_those_of_the_table() {
    let known = crate::devices::known();
    assert_eq!(known.0.len(), crate::devices::DRIVERS.len());
    let kind = |name: &str| known.get(name).map(|d| d.kind);
    assert_eq!((kind("grbl"), kind("simcam")), (Some(Kind::Stage), Some(Kind::Camera)));
}
