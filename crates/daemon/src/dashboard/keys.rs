//! Single-use links, and the sessions they create. Both are kept in memory: after a restart of the daemon `hothouse ui`
//! prints a new link.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use hothouse_model::id::hex;

/// How long a link is valid.
const LINK_TIME: Duration = Duration::from_secs(120);

/// How long an unused session lasts.
const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);

/// The maximum number of each.
const LIMIT: usize = 64;

/// An unused link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The label of the session's own host.
    pub(super) label: String,
    pub(super) key: String,
}

/// A signed-in browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The label of its own host. Cookies ignore ports, so on a host with a known name, anyone with a port there could
    /// read and replace the cookie.
    pub(super) label: String,
    /// The value of its cookie.
    pub(super) id: String,
    /// The token in its forms.
    pub(super) token: String,
}

/// All valid keys and sessions.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// By key.
    links: HashMap<String, (Link, Instant)>,
    sessions: HashMap<String, (Session, Instant)>,
}

impl Keys {
    /// Creates a link.
    pub(super) fn make_link(&mut self, now: Instant) -> Link {
        self.links.retain(|_, (_, made)| now.duration_since(*made) < LINK_TIME);
        if self.links.len() >= LIMIT {
            self.links.clear();
        }
        let link = Link { label: label(), key: secret() };
        self.links.insert(link.key.clone(), (link.clone(), now));
        link
    }

    /// Exchanges a key, sent to its own host, for a session. A key works once.
    pub(super) fn use_link(&mut self, label: &str, key: &str, now: Instant) -> Option<Session> {
        let (link, made) = self.links.remove(key)?;
        if !same(&link.label, label) || now.duration_since(made) >= LINK_TIME {
            return None;
        }
        self.sessions.retain(|_, (_, used)| now.duration_since(*used) < SESSION_TIME);
        if self.sessions.len() >= LIMIT {
            let oldest = self.sessions.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| self.sessions.remove(&id));
        }
        let session = Session { label: link.label, id: secret(), token: secret() };
        self.sessions.insert(session.id.clone(), (session.clone(), now));
        Some(session)
    }

    /// Returns the session of a cookie that was sent to a host.
    pub(super) fn session(&mut self, label: &str, id: &str, now: Instant) -> Option<Session> {
        let (session, used) = self.sessions.get_mut(id)?;
        if !same(&session.label, label) || now.duration_since(*used) >= SESSION_TIME {
            return None;
        }
        *used = now;
        Some(session.clone())
    }
}

/// Creates a label that cannot be guessed. DNS allows 63 characters.
fn label() -> String {
    hex(&hothouse_host::random::bytes::<16>())
}

fn secret() -> String {
    hex(&hothouse_host::random::bytes::<32>())
}

/// Compares secrets in constant time.
pub(super) fn same(one: &str, two: &str) -> bool {
    let differ = one.bytes().zip(two.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == two.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_one_session_and_only_soon() {
        let (mut keys, now) = (Keys::default(), Instant::now());
        let Link { label, key } = keys.make_link(now);
        let session = keys.use_link(&label, &key, now).unwrap();
        assert_eq!(keys.use_link(&label, &key, now), None, "a link is used once");
        assert_eq!(keys.session(&label, &session.id, now), Some(session.clone()));
        assert_eq!(keys.session(&label, &session.token, now), None, "a token is no cookie");
        let late = keys.make_link(now);
        let lately = keys.use_link(&late.label, &late.key, now + LINK_TIME);
        assert_eq!(lately, None, "a link waits for two minutes");
        assert_eq!(keys.session(&label, &session.id, now + SESSION_TIME), None);
    }

    #[test]
    fn a_session_is_bound_to_its_own_host() {
        let (mut keys, now) = (Keys::default(), Instant::now());
        let (one, two) = (keys.make_link(now), keys.make_link(now));
        assert_ne!(one.label, two.label);
        assert_eq!(keys.use_link(&two.label, &one.key, now), None);
        assert_eq!(keys.use_link(&one.label, &one.key, now), None, "it was tried elsewhere");
        let session = keys.use_link(&two.label, &two.key, now).unwrap();
        assert_eq!(keys.session(&one.label, &session.id, now), None);
        assert!(keys.session(&two.label, &session.id, now).is_some());
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same("ab", "ab") && !same("ab", "ac") && !same("ab", "a") && !same("", "a"));
    }
}
