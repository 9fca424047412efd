//! V8 coverage of a script: ranges with execution counts, mapped to lines of the original files.
//!
//! Pages and Node.js use the same format. Offsets count UTF-16 units, and inner ranges override outer ones.

use std::collections::BTreeMap;

use hothouse_model::source_map::{self, MAP_MOST};
use serde::Deserialize;
use serde_json::Value;

use super::{ChangedText, LineSet, LineStates};

/// The maximum number of ranges read per script.
const RANGES_MOST: usize = 200_000;

/// The maximum size of a script.
pub const SCRIPT_MOST: usize = 16 << 20;

/// A range of a script's offsets, and how often it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: u32,
    pub to: u32,
    pub count: u64,
}

/// A script as run by a browser or a service.
#[derive(Clone, Debug, Default)]
pub struct ScriptRun {
    /// Its URL, such as `https://web.a.shop.localhost/app.js` or `file:///srv/app/main.js`.
    pub url: String,
    pub text: ScriptText,
    pub ranges: Vec<Range>,
    /// Its source map, as JSON.
    pub map: Option<Vec<u8>>,
}

/// What is known about a script's text.
#[derive(Clone, Debug)]
pub enum ScriptText {
    Whole(String),
    /// The length of each line, in UTF-16 units.
    Lengths(Vec<u32>),
    /// The script is a file of the worktree.
    File,
}

impl Default for ScriptText {
    fn default() -> Self {
        Self::Whole(String::new())
    }
}

/// Parses the ranges of the functions of one script.
pub fn ranges(functions: &Value) -> Vec<Range> {
    let functions = functions.as_array().into_iter().flatten();
    let ranges = functions.flat_map(|one| one["ranges"].as_array().into_iter().flatten());
    let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
    let read = |range: &Value| {
        let (from, to) = (number(&range["startOffset"])?, number(&range["endOffset"])?);
        Some(Range { from, to, count: range["count"].as_u64().unwrap_or(0) })
    };
    ranges.filter_map(read).filter(|range| range.from < range.to).take(RANGES_MOST).collect()
}

/// The offsets where counts change; `None` from an offset that no range covers.
struct Counts(Vec<(u32, Option<u64>)>);

impl Counts {
    fn of(ranges: &[Range]) -> Self {
        let mut ranges = ranges.to_vec();
        // Outer ranges first, so that inner ones are above them on the stack.
        ranges.sort_by(|one, other| (one.from, other.to).cmp(&(other.from, one.to)));
        let mut all: Vec<(u32, Option<u64>)> = Vec::new();
        let mut open: Vec<Range> = Vec::new();
        for range in ranges {
            close(&mut open, &mut all, range.from);
            all.push((range.from, Some(range.count)));
            open.push(range);
        }
        close(&mut open, &mut all, u32::MAX);
        Self(all)
    }

    fn at(&self, offset: u32) -> Option<u64> {
        let after = self.0.partition_point(|(from, _)| *from <= offset);
        self.0.get(after.checked_sub(1)?).and_then(|(_, count)| *count)
    }
}

/// Closes the ranges that end before an offset; the enclosing range continues.
fn close(open: &mut Vec<Range>, all: &mut Vec<(u32, Option<u64>)>, until: u32) {
    while let Some(last) = open.pop_if(|last| last.to <= until) {
        // A range that exceeds the enclosing one is cut off there.
        let around = open.last().filter(|around| around.to > last.to);
        all.push((last.to, around.map(|around| around.count)));
    }
}

/// Returns which lines of changed files a script ran, by file index.
pub fn lines(
    script: &ScriptRun,
    files: &[ChangedText],
    roots: &[String],
) -> BTreeMap<usize, LineStates> {
    let counts = Counts::of(&script.ranges);
    match script.map.as_deref().filter(|map| map.len() <= MAP_MOST) {
        Some(map) => {
            let mut found = by_map(script, map, &counts, files);
            // A build output may itself be a changed file.
            if matches!(script.text, ScriptText::Whole(_)) {
                found.extend(by_text(script, &counts, files, roots));
            }
            found
        }
        None => by_text(script, &counts, files, roots),
    }
}

