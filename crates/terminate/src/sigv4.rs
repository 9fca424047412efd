//! AWS Signature Version 4: a request that the room signed with a placeholder is signed again with
//! the actual key. Pure.
//!
//! First the room's own signature is verified with the placeholder. That proves which variant (is
//! the path encoded twice?), on which services disagree, was used, and that the request was signed
//! with the placeholder at all; a request signed with another key is forwarded unchanged.

mod pieces;

use std::{borrow::Cow, collections::BTreeSet};

use aws_lc_rs::{digest, hmac};
use hothouse_model::id::hex;
use hyper::{
    Uri,
    header::{self, HeaderName, HeaderValue},
    http::request::Parts,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use zeroize::Zeroizing;

use crate::secrets::Known;

use pieces::Seed;
pub(crate) use pieces::{PieceError, Pieces};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Used in place of the hash of a body that is signed chunk by chunk.
const IN_PIECES: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
const TRAILER: &str = "-TRAILER";

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PLAIN_PATH: &AsciiSet = &PLAIN.remove(b'/');

/// A request that cannot be signed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SigningError {
    #[error(
        "the body is signed event by event, which cannot be signed again; let the SDK send it unsigned or whole"
    )]
    Events,
    #[error("the new signature is not valid in the request")]
    Unwritable,
}

/// Where a request has its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Query,
}

/// The parts of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    place: Place,
    key_id: String,
    /// `date/region/service/aws4_request`.
    scope: String,
    signed: Vec<String>,
    signature: String,
    date: String,
}

/// Returns whether signing a request again requires its body.
pub(crate) fn needs_body(parts: &Parts) -> bool {
    read(parts).is_some_and(|found| found.place == Place::Header)
        && !parts.headers.contains_key(CONTENT)
}

/// The result of signing a request again.
#[derive(Default)]
pub(crate) struct Resigned {
    /// The names of the secrets that were used.
    pub(crate) used: BTreeSet<String>,
    /// Signs the body again, if each chunk of it is signed.
    pub(crate) pieces: Option<Pieces>,
}

/// Signs a request again, if it was signed with a placeholder.
pub(crate) fn resign(
    parts: &mut Parts,
    host: &str,
    body: &[u8],
    secrets: &[&Known],
) -> Result<Resigned, SigningError> {
    let mut used = BTreeSet::new();
    let Some(found) = read(parts) else { return Ok(Resigned::default()) };
    let proved = secrets.iter().find_map(|secret| {
        let form = prove(parts, host, body, &found, &secret.placeholder)?;
        Some((secret, form))
    });
    let Some((key, form)) = proved else { return Ok(Resigned::default()) };
    let trailers = match content_hash(parts) {
        Some(hash) if hash == IN_PIECES => Some(false),
        Some(hash) if hash.strip_suffix(TRAILER) == Some(IN_PIECES) => Some(true),
        Some(hash) if hash.starts_with("STREAMING-AWS4-") => return Err(SigningError::Events),
        _ => None,
    };
    used.insert(key.name.clone());
    let mut next = found.clone();
    if let Some(secret) = secrets.iter().find(|secret| secret.placeholder == found.key_id) {
        next.key_id = secret.value.expose().to_owned();
        used.insert(secret.name.clone());
    }
    let unwritable = |_| SigningError::Unwritable;
    if let Some(token) = parts.headers.get_mut(TOKEN)
        && let Some(secret) = secrets.iter().find(|s| s.placeholder.as_bytes() == token.as_bytes())
    {
        *token = HeaderValue::from_str(secret.value.expose()).map_err(unwritable)?;
        token.set_sensitive(true);
        used.insert(secret.name.clone());
    }
    if found.place == Place::Query {
        set_query(parts, "X-Amz-Credential", &format!("{}/{}", next.key_id, next.scope))?;
        if let Some(token) = query_value(parts, "X-Amz-Security-Token")
            && let Some(secret) = secrets.iter().find(|s| s.placeholder == token)
        {
            set_query(parts, "X-Amz-Security-Token", secret.value.expose())?;
            used.insert(secret.name.clone());
        }
    }
    next.signature = sign(parts, host, body, &next, key.value.expose(), form);
    match found.place {
        Place::Query => set_query(parts, "X-Amz-Signature", &next.signature)?,
        Place::Header => {
            let text = format!(
                "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={}",
                next.key_id,
                next.scope,
                next.signed.join(";"),
                next.signature
            );
            let mut value = HeaderValue::from_str(&text).map_err(unwritable)?;
            value.set_sensitive(true);
            parts.headers.insert(header::AUTHORIZATION, value);
        }
    }
    let pieces = trailers.map(|trailers| {
        let seed = |secret: &str, signed: &Signature| Seed {
            key: signing_key(secret, &signed.scope),
            signature: signed.signature.clone(),
        };
        let when = format!("{}\n{}", found.date, found.scope);
        let (room, host) = (seed(&key.placeholder, &found), seed(key.value.expose(), &next));
        Pieces::new(when, room, host, trailers)
    });
    Ok(Resigned { used, pieces })
}

