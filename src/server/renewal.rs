//! A serving certificate with an authority of its own, both renewed before they end.

use super::certificates::{Authority, alternative_names};
use super::tls;
use jiff::Timestamp;
use std::collections::BTreeSet;
use x509_parser::pem::Pem;

/// The name of the authority in its certificate.
const AUTHORITY: &str = "kube-admission-proxy";
/// The lifetime of the authority, in days. Clients hold its certificate.
const AUTHORITY_DAYS: i32 = 3650;
/// The lifetime of the serving certificate, in days.
const SERVING_DAYS: i32 = 90;

/// A serving certificate and the authority that issued it, all as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Renewable {
    /// The certificates that clients trust: the authority, and before the end of an authority's lifetime the one before it.
    pub(crate) authorities_pem: String,
    /// The private key of the authority, PKCS#8.
    pub(crate) authority_key_pem: String,
    /// The serving certificate.
    pub(crate) certificate_pem: String,
    /// The private key of the serving certificate, PKCS#8.
    pub(crate) key_pem: String,
}

/// The reason why no certificate can be issued.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct RenewalError(#[from] rcgen::Error);

impl Renewable {
    /// Creates an authority, and a serving certificate for these DNS names and IP addresses.
    ///
    /// # Errors
    /// If a name is neither a DNS name nor an IP address.
    pub(crate) fn create(names: &[String]) -> Result<Self, RenewalError> {
        Self::issued(&Authority::create(AUTHORITY, AUTHORITY_DAYS)?, "", names)
    }

    /// Returns what takes the place of these certificates, or `None` while they can be used: two thirds of their lifetimes have not passed, and
    /// the serving certificate has all of these names. A new serving certificate keeps the names of the old one, so that replicas with
    /// different names do not replace each other's certificates.
    ///
    /// # Errors
    /// If a name is neither a DNS name nor an IP address.
    pub(crate) fn renewed(&self, names: &[String], now: Timestamp) -> Result<Option<Self>, RenewalError> {
        let authority = Certificate::parse(&self.authorities_pem);
        let Some(authority) = authority.filter(|authority| !authority.is_due(now)) else {
            // Clients with the certificate of the authority before trust the proxy as long as the other replicas serve with it.
            let before = Certificate::parse(&self.authorities_pem).filter(|authority| authority.ends > now);
            let before = before.map(|authority| authority.pem).unwrap_or_default();
            return Self::issued(&Authority::create(AUTHORITY, AUTHORITY_DAYS)?, &before, names).map(Some);
        };
        let names: BTreeSet<&String> = names.iter().collect();
        let usable = tls::certified_key(self.certificate_pem.as_bytes(), self.key_pem.as_bytes()).is_ok();
        let serving = Certificate::parse(&self.certificate_pem).filter(|_| usable);
        let wanted = match &serving {
            Some(serving) if !serving.is_due(now) && names.iter().all(|name| serving.names.contains(*name)) => {
                return Ok(None);
            }
            Some(serving) if !serving.is_due(now) => names.into_iter().chain(&serving.names).collect(),
            _ => names,
        };
        let Ok(restored) = Authority::restore(AUTHORITY, &authority.pem, &self.authority_key_pem) else {
            return Self::create(&wanted.into_iter().cloned().collect::<Vec<_>>()).map(Some);
        };
        let wanted: Vec<String> = wanted.into_iter().cloned().collect();
        let issued = restored.serving_for(&wanted, SERVING_DAYS)?;
        let (certificate_pem, key_pem) = (issued.certificate_pem, issued.key_pem);
        Ok(Some(Self { certificate_pem, key_pem, ..self.clone() }))
    }

