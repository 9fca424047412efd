//! The ClientHello of TLS (RFC 8446, section 4.1.2): its server name (RFC 6066), and whether it can
//! hide another (RFC 9849). It may be split over several records, and any number of packets.

use hothouse_model::policy::Claim;

use super::{Cursor, Read};

/// The maximum length of a ClientHello: large ones carry post-quantum keys of some kilobytes.
pub const HELLO_LIMIT: usize = 32 << 10;

const RECORD_HEAD: usize = 5;
/// The maximum plaintext of a record, 2^14 bytes.
const RECORD_LIMIT: usize = 1 << 14;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;

/// The content of a ClientHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub claim: Claim,
    /// Whether it can contain an encrypted name.
    pub hidden: bool,
}

/// Returns whether bytes can be the start of a ClientHello.
pub fn is_start(bytes: &[u8]) -> bool {
    // The record version is 3.x in all current versions of TLS.
    let shape = [Some(HANDSHAKE), Some(3), None, None, None, Some(CLIENT_HELLO)];
    shape.iter().zip(bytes).all(|(wanted, byte)| wanted.is_none_or(|wanted| wanted == *byte))
}

/// Parses a ClientHello.
pub fn read(bytes: &[u8]) -> Read<Hello> {
    if !is_start(bytes) {
        return Read::Broken;
    }
    let mut message = Vec::new();
    let mut records = Cursor::new(bytes);
    loop {
        match message_length(&message) {
            Some(length) if length > HELLO_LIMIT => return Read::Broken,
            Some(length) if message.len() >= 4 + length => {
                let hello = parse(&message[4..4 + length]);
                return hello.map_or(Read::Broken, Read::Done);
            }
            _ => {}
        }
        if bytes.len() > HELLO_LIMIT {
            return Read::Broken;
        }
        let Some(head) = records.take(RECORD_HEAD) else { return Read::More };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if head[0] != HANDSHAKE || head[1] != 3 || length == 0 || length > RECORD_LIMIT {
            return Read::Broken;
        }
        let Some(part) = records.take(length) else { return Read::More };
        message.extend_from_slice(part);
    }
}

/// Returns the length of the handshake message, if available.
fn message_length(message: &[u8]) -> Option<usize> {
    let [_, high, middle, low] = *message.first_chunk::<4>()?;
    Some((usize::from(high) << 16) | (usize::from(middle) << 8) | usize::from(low))
}

fn parse(body: &[u8]) -> Option<Hello> {
    let mut body = Cursor::new(body);
    body.take(2 + 32)?; // version and random
    body.prefixed(1)?; // session
    body.prefixed(2)?; // ciphers
    body.prefixed(1)?; // compression
    let mut hello = Hello { claim: Claim::None, hidden: false };
    if body.is_empty() {
        return Some(hello);
    }
    let mut extensions = body.prefixed(2)?;
    let mut named = false;
    while !extensions.is_empty() {
        let kind = extensions.short()?;
        let content = extensions.prefixed(2)?;
        match kind {
            // If there are two, we and the server could read different ones.
            SERVER_NAME if named => return None,
            SERVER_NAME => {
                named = true;
                hello.claim = server_name(content)?;
            }
            ENCRYPTED_HELLO => hello.hidden = true,
            _ => {}
        }
    }
    Some(hello)
}

fn server_name(content: Cursor<'_>) -> Option<Claim> {
    let mut content = content;
    let mut list = content.prefixed(2)?;
    let kind = list.byte()?;
    let name = list.prefixed(2)?;
    // More than one name is forbidden, and we would overlook the second.
    if kind != HOST_NAME || !list.is_empty() || !content.is_empty() || name.is_empty() {
        return None;
    }
    Some(match Claim::of(name.rest()) {
        // RFC 6066: literal addresses are not permitted here.
        Claim::Address(_) => Claim::None,
        claim => claim,
    })
}

/// Builds a ClientHello, for tests and fuzzing seeds.
pub fn sample(name: Option<&str>, hidden: bool, padding: usize) -> Vec<u8> {
    let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, content: &[u8]| {
        extensions.extend(kind.to_be_bytes());
        extensions.extend(short(content.len()));
        extensions.extend(content);
    };
    if padding > 0 {
        extension(21, &vec![0; padding]);
    }
    if let Some(name) = name {
        let entry = [&[HOST_NAME][..], &short(name.len()), name.as_bytes()].concat();
        extension(SERVER_NAME, &[&short(entry.len())[..], &entry].concat());
    }
    if hidden {
        extension(ENCRYPTED_HELLO, &[0; 8]);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(short(extensions.len()));
    body.extend(extensions);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    let message = [&[CLIENT_HELLO][..], &length[1..], &body].concat();
    let records = message
        .chunks(RECORD_LIMIT)
        .flat_map(|part| [&[HANDSHAKE, 3, 1][..], &short(part.len()), part].concat());
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Claim {
        Claim::of(text.as_bytes())
    }

    #[test]
    fn the_name_is_found_however_the_client_hello_is_cut() {
        for padding in [0, 500, 20_000] {
            let bytes = sample(Some("Api.Example.com"), false, padding);
            let done = Read::Done(Hello { claim: name("api.example.com"), hidden: false });
            assert_eq!(read(&bytes), done);
            assert_eq!(read(&[&bytes[..], b"more"].concat()), done);
            for end in (0..bytes.len()).step_by(1 + padding / 97) {
                assert_eq!(read(&bytes[..end]), Read::More, "{end}");
            }
        }
    }

    #[test]
    fn a_client_hello_in_many_small_records_is_reassembled() {
        let whole = sample(Some("a.example"), true, 0);
        let parts = whole[RECORD_HEAD..].chunks(7).flat_map(|part| {
            let length = u8::try_from(part.len()).unwrap();
            [&[HANDSHAKE, 3, 3, 0, length][..], part].concat()
        });
        let parts: Vec<u8> = parts.collect();
        assert_eq!(read(&parts), Read::Done(Hello { claim: name("a.example"), hidden: true }));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_broken() {
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Read::Broken);
        assert_eq!(
            read(&sample(None, false, 0)),
            Read::Done(Hello { claim: Claim::None, hidden: false })
        );
        assert_eq!(
            read(&sample(Some("127.0.0.1"), false, 0)),
            Read::Done(Hello { claim: Claim::None, hidden: false })
        );
        let bad = read(&sample(Some("a\0b.example"), false, 0));
        assert!(matches!(bad, Read::Done(Hello { claim: Claim::Bad(_), .. })), "{bad:?}");
        assert_eq!(read(&sample(Some("a.example"), false, HELLO_LIMIT)), Read::Broken);
        // A record of another kind in the middle.
        let mut mixed = sample(Some("a.example"), false, 20_000);
        mixed[RECORD_HEAD + RECORD_LIMIT] = 23;
        assert_eq!(read(&mixed), Read::Broken);
    }
}
