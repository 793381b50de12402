//! From the characters of a line to its G-code words.

/// One letter with its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Word {
    pub(super) letter: u8,
    pub(super) value: f64,
}

/// What the firmware keeps of a line: no blanks, no comments, capitals.
pub(super) fn tidy(raw: &[u8]) -> String {
    let mut out = String::new();
    let mut parenthesis = false;
    for byte in raw {
        match byte {
            b'(' => parenthesis = true,
            b')' if parenthesis => parenthesis = false,
            b';' if !parenthesis => break,
            _ if parenthesis => {}
            b'/' | 0..=b' ' => {}
            _ => out.push(char::from(byte.to_ascii_uppercase())),
        }
    }
    out
}

/// Splits a tidy line into words.
///
/// # Errors
/// `error:1` where a letter is missing, `error:2` where a number is.
pub(super) fn words(line: &str) -> Result<Vec<Word>, u8> {
    let bytes = line.as_bytes();
    let mut at = 0;
    let mut out = Vec::new();
    while at < bytes.len() {
        let letter = bytes[at];
        if !letter.is_ascii_uppercase() {
            return Err(1);
        }
        let (value, next) = number(bytes, at + 1).ok_or(2)?;
        out.push(Word { letter, value });
        at = next;
    }
    Ok(out)
}

/// Reads digits with an optional sign and point; there is no exponent in this language.
pub(super) fn number(bytes: &[u8], start: usize) -> Option<(f64, usize)> {
    let mut at = start;
    let negative = match bytes.get(at) {
        Some(b'-') => {
            at += 1;
            true
        }
        Some(b'+') => {
            at += 1;
            false
        }
        _ => false,
    };
    let from = at;
    let mut digits = 0;
    let mut point = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'.' if !point => point = true,
            _ => break,
        }
        at += 1;
    }
    if digits == 0 {
        return None;
    }
    let text = std::str::from_utf8(&bytes[from..at]).ok()?;
    let value: f64 = text.parse().ok()?;
    Some((if negative { -value } else { value }, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_case_vanish() {
        assert_eq!(tidy(b" g1 (to the edge) x-1.5 ; done"), "G1X-1.5");
        assert_eq!(tidy(b"/G0 X9"), "G0X9");
    }

    #[test]
    fn words_need_a_letter_and_a_number() {
        assert_eq!(words("0X-1"), Err(1));
        assert_eq!(words("GX1"), Err(2));
        assert_eq!(words("G1X.5").map(|w| w.len()), Ok(2));
    }

    #[test]
    fn an_exponent_is_another_word() {
        assert_eq!(words("X2.1E+06").map(|w| w[1].letter), Ok(b'E'));
    }
}
