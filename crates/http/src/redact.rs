//! Requests as they are recorded: without credentials, and with limited length.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};

/// The maximum number of headers kept per message, and the maximum length of each value.
const HEADERS: usize = 200;
const HEADER_CAP: usize = 4 << 10;

/// Headers whose values are credentials.
const REDACTED: [&str; 14] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-access-token",
    "x-amz-security-token",
    "x-csrf-token",
    "x-goog-api-key",
    "x-shopify-access-token",
    "private-token",
    "x-vault-token",
];

/// Query parameters whose values are credentials.
const REDACTED_PARAMETERS: [&str; 10] = [
    "key",
    "token",
    "secret",
    "password",
    "signature",
    "sig",
    "code",
    "credential",
    "auth",
    "apikey",
];

/// Returns headers for a record: credentials redacted, long values truncated.
pub fn redacted_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let show = |(name, value): (&HeaderName, &HeaderValue)| {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = match REDACTED.contains(&name.as_str()) {
            true => redacted(&text),
            false => text.chars().take(HEADER_CAP).collect(),
        };
        (name.as_str().to_owned(), text)
    };
    headers.iter().take(HEADERS).map(show).collect()
}

/// Keeps the scheme of a credential, which tells how it was sent.
fn redacted(text: &str) -> String {
    match text.split_once(' ') {
        Some((scheme, _))
            if scheme.len() <= 20
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') =>
        {
            format!("{scheme} [redacted]")
        }
        _ => "[redacted]".to_owned(),
    }
}

/// Returns a path and query for a record, with the values of credentials in the query redacted.
pub fn redacted_target(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_credential(name) => format!("{name}=[redacted]"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(['_', '-', '.']);
    words.any(|word| REDACTED_PARAMETERS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_headers_is_cut_and_bytes_that_are_not_text_are_shown_as_such() {
        let mut headers = HeaderMap::new();
        headers.insert("x-raw", HeaderValue::from_bytes(b"a\xff\xfe").unwrap());
        headers.insert("x-long", HeaderValue::from_str(&"v".repeat(100_000)).unwrap());
        for number in 0..1000 {
            headers.append("x-many", HeaderValue::from(number));
        }
        let shown = redacted_headers(&headers);
        assert_eq!(shown.len(), HEADERS);
        assert!(shown.contains(&("x-raw".into(), "a\u{fffd}\u{fffd}".into())));
        assert!(shown.iter().all(|(_, value)| value.len() <= HEADER_CAP));
    }

    #[test]
    fn keys_of_a_query_stay_and_values_of_credentials_do_not() {
        assert_eq!(redacted_target("/a?b=1&api_key=zzz&c"), "/a?b=1&api_key=[redacted]&c");
        assert_eq!(redacted_target("/a"), "/a");
    }
}
