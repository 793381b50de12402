//! The terminal while `jog` has it: single keys, and lines that are written over. However this ends, it is put back.

use std::io::{self, Stdout, Write, stdout};

use crossterm::cursor::{Hide, MoveToColumn, MoveUp, Show};
use crossterm::queue;
use crossterm::style::Print;
use crossterm::terminal::{self, Clear, ClearType};

/// The terminal in raw mode. Dropping it, also by a panic, puts it back.
pub(super) struct Screen {
    out: Stdout,
    shown: Vec<String>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it can't be put into raw mode; it is then as it was.
    pub(super) fn open() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        let mut screen = Screen { out: stdout(), shown: Vec::new() };
        queue!(screen.out, Hide)?;
        screen.out.flush()?;
        Ok(screen)
    }

    /// Shows these lines in place of the last ones.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let width = terminal::size().ok().map(|(w, _)| usize::from(w)).filter(|w| *w > 0).unwrap_or(80).max(20) - 1;
        let lines: Vec<String> = lines.iter().flat_map(|l| folded(l, width)).collect();
        if lines == self.shown {
            return Ok(());
        }
        if let Ok(up @ 1..) = u16::try_from(self.shown.len()) {
            queue!(self.out, MoveUp(up))?;
        }
        for line in &lines {
            queue!(self.out, MoveToColumn(0), Clear(ClearType::UntilNewLine), Print(line), Print("\r\n"))?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.shown = lines;
        self.out.flush()
    }
}

/// A line in pieces that fit, so that the terminal itself never breaks one.
fn folded(line: &str, width: usize) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let pieces: Vec<String> = chars.chunks(width).map(|piece| piece.iter().collect()).collect();
    if pieces.is_empty() { vec![String::new()] } else { pieces }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = queue!(self.out, Show);
        let _ = self.out.flush();
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_folded_and_an_empty_one_stays() {
        assert_eq!(folded("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(folded("", 3), [""]);
        assert_eq!(folded("µµµµ", 2), ["µµ", "µµ"]);
    }
}
