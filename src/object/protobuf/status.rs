//! The Status that an API server refuses with, where the client asked for protobuf.

use super::wire::{DELIMITED, Reader, VARINT};
use super::{Envelope, Losses};
use crate::status::{Cause, Details, Status};

/// Reads a Status: code, message, reason and causes, which is what a decision can rest on.
///
/// # Errors
/// When it is none.
pub fn status(envelope: &Envelope<'_>) -> Result<Status, String> {
    if envelope.kind != "Status" {
        return Err("it is no Status".to_owned());
    }
    let mut status = Status::failure(0, "", "");
    let mut reader = Reader(envelope.raw);
    while let Some(tag) = reader.tag("Status")? {
        match (tag.number, tag.wire_type) {
            (3, DELIMITED) => status.message = Losses::default().text(reader.delimited()?),
            (4, DELIMITED) => status.reason = Losses::default().text(reader.delimited()?),
            (5, DELIMITED) => status.details = Some(Box::new(details(reader.delimited()?)?)),
            (6, VARINT) => status.code = u16::try_from(reader.varint()?).unwrap_or_default(),
            _ => reader.skip(tag)?,
        }
    }
    Ok(status)
}

fn details(bytes: &[u8]) -> Result<Details, String> {
    let mut details = Details::default();
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("StatusDetails")? {
        match (tag.number, tag.wire_type) {
            (4, DELIMITED) => details.causes.push(cause(reader.delimited()?)?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(details)
}

fn cause(bytes: &[u8]) -> Result<Cause, String> {
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
