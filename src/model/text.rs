//! Text from outside as a person may be shown it.

/// Whether a terminal or a page would obey a character instead of showing it: control characters, and marks that turn
/// the direction of text or can't be seen.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with what would be obeyed written out, line ends apart: a client's name or a reason can't rewrite the
/// screen on which a person decides.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_obeyed(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(harmless("move x\nto 3 µm — naïve"), "move x\nto 3 µm — naïve");
        assert_eq!(harmless("\u{1b}[2Jgone\r"), "\\u{1b}[2Jgone\\u{d}");
        assert_eq!(
            harmless("a\u{202e}b\u{2066}c\u{200b}d\u{9b}e\u{e0041}"),
            "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{9b}e\\u{e0041}"
        );
    }
}
