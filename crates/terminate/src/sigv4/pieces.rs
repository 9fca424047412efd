//! Signs a chunked signed body again as it arrives. Pure.
//!
//! ```text
//! 10000;chunk-signature=ad80…\r\n  (so many bytes)  \r\n
//! 0;chunk-signature=b6c6…\r\n  \r\n                          without trailers
//! 0;chunk-signature=b6c6…\r\n
//! x-amz-checksum-crc32c:sOO8/Q==\r\n
//! x-amz-trailer-signature:d81f…\r\n  \r\n                    with trailers
//! ```
//!
//! Each signature covers the previous one, so the room's signatures, made with the placeholder, are
//! verified along the way. A signature precedes its bytes: a chunk is held until it is complete.
//! The output is as long as the input, so the length in the request's head stays correct.

use aws_lc_rs::digest;
use bytes::{Bytes, BytesMut};
use hothouse_model::id::hex;
use zeroize::Zeroizing;

use super::{ALGORITHM, mac};

/// The maximum length of a chunk. SDKs send about 128 KB at a time.
const PIECE_LIMIT: usize = 16 << 20;
const LINE_LIMIT: usize = 4096;

/// A body that is not signed as its head declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PieceError {
    #[error("the body is not written in signed pieces")]
    Malformed,
    #[error("a piece of the body is too long to be signed again")]
    TooLong,
    #[error("a piece of the body has another signature than the placeholder gives")]
    Signature,
    #[error("the body ends before its last piece")]
    Cut,
}

/// Signatures, each covering the previous one.
struct Chain {
    key: Zeroizing<Vec<u8>>,
    /// The previous signature.
    last: String,
}

impl Chain {
    fn next(&mut self, kind: &str, when: &str, hashes: &str) -> &str {
        let text = format!("{ALGORITHM}-{kind}\n{when}\n{}\n{hashes}", self.last);
        self.last = hex(&mac(&self.key, text.as_bytes()));
        &self.last
    }
}

/// The position in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the header line of a chunk.
    Line,
    /// In a chunk of this many bytes.
    Piece(usize),
    Trailers,
    End,
}

/// Signs the chunks of one body again.
pub(crate) struct Pieces {
    /// Date and scope, as they appear in the string to sign.
    when: String,
    room: Chain,
    host: Chain,
    trailers: bool,
    held: BytesMut,
    signature: String,
    canonical: String,
    at: At,
}

/// The initial state of a signature chain.
pub(super) struct Seed {
    pub(super) key: Zeroizing<Vec<u8>>,
    pub(super) signature: String,
}

impl Pieces {
    pub(super) fn new(when: String, room: Seed, host: Seed, trailers: bool) -> Self {
        let chain = |seed: Seed| Chain { key: seed.key, last: seed.signature };
        Self {
            when,
            room: chain(room),
            host: chain(host),
            trailers,
            held: BytesMut::new(),
            signature: String::new(),
            canonical: String::new(),
            at: At::Line,
        }
    }