/// Creates the chunk signer for [`crate::trial`].
pub(crate) fn pieces_of_a_trial(placeholder: &str, value: &str, trailers: bool) -> Pieces {
    let seed = |secret: &str| Seed {
        key: signing_key(secret, "20130524/us-east-1/s3/aws4_request"),
        signature: "0".repeat(64),
    };
    let when = "20130524T000000Z\n20130524/us-east-1/s3/aws4_request".to_owned();
    Pieces::new(when, seed(placeholder), seed(value), trailers)
}

/// Derives the signing key from the secret key.
fn signing_key(secret: &str, scope: &str) -> Zeroizing<Vec<u8>> {
    let first = Zeroizing::new(format!("AWS4{secret}").into_bytes());
    scope.split('/').fold(first, |key, part| Zeroizing::new(mac(&key, part.as_bytes())))
}

/// Parses the signature of a request, in the header or the query.
fn read(parts: &Parts) -> Option<Signature> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(rest) = header.and_then(|text| text.strip_prefix(ALGORITHM)) {
        let field = |name: &str| {
            let mut fields = rest.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let (key_id, scope) = field("Credential")?.split_once('/')?;
        let date = parts.headers.get(DATE).or_else(|| parts.headers.get(header::DATE))?;
        return Some(Signature {
            place: Place::Header,
            key_id: key_id.to_owned(),
            scope: scope.to_owned(),
            signed: field("SignedHeaders")?.split(';').map(str::to_ascii_lowercase).collect(),
            signature: field("Signature")?.to_owned(),
            date: date.to_str().ok()?.to_owned(),
        });
    }
    if query_value(parts, "X-Amz-Algorithm")? != ALGORITHM {
        return None;
    }
    let credential = query_value(parts, "X-Amz-Credential")?;
    let (key_id, scope) = credential.split_once('/')?;
    let signed = query_value(parts, "X-Amz-SignedHeaders")?;
    Some(Signature {
        place: Place::Query,
        key_id: key_id.to_owned(),
        scope: scope.to_owned(),
        signed: signed.split(';').map(str::to_ascii_lowercase).collect(),
        signature: query_value(parts, "X-Amz-Signature")?,
        date: query_value(parts, "X-Amz-Date")?,
    })
}

/// The canonical form of a request before signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// S3 encodes a path once, the others twice.
    path_twice: bool,
    /// Whether the query is decoded and encoded again.
    query_again: bool,
    /// For a signature in the query: whether the body counts as unsigned.
    unsigned: bool,
}

/// Finds the form in which a placeholder yields the signature of the request.
fn prove(parts: &Parts, host: &str, body: &[u8], found: &Signature, key: &str) -> Option<Form> {
    let forms = (0..8_u8).map(|bits| Form {
        path_twice: bits & 1 != 0,
        query_again: bits & 2 != 0,
        unsigned: bits & 4 != 0,
    });
    forms.into_iter().find(|form| sign(parts, host, body, found, key, *form) == found.signature)
}

fn sign(parts: &Parts, host: &str, body: &[u8], with: &Signature, key: &str, form: Form) -> String {
    let canonical = Zeroizing::new(canonical(parts, host, body, with, form));
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("{ALGORITHM}\n{}\n{}\n{hash}", with.date, with.scope);
    hex(&mac(&signing_key(key, &with.scope), text.as_bytes()))
}

