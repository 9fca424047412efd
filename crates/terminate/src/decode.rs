//! Decompresses responses that are compressed although that was not requested, so that they can be
//! scanned.
//!
//! All chunks but the last have the same length: the boundaries of compressed ones would reveal how
//! well a response was compressed, and thereby whether text chosen by an agent resembles something
//! else in it.
//!
//! Nothing is decompressed before it is read, and the memory of a decoder is limited, so a response
//! that decompresses to a thousand times its length costs only the time of reading it.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use async_compression::{
    tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder},
    zstd::DParameter,
};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap,
    body::{Body as _, Frame},
    header,
};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader, ReadBuf};

use crate::{
    body::{Body, BodyError},
    budget::Spent,
};

/// How many layers of compression a response may have.
const MOST: usize = 3;

/// The maximum window of zstd, as a power of two (RFC 9659).
const ZSTD_WINDOW: u32 = 23;

/// How much is decompressed at a time.
const PIECE: usize = 16 << 10;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// A body that cannot be decompressed, and its coding. Only known names are repeated: a header may
/// contain a value, and an explanation is not scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undecodable(pub(crate) &'static str);

/// Codings that are known, but not decompressed.
const KNOWN: [&str; 14] = [
    "aes128gcm",
    "bzip2",
    "compress",
    "dcb",
    "dcz",
    "exi",
    "identity",
    "lz4",
    "lzma",
    "pack200-gzip",
    "snappy",
    "x-bzip2",
    "x-compress",
    "xz",
];

impl Undecodable {
    fn of(word: &str) -> Self {
        let known = KNOWN.into_iter().find(|known| word.trim().eq_ignore_ascii_case(known));
        Self(known.unwrap_or("an unknown coding"))
    }
}

/// Parses the content codings of a response, outermost last; empty if it is not compressed.
pub(crate) fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Undecodable> {
    let mut found = Vec::new();
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let text = String::from_utf8_lossy(value.as_bytes());
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "identity" => {}
                "gzip" | "x-gzip" => found.push(Coding::Gzip),
                "deflate" => found.push(Coding::Deflate),
                "br" => found.push(Coding::Brotli),
                "zstd" => found.push(Coding::Zstd),
                other => return Err(Undecodable::of(other)),
            }
        }
    }
    // A range of compressed data is meaningless without what precedes it.
    if !found.is_empty() && headers.contains_key(header::CONTENT_RANGE) {
        return Err(Undecodable("a part of compressed data"));
    }
    if found.len() > MOST {
        return Err(Undecodable("too many codings"));
    }
    Ok(found)
}

/// Checks that `chunked` is the only transfer coding of a response. We do not request any other,
/// and hyper decodes only that one.
pub(crate) fn only_chunked(headers: &HeaderMap) -> Result<(), Undecodable> {
    let all: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    match all.as_slice() {
        [] => Ok(()),
        [one] if one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Undecodable("a transfer coding")),
    }
}

/// Decompresses a body as it arrives. A decoder takes megabytes; one that waits for a peer holds a
/// part of the room's budget.
pub(crate) fn decoded(body: Body, codings: &[Coding], spent: Option<Spent>) -> Body {
    let trailers: Arc<Mutex<Option<HeaderMap>>> = Arc::default();
    let pieces = Pieces { body, piece: Bytes::new(), trailers: trailers.clone() };
    let mut reader: Reader = Box::pin(pieces);
    for coding in codings.iter().rev() {
        let unpacked: Unpacked = match coding {
            Coding::Gzip => {
                let mut decoder = GzipDecoder::new(reader);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            Coding::Deflate => Box::pin(Sniffed { inner: Unsure::New(reader), make: deflate }),
            Coding::Brotli => Box::pin(Sniffed { inner: Unsure::New(reader), make: brotli }),
            Coding::Zstd => {
                let window = [DParameter::window_log_max(ZSTD_WINDOW)];
                let mut decoder = ZstdDecoder::with_params(reader, &window);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
        };
        reader = Box::pin(BufReader::with_capacity(PIECE, unpacked));
    }
    let decoded = Decoded { reader, piece: BytesMut::new(), trailers, ended: false, _spent: spent };
    decoded.boxed_unsync()
}

/// Decompresses the beginning of a stored body up to a length, as far as possible.
pub(crate) fn unpacked(kept: &[u8], codings: &[Coding], most: usize) -> Vec<u8> {
    let whole = Full::new(Bytes::copy_from_slice(kept)).map_err(|never| match never {});
    let mut body = decoded(whole.boxed_unsync(), codings, None);
    let (mut found, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
    while found.len() < most
        && let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context)
    {
        let piece = frame.into_data().unwrap_or_default();
        found.extend_from_slice(&piece[..piece.len().min(most - found.len())]);
    }
    found
}

type Reader = Pin<Box<dyn AsyncBufRead + Send>>;
type Unpacked = Pin<Box<dyn AsyncRead + Send>>;

/// Decodes `deflate`, which should be the zlib format (RFC 9110, section 8.4.1.2); some servers omit
/// that wrapper.
fn deflate(reader: Reader, first: u8) -> io::Result<Unpacked> {
    Ok(match first & 0x8f == 0x08 {
        true => Box::pin(ZlibDecoder::new(reader)),
        false => Box::pin(DeflateDecoder::new(reader)),
    })
}

/// Decodes Brotli, except with a window of up to a gigabyte, which RFC 7932 does not allow.
fn brotli(reader: Reader, first: u8) -> io::Result<Unpacked> {
    match first & 0x7f == 0x11 {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "the window is too large")),
        false => Ok(Box::pin(BrotliDecoder::new(reader))),
    }
}

