//! A replacement for a kubelet: accepts upgrades and echoes the bytes that it receives.

use super::client::certificates;
use super::pki::pki;
use super::{block_on, runtime};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server that answers every request with `101 Switching Protocols`, and then echoes the bytes that it receives.
pub struct Kubelet {
    /// The port of the listener.
    pub port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Kubelet {
    /// Starts the server.
    pub fn start() -> Self {
        let pki = pki();
        let chain = certificates(&pki.server.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&pki.server.key).unwrap();
        let _ = runtime();
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        runtime().spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut connection = acceptor.accept(connection).await.ok()?;
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(connection.read_u8().await.ok()?);
                    }
                    seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
                    connection.write_all(answer.as_bytes()).await.ok()?;
                    let (mut reader, mut writer) = tokio::io::split(connection);
                    tokio::io::copy(&mut reader, &mut writer).await.ok()?;
                    writer.shutdown().await.ok()
                });
            }
        });
        Self { port, heads }
    }

    /// The heads of the received requests.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}
