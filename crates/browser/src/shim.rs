//! Shims: what stands in for scripts of third parties in the browser, by the URLs that they come from.
//!
//! A shim's script tells what it was asked to do by [`BINDING`], a function of the page that takes `NAME: TEXT`.

/// The function of the page by which scripts of shims report.
pub const BINDING: &str = "__hothouse_shim";

/// One answer for all URLs of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    pub name: String,
    /// A URL in which `*` is any text.
    pub pattern: String,
    pub content_type: String,
    pub body: Vec<u8>,
}

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimAnswer {
    pub content_type: String,
    pub body: Vec<u8>,
}

/// All shims of a page, the first that matches wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShimSet(pub Vec<Shim>);

impl ShimSet {
    /// Returns the patterns as the browser has them.
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        // A question mark would be any character.
        self.0.iter().map(|shim| shim.pattern.replace('?', "\\?"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|shim| shim.name == name)
    }

    /// Returns what a URL is answered with, and by which shim.
    pub fn answer(&self, url: &str) -> Option<(&str, ShimAnswer)> {
        let shim = self.0.iter().find(|shim| matches(&shim.pattern, url))?;
        let ShimAnswer { content_type, body } =
            ShimAnswer { content_type: shim.content_type.clone(), body: shim.body.clone() };
        Some((&shim.name, ShimAnswer { content_type, body }))
    }
}

/// Whether a text is as a pattern says, in which `*` is any text. Takes time in proportion to both.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, url, expected) in [
            ("https://js.stripe.com/*", "https://js.stripe.com/v3/", true),
            ("https://js.stripe.com/*", "https://js.stripe.com.evil.example/", false),
            ("*://*.google.com/recaptcha/*", "https://www.google.com/recaptcha/api.js?x", true),
            ("https://a/b", "https://a/b?c", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(matches(pattern, url), expected, "{pattern} {url}");
        }
    }
}
