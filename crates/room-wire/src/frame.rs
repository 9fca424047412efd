//! Frames: a length, a count of descriptors, and a body.
//!
//! ```text
//! u32 little endian: length of the body | u8: descriptors that travel with it | body
//! ```
//!
//! The length is checked before anything is stored, and the buffer grows only with bytes that
//! arrive, so a peer cannot make us allocate memory by announcing a large frame.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest accepted body: larger than any command line the kernel would run.
pub const BODY_LIMIT: usize = 16 << 20;

/// The most descriptors that one frame carries; the kernel's own limit is 253.
pub const DESCRIPTOR_LIMIT: u8 = 16;

/// The bytes before a body.
pub const HEAD: usize = 5;

/// Anything that can be the body of a frame.
pub trait Message: Serialize {}

impl<T: Serialize> Message for T {}

/// One message as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How many descriptors belong to this frame.
    pub descriptors: u8,
    pub body: Vec<u8>,
}

/// Bytes that are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("a frame of {length} bytes is above the limit")]
    TooLong { length: usize },
    #[error("a frame with {count} descriptors is above the limit of {DESCRIPTOR_LIMIT}")]
    TooManyDescriptors { count: u8 },
    #[error("the body of a frame is not a message of this protocol")]
    Malformed,
}

/// Encodes `message` as one frame that announces `descriptors` descriptors.
pub fn encode(message: &impl Message, descriptors: u8) -> Result<Vec<u8>, WireError> {
    if descriptors > DESCRIPTOR_LIMIT {
        return Err(WireError::TooManyDescriptors { count: descriptors });
    }
    let mut bytes = vec![0_u8; HEAD];
    bytes = postcard::to_extend(message, bytes).map_err(|_| WireError::Malformed)?;
    let length = bytes.len() - HEAD;
    let announced = u32::try_from(length).ok().filter(|_| length <= BODY_LIMIT);
    let announced = announced.ok_or(WireError::TooLong { length })?;
    bytes[..4].copy_from_slice(&announced.to_le_bytes());
    bytes[4] = descriptors;
    Ok(bytes)
}

/// Decodes the body of a frame; trailing bytes are an error.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(WireError::Malformed),
    }
}

/// Collects bytes from a stream into whole frames.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    taken: usize,
    limit: usize,
}

impl Default for FrameBuffer {
    fn default() -> Self {
        Self::limited(BODY_LIMIT)
    }
}

impl FrameBuffer {
    /// Creates a buffer that accepts only bodies of at most `limit` bytes.
    pub fn limited(limit: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, limit }
    }

    /// Adds received bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole frame, or `None` if more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        let rest = &self.bytes[self.taken..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [a, b, c, d, descriptors] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > self.limit {
            return Err(WireError::TooLong { length });
        }
        if descriptors > DESCRIPTOR_LIMIT {
            return Err(WireError::TooManyDescriptors { count: descriptors });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { descriptors, body: body.to_vec() };
        self.taken += HEAD + length;
        if self.taken == self.bytes.len() {
            // An idle connection keeps no buffer, so one large frame does not occupy memory
            // forever.
            *self = Self::limited(self.limit);
        }
        Ok(Some(frame))
    }

    /// Returns how many bytes of an incomplete frame are buffered.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.taken
    }
}
