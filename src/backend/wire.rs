//! A stream that keeps the first line of an answer: Go's errors quote an answer that is not HTTP.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of an answer's first line that are kept.
const REMEMBERED: usize = 512;

/// The first line, as far as received.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstLine(Arc<Mutex<Vec<u8>>>);

impl FirstLine {
    /// Returns the line without its end, as far as received.
    pub(super) fn read(&self) -> String {
        let bytes = self.lock();
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
    }

    /// Whether the line begins with these bytes.
    pub(super) fn starts_with(&self, beginning: &[u8]) -> bool {
        self.lock().starts_with(beginning)
    }

    /// Whether no byte was received.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that keeps a first line: the first one at all, or the first one since the last write.
pub(super) struct Remembering<S> {
    stream: S,
    line: FirstLine,
    /// Whether the first line of each answer is kept.
    of_answers: bool,
    is_complete: bool,
}

impl<S> Remembering<S> {
    /// Keeps the first line of the stream.
    pub(super) fn beginning(stream: S, line: FirstLine) -> Self {
        Self { stream, line, of_answers: false, is_complete: false }
    }

    /// Keeps the first line of each answer.
    pub(super) fn answers(stream: S, line: FirstLine) -> Self {
        Self { of_answers: true, ..Self::beginning(stream, line) }
    }

    fn remember(&mut self, read: &[u8]) {
        if self.is_complete || read.is_empty() {
            return;
        }
        let mut line = self.line.lock();
        let left = REMEMBERED - line.len().min(REMEMBERED);
        let end = read.iter().take(left).position(|byte| *byte == b'\n').map_or(left, |end| end + 1);
        line.extend_from_slice(read.get(..end).unwrap_or(read));
        let is_complete = line.last() == Some(&b'\n') || line.len() >= REMEMBERED;
        drop(line);
        self.is_complete = is_complete;
    }

    fn forget(&mut self) {
        if self.of_answers && self.is_complete {
            self.line.lock().clear();
            self.is_complete = false;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Remembering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.remember(buffer.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Remembering<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.forget();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.forget();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn the_first_line_of_the_last_answer_is_remembered() {
        let (mut server, client) = tokio::io::duplex(1024);
        let line = FirstLine::default();
        let mut client = Remembering::answers(client, line.clone());
        for (answer, want) in [("HTTP/1.1 200 OK\r\na: b\r\n", "HTTP/1.1 200 OK"), ("x\ny\n", "x")] {
            client.write_all(b"request").await.unwrap();
            for piece in answer.as_bytes().chunks(3) {
                server.write_all(piece).await.unwrap();
                client.read_exact(&mut vec![0; piece.len()]).await.unwrap();
            }
            assert_eq!(line.read(), want);
        }
        client.write_all(b"request").await.unwrap();
        assert!(line.is_empty());
        server.write_all(b"half a li").await.unwrap();
        client.read_exact(&mut [0; 9]).await.unwrap();
        assert!(line.read() == "half a li" && line.starts_with(b"half"));
        let long = vec![b'x'; REMEMBERED + 1];
        server.write_all(&long).await.unwrap();
        client.read_exact(&mut vec![0; long.len()]).await.unwrap();
        assert_eq!(line.read().len(), REMEMBERED);
    }

    #[tokio::test]
    async fn the_beginning_stays_after_every_write() {
        let (mut server, client) = tokio::io::duplex(1024);
        let line = FirstLine::default();
        let mut client = Remembering::beginning(client, line.clone());
        server.write_all(b"SSH-2.0\nmore").await.unwrap();
        client.read_exact(&mut [0; 12]).await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(line.read(), "SSH-2.0");
    }
}
