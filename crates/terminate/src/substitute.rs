//! Inserts values: turns the room's request into the host's. Pure.
//!
//! A value is inserted only where its declared form allows. Elsewhere a placeholder stays a
//! placeholder: in a body that a host stores and shows to others, a value would be leaked.

use std::collections::BTreeSet;

use hothouse_model::config::SecretForm;
use hyper::{
    HeaderMap, Uri,
    header::{self, HeaderValue},
    http::request::Parts,
};

use crate::{
    secrets::Known,
    text::{self, Secret, holds, replaced},
};

/// What was inserted, and how it appears on the wire.
#[derive(Default)]
pub(crate) struct Substituted {
    /// The names of the secrets that were used.
    pub(crate) used: BTreeSet<String>,
    /// What was sent, and what the room had sent in its place.
    pub(crate) echoes: Vec<(Secret, Vec<u8>)>,
}

/// A value that is invalid where its placeholder occurs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubstitutionError {
    #[error("the value of secret `{0}` is not valid in a header")]
    Header(String),
    #[error("the value of secret `{0}` is not valid in a URL")]
    Address(String),
}

/// Inserts values into the head of a request.
pub(crate) fn head(parts: &mut Parts, secrets: &[Known]) -> Result<Substituted, SubstitutionError> {
    let mut done = Substituted::default();
    // Read before anything is inserted: what the room gets back must not contain a value itself.
    let asked = basic_pair(&parts.headers);
    for secret in secrets {
        match secret.form {
            SecretForm::Header => {
                headers(&mut parts.headers, secret, &mut done)?;
                basic(&mut parts.headers, secret, &mut done)?;
            }
            SecretForm::Basic => basic(&mut parts.headers, secret, &mut done)?,
            SecretForm::Git if is_git(parts.uri.path()) => {
                authorization(&mut parts.headers, secret, &mut done)?;
                basic(&mut parts.headers, secret, &mut done)?;
            }
            SecretForm::Query => query(&mut parts.uri, secret, &mut done)?,
            SecretForm::Git | SecretForm::Body | SecretForm::SigV4 => {}
        }
    }
    let sent = basic_pair(&parts.headers);
    if let Some((asked, sent)) = asked.zip(sent).filter(|(asked, sent)| asked != sent) {
        done.echoes.push((text::base64(&sent), text::base64(&asked).to_vec()));
    }
    Ok(done)
}

/// Returns whether a path belongs to git over HTTP, or to Git LFS.
fn is_git(path: &str) -> bool {
    path.ends_with("/info/refs")
        || path.ends_with("/git-upload-pack")
        || path.ends_with("/git-receive-pack")
        || path.contains("/info/lfs/")
}

fn headers(
    headers: &mut HeaderMap,
    secret: &Known,
    done: &mut Substituted,
) -> Result<(), SubstitutionError> {
    for value in headers.values_mut() {
        replace_header(value, secret, done)?;
    }
    Ok(())
}

fn authorization(
    headers: &mut HeaderMap,
    secret: &Known,
    done: &mut Substituted,
) -> Result<(), SubstitutionError> {
    match headers.get_mut(header::AUTHORIZATION) {
        Some(value) => replace_header(value, secret, done),
        None => Ok(()),
    }
}

fn replace_header(
    value: &mut HeaderValue,
    secret: &Known,
    done: &mut Substituted,
) -> Result<(), SubstitutionError> {
    let (placeholder, real) = (secret.placeholder.as_bytes(), secret.value.expose().as_bytes());
    if let Some(text) = replaced(value.as_bytes(), placeholder, real) {
        *value = sensitive(&text, secret)?;
        done.used.insert(secret.name.clone());
    }
    Ok(())
}

fn sensitive(text: &[u8], secret: &Known) -> Result<HeaderValue, SubstitutionError> {
    let mut value = HeaderValue::from_bytes(text)
        .map_err(|_| SubstitutionError::Header(secret.name.clone()))?;
    // Keeps HTTP/2 from adding it to its header table.
    value.set_sensitive(true);
    Ok(value)
}

/// Handles `Authorization: Basic`, where user and password are base64-encoded.
fn basic(
    headers: &mut HeaderMap,
    secret: &Known,
    done: &mut Substituted,
) -> Result<(), SubstitutionError> {
    let Some(pair) = basic_pair(headers) else { return Ok(()) };
    let (placeholder, real) = (secret.placeholder.as_bytes(), secret.value.expose().as_bytes());
    let Some(pair) = replaced(&pair, placeholder, real) else { return Ok(()) };
    let encoded = text::base64(&pair);
    let mut whole = Secret::new(b"Basic ".to_vec());
    whole.extend_from_slice(&encoded);
    done.used.insert(secret.name.clone());
    let value = sensitive(&whole, secret)?;
    if let Some(first) = headers.get_mut(header::AUTHORIZATION) {
        *first = value;
    }
    Ok(())
}

/// Decodes user and password of `Authorization: Basic`.
fn basic_pair(headers: &HeaderMap) -> Option<Secret> {
    let (scheme, rest) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(6)?;
    scheme.eq_ignore_ascii_case(b"basic ").then(|| text::from_base64(rest))?
}

