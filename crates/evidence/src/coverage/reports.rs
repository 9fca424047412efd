//! The coverage reports of services: files of Node.js, of the Python module that rooms provide, and LCOV. All of it
//! comes from the room.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    LineSet, LineStates,
    lines::LINE_MOST,
    v8::{self, ScriptRun, ScriptText},
};

/// The maximum number of scripts and files read from one report.
const SCRIPTS_MOST: usize = 2_000;
const FILES_MOST: usize = 20_000;

#[derive(Deserialize)]
struct NodeReport {
    #[serde(default)]
    result: Vec<NodeScript>,
    #[serde(default, rename = "source-map-cache")]
    maps: BTreeMap<String, NodeMap>,
}

#[derive(Deserialize)]
struct NodeScript {
    #[serde(default)]
    url: String,
    #[serde(default)]
    functions: Value,
}

#[derive(Deserialize)]
struct NodeMap {
    #[serde(default, rename = "lineLengths")]
    lengths: Vec<u32>,
    #[serde(default)]
    data: Option<Value>,
}

/// Parses a file that Node.js wrote for `NODE_V8_COVERAGE`.
pub fn node(bytes: &[u8]) -> Vec<ScriptRun> {
    let Ok(mut report) = serde_json::from_slice::<NodeReport>(bytes) else { return Vec::new() };
    let own = std::mem::take(&mut report.result).into_iter();
    let own = own.filter(|script| script.url.starts_with("file://")).take(SCRIPTS_MOST);
    own.map(|script| {
        let map = report.maps.get(&script.url).filter(|map| !map.lengths.is_empty());
        let data = map.and_then(|map| map.data.as_ref()).filter(|data| data.is_object());
        ScriptRun {
            ranges: v8::ranges(&script.functions),
            text: match (map, data) {
                (Some(map), Some(_)) => ScriptText::Lengths(map.lengths.clone()),
                _ => ScriptText::File,
            },
            map: data.map(|data| data.to_string().into_bytes()),
            url: script.url,
        }
    })
    .collect()
}

#[derive(Deserialize)]
struct PythonFile {
    #[serde(default)]
    ran: Vec<u32>,
    #[serde(default)]
    idle: Vec<u32>,
}

/// Parses a file of the Python module that rooms provide: lines by file.
pub fn python(bytes: &[u8]) -> BTreeMap<String, LineStates> {
    let read = serde_json::from_slice::<BTreeMap<String, PythonFile>>(bytes).unwrap_or_default();
    let states = |file: PythonFile| LineStates {
        ran: file.ran.into_iter().collect(),
        idle: file.idle.into_iter().collect(),
    };
    read.into_iter().take(FILES_MOST).map(|(path, file)| (path, states(file))).collect()
}

/// Parses LCOV: lines by file.
pub fn lcov(text: &str) -> BTreeMap<String, LineStates> {
    let mut found: BTreeMap<String, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    let mut path = String::new();
    for line in text.lines() {
        if let Some(file) = line.strip_prefix("SF:") {
            path = file.trim().to_owned();
        } else if let Some(hit) = line.strip_prefix("DA:") {
            let mut parts = hit.split(',');
            let line = parts.next().and_then(|it| it.trim().parse::<u32>().ok());
            let count = parts.next().and_then(|it| it.trim().parse::<f64>().ok());
            let (Some(line @ 1..=LINE_MOST), Some(count)) = (line, count) else { continue };
            if found.len() >= FILES_MOST && !found.contains_key(&path) {
                continue;
            }
            let (ran, idle) = found.entry(path.clone()).or_default();
            if count > 0.0 { ran.push(line) } else { idle.push(line) }
        }
    }
    let sets = |(ran, idle): (Vec<u32>, Vec<u32>)| LineStates {
        ran: LineSet::from_iter(ran),
        idle: LineSet::from_iter(idle),
    };
    found.into_iter().map(|(path, lines)| (path, sets(lines))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_tells_scripts_with_their_maps() {
        let text = r#"{"result":[
            {"url":"node:internal/x","functions":[]},
            {"url":"file:///w/a.js","functions":[{"ranges":[{"startOffset":0,"endOffset":9,"count":1}]}]},
            {"url":"file:///w/b.ts","functions":[]}],
            "source-map-cache":{"file:///w/b.ts":{"lineLengths":[3],"data":{"sources":["b.ts"],"mappings":"AAAA"}}}}"#;
        let found = node(text.as_bytes());
        assert_eq!(found.len(), 2);
        assert!(matches!(found[0].text, ScriptText::File) && found[0].ranges.len() == 1);
        assert!(matches!(&found[1].text, ScriptText::Lengths(lengths) if *lengths == [3]));
        assert!(found[1].map.is_some());
        assert!(node(b"{").is_empty() && node(b"[]").is_empty());
    }

    #[test]
    fn python_and_lcov_tell_lines() {
        let found = python(br#"{"/w/app.py":{"ran":[1,2],"idle":[4]}}"#);
        assert_eq!(found["/w/app.py"].idle, [4].into_iter().collect());
        let found = lcov(
            "TN:\nSF:src/main.rs\nDA:1,5\nDA:2,0\nDA:x,1\nDA:0,1\nend_of_record\nSF:b\nDA:7,1",
        );
        assert_eq!(found["src/main.rs"].ran, [1].into_iter().collect());
        assert_eq!(found["src/main.rs"].idle, [2].into_iter().collect());
        assert_eq!(found["b"].ran, [7].into_iter().collect());
    }
}