fn canonical(parts: &Parts, host: &str, body: &[u8], with: &Signature, form: Form) -> String {
    let path = match parts.uri.path() {
        "" => "/",
        path => path,
    };
    let path: Cow<'_, str> = match form.path_twice {
        true => utf8_percent_encode(path, PLAIN_PATH).to_string().into(),
        false => path.into(),
    };
    let headers: String = with
        .signed
        .iter()
        .map(|name| format!("{name}:{}\n", header_text(parts, host, name)))
        .collect();
    let hash = match content_hash(parts) {
        Some(hash) => hash.to_owned(),
        None if with.place == Place::Query && form.unsigned => "UNSIGNED-PAYLOAD".to_owned(),
        None => hex(digest::digest(&digest::SHA256, body).as_ref()),
    };
    format!(
        "{}\n{path}\n{}\n{headers}\n{}\n{hash}",
        parts.method,
        canonical_query(parts, form.query_again),
        with.signed.join(";"),
    )
}

fn canonical_query(parts: &Parts, again: bool) -> String {
    let pairs = pairs(parts).filter(|(name, _)| *name != "X-Amz-Signature");
    let mut pairs: Vec<(String, String)> = pairs
        .map(|(name, value)| match again {
            true => (recoded(name), recoded(value)),
            false => (name.to_owned(), value.to_owned()),
        })
        .collect();
    pairs.sort();
    let texts: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    texts.join("&")
}

fn recoded(text: &str) -> String {
    utf8_percent_encode(&percent_decode_str(text).decode_utf8_lossy(), PLAIN).to_string()
}

