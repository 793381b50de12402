//! The condition of a rule: a bounded part of CEL, checked for names and types before it may judge anything.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cel::common::ast::SourceInfo;
use cel::common::types::{CelBool, CelDouble, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::parser::Parser;
use cel::{Context, Env, IdedExpr};

use super::vocabulary::{Variable, Vocabulary, Word};

mod check;

/// The longest condition, in bytes.
pub(super) const LONGEST: usize = 1000;
/// The deepest nesting of brackets, signs and choices.
const DEEPEST: usize = 16;
/// The parser's stack.
const STACK: usize = 8 << 20;

/// What a word of a condition can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A number, in the unit that the word has.
    Number,
    /// One of some texts.
    Text,
    /// True or false.
    Flag,
}

/// What a word of a condition stands for at a moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A text.
    Text(Arc<str>),
    /// True or false.
    Flag(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(v) => f.write_str(&crate::units::plain(*v)),
            Value::Text(text) => write!(f, "'{text}'"),
            Value::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// A word that a condition reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Reads {
    /// As the condition writes it: `stage.sample.x`.
    pub name: String,
    /// What it means.
    pub variable: Variable,
    /// The unit of a number; empty for others.
    pub unit: String,
}

/// A condition that has been checked: every name exists, every comparison fits, and it answers true or false.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    expression: IdedExpr,
    reads: Vec<Reads>,
}

/// What is wrong with a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Which bytes of it.
    pub at: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub remedy: String,
    /// Whether it is a name that the rig doesn't have.
    pub unknown: bool,
}

impl Condition {
    /// Reads a condition in the words of a rig.
    ///
    /// # Errors
    /// The first flaw: it is too long or nested too deeply, no CEL, uses what rules don't need (calls, lists outside
    /// of `in`, maps), a name that the rig doesn't have, values that can't be compared, or doesn't answer true or
    /// false.
    pub fn compile(text: &str, vocabulary: &Vocabulary) -> Result<Condition, Flaw> {
        bounded(text)?;
        let (mut expression, source) = parse(text)?;
        let reads = check::check(&mut expression, text, &source, vocabulary)?;
        Ok(Condition { text: text.to_owned(), expression, reads })
    }

    /// As the rig file writes it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The words that it reads, each once.
    pub fn reads(&self) -> &[Reads] {
        &self.reads
    }

    /// Whether it holds for these values of [`Condition::reads`], in that order. A value that isn't known may be
    /// missing: `closed || slow` holds when either is known to.
    ///
    /// # Errors
    /// The answer hangs on a value that isn't known.
    pub fn holds(&self, values: &[Option<Value>]) -> Result<bool, Undecided> {
        let known = Known { reads: &self.reads, values };
        let mut context = Context::with_env(environment());
        context.add_function("abs", |v: f64| v.abs()).map_err(|_| Undecided)?;
        context.set_variable_resolver(&known);
        match cel::Value::resolve(&self.expression, &context) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            _ => Err(Undecided),
        }
    }
}

/// Parses on a thread with room enough for the deepest text that [`bounded`] lets through: the parser goes down a dozen
/// levels of grammar for each bracket, and who reads a rig file may have little of its stack left.
fn parse(text: &str) -> Result<(IdedExpr, SourceInfo), Flaw> {
    let work = || {
        let parser = Parser::new().max_recursion_depth(96).error_recovery_limit(1);
        parser.parse_with_source_info(text).map_err(|errors| syntax(text, &errors))
    };
    let failed = || flaw(0..text.len(), "this can't be read as a condition", "write it more simply");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("rule parser".into()).stack_size(STACK).spawn_scoped(scope, work);
        // A panic of the parser is a flaw of the text, not of the program.
        thread.map_or_else(|_| failed(), |t| t.join().unwrap_or_else(|_| failed()))
    })
}

/// The answer of a condition hangs on a value that isn't known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecided;

