//! The memory for the heads of requests: for those that a connection has begun and not ended, and for those of requests in progress. A head
//! of a few KiB is as large as the buffers that each connection has anyway, and is not counted.

use super::ConnectionState;
use http::Request;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The memory of a head that is not counted.
const FREE_BYTES: usize = 8 << 10;
/// A buffer that grows has up to twice the bytes in it.
const GROWTH: usize = 2;
/// The memory for a header field, besides its name and value.
const FIELD_BYTES: usize = 128;
/// The memory for each byte of a header block of HTTP/2, at most: one byte can name a whole field.
const BLOCK_FACTOR: usize = FIELD_BYTES;

/// The memory for all heads.
#[derive(Debug)]
pub(super) struct Heads {
    bytes: usize,
    /// The memory of the longest head.
    longest: usize,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    next: u64,
    bytes: usize,
    by_age: BTreeMap<u64, Head>,
}

#[derive(Debug)]
struct Head {
    bytes: usize,
    of: Of,
}

/// The owner of a head.
#[derive(Debug)]
enum Of {
    /// A connection that has not ended the head.
    Connection(Weak<ConnectionState>),
    /// A request from this address.
    Request(IpAddr),
}

/// A counted head, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    heads: Arc<Heads>,
    number: u64,
}

/// The heads of the requests in progress leave no room for another one.
#[derive(Debug)]
pub(super) struct NoRoom;

impl Heads {
    /// Creates a memory of `bytes`. A head has at most `head_bytes`.
    pub(super) fn new(bytes: usize, head_bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, longest: head_bytes.saturating_mul(2 * GROWTH), members: Mutex::default() })
    }

    /// Counts the head of a request that begins, as long as the request keeps its extensions.
    ///
    /// # Errors
    /// If there is no room for the head, or its address has more than half of the memory.
    pub(super) fn keep<B>(self: &Arc<Self>, request: &mut Request<B>, address: IpAddr) -> Result<(), NoRoom> {
        let fields: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        let bytes = (fields + path) * GROWTH + request.headers().len() * FIELD_BYTES;
        if bytes > FREE_BYTES {
            request.extensions_mut().insert(Arc::new(self.count(address, bytes)?));
        }
        Ok(())
    }

    fn count(self: &Arc<Self>, address: IpAddr, bytes: usize) -> Result<Counted, NoRoom> {
        let mut members = self.members();
        let (mut all, mut of_address) = (bytes, bytes);
        for head in members.by_age.values() {
            if let Of::Request(owner) = head.of {
                all += head.bytes;
                of_address += if owner == address { head.bytes } else { 0 };
            }
        }
        if all > self.bytes || of_address > self.bytes / 2 {
            return Err(NoRoom);
        }
        let number = members.enter(Head { bytes, of: Of::Request(address) });
        self.make_room(members);
        Ok(Counted { heads: self.clone(), number })
    }

    /// Counts the head that a connection has begun.
    fn begun(self: &Arc<Self>, state: &Arc<ConnectionState>) -> Counted {
        let number = self.members().enter(Head { bytes: 0, of: Of::Connection(Arc::downgrade(state)) });
        Counted { heads: self.clone(), number }
    }

    /// Ends the connections whose heads have been incomplete for longest, until there is room.
    fn make_room(&self, mut members: MutexGuard<'_, Members>) {
        let mut ended = Vec::new();
        while members.bytes > self.bytes
            && let Some(state) = members.remove_oldest()
        {
            ended.push(state);
        }
        drop(members);
        // The last reference to a connection drops its head, which takes the lock.
        for state in ended.iter().filter_map(Weak::upgrade) {
            state.end();
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn enter(&mut self, head: Head) -> u64 {
        let number = self.next;
        self.next += 1;
        self.bytes += head.bytes;
        self.by_age.insert(number, head);
        number
    }

    /// Removes the oldest incomplete head, and returns its connection.
    fn remove_oldest(&mut self) -> Option<Weak<ConnectionState>> {
        let begun = self.by_age.iter().find(|(_, head)| matches!(head.of, Of::Connection(_)));
        match self.remove(*begun?.0)?.of {
            Of::Connection(state) => Some(state),
            Of::Request(_) => None,
        }
    }

    fn remove(&mut self, number: u64) -> Option<Head> {
        let head = self.by_age.remove(&number)?;
        self.bytes -= head.bytes;
        Some(head)
    }
}

impl Counted {
    /// Sets the size of the head. If there is no room, connections with incomplete heads end, the oldest head first.
    fn set(&self, bytes: usize) {
        let mut members = self.heads.members();
        let Some(head) = members.by_age.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut head.bytes, bytes);
        members.bytes = members.bytes - before + bytes;
        self.heads.make_room(members);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _removed = self.heads.members().remove(self.number);
    }
}

/// A client's stream, which counts the bytes of heads.
pub(super) struct Metered<S> {
    stream: S,
    state: Arc<ConnectionState>,
    heads: Arc<Heads>,
    form: Form,
}

