//! Keys and signatures of certificates (`parsePublicKey`, `checkSignature`). aws-lc-rs verifies.

use super::der::{self, Reader, constructed};
use super::{Malformed, malformed};
use aws_lc_rs::signature::{self as aws, ParsedPublicKey, UnparsedPublicKey, VerificationAlgorithm};
use bytes::Bytes;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 8];

/// The size of an RSA key in a presented certificate.
const MAX_RSA_BITS: usize = 8192;

/// A public key.
#[derive(Clone, Debug)]
pub(super) enum PublicKey {
    /// The key as PKCS #1 has it.
    Rsa(Bytes),
    /// The point, not compressed.
    Ec(Curve, Bytes),
    Ed25519(Bytes),
    /// A key of an unknown algorithm, of X25519 or of DSA, which verifies no signature.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    /// aws-lc-rs does not have it.
    P224,
    P256,
    P384,
    P521,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureAlgorithm {
    RsaPkcs1(Hash),
    RsaPss(Hash),
    Ecdsa(Hash),
    Ed25519,
    /// MD5 or SHA-1 (`InsecureAlgorithmError`).
    Insecure,
}

/// The reason why a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    /// The hash is MD5 or SHA-1.
    #[error("x509: cannot verify signature: insecure algorithm")]
    Insecure,
    /// The algorithm is not known.
    #[error("x509: cannot verify signature: algorithm unimplemented")]
    Unknown,
    /// The key is of another algorithm.
    #[error("x509: signature algorithm specifies another kind of public key")]
    OtherKey,
    /// The signature is not that of the key.
    #[error("x509: invalid signature")]
    Wrong,
}

impl PublicKey {
    /// Reads the value of a `SubjectPublicKeyInfo`.
    pub(super) fn parse(info: &[u8], shared: &impl Fn(&[u8]) -> Bytes) -> Result<Self, Malformed> {
        let mut info = Reader::new(info);
        let algorithm = info.read(der::SEQUENCE).ok_or(malformed("malformed public key algorithm identifier"))?;
        let (oid, parameters) = identifier(algorithm)?;
        let (unused, key) = info.bits().ok_or(malformed("malformed subjectPublicKey"))?;
        // Go shifts the bits of the algorithms that it knows. No key is written like this.
        if unused != 0 && [RSA, EC, ED25519, X25519, DSA].contains(&oid) {
            return Err(malformed("malformed subjectPublicKey"));
        }
        match oid {
            RSA if parameters != [der::NULL, 0] => Err(malformed("RSA key missing NULL parameters")),
            RSA => rsa(key).map(|_| Self::Rsa(shared(key))).ok_or(malformed("invalid RSA public key")),
            EC => {
                let curve = Reader::new(parameters).oid().ok_or(malformed("invalid ECDSA parameters"))?;
                let curve = Curve::of(curve).ok_or(malformed("unsupported elliptic curve"))?;
                let is_point = key.first() == Some(&4) && key.len() == 1 + 2 * curve.bytes() && curve.has(key);
                is_point.then(|| Self::Ec(curve, shared(key))).ok_or(malformed("invalid ECDSA public key"))
            }
            ED25519 if !parameters.is_empty() => Err(malformed("Ed25519 key encoded with illegal parameters")),
            ED25519 if key.len() != 32 => Err(malformed("wrong Ed25519 public key size")),
            ED25519 => Ok(Self::Ed25519(shared(key))),
            X25519 if !parameters.is_empty() => Err(malformed("X25519 key encoded with illegal parameters")),
            X25519 if key.len() != 32 => Err(malformed("invalid X25519 public key")),
            DSA if !is_dsa(key, parameters) => Err(malformed("invalid DSA public key")),
            _ => Ok(Self::Other),
        }
    }

    /// Whether the key is not larger than TLS allows in a presented certificate (`tls.checkKeySize`).
    pub(super) fn has_presentable_size(&self) -> bool {
        match self {
            Self::Rsa(key) => rsa(key).is_some_and(|(modulus, _)| {
                let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
                let bits =
                    modulus.get(zeros).map_or(0, |first| 8 * (modulus.len() - zeros) - first.leading_zeros() as usize);
                bits <= MAX_RSA_BITS
            }),
            _ => true,
        }
    }

