//! The Status of a failed request in protobuf, for clients that accept protobuf: decodes the API server's, encodes the proxy's.

use super::wire::{DELIMITED, Reader, VARINT, WireError};
use super::{Envelope, InvalidProtobuf, Losses, MAGIC};
use crate::status::{Cause, Details, Status};

/// Decodes a Status.
///
/// # Errors
/// If the body is no Status.
pub fn status(envelope: &Envelope<'_>) -> Result<Status, InvalidProtobuf> {
    if envelope.kind != "Status" {
        return Err(InvalidProtobuf::NoStatus);
    }
    let mut status = Status::failure(0, "", "");
    let mut reader = Reader(envelope.raw);
    while let Some(tag) = reader.tag("Status")? {
        match (tag.number, tag.wire_type) {
            (2, DELIMITED) => status.status = Losses::default().text(reader.delimited()?),
            (3, DELIMITED) => status.message = Losses::default().text(reader.delimited()?),
            (4, DELIMITED) => status.reason = Losses::default().text(reader.delimited()?),
            (5, DELIMITED) => status.details = Some(Box::new(details(reader.delimited()?)?)),
            (6, VARINT) => status.code = u16::try_from(reader.varint()?).unwrap_or_default(),
            _ => reader.skip(tag)?,
        }
    }
    Ok(status)
}

fn details(bytes: &[u8]) -> Result<Details, WireError> {
    let mut details = Details::default();
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("StatusDetails")? {
        match (tag.number, tag.wire_type) {
            (1, DELIMITED) => details.name = Losses::default().text(reader.delimited()?),
            (2, DELIMITED) => details.group = Losses::default().text(reader.delimited()?),
            (3, DELIMITED) => details.kind = Losses::default().text(reader.delimited()?),
            (4, DELIMITED) => details.causes.push(cause(reader.delimited()?)?),
            (5, VARINT) => details.retry_after_seconds = i32::try_from(reader.varint()?).unwrap_or_default(),
            (6, DELIMITED) => details.uid = Losses::default().text(reader.delimited()?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(details)
}

fn cause(bytes: &[u8]) -> Result<Cause, WireError> {
    let mut cause = Cause::default();
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("StatusCause")? {
        match (tag.number, tag.wire_type) {
            (1, DELIMITED) => cause.reason = Losses::default().text(reader.delimited()?),
            (2, DELIMITED) => cause.message = Losses::default().text(reader.delimited()?),
            (3, DELIMITED) => cause.field = Losses::default().text(reader.delimited()?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(cause)
}

/// Encodes a Status, byte for byte as kube-apiserver does.
pub fn encode_status(status: &Status) -> Vec<u8> {
    // The fields of ListMeta: selfLink, resourceVersion and continue.
    let metadata = [delimited(1, b""), delimited(2, b""), delimited(3, b"")].concat();
    let mut message = [
        delimited(1, &metadata),
        delimited(2, status.status.as_bytes()),
        delimited(3, status.message.as_bytes()),
        delimited(4, status.reason.as_bytes()),
    ]
    .concat();
    if let Some(details) = &status.details {
        message.extend(delimited(5, &encode_details(details)));
    }
    message.extend(number(6, status.code.into()));
    let type_meta = [delimited(1, status.api_version.as_bytes()), delimited(2, status.kind.as_bytes())].concat();
    [MAGIC.to_vec(), delimited(1, &type_meta), delimited(2, &message), delimited(3, b""), delimited(4, b"")].concat()
}

fn encode_details(details: &Details) -> Vec<u8> {
    let mut message = [&details.name, &details.group, &details.kind].iter().zip(1..).fold(
        Vec::new(),
        |mut message, (text, field)| {
            message.extend(delimited(field, text.as_bytes()));
            message
        },
    );
    for cause in &details.causes {
        let parts = [&cause.reason, &cause.message, &cause.field];
        let cause: Vec<u8> =
            parts.iter().zip(1..).flat_map(|(text, field)| delimited(field, text.as_bytes())).collect();
        message.extend(delimited(4, &cause));
    }
    message.extend(number(5, i64::from(details.retry_after_seconds).cast_unsigned()));
    message.extend(delimited(6, details.uid.as_bytes()));
    message
}

fn delimited(field: u8, bytes: &[u8]) -> Vec<u8> {
    let mut written = vec![field << 3 | DELIMITED];
    varint(&mut written, bytes.len() as u64);
    written.extend_from_slice(bytes);
    written
}

fn number(field: u8, value: u64) -> Vec<u8> {
    let mut written = vec![field << 3 | VARINT];
    varint(&mut written, value);
    written
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::open;

    #[test]
    fn a_written_status_is_read_again() {
        let cause = Cause { reason: "FieldValueInvalid".into(), message: "no".repeat(100), field: "a.b".into() };
        let refusal = Status::invalid("apps", "Deployment", "x", "a.b: no", vec![cause]);
        let bytes = encode_status(&refusal);
        let read = status(&open(&bytes).unwrap()).unwrap();
        assert_eq!((read.code, &read.message, &read.reason), (422, &refusal.message, &refusal.reason));
        assert_eq!(read.details.unwrap().causes, refusal.details.unwrap().causes);
    }
}
