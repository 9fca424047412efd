//! The wall: names, first bytes of connections, packets, and requests whose TLS is terminated.

use hothouse_edge::wire::{
    Read,
    dns::{Code, Question, read_answer},
    echo, head, hello, packet, sniff, socks as socks_wire,
};
use hothouse_host::network::read_tracked;
use hothouse_model::policy::{Claim, PlainPath};

/// Checks a question from a room, or an answer to one of ours. Our answer matches exactly that question.
pub fn names(bytes: &[u8]) {
    match Question::read(bytes) {
        Ok(question) => {
            let asked = question.asked(7);
            let addresses = ["1.2.3.4".parse(), "::1".parse()].map(|at| at.expect("an address"));
            for answer in [question.empty(Code::NoName), question.addresses(&addresses, 1)] {
                assert!(read_answer(&renamed(&asked, bytes), &answer).is_some());
                assert!(Question::read(&answer).is_err(), "an answer is no question");
                assert!(question.cut(answer).len() <= 4096);
            }
            read_answer(&asked, bytes);
            if let Claim::Name(name) = &question.claim {
                assert!(name.as_str().is_ascii() && !name.as_str().contains('\0'));
            }
        }
        Err(told) => {
            if let Some(answer) = told.0 {
                assert_eq!(answer[..2], bytes[..2], "it carries the question's id");
                assert!(Question::read(&answer).is_err());
            }
        }
    }
}

/// Gives a question the id of another.
fn renamed(question: &[u8], like: &[u8]) -> Vec<u8> {
    [&like[..2], &question[2..]].concat()
}

/// Checks a ClientHello: more bytes never change what was read.
pub fn tls_hello(bytes: &[u8]) {
    if let Read::Done(read) = hello::read(bytes) {
        let longer = [bytes, b"more"].concat();
        assert_eq!(hello::read(&longer), Read::Done(read));
        assert!(bytes.len() <= hello::HELLO_LIMIT + (1 << 14) + 5);
    }
    sniffed(bytes);
}

/// Checks the head of a request: a name that is read can be compared.
pub fn http_head(bytes: &[u8]) {
    if let Read::Done(read) = head::read(bytes)
        && let Claim::Name(name) = &read.claim
    {
        assert_eq!(Claim::of(name.as_str().as_bytes()), read.claim);
    }
    sniffed(bytes);
}

/// Checks that the protocol of a connection does not change when more bytes arrive.
fn sniffed(bytes: &[u8]) {
    let Read::Done(first) = sniff::read(bytes) else { return };
    if !matches!(first, sniff::Sniffed::Broken(_)) {
        let longer = [bytes, b" \r\n\r\n"].concat();
        assert_eq!(sniff::read(&longer), Read::Done(first));
    }
}

/// Checks the kernel's description of a datagram flow: parsing needs enough bytes, and is deterministic.
pub fn tracked_flows(bytes: &[u8]) {
    if let Some(found) = read_tracked(bytes) {
        assert!(bytes.len() > 40, "two ends need some bytes");
        assert_eq!(read_tracked(bytes), Some(found));
    }
}

/// Checks echo requests reported by the kernel, and answers from a host.
pub fn echoes(bytes: &[u8]) {
    for request in echo::read_all(bytes) {
        assert!(request.echo.data.len() < bytes.len());
        let answer = echo::answer(request.client, request.target, &request.echo);
        let answer = answer.expect("both ends are of one kind");
        let (head, is_v4) = if request.client.is_ipv4() { (0, true) } else { (40, false) };
        assert_eq!(echo::read_answer(&answer[head..], is_v4, true), Some(request.echo));
    }
    for (is_v4, has_head) in [(true, true), (true, false), (false, false)] {
        if let Some(echo) = echo::read_answer(bytes, is_v4, has_head) {
            assert!(echo.data.len() + 8 <= bytes.len());
        }
    }
}

/// Checks the kernel's reports of packets that a room sent: never more packets than fit.
pub fn packets(bytes: &[u8]) {
    assert!(packet::read_all(bytes).len() <= bytes.len() / 20);
}

/// Checks SOCKS: never more bytes are taken than came.
pub fn socks(bytes: &[u8]) {
    if let Read::Done((_, length)) = socks_wire::read_greeting(bytes) {
        assert!(length <= bytes.len());
    }
    if let Read::Done((_, length)) = socks_wire::read_request(bytes) {
        assert!(length <= bytes.len());
    }
}

/// Checks the path of a request. A plain path stays plain, and has no other spelling that a rule would miss.
pub fn request_paths(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(path) = PlainPath::of(text) else { return };
    let below = path.is_below("/admin");
    assert!(!below || path.is_below_in_any_case("/ADMIN"));
    if !text.contains('%') {
        let encoded = text.replace('a', "%61");
        assert_eq!(PlainPath::of(&encoded), Ok(path));
    }
    for odd in ["/../", "//", "\\", ";", "%5C", "%25"] {
        assert!(PlainPath::of(&format!("{text}{odd}x")).is_err());
    }
    // An encoded slash hides nothing from a rule that denies.
    let hidden = PlainPath::of(&format!("{text}%2fx"));
    if let (Ok(hidden), Ok(shown)) = (hidden, PlainPath::of(&format!("{text}/x"))) {
        assert_eq!(hidden.is_below_in_any_case("/admin"), shown.is_below_in_any_case("/admin"));
    }
}

/// Checks a request to a terminated host: a value is inserted only where its form allows.
pub fn terminated_requests(bytes: &[u8]) {
    hothouse_terminate::trial::request(bytes);
}

/// Checks an answer of a terminated host: however it is split, no value passes.
pub fn terminated_answers(bytes: &[u8]) {
    hothouse_terminate::trial::answer(bytes);
}

/// Checks WebSocket frames from a host to a room.
pub fn websocket_frames(bytes: &[u8]) {
    hothouse_terminate::trial::frames(bytes);
}

/// Checks the range that a room requests, the one that a host sends, and a body made of messages.
pub fn answer_parts(bytes: &[u8]) {
    hothouse_terminate::trial::parts(bytes);
}

/// Checks a body that an AWS client signed chunk by chunk.
pub fn signed_pieces(bytes: &[u8]) {
    hothouse_terminate::trial::pieces(bytes);
}
