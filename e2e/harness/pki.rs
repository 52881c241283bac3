//! Certificates of this run: one authority for servers and clients, one for front proxies.

use super::folder;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

/// The certificates of this run.
pub fn pki() -> &'static Pki {
    static PKI: OnceLock<Pki> = OnceLock::new();
    PKI.get_or_init(Pki::new)
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Certificate authorities, and the certificates that they signed.
pub struct Pki {
    folder: PathBuf,
    authority: Authority,
    front_proxy_authority: Authority,
    /// The certificate of every server.
    pub server: Pair,
    /// The key that signs service account tokens, with the public key in place of a certificate.
    pub service_accounts: Pair,
    clients: Mutex<HashMap<(String, String), Arc<Pair>>>,
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: PathBuf,
}

impl Pki {
    fn new() -> Self {
        let folder = folder("pki");
        let authority = Authority::new(&folder, "ca");
        let front_proxy_authority = Authority::new(&folder, "front-proxy-ca");
        let server = authority.server(&folder, "server");
        let key = KeyPair::generate().unwrap();
        let service_accounts =
            Pair { certificate: folder.join("service-accounts.pub"), key: folder.join("service-accounts.key") };
        fs::write(&service_accounts.certificate, key.public_key_pem()).unwrap();
        fs::write(&service_accounts.key, key.serialize_pem()).unwrap();
        Self { folder, authority, front_proxy_authority, server, service_accounts, clients: Mutex::default() }
    }

    /// The authority of servers and clients.
    pub fn ca(&self) -> &PathBuf {
        &self.authority.pem
    }

    /// The authority of front proxies.
    pub fn front_proxy_ca(&self) -> &PathBuf {
        &self.front_proxy_authority.pem
    }

    /// The certificate of a user, in a group unless `group` is empty.
    pub fn client(&self, name: &str, group: &str) -> Arc<Pair> {
        let mut clients = self.clients.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let file = format!("client-{}", clients.len());
        let made = clients.entry((name.to_owned(), group.to_owned()));
        made.or_insert_with(|| Arc::new(self.authority.client(name, group, &self.folder, &file))).clone()
    }

    /// The certificate of a front proxy.
    pub fn front_proxy(&self, name: &str) -> Pair {
        self.front_proxy_authority.client(name, "", &self.folder, &format!("front-proxy-{name}"))
    }

    /// Another certificate for servers.
    pub fn another_server(&self) -> Pair {
        self.authority.server(&self.folder, "another-server")
    }

    /// A certificate for a server of this name.
    pub fn server_of(&self, name: &str) -> Pair {
        self.authority.server_of(vec![name.to_owned()], &self.folder, &format!("server-{name}"))
    }

    /// A certificate for this user that no server trusts, and the authority that signed it.
    pub fn stranger(&self, name: &str) -> (Pair, PathBuf) {
        self.stranger_of(name, "")
    }

    /// As [`stranger`](Self::stranger), in a group unless `group` is empty.
    pub fn stranger_of(&self, name: &str, group: &str) -> (Pair, PathBuf) {
        let authority = Authority::new(&self.folder, &format!("strangers-of-{name}"));
        (authority.client(name, group, &self.folder, &format!("stranger-{name}")), authority.pem)
    }
}

impl Authority {
    fn new(folder: &std::path::Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let pem = folder.join(format!("{name}.crt"));
        fs::write(&pem, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn server(&self, folder: &std::path::Path, file: &str) -> Pair {
        self.server_of(
            // Two names address tenants, one is that of a webhook behind a Service.
            [
                "127.0.0.1",
                "localhost",
                "kubernetes",
                "kubernetes.default.svc",
                "blue.example.com",
                "green.example.com",
                "hook.default.svc",
            ]
            .map(String::from)
            .into(),
            folder,
            file,
        )
    }

    fn server_of(&self, names: Vec<String>, folder: &std::path::Path, file: &str) -> Pair {
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, folder, file)
    }

    fn client(&self, name: &str, group: &str, folder: &std::path::Path, file: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !group.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, folder, file)
    }

    fn issue(&self, params: CertificateParams, folder: &std::path::Path, file: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let pair = Pair { certificate: folder.join(format!("{file}.crt")), key: folder.join(format!("{file}.key")) };
        fs::write(&pair.certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}