fn pairs(parts: &Parts) -> impl Iterator<Item = (&str, &str)> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn query_value(parts: &Parts, name: &str) -> Option<String> {
    let (_, value) = pairs(parts).find(|(known, _)| *known == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

fn set_query(parts: &mut Parts, name: &str, value: &str) -> Result<(), SigningError> {
    let value = utf8_percent_encode(value, PLAIN).to_string();
    let pairs = pairs(parts).map(|(known, old)| {
        let value = if known == name { value.as_str() } else { old };
        format!("{known}={value}")
    });
    let query: Vec<String> = pairs.collect();
    let text = Zeroizing::new(format!("{}?{}", parts.uri.path(), query.join("&")));
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = Some(text.parse().map_err(|_| SigningError::Unwritable)?);
    parts.uri = Uri::from_parts(uri).map_err(|_| SigningError::Unwritable)?;
    Ok(())
}

fn content_hash(parts: &Parts) -> Option<&str> {
    parts.headers.get(CONTENT).and_then(|value| value.to_str().ok())
}

fn header_text(parts: &Parts, host: &str, name: &str) -> String {
    if name == "host" {
        return host.to_owned();
    }
    let values = parts.headers.get_all(name).iter();
    let trimmed = values.map(|value| {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    });
    trimmed.collect::<Vec<_>>().join(",")
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use hothouse_model::{config::SecretForm, secret::SecretValue};
    use hyper::Request;

    use super::*;

    // The published example key, which grants access to nothing.
    const EXAMPLE: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const SCOPE: &str = "20150830/us-east-1/service/aws4_request";
    /// `get-vanilla` of the published test suite.
    const VANILLA: &str = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";

    fn known(name: &str, placeholder: &str, value: &str) -> Known {
        Known {
            name: name.into(),
            form: SecretForm::SigV4,
            placeholder: placeholder.into(),
            value: SecretValue::new(value.into()).unwrap(),
        }
    }

    fn request(uri: &str, key_id: &str, signature: &str, more: &[(&str, &str)]) -> Parts {
        let signed: Vec<&str> = ["host"]
            .into_iter()
            .chain(more.iter().map(|(name, _)| *name))
            .chain(["x-amz-date"])
            .collect();
        let authorization = format!(
            "{ALGORITHM} Credential={key_id}/{SCOPE}, SignedHeaders={}, Signature={signature}",
            signed.join(";")
        );
        let mut builder = Request::builder()
            .uri(uri)
            .header("x-amz-date", "20150830T123600Z")
            .header("authorization", authorization);
        for (name, value) in more {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_published_example_is_signed_as_published() {
        let parts = request("/", "AKIDEXAMPLE", VANILLA, &[]);
        let found = read(&parts).unwrap();
        assert!(prove(&parts, "example.amazonaws.com", b"", &found, EXAMPLE).is_some());
        assert!(prove(&parts, "example.amazonaws.com", b"x", &found, EXAMPLE).is_none());
    }

    /// Signs with a placeholder as an SDK in the room would, then again as the wall does.
    fn again(uri: &str, body: &[u8], more: &[(&str, &str)]) -> (Parts, BTreeSet<String>) {
        let mut parts = request(uri, "AKIDPLACEHOLDER0", "", more);
        let host = "bucket.s3.amazonaws.com";
        let form = Form { path_twice: false, query_again: false, unsigned: false };
        let found = read(&parts).unwrap();
        let own = sign(&parts, host, body, &found, "placeholder-of-the-key", form);
        parts = request(uri, "AKIDPLACEHOLDER0", &own, more);
        let id = known("ID", "AKIDPLACEHOLDER0", "AKIDREAL00000000");
        let key = known("KEY", "placeholder-of-the-key", "the-real-key-itself");
        let used = resign(&mut parts, host, body, &[&id, &key]).unwrap().used;
        (parts, used)
    }

    #[test]
    fn a_request_signed_with_placeholders_is_signed_again() {
        let (parts, used) = again("/a%20b?list-type=2&prefix=x%2Fy", b"body", &[]);
        assert_eq!(used.iter().map(String::as_str).collect::<Vec<_>>(), ["ID", "KEY"]);
        let found = read(&parts).unwrap();
        assert_eq!(found.key_id, "AKIDREAL00000000");
        let host = "bucket.s3.amazonaws.com";
        assert!(prove(&parts, host, b"body", &found, "the-real-key-itself").is_some());
        assert!(!parts.headers["authorization"].to_str().unwrap().contains("real-key"));
    }

    #[test]
    fn a_request_signed_with_another_key_is_left_alone() {
        let mut parts = request("/", "AKIDEXAMPLE", VANILLA, &[]);
        let before = parts.headers["authorization"].clone();
        let key = known("KEY", "placeholder-of-the-key", "the-real-key-itself");
        let used = resign(&mut parts, "example.amazonaws.com", b"", &[&key]).unwrap().used;
        assert!(used.is_empty());
        assert_eq!(parts.headers["authorization"], before);
    }

    #[test]
    fn a_body_signed_in_pieces_is_signed_again_and_one_of_events_is_not() {
        let outcome = |hash: &str| {
            let more = [("x-amz-content-sha256", hash)];
            let form = Form { path_twice: false, query_again: false, unsigned: false };
            let parts = request("/", "AKID", "", &more);
            let found = read(&parts).unwrap();
            let own = sign(&parts, "h", b"", &found, "placeholder-of-the-key", form);
            let mut parts = request("/", "AKID", &own, &more);
            let key = known("KEY", "placeholder-of-the-key", "the-real-key-itself");
            resign(&mut parts, "h", b"", &[&key]).map(|done| done.pieces.is_some())
        };
        assert_eq!(outcome("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Ok(true));
        assert_eq!(outcome("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"), Ok(true));
        assert_eq!(outcome("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), Ok(false));
        assert_eq!(outcome("STREAMING-AWS4-HMAC-SHA256-EVENTS"), Err(SigningError::Events));
    }

    #[test]
    fn a_signed_address_is_signed_again() {
        let text = |signature: &str| {
            format!(
                "/k?X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential=AKIDPLACEHOLDER0%2F20150830%2Fus-east-1%2Fs3%2Faws4_request\
                 &X-Amz-Date=20150830T123600Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature={signature}"
            )
        };
        let parts = |signature: &str| {
            Request::builder().uri(text(signature)).body(()).unwrap().into_parts().0
        };
        let form = Form { path_twice: false, query_again: false, unsigned: true };
        let found = read(&parts("x")).unwrap();
        let own = sign(&parts("x"), "h", b"", &found, "placeholder-of-the-key", form);
        let mut signed = parts(&own);
        let id = known("ID", "AKIDPLACEHOLDER0", "AKIDREAL00000000");
        let key = known("KEY", "placeholder-of-the-key", "the-real-key-itself");
        assert_eq!(resign(&mut signed, "h", b"", &[&id, &key]).unwrap().used.len(), 2);
        let found = read(&signed).unwrap();
        assert_eq!(found.key_id, "AKIDREAL00000000");
        assert!(prove(&signed, "h", b"", &found, "the-real-key-itself").is_some());
    }
}