fn query(uri: &mut Uri, secret: &Known, done: &mut Substituted) -> Result<(), SubstitutionError> {
    let Some(query) = uri.query() else { return Ok(()) };
    let value = text::percent(secret.value.expose());
    let Some(query) = in_form(query.as_bytes(), &secret.placeholder, &value) else {
        return Ok(());
    };
    let wrong = || SubstitutionError::Address(secret.name.clone());
    let mut path = Secret::new(uri.path().as_bytes().to_vec());
    path.push(b'?');
    path.extend_from_slice(&query);
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.as_slice().try_into().map_err(|_| wrong())?);
    *uri = Uri::from_parts(parts).map_err(|_| wrong())?;
    done.used.insert(secret.name.clone());
    Ok(())
}

/// Replaces a placeholder in a query or a form, written plainly or percent-encoded.
fn in_form(text: &[u8], placeholder: &str, value: &[u8]) -> Option<Secret> {
    let encoded = text::percent(placeholder);
    let plain = replaced(text, placeholder.as_bytes(), value);
    let text = plain.as_deref().map_or(text, Vec::as_slice);
    replaced(text, &encoded, value).or(plain)
}

/// The kinds of bodies into which values are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Form,
    Json,
}

/// Returns the kind of a request's body, if values are inserted into it.
pub(crate) fn body_kind(headers: &HeaderMap) -> Option<BodyKind> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return None;
    }
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-www-form-urlencoded" => Some(BodyKind::Form),
        "application/json" => Some(BodyKind::Json),
        other if other.ends_with("+json") => Some(BodyKind::Json),
        _ => None,
    }
}

/// Inserts values into a complete body; `None` if it contains no placeholder.
pub(crate) fn body(
    kind: BodyKind,
    bytes: &[u8],
    secrets: &[Known],
    used: &mut BTreeSet<String>,
) -> Option<Secret> {
    let mut changed: Option<Secret> = None;
    for secret in secrets.iter().filter(|secret| secret.form == SecretForm::Body) {
        let text = changed.as_deref().map_or(bytes, Vec::as_slice);
        let done = match kind {
            BodyKind::Form => {
                in_form(text, &secret.placeholder, &text::percent(secret.value.expose()))
            }
            BodyKind::Json => {
                let (placeholder, value) =
                    (text::json(&secret.placeholder), text::json(secret.value.expose()));
                replaced(text, &placeholder, &value)
            }
        };
        if let Some(done) = done {
            used.insert(secret.name.clone());
            changed = Some(done);
        }
    }
    changed
}

/// Returns whether the head of a request contains a placeholder anywhere.
pub(crate) fn mentions(parts: &Parts, placeholder: &str) -> bool {
    let plain = |text: &[u8]| holds(text, placeholder.as_bytes());
    let in_basic = |value: &HeaderValue| {
        let rest = value.as_bytes().get(6..).unwrap_or_default();
        text::from_base64(rest).is_some_and(|pair| plain(&pair))
    };
    parts.headers.values().any(|value| plain(value.as_bytes()))
        || parts.headers.get(header::AUTHORIZATION).is_some_and(in_basic)
        || parts.uri.query().is_some_and(|query| {
            plain(query.as_bytes()) || holds(query.as_bytes(), &text::percent(placeholder))
        })
}

#[cfg(test)]
mod tests {
    use hothouse_model::secret::SecretValue;
    use hyper::Request;

    use super::*;

    const PLACEHOLDER: &str = "ghp_placeholder0000";
    const VALUE: &str = "ghp_real/va+lue&1111";

