//! Parses Go's syntax (`regexp/syntax.Parse` with the flags of Perl) into a tree of the `regex` crate.
//!
//! This parser does not recurse, and does not number groups, since no caller needs the submatches.

use super::{Error, MAX_HEIGHT, MAX_RANGES, class};
use regex_syntax::hir::{Capture, Class, ClassUnicode, Dot, Hir, HirKind, Look, Repetition};

pub(super) const INVALID_ESCAPE: &str = "invalid escape sequence";
pub(super) const TOO_LARGE: &str = "expression too large";
const INVALID_NAME: &str = "invalid named capture";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT: &str = "invalid nested repetition operator";
const INVALID_REPEAT_SIZE: &str = "invalid repeat count";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";
const UNEXPECTED_PAREN: &str = "unexpected )";
const TOO_DEEP: &str = "expression nests too deeply";

/// The number of repetitions, multiplied for nested ones.
const MAX_REPEAT: u32 = 1000;

/// Reads the pattern from left to right.
pub(super) struct Reader<'p> {
    rest: &'p str,
    /// The number of bytes after the last `:]`; all bytes if there is none.
    behind_names: usize,
}

impl<'p> Reader<'p> {
    fn new(pattern: &'p str) -> Self {
        Self { rest: pattern, behind_names: pattern.len() - pattern.rfind(":]").unwrap_or(0) }
    }

    /// Whether a `:]` may follow. Avoids a search to the end of the pattern for every `[:`.
    pub(super) fn may_have_name(&self) -> bool {
        self.rest.len() >= self.behind_names
    }

    pub(super) fn rest(&self) -> &'p str {
        self.rest
    }

    /// Advances by `bytes` bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.skip(character.len_utf8());
        Some(character)
    }

    /// Advances behind the token if it is next; otherwise returns false.
    pub(super) fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The text between an earlier position and the current one.
    pub(super) fn since(&self, start: &'p str) -> &'p str {
        start.get(..start.len() - self.rest.len()).unwrap_or(start)
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    folds: bool,
    multi_line: bool,
    dot_matches_newline: bool,
    non_greedy: bool,
}

struct Node {
    tree: Hir,
    /// The highest number of repetitions of the innermost part.
    repeats: u32,
    height: usize,
}

impl Node {
    fn leaf(tree: Hir) -> Self {
        Self { tree, repeats: 1, height: 1 }
    }

    fn of(parts: Vec<Self>, join: fn(Vec<Hir>) -> Hir) -> Self {
        let repeats = parts.iter().map(|part| part.repeats).max().unwrap_or(1);
        let height = parts.iter().map(|part| part.height).max().unwrap_or(0) + usize::from(parts.len() > 1);
        Self { tree: join(parts.into_iter().map(|part| part.tree).collect()), repeats, height }
    }
}

/// An open group; the first one is the whole pattern.
#[derive(Default)]
struct Group {
    /// The flags after the group.
    flags: Flags,
    alternatives: Vec<Node>,
    parts: Vec<Node>,
}

impl Group {
    fn next_alternative(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        self.alternatives.push(Node::of(parts, Hir::concat));
    }

    fn finished(mut self) -> Node {
        self.next_alternative();
        let mut node = Node::of(self.alternatives, Hir::alternation);
        node.height += 1;
        node
    }
}

pub(super) fn parse(pattern: &str) -> Result<Hir, Error> {
    let mut parser = Parser {
        pattern,
        reader: Reader::new(pattern),
        flags: Flags::default(),
        groups: vec![Group::default()],
        ranges: 0,
    };
    let mut last_repeat = None;
    while let Some(next) = parser.reader.rest().chars().next() {
        last_repeat = parser.step(next, last_repeat)?;
    }
    match parser.groups.pop() {
        Some(whole) if parser.groups.is_empty() => Ok(whole.finished().tree),
        _ => Err(Error::new(MISSING_PAREN, pattern)),
    }
}

struct Parser<'p> {
    pattern: &'p str,
    reader: Reader<'p>,
    flags: Flags,
    /// Never empty: a parenthesis that would close the last group is an error.
    groups: Vec<Group>,
    /// The number of character ranges so far.
    ranges: usize,
}

