//! `steadyhand flash new`: a profile of a stage that has none yet, from what its parts are.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::super::init::person::{Nobody, Person, Terminal, ask, positive, yes};
use super::super::{fail, say};
use super::told;
use crate::devices::settings::{Keeping, Setting, Table};
use crate::flash::profile::{ANY, Read, drivers, keeping, toml_text};
use crate::units::plain;

/// Write a profile for a stage, from its motor, its drive and its screw or belt.
///
/// Asks what is not said by flags; with --yes nobody is asked. The profile is for one axis; `steadyhand flash FILE --axis X`
/// says which.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The file to write; it must not exist.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The driver: grbl, zaber or asi.
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
    /// What the stage is, for people.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Where the numbers are from.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Full steps of the motor per revolution.
    #[arg(long, value_name = "N")]
    full_steps: Option<f64>,
    /// Microsteps per full step, as the drive is set.
    #[arg(long, value_name = "N")]
    microsteps: Option<f64>,
    /// How far the stage goes per revolution of the screw, in mm; for a belt, its pitch times the teeth of the pulley.
    #[arg(long, value_name = "MM")]
    lead: Option<f64>,
    /// How many revolutions of the motor turn the screw once.
    #[arg(long, value_name = "RATIO")]
    gear: Option<f64>,
    /// How far a microstep goes at the default resolution, in µm (of a Zaber device).
    #[arg(long, value_name = "UM")]
    microstep_um: Option<f64>,
    /// The highest speed, in mm/s.
    #[arg(long, value_name = "MM_PER_S")]
    speed: Option<f64>,
    /// The acceleration, in mm/s².
    #[arg(long, value_name = "MM_PER_S2")]
    acceleration: Option<f64>,
    /// The length of the travel, in mm.
    #[arg(long, value_name = "MM")]
    travel: Option<f64>,
    /// Whether the axis stays where it is without power.
    #[arg(long, value_name = "YES_OR_NO")]
    holds_unpowered: Option<bool>,
    /// The current that the motor is rated for, in amperes.
    #[arg(long, value_name = "A")]
    rated_current: Option<f64>,
    /// Ask nothing: take what is proposed.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &NewArgs) -> ExitCode {
    let mut person: Box<dyn Person> =
        if args.yes || !io::stdin().is_terminal() { Box::new(Nobody) } else { Box::new(Terminal) };
    match text(args, person.as_mut()).and_then(|text| write(args, &text)) {
        Ok(()) => {
            let file = super::super::serve::shell_word(&args.file.display().to_string());
            say(
                io::stdout(),
                &format!("Wrote {file}. Next: steadyhand flash {file} --port PORT --axis AXIS --dry-run"),
            );
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

fn write(args: &NewArgs, text: &str) -> Result<(), String> {
    Read::parse(text, &args.file).map_err(|p| told(&p))?;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.file)
        .map_err(|e| format!("{} can't be made: {e}", args.file.display()))?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(|e| format!("{}: {e}", args.file.display()))
}

/// A number that is said by a flag, or asked for.
fn number(
    person: &mut dyn Person,
    given: Option<f64>,
    question: &str,
    proposal: Option<&str>,
    flag: &str,
) -> Result<f64, String> {
    match given {
        Some(value) if value.is_finite() && value > 0.0 => Ok(value),
        Some(_) => Err(format!("{flag} must be a number above 0")),
        None => ask(person, question, proposal, flag, positive),
    }
}

fn words(person: &mut dyn Person, given: &Option<String>, question: &str, flag: &str) -> Result<String, String> {
    match given {
        Some(text) => Ok(text.clone()),
        None => {
            ask(person, question, None, flag, |t| if t.is_empty() { Err("say it".into()) } else { Ok(t.to_owned()) })
        }
    }
}

/// Speeds of a Zaber device are in 1.6384 × microsteps/s, accelerations in 1.6384/10000 × microsteps/s².
const ZABER_SPEED: f64 = 1.6384;
/// Its currents are in steps of 20 mA.
const ZABER_CURRENT_A: f64 = 0.02;

/// The highest speed, which has to fit what the controller can do: asked for again, or refused where a flag says it.
fn top_speed(person: &mut dyn Person, args: &NewArgs, fits: &dyn Fn(f64) -> Result<(), String>) -> Result<f64, String> {
    let question = "Highest speed, mm/s";
    if args.speed.is_some() {
        let speed = number(person, args.speed, question, None, "--speed")?;
        return fits(speed).map(|()| speed).map_err(|why| format!("--speed: {why}"));
    }
    ask(person, question, None, "--speed", |text| {
        let speed = positive(text)?;
        fits(speed).map(|()| speed)
    })
}

/// Whether a controller of that kind can hold these settings of one axis, and together: what a run would refuse is
/// refused here.
///
/// # Errors
/// What doesn't fit.
fn possible(keeping: &Keeping, axis: &str, settings: &[(&str, f64)]) -> Result<(), String> {
    let mut table = Vec::new();
    for (setting, value) in settings {
        let Some(name) = (keeping.name)(setting, Some(axis)) else { continue };
        let Some(meaning) = (keeping.meaning)(&name) else { continue };
        if let Some([low, high]) = meaning.range
            && !(low <= *value && *value <= high)
        {
            return Err(format!("{} would be {} {}: it is {low} to {high}", meaning.what, plain(*value), meaning.unit));
        }
        table.push(Setting { name, value: plain(*value), meaning });
    }
    let table = Table::new(table)?;
    (keeping.flaws)(&table).into_iter().next().map_or(Ok(()), |flaw| Err(flaw.what))
}

/// The profile. Pure but for the questions.
fn text(args: &NewArgs, person: &mut dyn Person) -> Result<String, String> {
    let known = drivers();
    let driver = match &args.driver {
        Some(name) if known.contains(&name.as_str()) => name.clone(),
        Some(name) => return Err(format!("settings of {name:?} can't be written; there is: {}", known.join(", "))),
        None => ask(person, &format!("Which driver ({})", known.join(", ")), Some("grbl"), "--driver", |t| {
            if known.contains(&t) { Ok(t.to_owned()) } else { Err("there is no such driver".into()) }
        })?,
    };
    let name = words(person, &args.name, "What is the stage", "--name")?;
    let source = words(person, &args.source, "Where are its numbers from (a data sheet, a page)", "--source")?;
    let example = keeping(&driver).ok_or("the driver writes no settings")?;
    let axis = if driver == "zaber" { "1" } else { "X" };
    let fits = |settings: &[(&str, f64)]| possible(example, axis, settings);
    let mut notes = Vec::new();
    let mut settings = Vec::new();
    match driver.as_str() {
        "grbl" => {
            let full =
                number(person, args.full_steps, "Full steps of the motor per revolution", Some("200"), "--full-steps")?;
            let micro = number(person, args.microsteps, "Microsteps per full step", Some("16"), "--microsteps")?;
            let lead =
                number(person, args.lead, "Travel per revolution (lead; belt: pitch × teeth), mm", None, "--lead")?;
            let gear = number(person, args.gear, "Revolutions of the motor per one of the screw", Some("1"), "--gear")?;
            let steps = rounded(full * micro * gear / lead);
            fits(&[("steps_per_mm", steps)])?;
            let rate = |speed: f64| rounded(speed * 60.0);
            let speed =
                top_speed(person, args, &|v| fits(&[("steps_per_mm", steps), ("max_rate_mm_per_min", rate(v))]))?;
            let acceleration = number(person, args.acceleration, "Acceleration, mm/s²", Some("50"), "--acceleration")?;
            let travel = number(person, args.travel, "Length of the travel, mm", None, "--travel")?;
            notes.push(format!(
                "{} full steps × {} microsteps × {} ÷ {} mm = {} steps/mm: one step is {} µm.",
                plain(full),
                plain(micro),
                plain(gear),
                plain(lead),
                plain(steps),
                plain(rounded(1000.0 / steps))
            ));
            settings.push(("steps_per_mm", steps));
            settings.push(("max_rate_mm_per_min", rate(speed)));
            settings.push(("acceleration_mm_per_s2", rounded(acceleration)));
            settings.push(("max_travel_mm", rounded(travel)));
        }
        "zaber" => {
            let um = number(
                person,
                args.microstep_um,
                "Microstep size at the default resolution, µm",
                None,
                "--microstep-um",
            )?;
            let travel = number(person, args.travel, "Length of the travel, mm", None, "--travel")?;
            let per_mm = 1000.0 / um;
            let units = |speed: f64| whole(speed * per_mm * ZABER_SPEED);
            let speed = top_speed(person, args, &|v| fits(&[("maxspeed", units(v))]))?;
            notes.push(format!(
                "A microstep is {} µm: {} microsteps/mm (counts_per_unit of the rig file).",
                plain(um),
                plain(rounded(per_mm))
            ));
            settings.push(("maxspeed", units(speed)));
            settings.push(("limit.max", whole(travel * per_mm)));
            if let Some(acceleration) = args.acceleration {
                let units = whole(acceleration * per_mm * ZABER_SPEED / 10_000.0);
                settings.push(("motion.accelonly", units));
                settings.push(("motion.decelonly", units));
            }
            if let Some(rated) = args.rated_current {
                settings.push(("driver.current.run", whole(rated / ZABER_CURRENT_A)));
            }
        }
        _ => settings.push(("S", top_speed(person, args, &|v| fits(&[("S", v)]))?)),
    }
    fits(&settings)?;
    let holds = match args.holds_unpowered {
        Some(holds) => holds,
        None => yes(person, "Does it stay where it is without power (horizontal, a worm, a brake)", false)?,
    };
    let mut text = format!("# {name}\n");
    for note in &notes {
        text += &format!("# {note}\n");
    }
    text += &format!(
        "[profile]\nname = {}\nsource = {}\ndriver = \"{driver}\"\n\n# The axis is said when it is written: --axis\n[axis.{ANY}]\n\
         holds_unpowered = {holds}\n",
        toml_text(&name),
        toml_text(&source)
    );
    if let Some(rated) = args.rated_current {
        text += &format!("rated_current_a = {}\n", plain(rated));
    }
    text += "\n[axis.any.settings]\n";
    for (setting, value) in settings {
        let full = (example.name)(setting, Some(axis));
        let known = full.and_then(|full| (example.meaning)(&full));
        let what = known.map_or(String::new(), |m| {
            let what = m.what.split_once(": ").map_or(m.what.clone(), |(_, rest)| rest.to_owned());
            format!("  # {what}{}{}", if m.unit.is_empty() { "" } else { ", " }, m.unit)
        });
        text += &format!("{} = {}{what}\n", toml_text(setting), plain(value));
    }
    if driver == "grbl" && !holds {
        text += "\n# The motors stay powered at rest: the axis would fall otherwise.\n[settings]\n\"$1\" = 255\n";
    }
    Ok(text)
}

/// With three decimals, as controllers tell numbers.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Whole units that are not more than that, where binary fractions may have lost the last bit (0.58 / 0.02 is 29).
fn whole(value: f64) -> f64 {
    (value + 1e-6).floor()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::super::init::person::script::Script;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: NewArgs,
    }

    fn made(line: &str, answers: &[&str]) -> Result<String, String> {
        let args = Line::try_parse_from(std::iter::once("new").chain(line.split_whitespace())).expect("a line").args;
        let text = text(&args, &mut Script::new(answers))?;
        Read::parse(&text, std::path::Path::new("new.toml")).unwrap_or_else(|p| panic!("{}\n{text}", p.render(false)));
        Ok(text)
    }

    #[test]
    fn steps_follow_from_motor_drive_screw_and_gear() {
        // 200 × 16 × 1 / 8 mm = 400; 10 mm/s are 600 mm/min.
        let text =
            made("f.toml", &["", "a stage", "its page", "", "", "8", "", "10", "", "75", "yes"]).expect("a profile");
        for line in
            ["steps_per_mm = 400", "max_rate_mm_per_min = 600", "acceleration_mm_per_s2 = 50", "max_travel_mm = 75"]
        {
            assert!(text.replace('"', "").contains(line), "{line}: {text}");
        }
        assert!(!text.contains("$1"), "{text}");
        // A belt of 2 mm on 20 teeth behind a gear of 5.18: 200 × 8 × 5.18 / 40 = 207.2. It falls: it stays powered.
        let flags = "f.toml --driver grbl --name z --source s --speed 5 --full-steps 200 --microsteps 8 --lead 40 --gear 5.18 \
                     --acceleration 20 --travel 30 --holds-unpowered false";
        let text = made(flags, &[]).expect("a profile");
        assert!(text.contains("= 207.2 ") && text.contains("\"$1\" = 255"), "{text}");
    }

    #[test]
    fn a_zaber_device_counts_microsteps() {
        // 0.1905 µm: 5249.344 a mm; 10 mm/s × 5249.344 × 1.6384 = 86005; 25.4 mm = 133333; 1.2 A = 60.
        let flags = "f.toml --driver zaber --name z --source s --speed 10 --microstep-um 0.1905 --travel 25.4 --rated-current 1.2 \
                     --holds-unpowered true";
        let text = made(flags, &[]).expect("a profile").replace('"', "");
        for line in ["maxspeed = 86005", "limit.max = 133333", "driver.current.run = 60", "rated_current_a = 1.2"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn currents_are_not_a_step_less_than_what_is_said() {
        // 0.58 A are 29 steps of 20 mA, and 0.59 A are no more.
        for (rated, steps) in [("0.58", 29), ("0.59", 29), ("0.60", 30), ("1.2", 60)] {
            let flags = format!(
                "f.toml --driver zaber --name z --source s --speed 10 --microstep-um 0.5 --travel 20 \
                 --rated-current {rated} --holds-unpowered true"
            );
            let text = made(&flags, &[]).expect("a profile").replace('"', "");
            assert!(text.contains(&format!("driver.current.run = {steps} ")), "{rated}: {text}");
        }
    }

    #[test]
    fn a_speed_that_the_controller_has_no_steps_for_is_asked_again_and_a_screw_that_can_not_be_is_refused() {
        // 200 × 16 / 8 mm = 400 steps/mm; 30,000 steps a second are 75 mm/s.
        let flags = "f.toml --driver grbl --name z --source s --full-steps 200 --microsteps 16 --lead 8 --gear 1 \
                     --acceleration 20 --travel 30 --holds-unpowered true";
        let text = made(flags, &["76", "75"]).expect("a profile");
        assert!(text.contains("\"max_rate_mm_per_min\" = 4500 "), "{text}");
        let refused = made(&format!("{flags} --speed 76"), &[]).expect_err("too fast");
        assert!(refused.contains("--speed") && refused.contains("at most 4500 mm/min"), "{refused}");
        // Its steps would be 0, which the firmware takes with `ok` and divides by.
        let refused = made(&flags.replace("--lead 8", "--lead 100000000"), &[]).expect_err("no steps");
        assert!(refused.contains("steps per millimetre") && refused.contains("0.001 to"), "{refused}");
        // What a Zaber device can't count in whole units, and a speed that no ASI stage has.
        let refused =
            made("f.toml --driver zaber --name z --source s --microstep-um 1000000 --travel 5 --speed 0.1", &[]);
        assert!(refused.expect_err("less than a unit").contains("speed of moves would be 0"));
        assert!(made("f.toml --driver asi --name z --source s --speed 2000", &[]).is_err());
    }

    #[test]
    fn a_bad_answer_is_asked_again_and_a_bad_flag_is_refused() {
        let text = made("f.toml --driver asi --name a --source b", &["fast", "-1", "2.5", "yes"]).expect("a profile");
        assert!(text.contains("\"S\" = 2.5"), "{text}");
        assert!(made("f.toml --driver asi --name a --source b --speed 0", &[]).is_err());
        assert!(made("f.toml --driver marlin", &[]).expect_err("no such driver").contains("grbl, zaber, asi"));
    }
}
