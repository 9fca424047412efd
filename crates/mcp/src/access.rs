//! Which clients a server accepts over HTTP on the loopback. Pure.
//!
//! A web page in the user's browser can send requests to the loopback too, even under a host name that resolves to it
//! (DNS rebinding). So a request must have exactly this address as its host, come from no other origin, and carry the
//! token.

use crate::era::STATELESS;

/// What is known about a request before its body is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim<'a> {
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub authorization: Option<&'a str>,
    /// The protocol version that the client declares.
    pub version: Option<&'a str>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    Host,
    Origin,
    Token,
    Version,
}

impl Denied {
    /// Returns its status code.
    pub fn status(self) -> u16 {
        match self {
            Self::Host | Self::Origin => 403,
            Self::Token => 401,
            Self::Version => 400,
        }
    }

    /// Returns the message for the client.
    pub fn message(self) -> &'static str {
        match self {
            Self::Host => "the request names another host than this server",
            Self::Origin => "the request comes from another origin",
            Self::Token => "the token is missing or wrong",
            Self::Version => "this version of the protocol is not supported",
        }
    }
}

/// Decides whether a request to the server at `port` is accepted.
pub fn check(claim: Claim<'_>, port: u16, token: &str) -> Result<(), Denied> {
    let names = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
    let is_own = |text: &str| names.iter().any(|name| name == text);
    if !claim.host.is_some_and(is_own) {
        return Err(Denied::Host);
    }
    if !claim.origin.is_none_or(|origin| origin.strip_prefix("http://").is_some_and(is_own)) {
        return Err(Denied::Origin);
    }
    let given = claim.authorization.and_then(|text| text.strip_prefix("Bearer "));
    if !given.is_some_and(|given| same(given.trim().as_bytes(), token.as_bytes())) {
        return Err(Denied::Token);
    }
    match claim.version {
        Some(version) if version != STATELESS && !crate::VERSIONS.contains(&version) => {
            Err(Denied::Version)
        }
        _ => Ok(()),
    }
}

/// Compares secrets in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Claim<'static> = Claim {
        host: Some("127.0.0.1:4000"),
        origin: None,
        authorization: Some("Bearer abc"),
        version: Some("2025-06-18"),
    };

    #[test]
    fn only_the_holder_of_the_token_at_this_address_is_heard() {
        assert_eq!(check(GOOD, 4000, "abc"), Ok(()));
        let own = Claim { origin: Some("http://localhost:4000"), ..GOOD };
        assert_eq!(check(own, 4000, "abc"), Ok(()));
        for (claim, why) in [
            (Claim { host: None, ..GOOD }, Denied::Host),
            (Claim { host: Some("evil.example:4000"), ..GOOD }, Denied::Host),
            (Claim { host: Some("127.0.0.1"), ..GOOD }, Denied::Host),
            (Claim { host: Some("127.0.0.1:4001"), ..GOOD }, Denied::Host),
            (Claim { host: Some("127.0.0.1:4000.evil.example"), ..GOOD }, Denied::Host),
            (Claim { origin: Some("https://evil.example"), ..GOOD }, Denied::Origin),
            (Claim { origin: Some("null"), ..GOOD }, Denied::Origin),
            (Claim { origin: Some("http://localhost:4001"), ..GOOD }, Denied::Origin),
            (Claim { origin: Some("https://127.0.0.1:4000"), ..GOOD }, Denied::Origin),
            (Claim { authorization: None, ..GOOD }, Denied::Token),
            (Claim { authorization: Some("Bearer abd"), ..GOOD }, Denied::Token),
            (Claim { authorization: Some("Bearer ab"), ..GOOD }, Denied::Token),
            (Claim { authorization: Some("Basic abc"), ..GOOD }, Denied::Token),
            (Claim { authorization: Some("Bearer "), ..GOOD }, Denied::Token),
            (Claim { version: Some("1999-01-01"), ..GOOD }, Denied::Version),
        ] {
            assert_eq!(check(claim, 4000, "abc"), Err(why), "{claim:?}");
        }
    }
}
