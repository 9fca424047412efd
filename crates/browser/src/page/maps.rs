//! Source maps of a page's scripts: for the stacks of its errors, and for coverage.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Page;
use crate::{
    capture::text,
    coverage::PageCoverage,
    source_map::{self, MAP_MOST, Place},
};

/// How many scripts of a page have their maps read, for errors and for coverage.
const SCRIPTS_MOST: usize = 8;
const MEASURED_MOST: usize = 100;

/// How much of a map is requested at a time.
const PIECE: usize = 1 << 20;

const SOURCE: &str = include_str!("../scripts/source.js");

impl Page {
    /// Replaces places in the stacks of exceptions with those of the sources, if scripts of the page's origin have
    /// maps.
    pub async fn map_errors(&self, deadline: Instant) {
        let stacks = self.noted(|capture| capture.page_errors.join("\n"));
        let mut by_script: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        // An inline script has the URL of the page, and requesting that again would repeat its side effects.
        let is_file = |place: &Place| {
            let path = place.url.split(['?', '#']).next().unwrap_or_default();
            [".js", ".mjs", ".cjs"].iter().any(|ending| path.ends_with(ending))
        };
        for place in source_map::places(&stacks).into_iter().filter(is_file) {
            by_script.entry(place.url.clone()).or_default().push(place);
        }
        if by_script.is_empty() {
            return;
        }
        self.noted(|capture| capture.muted = true);
        let mut found = BTreeMap::new();
        for (url, places) in by_script.into_iter().take(SCRIPTS_MOST) {
            let most = source_map::MAP_MOST;
            let source = format!("({SOURCE})({}, {most})", Value::String(url));
            let told = self.evaluate(&source, deadline).await.unwrap_or_default();
            let map = match text(&told) {
                inline if inline.starts_with("data:") => {
                    source_map::inline(inline).unwrap_or_default()
                }
                plain => plain.as_bytes().to_vec(),
            };
            found.extend(source_map::find(&map, &places));
        }
        self.noted(|capture| {
            capture.muted = false;
            let mapped = capture.page_errors.iter().map(|error| source_map::told(error, &found));
            capture.page_errors = mapped.collect();
        });
    }

    /// Returns the coverage of the scripts of the sandbox's own apps; `None` if it was not requested.
    pub async fn coverage(&self, deadline: Instant) -> Option<PageCoverage> {
        let taker = self.taker.as_ref()?;
        taker.take(deadline).await;
        let mut coverage = taker.done();
        let mut maps: BTreeMap<String, Option<Vec<u8>>> = BTreeMap::new();
        for script in &mut coverage.scripts {
            let Some(address) = source_map::address(script.tail()) else { continue };
            if address.starts_with("data:") {
                script.map = source_map::inline(address);
                continue;
            }
            let Some(url) = beside(&script.url, address) else { continue };
            if !maps.contains_key(&url) && maps.len() < MEASURED_MOST {
                maps.insert(url.clone(), self.load(&url, deadline).await);
            }
            script.map = maps.get(&url).cloned().flatten();
        }
        Some(coverage)
    }

    /// Has the browser load a file on behalf of the page, as its own tools do: the page does not notice.
    async fn load(&self, url: &str, deadline: Instant) -> Option<Vec<u8>> {
        let options = json!({ "disableCache": false, "includeCredentials": true });
        let params = json!({ "frameId": self.frame, "url": url, "options": options });
        let told = self.call("Network.loadNetworkResource", params, deadline).await.ok()?;
        let stream = told["resource"]["stream"].as_str()?.to_owned();
        let mut bytes = Vec::new();
        loop {
            let params = json!({ "handle": stream, "size": PIECE });
            let piece = self.call("IO.read", params, deadline).await.ok()?;
            match piece["base64Encoded"] == true {
                true => bytes.extend(STANDARD.decode(text(&piece["data"])).ok()?),
                false => bytes.extend_from_slice(text(&piece["data"]).as_bytes()),
            }
            if piece["eof"] == true || bytes.len() > MAP_MOST {
                break;
            }
        }
        self.call("IO.close", json!({ "handle": stream }), deadline).await.ok();
        (bytes.len() <= MAP_MOST).then_some(bytes)
    }
}

/// Resolves a URL relative to a script, if it is of the same origin.
fn beside(script: &str, address: &str) -> Option<String> {
    let path = script.split(['?', '#']).next().unwrap_or_default();
    let host = path.find("://").map(|at| at + 3)?;
    let end = path[host..].find('/').map_or(path.len(), |at| host + at);
    let origin = &path[..end];
    match address {
        whole if whole.contains("://") => {
            whole.strip_prefix(origin)?.starts_with('/').then(|| whole.to_owned())
        }
        other if other.starts_with("//") => None,
        below if below.starts_with('/') => Some(format!("{origin}{below}")),
        beside => {
            let folder = path[end..].rfind('/').map_or(path, |at| &path[..end + at]);
            Some(format!("{folder}/{beside}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_of_the_origin_of_its_script() {
        let script = "https://web.a.localhost:8443/assets/app.js?v=1";
        for (address, expected) in [
            ("app.js.map", Some("https://web.a.localhost:8443/assets/app.js.map")),
            ("/maps/app.map", Some("https://web.a.localhost:8443/maps/app.map")),
            ("https://web.a.localhost:8443/x.map", Some("https://web.a.localhost:8443/x.map")),
            ("https://evil.example/x.map", None),
            ("https://web.a.localhost:84430/x.map", None),
            ("//evil.example/x.map", None),
        ] {
            assert_eq!(beside(script, address).as_deref(), expected, "{address}");
        }
        assert_eq!(beside("about:blank", "x.map"), None);
    }
}
