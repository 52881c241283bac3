//! Certificates that the process issues itself.

use crate::names::is_dns_1123_subdomain;
use jiff::{Timestamp, ToSpan};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls_pki_types::CertificateDer;
use std::net::IpAddr;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The lifetime of certificates that are never renewed, in days.
const DAYS: i32 = 365;

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate_pem: String,
    /// The private key of the certificate, PKCS#8.
    pub(crate) key_pem: String,
}

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// Creates an authority of this name, valid for a year.
    ///
    /// # Errors
    /// If no key can be generated.
    pub(crate) fn generate(common_name: &str) -> Result<Self, Error> {
        Self::create(common_name, DAYS)
    }

    /// Creates an authority of this name, valid for a number of days.
    ///
    /// # Errors
    /// If no key can be generated.
    pub(crate) fn create(common_name: &str, days: i32) -> Result<Self, Error> {
        let (parameters, key) = (of_an_authority(common_name, days)?, KeyPair::generate()?);
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(parameters, key), pem })
    }

    /// Returns the authority that [`Authority::create`] made with this name, from its certificate and [`Authority::key_pem`].
    ///
    /// # Errors
    /// If the key cannot be read.
    pub(crate) fn restore(common_name: &str, pem: &str, key_pem: &str) -> Result<Self, Error> {
        let issuer = Issuer::new(of_an_authority(common_name, DAYS)?, KeyPair::from_pem(key_pem)?);
        Ok(Self { issuer, pem: pem.to_owned() })
    }

    /// Returns the authority's certificate, for clients to trust.
    pub(crate) fn pem(&self) -> String {
        self.pem.clone()
    }

    /// Returns the authority's private key, PKCS#8.
    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Whether the certificates that the authority issues now expire before the authority.
    pub(crate) fn is_fresh(&self) -> bool {
        let Ok((_, pem)) = parse_x509_pem(self.pem.as_bytes()) else { return false };
        let Ok(certificate) = pem.parse_x509() else { return false };
        let left = certificate.validity().not_after.timestamp() - Timestamp::now().as_second();
        left > i64::from(DAYS) * 24 * 3600
    }

    /// Issues a serving certificate for these DNS names and IP addresses, valid for a year.
    ///
    /// # Errors
    /// If a name is neither a DNS name nor an IP address.
    pub(crate) fn serving(&self, names: &[String]) -> Result<Issued, Error> {
        self.serving_for(names, DAYS)
    }

    /// Issues a serving certificate for these DNS names and IP addresses, valid for a number of days.
    ///
    /// # Errors
    /// If a name is neither a DNS name nor an IP address.
    pub(super) fn serving_for(&self, names: &[String], days: i32) -> Result<Issued, Error> {
        let common_name = names.first().map_or("localhost", String::as_str);
        let mut parameters = parameters(common_name, names, days)?;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(parameters)
    }

    /// Issues a client certificate for this user and this group, valid for a year.
    ///
    /// # Errors
    /// If a name cannot be written in a certificate.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<Issued, Error> {
        let mut parameters = parameters(user, &[], DAYS)?;
        parameters.distinguished_name.push(DnType::OrganizationName, group);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(parameters)
    }

    fn issue(&self, mut parameters: CertificateParams) -> Result<Issued, Error> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn of_an_authority(common_name: &str, days: i32) -> Result<CertificateParams, Error> {
    let mut parameters = parameters(common_name, &[], days)?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

fn parameters(common_name: &str, names: &[String], days: i32) -> Result<CertificateParams, Error> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.use_authority_key_identifier_extension = true;
    let today = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |date: jiff::civil::Date| {
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    // A day early, for clients whose clock is behind.
    parameters.not_before = day(today.yesterday().unwrap_or(today));
    parameters.not_after = day(today.saturating_add(days.days()));
    Ok(parameters)
}

/// Returns the DNS names and IP addresses among the alternative names of a certificate.
pub(super) fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    names.map_or(&[][..], |names| &names.value.general_names).iter().filter_map(name).collect()
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(bytes) => Some(IpAddr::from(bytes).to_string()),
            Err(_) => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
        },
        _ => None,
    }
}

/// Returns the server names of the first certificate of a chain (`getCertificateNames`): its common name if that is a domain, and its DNS names.
pub(super) fn server_names(chain: &[CertificateDer<'_>]) -> Vec<String> {
    let Some(Ok((_, certificate))) = chain.first().map(|der| X509Certificate::from_der(der)) else { return Vec::new() };
    let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
    let is_domain = |name: &&str| !is_address(name) && is_dns_1123_subdomain(name.strip_prefix("*.").unwrap_or(name));
    let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok()).filter(is_domain);
    let names = alternative_names(&certificate).into_iter().filter(|name| !is_address(name));
    common.map(str::to_owned).into_iter().chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_certificate_carries_user_and_group_and_is_valid_now() {
        let authority = Authority::generate("test").unwrap();
        let issued = authority.client("jane", "system:masters").unwrap();
        let (_, pem) = parse_x509_pem(issued.certificate_pem.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert!(certificate.validity().is_valid());
        let subject = certificate.subject();
        assert_eq!(subject.iter_common_name().next().unwrap().as_str(), Ok("jane"));
        let groups: Vec<_> = subject.iter_organization().map(|group| group.as_str().unwrap()).collect();
        assert_eq!(groups, ["system:masters"]);
    }

    #[test]
    fn a_serving_certificate_names_hosts_and_addresses() {
        let authority = Authority::generate("test").unwrap();
        let issued = authority.serving(&["localhost".into(), "127.0.0.1".into()]).unwrap();
        let (_, pem) = parse_x509_pem(issued.certificate_pem.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 2);
    }
}
