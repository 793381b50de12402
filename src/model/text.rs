//! Text from outside as a person may be shown it.

use super::is_unfit_to_show;

/// The text with what would be obeyed written out, line ends apart: a client's name or a reason can't rewrite the
/// screen on which a person decides.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_unfit_to_show(c) {
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
        assert_eq!(harmless("a\u{202e}b\u{2066}c\u{200b}d\u{9b}e"), "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{9b}e");
    }
}
