//! Writes the kubeconfig with which a client reaches the proxy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The data with which a client reaches the proxy as one user.
pub(crate) struct WrittenKubeconfig<'a> {
    /// `https://host:port`.
    pub(crate) server: &'a str,
    /// The authorities of the server's certificate, as PEM.
    pub(crate) certificate_authority: &'a str,
    /// The client's certificate, as PEM.
    pub(crate) client_certificate: &'a str,
    /// The client's key, as PEM.
    pub(crate) client_key: &'a str,
}

/// The name of the cluster, the user and the context in the kubeconfig.
const NAME: &str = "kube-admission-proxy";

/// Replaces the file with a kubeconfig, which only its owner can read. A concurrent reader sees the old file or the new one.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(path: &Path, kubeconfig: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    // Another user may have created a file of that name, and could still read it.
    if let Err(error) = fs::remove_file(beside)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    file.write_all(kubeconfig.as_bytes())?;
    fs::rename(beside, path)
}

impl WrittenKubeconfig<'_> {
    /// Returns the kubeconfig as JSON, which is YAML too.
    pub(crate) fn text(&self) -> String {
        let data = |pem: &str| STANDARD.encode(pem);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": {
                "server": self.server,
                "certificate-authority-data": data(self.certificate_authority),
            }}],
            "users": [{"name": NAME, "user": {
                "client-certificate-data": data(self.client_certificate),
                "client-key-data": data(self.client_key),
            }}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
            "current-context": NAME,
        });
        format!("{config:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_client_can_read_it_and_others_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/kubeconfig");
        let kubeconfig = WrittenKubeconfig {
            server: "https://127.0.0.1:6443",
            certificate_authority: "ca",
            client_certificate: "certificate",
            client_key: "key",
        };
        write(&path, &kubeconfig.text()).unwrap();
        write(&path, &kubeconfig.text()).unwrap();

        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let read = kube::config::Kubeconfig::read_from(&path).unwrap();
        assert_eq!(read.current_context.as_deref(), Some(NAME));
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(
            read.auth_infos[0].auth_info.as_ref().unwrap().client_certificate_data.as_deref(),
            Some("Y2VydGlmaWNhdGU=")
        );
    }
}
