//! A profile: the settings that a controller shall have. A backup is one too, bound to the controller that it was read
//! from. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::{Problems, Sink, nearest, quoted, read_text};
use crate::devices::settings::{Controller, Keeping, Motor, Table};
use crate::devices::{DRIVERS, driver};

/// The axis of a profile that is for any: `--axis` says which.
pub const ANY: &str = "any";

/// A file that says what a controller's settings shall be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// What it is for, for people.
    pub name: String,
    /// Where its numbers are from.
    pub source: String,
    /// The driver whose controllers it is for.
    pub driver: String,
    /// How the controller's model begins; empty for any of that driver.
    pub model: String,
    /// How its firmware begins, one of these; empty for any.
    pub firmware: Vec<String>,
    /// Of a backup: the controller's serial number; it is for no other.
    pub serial: Option<String>,
    /// Of a backup: when it was taken, for people.
    pub taken: Option<String>,
    /// Of a backup: the port and the address at which the controller was.
    pub place: Option<(String, u8)>,
    /// The settings.
    pub settings: Vec<Wanted>,
    /// What is said of the motors, by the controller's names of axes, or [`ANY`].
    pub motors: BTreeMap<String, Motor>,
}

/// A setting as the profile names it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The axis that it is of, by the controller's name, or [`ANY`].
    pub axis: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value: a number in plain notation, or text.
    pub value: String,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

/// A profile with the text that it was read from, so that what is found wrong with it later has its line.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The profile.
    pub profile: Profile,
    /// The file, as it was named.
    pub file: std::path::PathBuf,
    /// Its text.
    pub text: String,
}

impl Read {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Read, Problems> {
        let text = read_text(path, "profile")?;
        Read::parse(&text, path)
    }

    /// Understands the text of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it, with line and remedy.
    pub fn parse(text: &str, file: &Path) -> Result<Read, Problems> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let profile = parse(text, file)?;
        Ok(Read { profile, file: file.to_owned(), text: text.to_owned() })
    }

    /// The same problem with several places of the file.
    pub fn problems(&self, found: &[(Range<usize>, String, String)]) -> Problems {
        let mut sink = Sink::new(&self.file, &self.text);
        for (span, what, remedy) in found {
            sink.say(span.clone(), what.clone(), remedy.clone());
        }
        sink.problems()
    }
}

/// The drivers whose controllers' settings can be written.
pub fn drivers() -> Vec<&'static str> {
    DRIVERS.iter().filter(|d| d.keeping.is_some()).map(|d| d.name).collect()
}

/// What a driver can do with settings.
pub fn keeping(name: &str) -> Option<&'static Keeping> {
    driver(name)?.keeping
}

type Item<'a> = Spanned<DeValue<'a>>;

fn parse(text: &str, file: &Path) -> Result<Profile, Problems> {
    let mut sink = Sink::new(file, text);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(e) => {
            sink.say(e.span().unwrap_or(0..0), format!("this is no TOML: {}", e.message()), "mend the line");
            return Err(sink.problems());
        }
    };
    let mut profile = Profile::default();
    let mut head = false;
    for (key, item) in root.get_ref() {
        match (key.get_ref().as_ref(), item.get_ref()) {
            ("profile", DeValue::Table(table)) => {
                head = true;
                read_head(table, &mut profile, &mut sink);
            }
            ("backup", DeValue::Table(table)) => read_backup(table, &mut profile, &mut sink),
            ("settings", DeValue::Table(table)) => read_settings(None, table, &mut profile, &mut sink),
            ("axis", DeValue::Table(axes)) => {
                for (name, axis) in axes {
                    match axis.get_ref() {
                        DeValue::Table(table) => read_axis(name.get_ref(), table, &mut profile, &mut sink),
                        _ => sink.say(axis.span(), "an axis is a section", "write [axis.X]"),
                    }
                }
            }
            ("profile" | "backup" | "settings" | "axis", _) => {
                sink.say(item.span(), format!("`{key}` is a section", key = key.get_ref()), "write it in brackets");
            }
            (other, _) => unknown(&mut sink, key.span(), other, &["profile", "backup", "settings", "axis"]),
        }
    }
    if !head {
        sink.say_whole("[profile] is missing", "say what it is for: name, source, driver, model, firmware");
    } else if profile.settings.is_empty() && sink.is_empty() {
        sink.say_whole("it has no settings", "write some under [settings] or [axis.NAME.settings]");
    }
    if sink.is_empty() { Ok(profile) } else { Err(sink.problems()) }
}

