//! The clauses of a format: `%s`, `%.3f`.

/// The clause after a `%`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clause {
    /// The number of digits after the point, if given.
    pub precision: Option<u64>,
    /// `s`, `d`, `f`, `e`, `b`, `x`, `X` or `o`.
    pub letter: u8,
}

/// cel-go's text for a clause that is none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidClause(String);

/// Parses a clause and advances behind it.
///
/// # Errors
/// If the text is no clause.
pub(crate) fn clause(rest: &mut &[u8]) -> Result<Clause, InvalidClause> {
    let wrong = |message: String| InvalidClause(format!("error while parsing precision: {message}"));
    let mut precision = None;
    if let [b'.', after @ ..] = *rest {
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, after) = after.split_at(digits);
        if after.is_empty() {
            return Err(wrong("could not find end of precision specifier".to_owned()));
        }
        let digits = String::from_utf8_lossy(digits);
        let read = digits.parse::<i64>().map_err(|_| {
            let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            wrong(format!("error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {why}"))
        })?;
        precision = Some(read.unsigned_abs());
        *rest = after;
    }
    match *rest {
        [letter @ (b's' | b'd' | b'f' | b'e' | b'b' | b'x' | b'X' | b'o'), after @ ..] => {
            *rest = after;
            Ok(Clause { precision, letter: *letter })
        }
        [other, ..] => Err(InvalidClause(format!("unrecognized formatting clause \"{}\"", char::from(*other)))),
        [] => Err(InvalidClause("unexpected end of string".to_owned())),
    }
}
