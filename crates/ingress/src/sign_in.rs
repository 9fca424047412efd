//! Links that sign a human in to an app, once.
//!
//! The router answers them itself, on the app's own host and only for clients outside of rooms: the app never sees the
//! key, and nothing in a room can use one. A link that is merely fetched, by a preview or a prefetch, shows a button
//! and stays valid; pressing the button uses it up.

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{self, HeaderName, HeaderValue},
};

use crate::{Rooms, Route, pages, proxy::Body};

/// The path prefix of links, on the host of an app.
pub const PATH: &str = "/.hothouse/sign-in/";

/// What a link gives to the browser that uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignIn {
    pub role: String,
    /// Values of `Set-Cookie`.
    pub cookies: Vec<String>,
    /// The local storage as a JSON object; empty if there is none.
    pub storage: String,
    /// The path to continue to.
    pub to: String,
}

/// Returns the key in a path, if it is the path of a link.
pub(crate) fn key_of(path: &str) -> Option<&str> {
    let key = path.strip_prefix(PATH)?;
    (!key.is_empty() && key.len() <= 128 && key.bytes().all(|c| c.is_ascii_hexdigit()))
        .then_some(key)
}

/// Answers a request for a link.
pub(crate) fn answer<B>(
    rooms: &dyn Rooms,
    request: &Request<B>,
    route: &Route,
    key: &str,
) -> Response<Body> {
    let uses = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST if is_own(request.headers()) => true,
        _ => return pages::plain(StatusCode::FORBIDDEN, "open the link itself in a browser"),
    };
    match rooms.sign_in(&route.id, &route.app, key, uses) {
        None => pages::plain(
            StatusCode::GONE,
            "this link was used, or is too old; `hothouse auth link ROLE` makes another",
        ),
        Some(found) if uses => signed_in(&found),
        Some(found) => pages::sign_in(route, &found.role),
    }
}

/// Returns whether a form was sent from our own origin, by a header that pages cannot forge; clients other than
/// browsers send none.
fn is_own(headers: &HeaderMap) -> bool {
    let site = headers.get(HeaderName::from_static("sec-fetch-site"));
    site.is_none_or(|site| site == "same-origin")
}

fn signed_in(found: &SignIn) -> Response<Body> {
    let mut response = match found.storage.is_empty() {
        true => {
            let mut response = pages::redirect(&found.to, None);
            *response.status_mut() = StatusCode::SEE_OTHER;
            response
        }
        false => pages::signed_in(&found.storage, &found.to),
    };
    for cookie in &found.cookies {
        if let Ok(cookie) = HeaderValue::from_str(cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_of_a_link_is_one() {
        assert_eq!(key_of("/.hothouse/sign-in/00ff"), Some("00ff"));
        for other in
            ["/.hothouse/sign-in/", "/.hothouse/sign-in/xyz", "/.hothouse/sign-in/00/..", "/x"]
        {
            assert_eq!(key_of(other), None, "{other}");
        }
    }

    #[test]
    fn another_page_cannot_press_the_button() {
        let mut headers = HeaderMap::new();
        assert!(is_own(&headers));
        headers.insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
        assert!(!is_own(&headers));
        headers.insert("sec-fetch-site", HeaderValue::from_static("same-origin"));
        assert!(is_own(&headers));
    }

    #[test]
    fn cookies_are_set_and_storage_needs_a_page() {
        let cookies = vec!["sid=1; Path=/".to_owned(), "bad\nname=1".to_owned()];
        let plain = SignIn { cookies, to: "/".into(), ..SignIn::default() };
        let response = signed_in(&plain);
        assert_eq!(
            (response.status(), response.headers().get_all(header::SET_COOKIE).iter().count()),
            (StatusCode::SEE_OTHER, 1)
        );
        let stored = signed_in(&SignIn { storage: "{\"a\":\"<b>\"}".into(), ..plain });
        assert_eq!(stored.status(), StatusCode::OK);
        assert!(
            stored.headers()[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .unwrap()
                .contains("script-src 'sha256-")
        );
    }
}
