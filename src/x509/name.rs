//! Distinguished names (`parseName`, `pkix.Name.FillFromRDNSequence`).

use super::der::{self, Reader};
use super::{Malformed, malformed};

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// The attribute with the user's UID (`asn1.X509UID`): 1.3.6.1.4.1.57683.2.
const UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];

/// The attributes of a subject that name a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name {
    /// The last common name.
    pub(crate) common_name: String,
    /// All organizations.
    pub(crate) organizations: Vec<String>,
    /// All UIDs.
    pub(crate) uids: Vec<String>,
}

impl Name {
    pub(super) fn parse(raw: &[u8]) -> Result<Self, Malformed> {
        let mut name = Self::default();
        let mut sequence = Reader::new(raw).read(der::SEQUENCE).ok_or(malformed("invalid RDNSequence"))?;
        while !sequence.is_empty() {
            let mut set = sequence.read(der::SET).ok_or(malformed("invalid RDNSequence"))?;
            while !set.is_empty() {
                let invalid = malformed("invalid RDNSequence: invalid attribute");
                let mut attribute = set.read(der::SEQUENCE).ok_or(invalid)?;
                let kind = attribute.oid().ok_or(malformed("invalid RDNSequence: invalid attribute type"))?;
                let value = attribute.any().and_then(|value| text(value.tag, value.value));
                let value = value.ok_or(malformed("invalid RDNSequence: invalid attribute value"))?;
                match kind {
                    COMMON_NAME => name.common_name = value,
                    ORGANIZATION => name.organizations.push(value),
                    UID => name.uids.push(value),
                    _ => {}
                }
            }
        }
        Ok(name)
    }
}

/// Reads a text of any of the ASN.1 string types (`parseASN1String`).
fn text(tag: u8, value: &[u8]) -> Option<String> {
    let ascii = |is_allowed: fn(u8) -> bool| {
        let is_valid = value.iter().all(|byte| is_allowed(*byte));
        is_valid.then(|| value.iter().map(|byte| char::from(*byte)).collect())
    };
    match tag {
        // Read as Latin-1, as everybody does.
        der::T61_STRING => ascii(|_| true),
        der::PRINTABLE_STRING => ascii(|byte| byte.is_ascii_alphanumeric() || b"'()+,-./ :=?*&".contains(&byte)),
        der::UTF8_STRING => std::str::from_utf8(value).ok().map(str::to_owned),
        der::IA5_STRING => ascii(|byte| byte.is_ascii()),
        der::NUMERIC_STRING => ascii(|byte| byte.is_ascii_digit() || byte == b' '),
        der::BMP_STRING => {
            let value = value.strip_suffix(&[0, 0]).filter(|_| value.len().is_multiple_of(2)).unwrap_or(value);
            let units = value.chunks(2).map(|unit| <[u8; 2]>::try_from(unit).ok().map(u16::from_be_bytes));
            // A surrogate is no character.
            let character = |unit: u16| match unit {
                0xfffe | 0xffff | 0xfdd0..=0xfdef => None,
                unit => char::from_u32(u32::from(unit)),
            };
            units.map(|unit| character(unit?)).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_go() {
        for (tag, value, wanted) in [
            (der::PRINTABLE_STRING, &b"a*&'(),-./:=? Z9"[..], Some("a*&'(),-./:=? Z9")),
            (der::PRINTABLE_STRING, b"a@b", None),
            (der::PRINTABLE_STRING, b"a_b", None),
            (der::UTF8_STRING, "ä".as_bytes(), Some("ä")),
            (der::UTF8_STRING, b"\xff", None),
            (der::T61_STRING, b"\xe4", Some("ä")),
            (der::IA5_STRING, b"a@b", Some("a@b")),
            (der::IA5_STRING, b"\xe4", None),
            (der::NUMERIC_STRING, b"1 2", Some("1 2")),
            (der::NUMERIC_STRING, b"1a", None),
            (der::BMP_STRING, b"\0a\0\xe4", Some("aä")),
            (der::BMP_STRING, b"\0a\0\0", Some("a")),
            (der::BMP_STRING, b"\0a\0", None),
            (der::BMP_STRING, b"\xd8\x00\xdc\x00", None),
            (der::OCTET_STRING, b"a", None),
        ] {
            assert_eq!(text(tag, value).as_deref(), wanted, "{tag} {value:x?}");
        }
    }
}