fn unknown(sink: &mut Sink<'_>, span: Range<usize>, key: &str, known: &[&str]) {
    let remedy = nearest(key, known.iter().copied())
        .map_or_else(|| format!("known here: {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
    sink.say(span, format!("unknown key {}", quoted(key)), remedy);
}

fn text(item: &Item<'_>, sink: &mut Sink<'_>) -> String {
    match item.get_ref() {
        DeValue::String(text) if !text.chars().any(char::is_control) => text.to_string(),
        _ => {
            sink.say(item.span(), "this must be text on one line", "write it in quotes");
            String::new()
        }
    }
}

fn read_head(table: &DeTable<'_>, profile: &mut Profile, sink: &mut Sink<'_>) {
    let mut said = Vec::new();
    for (key, item) in table {
        let name = key.get_ref().as_ref();
        said.push(name.to_owned());
        match name {
            "name" => profile.name = text(item, sink),
            "source" => profile.source = text(item, sink),
            "model" => profile.model = text(item, sink),
            "driver" => {
                profile.driver = text(item, sink);
                if keeping(&profile.driver).is_none() {
                    let message = format!("settings of {} can't be written", quoted(&profile.driver));
                    sink.say(item.span(), message, format!("drivers that can: {}", drivers().join(", ")));
                }
            }
            "firmware" => match item.get_ref() {
                DeValue::Array(items) => profile.firmware = items.iter().map(|i| text(i, sink)).collect(),
                _ => profile.firmware = vec![text(item, sink)],
            },
            _ => unknown(sink, key.span(), name, &["name", "source", "driver", "model", "firmware"]),
        }
    }
    for (needed, what) in [
        ("name", "what it is for"),
        ("source", "where its numbers are from"),
        ("driver", "whose controllers it is for"),
    ] {
        if !said.iter().any(|s| s == needed) {
            sink.say_whole(format!("`{needed}` is missing in [profile]"), format!("say {what}"));
        }
    }
}

fn read_backup(table: &DeTable<'_>, profile: &mut Profile, sink: &mut Sink<'_>) {
    let (mut port, mut address) = (String::new(), 1);
    for (key, item) in table {
        match key.get_ref().as_ref() {
            "taken" => profile.taken = Some(text(item, sink)),
            "serial" => profile.serial = Some(text(item, sink)),
            "port" => port = text(item, sink),
            "address" => match plain(item).and_then(|n| n.parse().ok()).filter(|n| (1..=99).contains(n)) {
                Some(n) => address = n,
                None => sink.say(item.span(), "an address is a whole number", "write one of 1 to 99"),
            },
            other => unknown(sink, key.span(), other, &["taken", "serial", "port", "address"]),
        }
    }
    profile.place = Some((port, address));
}

/// A value as plain text: a number as it stands in the file, without an exponent.
fn plain(item: &Item<'_>) -> Option<String> {
    Some(match item.get_ref() {
        DeValue::Integer(n) if n.radix() == 10 => n.as_str().replace('_', "").trim_start_matches('+').to_owned(),
        DeValue::Float(n) => n.as_str().replace('_', "").trim_start_matches('+').to_owned(),
        DeValue::Boolean(on) => u8::from(*on).to_string(),
        DeValue::String(text) => text.to_string(),
        _ => return None,
    })
}

fn read_settings(axis: Option<&str>, table: &DeTable<'_>, profile: &mut Profile, sink: &mut Sink<'_>) {
    for (key, item) in table {
        let name = key.get_ref().to_string();
        match plain(item) {
            Some(value) => {
                let span = key.span().start..item.span().end;
                profile.settings.push(Wanted { axis: axis.map(str::to_owned), name, value, span });
            }
            None => {
                let message = format!("the value of {} is none that a setting can have", quoted(&name));
                sink.say(item.span(), message, "write a number without an exponent, true, false or text");
            }
        }
    }
}

fn read_axis(name: &str, table: &DeTable<'_>, profile: &mut Profile, sink: &mut Sink<'_>) {
    let mut motor = Motor::default();
    for (key, item) in table {
        match (key.get_ref().as_ref(), item.get_ref()) {
            ("settings", DeValue::Table(settings)) => read_settings(Some(name), settings, profile, sink),
            ("holds_unpowered", DeValue::Boolean(holds)) => motor.holds_unpowered = Some(*holds),
            ("rated_current_a", _) => {
                let current = plain(item).and_then(|n| n.parse().ok()).filter(|n: &f64| n.is_finite() && *n > 0.0);
                match current {
                    Some(_) => motor.rated_current_a = current,
                    None => sink.say(item.span(), "a current is a number above 0", "write amperes"),
                }
            }
            ("settings" | "holds_unpowered", _) => {
                sink.say(
                    item.span(),
                    format!("`{}` has another kind of value", key.get_ref()),
                    "settings = { … }, holds_unpowered = true or false",
                );
            }
            (other, _) => unknown(sink, key.span(), other, &["settings", "holds_unpowered", "rated_current_a"]),
        }
    }
    profile.motors.insert(name.to_owned(), motor);
}

/// What is known of the axis of a setting with that full name.
impl Profile {
    /// The motor of an axis.
    pub fn motor(&self, axis: Option<&str>) -> Motor {
        axis.and_then(|a| self.motors.get(a)).or_else(|| self.motors.get(ANY)).copied().unwrap_or_default()
    }

    /// A profile with everything that a controller told, for that controller alone when it is a `backup`.
    pub fn of(driver: &str, who: &Controller, table: &Table, backup: Option<(&str, &str, u8)>) -> Profile {
        let settings = table.iter().filter(|s| s.meaning.kept && s.meaning.writable).map(|s| Wanted {
            axis: None,
            name: s.name.clone(),
            value: s.value.clone(),
            span: 0..0,
        });
        Profile {
            name: who.to_string(),
            source: "read from the controller".into(),
            driver: driver.to_owned(),
            model: who.model.clone(),
            firmware: vec![who.firmware.clone()],
            serial: backup.map(|_| who.serial.clone()),
            taken: backup.map(|(taken, ..)| taken.to_owned()),
            place: backup.map(|(_, port, address)| (port.to_owned(), address)),
            settings: settings.collect(),
            motors: BTreeMap::new(),
        }
    }

    /// The file of a profile that a controller told, with what each setting means beside it.
    pub fn render(&self, table: &Table) -> String {
        let mut text = String::new();
        let quote = |t: &str| toml_text(t);
        // Writing to a String can't fail.
        let _ = writeln!(text, "[profile]\nname = {}\nsource = {}", quote(&self.name), quote(&self.source));
        let _ = writeln!(text, "driver = {}\nmodel = {}", quote(&self.driver), quote(&self.model));
        let firmware: Vec<String> = self.firmware.iter().map(|f| quote(f)).collect();
        let _ = writeln!(text, "firmware = [{}]", firmware.join(", "));
        if let Some((port, address)) = &self.place {
            let _ = writeln!(
                text,
                "\n[backup]\ntaken = {}\nserial = {}\nport = {}\naddress = {address}",
                quote(self.taken.as_deref().unwrap_or_default()),
                quote(self.serial.as_deref().unwrap_or_default()),
                quote(port)
            );
        }
        text += "\n[settings]\n";
        for wanted in &self.settings {
            let known = table.get(&wanted.name);
            let number =
                |v: &str| v.parse::<f64>().is_ok_and(f64::is_finite) && DeTable::parse(&format!("x = {v}")).is_ok();
            let value = if number(&wanted.value) { wanted.value.clone() } else { quote(&wanted.value) };
            let what = known.map_or(String::new(), |s| {
                let unit = if s.meaning.unit.is_empty() { String::new() } else { format!(", {}", s.meaning.unit) };
                format!("  # {}{unit}", s.meaning.what)
            });
            let _ = writeln!(text, "{} = {value}{what}", quote(&wanted.name));
        }
        text
    }

    /// Whether this controller is one that it is for.
    ///
    /// # Errors
    /// Why it is not.
    pub fn fits(&self, who: &Controller) -> Result<(), String> {
        if !who.model.starts_with(self.model.as_str()) {
            return Err(format!("it is for {}, and this is {who}", quoted(&self.model)));
        }
        if !self.firmware.is_empty() && !self.firmware.iter().any(|f| who.firmware.starts_with(f.as_str())) {
            let wanted: Vec<String> = self.firmware.iter().map(|f| quoted(f)).collect();
            return Err(format!("it is for firmware {}, and this is {who}", wanted.join(" or ")));
        }
        match &self.serial {
            Some(serial) if *serial != who.serial => Err(format!(
                "it is the backup of the controller with the serial number {}, and this is {who}",
                quoted(serial)
            )),
            _ => Ok(()),
        }
    }
}

/// A basic string of TOML.
pub fn toml_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
