//! The credentials of webhook calls: a token, a password, a client certificate, and impersonation headers.

use super::tls::KeyPair;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time for which a token from a file is used before the file is read again (`NewCachedFileTokenSource`, less its leeway).
const TOKEN_FILE_PERIOD: Duration = Duration::from_secs(50);

/// The credentials of a call; by default none.
#[derive(Default)]
pub(crate) struct Identity {
    /// The source of the `Authorization` header.
    pub(crate) authorization: Authorization,
    /// The client's certificate and its key.
    pub(crate) certificate: Option<KeyPair>,
    /// The `Impersonate-…` headers.
    pub(crate) impersonation: Vec<(HeaderName, HeaderValue)>,
}

/// The source of the `Authorization` header.
#[derive(Default)]
pub(crate) enum Authorization {
    /// No header.
    #[default]
    None,
    /// A constant header.
    Fixed(HeaderValue),
    /// The token in a file that may change.
    File(TokenFile),
}

/// A file with a token, read again at intervals.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// The last header; before the first read, the fallback.
    last: Mutex<(HeaderValue, Option<Instant>)>,
}

impl TokenFile {
    /// Creates the source; `fallback` is used if the file cannot be read.
    pub(crate) fn new(path: PathBuf, fallback: HeaderValue) -> Self {
        Self { path, last: Mutex::new((fallback, None)) }
    }

    async fn value(&self) -> HeaderValue {
        let (last, read_at) = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if read_at.is_some_and(|at| at.elapsed() < TOKEN_FILE_PERIOD) {
            return last;
        }
        match self.read().await {
            Ok(value) => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (value.clone(), Some(Instant::now()));
                value
            }
            Err(reason) => {
                let (path, reason) = (self.path.display(), reason.to_string());
                tracing::warn!(%path, reason, "token file not read: the last token is used");
                last
            }
        }
    }

    async fn read(&self) -> Result<HeaderValue, UnusableToken> {
        bearer(&tokio::fs::read_to_string(&self.path).await?)
    }
}

/// The reason why a token cannot be sent; never with the token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusableToken {
    /// The file of the token cannot be read.
    #[error(transparent)]
    Unreadable(#[from] std::io::Error),
    /// There is no token.
    #[error("the token is empty")]
    Empty,
    /// The token is no value of a header.
    #[error("the token has characters that no header can hold")]
    Characters,
}

impl Identity {
    /// Adds the headers that never change.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        if let Authorization::Fixed(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        for (name, value) in &self.impersonation {
            headers.append(name, value.clone());
        }
    }

    /// Returns the present `Authorization` header, if it changes over time.
    pub(crate) async fn changing_authorization(&self) -> Option<HeaderValue> {
        match &self.authorization {
            Authorization::File(file) => Some(file.value().await),
            Authorization::None | Authorization::Fixed(_) => None,
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// Creates the header of a bearer token.
///
/// # Errors
/// If the token is empty, or has characters that no header can hold.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, UnusableToken> {
    let token = token.trim();
    if token.is_empty() {
        return Err(UnusableToken::Empty);
    }
    secret(&format!("Bearer {token}")).ok_or(UnusableToken::Characters)
}

/// Creates a header value that is never printed.
pub(super) fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test(start_paused = true)]
    async fn a_token_file_is_read_again_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = TokenFile::new(path.clone(), bearer("first").unwrap());
        assert_eq!(file.value().await, "Bearer first");
        fs::write(&path, "second\n").unwrap();
        assert_eq!(file.value().await, "Bearer second");
        fs::write(&path, "third").unwrap();
        assert_eq!(file.value().await, "Bearer second");
        tokio::time::advance(TOKEN_FILE_PERIOD).await;
        assert_eq!(file.value().await, "Bearer third");
        fs::write(&path, " \n").unwrap();
        tokio::time::advance(TOKEN_FILE_PERIOD).await;
        assert_eq!(file.value().await, "Bearer third");
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = format!("{:?}", bearer("hidden").unwrap());
        assert!(!text.contains("hidden"), "{text}");
        assert!(bearer("a\nb").is_err());
        assert!(bearer(" ").is_err());
    }
}
