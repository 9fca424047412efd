//! Turns the host's response into the room's: decoded, scanned, cut.

use std::sync::Arc;

use hothouse_http::strip_hop_by_hop;
use http_body_util::BodyExt;
use hyper::{
    Response, StatusCode,
    ext::ReasonPhrase,
    header::{self, HeaderValue},
    http::request::Parts,
};

use crate::{
    answer::Own,
    body::{Body, Scanned, Sliced, of_unknown_length, scrub},
    budget::RoomBudget,
    decode::{self, Undecodable},
    messages::Messages,
    range::{self, NoSlice, Part},
    scan::Echoes,
};

/// The range that the room requested, and by how much it was widened on each side.
#[derive(Clone, Copy)]
pub(crate) struct AskedPart {
    part: Part,
    reach: usize,
}

/// Ensures that no range of a response cuts a value in two. Returns the range that the room
/// requested, if it gets a range.
pub(crate) fn whole_values(parts: &mut Parts, echoes: &Echoes) -> Option<AskedPart> {
    // If replacements have another length, the range could not be located afterwards.
    let reach = echoes.keep_length().then(|| echoes.reach());
    let part = range::widen(&parts.method, &mut parts.headers, reach);
    part.zip(reach).map(|(part, reach)| AskedPart { part, reach })
}

