//! Go's `%q`, in which error texts quote what a client sent.

use std::fmt::Write as _;

/// `strconv.Quote`.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            printable if is_printable(printable) => quoted.push(printable),
            other => escape(&mut quoted, other as u32),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(quoted: &mut String, code: u32) {
    // Writing to a String does not fail.
    let _ = match code {
        ..0x20 | 0x7f => write!(quoted, "\\x{code:02x}"),
        ..0x1_0000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

/// `strconv.IsPrint`, but for unassigned characters: of blanks it prints only the ASCII one, of format characters none.
fn is_printable(character: char) -> bool {
    let format = matches!(character as u32,
        0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f
        | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0xe0000..=0xe007f | 0xf0000..=0x10_ffff);
    character == ' ' || !(character.is_control() || character.is_whitespace() || format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        let table = [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a\"\\", r#""a\"\\""#),
            ("\n\t\x00\x7f", r#""\n\t\x00\x7f""#),
            ("äß€😀", r#""äß€😀""#),
            ("\u{a0}\u{85}\u{feff}\u{200b}\u{10ffff}", r#""\u00a0\u0085\ufeff\u200b\U0010ffff""#),
        ];
        for (text, quoted) in table {
            assert_eq!(quote(text), quoted);
        }
    }
}
