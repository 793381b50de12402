//! Reads sections and values of a TOML tree, and says what is wrong with each instead of stopping at the first.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Sink, quoted};
use crate::model::Name;

/// A value with its place.
pub(super) type Item<'a> = Spanned<DeValue<'a>>;

/// The longest text that a rig file may put into answers, in characters.
const TEXT: usize = 300;

/// A table that is being read. It remembers which keys were asked for: all others are unknown.
pub(super) struct Section<'a> {
    /// How messages call it: `[[stage]]`.
    pub(super) title: String,
    /// Its header; `None` for the whole file.
    at: Option<Range<usize>>,
    table: &'a DeTable<'a>,
    asked: Vec<&'static str>,
    /// Those of them that must be there: `docs/rig-file.md` is compared with it.
    #[cfg(test)]
    needed: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>) -> Section<'a> {
        Section::new("the file".into(), None, table)
    }

    fn new(title: String, at: Option<Range<usize>>, table: &'a DeTable<'a>) -> Section<'a> {
        Section {
            title,
            at,
            table,
            asked: Vec::new(),
            #[cfg(test)]
            needed: Vec::new(),
        }
    }

    /// Where its header stands.
    pub(super) fn span(&self) -> Range<usize> {
        self.at.clone().unwrap_or(0..0)
    }

    /// A problem of the section as a whole.
    pub(super) fn say(&self, sink: &mut Sink<'_>, message: impl Into<String>, remedy: impl Into<String>) {
        match &self.at {
            Some(at) => sink.say(at.clone(), message, remedy),
            None => sink.say_whole(message, remedy),
        }
    }

    /// The value of `key`, if there is one.
    pub(super) fn get(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.asked.push(key);
        let item = self.table.get(key)?;
        Some(Field { name: key.into(), item })
    }

    /// The value of `key`, which must be there; the remedy says what to write.
    pub(super) fn need(&mut self, sink: &mut Sink<'_>, key: &'static str, remedy: &str) -> Option<Field<'a>> {
        #[cfg(test)]
        self.needed.push(key);
        self.need_here(sink, key, remedy)
    }

    /// The value of `key`, which must be there because of what else the section says; the remedy says what to write.
    pub(super) fn need_here(&mut self, sink: &mut Sink<'_>, key: &'static str, remedy: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() {
            self.say(sink, format!("`{key}` is missing in {}", self.title), remedy);
        }
        field
    }

    /// The sections written `[[key]]`, at most `max`.
    pub(super) fn tables(&mut self, sink: &mut Sink<'_>, key: &'static str, max: usize) -> Vec<Section<'a>> {
        let Some(field) = self.get(key) else { return Vec::new() };
        let title = format!("[[{key}]]");
        let items = match field.item.get_ref() {
            DeValue::Array(items) => items,
            _ => {
                sink.say(field.span(), format!("`{key}` must be a list of sections"), format!("write {title}"));
                return Vec::new();
            }
        };
        if items.len() > max {
            sink.say(field.span(), format!("there are {} {title}, more than {max}", items.len()), "keep fewer of them");
        }
        let mut sections = Vec::new();
        for item in items.iter().take(max) {
            let one = Field { name: title.clone(), item };
            sections.extend(one.section(sink, title.clone()));
        }
        sections
    }

    /// All keys with their values in the file's order, for tables whose keys are names.
    pub(super) fn entries(&self) -> Vec<(Range<usize>, Field<'a>)> {
        let mut all: Vec<_> =
            self.table.iter().map(|(k, item)| (k.span(), Field { name: k.get_ref().to_string(), item })).collect();
        all.sort_by_key(|(span, _)| span.start);
        all
    }

    /// Reports the keys that nobody asked for. `future` names keys that a later version will know.
    pub(super) fn finish(self, sink: &mut Sink<'_>, future: &[&str]) {
        #[cfg(test)]
        super::reference::note(&self.title, &self.asked, &self.needed);
        for (span, field) in self.entries() {
            let key = field.name.as_str();
            if sink.is_full() {
                return;
            }
            if self.asked.contains(&key) {
                continue;
            }
            if future.contains(&key) {
                let remedy = "remove it; this version would not act on it, and a rule that is ignored protects nothing";
                sink.say(span, format!("`{key}` in {} is not available in this version", self.title), remedy);
                continue;
            }
            let remedy = match nearest(key, self.asked.iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None if self.asked.is_empty() => "remove it".into(),
                None => format!("remove it; known here: {}", self.asked.join(", ")),
            };
            sink.say(span, format!("unknown key {} in {}", quoted(key), self.title), remedy);
        }
    }
}

