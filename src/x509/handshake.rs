//! The parts of a TLS handshake that need a certificate's key, for certificates that rustls does not parse, such as those of version 1.

use super::{Certificate, VerifyError};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, InconsistentKeys, OtherError, PeerMisbehaved};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;

/// Parses a certificate of the other side.
///
/// # Errors
/// If Go would refuse the handshake because of the certificate.
pub(crate) fn parse(certificate: &CertificateDer<'_>) -> Result<Certificate, Error> {
    let parsed = Certificate::parse(certificate).map_err(|error| {
        tracing::debug!(%error, "certificate not parsed");
        CertificateError::BadEncoding
    })?;
    if !parsed.key.has_presentable_size() {
        return Err(Error::General("the certificate has an RSA key of more than 8192 bits".to_owned()));
    }
    Ok(parsed)
}

/// Parses a certificate whose key signs a handshake.
fn parse_signer(certificate: &CertificateDer<'_>) -> Result<Certificate, Error> {
    let certificate = parse(certificate)?;
    match certificate.key.is_usable() {
        true => Ok(certificate),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// Returns the error of a handshake that is refused because of a certificate.
#[must_use]
pub(crate) fn refusal(why: VerifyError) -> Error {
    let time = |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    let error = match why {
        VerifyError::UnknownAuthority(_) => CertificateError::UnknownIssuer,
        VerifyError::Expired(now, not_after) => {
            CertificateError::ExpiredContext { time: time(now), not_after: time(not_after) }
        }
        VerifyError::NotYetValid(now, not_before) => {
            CertificateError::NotValidYetContext { time: time(now), not_before: time(not_before) }
        }
        VerifyError::Usage => CertificateError::InvalidPurpose,
        why => CertificateError::Other(OtherError(Arc::new(why))),
    };
    error.into()
}

/// Verifies the signature of a TLS 1.2 handshake by the certificate's key.
///
/// # Errors
/// If the signature is not that of the key.
pub(crate) fn verify_tls12_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = parse_signer(certificate)?;
    let (identifier, key) = certificate.key_parts().ok_or(CertificateError::BadEncoding)?;
    // As `rustls::crypto::verify_tls12_signature` does for a certificate that it parses.
    let of_scheme = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme);
    let (_, of_scheme) = of_scheme.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let of_key = of_scheme.iter().find(|algorithm| *algorithm.public_key_alg_id() == *identifier);
    let of_key = of_key.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    match of_key.verify_signature(key, message, signature.signature()) {
        Ok(()) => Ok(HandshakeSignatureValid::assertion()),
        Err(_) => Err(CertificateError::BadSignature.into()),
    }
}

/// Verifies the signature of a TLS 1.3 handshake by the certificate's key.
///
/// # Errors
/// If the signature is not that of the key.
pub(crate) fn verify_tls13_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(parse_signer(certificate)?.key_info().to_vec());
    verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
}

/// Joins a certificate chain, leaf first, with the leaf's key (`tls.X509KeyPair`).
///
/// # Errors
/// If the leaf cannot be parsed, or has another key, or the key is not supported.
pub(crate) fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let key = provider.key_provider.load_private_key(key)?;
    let leaf = parse(chain.first().ok_or(Error::NoCertificatesPresented)?)?;
    match key.public_key() {
        Some(public) if public.as_ref() != leaf.key_info() => Err(InconsistentKeys::KeyMismatch.into()),
        _ => Ok(CertifiedKey::new(chain, key)),
    }
}
