//! The lines of a source, and its errors as cel-go prints them.

/// The number of errors that are reported; further errors are only counted (`maxErrorsToReport` of cel-go).
const MAX_ERRORS: usize = 100;
/// The bytes of the longest source line that an error repeats (`maxSnippetLength` of cel-go).
const MAX_SNIPPET: usize = 16384;

/// The reason why a source does not compile, with cel-go's text: all lines, with positions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

/// A position in a source: a line from 1 and a column from 0, in code points.
pub(crate) type Position = (usize, usize);

/// Converts positions in a source.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    characters: Vec<char>,
    /// The byte offset of each code point; empty if all code points have one byte.
    bytes: Vec<usize>,
    /// The code point at which each line begins.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Indexes the lines of a text.
    pub(crate) fn new(text: &'a str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let ends = characters.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(offset, _)| offset + 1);
        let bytes = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(byte, _)| byte).collect() };
        let lines = std::iter::once(0).chain(ends).collect();
        Self { text, characters, bytes, lines }
    }

    /// The position of a code point.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        (line, offset - self.lines.get(line - 1).copied().unwrap_or_default())
    }

    /// The index of the code point that contains a byte.
    pub(crate) fn code_point(&self, byte: usize) -> usize {
        if self.bytes.is_empty() { byte } else { self.bytes.partition_point(|begin| *begin <= byte).saturating_sub(1) }
    }

    /// The index of the code point at a position.
    pub(crate) fn offset(&self, (line, column): Position) -> usize {
        self.lines.get(line.saturating_sub(1)).map_or(0, |start| start + column)
    }

    /// The code points.
    pub(crate) fn characters(&self) -> &[char] {
        &self.characters
    }

    fn line(&self, number: usize) -> Option<&'a str> {
        self.text.split('\n').nth(number.checked_sub(1)?)
    }
}

/// Collects the errors in a source.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    found: Vec<(Option<Position>, String)>,
}

impl Errors {
    /// Adds an error at a position; `None` is cel-go's `NoLocation`.
    pub(crate) fn add(&mut self, position: Option<Position>, message: impl Into<String>) {
        self.found.push((position, message.into()));
    }

    /// Whether there are no errors.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// # Errors
    /// If there are errors, with all of them in the order of their positions, each with its line.
    pub(crate) fn into_result(mut self, text: &str) -> Result<(), CompileError> {
        if self.found.is_empty() {
            return Ok(());
        }
        let source = Source::new(text);
        let rest = self.found.len().saturating_sub(MAX_ERRORS);
        self.found.truncate(MAX_ERRORS);
        self.found.sort_by_key(|(position, _)| *position);
        let mut lines: Vec<String> =
            self.found.iter().map(|(position, message)| display(&source, *position, message)).collect();
        if rest > 0 {
            lines.push(format!("{rest} more errors were truncated"));
        }
        Err(CompileError(lines.join("\n")))
    }
}

fn display(source: &Source<'_>, position: Option<Position>, message: &str) -> String {
    let Some((line, column)) = position else {
        return format!("ERROR: <input>:-1:0: {message}");
    };
    if source.text.is_empty() {
        // cel-go prints an error without a location before the first column.
        return format!("ERROR: <input>:1:0: {message}");
    }
    let mut text = format!("ERROR: <input>:{line}:{}: {message}", column + 1);
    let Some(snippet) = source.line(line).filter(|line| line.len() <= MAX_SNIPPET) else { return text };
    text.push_str("\n | ");
    text.push_str(&snippet.replace('\t', " "));
    text.push_str("\n | ");
    let mut rest = snippet.chars();
    text.extend(rest.by_ref().take(column).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }));
    text.push(if rest.next().is_some_and(|c| !c.is_ascii()) { '\u{ff3e}' } else { '^' });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_the_line_and_the_place() {
        let mut errors = Errors::default();
        errors.add(Some((2, 2)), "later");
        errors.add(Some((1, 1)), "earlier");
        errors.add(None, "nowhere");
        let text = errors.into_result("'é'\n\tb + c").unwrap_err().0;
        let expected = "ERROR: <input>:-1:0: nowhere\nERROR: <input>:1:2: earlier\n | 'é'\n | .＾\nERROR: <input>:2:3: later\n |  b + c\n | ..^";
        assert_eq!(text, expected);
    }

    #[test]
    fn places_are_counted_in_code_points() {
        let source = Source::new("é\nab");
        assert_eq!((source.code_point(0), source.code_point(2), source.code_point(4)), (0, 1, 3));
        assert_eq!((source.position(0), source.position(3), source.offset((2, 1))), ((1, 0), (2, 1), 3));
    }
}
