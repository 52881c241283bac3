//! A TCP relay: a network that can fail.

use super::{block_on, runtime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Carries bytes to a port until it is cut.
pub struct Relay {
    /// Where it listens.
    pub port: u16,
    target: watch::Sender<u16>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts one to this port.
    pub fn to(target: u16) -> Self {
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (target, turned) = watch::channel(target);
        let task = runtime().spawn(async move {
            // Dropped with this task: connections end with the relay.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let mut turned = turned.clone();
                connections.spawn(async move {
                    let target = *turned.borrow_and_update();
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = turned.changed() => {}
                    }
                });
            }
        });
        Self { port, target, task }
    }

    /// From now on carries to another port, 0 for none. What it carries now ends.
    pub fn turn_to(&self, target: u16) {
        self.target.send_replace(target);
    }

    /// Ends it and everything it carries.
    pub fn cut(self) {
        self.task.abort();
        let _ = block_on(self.task);
    }
}
