//! The chains that a client may present, and their verdicts.

use super::*;
use crate::authn::{Authenticator, Config, RequestHeaderConfig};
use crate::user::ALL_AUTHENTICATED;
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn ca(name: &str) -> Issuer {
    CertifiedIssuer::self_signed(ca_params(name), KeyPair::generate().unwrap()).unwrap()
}

fn leaf(
    issuer: &Issuer,
    subject: &[(DnType, &str)],
    change: impl Fn(&mut CertificateParams),
) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    change(&mut params);
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
}

fn authority(issuers: &[&Issuer]) -> Arc<ArcSwap<CertificateAuthority>> {
    let pem: String = issuers.iter().map(|issuer| issuer.pem()).collect();
    Arc::new(ArcSwap::from_pointee(CertificateAuthority::parse(pem.as_bytes()).unwrap()))
}

fn connection(chain: &[&CertificateDer<'static>]) -> Connection {
    Connection {
        remote: ([127, 0, 0, 1], 1).into(),
        certificates: chain.iter().map(|certificate| (*certificate).clone()).collect(),
        kept: Default::default(),
        server_name: None,
        is_http2: false,
        state: Default::default(),
    }
}

fn nothing(_: &mut CertificateParams) {}

const ALICE: &[(DnType, &str)] = &[(DnType::CommonName, "alice")];

#[test]
fn common_name_is_the_user_and_organizations_are_the_groups() {
    let issuer = ca("ca");
    let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let subject = [(DnType::CommonName, "alice"), (DnType::OrganizationName, "dev"), (uid, "u1")];
    let leaf = leaf(&issuer, &subject, nothing);
    let user = authenticate(&authority(&[&issuer]).load_full(), &connection(&[&leaf])).unwrap().unwrap();
    assert_eq!((user.username.as_str(), user.uid.as_str()), ("alice", "u1"));
    assert_eq!(user.groups, ["dev", ALL_AUTHENTICATED]);
    let id = &user.extra["authentication.kubernetes.io/credential-id"][0];
    assert_eq!((id.len(), &id[..11]), (75, "X509SHA256="));
}

/// Made with `openssl req -x509 -subj /O=one/CN=first/O=two/CN=last`: rcgen keeps one attribute of a kind.
#[test]
fn the_last_common_name_and_every_organization_count() {
    const PEM: &[u8] = include_bytes!("testdata/several_names.pem");
    let leaf = CertificateDer::from_pem_slice(PEM).unwrap();
    let identity = identity(&leaf).unwrap();
    assert_eq!(identity.common_name, "last");
    assert_eq!(identity.user.unwrap().groups, ["one", "two", ALL_AUTHENTICATED]);
}

#[test]
fn a_certificate_without_common_name_is_nobodys() {
    let issuer = ca("ca");
    let leaf = leaf(&issuer, &[(DnType::OrganizationName, "dev")], nothing);
    assert_eq!(authenticate(&authority(&[&issuer]).load_full(), &connection(&[&leaf])), Ok(None));
}

#[test]
fn refuses_a_certificate_without_a_trusted_issuer() {
    let (issuer, other) = (ca("ca"), ca("ca"));
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    let server =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let table = [
        ("expired", leaf(&issuer, ALICE, expired)),
        ("not yet valid", leaf(&issuer, ALICE, future)),
        ("wrong issuer of the same name", leaf(&other, ALICE, nothing)),
        ("wrong usage", leaf(&issuer, ALICE, server)),
        ("garbage", CertificateDer::from(vec![1, 2, 3])),
    ];
    for (what, leaf) in table {
        assert!(authenticate(&authority(&[&issuer]).load_full(), &connection(&[&leaf])).is_err(), "{what}");
    }
    let no_usage = leaf(&issuer, ALICE, |params| params.extended_key_usages.clear());
    assert!(authenticate(&authority(&[&issuer]).load_full(), &connection(&[&no_usage])).unwrap().is_some());
}

#[test]
fn an_expired_root_is_not_trusted() {
    let mut params = ca_params("old");
    params.not_after = date_time_ymd(2020, 1, 1);
    let old = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let current = ca("current");
    let authority = authority(&[&old, &current]).load_full();
    assert!(authenticate(&authority, &connection(&[&leaf(&old, ALICE, nothing)])).is_err());
    assert!(authenticate(&authority, &connection(&[&leaf(&current, ALICE, nothing)])).unwrap().is_some());
}

#[test]
fn intermediates_come_with_the_leaf() {
    let root = ca("root");
    let middle = CertifiedIssuer::signed_by(ca_params("middle"), KeyPair::generate().unwrap(), &root).unwrap();
    let leaf = leaf(&middle, ALICE, nothing);
    let authority = authority(&[&root]).load_full();
    assert!(authenticate(&authority, &connection(&[&leaf])).is_err());
    assert!(authenticate(&authority, &connection(&[&leaf, middle.der()])).unwrap().is_some());
}

#[test]
fn another_bundle_makes_a_connection_prove_itself_again() {
    let (issuer, other) = (ca("ca"), ca("other"));
    let connection = connection(&[&leaf(&issuer, ALICE, nothing)]);
    let authority = authority(&[&issuer]);
    let first = authenticate(&authority.load_full(), &connection).unwrap().unwrap();
    let second = authenticate(&authority.load_full(), &connection).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &second), "verified twice");
    authority.store(Arc::new(CertificateAuthority::parse(other.pem().as_bytes()).unwrap()));
    assert!(authenticate(&authority.load_full(), &connection).is_err());
}

