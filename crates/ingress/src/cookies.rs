//! Cookies: the one that picks a sandbox, and those of apps, which must not leave their sandbox.

use crate::{PICK, Route, names::ZONE};

/// Removes our own cookie from a `Cookie` header, whatever bytes surround it; returns its value and
/// the rest for the app.
pub fn split(header: &[u8]) -> (Option<String>, Vec<u8>) {
    let mut picked = None;
    let mut kept = Vec::with_capacity(header.len());
    for pair in header.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
        match value_of(pair) {
            Some(value) => picked = Some(String::from_utf8_lossy(value).into_owned()),
            None if pair.is_empty() => {}
            None => {
                if !kept.is_empty() {
                    kept.extend(b"; ");
                }
                kept.extend(pair);
            }
        }
    }
    (picked, kept)
}

/// Returns the value of a pair with our name. A browser sends a cookie without a name as just its
/// value, so `=hothouse-sandbox=x` would come back as ours.
fn value_of(pair: &[u8]) -> Option<&[u8]> {
    let begin = pair.iter().position(|byte| !matches!(byte, b'=' | b' ' | b'\t'))?;
    let pair = &pair[begin..];
    let at = pair.iter().position(|byte| *byte == b'=')?;
    let (name, value) = pair.split_at(at);
    (name.trim_ascii() == PICK.as_bytes()).then(|| value[1..].trim_ascii())
}

/// Returns the `Set-Cookie` that picks a sandbox on a shared host.
pub fn pick(id: &str) -> String {
    format!("{PICK}={id}; Path=/; Secure; HttpOnly; SameSite=Lax")
}

/// Confines a `Set-Cookie` of an app: a domain wider than its own sandbox's is removed, so that the
/// cookie belongs to the host only; a cookie with our name is dropped.
pub fn confine(header: &[u8], route: &Route) -> Option<Vec<u8>> {
    let mut parts = header.split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    if value_of(pair).is_some() {
        return None;
    }
    let zone = format!("{}.{}.{ZONE}", route.sandbox, route.project);
    let keep = |attribute: &&[u8]| {
        let Some(at) = attribute.iter().position(|byte| *byte == b'=') else { return true };
        let (name, value) = attribute.split_at(at);
        if !name.trim_ascii().eq_ignore_ascii_case(b"domain") {
            return true;
        }
        let domain = String::from_utf8_lossy(value[1..].trim_ascii()).to_ascii_lowercase();
        let domain = domain.trim_start_matches('.');
        domain == zone || domain.strip_suffix(&zone).is_some_and(|rest| rest.ends_with('.'))
    };
    Some(std::iter::once(pair).chain(parts.filter(keep)).collect::<Vec<_>>().join(&b';'))
}

/// Removes the parameter that picks a sandbox from a path and query.
pub fn picked_by_query(path_and_query: &str) -> Option<(String, String)> {
    let (path, query) = path_and_query.split_once('?')?;
    let mut picked = None;
    let kept = query.split('&').filter(|pair| {
        let own = pair.split_once('=').filter(|(name, _)| *name == PICK);
        if let Some((_, value)) = own {
            picked = Some(value.to_owned());
        }
        own.is_none()
    });
    let kept = kept.collect::<Vec<_>>().join("&");
    let rest = if kept.is_empty() { path.to_owned() } else { format!("{path}?{kept}") };
    picked.map(|id| (id, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::route;

    #[test]
    fn our_cookie_never_reaches_the_app() {
        let check = |header: &[u8], picked: Option<&str>, kept: &[u8]| {
            assert_eq!(split(header), (picked.map(str::to_owned), kept.to_owned()));
        };
        check(b"a=1; hothouse-sandbox=x; b=2", Some("x"), b"a=1; b=2");
        check(b"hothouse-sandbox=x", Some("x"), b"");
        check(b"a=hothouse-sandbox=x", None, b"a=hothouse-sandbox=x");
        check(b"a=\xc3\xa9; hothouse-sandbox=x", Some("x"), b"a=\xc3\xa9");
        check(b"a=\xff; =hothouse-sandbox = x ;", Some("x"), b"a=\xff");
        check(b"", None, b"");
    }

    #[test]
    fn a_cookie_stays_in_its_sandbox() {
        let route = route("shop", "a", "web");
        for (header, expected) in [
            ("s=1; Path=/", Some("s=1; Path=/")),
            ("s=1; Domain=localhost; Path=/", Some("s=1; Path=/")),
            ("s=1; domain=.shop.localhost", Some("s=1")),
            ("s=1; Domain=b.shop.localhost", Some("s=1")),
            ("s=1; Domain=xa.shop.localhost", Some("s=1")),
            ("s=1; Domain=a.shop.localhost; Secure", Some("s=1; Domain=a.shop.localhost; Secure")),
            ("s=1; Domain=web.a.shop.localhost", Some("s=1; Domain=web.a.shop.localhost")),
            ("s=\u{e9}; Domain=shop.localhost", Some("s=\u{e9}")),
            ("hothouse-sandbox=shop-b-0000; Path=/", None),
            // Nameless cookies, which browsers send back as if they were ours.
            ("=hothouse-sandbox=shop-b-0000; Path=/", None),
            (" = =hothouse-sandbox=shop-b-0000", None),
        ] {
            let confined = confine(header.as_bytes(), &route);
            assert_eq!(confined.as_deref(), expected.map(str::as_bytes), "{header}");
        }
    }

    #[test]
    fn the_parameter_is_taken_out_of_the_address() {
        let of = |text| picked_by_query(text).map(|(id, rest)| format!("{id} {rest}"));
        assert_eq!(of("/a?hothouse-sandbox=x").as_deref(), Some("x /a"));
        assert_eq!(of("/a?b=1&hothouse-sandbox=x&c=2").as_deref(), Some("x /a?b=1&c=2"));
        assert_eq!(of("/a?b=hothouse-sandbox"), None);
        assert_eq!(of("/a"), None);
    }
}
