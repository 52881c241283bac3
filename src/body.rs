//! Bodies of requests and responses, and the errors that they end with.

mod weight;

pub use weight::Weight;

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};

/// Any error of a body or transport.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or response, which streams through; only a step that needs the whole body collects it.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Returns a body with these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns an empty body.
pub fn empty() -> Body {
    full(Bytes::new())
}

/// Formats an error and its causes in one line for the log.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // The text of some errors already contains the cause.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The data of a body that is read as a whole. Data in one piece is not copied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    first: Bytes,
    whole: BytesMut,
}

impl Pieces {
    /// The highest ratio of the buffer's capacity to its data: a client that announces much and sends little reserves little. The budgets count
    /// the capacity: memory that was used before is resident even if nothing is written to it.
    pub(crate) const GROWTH: usize = 2;

    /// Appends data. The rest of the body announces at least `announced` bytes more ([`SizeHint::lower`]).
    pub(crate) fn push(&mut self, data: Bytes, announced: u64) {
        if data.is_empty() {
            return;
        }
        if self.is_empty() {
            self.first = data;
            return;
        }
        let length = self.len() + data.len();
        if self.whole.capacity() < length {
            let announced = usize::try_from(announced).unwrap_or(usize::MAX);
            let more = announced.min(length.saturating_mul(Self::GROWTH - 1));
            // `BytesMut::reserve` would at least double the buffer, and with it the memory of a long body whose end is announced.
            let grown = BytesMut::with_capacity(length + more);
            let shorter = std::mem::replace(&mut self.whole, grown);
            self.whole.extend_from_slice(&shorter);
        }
        self.whole.extend_from_slice(&std::mem::take(&mut self.first));
        self.whole.extend_from_slice(&data);
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.whole.len()
    }

    /// Returns whether the body has no data.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data.
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.whole.is_empty() { self.first } else { self.whole.freeze() }
    }
}

/// The data of a body that arrives. Whoever gives the body up frees the data at once: the task that reads the body runs only when all others
/// have had their turn, which have received more data by then.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Mutex<Pieces>);

impl Buffer {
    /// Appends data, as [`Pieces::push`].
    pub(crate) fn push(&self, data: Bytes, announced: u64) {
        self.pieces().push(data, announced);
    }

    /// Frees the data. Does nothing during a [`Self::push`], after which the reader finds that the body is given up.
    pub(crate) fn clear(&self) {
        match self.0.try_lock() {
            Ok(mut pieces) => *pieces = Pieces::default(),
            Err(TryLockError::Poisoned(pieces)) => *pieces.into_inner() = Pieces::default(),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Takes the data out.
    pub(crate) fn take(&self) -> Pieces {
        std::mem::take(&mut *self.pieces())
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of a body, or of an answer, that takes no room of its own: the number of requests bounds it.
pub(crate) const UNCOUNTED_BYTES: usize = 64 << 10;

/// Bytes together with a value that is dropped with the last reference to them: the shares of the memory that they take.
pub(crate) fn held(bytes: Bytes, held: impl Send + 'static) -> Bytes {
    struct Owner<T>(Bytes, T);
    impl<T> AsRef<[u8]> for Owner<T> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Owner(bytes, held))
}

/// A body together with a value that is dropped with it: a place, a count, a seat.
#[derive(Debug)]
pub(crate) struct Held<T> {
    body: Body,
    _held: T,
}

impl<T> Held<T> {
    /// Holds the value as long as the body exists.
    pub(crate) fn new(body: Body, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> http_body::Body for Held<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_is_not_copied_and_several_are_joined() {
        let piece = Bytes::from(vec![1; 10]);
        let mut pieces = Pieces::default();
        for data in [Bytes::new(), piece.clone(), Bytes::new()] {
            pieces.push(data, 0);
        }
        assert_eq!(pieces.len(), 10);
        assert_eq!(pieces.into_bytes().as_ptr(), piece.as_ptr());

        let mut pieces = Pieces::default();
        assert!(pieces.is_empty());
        for data in [&b"a"[..], b"bc", b"", b"def"] {
            pieces.push(Bytes::from_static(data), 2);
        }
        assert_eq!((pieces.len(), &*pieces.into_bytes()), (6, &b"abcdef"[..]));
    }

    #[test]
    fn the_held_value_lives_as_long_as_the_last_bytes() {
        let value = std::sync::Arc::new(());
        let bytes = held(Bytes::from_static(b"abc"), value.clone());
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!((&*part, std::sync::Arc::strong_count(&value)), (&b"bc"[..], 2));
        drop(part);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }

    #[test]
    fn the_buffer_grows_in_few_steps_and_only_with_received_data() {
        let (length, piece) = (1_000_000, Bytes::from(vec![1; 10_000]));
        let (mut pieces, mut capacities) = (Pieces::default(), Vec::new());
        for left in (0..length).step_by(piece.len()).rev() {
            pieces.push(piece.clone(), left as u64);
            capacities.push(pieces.whole.capacity());
            assert!(pieces.whole.capacity() <= pieces.len() * Pieces::GROWTH, "{capacities:?}");
        }
        capacities.dedup();
        assert_eq!(capacities, [0, 40_000, 100_000, 220_000, 460_000, 940_000, length]);
    }
}
