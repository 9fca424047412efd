//! Scans WebSocket frames on their way to the room, message by message. Pure.
//!
//! A value may be split over two frames of a message, so messages are scanned, and frames are
//! written again. Frame boundaries depend only on lengths and on the host's framing (see
//! [`crate::scan`]): a complete message is forwarded whole, of an incomplete one everything but the
//! last bytes. A frame that a host may not send without extensions (RFC 6455, section 5) ends the
//! connection.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::scan::{Echoes, Scanner};

/// Frames up to this length are buffered, so that they stay in one piece.
const WHOLE: u64 = 64 << 10;

/// The maximum payload of a control frame.
const CONTROL: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CLOSE: u8 = 8;
const PONG: u8 = 10;

/// Invalid or unscannable input from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of a WebSocket is compressed or extended, which nobody asked for")]
    Extended,
    #[error("a frame of a WebSocket cannot be read")]
    Malformed,
}

/// The state of scanning a connection.
pub(crate) struct Frames {
    echoes: Arc<Echoes>,
    scanner: Scanner,
    unread: BytesMut,
    /// The current incomplete message: the opcode for its next frame.
    message: Option<u8>,
    /// The frame whose header was read.
    frame: Option<Data>,
}

/// A data frame.
#[derive(Clone, Copy)]
struct Data {
    left: u64,
    /// Whether it is the last frame of its message.
    last: bool,
}

/// The header of a frame.
struct Head {
    first: u8,
    payload: u64,
    /// The length of the header itself.
    length: usize,
}

impl Frames {
    pub(crate) fn new(echoes: Arc<Echoes>) -> Self {
        let scanner = Scanner::new(echoes.clone());
        Self { echoes, scanner, unread: BytesMut::new(), message: None, frame: None }
    }

    /// Accepts bytes from the host and returns those to forward.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, FrameError> {
        self.unread.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        while match self.frame {
            Some(frame) => self.payload(frame, &mut out),
            None => self.begin(&mut out)?,
        } {}
        Ok(out.freeze())
    }

    /// Starts a frame; a control frame is handled completely. Returns whether there may be more.
    fn begin(&mut self, out: &mut BytesMut) -> Result<bool, FrameError> {
        let Some(head) = Head::read(&self.unread)? else { return Ok(false) };
        let (opcode, last) = (head.first & 0x0f, head.first & FIN != 0);
        if let CLOSE..=PONG = opcode {
            let length = usize::try_from(head.payload).unwrap_or(usize::MAX);
            if !last || length > CONTROL {
                return Err(FrameError::Malformed);
            }
            if self.unread.len() < head.length + length {
                return Ok(false);
            }
            self.unread.advance(head.length);
            let clean = self.echoes.replace(&self.unread[..length]).into_owned();
            self.unread.advance(length);
            write(head.first, &clean[..clean.len().min(CONTROL)], out);
            return Ok(true);
        }
        match (opcode, self.message) {
            (0, Some(_)) => {}
            (1 | 2, None) => self.message = Some(opcode),
            _ => return Err(FrameError::Malformed),
        }
        self.unread.advance(head.length);
        self.frame = Some(Data { left: head.payload, last });
        Ok(true)
    }

    /// Scans the available part of a data frame. Returns whether there may be more.
    fn payload(&mut self, frame: Data, out: &mut BytesMut) -> bool {
        let there = self.unread.len() as u64;
        if there < frame.left && (frame.left <= WHOLE || there == 0) {
            return false;
        }
        let taken = there.min(frame.left);
        let piece = self.unread.split_to(usize::try_from(taken).unwrap_or(usize::MAX));
        let left = frame.left - taken;
        let mut clean = self.scanner.push(&piece, 0);
        let ends = left == 0 && frame.last;
        if ends {
            let rest = self.scanner.finish();
            clean = if clean.is_empty() { rest } else { [clean, rest].concat().into() };
        }
        if ends || !clean.is_empty() {
            let opcode = self.message.replace(0).unwrap_or(0);
            write(opcode | if ends { FIN } else { 0 }, &clean, out);
        }
        if ends {
            self.message = None;
        }
        self.frame = (left > 0).then_some(Data { left, ..frame });
        true
    }
}

