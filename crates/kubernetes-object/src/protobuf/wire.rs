//! The wire format of protocol buffers, with the errors of Go's generated code.

/// A length-delimited field.
pub const DELIMITED: u8 = 2;
/// A field of variable length.
pub const VARINT: u8 = 0;
/// A field of four bytes.
pub const FIXED32: u8 = 5;
/// A field of eight bytes.
pub const FIXED64: u8 = 1;

/// The reason why bytes are no message, with the text of Go's generated code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// `io.ErrUnexpectedEOF`
    #[error("unexpected EOF")]
    End,
    /// `ErrIntOverflowGenerated`
    #[error("proto: integer overflow")]
    Overflow,
    /// `ErrInvalidLengthGenerated`
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// `ErrUnexpectedEndOfGroupGenerated`
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    /// A message ends as a group does.
    #[error("proto: {message}: wiretype end group for non-group")]
    EndOfMessage {
        /// The name of the message.
        message: String,
    },
    /// No field can have the number.
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    FieldNumber {
        /// The name of the message.
        message: String,
        /// The number.
        number: i32,
        /// The tag with the number and the wire type.
        wire: u64,
    },
    /// A known field has another wire type.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongType {
        /// The name of the field.
        field: String,
        /// The wire type.
        wire_type: u8,
    },
    /// An unknown field has no known wire type.
    #[error("proto: illegal wireType {0}")]
    UnknownType(u8),
}

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
    pub fn expect(self, wire_type: u8, field: &str) -> Result<(), WireError> {
        if self.wire_type == wire_type {
            return Ok(());
        }
        Err(WireError::WrongType { field: field.to_owned(), wire_type: self.wire_type })
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
    pub fn tag(&mut self, message: &str) -> Result<Option<Tag>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let wire = self.varint()?;
        let wire_type = (wire & 7) as u8;
        if wire_type == 4 {
            return Err(WireError::EndOfMessage { message: message.to_owned() });
        }
        // Go truncates the number to 32 bits before the check.
        let number = (wire >> 3) as i32;
        match u32::try_from(number) {
            Ok(number @ 1..) => Ok(Some(Tag { number, wire_type })),
            _ => Err(WireError::FieldNumber { message: message.to_owned(), number, wire }),
        }
    }

    /// Reads a value of variable length.
    ///
    /// # Errors
    /// If the value is cut off or has more than 64 bits.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(WireError::End)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Overflow)
    }

    /// Reads a length and as many bytes.
    ///
    /// # Errors
    /// If the bytes are cut off, or the length is negative.
    pub fn delimited(&mut self) -> Result<&'a [u8], WireError> {
        let length = i64::try_from(self.varint()?).map_err(|_| WireError::NegativeLength)?;
        self.take(usize::try_from(length).map_err(|_| WireError::NegativeLength)?)
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    /// If the bytes are cut off.
    pub fn fixed64(&mut self) -> Result<u64, WireError> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| WireError::End)?))
    }

    /// Reads four bytes.
    ///
    /// # Errors
    /// If the bytes are cut off.
    pub fn fixed32(&mut self) -> Result<u32, WireError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| WireError::End)?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::End)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Skips the value of an unknown field, groups included (`skipGenerated`).
    ///
    /// # Errors
    /// If the value is cut off or has no known wire type.
    pub fn skip(&mut self, tag: Tag) -> Result<(), WireError> {
        let mut wire_type = tag.wire_type;
        let mut groups = 0_usize;
        loop {
            match wire_type {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                DELIMITED => drop(self.delimited()?),
                3 => groups += 1,
                4 => groups = groups.checked_sub(1).ok_or(WireError::EndOfGroup)?,
                FIXED32 => drop(self.take(4)?),
                other => return Err(WireError::UnknownType(other)),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }
}
