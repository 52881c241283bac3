//! The wire format of protocol buffers, with the errors of Go's generated code.

/// A length-delimited field.
pub(crate) const DELIMITED: u8 = 2;
/// A field of variable length.
pub(crate) const VARINT: u8 = 0;
/// A field of four bytes.
pub(crate) const FIXED32: u8 = 5;
/// A field of eight bytes.
pub(crate) const FIXED64: u8 = 1;

const END: &str = "unexpected EOF";
const NEGATIVE_LENGTH: &str = "proto: negative length found during unmarshaling";

/// The number and wire type that precede a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) wire_type: u8,
}

impl Tag {
    /// # Errors
    /// If the field's wire type is not the expected one.
    pub(crate) fn expect(self, wire_type: u8, field: &str) -> Result<(), String> {
        if self.wire_type == wire_type {
            return Ok(());
        }
        Err(format!("proto: wrong wireType = {} for field {field}", self.wire_type))
    }
}

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Reads the tag of the named message's next field; `None` at the end of the message.
    pub(crate) fn tag(&mut self, message: &str) -> Result<Option<Tag>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let wire = self.varint()?;
        let wire_type = (wire & 7) as u8;
        if wire_type == 4 {
            return Err(format!("proto: {message}: wiretype end group for non-group"));
        }
        // Go truncates the number to 32 bits before the check.
        let number = (wire >> 3) as i32;
        match u32::try_from(number) {
            Ok(number @ 1..) => Ok(Some(Tag { number, wire_type })),
            _ => Err(format!("proto: {message}: illegal tag {number} (wire type {wire})")),
        }
    }

    pub(crate) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(END)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    /// Reads a field with a length prefix.
    pub(crate) fn delimited(&mut self) -> Result<&'a [u8], String> {
        let length = i64::try_from(self.varint()?).map_err(|_| NEGATIVE_LENGTH)?;
        self.take(usize::try_from(length).map_err(|_| NEGATIVE_LENGTH)?)
    }

    pub(crate) fn fixed64(&mut self) -> Result<u64, String> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| END)?))
    }

    pub(crate) fn fixed32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| END)?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(END)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Skips an unknown field, groups too (`skipGenerated`).
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), String> {
        let mut wire_type = tag.wire_type;
        let mut groups = 0_usize;
        loop {
            match wire_type {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                DELIMITED => drop(self.delimited()?),
                3 => groups += 1,
                4 => groups = groups.checked_sub(1).ok_or("proto: unexpected end of group")?,
                FIXED32 => drop(self.take(4)?),
                other => return Err(format!("proto: illegal wireType {other}")),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }
}
