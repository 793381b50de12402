//! The controller is asked for each letter of the alphabet: which is an axis, and does it count in tenths of a micrometre?

use super::{Answer, LONGEST, PER_MM, Question, answer};
use crate::devices::survey::Questions;

/// How often its version is asked for until it answers.
const TRIES: u32 = 3;

/// What is asked now; letters by their place in the alphabet.
#[derive(Clone, Copy)]
enum At {
    Version,
    Where(usize),
    Scale(usize),
}

/// Which letters are axes.
pub(in crate::devices) struct Roll {
    line: Vec<u8>,
    at: At,
    /// How often that was asked.
    asked: u32,
    found: Vec<char>,
}

impl Default for Roll {
    fn default() -> Roll {
        Roll { line: Vec::new(), at: At::Version, asked: 0, found: Vec::new() }
    }
}

fn letter(index: usize) -> Option<char> {
    ('A'..='Z').nth(index)
}

impl Roll {
    /// Takes a line; whether it answers what was asked.
    fn heard(&mut self, line: &str) -> bool {
        let (question, name) = match self.at {
            At::Version => (Question::Version, ' '),
            At::Where(i) => (Question::Value("W", i), letter(i).unwrap_or(' ')),
            At::Scale(i) => (Question::Setting("UM", i), letter(i).unwrap_or(' ')),
        };
        let Some(answer) = answer(line, question, name).filter(|_| self.asked > 0) else { return false };
        let next = match (self.at, answer) {
            // A refusal of the version says as little as silence.
            (At::Version, Answer::Text(_)) => At::Where(0),
            (At::Version, _) => return false,
            (At::Where(i), Answer::Number(_)) => At::Scale(i),
            (At::Where(i), _) => At::Where(i + 1),
            (At::Scale(i), answer) => {
                // The driver moves no others. Firmware that does not tell counts so.
                let fits = !matches!(answer, Answer::Number(per_mm) if per_mm != PER_MM);
                self.found.extend(letter(i).filter(|_| fits));
                At::Where(i + 1)
            }
        };
        (self.at, self.asked) = (next, 0);
        true
    }
}

impl Questions for Roll {
    fn next(&mut self) -> Option<Vec<u8>> {
        if let (At::Where(i) | At::Scale(i), 1..) = (self.at, self.asked) {
            // No answer: the next letter.
            (self.at, self.asked) = (At::Where(i + 1), 0);
        }
        self.asked += 1;
        let question = match self.at {
            At::Version if self.asked > TRIES => return None,
            // What stands in its buffer from others ends before the first question.
            At::Version if self.asked == 1 => "\rV\r".to_owned(),
            At::Version => "V\r".to_owned(),
            At::Where(i) => format!("W {}\r", letter(i)?),
            At::Scale(i) => format!("UM {}?\r", letter(i)?),
        };
        Some(question.into_bytes())
    }

    fn hear(&mut self, bytes: &[u8]) -> bool {
        let mut answered = false;
        for byte in bytes {
            if !matches!(byte, b'\r' | b'\n') {
                self.line.extend((self.line.len() < LONGEST).then_some(byte));
            } else if !self.line.is_empty() {
                let line = std::mem::take(&mut self.line);
                answered |= !answered && self.heard(&String::from_utf8_lossy(&line));
            }
        }
        answered
    }

    fn found(&self) -> Vec<String> {
        self.found.iter().map(char::to_string).collect()
    }
}