    /// Whether Go verifies signatures of the key: the exponent of RSA has at most 31 bits (`checkPublicKeySize`).
    pub(super) fn is_usable(&self) -> bool {
        match self {
            Self::Rsa(key) => rsa(key).is_some_and(|(_, exponent)| i32::try_from(exponent).is_ok()),
            _ => true,
        }
    }

    /// Verifies a signature (`checkSignature`). Go verifies RSA with keys of 1024 bits as well; for SHA-384 and PSS aws-lc-rs does not.
    pub(super) fn verify(
        &self,
        algorithm: Option<SignatureAlgorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), SignatureError> {
        use SignatureAlgorithm::{Ecdsa, Ed25519, Insecure, RsaPkcs1, RsaPss};
        let algorithm = match algorithm {
            None => return Err(SignatureError::Unknown),
            Some(Insecure) => return Err(SignatureError::Insecure),
            Some(algorithm) => algorithm,
        };
        let (known, key): (&'static dyn VerificationAlgorithm, _) = match (self, algorithm) {
            (Self::Rsa(key), RsaPkcs1(Hash::Sha256)) => (&aws::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, key),
            (Self::Rsa(key), RsaPkcs1(Hash::Sha384)) => (&aws::RSA_PKCS1_2048_8192_SHA384, key),
            (Self::Rsa(key), RsaPkcs1(Hash::Sha512)) => (&aws::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, key),
            (Self::Rsa(key), RsaPss(Hash::Sha256)) => (&aws::RSA_PSS_2048_8192_SHA256, key),
            (Self::Rsa(key), RsaPss(Hash::Sha384)) => (&aws::RSA_PSS_2048_8192_SHA384, key),
            (Self::Rsa(key), RsaPss(Hash::Sha512)) => (&aws::RSA_PSS_2048_8192_SHA512, key),
            (Self::Ec(curve, key), Ecdsa(hash)) => (ecdsa(*curve, hash)?, key),
            (Self::Ed25519(key), Ed25519) => (&aws::ED25519, key),
            (Self::Other, _) => return Err(SignatureError::Unknown),
            _ => return Err(SignatureError::OtherKey),
        };
        if !self.is_usable() {
            return Err(SignatureError::Wrong);
        }
        UnparsedPublicKey::new(known, key).verify(message, signature).map_err(|_| SignatureError::Wrong)
    }
}

fn ecdsa(curve: Curve, hash: Hash) -> Result<&'static dyn VerificationAlgorithm, SignatureError> {
    Ok(match (curve, hash) {
        (Curve::P224, _) => return Err(SignatureError::Unknown),
        (Curve::P256, Hash::Sha256) => &aws::ECDSA_P256_SHA256_ASN1,
        (Curve::P256, Hash::Sha384) => &aws::ECDSA_P256_SHA384_ASN1,
        (Curve::P256, Hash::Sha512) => &aws::ECDSA_P256_SHA512_ASN1,
        (Curve::P384, Hash::Sha256) => &aws::ECDSA_P384_SHA256_ASN1,
        (Curve::P384, Hash::Sha384) => &aws::ECDSA_P384_SHA384_ASN1,
        (Curve::P384, Hash::Sha512) => &aws::ECDSA_P384_SHA512_ASN1,
        (Curve::P521, Hash::Sha256) => &aws::ECDSA_P521_SHA256_ASN1,
        (Curve::P521, Hash::Sha384) => &aws::ECDSA_P521_SHA384_ASN1,
        (Curve::P521, Hash::Sha512) => &aws::ECDSA_P521_SHA512_ASN1,
    })
}

