//! Cookies: the one that picks a sandbox, and those of apps, which must not leave their sandbox.

use crate::{PICK, Route, names::ZONE};

/// Takes our own cookie out of a `Cookie` header; returns its value and what is left for the app.
pub fn split(header: &str) -> (Option<String>, String) {
    let mut picked = None;
    let kept = header.split(';').map(str::trim).filter(|pair| {
        let own = pair.split_once('=').filter(|(name, _)| name.trim() == PICK);
        if let Some((_, value)) = own {
            picked = Some(value.trim().to_owned());
        }
        own.is_none() && !pair.is_empty()
    });
    let kept = kept.collect::<Vec<_>>().join("; ");
    (picked, kept)
}

/// Returns the `Set-Cookie` that picks a sandbox on a shared host.
pub fn pick(id: &str) -> String {
    format!("{PICK}={id}; Path=/; Secure; HttpOnly; SameSite=Lax")
}

/// Confines a `Set-Cookie` of an app: a domain wider than its own sandbox's is taken off, so that the
/// cookie belongs to the host alone; one of our name is dropped.
pub fn confine(header: &str, route: &Route) -> Option<String> {
    let mut parts = header.split(';');
    let pair = parts.next().unwrap_or_default();
    if pair.split_once('=').is_some_and(|(name, _)| name.trim() == PICK) {
        return None;
    }
    let zone = format!("{}.{}.{ZONE}", route.sandbox, route.project);
    let keep = |attribute: &&str| {
        let Some((name, value)) = attribute.split_once('=') else { return true };
        if !name.trim().eq_ignore_ascii_case("domain") {
            return true;
        }
        let domain = value.trim().trim_start_matches('.').to_ascii_lowercase();
        domain == zone || domain.strip_suffix(&zone).is_some_and(|rest| rest.ends_with('.'))
    };
    Some(std::iter::once(pair).chain(parts.filter(keep)).collect::<Vec<_>>().join(";"))
}

/// Takes the parameter that picks a sandbox out of a path and query.
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
        assert_eq!(split("a=1; hothouse-sandbox=x; b=2"), (Some("x".into()), "a=1; b=2".into()));
        assert_eq!(split("hothouse-sandbox=x"), (Some("x".into()), String::new()));
        assert_eq!(split("a=hothouse-sandbox=x"), (None, "a=hothouse-sandbox=x".into()));
        assert_eq!(split(""), (None, String::new()));
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
            ("hothouse-sandbox=shop-b-0000; Path=/", None),
        ] {
            assert_eq!(confine(header, &route).as_deref(), expected, "{header}");
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