/// A decoder that is chosen by the first byte.
struct Sniffed {
    inner: Unsure,
    make: fn(Reader, u8) -> io::Result<Unpacked>,
}

enum Unsure {
    New(Reader),
    Known(Unpacked),
    /// It was empty, or cannot be read.
    Ended,
}

impl AsyncRead for Sniffed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Unsure::New(reader) = &mut self.inner {
            let first = ready!(reader.as_mut().poll_fill_buf(context))?.first().copied();
            let Unsure::New(reader) = std::mem::replace(&mut self.inner, Unsure::Ended) else {
                return Poll::Ready(Ok(()));
            };
            if let Some(first) = first {
                self.inner = Unsure::Known((self.make)(reader, first)?);
            }
        }
        match &mut self.inner {
            Unsure::Known(reader) => reader.as_mut().poll_read(context, buffer),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// The chunks of a body as a reader. Its trailers are set aside.
struct Pieces {
    body: Body,
    piece: Bytes,
    trailers: Arc<Mutex<Option<HeaderMap>>>,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = ready!(self.as_mut().poll_fill_buf(context))?;
        let count = filled.len().min(buffer.remaining());
        buffer.put_slice(&filled[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Pieces {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        while this.piece.is_empty() {
            let frame = ready!(hyper::body::Body::poll_frame(Pin::new(&mut this.body), context));
            let Some(frame) = frame else { break };
            match frame.map_err(io::Error::other)?.into_data() {
                Ok(piece) => this.piece = piece,
                Err(frame) => {
                    let trailers = frame.into_trailers().ok();
                    *this.trailers.lock().unwrap_or_else(PoisonError::into_inner) = trailers;
                }
            }
        }
        Poll::Ready(Ok(&this.piece))
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        self.piece.advance(count);
    }
}

/// A body that is being decompressed.
struct Decoded {
    reader: Reader,
    piece: BytesMut,
    trailers: Arc<Mutex<Option<HeaderMap>>>,
    ended: bool,
    _spent: Option<Spent>,
}

impl hyper::body::Body for Decoded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        while !this.ended {
            let filled = ready!(this.reader.as_mut().poll_fill_buf(context))?;
            let count = filled.len().min(PIECE - this.piece.len());
            this.piece.extend_from_slice(&filled[..count]);
            this.ended = filled.is_empty();
            this.reader.consume(count);
            if this.piece.len() == PIECE || this.ended && !this.piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(this.piece.split().freeze()))));
            }
        }
        let trailers = this.trailers.lock().unwrap_or_else(PoisonError::into_inner).take();
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

#[cfg(test)]
mod tests {
    use async_compression::tokio::write::{
        BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
    };
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::body;

    async fn packed(coding: &str, text: &[u8]) -> Vec<u8> {
        macro_rules! with {
            ($encoder:ident) => {{
                let mut encoder = $encoder::new(Vec::new());
                encoder.write_all(text).await.unwrap();
                encoder.shutdown().await.unwrap();
                encoder.into_inner()
            }};
        }
        match coding {
            "gzip" => with!(GzipEncoder),
            "deflate" => with!(ZlibEncoder),
            "raw" => with!(DeflateEncoder),
            "br" => with!(BrotliEncoder),
            _ => with!(ZstdEncoder),
        }
    }

