//! Sign-in links for humans: valid once, for a few minutes, only on the host of their app.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hothouse_browser::state::{Cookie, StorageState};
use hothouse_host::random;
use hothouse_ingress::sign_in::{PATH, SignIn};
use hothouse_model::{Failure, FailureKind, SandboxRecord, id::hex};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Browsers;

/// How long a link is valid.
const GOOD: Duration = Duration::from_secs(300);

/// The maximum number of links; the oldest is removed.
const MOST: usize = 100;

/// The valid links.
#[derive(Default)]
pub(super) struct Links(Mutex<HashMap<String, Link>>);

struct Link {
    /// The public id of the sandbox.
    sandbox: String,
    app: String,
    gives: SignIn,
    made: Instant,
}

impl Links {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Link>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, link| link.made.elapsed() < GOOD);
        all
    }

    fn add(&self, link: Link) -> String {
        let key = hex(&random::bytes::<32>());
        let mut all = self.all();
        if all.len() >= MOST
            && let Some(oldest) =
                all.iter().min_by_key(|(_, link)| link.made).map(|(key, _)| key.clone())
        {
            all.remove(&oldest);
        }
        all.insert(key.clone(), link);
        key
    }

    /// Returns what a link grants. A link of another app or sandbox is invalid.
    fn find(&self, (sandbox, app): (&str, &str), key: &str, uses: bool) -> Option<SignIn> {
        let mut all = self.all();
        let link = all.get(key).filter(|link| link.sandbox == sandbox && link.app == app)?;
        let gives = link.gives.clone();
        if uses {
            all.remove(key);
        }
        Some(gives)
    }
}

impl Browsers {
    /// Creates a link that opens an app signed in as a role.
    pub async fn link(&self, sandbox: &SandboxRecord, role: &str) -> Result<String, Failure> {
        let signed_in = self.signed_in(sandbox, role).await?;
        let Some(host) = signed_in.url.strip_prefix("https://") else {
            return Err(Failure::new(FailureKind::Host, "there are no routed URLs on this host")
                .hint("`hothouse doctor` says why"));
        };
        let host = host.split(':').next().unwrap_or(host);
        let gives = SignIn {
            role: role.to_owned(),
            cookies: signed_in
                .state
                .cookies
                .iter()
                .filter_map(|cookie| header(cookie, host))
                .collect(),
            storage: storage(&signed_in.state, &signed_in.url),
            to: "/".to_owned(),
        };
        let made = Instant::now();
        let (sandbox, app) = (sandbox.id.to_string(), signed_in.app);
        let key = self.links.add(Link { sandbox, app, gives, made });
        Ok(format!("{}{PATH}{key}", signed_in.url))
    }

    /// Returns what a link grants, for the router.
    pub(crate) fn use_link(&self, id: &str, app: &str, key: &str, uses: bool) -> Option<SignIn> {
        self.links.find((id, app), key, uses)
    }
}

/// Formats a cookie as a header, if it belongs to this host.
fn header(cookie: &Cookie, host: &str) -> Option<String> {
    let domain = cookie.domain.trim_start_matches('.');
    let is_wide = cookie.domain.starts_with('.') && domain != host;
    let is_own = domain == host || is_wide && host.ends_with(&cookie.domain);
    let is_plain = |text: &str| {
        text.bytes().all(|c| c.is_ascii_graphic() && !matches!(c, b';' | b',' | b'"' | b'\\'))
    };
    if !is_own || cookie.name.is_empty() || cookie.name.contains('=') {
        return None;
    }
    if ![&cookie.name, &cookie.value, &cookie.path].into_iter().all(|text| is_plain(text)) {
        return None;
    }
    let path = if cookie.path.starts_with('/') { &cookie.path } else { "/" };
    let mut text = format!("{}={}; Path={path}", cookie.name, cookie.value);
    // A domain above the sandbox's own would reach other sandboxes.
    if is_wide && domain.split('.').count() >= 3 {
        text.push_str(&format!("; Domain={domain}"));
    }
    for (is, word) in [(cookie.http_only, "HttpOnly"), (cookie.secure, "Secure")] {
        if is {
            text.push_str(&format!("; {word}"));
        }
    }
    if matches!(cookie.same_site.as_str(), "Strict" | "Lax" | "None") {
        text.push_str(&format!("; SameSite={}", cookie.same_site));
    }
    Some(text)
}

/// Returns the local storage of an origin as a JSON object; empty if there is none.
fn storage(state: &StorageState, origin: &str) -> String {
    let own = state.origins.iter().filter(|stored| stored.origin == origin);
    let entries: Map<String, Value> = own
        .flat_map(|stored| &stored.local_storage)
        .map(|entry| (entry.name.clone(), Value::String(entry.value.clone())))
        .collect();
    if entries.is_empty() { String::new() } else { Value::Object(entries).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(domain: &str, value: &str) -> Cookie {
        Cookie {
            name: "sid".into(),
            value: value.into(),
            domain: domain.into(),
            secure: true,
            ..Cookie::default()
        }
    }

    #[test]
    fn cookies_are_those_of_the_host_and_reach_no_other_sandbox() {
        let host = "web.a.shop.localhost";
        for (domain, value, expected) in [
            (host, "1", Some("sid=1; Path=/; Secure")),
            (".a.shop.localhost", "1", Some("sid=1; Path=/; Domain=a.shop.localhost; Secure")),
            (".localhost", "1", Some("sid=1; Path=/; Secure")),
            ("web.b.shop.localhost", "1", None),
            (".b.shop.localhost", "1", None),
            ("b.a.shop.localhost", "1", None),
            (host, "1; Domain=x", None),
            (host, "1\nSet-Cookie: x", None),
        ] {
            assert_eq!(
                header(&cookie(domain, value), host).as_deref(),
                expected,
                "{domain} {value}"
            );
        }
    }

    #[test]
    fn a_link_is_for_one_app_and_one_use() {
        let links = Links::default();
        let gives = SignIn { role: "ann".into(), ..SignIn::default() };
        let link = || Link {
            sandbox: "s".into(),
            app: "web".into(),
            gives: gives.clone(),
            made: Instant::now(),
        };
        let key = links.add(link());
        assert_eq!(links.find(("s", "admin"), &key, true), None);
        assert_eq!(links.find(("t", "web"), &key, true), None);
        assert!(links.find(("s", "web"), &key, false).is_some(), "a look does not use it up");
        assert!(links.find(("s", "web"), &key, true).is_some());
        assert_eq!(links.find(("s", "web"), &key, true), None);
        let first = links.add(link());
        for _ in 0..MOST {
            links.add(link());
        }
        assert_eq!(links.find(("s", "web"), &first, true), None, "the oldest went");
    }
}
