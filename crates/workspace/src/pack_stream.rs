//! Parses the stream from a git server to learn how many objects it contains. Pure.
//!
//! The stream consists of packets (gitprotocol-common(5)). Objects are in packets of the first side
//! band, or raw if the server does not support bands. A pack begins with `PACK`, its version and
//! its number of objects (gitformat-pack(5)), and git refuses one with another number of objects.
//! Everything that does not have this form is refused, because it is unknown how git would treat it.

use std::time::{Duration, Instant};

/// Reads a stream and refuses packs with too many objects.
#[derive(Debug)]
pub(crate) struct PackWatch {
    limit: u32,
    state: State,
    /// The header of the current pack, as far as it has been received.
    head: Vec<u8>,
    /// The number of pack bytes so far.
    received: u64,
}

#[derive(Debug)]
enum State {
    /// The digits of a packet's length.
    Length(Vec<u8>),
    /// The band of a packet with this length.
    Band(usize),
    /// The rest of a packet, and whether it belongs to a pack.
    Payload(usize, bool),
    /// A raw pack, until the end of the stream.
    Bare,
}

/// Why a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    TooMany,
    Malformed,
    /// No pack data arrived for too long.
    Stalled,
}

/// Detects whether a stream makes progress. Keep-alive packets do not count.
#[derive(Debug)]
pub(crate) struct Stall {
    limit: Duration,
    received: u64,
    since: Instant,
}

impl Stall {
    pub(crate) fn new(now: Instant, limit: Duration) -> Self {
        Self { limit, received: 0, since: now }
    }

    /// Takes the number of received pack bytes, and returns whether there was no progress for too
    /// long.
    pub(crate) fn is_over(&mut self, now: Instant, received: u64) -> bool {
        if received > self.received {
            (self.received, self.since) = (received, now);
        }
        now.duration_since(self.since) > self.limit
    }
}

/// The length of a pack's header.
const HEAD: usize = 12;

impl PackWatch {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, state: State::Length(Vec::new()), head: Vec::new(), received: 0 }
    }

    /// Returns the number of pack bytes received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Processes the next bytes.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        while !bytes.is_empty() {
            bytes = self.step(bytes)?;
        }
        Ok(())
    }

    /// Processes some bytes and returns the rest.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Refused> {
        match &mut self.state {
            State::Length(digits) => {
                digits.push(bytes[0]);
                if digits.len() == 4 {
                    let digits = std::mem::take(digits);
                    self.begin(&digits)?;
                }
                Ok(&bytes[1..])
            }
            State::Band(length) => {
                self.state = payload(*length - 1, bytes[0] == 1);
                Ok(&bytes[1..])
            }
            State::Payload(left, is_pack) => {
                let (now, rest) = bytes.split_at(bytes.len().min(*left));
                let is_pack = *is_pack;
                self.state = payload(*left - now.len(), is_pack);
                if is_pack {
                    self.take(now)?;
                }
                Ok(rest)
            }
            State::Bare => {
                self.take(bytes)?;
                Ok(&[])
            }
        }
    }

    /// Starts a packet.
    fn begin(&mut self, digits: &[u8]) -> Result<(), Refused> {
        if digits == b"PACK" {
            self.state = State::Bare;
            return self.take(digits);
        }
        let length = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
        let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
        self.state = match length.ok_or(Refused::Malformed)? {
            // The end of a response. The next one may contain another pack.
            0 => {
                self.head.clear();
                State::Length(Vec::new())
            }
            1 | 2 | 4 => State::Length(Vec::new()),
            3 => return Err(Refused::Malformed),
            length => State::Band(length - 4),
        };
        Ok(())
    }

    /// Processes a part of a pack.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.received += bytes.len() as u64;
        let missing = HEAD - self.head.len();
        if missing == 0 {
            return Ok(());
        }
        self.head.extend(&bytes[..bytes.len().min(missing)]);
        let Ok(head) = <[u8; HEAD]>::try_from(self.head.as_slice()) else { return Ok(()) };
        let [magic @ .., a, b, c, d] = head;
        match u32::from_be_bytes([a, b, c, d]) {
            _ if !magic.starts_with(b"PACK") => Err(Refused::Malformed),
            count if count > self.limit => Err(Refused::TooMany),
            _ => Ok(()),
        }
    }
}

