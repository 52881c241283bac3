//! Certificates in files and in the kubeconfig: their ends, and bundles whose members are no authorities.

use super::{Config, Finding};
use crate::config::Upstream;
use crate::server::health::Unhealthy;
use crate::x509::{Certificate, Roots};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::Kubeconfig;
use std::path::{Path, PathBuf};

/// Days before the end of a certificate in which there is a warning.
const DAYS: i64 = 7;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A PEM text, and where it is from.
struct Source {
    place: String,
    pem: Result<Vec<u8>, Unhealthy>,
    /// Whether the certificates are authorities of clients.
    is_bundle: bool,
}

impl Source {
    fn file(flag: &str, path: &Path, is_bundle: bool) -> Self {
        let pem = std::fs::read(path).map_err(Unhealthy::of);
        Self { place: format!("{flag}={}", path.display()), pem, is_bundle }
    }
}

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let now = Timestamp::now().as_second();
    sources(config).iter().flat_map(|source| examined(source, now)).collect()
}

fn sources(config: &Config) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |flag: &str, path: Option<&PathBuf>, is_bundle| {
        sources.extend(path.map(|path| Source::file(flag, path, is_bundle)));
    };
    let authentication = &config.authentication;
    add("--tls-cert-file", config.serving.certificate.as_ref().map(|files| &files.certificate), false);
    add("--client-ca-file", authentication.client_ca.as_ref(), true);
    add("--requestheader-client-ca-file", authentication.request_header.as_ref().map(|of| &of.client_ca), true);
    if let Some(front_end) = &config.front_end {
        add("--webhook-tls-cert-file", front_end.certificate.as_ref().map(|files| &files.certificate), false);
        add("--webhook-client-ca-file", front_end.client_ca.as_ref(), true);
    }
    if let Upstream::Remote { kubeconfig, .. } = &config.upstream {
        sources.extend(of_kubeconfig(kubeconfig));
    }
    sources
}

/// The certificates of the current context. A kubeconfig that cannot be read is a finding about the address.
fn of_kubeconfig(path: &Path) -> Vec<Source> {
    let Ok(kubeconfig) = Kubeconfig::read_from(path) else { return Vec::new() };
    let named = kubeconfig.current_context.as_deref();
    let context = kubeconfig.contexts.iter().find(|context| Some(&*context.name) == named);
    let Some(context) = context.and_then(|context| context.context.as_ref()) else { return Vec::new() };
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    let mut sources = Vec::new();
    let mut add = |field: &str, data: Option<&String>, file: Option<&String>| {
        let place = format!("{}: {field}", path.display());
        let pem = match (data, file) {
            (Some(data), _) => STANDARD.decode(data.trim()).map_err(Unhealthy::of),
            (None, Some(file)) => std::fs::read(file).map_err(|error| Unhealthy::of(format_args!("{file}: {error}"))),
            (None, None) => return,
        };
        sources.push(Source { place, pem, is_bundle: false });
    };
    if let Some(cluster) = cluster.and_then(|cluster| cluster.cluster.as_ref()) {
        add(
            "certificate-authority",
            cluster.certificate_authority_data.as_ref(),
            cluster.certificate_authority.as_ref(),
        );
    }
    if let Some(user) = user.and_then(|user| user.auth_info.as_ref()) {
        add("client-certificate", user.client_certificate_data.as_ref(), user.client_certificate.as_ref());
    }
    sources
}

fn examined(source: &Source, now: i64) -> Vec<Finding> {
    const CHECK: &str = "certificates";
    let place = &source.place;
    let unusable = |why: &str| Finding::failure(CHECK, format!("{place}: {why}"), "correct the file");
    let pem = match &source.pem {
        Ok(pem) => pem,
        Err(why) => return vec![unusable(&why.to_string())],
    };
    let roots = match Roots::parse(pem) {
        Ok(roots) => roots,
        Err(why) => return vec![unusable(&why.to_string())],
    };
    let mut findings: Vec<Finding> =
        roots.certificates().iter().filter_map(|certificate| ending(place, certificate, now)).collect();
    if source.is_bundle {
        findings.extend(roots.certificates().iter().filter(|certificate| !certificate.may_sign()).map(|certificate| {
            let found = format!("{place}: {} is of no authority: it admits its own holder alone", name(certificate));
            let advice =
                "remove the certificate, unless its holder is meant; put the certificate of its authority there";
            Finding::warning("bundles", found, advice)
        }));
    }
    if findings.is_empty() {
        let ends = roots.certificates().iter().map(Certificate::not_after).min().unwrap_or_default();
        findings.push(Finding::ok(CHECK, format!("{place}: valid until {}", time(ends))));
    }
    findings
}

/// A finding about a certificate that has ended, or ends soon.
fn ending(place: &str, certificate: &Certificate, now: i64) -> Option<Finding> {
    let ends = certificate.not_after();
    let found = |verb: &str| format!("{place}: {} {verb} at {}", name(certificate), time(ends));
    let advice = "renew it; the proxy reads a changed file without a restart";
    if ends < now {
        Some(Finding::failure("certificates", found("ended"), advice))
    } else if ends - now < DAYS * DAY_SECONDS {
        Some(Finding::warning("certificates", found("ends"), advice))
    } else {
        None
    }
}

fn name(certificate: &Certificate) -> String {
    match &*certificate.name().common_name {
        "" => certificate.identifier(),
        name => format!("{name:?}"),
    }
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Outcome;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    fn source(ca: IsCa, is_bundle: bool) -> (Source, i64) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "c");
        params.is_ca = ca;
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        (Source { place: "f".to_owned(), pem: Ok(pem.into_bytes()), is_bundle }, 1_893_456_000)
    }

    #[test]
    fn the_end_of_a_certificate_is_announced() {
        let (source, end) = source(IsCa::Ca(BasicConstraints::Unconstrained), true);
        for (before, outcome, text) in [
            (30 * DAY_SECONDS, Outcome::Ok, "f: valid until 2030-01-01T00:00:00Z"),
            (DAY_SECONDS, Outcome::Warning, "f: \"c\" ends at 2030-01-01T00:00:00Z"),
            (-1, Outcome::Failure, "f: \"c\" ended at 2030-01-01T00:00:00Z"),
        ] {
            let findings = examined(&source, end - before);
            assert_eq!((findings.len(), findings[0].outcome, &*findings[0].found), (1, outcome, text));
        }
    }

    #[test]
    fn a_certificate_of_no_authority_counts_in_a_bundle_only() {
        for (is_bundle, outcome) in [(true, Outcome::Warning), (false, Outcome::Ok)] {
            let (source, end) = source(IsCa::ExplicitNoCa, is_bundle);
            assert_eq!(examined(&source, end - 30 * DAY_SECONDS)[0].outcome, outcome);
        }
        let empty = Source { place: "f".to_owned(), pem: Ok(Vec::new()), is_bundle: true };
        assert_eq!(examined(&empty, 0)[0].outcome, Outcome::Failure);
    }
}
