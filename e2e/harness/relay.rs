//! A TCP relay: a network that can fail.

use super::{block_on, runtime};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Carries bytes to a port until it is cut.
pub struct Relay {
    /// Where it listens.
    pub port: u16,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts one to this port.
    pub fn to(target: u16) -> Self {
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = runtime().spawn(async move {
            // Dropped with this task: connections end with the relay.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                connections.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { port, task }
    }

    /// Ends it and everything it carries.
    pub fn cut(self) {
        self.task.abort();
        let _ = block_on(self.task);
    }
}
