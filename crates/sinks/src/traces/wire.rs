//! The protobuf encoding, as far as OTLP needs it.

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// A varint, or eight bytes.
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// Iterates over the fields of a message. Invalid input ends it with an error.
pub(super) struct Fields<'a>(&'a [u8]);

/// Bytes that are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields(bytes)
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for at in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(at * 7)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Number(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            _ => return None,
        };
        Some((key >> 3, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

fn push_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    to.push(u8::try_from(value).unwrap_or_default());
}

fn push_bytes(number: u64, bytes: &[u8], to: &mut Vec<u8>) {
    push_varint(number << 3 | 2, to);
    push_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Encodes `ExportTraceServiceResponse` with a partial success.
pub(super) fn partial_success(rejected: u64, why: &str) -> Vec<u8> {
    let mut inner = vec![1 << 3];
    push_varint(rejected, &mut inner);
    push_bytes(2, why.as_bytes(), &mut inner);
    let mut all = Vec::new();
    push_bytes(1, &inner, &mut all);
    all
}

/// Encodes `google.rpc.Status` for an invalid argument.
pub(super) fn status(why: &str) -> Vec<u8> {
    let mut all = vec![1 << 3, 3];
    push_bytes(2, why.as_bytes(), &mut all);
    all
}