impl Head {
    /// Parses a header; `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(FrameError::Extended);
        }
        if second & MASKED != 0 {
            return Err(FrameError::Malformed);
        }
        let (payload, length) = match second {
            126 => match rest.first_chunk() {
                Some(length) => (u16::from_be_bytes(*length).into(), 4),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(length) => (u64::from_be_bytes(*length), 10),
                None => return Ok(None),
            },
            length => ((*length).into(), 2),
        };
        if payload >> 63 != 0 {
            return Err(FrameError::Malformed);
        }
        Ok(Some(Self { first: *first, payload, length }))
    }
}

/// Writes one frame.
fn write(first: u8, payload: &[u8], out: &mut BytesMut) {
    out.put_u8(first);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => out.put_u8(length),
        (_, Ok(length)) => {
            out.put_u8(126);
            out.put_u16(length);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(payload.len() as u64);
        }
    }
    out.put_slice(payload);
}

/// Parses complete frames and returns their messages, the last one possibly incomplete.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    while let Ok(Some(head)) = Head::read(bytes) {
        let payload = usize::try_from(head.payload).unwrap_or(usize::MAX);
        let Some(whole) = bytes.get(head.length..head.length.saturating_add(payload)) else {
            break;
        };
        if let (true, Some(message)) = (head.first & 0x0f < CLOSE, all.last_mut()) {
            message.extend_from_slice(whole);
            if head.first & FIN != 0 {
                all.push(Vec::new());
            }
        }
        bytes = &bytes[head.length + payload..];
    }
    all
}

#[cfg(test)]
mod tests {
    use hothouse_model::{config::SecretForm, secret::SecretValue};
    use proptest::prelude::*;

    use super::*;
    use crate::secrets::Known;

    const VALUE: &str = "tok_0123456789abcdef";

    fn frames(placeholder: &str) -> Frames {
        let secret = Known {
            name: "T".into(),
            form: SecretForm::Header,
            placeholder: placeholder.into(),
            value: SecretValue::new(VALUE.into()).unwrap(),
        };
        Frames::new(Arc::new(Echoes::of(&[secret], Vec::new()).unwrap()))
    }

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        write(first, payload, &mut out);
        out.to_vec()
    }

    #[test]
    fn a_message_stays_as_it_is_and_a_placeholder_may_have_any_length() {
        let long = vec![b'x'; 70_000];
        let sent = [frame(0x81, b"hello"), frame(0x82, b""), frame(0x89, b"?")].concat();
        assert_eq!(frames("other").push(&sent).unwrap().as_ref(), sent);
        assert_eq!(messages(&frames("other").push(&frame(0x82, &long)).unwrap())[0], long);
        let out = frames("other").push(&frame(0x81, VALUE.as_bytes())).unwrap();
        assert_eq!(out.as_ref(), frame(0x81, b"other"));
        let longer = "l".repeat(200);
        let out = frames(&longer).push(&frame(0x89, VALUE.as_bytes())).unwrap();
        assert_eq!(out.as_ref(), frame(0x89, &longer.as_bytes()[..CONTROL]));
    }

    #[test]
    fn what_is_not_a_plain_frame_is_refused() {
        for (bytes, error) in [
            (&[0xc1, 0][..], FrameError::Extended),
            (&[0x81, 0x80], FrameError::Malformed),
            (&[0x80, 0], FrameError::Malformed),
            (&[0x83, 0], FrameError::Malformed),
            (&[0x09, 0], FrameError::Malformed),
            (&[0x8b, 0], FrameError::Malformed),
            (&[0x89, 126, 0, 126], FrameError::Malformed),
            (&[0x01, 0, 0x81, 0], FrameError::Malformed),
            (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], FrameError::Malformed),
        ] {
            assert_eq!(frames("other").push(bytes), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn however_a_message_is_cut_it_comes_out_whole_and_without_values(
            cuts in proptest::collection::vec(1_usize..40, 1..6), step in 1_usize..80
        ) {
            let text = format!("before {VALUE} between\n{VALUE}");
            let mut rest = text.as_bytes();
            let mut sent = Vec::new();
            for (at, cut) in cuts.iter().enumerate() {
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                sent.extend(frame(if at == 0 { 1 } else { 0 }, piece));
                sent.extend(frame(0x8a, b"pong"));
                rest = more;
            }
            sent.extend(frame(0x80, rest));
            let mut frames = frames("tok_ffffffffffffffff");
            let out: Vec<u8> =
                sent.chunks(step).flat_map(|piece| frames.push(piece).unwrap()).collect();
            let expected = text.replace(VALUE, "tok_ffffffffffffffff");
            prop_assert_eq!(String::from_utf8(messages(&out).remove(0)).unwrap(), expected);
        }
    }
}
