//! What is wrong with a rig file: where, what and how to mend it; for a terminal and for a tool's answer.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// The most problems that are kept of one file; whoever has mended so many will load it again.
const KEPT: usize = 200;
/// The most problems that [`Problems::render`] draws.
const DRAWN: usize = 50;
/// The most problems that [`Problems::render_plain`] lists, since a model reads them.
const LISTED: usize = 20;
/// The longest piece of a line that is drawn, in bytes.
const LINE: usize = 400;

/// Where in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Bytes of the text (without a byte order mark), for drawing.
    pub span: Range<usize>,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

/// One thing that is wrong with a rig file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Where; `None` when the file as a whole is meant (it is missing, or lacks a section).
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Problem {
    /// The line, from 1, if the problem has a place.
    pub fn line(&self) -> Option<usize> {
        self.place.as_ref().map(|p| p.line)
    }
}

impl fmt::Display for Problem {
    /// `rig.toml:12: what is wrong; what to do`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line() {
            Some(line) => write!(f, "{}:{line}: {}; {}", self.file.display(), self.message, self.remedy),
            None => write!(f, "{}: {}; {}", self.file.display(), self.message, self.remedy),
        }
    }
}

/// Everything that is wrong with a rig file, in the order of its lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The problems.
    pub list: Vec<Problem>,
    /// The file's text, for drawing; empty where it could not be read.
    text: String,
    /// The absolute path of a file that was read from disk, for those who may stand in another folder.
    path: Option<PathBuf>,
}

impl Problems {
    /// The single problem of a file that could not be read.
    pub(super) fn unreadable(file: &Path, message: impl Into<String>, remedy: impl Into<String>) -> Problems {
        let problem = Problem { file: file.to_owned(), place: None, message: message.into(), remedy: remedy.into() };
        Problems { list: vec![problem], text: String::new(), path: None }
    }

    /// The same, of a file on disk.
    pub(super) fn of_file(self, file: &Path) -> Problems {
        Problems { path: std::path::absolute(file).ok(), ..self }
    }

    /// Draws each problem with its line, the way a compiler does; `color` adds terminal colours.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let renderer = renderer.decor_style(DecorStyle::Ascii);
        let mut out = String::new();
        for problem in self.list.iter().take(DRAWN) {
            out += &renderer.render(&[self.drawing(problem)]);
            out += "\n\n";
        }
        let file = self.list.first().map(|p| p.file.display().to_string()).unwrap_or_default();
        out += &match self.list.len() {
            1 => format!("1 problem in {file}; nothing was opened"),
            n if n <= DRAWN => format!("{n} problems in {file}; nothing was opened"),
            n => format!("{n} problems in {file}, {DRAWN} of them shown; nothing was opened"),
        };
        out
    }

    /// One line a problem, for the text of a tool's error: `rig.toml:12: what is wrong; what to do`.
    pub fn render_plain(&self) -> String {
        let named = |p: &Problem| match &self.path {
            Some(path) => Problem { file: path.clone(), ..p.clone() }.to_string(),
            None => p.to_string(),
        };
        let mut lines: Vec<String> = self.list.iter().take(LISTED).map(named).collect();
        if self.list.len() > LISTED {
            lines.push(format!("and {} more problems", self.list.len() - LISTED));
        }
        lines.join("\n")
    }

    fn drawing<'a>(&'a self, problem: &'a Problem) -> Group<'a> {
        let title = Level::ERROR.primary_title(problem.message.as_str());
        let path = problem.file.display().to_string();
        let help = Level::HELP.message(problem.remedy.as_str());
        match &problem.place {
            Some(place) => {
                let (line, within) = self.line_around(&place.span);
                let snippet = Snippet::source(line).line_start(place.line).path(path);
                title.element(snippet.annotation(AnnotationKind::Primary.span(within))).element(help)
            }
            None => title.element(annotate_snippets::Origin::path(path)).element(help),
        }
    }

    /// The line in which `span` begins and the part of the span that lies in it.
    fn line_around(&self, span: &Range<usize>) -> (&str, Range<usize>) {
        let at = span.start.min(self.text.len());
        let head = self.text.get(..at).unwrap_or("");
        let start = head.rfind('\n').map_or(0, |i| i + 1);
        let line = self.text.get(start..).unwrap_or("").lines().next().unwrap_or("");
        let line = clipped(line, LINE.max(at - start + 1));
        let from = clipped(line, at - start).len();
        let to = clipped(line, span.end.saturating_sub(start)).len().max(from);
        (line, from..to)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render_plain())
    }
}

impl std::error::Error for Problems {}

/// The first bytes of `text`, at most `max` and whole characters.
fn clipped(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A word of the file as messages quote it: in quotes, escaped, not too long.
pub(crate) fn quoted(word: &str) -> String {
    let short = clipped(word, 60);
    if short.len() < word.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

/// Collects problems while a file is walked.
pub(crate) struct Sink<'a> {
    file: &'a Path,
    text: &'a str,
    /// The offset at which each line begins.
    lines: Vec<usize>,
    list: Vec<Problem>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Sink<'a> {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Sink { file, text, lines, list: Vec::new() }
    }

    /// A problem at bytes of the text.
    pub(crate) fn say(&mut self, span: Range<usize>, message: impl Into<String>, remedy: impl Into<String>) {
        let place = self.place(span);
        self.push(Some(place), message.into(), remedy.into());
    }

    /// A problem of the file as a whole.
    pub(crate) fn say_whole(&mut self, message: impl Into<String>, remedy: impl Into<String>) {
        self.push(None, message.into(), remedy.into());
    }

    /// The line of a span, from 1.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.lines.partition_point(|&start| start <= span.start)
    }

    /// The bytes of a span, as they stand in the file.
    pub(crate) fn text(&self, span: &Range<usize>) -> &'a str {
        self.text.get(span.clone()).unwrap_or("")
    }

    /// Whether more problems would not be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= KEPT
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The problems in the order of their lines.
    pub(crate) fn problems(mut self) -> Problems {
        self.list.sort_by_key(|p| p.place.as_ref().map_or(0, |at| at.span.start));
        Problems { list: self.list, text: self.text.to_owned(), path: None }
    }

    fn place(&self, span: Range<usize>) -> Place {
        let line = self.line(&span);
        let before = self.text.get(self.lines[line - 1]..span.start).unwrap_or("");
        Place { line, column: before.chars().count() + 1, span }
    }

    fn push(&mut self, place: Option<Place>, message: String, remedy: String) {
        if !self.is_full() {
            self.list.push(Problem { file: self.file.to_owned(), place, message, remedy });
        }
    }
}
