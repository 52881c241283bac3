#![doc = include_str!("../README.md")]

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_admission_proxy::internal::app::{self, Running};
use kube_admission_proxy::internal::cli;
use std::error::Error as StdError;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::time::{sleep, timeout};

/// The threads of a server.
const THREADS: usize = 2;
/// The longest wait for a server that is ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two looks whether the server is ready.
const READY_INTERVAL: Duration = Duration::from_millis(1);
/// The user of [`TestServer::client`].
const ADMINISTRATOR: &str = "kubernetes-admin";
/// The group with all rights.
const ADMINISTRATORS: &str = "system:masters";
/// The flags of every server. A flag of the builder counts more.
const FLAGS: [&str; 3] = ["--bind-address=127.0.0.1", "--secure-port=0", "--shutdown-drain-timeout=1s"];

/// The reason why a server does not start, or gives no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A flag is unknown or has an invalid value, or the system refuses a port or threads.
    #[error("the test server does not start: {0}")]
    Start(#[source] Box<dyn StdError + Send + Sync>),
    /// The server is not ready in time.
    #[error("the test server is not ready after {} seconds", START_TIMEOUT.as_secs())]
    NotReady,
    /// The flags give the server an authority of client certificates, so that it cannot make certificates for users.
    #[error("the test server has no authority of its own: leave out --client-ca-file, --tls-cert-file and --cert-dir")]
    NoAuthority,
    /// The client cannot be made.
    #[error("a client of the test server: {0}")]
    Client(#[source] Box<dyn StdError + Send + Sync>),
}

/// An API server in this process. It ends when the value is dropped.
pub struct TestServer {
    client: Client,
    kubeconfig: String,
    running: Option<Running>,
    runtime: Option<Runtime>,
}

/// The configuration of a [`TestServer`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    flags: Vec<String>,
}

impl Builder {
    /// Adds a flag of `kube-admission-proxy serve`, in the form `--name=value`.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Starts the server, and waits until it is ready.
    ///
    /// # Errors
    /// If a flag is invalid, or the system refuses what the server needs.
    pub async fn start(self) -> Result<TestServer, Error> {
        // Another provider that the test has installed stays.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let flags = FLAGS.iter().map(|flag| (*flag).to_owned()).chain(self.flags);
        let mut config = cli::configuration(flags).map_err(refused)?;
        config.serving.health_address = None;
        if let kube_admission_proxy::internal::config::Upstream::Embedded(embedded) = &mut config.upstream {
            embedded.kubeconfig = None;
        }
        // The server needs several threads, and those of a test may stop its time.
        let runtime = RuntimeBuilder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(refused)?;
        let starting = runtime.spawn(async move {
            let running = app::start(config).await.map_err(refused)?;
            let ready = async {
                while !running.is_ready() {
                    sleep(READY_INTERVAL).await;
                }
            };
            timeout(START_TIMEOUT, ready).await.map_err(|_| Error::NotReady)?;
            Ok(running)
        });
        let mut server = Starting { runtime: Some(runtime) };
        let running = starting.await.map_err(refused)??;
        let kubeconfig = kubeconfig(&running, ADMINISTRATOR, ADMINISTRATORS)?;
        let client = client(&kubeconfig).await?;
        Ok(TestServer { client, kubeconfig, running: Some(running), runtime: server.runtime.take() })
    }
}

/// A runtime that must not be dropped inside another one.
struct Starting {
    runtime: Option<Runtime>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl TestServer {
    /// Starts a server with kube-apiserver's default plugins, in which every user may do everything.
    ///
    /// # Errors
    /// If the system refuses what the server needs.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// The configuration of a server, with flags.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of an administrator (`system:masters`).
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client of a user in one group; without `--authorization-mode=RBAC` every user may do everything.
    ///
    /// # Errors
    /// If the names cannot be written in a certificate.
    pub async fn client_as(&self, user: &str, group: &str) -> Result<Client, Error> {
        let running = self.running.as_ref().ok_or(Error::NoAuthority)?;
        client(&kubeconfig(running, user, group)?).await
    }

    /// A kubeconfig of an administrator, as JSON, which is YAML too.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The address of the API, served over TLS.
    pub fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().and_then(Running::address)
    }

    /// Stops the server: requests in flight may finish within a second.
    pub async fn stop(mut self) {
        if let (Some(running), Some(runtime)) = (self.running.take(), &self.runtime) {
            // A failed listener has stopped too.
            let _ = runtime.spawn(running.stop()).await;
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

fn refused(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::Start(reason.into())
}

fn kubeconfig(running: &Running, user: &str, group: &str) -> Result<String, Error> {
    let made = running.kubeconfig(user, group).map_err(|reason| Error::Client(reason.into()))?;
    made.ok_or(Error::NoAuthority)
}

async fn client(kubeconfig: &str) -> Result<Client, Error> {
    let failed = |reason: Box<dyn StdError + Send + Sync>| Error::Client(reason);
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|reason| failed(reason.into()))?;
    let options = KubeConfigOptions::default();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|reason| failed(reason.into()))?;
    Client::try_from(config).map_err(|reason| failed(reason.into()))
}