    /// Accepts bytes and returns those to forward.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, PieceError> {
        self.held.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        loop {
            let went_on = match self.at {
                At::Line => self.line()?,
                At::Piece(size) => self.piece(size, &mut out)?,
                At::Trailers => self.trailer(&mut out)?,
                At::End => {
                    if self.held.len() > LINE_LIMIT {
                        return Err(PieceError::Malformed);
                    }
                    // Clients end a body in different ways.
                    if self.held.iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
                        return Err(PieceError::Malformed);
                    }
                    out.extend_from_slice(&self.held.split());
                    false
                }
            };
            if !went_on {
                return Ok(out.freeze());
            }
        }
    }

    /// Checks that the body was complete.
    pub(crate) fn finish(&self) -> Result<(), PieceError> {
        if self.at == At::End { Ok(()) } else { Err(PieceError::Cut) }
    }

    /// Takes a line without its terminator.
    fn take_line(&mut self) -> Result<Option<BytesMut>, PieceError> {
        let Some(end) = memchr::memmem::find(&self.held, b"\r\n") else {
            let too_long = self.held.len() > LINE_LIMIT;
            return if too_long { Err(PieceError::Malformed) } else { Ok(None) };
        };
        let mut line = self.held.split_to(end + 2);
        line.truncate(end);
        Ok(Some(line))
    }

    fn line(&mut self) -> Result<bool, PieceError> {
        let Some(line) = self.take_line()? else { return Ok(false) };
        let text = std::str::from_utf8(&line).map_err(|_| PieceError::Malformed)?;
        let (size, signature) =
            text.split_once(";chunk-signature=").ok_or(PieceError::Malformed)?;
        if size.is_empty() || size.len() > 16 || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(PieceError::Malformed);
        }
        let length = usize::from_str_radix(size, 16).map_err(|_| PieceError::TooLong)?;
        if length > PIECE_LIMIT {
            return Err(PieceError::TooLong);
        }
        // The size is kept as it was written: its digits count towards the length.
        (self.canonical, self.signature) = (size.to_owned(), signature.to_owned());
        self.at = At::Piece(length);
        Ok(true)
    }

    fn piece(&mut self, size: usize, out: &mut BytesMut) -> Result<bool, PieceError> {
        let last = size == 0;
        let end = if last && self.trailers { 0 } else { 2 };
        if self.held.len() < size + end {
            return Ok(false);
        }
        let piece = self.held.split_to(size + end);
        if &piece[size..] != [b'\r', b'\n'].get(..end).unwrap_or_default() {
            return Err(PieceError::Malformed);
        }
        let hash = |bytes: &[u8]| hex(digest::digest(&digest::SHA256, bytes).as_ref());
        let hashes = format!("{}\n{}", hash(b""), hash(&piece[..size]));
        if self.room.next("PAYLOAD", &self.when, &hashes) != self.signature {
            return Err(PieceError::Signature);
        }
        let signature = self.host.next("PAYLOAD", &self.when, &hashes);
        out.extend_from_slice(self.canonical.as_bytes());
        out.extend_from_slice(b";chunk-signature=");
        out.extend_from_slice(signature.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&piece);
        self.canonical.clear();
        self.at = match (last, self.trailers) {
            (false, _) => At::Line,
            (true, false) => At::End,
            (true, true) => At::Trailers,
        };
        Ok(true)
    }

    fn trailer(&mut self, out: &mut BytesMut) -> Result<bool, PieceError> {
        let Some(line) = self.take_line()? else { return Ok(false) };
        let text = std::str::from_utf8(&line).map_err(|_| PieceError::Malformed)?;
        if text.is_empty() {
            out.extend_from_slice(b"\r\n");
            return Ok(true);
        }
        let (name, value) = text.split_once(':').ok_or(PieceError::Malformed)?;
        let name_form = name.trim().to_ascii_lowercase();
        if name_form != "x-amz-trailer-signature" {
            self.canonical.push_str(&format!("{name_form}:{}\n", value.trim()));
            if self.canonical.len() > LINE_LIMIT {
                return Err(PieceError::TooLong);
            }
            out.extend_from_slice(&line);
            out.extend_from_slice(b"\r\n");
            return Ok(true);
        }
        let hash = hex(digest::digest(&digest::SHA256, self.canonical.as_bytes()).as_ref());
        let old = value.trim();
        if self.room.next("TRAILER", &self.when, &hash) != old {
            return Err(PieceError::Signature);
        }
        let signature = self.host.next("TRAILER", &self.when, &hash);
        // Replaced in place: spaces around it count towards the length.
        let start = name.len() + 1 + value.len() - value.trim_start().len();
        for part in [&text[..start], signature, &text[start + old.len()..], "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        self.at = At::End;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHEN: &str = "20130524T000000Z\n20130524/us-east-1/s3/aws4_request";
    // The published example key, which grants access to nothing.
    const EXAMPLE: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn key(secret: &str) -> Zeroizing<Vec<u8>> {
        super::super::signing_key(secret, "20130524/us-east-1/s3/aws4_request")
    }

    fn pieces(room: (&str, &str), host: (&str, &str), trailers: bool) -> Pieces {
        let seed = |(secret, signature): (&str, &str)| Seed {
            key: key(secret),
            signature: signature.to_owned(),
        };
        Pieces::new(WHEN.to_owned(), seed(room), seed(host), trailers)
    }

    /// Returns the published example of a chunked body, with its published signatures.
    fn published() -> (&'static str, Vec<u8>) {
        let seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
        let mut body = b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n".to_vec();
        body.extend([b'a'; 65536]);
        body.extend(b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n");
        body.extend([b'a'; 1024]);
        body.extend(b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n");
        (seed, body)
    }

    fn through(pieces: &mut Pieces, body: &[u8], step: usize) -> Result<Vec<u8>, PieceError> {
        let mut all = Vec::new();
        for part in body.chunks(step.max(1)) {
            all.extend(pieces.push(part)?);
        }
        pieces.finish()?;
        Ok(all)
    }

    #[test]
    fn the_published_example_is_signed_as_published_and_back_again() {
        let (seed, body) = published();
        let own = ("a-placeholder", "0".repeat(64));
        let own = (own.0, own.1.as_str());
        let there = through(&mut pieces((EXAMPLE, seed), own, false), &body, 1000).unwrap();
        assert_eq!(there.len(), body.len());
        assert_ne!(there, body);
        let back = through(&mut pieces(own, (EXAMPLE, seed), false), &there, 7).unwrap();
        assert_eq!(back, body);
    }

    #[test]
    fn trailers_are_signed_again() {
        let seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
        let mut body = b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n".to_vec();
        body.extend([b'a'; 65536]);
        body.extend(b"\r\n400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n");
        body.extend([b'a'; 1024]);
        body.extend(b"\r\n0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n");
        body.extend(b"x-amz-checksum-crc32c:sOO8/Q==\r\n");
        body.extend(b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n");
        let zero = "0".repeat(64);
        let own = ("a-placeholder", zero.as_str());
        let there = through(&mut pieces((EXAMPLE, seed), own, true), &body, 4096).unwrap();
        assert_eq!(there.len(), body.len());
        let back = through(&mut pieces(own, (EXAMPLE, seed), true), &there, 1).unwrap();
        assert_eq!(back, body);
    }

    #[test]
    fn a_body_that_is_not_what_was_signed_is_refused() {
        let (seed, body) = published();
        let zero = "0".repeat(64);
        let check = |body: &[u8]| {
            let mut pieces = pieces((EXAMPLE, seed), ("x", &zero), false);
            through(&mut pieces, body, 8192).map(|_| ())
        };
        assert_eq!(check(&body), Ok(()));
        let mut other = body.clone();
        other[200] = b'b';
        assert_eq!(check(&other), Err(PieceError::Signature));
        assert_eq!(check(&body[..66_000]), Err(PieceError::Cut));
        assert_eq!(check(&[body.clone(), b"more".to_vec()].concat()), Err(PieceError::Malformed));
        assert_eq!(check(b"fffffff;chunk-signature=x\r\n"), Err(PieceError::TooLong));
        assert_eq!(check(&[b'1'; 10_000]), Err(PieceError::Malformed));
        assert_eq!(check(b"+1;chunk-signature=x\r\n"), Err(PieceError::Malformed));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
            let zero = "0".repeat(64);
            let mut pieces = pieces(("x", &zero), ("y", &zero), true);
            prop_assert!(through(&mut pieces, &bytes, step).is_err());
        }
    }
}