    fn issued(authority: &Authority, before: &str, names: &[String]) -> Result<Self, RenewalError> {
        let issued = authority.serving_for(names, SERVING_DAYS)?;
        Ok(Self {
            authorities_pem: authority.pem() + before,
            authority_key_pem: authority.key_pem(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        })
    }
}

/// The facts about a certificate that decide about its renewal.
struct Certificate {
    pem: String,
    begins: Timestamp,
    ends: Timestamp,
    /// The DNS names and IP addresses.
    names: BTreeSet<String>,
}

impl Certificate {
    /// Parses the first certificate of a PEM text.
    fn parse(pem: &str) -> Option<Self> {
        let block = Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?;
        let certificate = block.parse_x509().ok()?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let names = alternative_names(&certificate).into_iter().collect();
        let end = pem.find(END)? + END.len();
        let pem = format!("{}\n", pem.get(..end)?.trim_start());
        let validity = certificate.validity();
        Some(Self { pem, begins: time(validity.not_before)?, ends: time(validity.not_after)?, names })
    }

    /// Whether two thirds of the lifetime have passed, or the lifetime has not begun.
    fn is_due(&self, now: Timestamp) -> bool {
        let (begins, ends, now) = (self.begins.as_second(), self.ends.as_second(), now.as_second());
        now < begins || now - begins >= (ends - begins) / 3 * 2
    }
}

/// The last line of a certificate in PEM.
const END: &str = "-----END CERTIFICATE-----";

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The time a number of days from now.
    fn after(days: i64) -> Timestamp {
        Timestamp::now() + (24 * days).hours()
    }

    #[test]
    fn certificates_are_kept_for_two_thirds_of_their_lifetime() {
        let names = names(&["proxy.example", "127.0.0.1", "::1"]);
        let first = Renewable::create(&names).unwrap();
        assert!(first.renewed(&names, after(0)).unwrap().is_none());
        assert!(first.renewed(&names, after(57)).unwrap().is_none());
        let second = first.renewed(&names, after(63)).unwrap().unwrap();
        assert_eq!(second.authorities_pem, first.authorities_pem);
        assert_ne!(second.certificate_pem, first.certificate_pem);
        tls::certified_key(second.certificate_pem.as_bytes(), second.key_pem.as_bytes()).unwrap();
    }

    #[test]
    fn a_new_authority_is_trusted_beside_the_one_before() {
        let names = names(&["proxy.example"]);
        let first = Renewable::create(&names).unwrap();
        let second = first.renewed(&names, after(2500)).unwrap().unwrap();
        assert!(second.authorities_pem.ends_with(&first.authorities_pem));
        assert_eq!(second.authorities_pem.matches(END).count(), 2);
        assert_ne!(second.authority_key_pem, first.authority_key_pem);
        let third = Renewable { ..first.clone() }.renewed(&names, after(4000)).unwrap().unwrap();
        assert_eq!(third.authorities_pem.matches(END).count(), 1, "an authority that has ended is trusted no longer");
    }

    #[test]
    fn a_missing_name_renews_the_certificate_which_keeps_the_other_names() {
        let first = Renewable::create(&names(&["one.example"])).unwrap();
        let second = first.renewed(&names(&["two.example", "10.0.0.1"]), after(0)).unwrap().unwrap();
        let all = names(&["one.example", "two.example", "10.0.0.1"]);
        assert!(second.renewed(&all, after(0)).unwrap().is_none());
        assert!(second.renewed(&names(&["one.example"]), after(0)).unwrap().is_none());
    }

    #[test]
    fn an_unreadable_certificate_is_made_anew() {
        let names = names(&["proxy.example"]);
        let whole = Renewable::create(&names).unwrap();
        for broken in [
            Renewable { authorities_pem: String::new(), ..whole.clone() },
            Renewable { certificate_pem: "x".into(), authority_key_pem: "x".into(), ..whole.clone() },
            Renewable { certificate_pem: "x".into(), ..whole.clone() },
            Renewable { key_pem: Renewable::create(&names).unwrap().key_pem, ..whole.clone() },
        ] {
            let made = broken.renewed(&names, after(0)).unwrap().unwrap();
            assert!(made.renewed(&names, after(0)).unwrap().is_none());
        }
    }
}
