//! Email addresses as Go's `net/mail` reads them.

use std::net::IpAddr;

/// Whether the text is a single address, with or without a name (`mail.ParseAddress`).
pub(super) fn is_email(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    parser.address(true) == Some(1) && parser.skip_comments() && parser.rest.is_empty()
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, character: char) -> bool {
        let taken = self.rest.strip_prefix(character);
        self.rest = taken.unwrap_or(self.rest);
        taken.is_some()
    }

    /// Reads an address or a group of addresses; returns their number.
    fn address(&mut self, may_be_group: bool) -> Option<usize> {
        self.skip_space();
        let start = self.rest;
        if self.specification().is_some() {
            self.skip_space();
            if self.rest.starts_with('(') && !self.comment() {
                return None;
            }
            return Some(1);
        }
        self.rest = start;
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if may_be_group && self.take(':') {
            return self.group();
        }
        self.take('<').then_some(())?;
        self.specification()?;
        self.take('>').then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        if self.take(';') {
            return Some(0);
        }
        let mut addresses = 0;
        loop {
            self.skip_space();
            addresses += self.address(false)?;
            self.skip_comments().then_some(())?;
            if self.take(';') {
                return self.skip_comments().then_some(addresses);
            }
            self.take(',').then_some(())?;
        }
    }

    /// `local@domain`
    fn specification(&mut self) -> Option<()> {
        self.skip_space();
        match self.rest.starts_with('"') {
            true => (!self.quoted()?.is_empty()).then_some(())?,
            false => self.atom(false)?,
        }
        self.take('@').then_some(())?;
        self.skip_space();
        if !self.rest.starts_with('[') {
            return self.atom(false);
        }
        let (literal, rest) = self.rest.strip_prefix('[')?.split_once(']')?;
        self.rest = rest;
        literal.strip_prefix("IPv6:").unwrap_or(literal).parse::<IpAddr>().ok().map(drop)
    }

    /// Words of a name. Faults after the first word end the name.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return None;
            }
            self.skip_space();
            let start = self.rest;
            let word = match self.rest.starts_with('"') {
                true => self.quoted().map(drop),
                false => self.atom(true),
            };
            if word.is_none() {
                self.rest = start;
                return (words > 0).then_some(());
            }
            words += 1;
        }
    }

    /// Reads a quoted text; returns the text between the quotes.
    fn quoted(&mut self) -> Option<&str> {
        let within = self.rest.strip_prefix('"')?;
        let mut is_escaped = false;
        for (at, character) in within.char_indices() {
            let is_visible = matches!(character, '!'..='~') || !character.is_ascii();
            match character {
                '"' if !is_escaped => {
                    self.rest = within.get(at + 1..)?;
                    return within.get(..at);
                }
                '\\' if !is_escaped => {
                    is_escaped = true;
                    continue;
                }
                character if is_visible || matches!(character, ' ' | '\t') => {}
                _ => return None,
            }
            is_escaped = false;
        }
        None
    }

    /// Reads a word with dots. A name may have dots anywhere.
    fn atom(&mut self, is_permissive: bool) -> Option<()> {
        let is_allowed = |character: char| match character {
            '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"' => false,
            character => matches!(character, '!'..='~') || !character.is_ascii(),
        };
        let end = self.rest.find(|character| !is_allowed(character)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        let has_odd_dots = atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        if atom.is_empty() || (!is_permissive && has_odd_dots) {
            return None;
        }
        self.rest = rest;
        Some(())
    }

    /// Skips spaces and comments; returns false for a comment without an end.
    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while self.rest.starts_with('(') {
            if !self.comment() {
                return false;
            }
            self.skip_space();
        }
        true
    }

    fn comment(&mut self) -> bool {
        let (mut depth, mut is_escaped) = (0_usize, false);
        for (at, character) in self.rest.char_indices() {
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return true;
            }
        }
        false
    }
}