/// Builds the room's response.
pub(crate) fn finish(
    response: Response<Body>,
    echoes: Option<Arc<Echoes>>,
    part: Option<AskedPart>,
    (head, budget): (bool, &RoomBudget),
) -> Result<Response<Body>, Own> {
    let (mut parts, body) = response.into_parts();
    // The host's reason phrase would not be scanned; clients derive the standard one from the
    // status.
    parts.extensions.remove::<ReasonPhrase>();
    let bare = head || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    // Before any header is removed: `Connection` may name the one that declares the compression.
    let chunked = if bare { Ok(()) } else { decode::only_chunked(&parts.headers) };
    chunked.map_err(|Undecodable(coding)| Own::compressed(coding))?;
    let codings = decode::codings(&parts.headers);
    strip_hop_by_hop(&mut parts.headers, false);
    parts.headers.remove(header::TE);
    let Some(echoes) = echoes else { return Ok(Response::from_parts(parts, body)) };
    let packed = codings.as_ref().map_or(true, |codings| !codings.is_empty());
    if packed {
        // The compressed length would reveal whether text that an agent chose resembles the rest; so also without a
        // body.
        parts.headers.remove(header::CONTENT_ENCODING);
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    let body = match codings {
        _ if head && packed => of_unknown_length(),
        _ if bare => body,
        Err(Undecodable(coding)) => return Err(Own::compressed(coding)),
        Ok(codings) if codings.is_empty() => body,
        Ok(codings) => {
            let spent = budget.decoder().ok_or_else(Own::busy)?;
            decode::decoded(body, &codings, Some(spent))
        }
    };
    scrub(&mut parts.headers, &echoes);
    if !echoes.keep_length() && !bare {
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    let messages = Messages::of(&parts.headers);
    let body = Scanned::new(body, echoes, messages).boxed_unsync();
    let response = Response::from_parts(parts, body);
    if bare { Ok(response) } else { cut(response, part) }
}

/// Cuts a response to the range that the room requested. Any other range is refused: it may cut a
/// value in two.
fn cut(response: Response<Body>, asked: Option<AskedPart>) -> Result<Response<Body>, Own> {
    let (mut parts, body) = response.into_parts();
    let content = parts.headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let kind = parts.headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    let several =
        kind.unwrap_or_default().to_ascii_lowercase().starts_with(b"multipart/byteranges");
    // A delta against an earlier response (RFC 3229).
    if parts.status == StatusCode::IM_USED {
        return Err(Own::partial());
    }
    if parts.status != StatusCode::PARTIAL_CONTENT && !several {
        return Ok(Response::from_parts(parts, body));
    }
    // Pagination as some databases write it: `0-9/100`.
    if !several && content.is_some_and(|content| !content.to_ascii_lowercase().contains("bytes")) {
        return Ok(Response::from_parts(parts, body));
    }
    let (Some(AskedPart { part, reach }), Some(content), false) = (asked, content, several) else {
        return Err(Own::partial());
    };
    let (status, content, skip, length) = match range::slice(part, reach, content) {
        Ok(slice) => (parts.status, slice.content(), slice.skip, slice.length),
        Err(NoSlice::Behind { total }) => {
            (StatusCode::RANGE_NOT_SATISFIABLE, format!("bytes */{total}"), 0, 0)
        }
        Err(NoSlice::Other) => return Err(Own::partial()),
    };
    parts.status = status;
    let content = HeaderValue::from_str(&content).map_err(|_| Own::partial())?;
    parts.headers.insert(header::CONTENT_RANGE, content);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(Response::from_parts(parts, Sliced::new(body, skip, length).boxed_unsync()))
}

#[cfg(test)]
mod tests {
    use hothouse_model::{config::SecretForm, secret::SecretValue};

    use super::*;
    use crate::{body::whole, secrets::Known};

    fn echoes() -> Option<Arc<Echoes>> {
        let secret = Known {
            name: "T".into(),
            form: SecretForm::Header,
            placeholder: "tok_ffffffffffffffff".into(),
            value: SecretValue::new("tok_0123456789abcdef".into()).unwrap(),
        };
        Echoes::of(&[secret], Vec::new()).map(Arc::new)
    }

    /// Returns the status of the resulting response; `None` if it is refused.
    fn finished(status: u16, headers: &[(&str, &str)]) -> Option<u16> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(whole("text")).unwrap();
        finish(response, echoes(), None, (false, &RoomBudget::default()))
            .ok()
            .map(|done| done.status().as_u16())
    }

    #[test]
    fn what_cannot_be_looked_through_is_refused_however_it_is_said() {
        for (status, headers, passes) in [
            (200, &[][..], true),
            (200, &[("content-encoding", "identity")], true),
            (200, &[("content-encoding", "compress")], false),
            // If `Connection` names it, the header would be removed before it is read.
            (200, &[("content-encoding", "compress"), ("connection", "content-encoding")], false),
            (200, &[("transfer-encoding", "chunked")], true),
            (200, &[("transfer-encoding", "gzip, chunked")], false),
            (206, &[], false),
            (206, &[("content-range", "bytes 0-3/9")], false),
            (206, &[("content-range", "Bytes 0-3/9")], false),
            (206, &[("content-range", "bytes 0-3/9"), ("connection", "content-range")], false),
            (206, &[("content-range", "0-9/100")], true),
            (206, &[("content-type", "multipart/byteranges; boundary=x")], false),
            (200, &[("content-type", "Multipart/ByteRanges")], false),
            (226, &[], false),
            (416, &[("content-range", "bytes */9")], true),
        ] {
            assert_eq!(finished(status, headers).is_some(), passes, "{status} {headers:?}");
        }
    }

    #[test]
    fn no_length_tells_how_well_an_answer_was_compressed() {
        let of = |status: u16, coding: &str, head: bool| {
            let response = Response::builder().status(status).header("content-length", "68");
            let response = response.header("content-encoding", coding).body(whole("")).unwrap();
            finish(response, echoes(), None, (head, &RoomBudget::default()))
                .unwrap()
                .headers()
                .clone()
        };
        for coding in ["gzip", "br", "deflate, gzip", "of-tomorrow"] {
            for headers in [of(200, coding, true), of(304, coding, false), of(204, coding, false)] {
                assert!(!headers.contains_key("content-length"), "{coding} {headers:?}");
            }
        }
        assert_eq!(of(200, "identity", true)["content-length"], "68");
        let big = Response::builder().header("content-encoding", "gzip").body(whole("")).unwrap();
        let budget = RoomBudget::default();
        let _all: Vec<_> = std::iter::from_fn(|| budget.decoder()).collect();
        let busy = finish(big, echoes(), None, (false, &budget)).err().unwrap();
        assert_eq!(busy.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