impl<'p> Parser<'p> {
    /// Parses one item. Returns the start of a repetition, which must not be followed by another one.
    fn step(&mut self, next: char, last_repeat: Option<&'p str>) -> Result<Option<&'p str>, Error> {
        let start = self.reader.rest();
        let repetition = match next {
            '*' => Some((0, None)),
            '+' => Some((1, None)),
            '?' => Some((0, Some(1))),
            '{' => counted(start),
            _ => None,
        };
        if let Some((from, to)) = repetition {
            self.reader.skip(if next == '{' { start.find('}').unwrap_or(0) + 1 } else { 1 });
            self.repeat(from, to, next == '{', start, last_repeat)?;
            return Ok(Some(start));
        }
        match next {
            '(' if start.starts_with("(?") => self.flags_or_group()?,
            '(' => {
                self.reader.skip(1);
                self.open()?;
            }
            '|' => {
                self.reader.skip(1);
                if let Some(group) = self.groups.last_mut() {
                    group.next_alternative();
                }
            }
            ')' => {
                self.reader.skip(1);
                self.close()?;
            }
            '[' => {
                let class = class::bracketed(&mut self.reader, self.flags.folds)?;
                self.class(class)?;
            }
            '\\' => self.backslash()?,
            character => {
                self.reader.skip(character.len_utf8());
                match character {
                    '^' if self.flags.multi_line => self.push(Hir::look(Look::StartLF)),
                    '^' => self.push(Hir::look(Look::Start)),
                    '$' if self.flags.multi_line => self.push(Hir::look(Look::EndLF)),
                    '$' => self.push(Hir::look(Look::End)),
                    '.' if self.flags.dot_matches_newline => self.push(Hir::dot(Dot::AnyChar)),
                    '.' => self.push(Hir::dot(Dot::AnyCharExceptLF)),
                    literal => self.literal(literal.into())?,
                }
            }
        }
        Ok(None)
    }

    fn push(&mut self, tree: Hir) {
        self.push_node(Node::leaf(tree));
    }

    fn push_node(&mut self, node: Node) {
        if let Some(group) = self.groups.last_mut() {
            group.parts.push(node);
        }
    }

    fn class(&mut self, class: ClassUnicode) -> Result<(), Error> {
        self.ranges += class.ranges().len();
        if self.ranges > MAX_RANGES {
            return Err(Error::new(TOO_LARGE, self.pattern));
        }
        self.push(Hir::class(Class::Unicode(class)));
        Ok(())
    }

    fn literal(&mut self, code: u32) -> Result<(), Error> {
        self.class(class::character(code, self.flags.folds))
    }

    /// `parser.repeat`; `start` is the position of the operator.
    fn repeat(
        &mut self,
        from: u32,
        to: Option<u32>,
        is_counted: bool,
        start: &'p str,
        last_repeat: Option<&'p str>,
    ) -> Result<(), Error> {
        if is_counted && (from > MAX_REPEAT || to.is_some_and(|to| to > MAX_REPEAT || from > to)) {
            return Err(Error::new(INVALID_REPEAT_SIZE, self.reader.since(start)));
        }
        let is_lazy = self.reader.take("?") ^ self.flags.non_greedy;
        if let Some(last) = last_repeat {
            return Err(Error::new(INVALID_REPEAT, self.reader.since(last)));
        }
        let Some(part) = self.groups.last_mut().and_then(|group| group.parts.pop()) else {
            return Err(Error::new(MISSING_ARGUMENT, self.reader.since(start)));
        };
        let repeats = match to {
            _ if !is_counted => part.repeats,
            // Zero repetitions remove the part.
            Some(0) => 1,
            to => part.repeats.saturating_mul(to.unwrap_or(from).max(1)),
        };
        if is_counted && (from >= 2 || to.is_some_and(|to| to >= 2)) && repeats > MAX_REPEAT {
            return Err(Error::new(INVALID_REPEAT_SIZE, self.reader.since(start)));
        }
        let height = part.height + 1;
        if height > MAX_HEIGHT {
            return Err(Error::new(TOO_DEEP, self.pattern));
        }
        // Without parentheses, `(a+)?` would be printed as another pattern.
        let tree = match part.tree.kind() {
            HirKind::Repetition(_) => Hir::capture(Capture { index: 1, name: None, sub: Box::new(part.tree) }),
            _ => part.tree,
        };
        let repetition = Repetition { min: from, max: to, greedy: !is_lazy, sub: Box::new(tree) };
        self.push_node(Node { tree: Hir::repetition(repetition), repeats, height });
        Ok(())
    }

    fn open(&mut self) -> Result<(), Error> {
        if self.groups.len() >= MAX_HEIGHT {
            return Err(Error::new(TOO_DEEP, self.pattern));
        }
        self.groups.push(Group { flags: self.flags, ..Group::default() });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if self.groups.len() < 2 {
            return Err(Error::new(UNEXPECTED_PAREN, self.pattern));
        }
        if let Some(group) = self.groups.pop() {
            self.flags = group.flags;
            let node = group.finished();
            if node.height > MAX_HEIGHT {
                return Err(Error::new(TOO_DEEP, self.pattern));
            }
            self.push_node(node);
        }
        Ok(())
    }

    /// Parses `(?i)`, `(?i:…)`, `(?P<name>…)` (`parsePerlFlags`).
    fn flags_or_group(&mut self) -> Result<(), Error> {
        let start = self.reader.rest();
        for prefix in ["(?P<", "(?<"] {
            // Go requires one more character.
            if start.starts_with(prefix) && start.len() > prefix.len() {
                return self.named_group(prefix);
            }
        }
        self.reader.skip(2);
        let (mut flags, mut value, mut saw_flag) = (self.flags, true, false);
        while let Some(letter) = self.reader.next() {
            match letter {
                'i' => flags.folds = value,
                'm' => flags.multi_line = value,
                's' => flags.dot_matches_newline = value,
                'U' => flags.non_greedy = value,
                '-' if value => {
                    (value, saw_flag) = (false, false);
                    continue;
                }
                ':' | ')' if value || saw_flag => {
                    if letter == ':' {
                        self.open()?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            saw_flag = true;
        }
        Err(Error::new(INVALID_PERL, self.reader.since(start)))
    }

    fn named_group(&mut self, prefix: &str) -> Result<(), Error> {
        let start = self.reader.rest();
        let end = start.find('>').ok_or_else(|| Error::new(INVALID_NAME, start))?;
        let name = start.get(prefix.len()..end).unwrap_or("");
        if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
            return Err(Error::new(INVALID_NAME, start.get(..=end).unwrap_or(start)));
        }
        self.reader.skip(end + 1);
        self.open()
    }

    fn backslash(&mut self) -> Result<(), Error> {
        let start = self.reader.rest();
        let look = match start.as_bytes().get(1) {
            Some(b'A') => Look::Start,
            Some(b'z') => Look::End,
            Some(b'b') => Look::WordAscii,
            Some(b'B') => Look::WordAsciiNegate,
            Some(b'C') => return Err(Error::new(INVALID_ESCAPE, r"\C")),
            Some(b'Q') => {
                self.reader.skip(2);
                let quoted = self.reader.rest();
                let (literals, length) =
                    quoted.split_once(r"\E").map_or((quoted, quoted.len()), |(quoted, _)| (quoted, quoted.len() + 2));
                self.reader.skip(length);
                return literals.chars().try_for_each(|literal| self.literal(literal.into()));
            }
            _ => {
                return match class::escaped(&mut self.reader, self.flags.folds)? {
                    Some(class) => self.class(class),
                    None => {
                        let code = self.reader.escape()?;
                        self.literal(code)
                    }
                };
            }
        };
        self.reader.skip(2);
        self.push(Hir::look(look));
        Ok(())
    }
}

/// Parses `{2}`, `{2,}` or `{2,5}` (`parseRepeat`); `None` for other text after a brace.
fn counted(text: &str) -> Option<(u32, Option<u32>)> {
    let inside = text.strip_prefix('{')?;
    let (inside, rest) = inside.split_at(inside.find(|c: char| !c.is_ascii_digit() && c != ',')?);
    if !rest.starts_with('}') {
        return None;
    }
    match inside.split_once(',') {
        None => number(inside).map(|count| (count, Some(count))),
        Some((from, "")) => Some((number(from)?, None)),
        Some((from, to)) => Some((number(from)?, Some(number(to)?))),
    }
}

/// Parses a number without leading zeros; a number that is too large becomes the largest one.
fn number(digits: &str) -> Option<u32> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_plain && (digits.len() == 1 || !digits.starts_with('0'))).then(|| digits.parse().unwrap_or(u32::MAX))
}
