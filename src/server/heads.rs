//! The memory for the heads of requests: for those that a connection has begun and not ended, and for those of requests in progress. A head
//! of a few KiB is as large as the buffers that each connection has anyway, and is not counted.

use super::ConnectionState;
use super::state::Life;
use crate::crowd::Crowd;
use http::Request;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The memory of a head that is not counted.
const FREE_BYTES: usize = 8 << 10;
/// The most bytes of one read. hyper gives an HTTP/1.1 connection a buffer for twice as many as arrive at once, up to the longest head, and keeps
/// it; a client that sends fast would fill a mebibyte for each connection.
const READ_BYTES: usize = 16 << 10;
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
    /// The heads that connections have not ended, by address.
    begun: Crowd<Address, Arc<Life>>,
    /// The bytes of the heads of requests in progress, by address and of all.
    kept: HashMap<Address, usize>,
    kept_bytes: usize,
}

/// The client's address, as it counts among others.
type Address = Option<IpAddr>;

/// The number of an incomplete head, or the bytes of the head of a request.
#[derive(Debug)]
enum Head {
    Begun(u64),
    Kept(usize),
}

/// A counted head, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    heads: Arc<Heads>,
    address: Address,
    head: Head,
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
    pub(super) fn keep<B>(self: &Arc<Self>, request: &mut Request<B>, state: &ConnectionState) -> Result<(), NoRoom> {
        let fields: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        let bytes = (fields + path) * GROWTH + request.headers().len() * FIELD_BYTES;
        if bytes > FREE_BYTES {
            request.extensions_mut().insert(Arc::new(self.count(state.address(), bytes)?));
        }
        Ok(())
    }

    fn count(self: &Arc<Self>, address: Address, bytes: usize) -> Result<Counted, NoRoom> {
        let mut members = self.members();
        let all = members.kept_bytes + bytes;
        let of_address = members.kept.get(&address).copied().unwrap_or_default() + bytes;
        if all > self.bytes || of_address > self.bytes / 2 {
            return Err(NoRoom);
        }
        members.kept.insert(address, of_address);
        members.kept_bytes = all;
        self.make_room(&mut members);
        Ok(Counted { heads: self.clone(), address, head: Head::Kept(bytes) })
    }

    /// Counts the head that a connection has begun.
    fn begun(self: &Arc<Self>, state: &ConnectionState) -> Counted {
        let (mut members, address) = (self.members(), state.address());
        let number = members.next;
        members.next += 1;
        members.begun.insert(number, &address, 0, state.life().clone());
        Counted { heads: self.clone(), address, head: Head::Begun(number) }
    }

    /// Ends connections with incomplete heads until there is room: of the address whose heads are the largest, the one whose head has been
    /// incomplete for longest.
    fn make_room(&self, members: &mut Members) {
        while members.bytes() > self.bytes
            && let Some((number, address)) = members.begun.greediest().map(|of| (of.oldest, *of.owner))
            && let Some(connection) = members.begun.remove(number, &address)
        {
            connection.end();
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn bytes(&self) -> usize {
        self.begun.size() + self.kept_bytes
    }
}

impl Counted {
    /// Sets the size of an incomplete head. If there is no room, connections with incomplete heads end.
    fn set(&self, bytes: usize) {
        let mut members = self.heads.members();
        let Head::Begun(number) = self.head else { return };
        // Without a head the connection has ended for another one.
        if members.begun.resize(number, &self.address, bytes) {
            self.heads.make_room(&mut members);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut members = self.heads.members();
        match self.head {
            Head::Begun(number) => drop(members.begun.remove(number, &self.address)),
            Head::Kept(bytes) => {
                members.kept_bytes -= bytes;
                let Some(kept) = members.kept.get_mut(&self.address) else { return };
                *kept -= bytes;
                if *kept == 0 {
                    members.kept.remove(&self.address);
                }
            }
        }
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
        if buffer.remaining() <= READ_BYTES {
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(READ_BYTES));
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
            let read = part.filled().len();
            buffer.advance(read);
        }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [192, 0, 2, 2];

    fn states<const N: usize>(addresses: [[u8; 4]; N]) -> [ConnectionState; N] {
        addresses.map(|address| ConnectionState::of(address.into()))
    }

    fn is_ended(state: &ConnectionState) -> bool {
        state.life().is_ended()
    }

    fn request(value: usize) -> Request<()> {
        Request::builder().header("x", "a".repeat(value)).body(()).unwrap()
    }

    #[tokio::test]
    async fn one_read_is_short_and_loses_nothing() {
        let (mut client, stream) = duplex(1 << 20);
        let sent: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        client.write_all(&sent).await.unwrap();
        drop(client);
        let state = Arc::new(ConnectionState::of(A.into()));
        let mut stream = Metered::new(stream, false, state, Heads::new(1 << 20, 1 << 20));
        let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 18]);
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            received.extend_from_slice(&buffer[..count]);
            match count {
                0 => break,
                _ => assert!(count <= READ_BYTES),
            }
        }
        assert_eq!(received, sent);
    }

    #[test]
    fn the_oldest_incomplete_head_makes_room() {
        let heads = Heads::new(100_000, 1 << 20);
        let [first, second, third] = &states([A; 3]);
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
        assert_eq!(heads.members().bytes(), 0);
    }

    #[test]
    fn an_address_with_many_incomplete_heads_ends_before_others() {
        let heads = Heads::new(100_000, 1 << 20);
        let states = states([B, A, A, A]);
        let begun = states.each_ref().map(|state| heads.begun(state));
        begun.iter().for_each(|head| head.set(30_000));
        assert_eq!(states.each_ref().map(is_ended), [false, true, false, false]);
        drop(begun);
        assert_eq!(heads.members().bytes(), 0);
    }

    #[test]
    fn the_heads_of_requests_stay_and_one_address_has_at_most_half() {
        let heads = Heads::new(100_000, 1 << 20);
        let [state, of_b] = &states([A, B]);
        let begun = heads.begun(state);
        begun.set(50_000);
        let mut small = request(1000);
        heads.keep(&mut small, state).unwrap();
        assert!(heads.members().kept.is_empty());
        let [mut first, mut second, mut third] = [(); 3].map(|()| request(20_000));
        heads.keep(&mut first, state).unwrap();
        assert!(!is_ended(state));
        assert!(heads.keep(&mut second, state).is_err());
        heads.keep(&mut second, of_b).unwrap();
        assert!(is_ended(state));
        // The extensions of a request hold the place, and its body or its answer does not.
        let (parts, ()) = first.into_parts();
        assert!(heads.keep(&mut third, state).is_err());
        drop(parts);
        heads.keep(&mut third, state).unwrap();
        drop((second, third, begun));
        assert_eq!(heads.members().bytes(), 0);
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
