//! The wire format of protocol buffers, with the errors of Go's generated code.

/// A length-delimited field.
pub const DELIMITED: u8 = 2;
/// A field of variable length.
pub const VARINT: u8 = 0;
/// A field of four bytes.
pub const FIXED32: u8 = 5;
/// A field of eight bytes.
pub const FIXED64: u8 = 1;

const END: &str = "unexpected EOF";
const NEGATIVE_LENGTH: &str = "proto: negative length found during unmarshaling";

/// The number and wire type that precede a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The number of the field, at least 1.
    pub number: u32,
    /// The wire type: [`VARINT`], [`FIXED64`], [`DELIMITED`], [`FIXED32`], or 3 and 4 for groups.
    pub wire_type: u8,
}

impl Tag {
    /// Checks the wire type of a field.
    ///
    /// # Errors
    /// If the field's wire type is not the expected one.
    pub fn expect(self, wire_type: u8, field: &str) -> Result<(), String> {
        if self.wire_type == wire_type {
            return Ok(());
        }
        Err(format!("proto: wrong wireType = {} for field {field}", self.wire_type))
    }
}

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Whether the message ends here.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Reads the tag of the next field of a message; `None` at the end. `message` is the name of the message, for errors.
    ///
    /// # Errors
    /// If the bytes are no tag of a field.
    pub fn tag(&mut self, message: &str) -> Result<Option<Tag>, String> {
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

    /// Reads a value of variable length.
    ///
    /// # Errors
    /// If the value is cut off or has more than 64 bits.
    pub fn varint(&mut self) -> Result<u64, String> {
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

    /// Reads a length and as many bytes.
    ///
    /// # Errors
    /// If the bytes are cut off, or the length is negative.
    pub fn delimited(&mut self) -> Result<&'a [u8], String> {
        let length = i64::try_from(self.varint()?).map_err(|_| NEGATIVE_LENGTH)?;
        self.take(usize::try_from(length).map_err(|_| NEGATIVE_LENGTH)?)
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    /// If the bytes are cut off.
    pub fn fixed64(&mut self) -> Result<u64, String> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| END)?))
    }

    /// Reads four bytes.
    ///
    /// # Errors
    /// If the bytes are cut off.
    pub fn fixed32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| END)?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(END)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Skips the value of an unknown field, groups included (`skipGenerated`).
    ///
    /// # Errors
    /// If the value is cut off or has no known wire type.
    pub fn skip(&mut self, tag: Tag) -> Result<(), String> {
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