fn environment() -> Arc<Env> {
    static ENV: OnceLock<Arc<Env>> = OnceLock::new();
    ENV.get_or_init(|| Arc::new(Env::stdlib())).clone()
}

/// The values of a moment, by name.
struct Known<'a> {
    reads: &'a [Reads],
    values: &'a [Option<Value>],
}

impl VariableResolver for Known<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let index = self.reads.iter().position(|r| r.name == variable)?;
        Some(match self.values.get(index)?.as_ref()? {
            Value::Number(v) => CowVal::owned(CelDouble::from(*v)),
            Value::Text(text) => CowVal::owned(CelString::from(&**text)),
            Value::Flag(flag) => CowVal::owned(CelBool::from(*flag)),
        })
    }
}

/// What bounds the parser's work, before it begins: a rig file may be hostile or an accident.
fn bounded(text: &str) -> Result<(), Flaw> {
    if text.len() > LONGEST {
        let message = format!("a condition has at most {LONGEST} bytes, not {}", text.len());
        return flaw(0..text.len(), message, "make several rules of it");
    }
    if let Some((at, c)) =
        text.char_indices().find(|(_, c)| !c.is_ascii() || (c.is_control() && !"\n\r\t".contains(*c)))
    {
        let message = format!("{c:?} has no place in a condition");
        return flaw(at..at + c.len_utf8(), message, "write plain letters, digits and signs");
    }
    let (mut depth, mut quote, mut signs) = (0_usize, None, 0_usize);
    for (at, c) in text.char_indices() {
        if c == '\\' || text[at..].starts_with("'''") || text[at..].starts_with("\"\"\"") {
            return flaw(at..at + 1, format!("{c:?} has no place here in a condition"), "write texts as plain 'words'");
        }
        if let Some(open) = quote {
            // A text ends with its line, whether it is closed or not.
            quote = if c == open || c == '\n' { None } else { quote };
            continue;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            // A choice opens a level that nothing closes.
            '(' | '[' | '{' | '?' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '`' | '#' | '/' if c != '/' || text[at..].starts_with("//") => {
                return flaw(at..at + 1, format!("{c:?} has no place in a condition"), "remove it");
            }
            _ => {}
        }
        signs = match c {
            '!' | '-' => signs + 1,
            c if c.is_whitespace() => signs,
            _ => 0,
        };
        if depth > DEEPEST || signs > DEEPEST {
            let message = format!("this is nested more than {DEEPEST} deep");
            return flaw(at..at + 1, message, "make several rules of it");
        }
    }
    Ok(())
}

fn flaw<T>(at: Range<usize>, message: impl Into<String>, remedy: impl Into<String>) -> Result<T, Flaw> {
    Err(Flaw { at, message: message.into(), remedy: remedy.into(), unknown: false })
}

/// The parser's first complaint, with its line and column made an offset.
fn syntax(text: &str, errors: &cel::ParseErrors) -> Flaw {
    let remedy = "conditions are written like stage.sample.x < 10.0 && output.shutter == 'closed'";
    let Some(first) = errors.errors.first() else {
        return Flaw {
            at: 0..text.len(),
            message: "this is no condition".into(),
            remedy: remedy.into(),
            unknown: false,
        };
    };
    let (line, column) = (usize::try_from(first.pos.0).unwrap_or(1), usize::try_from(first.pos.1).unwrap_or(1));
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let at = (before + column.saturating_sub(1)).min(text.len());
    // The parser lists all that could come next, which helps nobody.
    let said = first.msg.lines().next().unwrap_or_default();
    let said = said.split(" expecting ").next().unwrap_or(said).trim_start_matches("Syntax error: ");
    let message = format!("this is no condition: {}", said.chars().take(120).collect::<String>());
    Flaw { at: at..(at + 1).min(text.len()).max(at), message, remedy: remedy.into(), unknown: false }
}

#[cfg(test)]
mod tests;
