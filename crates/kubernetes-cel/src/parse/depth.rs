//! The nesting of cel-go's grammar rules in a source. The parser of the `cel` crate counts expressions, cel-go's counts each rule
//! (`recursionListener`): the right operand of an operator is one more `calc` or `relation`.

use super::places::{before, name_length, string_length};

/// An open part: between two brackets, or the whole text.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Whether the right operand of `+` or `-` is being read; likewise of `*`, `/` or `%`, and of a relation.
    sum: bool,
    product: bool,
    relation: bool,
}

impl Open {
    fn calcs(self) -> usize {
        1 + usize::from(self.sum) + usize::from(self.product)
    }

    fn relations(self) -> usize {
        1 + usize::from(self.relation)
    }
}

/// Whether a rule nests deeper than `limit`.
pub(super) fn exceeds(text: &[char], limit: usize) -> bool {
    let mut around: Vec<Open> = Vec::new();
    // The number of rules around the open part.
    let (mut calcs, mut relations) = (0, 0);
    let mut open = Open::default();
    // Whether the last token can be the left operand of an operator, and the token's first character.
    let (mut is_operand, mut last) = (false, ' ');
    let mut at = 0;
    while let Some(rest @ [c, after @ ..]) = text.get(at..) {
        let (c, next) = (*c, after.first().copied().unwrap_or(' '));
        let mut length = 1;
        match c {
            _ if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '/' if next == '/' => {
                at += rest.iter().take_while(|c| **c != '\n').count();
                continue;
            }
            '\'' | '"' => {
                length = string_length(rest, before(text, at));
                is_operand = true;
            }
            '`' => {
                length = name_length(rest);
                is_operand = true;
            }
            '0'..='9' => {
                length = number_length(rest);
                is_operand = true;
            }
            _ if c.is_alphanumeric() || c == '_' => {
                length = rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
                is_operand = last == '.' || rest.get(..length) != Some(&['i', 'n']);
                if !is_operand {
                    open = Open { relation: true, ..Open::default() };
                }
            }
            '(' | '[' | '{' => {
                (calcs, relations) = (calcs + open.calcs(), relations + open.relations());
                around.push(std::mem::take(&mut open));
                is_operand = false;
            }
            ')' | ']' | '}' => {
                if let Some(outer) = around.pop() {
                    open = outer;
                    (calcs, relations) = (calcs - open.calcs(), relations - open.relations());
                }
                is_operand = true;
            }
            '+' | '-' if is_operand => {
                open = Open { sum: true, product: false, ..open };
                is_operand = false;
            }
            '*' | '/' | '%' => {
                open.product = true;
                is_operand = false;
            }
            '<' | '>' | '=' | '!' if c != '!' || next == '=' => {
                length = if next == '=' { 2 } else { 1 };
                open = Open { relation: true, ..Open::default() };
                is_operand = false;
            }
            '&' | '|' | ',' | ':' => (open, is_operand) = (Open::default(), false),
            '?' if last != '.' => (open, is_operand) = (Open::default(), false),
            _ => {}
        }
        if calcs + open.calcs() > limit || relations + open.relations() > limit {
            return true;
        }
        last = c;
        at += length;
    }
    false
}

/// The number of code points of the number at the start of the text.
fn number_length(text: &[char]) -> usize {
    let mut before = ' ';
    let is_hexadecimal = matches!(text, ['0', 'x' | 'X', ..]);
    let within = |c: &&char| {
        let is_sign = matches!(**c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hexadecimal;
        let is_inner = c.is_alphanumeric() || **c == '.' || is_sign;
        before = **c;
        is_inner
    };
    text.iter().take_while(within).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `limit` is the number of repetitions from which kube-apiserver 1.36 reports that the recursion limit of 250 is exceeded.
    #[test]
    fn right_operands_count_as_in_cel_go() {
        for (before, inner, after, limit) in [
            ("1 + (", "1", ")", 125),
            ("true == (", "true", ")", 125),
            ("1 * (1 + (", "1", "))", 63),
            ("size([1 + ", "1", "])", 84),
            ("[1][1 - ", "1", "]", 125),
            ("1 + int(string(1 == 1 + (", "1", ")))", 50),
            ("1 + 1 + (", "1", ")", 125),
            ("1 + 1 * (", "1", ")", 84),
            ("1 == size([1] + [1 + (", "1", ")])", 50),
            ("int(1 + ", "1", ")", 125),
            ("{1: 1 + ", "1", "}", 125),
            ("'a(' + // (\n 1e-3 + (", "1", ")", 125),
        ] {
            let source = |times: usize| {
                let text = format!("{}{inner}{}", before.repeat(times), after.repeat(times));
                text.chars().collect::<Vec<_>>()
            };
            assert!(!exceeds(&source(limit - 1), 250), "{before}");
            assert!(exceeds(&source(limit), 250), "{before}");
        }
        for fine in
            ["(".repeat(248) + "-1" + &" + 1)".repeat(248), "1".to_owned() + &" + 1".repeat(1000), ")".repeat(9)]
        {
            assert!(!exceeds(&fine.chars().collect::<Vec<_>>(), 250), "{fine}");
        }
    }
}
