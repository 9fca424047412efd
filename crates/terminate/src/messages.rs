//! Finds message boundaries of gRPC and its derivatives in a body. Pure.
//!
//! A message states its length, and the next one starts with a byte that occurs in no encoding of a
//! value. So a complete message is forwarded immediately: a peer that waits for it is not delayed.

use hyper::{HeaderMap, header};

/// The bytes before each message: flags, and its length.
const HEAD: usize = 5;

/// The message is compressed.
const COMPRESSED: u8 = 1;

/// The last message of a stream (Connect), and trailers (gRPC-Web).
const KNOWN: u8 = 0x82;

/// A message that cannot be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of the host is compressed, although it was asked not to be")]
pub(crate) struct Compressed;

/// The state of parsing a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Messages {
    /// It does not consist of messages.
    #[default]
    None,
    Head {
        bytes: [u8; HEAD],
        read: usize,
    },
    Payload {
        left: u32,
    },
}

impl Messages {
    /// Determines the framing from the headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        // `-text` is base64, and ends with the response.
        let framed = (kind.starts_with(b"application/grpc")
            && !kind.starts_with(b"application/grpc-web-text"))
            || kind.starts_with(b"application/connect+");
        if framed { Self::begin() } else { Self::None }
    }

    fn begin() -> Self {
        Self::Head { bytes: [0; HEAD], read: 0 }
    }

    /// Processes a chunk and returns the position in it where the last complete message ends.
    pub(crate) fn follow(&mut self, piece: &[u8]) -> Result<usize, Compressed> {
        let (mut at, mut ended) = (0, 0);
        while at < piece.len() {
            match self {
                Self::None => break,
                Self::Head { bytes, read } => {
                    bytes[*read] = piece[at];
                    (*read, at) = (*read + 1, at + 1);
                    let [flags, length @ ..] = *bytes;
                    if flags & COMPRESSED != 0 {
                        return Err(Compressed);
                    }
                    if flags & !KNOWN != 0 {
                        // Not a sequence of messages after all, so there are no known boundaries.
                        *self = Self::None;
                    } else if *read == HEAD {
                        *self = Self::Payload { left: u32::from_be_bytes(length) };
                    }
                }
                Self::Payload { left } => {
                    let most = u32::try_from(piece.len() - at).unwrap_or(u32::MAX).min(*left);
                    (*left, at) = (*left - most, at + most as usize);
                }
            }
            if matches!(self, Self::Payload { left: 0 }) {
                (*self, ended) = (Self::begin(), at);
            }
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream() -> Vec<u8> {
        [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[2, 0, 0, 0, 1], b"x"].concat()
    }

    #[test]
    fn only_bodies_of_messages_are_followed() {
        for (kind, framed) in [
            ("application/grpc", true),
            ("application/grpc+proto; x=y", true),
            ("application/grpc-web+proto", true),
            ("application/grpc-web-text", false),
            ("application/connect+json", true),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            assert_eq!(Messages::of(&headers) != Messages::None, framed, "{kind}");
        }
    }

    #[test]
    fn what_is_not_a_message_is_not_followed_further() {
        let mut messages = Messages::begin();
        assert_eq!(messages.follow(b"ghp_0000\0\0\0\0\0"), Err(Compressed));
        let mut messages = Messages::begin();
        assert_eq!(messages.follow(b"hallo\0\0\0\0\0"), Ok(0));
        assert_eq!(messages, Messages::None);
        assert_eq!(Messages::begin().follow(&[1, 0, 0, 0, 0]), Err(Compressed));
    }

    proptest! {
        #[test]
        fn ends_are_where_they_are_however_the_body_is_cut(step in 1_usize..20) {
            let (mut messages, mut from, mut ends) = (Messages::begin(), 0, Vec::new());
            for piece in stream().chunks(step) {
                let ended = messages.follow(piece).unwrap();
                if ended > 0 {
                    ends.push(from + ended);
                }
                from += piece.len();
            }
            prop_assert_eq!(ends.last(), Some(&stream().len()));
            prop_assert!(ends.iter().all(|end| [8, 13, 19].contains(end)));
        }
    }
}
