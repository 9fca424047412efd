//! Links that are used once, and the sessions they open. They live in memory: after a restart of the
//! daemon `hothouse ui` gives a new link.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use hothouse_model::id::hex;

/// How long a link waits to be used.
const LINK_TIME: Duration = Duration::from_secs(120);

/// How long a session lasts without being used.
const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);

/// How many of each there are at most.
const LIMIT: usize = 64;

/// A browser that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// What its cookie says.
    pub(super) id: String,
    /// What its forms say.
    pub(super) token: String,
}

/// Everything that opens the door.
#[derive(Debug, Default)]
pub(super) struct Keys {
    links: HashMap<String, Instant>,
    sessions: HashMap<String, (Session, Instant)>,
}

impl Keys {
    /// Makes a key for a link.
    pub(super) fn make_link(&mut self, now: Instant) -> String {
        self.links.retain(|_, made| now.duration_since(*made) < LINK_TIME);
        if self.links.len() >= LIMIT {
            self.links.clear();
        }
        let key = secret();
        self.links.insert(key.clone(), now);
        key
    }

    /// Lets somebody in who has a key; it opens nothing afterwards.
    pub(super) fn use_link(&mut self, key: &str, now: Instant) -> Option<Session> {
        let made = self.links.remove(key)?;
        if now.duration_since(made) >= LINK_TIME {
            return None;
        }
        self.sessions.retain(|_, (_, used)| now.duration_since(*used) < SESSION_TIME);
        if self.sessions.len() >= LIMIT {
            let oldest = self.sessions.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| self.sessions.remove(&id));
        }
        let session = Session { id: secret(), token: secret() };
        self.sessions.insert(session.id.clone(), (session.clone(), now));
        Some(session)
    }

    /// Returns the session of a cookie.
    pub(super) fn session(&mut self, id: &str, now: Instant) -> Option<Session> {
        let (session, used) = self.sessions.get_mut(id)?;
        if now.duration_since(*used) >= SESSION_TIME {
            return None;
        }
        *used = now;
        Some(session.clone())
    }
}

fn secret() -> String {
    hex(&hothouse_host::random::bytes::<32>())
}

/// Compares secrets in a time that does not tell where they differ.
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
        let link = keys.make_link(now);
        let session = keys.use_link(&link, now).unwrap();
        assert_eq!(keys.use_link(&link, now), None, "a link is used once");
        assert_eq!(keys.session(&session.id, now), Some(session.clone()));
        assert_eq!(keys.session(&session.token, now), None, "a token is no cookie");
        let late = keys.make_link(now);
        assert_eq!(keys.use_link(&late, now + LINK_TIME), None, "a link waits for two minutes");
        assert_eq!(keys.session(&session.id, now + SESSION_TIME), None);
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same("ab", "ab") && !same("ab", "ac") && !same("ab", "a") && !same("", "a"));
    }
}
