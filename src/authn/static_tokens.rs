//! Bearer tokens of a file: CSV records of token, user, UID and, in one field, groups (`tokenfile.NewCSV`).

use crate::answers::{Key, Secret};
use crate::user::UserInfo;
use std::collections::HashMap;
use std::sync::Arc;

/// The users of a token file, by hashes of the tokens, so that the time of a look-up reveals nothing of a token.
pub(crate) struct StaticTokens {
    secret: Secret,
    users: HashMap<Key, Arc<UserInfo>>,
}

impl std::fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticTokens").field("users", &self.users.len()).finish()
    }
}

/// The reason why a token file is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenFileError {
    /// A record lacks fields.
    #[error("line {line}: must have at least 3 columns (token, user name, user uid), found {found}")]
    Columns {
        /// The first line of the record.
        line: usize,
        /// The number of its fields.
        found: usize,
    },
    /// A quote is at a place that allows none, or has no end.
    #[error("line {0}: misplaced or unclosed quote")]
    Quote(usize),
    /// The file is not text.
    #[error("not UTF-8")]
    NotText,
}

impl StaticTokens {
    /// Reads a token file. Of two records with one token the later counts; a record without a token is ignored.
    ///
    /// # Errors
    /// If the file is not CSV, or a record has fewer than three fields.
    pub(crate) fn parse(csv: &[u8]) -> Result<Self, TokenFileError> {
        let csv = std::str::from_utf8(csv).map_err(|_| TokenFileError::NotText)?;
        let (secret, mut users) = (Secret::new(), HashMap::new());
        for (line, record) in records(csv)? {
            let [token, username, uid, rest @ ..] = record.as_slice() else {
                return Err(TokenFileError::Columns { line, found: record.len() });
            };
            if token.is_empty() {
                tracing::warn!(line, "empty token in the token file");
                continue;
            }
            let groups = rest.first().map(|groups| groups.split(',').map(str::to_owned).collect()).unwrap_or_default();
            let user = UserInfo { username: username.clone(), uid: uid.clone(), groups, ..UserInfo::default() };
            let key = secret.hash(&[token.as_bytes()]);
            if users.insert(key, Arc::new(user.with_authenticated_group())).is_some() {
                tracing::warn!(line, "duplicate token in the token file");
            }
        }
        Ok(Self { secret, users })
    }

    /// Returns the user of a token.
    pub(super) fn user(&self, token: &str) -> Option<Arc<UserInfo>> {
        self.users.get(&self.secret.hash(&[token.as_bytes()])).cloned()
    }
}

/// Splits CSV as Go's `encoding/csv` does: empty lines do not count, a quoted field may hold commas, lines and `""`.
fn records(csv: &str) -> Result<Vec<(usize, Vec<String>)>, TokenFileError> {
    let (mut records, mut rest, mut line) = (Vec::new(), csv, 1);
    while !rest.is_empty() {
        let start = line;
        if let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            (rest, line) = (after, line + 1);
            continue;
        }
        let mut record = Vec::new();
        loop {
            let (field, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted_field(quoted, &mut line)?,
                None => bare_field(rest, line)?,
            };
            record.push(field);
            if let Some(next) = after.strip_prefix(',') {
                rest = next;
                continue;
            }
            rest = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
            line += 1;
            break;
        }
        records.push((start, record));
    }
    Ok(records)
}

fn bare_field(rest: &str, line: usize) -> Result<(String, &str), TokenFileError> {
    let end = rest.find([',', '\n']).unwrap_or(rest.len());
    let (field, after) = rest.split_at(end);
    let (field, after) = match field.strip_suffix('\r') {
        Some(field) if !after.starts_with(',') => (field, after),
        _ => (field, after),
    };
    if field.contains('"') { Err(TokenFileError::Quote(line)) } else { Ok((field.to_owned(), after)) }
}

fn quoted_field<'a>(mut rest: &'a str, line: &mut usize) -> Result<(String, &'a str), TokenFileError> {
    let (start, mut field) = (*line, String::new());
    loop {
        let (text, after) = rest.split_once('"').ok_or(TokenFileError::Quote(start))?;
        field.push_str(text);
        *line += text.matches('\n').count();
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
        } else if after.is_empty() || after.starts_with([',', '\n']) || after.starts_with("\r\n") {
            return Ok((field, after));
        } else {
            return Err(TokenFileError::Quote(*line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kube_apiserver_reads() {
        let tokens =
            StaticTokens::parse(b"a,alice,1\r\n\nb,\"b\"\"ob\",2,\"dev,ops\",ignored\n,none,3\na,again,4,x").unwrap();
        assert_eq!(tokens.users.len(), 2);
        let bob = tokens.user("b").unwrap();
        assert_eq!((bob.username.as_str(), bob.uid.as_str()), ("b\"ob", "2"));
        assert_eq!(bob.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(tokens.user("a").unwrap().username, "again");
        assert_eq!(tokens.user(""), None);
        assert_eq!(tokens.user("c"), None);
    }

    #[test]
    fn refuses_what_is_no_token_file() {
        let table: &[(&[u8], TokenFileError)] = &[
            (b"a,alice", TokenFileError::Columns { line: 1, found: 2 }),
            (b"\na,b,c\nx", TokenFileError::Columns { line: 3, found: 1 }),
            (b"a\"b,c,d", TokenFileError::Quote(1)),
            (b"\"a\"b,c,d", TokenFileError::Quote(1)),
            (b"a,b,\"c", TokenFileError::Quote(1)),
            (b"\xff,b,c", TokenFileError::NotText),
        ];
        for (csv, error) in table {
            assert_eq!(StaticTokens::parse(csv).err().as_ref(), Some(error), "{}", String::from_utf8_lossy(csv));
        }
    }
}