/// One value under its key.
pub(super) struct Field<'a> {
    /// The key.
    pub(super) name: String,
    pub(super) item: &'a Item<'a>,
}

impl<'a> Field<'a> {
    /// Where the value stands.
    pub(super) fn span(&self) -> Range<usize> {
        self.item.span()
    }

    /// Reports the value; always `None`.
    pub(super) fn bad<T>(
        &self,
        sink: &mut Sink<'_>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Option<T> {
        sink.say(self.span(), message, remedy);
        None
    }

    /// Reports a value of another kind than is wanted; always `None`.
    pub(super) fn wrong_type<T>(&self, sink: &mut Sink<'_>, wanted: &str, remedy: &str) -> Option<T> {
        let message = format!("`{}` must be {wanted}, not {}", self.name, kind(self.item.get_ref()));
        self.bad(sink, message, remedy)
    }

    /// A string, whatever is in it.
    pub(super) fn string(&self, sink: &mut Sink<'_>) -> Option<&'a str> {
        match self.item.get_ref() {
            DeValue::String(text) => Some(text),
            _ => self.wrong_type(sink, "text", "write it in quotes"),
        }
    }

    /// A line of text for people or for a device: not empty, no control characters, not too long.
    pub(super) fn line(&self, sink: &mut Sink<'_>) -> Option<&'a str> {
        let text = self.string(sink)?;
        if text.trim().is_empty() {
            return self.bad(sink, format!("`{}` is empty", self.name), "write some text or remove the key");
        }
        if text.chars().any(char::is_control) {
            let message = format!("`{}` has a line break or another control character in it", self.name);
            return self.bad(sink, message, "write it on one line");
        }
        if text.chars().count() > TEXT {
            let message = format!("`{}` is longer than {TEXT} characters", self.name);
            return self.bad(sink, message, "shorten it; it is repeated in answers");
        }
        Some(text)
    }

    /// The name of a device or link.
    pub(super) fn id(&self, sink: &mut Sink<'_>) -> Option<Name> {
        let text = self.string(sink)?;
        if Name::is_valid(text) {
            return Some(Name::new(text));
        }
        let lower: String = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-");
        let remedy = "use only a-z, 0-9, _ and -, at most 32 characters";
        let remedy = if Name::is_valid(&lower) { format!("{remedy}: {lower:?}") } else { remedy.into() };
        self.bad(sink, format!("`{}` = {} is not a name", self.name, quoted(text)), remedy)
    }

    /// A finite number.
    pub(super) fn number(&self, sink: &mut Sink<'_>) -> Option<f64> {
        let value = match self.item.get_ref() {
            DeValue::Integer(i) => i128::from_str_radix(&i.as_str().replace('_', ""), i.radix()).ok().map(|i| i as f64),
            DeValue::Float(f) => f.as_str().replace('_', "").parse::<f64>().ok(),
            _ => return self.wrong_type(sink, "a number", "write it like 12.5, without quotes and unit"),
        };
        match value {
            Some(v) if v.is_finite() => Some(v),
            Some(_) => self.bad(
                sink,
                format!("`{}` is not a finite number", self.name),
                "write a number; nan and inf are none",
            ),
            None => self.bad(sink, format!("`{}` is too large for a number", self.name), "write a smaller number"),
        }
    }

    /// A number within a range, ends included.
    pub(super) fn number_in(&self, sink: &mut Sink<'_>, range: RangeInclusive<f64>, unit: &str) -> Option<f64> {
        let v = self.number(sink)?;
        if *range.start() <= v && v <= *range.end() {
            return Some(v);
        }
        let show = crate::units::plain;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let message = format!("`{}` = {}{unit} is out of range", self.name, written(v));
        let remedy = format!("write a value from {} to {}{unit}", show(*range.start()), show(*range.end()));
        self.bad(sink, message, remedy)
    }

    /// A whole number within a range, ends included; a whole float is good too.
    pub(super) fn whole(&self, sink: &mut Sink<'_>, range: RangeInclusive<u32>, unit: &str) -> Option<u32> {
        let v = self.number_in(sink, f64::from(*range.start())..=f64::from(*range.end()), unit)?;
        if v.fract() != 0.0 {
            let message = format!("`{}` = {} is not a whole number", self.name, written(v));
            return self.bad(sink, message, "write a whole number");
        }
        Some(v as u32)
    }

    /// A time in seconds.
    pub(super) fn seconds(&self, sink: &mut Sink<'_>, range: RangeInclusive<f64>) -> Option<Duration> {
        self.number_in(sink, range, "s").map(Duration::from_secs_f64)
    }

    /// A time in milliseconds.
    pub(super) fn millis(&self, sink: &mut Sink<'_>, range: RangeInclusive<f64>) -> Option<Duration> {
        self.number_in(sink, range, "ms").map(|ms| Duration::from_secs_f64(ms / 1000.0))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, sink: &mut Sink<'_>) -> Option<bool> {
        match self.item.get_ref() {
            DeValue::Boolean(b) => Some(*b),
            _ => self.wrong_type(sink, "true or false", "write true or false, without quotes"),
        }
    }

    /// One of some words.
    pub(super) fn one_of<T: Clone>(&self, sink: &mut Sink<'_>, words: &[(&str, T)]) -> Option<T> {
        let text = self.string(sink)?;
        if let Some((_, value)) = words.iter().find(|(w, _)| *w == text) {
            return Some(value.clone());
        }
        let message = format!("`{}` can't be {}", self.name, quoted(text));
        self.bad(sink, message, choice(text, words.iter().map(|(w, _)| *w)))
    }

    /// A list of at most `max` values; each is called by the list's own name.
    pub(super) fn list(&self, sink: &mut Sink<'_>, max: usize) -> Option<Vec<Field<'a>>> {
        let DeValue::Array(items) = self.item.get_ref() else {
            return self.wrong_type(sink, "a list", "write it in brackets, with commas between: [a, b]");
        };
        if items.len() > max {
            return self.bad(sink, format!("`{}` has more than {max} entries", self.name), "write fewer");
        }
        Some(items.iter().map(|item| Field { name: self.name.clone(), item }).collect())
    }

    /// A table, called `title` in messages.
    pub(super) fn section(&self, sink: &mut Sink<'_>, title: String) -> Option<Section<'a>> {
        match self.item.get_ref() {
            DeValue::Table(table) => Some(Section::new(title, Some(self.span()), table)),
            _ => self.wrong_type(sink, "a table", "write it in braces: { key = value }, or as a section of its own"),
        }
    }

    /// Whether the value is a string.
    pub(super) fn is_string(&self) -> bool {
        matches!(self.item.get_ref(), DeValue::String(_))
    }

    /// Whether the value is a table.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.item.get_ref(), DeValue::Table(_))
    }
}

/// A number as messages repeat it: small and huge ones keep their exponent, so that they can be recognised.
pub(super) fn written(v: f64) -> String {
    if v != 0.0 && !(1e-6..1e15).contains(&v.abs()) { format!("{v:e}") } else { crate::units::plain(v) }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The remedy for a word that is none of `words`.
pub(super) fn choice<'w>(wrong: &str, words: impl Iterator<Item = &'w str> + Clone) -> String {
    let mut all: Vec<String> = Vec::new();
    for word in words.clone().map(|w| format!("{w:?}")) {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    match nearest(wrong, words) {
        Some(word) => format!("did you mean {word:?}? Known: {}", all.join(", ")),
        None if all.len() == 1 => format!("write {}", all[0]),
        None => format!("write one of {}", all.join(", ")),
    }
}

/// The word that was probably meant, if one is near enough or only longer.
pub(crate) fn nearest<'w>(wrong: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    if wrong.len() > 64 {
        return None;
    }
    let wrong: Vec<char> = wrong.to_lowercase().chars().collect();
    let allowed = (wrong.len() / 3).max(1);
    let distance = |word: &str| {
        let word: Vec<char> = word.chars().collect();
        let longer = wrong.len() >= 4 && word.starts_with(&wrong);
        let d = if longer { 1 } else { distance(&wrong, &word) };
        (d <= allowed && d < word.len()).then_some(d)
    };
    words.filter_map(|w| Some((distance(w)?, w))).min().map(|(_, w)| w)
}

/// How many letters must be put in, taken out, exchanged or swapped with their neighbour to make one word of
/// the other (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let exchanged = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut d = exchanged.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(before[j - 2] + 1);
            }
            row.push(d);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let words = ["tolerance", "travel", "trust", "max_speed_per_s", "x"];
        for (wrong, meant) in [
            ("tolerence", Some("tolerance")),
            ("Travel", Some("travel")),
            ("rtust", Some("trust")),
            ("max_speed", Some("max_speed_per_s")),
            ("y", None),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, words.into_iter()), meant, "{wrong}");
        }
    }
}
