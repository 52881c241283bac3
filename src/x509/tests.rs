//! What no recorded chain shows: bounds, and changed bytes.

use super::recorded::{NOW, case};
use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn parse(der: &[u8]) -> Certificate {
    Certificate::parse(der).unwrap()
}

fn roots(certificates: &[&[u8]]) -> Roots {
    let mut roots = Roots::default();
    certificates.iter().for_each(|certificate| roots.add(parse(certificate)));
    roots
}

#[test]
fn a_client_chooses_no_number_of_signatures() {
    let root = CertifiedIssuer::self_signed(params("root"), KeyPair::generate().unwrap()).unwrap();
    let middle = || CertifiedIssuer::signed_by(params("middle"), KeyPair::generate().unwrap(), &root).unwrap();
    let (real, other) = (middle(), middle());
    let mut leaf = params("alice");
    leaf.is_ca = IsCa::NoCa;
    let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &real).unwrap();
    // Each has its own serial number, so that none is the same certificate as another.
    let decoys: Vec<Certificate> = (0..120u64)
        .map(|serial| {
            let mut params = params("middle");
            params.serial_number = Some(serial.into());
            parse(params.signed_by(other.key(), &root).unwrap().der())
        })
        .collect();
    let verify = |count: usize| {
        let chain = [leaf.der().as_ref()].map(parse).into_iter().chain(decoys.iter().take(count).cloned());
        let chain: Vec<_> = chain.chain([parse(real.der())]).collect();
        roots(&[root.der()]).verify(&chain, Purpose::ClientAuth, NOW)
    };
    assert!(verify(50).is_ok());
    assert_eq!(verify(120), Err(VerifyError::TooManyCandidates));
}

#[test]
fn no_changed_byte_is_accepted() {
    let recorded = case("an intermediate certificate");
    let bundle: Vec<&[u8]> = recorded.bundle.iter().map(|root| &**root).collect();
    let roots = roots(&bundle);
    let verify = |chain: &[Vec<u8>]| {
        let chain = chain.iter().map(|certificate| Certificate::parse(certificate).ok()).collect::<Option<Vec<_>>>();
        chain.is_some_and(|chain| roots.verify(&chain, Purpose::ClientAuth, NOW).is_ok())
    };
    let chain: Vec<Vec<u8>> = recorded.chain.iter().map(|certificate| certificate.to_vec()).collect();
    assert!(verify(&chain));
    for certificate in 0..chain.len() {
        for at in 0..chain[certificate].len() {
            let mut changed = chain.clone();
            changed[certificate][at] ^= 1;
            assert!(!verify(&changed), "byte {at} of certificate {certificate}");
            changed[certificate].truncate(at);
            assert!(!verify(&changed), "{at} bytes of certificate {certificate}");
        }
    }
}

#[test]
fn a_chain_is_valid_as_long_as_all_its_certificates() {
    let recorded = case("a leaf of an authority");
    let roots = roots(&[&recorded.bundle[0]]);
    let leaf = [parse(&recorded.chain[0])];
    let (begin, end) = (946_684_800, 4_102_444_800);
    for (now, wanted) in [(begin - 1, false), (begin, true), (NOW, true), (end, true), (end + 1, false)] {
        let validity = roots.verify(&leaf, Purpose::ClientAuth, now);
        assert_eq!(validity.is_ok(), wanted, "{now}");
        assert!(validity.is_ok_and(|validity| validity.holds(now)) == wanted, "{now}");
    }
    let expired = roots.verify(&leaf, Purpose::ClientAuth, end + 1).unwrap_err().to_string();
    let wanted = "x509: certificate has expired or is not yet valid: current time 2100-01-01T00:00:01Z is after 2100-01-01T00:00:00Z";
    assert_eq!(expired, wanted);
}

#[test]
fn texts_of_a_certificate_are_escaped_in_errors() {
    let recorded = case("an unknown authority with the name of a trusted one");
    let roots = roots(&[&recorded.bundle[0]]);
    let chain: Vec<_> = recorded.chain.iter().map(|certificate| parse(certificate)).collect();
    let error = roots.verify(&chain, Purpose::ClientAuth, NOW).unwrap_err().to_string();
    let begin =
        "x509: certificate signed by unknown authority (possibly because of \"x509: invalid signature\" while trying";
    assert!(error.starts_with(begin), "{error}");
    assert_eq!(chain[0].identifier().split('=').next(), Some("SN"));
}

#[test]
fn a_purpose_is_not_another() {
    for (name, client, server) in [
        ("a leaf for servers", false, true),
        ("a leaf of an authority", true, false),
        ("a leaf for servers and clients", true, true),
        ("a leaf without extended usage", true, true),
    ] {
        let recorded = case(name);
        let (roots, chain) = (roots(&[&recorded.bundle[0]]), [parse(&recorded.chain[0])]);
        let accepts = |purpose| roots.verify(&chain, purpose, NOW).is_ok();
        assert_eq!((accepts(Purpose::ClientAuth), accepts(Purpose::ServerAuth)), (client, server), "{name}");
    }
}

#[test]
fn no_bytes_of_a_certificate_panic() {
    let certificates = super::recorded::cases().into_iter().flat_map(|case| case.chain);
    let mut parsed = 0;
    for (offset, certificate) in certificates.enumerate() {
        // Each certificate at other places.
        for at in (offset % 23..certificate.len()).step_by(23) {
            for byte in [0, 0x30, 0x7f, 0x80, 0xff] {
                let mut changed = certificate.to_vec();
                changed[at] = byte;
                parsed += usize::from(Certificate::parse(&changed).is_ok());
            }
        }
    }
    assert!(parsed > 100, "{parsed}");
}
