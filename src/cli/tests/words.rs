//! Every command and flag that the pages name exists, and every tool that the skill names.

use clap::{Command, CommandFactory};

use super::super::Cli;

const SKILL: &str = include_str!("../../../packaging/skill/SKILL.md");

/// Words of the skill in code type that are neither commands nor tools.
const OTHERS: [&str; 3] = ["moved", "trust", "why"];

/// What a page shows in code type: the lines of its shell blocks, and what stands between single backticks.
fn code(page: &str) -> Vec<String> {
    let mut shell = Vec::new();
    let mut prose = String::new();
    for (i, part) in page.split("```").enumerate() {
        if i % 2 == 0 {
            prose += part;
        } else if let Some(lines) = part.strip_prefix("sh\n").or(part.strip_prefix("console\n")) {
            shell.extend(lines.lines().map(|l| l.trim_start_matches("$ ").to_owned()));
        }
    }
    let inline = prose.split('`').skip(1).step_by(2).map(|s| s.split_whitespace().collect::<Vec<_>>().join(" "));
    inline.chain(shell).collect()
}

fn has_flag(command: &Command, flag: &str) -> bool {
    let name = flag.trim_start_matches("--");
    let known =
        |a: &clap::Arg| a.get_long() == Some(name) || a.get_all_aliases().is_some_and(|all| all.contains(&name));
    // `steadyhand log verify` is a command of the command `log`.
    let beneath = || command.get_name() != "steadyhand" && command.get_subcommands().any(|c| has_flag(c, flag));
    name == "help" || name == "version" || command.get_arguments().any(known) || beneath()
}

/// The flags among words, without values and punctuation.
fn flags<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let end = words.iter().position(|w| ["|", "||", "&&", "#", ";", "--"].contains(w)).unwrap_or(words.len());
    let bare = |w: &&'a str| w.trim_start_matches('[').split(['=', ',', ']', ')']).next().unwrap_or("");
    words[..end].iter().map(bare).filter(|w| w.len() > 2 && w.starts_with("--")).collect::<Vec<_>>().into_iter()
}

/// What a page says of the command line that isn't so.
fn wrong(page: &str) -> Vec<String> {
    let mut cli = Cli::command();
    cli.build();
    let mut wrong = Vec::new();
    for span in code(page) {
        let words: Vec<&str> = span.split(' ').collect();
        let program = words.iter().position(|w| *w == "steadyhand" || w.ends_with("/steadyhand"));
        // Another program's own flags are none of ours.
        let shown = match program {
            Some(at) => &words[at + 1..],
            None if words[0].starts_with("--") || cli.find_subcommand(words[0]).is_some() => &words[..],
            None => continue,
        };
        let Some(first) = shown.first() else { continue };
        let name = first.trim_end_matches(['.', ',', ';', ')']);
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && name[..1] != *"-";
        let command = match cli.find_subcommand(name) {
            Some(command) => Some(command),
            None if program.is_some() && is_name => {
                wrong.push(format!("`{span}`: there is no command {name}"));
                continue;
            }
            None if program.is_some() => Some(&cli),
            None => None,
        };
        for flag in flags(shown) {
            let known = match command {
                Some(command) => has_flag(command, flag),
                // A flag alone may be any command's.
                None => has_flag(&cli, flag) || cli.get_subcommands().any(|c| has_flag(c, flag)),
            };
            if !known {
                wrong.push(format!("`{span}`: {flag} is not a flag of it"));
            }
        }
    }
    wrong
}

#[test]
fn the_pages_name_commands_and_flags_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).expect("docs").map(|e| e.expect("an entry").path());
    let pages = docs.filter(|p| p.extension().is_some_and(|e| e == "md")).chain([root.join("README.md")]);
    for page in pages.chain([root.join("packaging/skill/SKILL.md")]) {
        let text = std::fs::read_to_string(&page).expect("a page");
        assert_eq!(wrong(&text), Vec::<String>::new(), "{}", page.display());
    }
}

#[test]
fn a_page_that_names_what_there_is_not_is_found() {
    for (page, what) in [
        ("run `steadyhand fly`", "no command fly"),
        ("run `steadyhand\nports --rigs`", "--rigs"),
        ("```sh\nsteadyhand --rig x --examples\n```", "--examples"),
        ("with `doctor --dry-run`", "--dry-run"),
        ("with `--no-such-flag`", "--no-such-flag"),
    ] {
        assert!(wrong(page).first().is_some_and(|w| w.contains(what)), "{page}: {:?}", wrong(page));
    }
    let good =
        "`steadyhand serve --rig FILE`, `steadyhand --rig=x.toml`, `--card`, `cargo test --lib`, `doctor --card`";
    assert_eq!(wrong(good), Vec::<String>::new());
}

#[test]
fn the_skill_names_tools_that_there_are() {
    let cli = Cli::command();
    let mut tools = 0;
    for span in code(SKILL) {
        if !span.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') || span == "steadyhand" {
            continue;
        }
        let tool = crate::tools::is_tool(&span);
        tools += usize::from(tool);
        assert!(tool || cli.find_subcommand(&span).is_some() || OTHERS.contains(&span.as_str()), "{span} is no tool");
    }
    assert!(tools > 8, "{tools}");
}
