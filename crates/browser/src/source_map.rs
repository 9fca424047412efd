//! Source maps: find the source of a place in a bundled script. Pure; the map is the page's, so it is untrusted.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use hothouse_model::{browse::cut, source_map};
use serde::Deserialize;

pub use hothouse_model::source_map::MAP_MOST;

/// How many places of a stack are mapped.
const PLACES_MOST: usize = 20;

/// A place in a script, as in stacks: both numbers count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub url: String,
    pub line: u32,
    pub column: u32,
}

#[derive(Deserialize)]
struct Map {
    mappings: String,
    sources: Vec<Option<String>>,
}

/// Finds the places of a stack: `URL:LINE:COLUMN`.
pub fn places(stack: &str) -> Vec<Place> {
    let words = stack.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')'));
    let mut found: Vec<Place> = Vec::new();
    for word in words.filter(|word| word.starts_with("http")) {
        let mut parts = word.rsplitn(3, ':');
        let (column, line, url) = (parts.next(), parts.next(), parts.next());
        if let (Some(Ok(column)), Some(Ok(line)), Some(url)) =
            (column.map(str::parse), line.map(str::parse), url)
        {
            let place = Place { url: url.to_owned(), line, column };
            if found.len() < PLACES_MOST && !found.contains(&place) {
                found.push(place);
            }
        }
    }
    found
}

/// Returns the URL of a script's map, from its last lines.
pub fn address(script: &str) -> Option<&str> {
    let (_, rest) = script.rsplit_once("sourceMappingURL=")?;
    rest.split_whitespace().next().filter(|address| !address.is_empty())
}

/// Returns the map in a `data:` URL.
pub fn inline(address: &str) -> Option<Vec<u8>> {
    let (head, data) = address.strip_prefix("data:")?.split_once(',')?;
    if !head.ends_with(";base64") || data.len() > MAP_MOST {
        return None;
    }
    STANDARD.decode(data).ok()
}

/// Finds the sources of places in one script.
pub fn find(map: &[u8], places: &[Place]) -> BTreeMap<Place, String> {
    let mut found = BTreeMap::new();
    let Ok(map) = serde_json::from_slice::<Map>(map) else { return found };
    source_map::each(&map.mappings, |segment| {
        let Some(origin) = segment.origin else { return };
        let is_here = |place: &&Place| {
            usize::try_from(place.line) == Ok(segment.line + 1)
                && i64::from(place.column) > segment.column
        };
        for place in places.iter().filter(is_here) {
            let at = usize::try_from(origin.source).ok();
            let name = cut(at.and_then(|at| map.sources.get(at)?.as_deref()).unwrap_or("?"), 300);
            let (line, column) = (origin.line.saturating_add(1), origin.column.saturating_add(1));
            found.insert(place.clone(), format!("{name}:{line}:{column}"));
        }
    });
    found
}

/// Replaces places in a stack with those of the sources.
pub fn told(stack: &str, found: &BTreeMap<Place, String>) -> String {
    let mut told = stack.to_owned();
    for (Place { url, line, column }, source) in found {
        let place = format!("{url}:{line}:{column}");
        // Another place may begin with the same digits.
        let mut out = String::with_capacity(told.len());
        let mut rest = told.as_str();
        while let Some(at) = rest.find(&place) {
            let end = at + place.len();
            out.push_str(&rest[..at]);
            let goes_on = rest[end..].starts_with(|c: char| c.is_ascii_digit());
            out.push_str(if goes_on { &rest[at..end] } else { source });
            rest = &rest[end..];
        }
        told = out + rest;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = r#"{"version":3,"sources":["src/a.ts","src/b.ts"],"names":[],"mappings":"AAAA,SAAS,CCCT;AACA"}"#;

    fn place(line: u32, column: u32) -> Place {
        Place { url: "https://a/app.js".into(), line, column }
    }

    #[test]
    fn places_are_found_in_the_sources() {
        let stack = "Error: x\n    at f (https://a/app.js:1:5)\n    at https://a/app.js:1:12\n    at https://a/app.js:2:1";
        let all = places(stack);
        assert_eq!(all, [place(1, 5), place(1, 12), place(2, 1)]);
        let found = find(MAP.as_bytes(), &all);
        assert_eq!(found[&place(1, 5)], "src/a.ts:1:1");
        let told = told(stack, &found);
        assert!(told.contains("at f (src/a.ts:1:1)") && told.contains("src/b.ts:2:"), "{told}");
    }

    #[test]
    fn a_map_is_named_at_the_end_or_is_inline() {
        assert_eq!(address("x\n//# sourceMappingURL=app.js.map\n"), Some("app.js.map"));
        assert_eq!(address("x"), None);
        assert_eq!(inline("data:application/json;base64,e30=").as_deref(), Some(&b"{}"[..]));
        assert_eq!(inline("data:application/json,{}"), None);
    }
}
