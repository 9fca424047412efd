//! Scans WebSocket frames on their way to a host used in test mode: no message with a live key
//! passes. Pure.
//!
//! A key may be split over two frames of a message, so frames are held back until their message is
//! complete. A frame that a client may not send without extensions (RFC 6455, section 5) ends the
//! connection, and so does a message that is too long to be scanned.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use hothouse_model::config::LiveKeys;

use crate::{
    budget::{RoomBudget, Spent},
    test_keys,
};

/// The maximum length of a message.
const MESSAGE: usize = 4 << 20;

/// How much of a message is held at no cost, and how much of the room's budget is taken at a time.
const FREE: usize = 64 << 10;

/// The maximum payload of a control frame.
const CONTROL: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PONG: u8 = 10;

/// Why the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutgoingError {
    #[error("a message of a WebSocket holds a live key ({0}), and this host is used in test mode")]
    LiveKey(String),
    #[error("a message of a WebSocket is longer than {} MiB, and cannot be looked at", MESSAGE >> 20)]
    TooLong,
    #[error("messages of this sandbox hold all the memory that it has for bodies")]
    NoMemory,
    #[error("a frame of a WebSocket cannot be read")]
    Malformed,
}

/// The state of scanning a connection.
pub(crate) struct Outgoing {
    settings: Arc<LiveKeys>,
    unread: BytesMut,
    /// The raw frames of the incomplete message, and its payload.
    held: BytesMut,
    message: Vec<u8>,
    is_open: bool,
    budget: RoomBudget,
    spent: Vec<Spent>,
}

/// The header of a frame.
struct Head {
    first: u8,
    mask: [u8; 4],
    length: usize,
    payload: usize,
}

impl Outgoing {
    pub(crate) fn new(settings: Arc<LiveKeys>, budget: RoomBudget) -> Self {
        let (unread, held) = (BytesMut::new(), BytesMut::new());
        let (message, spent) = (Vec::new(), Vec::new());
        Self { settings, unread, held, message, is_open: false, budget, spent }
    }

    /// Accepts bytes from the client and returns those to forward.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, OutgoingError> {
        self.unread.extend_from_slice(bytes);
        let mut passed = BytesMut::new();
        while let Some(head) = head(&self.unread)? {
            let whole = head.length + head.payload;
            if self.message.len() + head.payload > MESSAGE {
                return Err(OutgoingError::TooLong);
            }
            if self.unread.len() < whole {
                break;
            }
            let frame = self.unread.split_to(whole);
            self.take(&head, frame, &mut passed)?;
        }
        self.pay()?;
        Ok(passed.freeze())
    }

    /// Takes the memory for what is held, or gives it back.
    fn pay(&mut self) -> Result<(), OutgoingError> {
        let held = self.unread.len() + self.held.len() + self.message.len();
        if held <= FREE {
            self.spent.clear();
        }
        while held > FREE * (self.spent.len() + 1) {
            self.spent.push(self.budget.more(FREE).ok_or(OutgoingError::NoMemory)?);
        }
        Ok(())
    }

    fn take(
        &mut self,
        head: &Head,
        frame: BytesMut,
        passed: &mut BytesMut,
    ) -> Result<(), OutgoingError> {
        let payload = unmasked(&frame[head.length..], head.mask);
        match head.first & OPCODE {
            CLOSE..=PONG => {
                self.look(&payload)?;
                passed.extend_from_slice(&frame);
                return Ok(());
            }
            CONTINUATION if !self.is_open => return Err(OutgoingError::Malformed),
            CONTINUATION..=BINARY => {}
            _ => return Err(OutgoingError::Malformed),
        }
        if head.first & OPCODE != CONTINUATION && self.is_open {
            return Err(OutgoingError::Malformed);
        }
        self.message.extend_from_slice(&payload);
        self.held.extend_from_slice(&frame);
        self.is_open = head.first & FIN == 0;
        if !self.is_open {
            let message = std::mem::take(&mut self.message);
            self.look(&message)?;
            passed.extend_from_slice(&self.held.split());
        }
        Ok(())
    }

    fn look(&self, message: &[u8]) -> Result<(), OutgoingError> {
        match test_keys::in_message(message, &self.settings) {
            Some(key) => Err(OutgoingError::LiveKey(key)),
            None => Ok(()),
        }
    }
}

/// Parses the header of a frame; `None` if it is incomplete.
fn head(bytes: &[u8]) -> Result<Option<Head>, OutgoingError> {
    let mut rest = bytes;
    if rest.remaining() < 2 {
        return Ok(None);
    }
    let (first, second) = (rest.get_u8(), rest.get_u8());
    let is_control = first & OPCODE >= CLOSE;
    if first & RESERVED != 0 || second & MASKED == 0 {
        return Err(OutgoingError::Malformed);
    }
    let payload = match second & !MASKED {
        126 if rest.remaining() < 2 => return Ok(None),
        126 => u64::from(rest.get_u16()),
        127 if rest.remaining() < 8 => return Ok(None),
        127 => rest.get_u64(),
        short => u64::from(short),
    };
    let payload = usize::try_from(payload).map_err(|_| OutgoingError::TooLong)?;
    if is_control && (payload > CONTROL || first & FIN == 0) {
        return Err(OutgoingError::Malformed);
    }
    if rest.remaining() < 4 {
        return Ok(None);
    }
    let mask = [rest.get_u8(), rest.get_u8(), rest.get_u8(), rest.get_u8()];
    Ok(Some(Head { first, mask, length: bytes.len() - rest.remaining(), payload }))
}

