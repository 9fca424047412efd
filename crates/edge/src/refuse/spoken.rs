//! Refusals for protocols other than HTTP and TLS: a client shows the reason instead of a broken
//! connection.
//!
//! Pure. If the server speaks first the port determines the protocol, otherwise the client's first
//! bytes do.

/// How a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpokenDenial {
    /// Send these bytes, then close.
    Say(Vec<u8>),
    /// Send these bytes, then wait for the client.
    Continue(Vec<u8>),
    /// No error message is possible.
    Reset,
}

/// The maximum length of a reason: some clients truncate lines.
const LONGEST: usize = 400;

/// Requests of PostgreSQL's clients, by the number after the length (its protocol, section 55.2).
const POSTGRES_TLS: u32 = 80_877_103;
const POSTGRES_GSS: u32 = 80_877_104;
const POSTGRES_START: u32 = 196_608;
const POSTGRES_CANCEL: u32 = 80_877_102;

/// Decides how to refuse a connection to a port that has sent `first` so far.
pub(super) fn refusal(port: u16, first: &[u8], reason: &str) -> SpokenDenial {
    let reason = line(reason);
    if first.starts_with(b"SSH-") {
        return SpokenDenial::Say(ssh(&reason));
    }
    if let Some(number) = postgres_request(first) {
        return match number {
            // Refuse encryption, so that the reason can be read.
            POSTGRES_TLS | POSTGRES_GSS => SpokenDenial::Continue(b"N".to_vec()),
            POSTGRES_CANCEL => SpokenDenial::Reset,
            _ => SpokenDenial::Say(postgres(&reason)),
        };
    }
    if is_redis(first) || port == 6379 && !first.is_empty() {
        return SpokenDenial::Say(format!("-ERR {reason}\r\n").into_bytes());
    }
    if first.starts_with(b"EHLO") || first.starts_with(b"HELO") {
        return SpokenDenial::Say(format!("554 5.7.1 {reason}\r\n").into_bytes());
    }
    if !first.is_empty() {
        return SpokenDenial::Reset;
    }
    match port {
        25 | 587 | 2525 => SpokenDenial::Say(format!("554 5.7.1 {reason}\r\n").into_bytes()),
        21 => SpokenDenial::Say(format!("421 {reason}\r\n").into_bytes()),
        110 => SpokenDenial::Say(format!("-ERR {reason}\r\n").into_bytes()),
        143 => SpokenDenial::Say(format!("* BYE {reason}\r\n").into_bytes()),
        3306 => SpokenDenial::Say(mysql(&reason)),
        22 => SpokenDenial::Say(ssh(&reason)),
        _ => SpokenDenial::Reset,
    }
}

/// Formats a single line of printable characters: it may contain names chosen by a room.
fn line(reason: &str) -> String {
    reason
        .chars()
        .map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' })
        .take(LONGEST)
        .collect()
}

/// Returns the code of the request that a PostgreSQL client starts with.
fn postgres_request(first: &[u8]) -> Option<u32> {
    let (length, rest) = first.split_first_chunk::<4>()?;
    let (number, _) = rest.split_first_chunk::<4>()?;
    let (length, number) = (u32::from_be_bytes(*length), u32::from_be_bytes(*number));
    let known = [POSTGRES_TLS, POSTGRES_GSS, POSTGRES_CANCEL].contains(&number)
        || number >> 16 == POSTGRES_START >> 16 && number & 0xffff <= 2;
    (known && (8..=10_000).contains(&length)).then_some(number)
}

/// Returns whether the client speaks Redis: an array of strings.
fn is_redis(first: &[u8]) -> bool {
    let Some(rest) = first.strip_prefix(b"*") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && rest[digits..].starts_with(b"\r\n")
}

