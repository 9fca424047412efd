//! A storage state: the cookies and the local storage that sign a browser in, in Playwright's JSON.

use std::collections::BTreeMap;

use hothouse_model::browse::cut;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capture::text;

/// The maximum number of cookies, origins and entries, and the maximum length of a value.
const COOKIES_MOST: usize = 500;
const ORIGINS_MOST: usize = 50;
const ENTRIES_MOST: usize = 500;
const VALUE_MOST: usize = 100_000;

/// Cookies and local storage.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageState {
    pub cookies: Vec<Cookie>,
    pub origins: Vec<Origin>,
}

/// A cookie.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cookie {
    pub name: String,
    pub value: String,
    pub domain: String,
    pub path: String,
    /// In seconds since 1970; -1 for a session cookie.
    pub expires: f64,
    pub http_only: bool,
    pub secure: bool,
    pub same_site: String,
}

/// The local storage of an origin.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Origin {
    pub origin: String,
    pub local_storage: Vec<Entry>,
}

/// An entry of local storage.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    pub name: String,
    pub value: String,
}

/// A text that is not a storage state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAState {
    #[error("it is not a storage state: {0}")]
    Json(String),
    #[error("the storage state is too large")]
    TooLarge,
    #[error("the storage state has neither cookies nor local storage")]
    Empty,
}

impl std::fmt::Debug for StorageState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StorageState({} cookies, {} origins)", self.cookies.len(), self.origins.len())
    }
}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cookie({})", self.name)
    }
}

impl StorageState {
    /// Parses a state, which is untrusted.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotAState> {
        let state: Self =
            serde_json::from_slice(bytes).map_err(|error| NotAState::Json(error.to_string()))?;
        let entries = state.origins.iter().map(|origin| origin.local_storage.len()).max();
        let values = state.cookies.iter().map(|cookie| cookie.value.len());
        let longest = values
            .chain(
                state
                    .origins
                    .iter()
                    .flat_map(|it| it.local_storage.iter().map(|one| one.value.len())),
            )
            .max();
        let is_large = state.cookies.len() > COOKIES_MOST
            || state.origins.len() > ORIGINS_MOST
            || entries.unwrap_or(0) > ENTRIES_MOST
            || longest.unwrap_or(0) > VALUE_MOST;
        match (is_large, state.cookies.is_empty() && state.origins.is_empty()) {
            (true, _) => Err(NotAState::TooLarge),
            (_, true) => Err(NotAState::Empty),
            _ => Ok(state),
        }
    }

    /// Replaces a suffix of host names, to move a state to the app of another sandbox.
    #[must_use]
    pub fn moved(mut self, from: &str, to: &str) -> Self {
        let move_host = |host: &mut String| {
            if let Some(app) = host.strip_suffix(from) {
                *host = format!("{app}{to}");
            }
        };
        self.cookies.iter_mut().for_each(|cookie| move_host(&mut cookie.domain));
        for stored in &mut self.origins {
            let (before, rest) = stored.origin.split_once("://").unwrap_or(("", &stored.origin));
            let (mut host, port) = match rest.rsplit_once(':') {
                Some((host, port)) => (host.to_owned(), format!(":{port}")),
                None => (rest.to_owned(), String::new()),
            };
            move_host(&mut host);
            stored.origin = format!("{before}://{host}{port}");
        }
        self
    }

    /// Moves a state that was recorded on a loopback port to the origin of an app.
    #[must_use]
    pub fn adapted(mut self, origin: &str) -> Self {
        let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        let host = host.split(':').next().unwrap_or(host);
        let is_local = |name: &str| matches!(name, "localhost" | "127.0.0.1" | "[::1]");
        for cookie in self.cookies.iter_mut().filter(|cookie| is_local(&cookie.domain)) {
            cookie.domain = host.to_owned();
        }
        for stored in &mut self.origins {
            let rest = stored.origin.split_once("://").map_or("", |(_, rest)| rest);
            let name = rest.rsplit_once(':').map_or(rest, |(name, _)| name);
            if is_local(name) {
                stored.origin = origin.to_owned();
            }
        }
        self
    }

    /// Returns the cookies in the browser's format.
    pub fn cookies_for_browser(&self) -> Value {
        let all = self.cookies.iter().map(|cookie| {
            let mut tree = json!({
                "name": cookie.name, "value": cookie.value, "domain": cookie.domain,
                "path": if cookie.path.is_empty() { "/" } else { &cookie.path },
                "httpOnly": cookie.http_only, "secure": cookie.secure,
            });
            if matches!(cookie.same_site.as_str(), "Strict" | "Lax" | "None") {
                tree["sameSite"] = cookie.same_site.as_str().into();
            }
            if cookie.expires > 0.0 {
                tree["expires"] = cookie.expires.into();
            }
            tree
        });
        all.collect()
    }

    /// Returns the script that fills the local storage of each origin, once.
    pub fn script(&self) -> Option<String> {
        if self.origins.iter().all(|origin| origin.local_storage.is_empty()) {
            return None;
        }
        let origins: BTreeMap<&str, BTreeMap<&str, &str>> = self
            .origins
            .iter()
            .map(|origin| {
                let entries = origin.local_storage.iter();
                (
                    origin.origin.as_str(),
                    entries.map(|one| (one.name.as_str(), one.value.as_str())).collect(),
                )
            })
            .collect();
        // JSON is JavaScript, except for two line terminators.
        let data = json!(origins)
            .to_string()
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
        Some(format!("({})({data});", include_str!("scripts/storage.js")))
    }

    /// Returns the entries of the local storage, by the names that reports show.
    pub fn shown_storage(&self) -> BTreeMap<String, String> {
        let entries = self.origins.iter().flat_map(|origin| &origin.local_storage);
        entries.map(|one| (format!("local {}", one.name), one.value.clone())).collect()
    }
}