/// The head that is being read, by the form of the connection.
enum Form {
    /// The bytes since the last request began.
    Http1 {
        begun: u64,
        bytes: usize,
    },
    Http2(Blocks),
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, is_http2: bool, state: Arc<ConnectionState>, heads: Arc<Heads>) -> Self {
        let form = if is_http2 { Form::Http2(Blocks::default()) } else { Form::Http1 { begun: 0, bytes: 0 } };
        Self { stream, state, heads, form }
    }

    fn count(&mut self, data: &[u8]) {
        let bytes = match &mut self.form {
            Form::Http1 { begun, bytes } => {
                let Some(begun_by_now) = self.state.awaits_head() else { return };
                if *begun != begun_by_now {
                    (*begun, *bytes) = (begun_by_now, 0);
                }
                *bytes += data.len();
                *bytes * GROWTH
            }
            Form::Http2(blocks) => {
                let bytes = blocks.read(data);
                (bytes * BLOCK_FACTOR).min(self.heads.longest + bytes * GROWTH)
            }
        };
        let mut reading = self.state.head();
        if bytes <= FREE_BYTES {
            *reading = None;
        } else {
            let counted = reading.get_or_insert_with(|| self.heads.begun(&self.state));
            counted.set(bytes);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        this.count(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The header blocks in the frames of an HTTP/2 connection (RFC 9113, sections 4.1 and 6.10).
#[derive(Debug, Default)]
struct Blocks {
    /// The bytes of the preface so far.
    preface: usize,
    header: [u8; FRAME_HEADER],
    /// The bytes of `header` so far.
    read: usize,
    /// The bytes that the frame still has.
    left: usize,
    /// The bytes of the incomplete header block.
    bytes: usize,
}

impl Blocks {
    /// Reads data, and returns the bytes of the header block that is not complete.
    fn read(&mut self, mut data: &[u8]) -> usize {
        let preface = data.len().min(PREFACE - self.preface);
        self.preface += preface;
        data = data.get(preface..).unwrap_or_default();
        while !data.is_empty() {
            if self.left == 0 && self.read < FRAME_HEADER {
                let (taken, rest) = data.split_at(data.len().min(FRAME_HEADER - self.read));
                for (to, from) in self.header.iter_mut().skip(self.read).zip(taken) {
                    *to = *from;
                }
                (self.read, data) = (self.read + taken.len(), rest);
                if self.read < FRAME_HEADER {
                    break;
                }
                let [a, b, c, ..] = self.header;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            }
            let (taken, rest) = data.split_at(data.len().min(self.left));
            (self.left, data) = (self.left - taken.len(), rest);
            let [_, _, _, kind, flags, ..] = self.header;
            if matches!(kind, HEADERS | CONTINUATION) {
                self.bytes += taken.len();
                if self.left == 0 && flags & END_HEADERS != 0 {
                    self.bytes = 0;
                }
            }
            if self.left == 0 {
                self.read = 0;
            }
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::net::Ipv4Addr;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn states<const N: usize>() -> [Arc<ConnectionState>; N] {
        [(); N].map(|()| Arc::new(ConnectionState::default()))
    }

    fn is_ended(state: &ConnectionState) -> bool {
        state.ended().now_or_never().is_some()
    }

    fn request(value: usize) -> Request<()> {
        Request::builder().header("x", "a".repeat(value)).body(()).unwrap()
    }

    #[test]
    fn the_oldest_incomplete_head_makes_room() {
        let heads = Heads::new(100_000, 1 << 20);
        let [first, second, third] = &states();
        let [one, two, three] = [first, second, third].map(|state| heads.begun(state));
        one.set(40_000);
        two.set(40_000);
        three.set(20_000);
        assert!(!is_ended(first) && !is_ended(second) && !is_ended(third));
        two.set(40_001);
        assert!(is_ended(first) && !is_ended(second) && !is_ended(third));
        three.set(200_000);
        assert!(is_ended(second) && is_ended(third));
        drop((one, two, three));
        assert_eq!(heads.members().bytes, 0);
    }

    #[test]
    fn the_heads_of_requests_stay_and_one_address_has_at_most_half() {
        let heads = Heads::new(100_000, 1 << 20);
        let [state] = &states();
        let begun = heads.begun(state);
        begun.set(50_000);
        let mut small = request(1000);
        heads.keep(&mut small, A).unwrap();
        assert_eq!(heads.members().by_age.len(), 1);
        let [mut first, mut second, mut third] = [(); 3].map(|()| request(20_000));
        heads.keep(&mut first, A).unwrap();
        assert!(!is_ended(state));
        assert!(heads.keep(&mut second, A).is_err());
        heads.keep(&mut second, B).unwrap();
        assert!(is_ended(state));
        // The extensions of a request hold the place, and its body or its answer does not.
        let (parts, ()) = first.into_parts();
        assert!(heads.keep(&mut third, A).is_err());
        drop(parts);
        heads.keep(&mut third, A).unwrap();
        drop((second, third, begun));
        assert_eq!(heads.members().bytes, 0);
    }

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [.., a, b, c] = u32::try_from(payload).unwrap().to_be_bytes();
        [&[a, b, c, kind, flags, 0, 0, 0, 1][..], &vec![0; payload]].concat()
    }

    #[test]
    fn a_header_block_is_incomplete_until_its_last_frame() {
        let (data, settings) = (0, 4);
        let frames = [
            (vec![b' '; PREFACE], 0),
            (frame(settings, 0, 12), 0),
            (frame(HEADERS, END_HEADERS, 100), 0),
            (frame(data, 0, 5000), 0),
            (frame(HEADERS, 0, 100), 100),
            (frame(CONTINUATION, 0, 3000), 3100),
            (frame(CONTINUATION, END_HEADERS, 10), 0),
            (frame(HEADERS, 0, 0), 0),
            (frame(CONTINUATION, END_HEADERS, 0), 0),
        ];
        for step in [1, 7, 10_000] {
            let mut blocks = Blocks::default();
            for (bytes, incomplete) in &frames {
                let last = bytes.chunks(step).map(|part| blocks.read(part)).last();
                assert_eq!(last, Some(*incomplete), "{step}");
            }
        }
        let mut blocks = Blocks::default();
        assert_eq!(blocks.read(&frames.map(|(bytes, _)| bytes).concat()), 0);
    }
}