/// Builds an ErrorResponse: severity, code (invalid authorization) and message.
fn postgres(reason: &str) -> Vec<u8> {
    let fields = [("S", "FATAL"), ("V", "FATAL"), ("C", "28000"), ("M", reason)];
    let mut body = Vec::new();
    for (kind, text) in fields {
        body.extend_from_slice(kind.as_bytes());
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&b"E"[..], &length.to_be_bytes(), &body].concat()
}

/// Builds an ERR packet in place of the greeting (1130, host not privileged); before the greeting it has no SQL state.
fn mysql(reason: &str) -> Vec<u8> {
    let mut body = vec![0xff];
    body.extend_from_slice(&1130_u16.to_le_bytes());
    body.extend_from_slice(reason.as_bytes());
    let length = u32::try_from(body.len()).unwrap_or_default().to_le_bytes();
    [&length[..3], &[0], &body].concat()
}

/// Builds a version and SSH_MSG_DISCONNECT (RFC 4253, sections 4.2, 6 and 11.1).
fn ssh(reason: &str) -> Vec<u8> {
    const HOST_NOT_ALLOWED: u32 = 1;
    let text = |text: &str| {
        let length = u32::try_from(text.len()).unwrap_or_default();
        [&length.to_be_bytes()[..], text.as_bytes()].concat()
    };
    let payload = [&[1][..], &HOST_NOT_ALLOWED.to_be_bytes(), &text(reason), &text("en")].concat();
    // The whole packet is a multiple of eight, with at least four bytes of padding.
    let padding = 8 - (payload.len() + 5) % 8;
    let padding = if padding < 4 { padding + 8 } else { padding };
    let length = u32::try_from(payload.len() + padding + 1).unwrap_or_default();
    let pads = u8::try_from(padding).unwrap_or(4);
    [b"SSH-2.0-Hothouse\r\n", &length.to_be_bytes()[..], &[pads], &payload, &vec![0; padding]]
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(port: u16, first: &[u8]) -> String {
        match refusal(port, first, "no\r\n\u{202e}way") {
            SpokenDenial::Say(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            SpokenDenial::Continue(bytes) => format!("then {}", String::from_utf8_lossy(&bytes)),
            SpokenDenial::Reset => "reset".into(),
        }
    }

    #[test]
    fn each_protocol_is_refused_in_its_own_words() {
        assert_eq!(said(25, b""), "554 5.7.1 no???way\r\n");
        assert_eq!(said(587, b"EHLO me\r\n"), "554 5.7.1 no???way\r\n");
        assert_eq!(said(21, b""), "421 no???way\r\n");
        assert_eq!(said(143, b""), "* BYE no???way\r\n");
        assert_eq!(said(6379, b"*1\r\n$4\r\nPING\r\n"), "-ERR no???way\r\n");
        assert_eq!(said(7000, b"*2\r\n$5\r\nHELLO\r\n"), "-ERR no???way\r\n");
        assert_eq!(said(3306, b""), "\u{b}\0\0\0\u{fffd}j\u{4}no???way");
        let tls = [&8_u32.to_be_bytes()[..], &POSTGRES_TLS.to_be_bytes()].concat();
        assert_eq!(said(5432, &tls), "then N");
        let start =
            [&20_u32.to_be_bytes()[..], &POSTGRES_START.to_be_bytes(), b"user\0a\0\0"].concat();
        let told = said(5432, &start);
        assert!(
            told.starts_with('E') && told.contains("SFATAL\0") && told.contains("Mno???way\0"),
            "{told:?}"
        );
        assert_eq!(said(9000, b"\x00\x01binary"), "reset");
        assert_eq!(said(9000, b""), "reset");
    }

    #[test]
    fn a_disconnect_is_a_whole_packet() {
        for length in 0..40 {
            let bytes = ssh(&"x".repeat(length));
            let packet = &bytes[b"SSH-2.0-Hothouse\r\n".len()..];
            let told = u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize;
            assert_eq!((packet.len() % 8, packet.len()), (0, told + 4));
            assert!(packet[4] >= 4);
        }
    }
}
