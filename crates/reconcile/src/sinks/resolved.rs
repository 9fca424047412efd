//! Resolves browser stack traces with source maps: positions in a bundle become positions in the
//! worktree.

use std::collections::BTreeMap;

use hothouse_browser::source_map::{self, Place};
use hothouse_engine::Engine;
use hothouse_model::SandboxRecord;
use serde_json::Value;

use super::served::Maps;

/// For how many scripts of one stack trace a map is looked up.
pub(super) const SCRIPTS: usize = 5;

/// Returns the URLs of the scripts in a stack trace.
pub(super) fn scripts(body: &Value) -> Vec<String> {
    let frames = body["frames"].as_array().into_iter().flatten();
    frames.filter_map(place).map(|place| place.url).collect()
}

/// Returns the map of a script from the worktree.
pub(super) fn map(engine: &Engine, sandbox: &SandboxRecord, url: &str) -> Option<Vec<u8>> {
    let path = path_of(url)?;
    engine.source_map(sandbox, path).or_else(|| inline(&engine.script(sandbox, path)?))
}

/// Resolves the frames of an error, also with maps served by an app.
pub(super) fn resolve(engine: &Engine, sandbox: &SandboxRecord, body: &mut Value, served: &Maps) {
    let Some(frames) = body["frames"].as_array_mut() else { return };
    let mut scripts: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    for place in frames.iter().filter_map(place) {
        scripts.entry(place.url.clone()).or_default().push(place);
    }
    let mut found = BTreeMap::new();
    for (url, places) in scripts.into_iter().take(SCRIPTS) {
        let own = map(engine, sandbox, &url);
        let map = own.or_else(|| served.get(&url).map(|map| map.to_vec()));
        found.extend(map.map(|map| source_map::find(&map, &places)).unwrap_or_default());
    }
    frames.iter_mut().for_each(|frame| replace(frame, &found));
}

/// Returns the inline map of a script.
fn inline(script: &[u8]) -> Option<Vec<u8>> {
    let script = std::str::from_utf8(script).ok()?;
    source_map::inline(source_map::address(script)?)
}

/// Returns the position of a frame in a script.
fn place(frame: &Value) -> Option<Place> {
    let url = frame["file"].as_str().filter(|file| file.starts_with("http"))?;
    let number = |name: &str| frame[name].as_u64().and_then(|number| u32::try_from(number).ok());
    Some(Place { url: url.to_owned(), line: number("line")?, column: number("column")? })
}

fn path_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let path = &rest[rest.find('/')?..];
    path.split(['?', '#']).next()
}

fn replace(frame: &mut Value, found: &BTreeMap<Place, String>) {
    let Some(source) = place(frame).and_then(|place| found.get(&place).cloned()) else { return };
    let mut parts = source.rsplitn(3, ':');
    let (column, line, file) = (parts.next(), parts.next(), parts.next());
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
    if let (Some(column), Some(line), Some(file)) = (number(column), number(line), file) {
        // The position in the bundle is kept beside it.
        let place = format!(
            "{}:{}:{}",
            frame["file"].as_str().unwrap_or_default(),
            frame["line"],
            frame["column"]
        );
        frame["module"] = place.into();
        // A map names sources relative to itself.
        frame["file"] = file.trim_start_matches("../").trim_start_matches("./").into();
        (frame["line"], frame["column"]) = (line.into(), column.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_may_carry_its_map() {
        let script = b"throw 1\n//# sourceMappingURL=data:application/json;base64,e30=\n";
        assert_eq!(inline(script).as_deref(), Some(&b"{}"[..]));
        assert_eq!(inline(b"throw 1\n//# sourceMappingURL=app.js.map"), None);
        assert_eq!(inline(b"\xff"), None);
    }

    #[test]
    fn a_frame_of_a_bundle_becomes_one_of_its_source() {
        let mut frame = json!({ "file": "https://a/app.js?x", "line": 1, "column": 5 });
        assert_eq!(path_of("https://a/b/app.js?x#y"), Some("/b/app.js"));
        let found = BTreeMap::from([(place(&frame).unwrap(), "../src/a.ts:7:2".to_owned())]);
        replace(&mut frame, &found);
        assert_eq!((&frame["file"], &frame["line"]), (&json!("src/a.ts"), &json!(7)));
        assert_eq!(frame["module"], "https://a/app.js?x:1:5");
        assert!(place(&json!({ "file": "src/a.js", "line": 1, "column": 1 })).is_none());
    }
}