impl Curve {
    fn of(oid: &[u8]) -> Option<Self> {
        match oid {
            [0x2b, 0x81, 4, 0, 0x21] => Some(Self::P224),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7] => Some(Self::P256),
            [0x2b, 0x81, 4, 0, 0x22] => Some(Self::P384),
            [0x2b, 0x81, 4, 0, 0x23] => Some(Self::P521),
            _ => None,
        }
    }

    /// True if an uncompressed point is on the curve (`ecdsa.ParseUncompressedPublicKey`). A key on P-224 verifies nothing here, so that its
    /// points are not checked.
    fn has(self, point: &[u8]) -> bool {
        let algorithm = match self {
            Self::P224 => return true,
            Self::P256 => &aws::ECDSA_P256_SHA256_ASN1,
            Self::P384 => &aws::ECDSA_P384_SHA384_ASN1,
            Self::P521 => &aws::ECDSA_P521_SHA512_ASN1,
        };
        ParsedPublicKey::new(algorithm, point).is_ok()
    }

    /// The size of a coordinate.
    fn bytes(self) -> usize {
        match self {
            Self::P224 => 28,
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

impl Hash {
    /// The hash of an identifier, which has no parameters, or NULL.
    fn of(identifier: Reader<'_>) -> Option<Self> {
        match self::identifier(identifier).ok()? {
            (oid, [] | [der::NULL, 0]) => match oid {
                [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1] => Some(Self::Sha256),
                [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2] => Some(Self::Sha384),
                [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3] => Some(Self::Sha512),
                _ => None,
            },
            _ => None,
        }
    }

    fn bytes(self) -> i64 {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

impl SignatureAlgorithm {
    /// Reads the value of an identifier (`getSignatureAlgorithmFromAI`); `None` for an unknown algorithm.
    pub(super) fn parse(value: &[u8]) -> Result<Option<Self>, Malformed> {
        let (oid, parameters) = identifier(Reader::new(value))?;
        Ok(match oid {
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, kind] => match kind {
                4 | 5 => Some(Self::Insecure),
                10 => pss(parameters).map(Self::RsaPss),
                11 => Some(Self::RsaPkcs1(Hash::Sha256)),
                12 => Some(Self::RsaPkcs1(Hash::Sha384)),
                13 => Some(Self::RsaPkcs1(Hash::Sha512)),
                _ => None,
            },
            [0x2b, 0x0e, 3, 2, 0x1d] | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1] => Some(Self::Insecure),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2] => Some(Self::Ecdsa(Hash::Sha256)),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3] => Some(Self::Ecdsa(Hash::Sha384)),
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4] => Some(Self::Ecdsa(Hash::Sha512)),
            ED25519 if parameters.is_empty() => Some(Self::Ed25519),
            _ => None,
        })
    }
}

/// Reads the parameters of PSS. One hash is used for the message and the mask, and the salt has its length.
fn pss(parameters: &[u8]) -> Option<Hash> {
    let mut sequence = Reader::new(parameters).read(der::SEQUENCE)?;
    let hash = Hash::of(sequence.read(constructed(0))?.read(der::SEQUENCE)?)?;
    let mut mask = sequence.read(constructed(1))?.read(der::SEQUENCE)?;
    if mask.oid()? != MGF1 || Hash::of(mask.read(der::SEQUENCE)?)? != hash {
        return None;
    }
    if sequence.read(constructed(2))?.small_integer(der::INTEGER)? != hash.bytes() {
        return None;
    }
    match sequence.optional(constructed(3))? {
        None => Some(hash),
        Some(mut trailer) => (trailer.small_integer(der::INTEGER)? == 1).then_some(hash),
    }
}

/// Reads the value of an `AlgorithmIdentifier` (`parseAI`): its object identifier, and its parameters with their tag.
fn identifier(mut value: Reader<'_>) -> Result<(&[u8], &[u8]), Malformed> {
    let oid = value.oid().ok_or(malformed("malformed OID"))?;
    if value.is_empty() {
        return Ok((oid, &[]));
    }
    Ok((oid, value.any().ok_or(malformed("malformed parameters"))?.whole))
}

/// True if a DSA key and its parameters are positive integers.
fn is_dsa(key: &[u8], parameters: &[u8]) -> bool {
    let is_positive = |reader: &mut Reader<'_>| {
        reader.integer().is_some_and(|value| value.first().is_some_and(|first| first & 0x80 == 0) && value != [0])
    };
    let mut parameters = Reader::new(parameters).read(der::SEQUENCE);
    is_positive(&mut Reader::new(key))
        && parameters.as_mut().is_some_and(|parameters| (0..3).all(|_| is_positive(parameters)))
}