fn by_text(
    script: &ScriptRun,
    counts: &Counts,
    files: &[ChangedText],
    roots: &[String],
) -> BTreeMap<usize, LineStates> {
    let mut found = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        let Some(text) = file.text.as_deref() else { continue };
        let above = match &script.text {
            ScriptText::File if super::is_path_of(&script.url, &file.path, roots) => Some(0),
            ScriptText::Whole(own) if own == text => Some(0),
            // The lines of an inline script are offset by the page above it.
            ScriptText::Whole(own) if super::is_page(&file.path) && own.len() >= 16 => {
                text.find(own.as_str()).map(|at| text[..at].matches('\n').count())
            }
            _ => None,
        };
        let Some(above) = above.and_then(|above| u32::try_from(above).ok()) else { continue };
        let own = match &script.text {
            ScriptText::Whole(own) => own,
            _ => text,
        };
        found.insert(number, of_text(own, counts, above));
    }
    found
}

/// Decides for each line whether any of its code ran.
fn of_text(text: &str, counts: &Counts, above: u32) -> LineStates {
    let (mut ran, mut idle) = (Vec::new(), Vec::new());
    let mut offset = 0_u32;
    let mut is_comment = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let number = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(above + 1);
        let is_code = is_code(line, &mut is_comment);
        let (mut any, mut known) = (false, false);
        for c in line.chars() {
            if is_code && !c.is_whitespace() && !any {
                let count = counts.at(offset);
                known |= count.is_some();
                any |= count.is_some_and(|count| count > 0);
            }
            offset = offset.saturating_add(if c.len_utf16() == 2 { 2 } else { 1 });
        }
        match (any, known) {
            (true, _) => ran.push(number),
            (false, true) => idle.push(number),
            (false, false) => {}
        }
    }
    LineStates { ran: ran.into_iter().collect(), idle: idle.into_iter().collect() }
}

/// Returns whether a line is executable: not a comment, and more than brackets.
fn is_code(line: &str, is_comment: &mut bool) -> bool {
    let line = line.trim();
    if *is_comment {
        *is_comment = !line.contains("*/");
        return false;
    }
    if line.starts_with("/*") {
        *is_comment = !line.contains("*/");
        return line.split_once("*/").is_some_and(|(_, rest)| has_words(rest));
    }
    !line.starts_with("//") && has_words(line)
}

fn has_words(text: &str) -> bool {
    text.contains(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'))
        && !matches!(text, "else" | "} else {" | "try {" | "} finally {" | "do {")
}

#[derive(Deserialize)]
struct Map {
    #[serde(default)]
    mappings: String,
    #[serde(default)]
    sources: Vec<Option<String>>,
    #[serde(default, rename = "sourcesContent")]
    contents: Vec<Option<String>>,
}

fn by_map(
    script: &ScriptRun,
    map: &[u8],
    counts: &Counts,
    files: &[ChangedText],
) -> BTreeMap<usize, LineStates> {
    let Ok(map) = serde_json::from_slice::<Map>(map) else { return BTreeMap::new() };
    let own: Vec<Option<usize>> = map
        .sources
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let content = map.contents.get(at).and_then(Option::as_deref);
            super::source_of(&script.url, name.as_deref()?, content, files)
        })
        .collect();
    if own.iter().all(Option::is_none) {
        return BTreeMap::new();
    }
    let starts = line_starts(&script.text);
    let mut states: BTreeMap<(usize, u32), bool> = BTreeMap::new();
    source_map::each(&map.mappings, |segment| {
        let Some(origin) = segment.origin else { return };
        let source = usize::try_from(origin.source).ok();
        let Some(file) = source.and_then(|at| own.get(at).copied().flatten()) else { return };
        let Ok(line) = u32::try_from(origin.line.saturating_add(1)) else { return };
        let Some(start) = starts.get(segment.line) else { return };
        let Ok(column) = u32::try_from(segment.column) else { return };
        if let Some(count) = counts.at(start.saturating_add(column)) {
            *states.entry((file, line)).or_default() |= count > 0;
        }
    });
    let mut found: BTreeMap<usize, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for ((file, line), has_run) in states {
        let (ran, idle) = found.entry(file).or_default();
        if has_run { ran.push(line) } else { idle.push(line) }
    }
    let sets = |(ran, idle): (Vec<u32>, Vec<u32>)| LineStates {
        ran: LineSet::from_iter(ran),
        idle: LineSet::from_iter(idle),
    };
    found.into_iter().map(|(file, lines)| (file, sets(lines))).collect()
}