fn unmasked(bytes: &[u8], mask: [u8; 4]) -> Vec<u8> {
    bytes.iter().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, text: &[u8]) -> Vec<u8> {
        let mask = [7, 77, 13, 200];
        let mut frame = vec![first];
        match u8::try_from(text.len()).ok().filter(|length| *length < 126) {
            Some(length) => frame.push(MASKED | length),
            None => {
                frame.push(MASKED | 126);
                frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(unmasked(text, mask));
        frame
    }

    fn outgoing() -> Outgoing {
        Outgoing::new(Arc::default(), RoomBudget::default())
    }

    fn key() -> String {
        format!("sk_{}_51abcdefghijklmnopqrstuvwx", "live")
    }

    #[test]
    fn messages_pass_whole_and_as_they_were_sent() {
        let all: Vec<u8> = [
            frame(1, b"hel"),
            frame(FIN | 9, b"ping"),
            frame(FIN, b"lo"),
            frame(FIN | 2, &[0; 300]),
            frame(FIN | CLOSE, b""),
        ]
        .concat();
        for size in [1, 2, 7, all.len()] {
            let mut outgoing = outgoing();
            let passed: Vec<u8> =
                all.chunks(size).flat_map(|part| outgoing.push(part).unwrap()).collect();
            // A control frame overtakes the message that contains it.
            assert_eq!(passed.len(), all.len());
            assert!(passed.starts_with(&frame(FIN | 9, b"ping")));
        }
    }

    #[test]
    fn a_live_key_never_passes_however_it_is_cut() {
        let key = key();
        let (one, two) = key.as_bytes().split_at(9);
        for frames in [
            vec![frame(FIN | 1, format!("{{\"key\":\"{key}\"}}").as_bytes())],
            vec![frame(1, one), frame(FIN, two)],
            vec![frame(1, one), frame(FIN | PONG, b"x"), frame(FIN, two)],
            vec![frame(FIN | 2, key.as_bytes())],
            vec![frame(FIN | 9, key.as_bytes())],
        ] {
            let mut outgoing = outgoing();
            let mut passed = Vec::new();
            let ended = frames.concat().chunks(3).try_for_each(|part| {
                passed.extend(outgoing.push(part)?);
                Ok::<_, OutgoingError>(())
            });
            assert!(matches!(ended, Err(OutgoingError::LiveKey(_))), "{ended:?}");
            assert!(passed.len() < 12, "nothing of it went out");
        }
    }

    #[test]
    fn messages_that_never_end_use_up_the_memory_of_their_own_room_alone() {
        let (budget, settings) = (RoomBudget::default(), Arc::<LiveKeys>::default());
        let begun = frame(2, &[0; 60_000]);
        let mut all = Vec::new();
        let _most: Vec<_> = (0..15).map(|_| budget.more(8 << 20).unwrap()).collect();
        // Each is within the limit of a message, and none is complete.
        let ended = (0..200).find_map(|_| {
            let mut outgoing = Outgoing::new(settings.clone(), budget.clone());
            let more = frame(0, &[0; 60_000]);
            let mut frames = std::iter::once(&begun).chain(std::iter::repeat_n(&more, 60));
            let ended = frames.find_map(|frame| outgoing.push(frame).err());
            all.push(outgoing);
            ended
        });
        assert_eq!(ended, Some(OutgoingError::NoMemory));
        let held: usize = all.iter().map(|one| one.held.len() + one.message.len()).sum();
        assert!(held < 10 << 20, "{held}");
        assert!(outgoing().push(&frame(FIN | 2, &[0; 60_000])).is_ok(), "another room has its own");
        all.clear();
        let mut next = Outgoing::new(settings, budget);
        assert!((0..3).all(|_| next.push(&frame(FIN | 2, &[0; 60_000])).is_ok()));
    }

    #[test]
    fn what_is_not_a_frame_of_a_client_ends_the_connection() {
        for bytes in [
            vec![FIN | 1, 1, b'x'],
            vec![FIN | 0x41, MASKED, 0, 0, 0, 0],
            frame(FIN, b"continues nothing"),
            [frame(1, b"a"), frame(FIN | 1, b"b")].concat(),
            frame(9, b"a control frame in parts"),
            frame(FIN | 3, b"of no kind"),
        ] {
            assert_eq!(outgoing().push(&bytes), Err(OutgoingError::Malformed), "{bytes:?}");
        }
        let long = [vec![FIN | 2, MASKED | 127], (u64::MAX / 2).to_be_bytes().to_vec(), vec![0; 4]];
        assert_eq!(outgoing().push(&long.concat()), Err(OutgoingError::TooLong));
    }
}
