//! Decoders for input of a room: pure, bounded, and prepared for incomplete input.
//!
//! - [`dns`]: questions and answers about names
//! - [`hello`]: the ClientHello of TLS
//! - [`head`]: the head of an HTTP request
//! - [`packet`]: packets that were dropped
//! - [`echo`]: echo requests and their answers
//! - [`socks`]: SOCKS version 5
//! - [`sniff`]: which of these a connection speaks

pub mod dns;
pub mod echo;
pub mod head;
pub mod hello;
pub mod packet;
pub mod sniff;
pub mod socks;

/// The result of decoding incomplete input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<T> {
    Done(T),
    /// Valid so far, but incomplete.
    More,
    /// Invalid or too long.
    Broken,
}

impl<T> Read<T> {
    /// Maps the value.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Done(value) => Read::Done(with(value)),
            Self::More => Read::More,
            Self::Broken => Read::Broken,
        }
    }
}

/// Bytes consumed from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn long(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Takes a field preceded by its length, which has this many bytes.
    pub(crate) fn prefixed(&mut self, length: usize) -> Option<Cursor<'a>> {
        let length = self.take(length)?.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
        self.take(length).map(Cursor)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