    fn of(words: &str) -> Result<Vec<Coding>, Undecodable> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, words.parse().unwrap());
        codings(&headers)
    }

    async fn unpacked(bytes: Vec<u8>, codings: &[Coding]) -> Result<Vec<u8>, BodyError> {
        let body = decoded(body::whole(bytes), codings, None);
        Ok(body.collect().await?.to_bytes().to_vec())
    }

    #[tokio::test]
    async fn every_coding_is_unpacked_and_several_of_them() {
        let text = b"the value is tok_0123456789, and so on. ".repeat(3000);
        for (how, word) in [
            ("gzip", "gzip"),
            ("deflate", "deflate"),
            ("raw", "deflate"),
            ("br", "br"),
            ("zstd", "zstd"),
        ] {
            let bytes = packed(how, &text).await;
            assert_eq!(unpacked(bytes.clone(), &of(word).unwrap()).await.unwrap(), text, "{how}");
            let cut = bytes[..bytes.len() / 2].to_vec();
            assert!(unpacked(cut, &of(word).unwrap()).await.is_err(), "half of {how}");
            assert!(unpacked(vec![0xff; 100], &of(word).unwrap()).await.is_err(), "{how}");
        }
        let twice = packed("br", &packed("gzip", &text).await).await;
        assert_eq!(unpacked(twice, &of("gzip, br").unwrap()).await.unwrap(), text);
        let members = [packed("gzip", b"one ").await, packed("gzip", b"two").await].concat();
        assert_eq!(unpacked(members, &[Coding::Gzip]).await.unwrap(), b"one two");
        assert_eq!(unpacked(Vec::new(), &[Coding::Brotli]).await.unwrap(), b"");
    }

    #[test]
    fn what_cannot_be_unpacked_is_reported() {
        assert_eq!(of("identity"), Ok(Vec::new()));
        assert_eq!(of("X-Gzip, identity"), Ok(vec![Coding::Gzip]));
        assert_eq!(of("compress"), Err(Undecodable("compress")));
        assert_eq!(of("tok_0123456789"), Err(Undecodable("an unknown coding")));
        assert!(of("gzip, gzip, gzip, gzip").is_err());
        let mut part = HeaderMap::new();
        part.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        part.insert(header::CONTENT_RANGE, "bytes 5-9/100".parse().unwrap());
        assert!(codings(&part).is_err());
    }

    #[test]
    fn only_chunks_are_taken_apart() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::TRANSFER_ENCODING, value.parse().unwrap());
            }
            only_chunked(&headers).is_ok()
        };
        assert!(of(&[]) && of(&["chunked"]) && of(&["Chunked "]));
        assert!(!of(&["gzip, chunked"]) && !of(&["gzip", "chunked"]) && !of(&["identity"]));
    }

    #[tokio::test]
    async fn the_length_of_pieces_does_not_tell_how_they_were_compressed() {
        let bytes = packed("gzip", &b"some text, ".repeat(5000)).await;
        let lengths = async |step: usize| {
            let pieces: Vec<_> = bytes
                .chunks(step)
                .map(|piece| Ok::<_, BodyError>(Frame::data(Bytes::copy_from_slice(piece))))
                .collect();
            let body = http_body_util::StreamBody::new(tokio_stream::iter(pieces)).boxed_unsync();
            let mut body = decoded(body, &[Coding::Gzip], None);
            let mut lengths = Vec::new();
            while let Some(frame) = body.frame().await {
                lengths.push(frame.unwrap().into_data().unwrap().len());
            }
            lengths
        };
        assert_eq!(lengths(1).await, [PIECE, PIECE, PIECE, 55_000 - 3 * PIECE]);
        assert_eq!(lengths(bytes.len()).await, lengths(1).await);
    }

    #[tokio::test]
    async fn an_answer_that_unpacks_to_much_is_unpacked_piece_by_piece() {
        for coding in ["gzip", "deflate", "br", "zstd"] {
            let bomb = packed(coding, &vec![0; 64 << 20]).await;
            assert!(bomb.len() < 128 << 10, "{coding}");
            let mut body = decoded(body::whole(bomb), &of(coding).unwrap(), None);
            let mut total = 0;
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE);
                total += piece.len();
            }
            assert_eq!(total, 64 << 20, "{coding}");
        }
        let large = [vec![0x11], vec![0; 50]].concat();
        assert!(unpacked(large, &[Coding::Brotli]).await.is_err());
    }
}