/// Returns the state in which this much of a packet is left.
fn payload(left: usize, is_pack: bool) -> State {
    if left == 0 { State::Length(Vec::new()) } else { State::Payload(left, is_pack) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        [format!("{:04x}", payload.len() + 4).as_bytes(), payload].concat()
    }

    fn pack(count: u32) -> Vec<u8> {
        [b"PACK\0\0\0\x02", &count.to_be_bytes()[..], b"objects"].concat()
    }

    fn banded(pack: &[u8], piece: usize) -> Vec<u8> {
        let pieces = pack.chunks(piece);
        pieces.flat_map(|piece| packet(&[b"\x01", piece].concat())).collect()
    }

    fn outcome(stream: &[u8], at_once: usize) -> Result<(), Refused> {
        let mut watch = PackWatch::new(1000);
        stream.chunks(at_once).try_for_each(|part| watch.read(part))
    }

    #[test]
    fn a_pack_says_how_many_objects_it_has_however_it_is_cut() {
        let refs = [packet(b"1234 refs/heads/a\0side-band-64k"), b"0000".to_vec()].concat();
        let (few, many) = (pack(1000), pack(1001));
        for piece in [1, 3, 11, 12, 100] {
            for at_once in [1, 2, 5, 4096] {
                let stream = |pack: &[u8]| {
                    let said = packet(b"\x02counting");
                    [&refs[..], &packet(b"NAK\n"), &said, &banded(pack, piece), b"0000"].concat()
                };
                assert_eq!(outcome(&stream(&few), at_once), Ok(()), "{piece} {at_once}");
                let refused = outcome(&stream(&many), at_once);
                assert_eq!(refused, Err(Refused::TooMany), "{piece} {at_once}");
                // A second response may contain a second pack.
                let both = [stream(&few), banded(&many, piece)].concat();
                assert_eq!(outcome(&both, at_once), Err(Refused::TooMany));
                let bare = [&refs[..], &packet(b"NAK\n"), &many].concat();
                assert_eq!(outcome(&bare, at_once), Err(Refused::TooMany));
            }
        }
    }

    #[test]
    fn a_stream_that_is_only_kept_alive_ends_after_a_while() {
        let (begin, limit) = (Instant::now(), Duration::from_secs(120));
        let at = |seconds| begin + Duration::from_secs(seconds);
        let (mut watch, mut stall) = (PackWatch::new(1000), Stall::new(begin, limit));
        let mut comes = |seconds, bytes: &[u8]| {
            watch.read(bytes).unwrap();
            stall.is_over(at(seconds), watch.received())
        };
        let (alive, said) = (packet(b"\x01"), packet(b"\x02counting"));
        assert!(!comes(10, &packet(b"NAK\n")) && !comes(110, &alive) && !comes(119, &said));
        assert!(!comes(120, &banded(&pack(3), 100)), "a part of a pack begins it again");
        assert!(!comes(240, &alive) && comes(241, &said));
    }

    #[test]
    fn what_is_not_a_stream_of_packets_is_refused() {
        for stream in
            [&b"hello, world"[..], b"0003", b"+012x", b"000fNOPENOPENOPE", b"0011\x01NOPENOPENOPE"]
        {
            let refused = outcome(stream, 4096) == Err(Refused::Malformed);
            let is_text = stream.starts_with(b"000f");
            assert_eq!(refused, !is_text, "{stream:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), at_once in 1..50_usize) {
            outcome(&bytes, at_once).ok();
        }
    }
}