impl Cookie {
    /// Reads the cookies that a browser reports.
    pub fn read_all(tree: &Value) -> Vec<Self> {
        let all = tree.as_array().map(Vec::as_slice).unwrap_or_default();
        let read = all.iter().take(COOKIES_MOST).map(|one| Self {
            name: cut(text(&one["name"]), 500),
            value: cut(text(&one["value"]), VALUE_MOST),
            domain: cut(text(&one["domain"]), 300),
            path: cut(text(&one["path"]), 500),
            expires: one["expires"].as_f64().unwrap_or(-1.0),
            http_only: one["httpOnly"] == true,
            secure: one["secure"] == true,
            same_site: cut(text(&one["sameSite"]), 10),
        });
        read.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playwrights_json_is_read_and_bounded() {
        let text = r#"{"cookies":[{"name":"sid","value":"1","domain":"a.localhost","path":"/","expires":-1,"httpOnly":true,"secure":true,"sameSite":"Lax"}],
            "origins":[{"origin":"https://a.localhost","localStorage":[{"name":"t","value":"</script>"}]}]}"#;
        let state = StorageState::parse(text.as_bytes()).unwrap();
        assert_eq!(state.cookies_for_browser()[0]["sameSite"], "Lax");
        assert!(state.cookies_for_browser()[0]["expires"].is_null());
        assert!(state.script().unwrap().contains("https://a.localhost"));
        assert_eq!(format!("{state:?}"), "StorageState(1 cookies, 1 origins)");
        let local = r#"{"cookies":[{"name":"a","domain":"localhost"},{"name":"b","domain":"x.example"}],
            "origins":[{"origin":"http://localhost:3000","localStorage":[]}]}"#;
        let adapted = StorageState::parse(local.as_bytes())
            .unwrap()
            .adapted("https://web.a.b.localhost:8443");
        assert_eq!(
            (&*adapted.cookies[0].domain, &*adapted.cookies[1].domain),
            ("web.a.b.localhost", "x.example")
        );
        assert_eq!(adapted.origins[0].origin, "https://web.a.b.localhost:8443");
        assert_eq!(StorageState::parse(b"{}"), Err(NotAState::Empty));
        let many = json!({ "cookies": vec![json!({ "name": "a" }); COOKIES_MOST + 1] });
        assert_eq!(StorageState::parse(many.to_string().as_bytes()), Err(NotAState::TooLarge));
        assert!(matches!(StorageState::parse(b"["), Err(NotAState::Json(_))));
    }

    #[test]
    fn a_state_moves_to_the_host_of_another_sandbox() {
        let state = StorageState {
            cookies: vec![
                Cookie { domain: "web.a.shop.localhost".into(), ..Cookie::default() },
                Cookie { domain: ".a.shop.localhost".into(), ..Cookie::default() },
                Cookie { domain: "vendor.example".into(), ..Cookie::default() },
            ],
            origins: vec![Origin {
                origin: "https://web.a.shop.localhost:8443".into(),
                ..Origin::default()
            }],
        };
        let moved = state.moved(".a.shop.localhost", ".b.shop.localhost");
        let domains: Vec<&str> = moved.cookies.iter().map(|one| one.domain.as_str()).collect();
        assert_eq!(domains, ["web.b.shop.localhost", ".b.shop.localhost", "vendor.example"]);
        assert_eq!(moved.origins[0].origin, "https://web.b.shop.localhost:8443");
    }
}
