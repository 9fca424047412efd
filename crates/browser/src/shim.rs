//! Shims: replacements for third-party scripts in the browser, by the URLs that they come from.
//!
//! A shim's script reports what it was asked to do through [`BINDING`], a function of the page that takes `NAME: TEXT`.

use hothouse_model::config::ShipShim;

/// The function of the page by which scripts of shims report.
pub const BINDING: &str = "__hothouse_shim";

/// One answer for all URLs of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    pub name: String,
    /// A URL in which `*` matches any text.
    pub pattern: String,
    pub content_type: String,
    pub body: Vec<u8>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimAnswer {
    pub content_type: String,
    pub body: Vec<u8>,
}

/// All shims of a page; the first that matches wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShimSet(pub Vec<Shim>);

/// Returns the shims that come with Hothouse for a vendor.
pub fn shipped(name: &str, vendor: ShipShim) -> Vec<Shim> {
    if let Some(known) = ANY.iter().find(|known| known.vendor == vendor) {
        return shims(name, known.patterns, &known.script(name));
    }
    let (patterns, script): (&[&str], String) = match vendor {
        ShipShim::Stripe => (
            &["https://js.stripe.com/*"],
            include_str!("shims/stripe.js").replace("`stripe: ", &format!("`{name}: ")),
        ),
        ShipShim::Turnstile => (
            &["https://challenges.cloudflare.com/turnstile/*"],
            include_str!("shims/turnstile.js").replace("`turnstile: ", &format!("`{name}: ")),
        ),
        ShipShim::Recaptcha => (
            &[
                "https://www.google.com/recaptcha/*",
                "https://www.recaptcha.net/recaptcha/*",
                "https://www.gstatic.com/recaptcha/*",
            ],
            captcha(name, "recaptcha", "03AFcWeA-hothouse", "g-recaptcha-response"),
        ),
        ShipShim::Hcaptcha => (
            &["https://js.hcaptcha.com/*", "https://hcaptcha.com/1/api.js*"],
            // The token of hCaptcha's own test keys.
            captcha(name, "hcaptcha", "10000000-aaaa-bbbb-cccc-000000000001", "h-captcha-response"),
        ),
        _ => (&[], String::new()),
    };
    shims(name, patterns, &script)
}

fn shims(name: &str, patterns: &[&str], script: &str) -> Vec<Shim> {
    let shim = |pattern: &&str| Shim {
        name: name.to_owned(),
        pattern: (*pattern).to_owned(),
        content_type: JAVASCRIPT.to_owned(),
        body: script.as_bytes().to_vec(),
    };
    patterns.iter().map(shim).collect()
}

/// A script that only has to let its page continue: it accepts every call.
struct Any {
    vendor: ShipShim,
    patterns: &'static [&'static str],
    /// `map`, `chat` or `tag`.
    kind: &'static str,
    /// The global variables by which pages find it.
    globals: &'static [&'static str],
}

impl Any {
    fn script(&self, name: &str) -> String {
        let globals: Vec<String> = self.globals.iter().map(|one| format!("'{one}'")).collect();
        include_str!("shims/any.js")
            .replace("`${NAME}: ", &format!("`{name}: "))
            .replace("__KIND__", self.kind)
            .replace("__GLOBALS__", &format!("[{}]", globals.join(", ")))
    }
}

const ANY: [Any; 8] = [
    Any {
        vendor: ShipShim::GoogleMaps,
        patterns: &[
            "https://maps.googleapis.com/maps/api/js*",
            "https://maps.google.com/maps/api/js*",
        ],
        kind: "map",
        globals: &["google.maps"],
    },
    Any {
        vendor: ShipShim::Mapbox,
        patterns: &[
            "https://api.mapbox.com/mapbox-gl-js/*.js*",
            "https://api.tiles.mapbox.com/mapbox-gl-js/*.js*",
        ],
        kind: "map",
        globals: &["mapboxgl"],
    },
    Any {
        vendor: ShipShim::MetaPixel,
        patterns: &["https://connect.facebook.net/*"],
        kind: "tag",
        globals: &["fbq", "FB"],
    },
    Any {
        vendor: ShipShim::LinkedIn,
        patterns: &["https://snap.licdn.com/*"],
        kind: "tag",
        globals: &["lintrk"],
    },
    Any {
        vendor: ShipShim::Intercom,
        patterns: &["https://widget.intercom.io/*", "https://js.intercomcdn.com/*"],
        kind: "chat",
        globals: &["Intercom"],
    },
    Any {
        vendor: ShipShim::Crisp,
        patterns: &["https://client.crisp.chat/*"],
        kind: "chat",
        globals: &["$crisp"],
    },
    Any {
        vendor: ShipShim::Zendesk,
        patterns: &["https://static.zdassets.com/*"],
        kind: "chat",
        globals: &["zE", "$zopim"],
    },
    Any {
        vendor: ShipShim::HubSpot,
        patterns: &[
            "https://js.hs-scripts.com/*",
            "https://js.usemessages.com/*",
            "https://js.hsforms.net/*",
        ],
        kind: "chat",
        globals: &["HubSpotConversations", "hbspt", "_hsq"],
    },
];

/// The content type of a script.
pub const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

fn captcha(name: &str, kind: &str, token: &str, field: &str) -> String {
    let text =
        include_str!("shims/captcha.js").replace("__TOKEN__", token).replace("__FIELD__", field);
    text.replace("`${NAME}: ", &format!("`{name}: ")).replace("__NAME__", kind)
}

/// Returns the content type of a file by its extension.
pub fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        _ => JAVASCRIPT,
    }
}

impl ShimSet {
    /// Returns the patterns in the browser's syntax.
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        // A question mark would match any character.
        self.0.iter().map(|shim| shim.pattern.replace('?', "\\?"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|shim| shim.name == name)
    }

    /// Returns the answer for a URL, and the name of its shim.
    pub fn answer(&self, url: &str) -> Option<(&str, ShimAnswer)> {
        let shim = self.0.iter().find(|shim| matches(&shim.pattern, url))?;
        let answer =
            ShimAnswer { content_type: shim.content_type.clone(), body: shim.body.clone() };
        Some((&shim.name, answer))
    }
}

/// Returns whether a text matches a pattern, in which `*` matches any text. Takes time in proportion to both.
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
    fn shims_report_by_the_name_that_the_config_gives_them() {
        let own = [ShipShim::Stripe, ShipShim::Turnstile, ShipShim::Recaptcha, ShipShim::Hcaptcha];
        let all: Vec<ShipShim> = own.into_iter().chain(ANY.iter().map(|any| any.vendor)).collect();
        assert_eq!(all.len(), ShipShim::WORDS.len(), "each word of the config has a shim");
        for vendor in all {
            let set = ShimSet(shipped("pay", vendor));
            let script = String::from_utf8(set.0[0].body.clone()).unwrap();
            assert!(script.contains("`pay: ") && !script.contains("__NAME__"), "{vendor}");
            assert!(!script.contains("__GLOBALS__") && !script.contains("__KIND__"), "{vendor}");
            assert!(script.contains(BINDING), "{vendor}");
        }
        let set = ShimSet(shipped("stripe", ShipShim::Stripe));
        assert_eq!(set.answer("https://js.stripe.com/basil/stripe.js").unwrap().0, "stripe");
        assert_eq!(set.answer("https://api.stripe.com/v1/x"), None);
    }

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
