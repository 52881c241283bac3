//! A TCP relay that simulates network failures.

use super::{block_on, runtime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards bytes to a port until it is cut.
pub struct Relay {
    /// The port of the listener.
    pub port: u16,
    target: watch::Sender<u16>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay to this port.
    pub fn to(target: u16) -> Self {
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (target, turned) = watch::channel(target);
        let task = runtime().spawn(async move {
            // The connections end with this task.
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

    /// Forwards new connections to another port; 0 means none. Existing connections end.
    pub fn turn_to(&self, target: u16) {
        self.target.send_replace(target);
    }

    /// Ends the relay and all its connections.
    pub fn cut(self) {
        self.task.abort();
        let _ = block_on(self.task);
    }
}
