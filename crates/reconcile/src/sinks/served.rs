//! Source maps that only an app's server has: requested in its room, as the room's browser would.
//!
//! The URL of a script comes from the room and is not trusted. It only selects a port of the
//! sandbox itself and a path, so neither the host nor anything outside can be reached.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_browser::source_map::{self, MAP_MOST};
use hothouse_model::record::Kind;
use hothouse_sinks::Recorded;

use super::{RunSinks, resolved};
use crate::in_room::InRoom;

/// The time limit for a script and its map.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a response is cached: errors come in bursts.
const FRESH: Duration = Duration::from_secs(5);

/// How many scripts are cached.
const REMEMBERED: usize = 32;

/// Maps by the URL of their script.
pub(super) type Maps = BTreeMap<String, Map>;

type Map = Arc<Vec<u8>>;

/// A response of an app, and when it arrived.
type Sent = (Instant, Option<Map>);

/// Cached responses of apps.
#[derive(Default)]
pub(super) struct Served(Mutex<HashMap<String, Sent>>);

impl Served {
    fn known(&self, url: &str) -> Option<Option<Map>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, map) = known.get(url)?;
        (since.elapsed() < FRESH).then(|| map.clone())
    }

    fn remember(&self, url: &str, map: Option<Map>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(url.to_owned(), (Instant::now(), map));
    }
}

/// Whether there are errors of scripts, which may have a source map.
pub(super) fn has_scripts(records: &[Recorded]) -> bool {
    let mut errors = records.iter().filter(|record| record.kind == Kind::Error);
    errors.any(|error| !resolved::scripts(&error.body).is_empty())
}

impl RunSinks {
    /// Requests maps from the sandbox's apps for scripts that have none in the worktree.
    pub(super) async fn served_maps(self: &Arc<Self>, records: &[Recorded]) -> Maps {
        let errors = records.iter().filter(|record| record.kind == Kind::Error);
        let urls: BTreeSet<String> =
            errors.flat_map(|error| resolved::scripts(&error.body)).collect();
        if urls.is_empty() {
            return Maps::new();
        }
        let own = self.clone();
        let missing = tokio::task::spawn_blocking(move || {
            let (engine, sandbox) = (own.flags.engine(), &own.sandbox);
            let missing =
                urls.into_iter().filter(|url| resolved::map(engine, sandbox, url).is_none());
            missing.take(resolved::SCRIPTS).collect::<Vec<_>>()
        });
        let mut maps = Maps::new();
        for url in missing.await.unwrap_or_default() {
            let map = match self.served.known(&url) {
                Some(known) => known,
                None => {
                    let map = self.served_map(&url).await.map(Arc::new);
                    self.served.remember(&url, map.clone());
                    map
                }
            };
            maps.extend(map.map(|map| (url, map)));
        }
        maps
    }

    async fn served_map(&self, url: &str) -> Option<Vec<u8>> {
        let (engine, key) = (self.flags.engine().clone(), self.sandbox.key);
        // The room may have been starting when its sinks were created.
        let now = tokio::task::spawn_blocking(move || engine.sandbox(key)).await;
        let now = now.ok()?.ok()??;
        let room = InRoom::of(self.flags.engine(), &self.connections, &now).await.ok()?;
        let apps = room.stack.services.iter().map(|one| (one.app.as_deref(), one.port));
        let (port, path) = asked(apps, url)?;
        let ask = async |path: &str| {
            let told = room.get(port, path, "hothouse-source-maps", MAP_MOST, PATIENCE).await;
            told.ok().filter(|(status, _)| *status == 200).map(|(_, text)| text)
        };
        let script = ask(&path).await?;
        let address = source_map::address(&script)?;
        match source_map::inline(address) {
            Some(map) => Some(map),
            None => Some(ask(&beside(&path, address)?).await?.into_bytes()),
        }
    }
}

/// Returns the port of the room and the path of a script.
fn asked<'s>(
    services: impl IntoIterator<Item = (Option<&'s str>, Option<u16>)>,
    url: &str,
) -> Option<(u16, String)> {
    let (_, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()),
        None => (authority, None),
    };
    let is_meant = |(app, own): &(Option<&str>, Option<u16>)| match host {
        "127.0.0.1" | "localhost" => own.is_some() && *own == port,
        _ => app.is_some() && *app == host.split('.').next(),
    };
    let port = services.into_iter().find(is_meant)?.1?;
    Some((port, path.split('#').next()?.to_owned()))
}

/// Resolves a URL relative to a script; `None` if it is on another server.
fn beside(script: &str, address: &str) -> Option<String> {
    if address.contains("://") || address.starts_with("//") {
        return None;
    }
    let folder = script.split('?').next()?;
    let folder = &folder[..=folder.rfind('/')?];
    Some(if address.starts_with('/') { address.to_owned() } else { format!("{folder}{address}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_of_the_sandbox_are_asked() {
        let services = [(Some("web"), Some(3000)), (None, Some(5432))];
        let of = |url: &str| asked(services, url);
        assert_eq!(
            of("https://web.a.localhost:8443/x/app.js?v=1#y"),
            Some((3000, "/x/app.js?v=1".into()))
        );
        assert_eq!(of("http://127.0.0.1:3000/app.js"), Some((3000, "/app.js".into())));
        for other in [
            "https://evil.example/app.js",
            "http://127.0.0.1:22/app.js",
            "http://169.254.169.254/x",
            "app.js",
            "https://web.a.localhost",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(beside("/x/app.js?v=1", "app.js.map").as_deref(), Some("/x/app.js.map"));
        assert_eq!(beside("/x/app.js", "/maps/a").as_deref(), Some("/maps/a"));
        assert_eq!(beside("/x/app.js", "https://evil.example/a"), None);
    }
}