/// Reads an RSA key: a positive modulus and a positive exponent.
fn rsa(key: &[u8]) -> Option<(&[u8], i64)> {
    let mut key = Reader::new(key).read(der::SEQUENCE)?;
    let modulus = key.integer()?;
    let exponent = key.small_integer(der::INTEGER)?;
    let is_positive = modulus.first()? & 0x80 == 0 && modulus != [0];
    (is_positive && exponent > 0).then_some((modulus, exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::KeyPair;

    /// The value of a `SubjectPublicKeyInfo` with this algorithm, parameters and bits.
    fn info(oid: &[u8], parameters: &[u8], unused: u8, key: &[u8]) -> Vec<u8> {
        let element = |tag: u8, value: &[u8]| -> Vec<u8> {
            let length = u16::try_from(value.len()).unwrap().to_be_bytes();
            let long: &[u8] = if value.len() < 128 { &length[1..] } else { &[0x82, length[0], length[1]] };
            let long = if (128..256).contains(&value.len()) { &[0x81, length[1]][..] } else { long };
            [&[tag][..], long, value].concat()
        };
        let identifier = [element(6, oid), parameters.to_vec()].concat();
        [element(der::SEQUENCE, &identifier), element(3, &[&[unused][..], key].concat())].concat()
    }

    #[test]
    fn keys_are_parsed_as_by_go() {
        const CURVES: [(&[u8], &rcgen::SignatureAlgorithm); 2] = [
            (&[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], &rcgen::PKCS_ECDSA_P256_SHA256),
            (&[6, 5, 0x2b, 0x81, 4, 0, 0x22], &rcgen::PKCS_ECDSA_P384_SHA384),
        ];
        let accepts = |oid: &[u8], parameters: &[u8], unused: u8, key: &[u8]| {
            PublicKey::parse(&info(oid, parameters, unused, key), &Bytes::copy_from_slice).is_ok()
        };
        for (curve, algorithm) in CURVES {
            let point = KeyPair::generate_for(algorithm).unwrap().public_key_raw().to_vec();
            assert!(accepts(EC, curve, 0, &point));
            let mut beside = point.clone();
            *beside.last_mut().unwrap() ^= 1;
            assert!(!accepts(EC, curve, 0, &beside) && !accepts(EC, &[der::NULL, 0], 0, &point));
            let compressed = [&[2 + (point.last().unwrap() & 1)], &point[1..=point.len() / 2]].concat();
            assert!(!accepts(EC, curve, 0, &compressed) && !accepts(EC, curve, 1, &point));
        }
        let dsa: &[u8] = &[0x30, 9, 2, 1, 7, 2, 1, 3, 2, 1, 2];
        for (oid, parameters, key, wanted) in [
            (X25519, &[][..], &[9; 32][..], true),
            (X25519, &[], &[9; 31], false),
            (X25519, &[der::NULL, 0], &[9; 32], false),
            (DSA, dsa, &[2, 1, 5], true),
            (DSA, dsa, &[2, 1, 0], false),
            (DSA, dsa, &[2, 1, 0xff], false),
            (DSA, dsa, &[4, 1, 5], false),
            (DSA, &[0x30, 6, 2, 1, 7, 2, 1, 3], &[2, 1, 5], false),
            (DSA, &[0x30, 9, 2, 1, 7, 2, 1, 0, 2, 1, 2], &[2, 1, 5], false),
            (DSA, &[], &[2, 1, 5], false),
            (MGF1, &[], &[1], true),
        ] {
            assert_eq!(accepts(oid, parameters, 0, key), wanted, "{oid:?} {parameters:?} {key:?}");
        }
        // Go does not read the key of an unknown algorithm.
        assert!(accepts(MGF1, &[], 4, &[0xf0]) && !accepts(X25519, &[], 1, &[8; 32]));
    }
}
