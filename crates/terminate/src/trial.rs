//! Entry points for fuzzing: requests as a room could send them, responses as a host could. They
//! panic if a value gets where it must not.

use std::sync::Arc;

use hothouse_model::{config::SecretForm, secret::SecretValue};
use hyper::{
    Request,
    header::{HeaderName, HeaderValue},
    http::request::Parts,
};

use crate::{
    budget::RoomBudget,
    frames::{Frames, messages},
    messages::Messages,
    outgoing::Outgoing,
    range,
    scan::{Echoes, Scanner},
    secrets::Known,
    sigv4, substitute,
};

const PLACEHOLDER: &str = "ghp_placeholder000000";
const VALUE: &str = "ghp_the-value-itself1";

fn known(form: SecretForm) -> Known {
    let value = SecretValue::new(VALUE.to_owned()).expect("the value is long enough");
    Known { name: "TOKEN".into(), form, placeholder: PLACEHOLDER.into(), value }
}

/// Parses a request: the first line is the URL, each further line a header.
fn head(bytes: &[u8]) -> Option<Parts> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let uri = std::str::from_utf8(lines.next()?).ok()?;
    let mut request = Request::builder().uri(uri).body(()).ok()?;
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?;
        request.headers_mut().append(name, value);
    }
    Some(request.into_parts().0)
}

/// Inserts a value into a request in every form. A form must keep it out of other places, and every
/// insertion must be reported.
pub fn request(bytes: &[u8]) {
    let held = |text: &[u8]| crate::text::holds(text, VALUE.as_bytes());
    if held(bytes) {
        return;
    }
    for form in [
        SecretForm::Header,
        SecretForm::Basic,
        SecretForm::Query,
        SecretForm::Git,
        SecretForm::Body,
        SecretForm::SigV4,
    ] {
        let Some(mut parts) = head(bytes) else { return };
        let secret = known(form);
        let Ok(done) = substitute::head(&mut parts, std::slice::from_ref(&secret)) else {
            continue;
        };
        // It does not matter whether it could be signed again, only what the request then contains.
        sigv4::resign(&mut parts, "host.example", b"", &[&secret]).ok();
        let in_header = parts.headers.values().any(|value| held(value.as_bytes()));
        let in_query = parts.uri.query().is_some_and(|query| held(query.as_bytes()));
        assert!(!in_header || matches!(form, SecretForm::Header | SecretForm::Git));
        assert!(!in_query || form == SecretForm::Query);
        assert!(!(in_header || in_query) || !done.used.is_empty());
    }
}

/// Signs a chunked body again, split where the first byte says. What was signed with the
/// placeholder keeps its length; anything else is refused, wherever it is split.
pub fn pieces(bytes: &[u8]) {
    let Some((step, body)) = bytes.split_first() else { return };
    let through = |step: usize| {
        let mut pieces = sigv4::pieces_of_a_trial(PLACEHOLDER, VALUE, step.is_multiple_of(2));
        let mut all = Vec::new();
        for piece in body.chunks(step.max(1)) {
            all.extend(pieces.push(piece)?);
        }
        pieces.finish()?;
        Ok::<_, sigv4::PieceError>(all)
    };
    let step = usize::from(*step);
    let (cut, whole) = (through(step), through(step + (body.len() + 2) / 2 * 2));
    assert_eq!(cut.is_ok(), whole.is_ok(), "where a body is cut makes no difference");
    if let (Ok(cut), Ok(whole)) = (cut, whole) {
        assert_eq!(cut, whole);
        assert_eq!(cut.len(), body.len(), "the length in the head stays true");
        assert!(!crate::text::holds(&cut, VALUE.as_bytes()));
    }
}

/// Scans a response, split where the first byte says. No value may pass, however it is split.
pub fn answer(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else { return };
    let secret = known(SecretForm::Header);
    let Some(echoes) = Echoes::of(&[secret], Vec::new()) else { return };
    let reach = echoes.reach();
    let mut scanner = Scanner::new(Arc::new(echoes));
    let (mut all, mut taken) = (Vec::new(), 0);
    for piece in stream.chunks(usize::from(*step).max(1)) {
        all.extend(scanner.push(piece, 0));
        taken += piece.len();
        assert!(all.len() + reach >= taken, "no more waits than could be the beginning of a value");
    }
    all.extend(scanner.finish());
    assert!(!crate::text::holds(&all, VALUE.as_bytes()));
    assert_eq!(all.len(), stream.len(), "the placeholder is as long as the value");
}

/// Scans the frames of a client: wherever they are split, the output is the same, and never longer
/// than the input.
fn outgoing(stream: &[u8], step: usize) {
    let through = |step: usize| {
        let mut frames = Outgoing::new(Arc::default(), RoomBudget::default());
        let mut all = Vec::new();
        let ended = stream
            .chunks(step.max(1))
            .try_for_each(|piece| frames.push(piece).map(|passed| all.extend_from_slice(&passed)));
        (all, ended.is_ok())
    };
    let (cut, whole) = (through(step), through(stream.len()));
    assert_eq!(cut.1, whole.1, "where a stream is cut makes no difference");
    assert!(cut.0.len() <= stream.len() && whole.0.len() <= stream.len());
    assert!(cut.0 == whole.0 || !cut.1, "what passes is the same");
}

/// Scans WebSocket frames, split where the first byte says: wherever they are split, the output is
/// the same, no value passes, and every frame is valid for a client.
pub fn frames(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else { return };
    let Some(echoes) = Echoes::of(&[known(SecretForm::Header)], Vec::new()) else { return };
    let echoes = Arc::new(echoes);
    let through = |step: usize| {
        let mut frames = Frames::new(echoes.clone());
        let mut all = Vec::new();
        let ended = stream
            .chunks(step.max(1))
            .try_for_each(|piece| frames.push(piece).map(|passed| all.extend_from_slice(&passed)));
        (messages(&all), ended.is_ok())
    };
    outgoing(stream, usize::from(*step));
    let (cut, whole) = (through(usize::from(*step)), through(stream.len()));
    assert_eq!(cut.1, whole.1, "where a stream is cut makes no difference");
    for (messages, _) in [&cut, &whole] {
        assert!(!messages.iter().any(|text| crate::text::holds(text, VALUE.as_bytes())));
    }
    assert!(!cut.1 || cut.0 == whole.0);
}

/// Requests ranges, cuts responses and parses messages: the first line is the room's range, the
/// second the host's `Content-Range`, the rest a body.
pub fn parts(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let (asked, sent, body) = (lines.next(), lines.next(), lines.next());
    let mut headers = hyper::HeaderMap::new();
    if let Some(asked) = asked.and_then(|asked| HeaderValue::from_bytes(asked).ok()) {
        headers.insert(hyper::header::RANGE, asked);
    }
    let reach = 40;
    if let Some(part) = range::widen(&hyper::Method::GET, &mut headers, Some(reach))
        && let Some(sent) = sent.and_then(|sent| std::str::from_utf8(sent).ok())
        && let Ok(slice) = range::slice(part, reach, sent)
    {
        assert!(slice.length > 0 && slice.total.is_none_or(|total| slice.from < total));
        slice.content();
    }
    headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let mut messages = Messages::of(&headers);
    for piece in body.unwrap_or_default().chunks(7) {
        match messages.follow(piece) {
            Ok(ended) => assert!(ended <= piece.len()),
            Err(_) => return,
        }
    }
}