#[test]
fn refuses_a_bundle_without_certificates() {
    assert!(matches!(CertificateAuthority::parse(b""), Err(BundleError::Empty)));
    assert!(CertificateAuthority::parse(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
}

fn front_proxies(issuer: &Issuer) -> RequestHeaderConfig {
    let names = |name: &'static str| vec![HeaderName::from_static(name)];
    RequestHeaderConfig {
        ca: authority(&[issuer]),
        allowed_names: vec!["front-proxy".into()],
        username_headers: names("x-remote-user"),
        uid_headers: names("x-remote-uid"),
        group_headers: names("x-remote-group"),
        extra_prefixes: vec!["X-Remote-Extra-".into()],
    }
}

fn front_proxy_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-remote-user", "bob"),
        ("x-remote-group", "a"),
        ("x-remote-group", ""),
        ("x-remote-group", "b,c"),
        ("x-remote-extra-Acme.com%2fKey", "v"),
        ("x-remote-extra-%zz", "w"),
        ("accept", "x"),
    ] {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    headers
}

#[tokio::test]
async fn only_a_front_proxy_names_the_user() {
    let (clients, proxies) = (ca("clients"), ca("proxies"));
    let authenticator = Authenticator::new(Config {
        client_ca: Some(authority(&[&clients])),
        request_header: Some(front_proxies(&proxies)),
        anonymous: true,
        ..Config::default()
    });
    let ask = async |issuer: &Issuer, name: &str| {
        let mut headers = front_proxy_headers();
        let connection = connection(&[&leaf(issuer, &[(DnType::CommonName, name)], nothing)]);
        let found = authenticator.authenticate(&mut headers, &connection).await;
        (found.map(|found| found.user), headers)
    };
    let (user, headers) = ask(&proxies, "front-proxy").await;
    let user = user.unwrap();
    assert_eq!((user.username.as_str(), user.groups.join(" ")), ("bob", format!("a b,c {ALL_AUTHENTICATED}")));
    let extra: Vec<_> = user.extra.iter().map(|(key, values)| format!("{key}={}", values.join(" "))).collect();
    assert_eq!(extra, ["%zz=w", "acme.com/key=v"]);
    assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);

    let (user, headers) = ask(&clients, "front-proxy").await;
    assert_eq!(user.unwrap().username, "front-proxy");
    assert_eq!(headers.len(), 1);

    assert!(ask(&proxies, "somebody").await.0.is_err());
}

#[tokio::test]
async fn a_bad_certificate_is_not_anonymous() {
    let issuer = ca("ca");
    let authenticator =
        Authenticator::new(Config { client_ca: Some(authority(&[&issuer])), anonymous: true, ..Config::default() });
    let bad = connection(&[&leaf(&ca("other"), ALICE, nothing)]);
    assert!(authenticator.authenticate(&mut HeaderMap::new(), &bad).await.is_err());
    let none = connection(&[]);
    let mut headers = front_proxy_headers();
    let found = authenticator.authenticate(&mut headers, &none).await.unwrap();
    assert_eq!(*found.user, UserInfo::anonymous());
    assert_eq!(headers.len(), 1, "front-proxy headers without a front proxy");
}

#[test]
fn a_refusal_is_remembered_for_the_connection_until_the_authorities_change() {
    let (issuer, stranger) = (ca("ca"), ca("stranger"));
    let [good, bad] = [&issuer, &stranger].map(|issuer| leaf(issuer, ALICE, nothing));
    let authorities = authority(&[&issuer]);
    let mut connection = connection(&[&bad]);
    let refusal = authenticate(&authorities.load_full(), &connection).unwrap_err();
    // A real connection never changes its certificates: a second verification would accept these.
    connection.certificates = vec![good];
    assert_eq!(authenticate(&authorities.load_full(), &connection).unwrap_err(), refusal);
    assert!(authenticate(&authority(&[&issuer]).load_full(), &connection).unwrap().is_some());
}
