//! Lists of indexes of a Job: `1,3-5`.

/// The reason why a text is no list of indexes, with kube-apiserver's text.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidIndexes(String);

/// The number of indexes in a list (`validateIndexesFormat`).
///
/// # Errors
/// If the text has another form, or indexes that do not increase or that the Job does not have.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, InvalidIndexes> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for interval in text.split(',') {
        let (first, end) = self::interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(InvalidIndexes(format!("non-increasing order, previous: {last}, current: {first}")));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// `parseIndexInterval`
pub(super) fn interval(text: &str, completions: i64) -> Result<(i64, i64), InvalidIndexes> {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str| {
        let parsed = part
            .parse::<i64>()
            .map_err(|_| InvalidIndexes(format!("cannot convert string to integer for index: {part:?}")))?;
        if parsed >= completions { Err(InvalidIndexes(format!("too large index: {part:?}"))) } else { Ok(parsed) }
    };
    match parts[..] {
        [one] => number(one).map(|one| (one, one)),
        [first, last] => {
            let first = number(first)?;
            let last = number(last)?;
            if first >= last {
                return Err(InvalidIndexes(format!("non-increasing order, previous: {first}, current: {last}")));
            }
            Ok((first, last))
        }
        _ => Err(InvalidIndexes(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_increase() {
        for (text, expected) in [
            ("", Ok(0)),
            ("0,2-3", Ok(3)),
            ("1,1", Err("non-increasing order, previous: 1, current: 1")),
            ("2-1", Err("non-increasing order, previous: 2, current: 1")),
            ("9", Err("too large index: \"9\"")),
            ("a", Err("cannot convert string to integer for index: \"a\"")),
        ] {
            assert_eq!(count(text, 5), expected.map_err(|why| InvalidIndexes(why.to_owned())), "{text}");
        }
    }
}