/// Returns the offset at which each line begins.
fn line_starts(text: &ScriptText) -> Vec<u32> {
    let lengths: Vec<u32> = match text {
        ScriptText::File => Vec::new(),
        ScriptText::Lengths(lengths) => {
            lengths.iter().map(|length| length.saturating_add(1)).collect()
        }
        ScriptText::Whole(text) => text
            .split_inclusive('\n')
            .map(|line| u32::try_from(line.encode_utf16().count()).unwrap_or(u32::MAX))
            .collect(),
    };
    let mut at = 0_u32;
    let begin = |length: u32| {
        let start = at;
        at = at.saturating_add(length);
        start
    };
    lengths.into_iter().map(begin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u32, to: u32, count: u64) -> Range {
        Range { from, to, count }
    }

    fn file(path: &str, text: &str) -> ChangedText {
        ChangedText { path: path.into(), text: Some(text.into()), ..ChangedText::default() }
    }

    #[test]
    fn inner_ranges_have_the_last_word() {
        let counts =
            Counts::of(&[range(0, 100, 1), range(10, 50, 0), range(20, 30, 3), range(60, 70, 0)]);
        for (at, expected) in [
            (0, 1),
            (9, 1),
            (10, 0),
            (19, 0),
            (20, 3),
            (29, 3),
            (30, 0),
            (49, 0),
            (50, 1),
            (65, 0),
            (70, 1),
            (99, 1),
        ] {
            assert_eq!(counts.at(at), Some(expected), "{at}");
        }
        assert_eq!(counts.at(100), None);
        // Nonsensical input is tolerated, and never panics.
        let wild = Counts::of(&[range(5, 9, 1), range(7, 20, 2), range(0, 6, 0)]);
        assert!((0..30).all(|at| wild.at(at).is_none_or(|count| count < 3)));
    }

    #[test]
    fn a_line_ran_if_any_of_its_code_did() {
        let text = "const a = 1;\n// told\nfunction never() {\n  return \"ü😀\";\n}\n\n/* long\n   more */\nalways();\n";
        let begin = u32::try_from(text.find("function").unwrap()).unwrap();
        // The emoji takes two units, the umlaut one.
        let units = |part: &str| u32::try_from(part.encode_utf16().count()).unwrap();
        let end = units(&text[..text.find("}\n").unwrap() + 1]);
        let script = ScriptRun {
            url: "https://a/app.js".into(),
            text: ScriptText::Whole(text.into()),
            ranges: vec![range(0, units(text), 1), range(begin, end, 0)],
            map: None,
        };
        let files = [file("public/other.js", "x"), file("public/app.js", text)];
        let found = lines(&script, &files, &[]);
        assert_eq!(found.len(), 1);
        let states = &found[&1];
        assert_eq!(states.ran, [1, 9].into_iter().collect());
        assert_eq!(states.idle, [3, 4].into_iter().collect());
        // In a page, the lines above the script count.
        let page = ["<html>\n<script>", text, "</script>"].concat();
        let found = lines(&script, &[file("public/index.html", &page)], &[]);
        assert_eq!(found[&0].ran, [2, 10].into_iter().collect());
    }

    #[test]
    fn a_map_leads_to_the_sources() {
        // One line made of line 1 of a.ts at column 0, line 3 at column 10, and line 1 of b.ts at column 20.
        let map = r#"{"version":3,"sources":["webpack://app/./src/a.ts","../lib/b.ts"],"names":[],"mappings":"AAAA,UAEA,UCFA"}"#;
        let script = ScriptRun {
            url: "https://a/app.js".into(),
            text: ScriptText::Whole("x".repeat(40)),
            ranges: vec![range(0, 40, 1), range(10, 20, 0)],
            map: Some(map.into()),
        };
        let files = [file("src/a.ts", "1\n2\n3"), file("src/c.ts", "1"), file("lib/b.ts", "1")];
        let found = lines(&script, &files, &[]);
        assert_eq!(
            found[&0],
            LineStates { ran: [1].into_iter().collect(), idle: [3].into_iter().collect() }
        );
        assert_eq!(found[&2].ran, [1].into_iter().collect());
        assert!(!found.contains_key(&1));
        let lengths = ScriptRun { text: ScriptText::Lengths(vec![40]), ..script.clone() };
        assert_eq!(lines(&lengths, &files, &[]), found);
        let broken = ScriptRun { map: Some(b"[]".to_vec()), ..script };
        assert!(lines(&broken, &files, &[]).is_empty());
    }
}