    fn secret(form: SecretForm) -> Known {
        let value = SecretValue::new(VALUE.into()).unwrap();
        Known { name: "TOKEN".into(), form, placeholder: PLACEHOLDER.into(), value }
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    fn sent(form: SecretForm, uri: &str, headers: &[(&str, &str)]) -> (Parts, bool) {
        let mut parts = request(uri, headers);
        let done = head(&mut parts, &[secret(form)]).unwrap();
        (parts, !done.used.is_empty())
    }

    #[test]
    fn a_header_gets_the_value_whatever_stands_around_it() {
        let bearer = format!("Bearer {PLACEHOLDER}");
        let (parts, used) = sent(
            SecretForm::Header,
            "/",
            &[("authorization", &bearer), ("x-api-key", PLACEHOLDER)],
        );
        assert!(used);
        assert_eq!(parts.headers["authorization"], format!("Bearer {VALUE}").as_str());
        assert_eq!(parts.headers["x-api-key"], VALUE);
        assert!(parts.headers["x-api-key"].is_sensitive());
    }

    #[test]
    fn basic_is_opened_and_closed_again() {
        let pair = |password: &str| {
            let encoded = text::base64(format!("git:{password}").as_bytes());
            format!("Basic {}", String::from_utf8(encoded.to_vec()).unwrap())
        };
        for (form, uri, goes) in [
            (SecretForm::Header, "/x", true),
            (SecretForm::Basic, "/x", true),
            (SecretForm::Git, "/a/b.git/info/refs?service=git-upload-pack", true),
            (SecretForm::Git, "/a/b/issues", false),
            (SecretForm::Query, "/x", false),
        ] {
            let (parts, used) = sent(form, uri, &[("authorization", &pair(PLACEHOLDER))]);
            let expected = pair(if goes { VALUE } else { PLACEHOLDER });
            assert_eq!(parts.headers["authorization"], expected.as_str(), "{form} {uri}");
            assert_eq!(used, goes);
        }
    }

    #[test]
    fn what_is_put_back_for_an_echo_holds_no_value_whatever_the_room_combined() {
        let known = |name: &str, placeholder: &str, value: &str| Known {
            name: name.into(),
            form: SecretForm::Header,
            placeholder: placeholder.into(),
            value: SecretValue::new(value.into()).unwrap(),
        };
        // Letters of base64 only, so that it also counts as a part of a pair.
        let (user, password) = ("aaaabbbbccccdddd", "eeeeffff00001111");
        let all =
            [known("USER", user, "AAAABBBBCCCCDDDD"), known("PASS", password, "real//REAL++1234")];
        let encoded =
            |text: &str| String::from_utf8(text::base64(text.as_bytes()).to_vec()).unwrap();
        for rest in [
            encoded(&format!("{user}:{password}")),
            encoded(&format!("{password}:{user}")),
            encoded(&format!("{user}{password}:{user}")),
            format!("{user}{}", encoded(&format!("x:{user}"))),
            format!("{password}{user}{}", encoded(&format!("{password}:{user}"))),
            // Without padding, which the host gets.
            encoded(&format!("xx:{user}")).trim_end_matches('=').to_owned(),
        ] {
            let mut parts = request("/", &[("authorization", &format!("Basic {rest}"))]);
            let done = head(&mut parts, &all).unwrap();
            let sent = parts.headers["authorization"].as_bytes()[6..].to_vec();
            assert_ne!(sent, rest.as_bytes());
            let echoes = crate::scan::Echoes::of(&all, done.echoes).unwrap();
            let back = String::from_utf8(echoes.replace(&sent).into_owned()).unwrap();
            assert_eq!(back.trim_end_matches('='), rest.trim_end_matches('='));
            assert_eq!(back.len(), sent.len(), "ranges rely on the length");
        }
    }

    #[test]
    fn a_form_keeps_the_value_out_of_other_places() {
        let (parts, used) =
            sent(SecretForm::Query, &format!("/x?key={PLACEHOLDER}&a=1"), &[("x-k", PLACEHOLDER)]);
        assert!(used);
        assert_eq!(parts.uri, "/x?key=ghp_real%2Fva%2Blue%261111&a=1");
        assert_eq!(parts.headers["x-k"], PLACEHOLDER);
        let (parts, used) = sent(SecretForm::Header, &format!("/x?key={PLACEHOLDER}"), &[]);
        assert!(!used);
        assert_eq!(parts.uri, format!("/x?key={PLACEHOLDER}").as_str());
    }

    #[test]
    fn bodies_get_the_value_in_their_own_writing() {
        let mut used = BTreeSet::new();
        let form = format!("a=1&token={PLACEHOLDER}");
        let done = body(BodyKind::Form, form.as_bytes(), &[secret(SecretForm::Body)], &mut used);
        assert_eq!(&**done.unwrap(), b"a=1&token=ghp_real%2Fva%2Blue%261111");
        let json = format!("{{\"token\":\"{PLACEHOLDER}\"}}");
        let done = body(BodyKind::Json, json.as_bytes(), &[secret(SecretForm::Body)], &mut used);
        assert_eq!(&**done.unwrap(), format!("{{\"token\":\"{VALUE}\"}}").as_bytes());
        assert!(
            body(BodyKind::Json, json.as_bytes(), &[secret(SecretForm::Header)], &mut used)
                .is_none()
        );
        assert!(used.contains("TOKEN"));
    }

    #[test]
    fn only_bodies_that_can_be_read_are_changed() {
        let kind = |headers: &[(&str, &str)]| body_kind(&request("/", headers).headers);
        assert_eq!(
            kind(&[("content-type", "application/json; charset=utf-8")]),
            Some(BodyKind::Json)
        );
        assert_eq!(
            kind(&[("content-type", "application/x-www-form-urlencoded")]),
            Some(BodyKind::Form)
        );
        assert_eq!(
            kind(&[("content-type", "application/json"), ("content-encoding", "gzip")]),
            None
        );
        assert_eq!(kind(&[("content-type", "application/octet-stream")]), None);
    }

    #[test]
    fn a_value_that_no_header_can_hold_is_refused() {
        let value = SecretValue::new("line one\nline two".into()).unwrap();
        let secret = Known { value, ..secret(SecretForm::Header) };
        let mut parts = request("/", &[("x-k", PLACEHOLDER)]);
        assert!(head(&mut parts, &[secret]).is_err());
    }
}
