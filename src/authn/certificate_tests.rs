//! The chains that a client may present, and their verdicts.

use super::*;
use crate::authn::{Authenticator, Config, RequestHeaderConfig, Schemes};
use crate::metrics::Registry;
use crate::sharer::Sharing;
use crate::user::ALL_AUTHENTICATED;
use crate::x509::{BundleError, recorded};
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustls_pki_types::pem::PemObject;

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

fn authenticate(authority: &Arc<CertificateAuthority>, connection: &Connection) -> Outcome {
    super::authenticate(authority, connection, None)
}

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
    let parsed = Certificate::parse(&leaf).unwrap();
    let user = user(parsed.name(), &leaf).unwrap().unwrap();
    assert_eq!(user.username, "last");
    assert_eq!(user.groups, ["one", "two", ALL_AUTHENTICATED]);
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
    let authenticator = Authenticator::new(
        Schemes::new(Config {
            client_ca: Some(authority(&[&clients])),
            request_header: Some(front_proxies(&proxies)),
            anonymous: true,
            ..Config::default()
        }),
        &Sharing::ByUser,
        None,
    );
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
    let authenticator = Authenticator::new(
        Schemes::new(Config { client_ca: Some(authority(&[&issuer])), anonymous: true, ..Config::default() }),
        &Sharing::ByUser,
        None,
    );
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

/// The recorded chains that kube-apiserver accepts and the proxy does not: aws-lc-rs does not verify the signature, or the verification knows no
/// policies. docs/src/differences.md names them.
const REFUSED: [&str; 4] = [
    "a root with the key P224",
    "a leaf signed with SHA384WithRSA and the key 1024",
    "a leaf signed with SHA256WithRSAPSS and the key 1024",
    "an explicit policy is required, and there is one",
];

/// Whether the handshake, which parses the certificates, is refused; else the user, or `None` for a 401.
fn recorded_answer(authority: &CertificateAuthority, chain: &[CertificateDer<'static>]) -> Option<Option<UserInfo>> {
    if chain.iter().any(|certificate| Certificate::parse(certificate).is_err()) {
        return None;
    }
    let verified = verify(authority, &chain[0], chain, recorded::NOW);
    let user = verified.and_then(|verified| verified.identity.user.clone()).ok().flatten();
    Some(user.map(Arc::unwrap_or_clone))
}

#[test]
fn certificates_are_accepted_by_the_rules_of_kube_apiserver() {
    let cases = recorded::cases();
    assert!(cases.len() >= 200, "{}", cases.len());
    let bundle = |certificates: &[CertificateDer<'static>]| {
        let mut roots = CertificateAuthority::default();
        certificates.iter().for_each(|root| roots.add(Certificate::parse(root).unwrap()));
        roots
    };
    // No two cases have authorities of one name, so that each case has the same answer with the authorities of all others.
    let all = bundle(&cases.iter().flat_map(|case| case.bundle.clone()).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for case in &cases {
        let wanted = match case.code {
            0 => None,
            401 => Some(None),
            201 if REFUSED.contains(&case.name.as_str()) => Some(None),
            201 => {
                let (username, uid, groups) = (case.user.clone(), case.uid.clone(), case.groups.clone());
                Some(Some(UserInfo { username, uid, groups, extra: BTreeMap::new() }))
            }
            code => panic!("{}: {code}", case.name),
        };
        for authority in [&bundle(&case.bundle), &all] {
            let mut answer = recorded_answer(authority, &case.chain);
            if let Some(Some(user)) = &mut answer {
                user.extra.clear();
            }
            if answer != wanted {
                wrong.push(format!("{}: {answer:?} instead of {wanted:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(REFUSED.iter().all(|name| cases.iter().any(|case| case.name == *name && case.code == 201)));
}

fn tenant_names() -> TenantNames {
    let set = |name: &str| BTreeSet::from([name.to_owned()]);
    TenantNames { tenant: "blue".into(), users: set("bea"), groups: set("team-blue") }
}

#[test]
fn an_authority_of_a_tenant_gives_no_names_of_others() {
    let issuer = ca("blue");
    let of = |names| TenantAuthority { authority: authority(&[&issuer]).load_full(), names };
    let (shared, own) = (of(Some(tenant_names())), of(None));
    let uid = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let ask = |authority: &TenantAuthority, name: &str, group: &str| {
        let subject = [(DnType::CommonName, name), (DnType::OrganizationName, group), (uid(), "u1")];
        let found = of_tenant(authority, &connection(&[&leaf(&issuer, &subject, nothing)]));
        found.map(|user| user.map(|user| format!("{} {:?} {}", user.username, user.groups, user.uid)))
    };
    let user = |text: &str| Ok(Some(text.to_owned()));
    let authenticated = "\"system:authenticated\"";
    for (name, group, wanted) in [
        ("bea", "team-blue", format!("bea [\"team-blue\", {authenticated}] ")),
        ("olga", "team-blue", format!("tenant:blue:olga [\"team-blue\", {authenticated}] ")),
        ("bea", "platform", format!("bea [{authenticated}] ")),
        ("tenant:green:bea", "team-blue ", format!("tenant:blue:tenant:green:bea [{authenticated}] ")),
    ] {
        assert_eq!(ask(&shared, name, group), user(&wanted), "{name} {group}");
    }
    assert_eq!(ask(&own, "olga", "platform"), user(&format!("olga [\"platform\", {authenticated}] u1")));
    for authority in [&shared, &own] {
        for (name, group) in
            [("system:admin", "a"), ("a", "system:masters"), ("a", " system:masters"), ("\n\tsystem:a", "a")]
        {
            assert!(ask(authority, name, group).is_err(), "{name:?} {group:?}");
        }
    }
}

#[tokio::test]
async fn certificates_are_counted() {
    let registry = Registry::new();
    let (issuer, stranger) = (ca("ca"), ca("stranger"));
    let metrics = Some(Metrics::of(&registry).unwrap());
    let client_ca = Some(authority(&[&issuer]));
    let authenticator =
        Authenticator::new(Schemes::new(Config { client_ca, metrics, ..Config::default() }), &Sharing::ByUser, None);
    for chain in [vec![leaf(&issuer, ALICE, nothing)], vec![leaf(&stranger, ALICE, nothing)], vec![]] {
        let connection = connection(&chain.iter().collect::<Vec<_>>());
        _ = authenticator.authenticate(&mut HeaderMap::new(), &connection).await;
    }
    let served = registry.gather();
    let of = |name: &str| served.iter().find(|family| family.name() == name).unwrap().get_metric();
    let attempts = of("authentication_attempts").iter();
    let attempts: Vec<_> =
        attempts.map(|metric| (metric.get_label()[0].value(), metric.get_counter().get_value())).collect();
    assert_eq!(attempts, [("error", 1.0), ("failure", 1.0), ("success", 1.0)]);
    assert_eq!(of("apiserver_client_certificate_expiration_seconds")[0].get_histogram().get_sample_count(), 2);
    assert_eq!(of("authenticated_user_requests")[0].get_label()[0].value(), "other");
}
