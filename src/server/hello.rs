//! Reads the ClientHello of a TLS handshake, before anything is computed for the client.

use rustls::server::{Accepted, Acceptor};
use std::io::{Error, ErrorKind, Read, Result};
use tokio::net::TcpStream;

/// The size of a ClientHello. Those of real clients have 2 KiB at most.
const HELLO_BYTES: usize = 16 * 1024;

/// Reads a ClientHello.
///
/// # Errors
/// If the client sends something else, or too much, or leaves.
pub(super) async fn read(stream: &TcpStream) -> Result<Accepted> {
    let (mut acceptor, mut arriving) = (Acceptor::default(), Arriving { stream, left: HELLO_BYTES });
    loop {
        stream.readable().await?;
        match acceptor.read_tls(&mut arriving) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Ok(accepted),
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                alert.write_all(&mut bytes)?;
                // Nothing was sent before, so that there is room for an alert. The connection ends anyway.
                let _ = stream.try_write(&bytes);
                return Err(Error::new(ErrorKind::InvalidData, error));
            }
        }
    }
}

/// The bytes of a stream that have arrived, up to a bound.
struct Arriving<'a> {
    stream: &'a TcpStream,
    left: usize,
}

impl Read for Arriving<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = buffer.len().min(self.left);
        let Some(buffer) = buffer.get_mut(..length).filter(|buffer| !buffer.is_empty()) else {
            return Err(Error::new(ErrorKind::InvalidData, "the ClientHello is too long"));
        };
        let read = self.stream.try_read(buffer)?;
        self.left -= read;
        Ok(read)
    }
}
