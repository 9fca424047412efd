//! Pages of log lines from one or more logs, ordered by time, with a cursor to continue from.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf, str::FromStr};

use regex::bytes::Regex;

use super::{
    ansi,
    segment::{self, Segment},
};
use crate::crew;

/// How much of a line is returned; a longer line is truncated and marked as such.
pub const LINE_SHOWN: usize = 64 << 10;

/// A log and the service it belongs to.
#[derive(Clone, Debug)]
pub struct Stream {
    pub service: String,
    pub folder: PathBuf,
}

/// Which lines to return.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub since: Option<Since>,
    pub pattern: Option<Regex>,
    /// Lines of context before and after a match.
    pub before: usize,
    pub after: usize,
    /// The number of lines if only the newest are wanted.
    pub tail: Option<usize>,
    /// The approximate size limit of a page, in bytes.
    pub limit: usize,
    /// Whether escape sequences are kept.
    pub raw: bool,
}

/// Where to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// Nanoseconds since 1970.
    Time(u64),
    Cursor(Cursor),
}

/// The next line of each service; a service that is not listed is read from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub BTreeMap<String, u64>);

/// An invalid cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a cursor such as `api:120,web:7` nor a time such as `5m`")]
pub struct CursorError(String);

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let pair = |part: &str| {
            let (service, line) = part.rsplit_once(':')?;
            (!service.is_empty()).then_some((service.to_owned(), line.parse().ok()?))
        };
        let pairs: Option<BTreeMap<_, _>> = text.split(',').map(pair).collect();
        pairs.map(Self).ok_or_else(|| CursorError(text.chars().take(60).collect()))
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs = self.0.iter().map(|(service, line)| format!("{service}:{line}"));
        f.write_str(&pairs.collect::<Vec<_>>().join(","))
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub service: String,
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
    pub text: String,
    /// Whether the line itself matched, and is not only context.
    pub matched: bool,
}

/// Some lines, and where to continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub lines: Vec<Line>,
    pub cursor: Cursor,
    /// Whether more lines matched than fit.
    pub more: bool,
}

/// The result for one log.
struct Found {
    lines: Vec<Line>,
    next: u64,
    more: bool,
}

/// Returns a number that changes whenever one of the logs changes.
pub fn stamp(streams: &[Stream]) -> u64 {
    let sum = |sum: u64, stream: &Stream| {
        sum.wrapping_mul(31).wrapping_add(segment::stamp(&stream.folder))
    };
    streams.iter().fold(0, sum)
}

/// Reads a page. Logs are read in parallel.
pub fn read(streams: &[Stream], wanted: &Wanted) -> Page {
    let found = crew::map(streams, |stream| find(stream, wanted));
    merge(streams, found, wanted)
}

/// Sorts the lines of all logs and applies the limit.
fn merge(streams: &[Stream], found: Vec<Found>, wanted: &Wanted) -> Page {
    let mut page = Page { more: found.iter().any(|found| found.more), ..Page::default() };
    // Beyond the last line of a log that was not read to its end, the order is unknown.
    let unfinished = found.iter().filter(|found| found.more);
    let horizon = unfinished.filter_map(|found| found.lines.last().map(|line| line.time)).min();
    let mut rest = Vec::new();
    for (stream, found) in streams.iter().zip(found) {
        page.cursor.0.insert(stream.service.clone(), found.next);
        rest.push(found.lines);
    }
    let mut all: Vec<Line> = rest.into_iter().flatten().collect();
    // The sort is stable, so lines of one log keep their order.
    all.sort_by_key(|line| line.time);
    if let Some(tail) = wanted.tail {
        all.drain(..all.len().saturating_sub(tail));
    }
    let mut size = 0;
    let fits = all.iter().take_while(|line| {
        size += weight(line);
        size <= wanted.limit && horizon.is_none_or(|horizon| line.time <= horizon)
    });
    let fitting = fits.count().max(1).min(all.len());
    for line in all.drain(fitting..).rev() {
        page.more = true;
        page.cursor.0.insert(line.service, line.number);
    }
    page.lines = all;
    page
}

fn find(stream: &Stream, wanted: &Wanted) -> Found {
    let segments = segment::list(&stream.folder);
    let from = match &wanted.since {
        Some(Since::Cursor(cursor)) => cursor.0.get(&stream.service).copied().unwrap_or(0),
        _ => 0,
    };
    let time = match wanted.since {
        Some(Since::Time(time)) => time,
        _ => 0,
    };
    let search = Search { stream, wanted, from, time };
    match wanted.tail {
        Some(tail) => search.backwards(&segments, tail),
        None => search.forwards(&segments),
    }
}

/// The result for one segment.
struct Scanned {
    lines: Vec<Line>,
    next: u64,
    /// Whether scanning stopped before the end of the segment.
    cut: bool,
}

struct Search<'a> {
    stream: &'a Stream,
    wanted: &'a Wanted,
    from: u64,
    time: u64,
}

impl Search<'_> {
    fn forwards(&self, segments: &[Segment]) -> Found {
        let mut found = Found { lines: Vec::new(), next: self.from, more: false };
        let mut size = 0;
        for (at, segment) in segments.iter().enumerate() {
            let over = segments.get(at + 1).map(|next| next.head.first_line);
            let old = over.is_some_and(|over| over <= self.from)
                || segment.last_time() < self.time && over.is_some();
            if old {
                found.next = found.next.max(over.unwrap_or(0));
                continue;
            }
            if let Some(next) = self.end_without_match(segment) {
                found.next = found.next.max(next);
                continue;
            }
            let Some(Scanned { lines, next, cut }) = self.scan(segment) else { continue };
            size += lines.iter().map(weight).sum::<usize>();
            found.lines.extend(lines);
            found.next = found.next.max(next);
            if size > self.wanted.limit {
                found.more = cut || over.is_some();
                break;
            }
        }
        found
    }

    /// Returns the end of a segment, if none of its lines matches the pattern.
    fn end_without_match(&self, segment: &Segment) -> Option<u64> {
        let pattern = self.wanted.pattern.as_ref()?;
        segment.end_without(|lines| match self.wanted.raw {
            true => pattern.is_match(lines),
            false => pattern.is_match(&ansi::strip(lines)),
        })
    }

    fn backwards(&self, segments: &[Segment], tail: usize) -> Found {
        let mut found = Found { lines: Vec::new(), next: self.from, more: false };
        for segment in segments.iter().rev() {
            if let Some(Scanned { mut lines, next, .. }) = self.scan(segment) {
                found.next = found.next.max(next);
                lines.append(&mut found.lines);
                found.lines = lines;
            }
            let early = segment.head.first_line <= self.from;
            if found.lines.len() >= tail || early {
                break;
            }
        }
        found.lines.drain(..found.lines.len().saturating_sub(tail));
        found
    }

    /// Returns the wanted lines of a segment, and the number of the line after its last complete one.
    fn scan(&self, segment: &Segment) -> Option<Scanned> {
        let wanted = match (self.wanted.tail, &self.wanted.pattern) {
            (Some(tail), None) => segment.before_last(tail).max(self.from),
            _ => self.from.saturating_sub(self.wanted.before as u64),
        };
        let (first, bytes) = segment.read_from(wanted)?;
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        let plain = match self.wanted.raw {
            true => Cow::Borrowed(&bytes[..whole]),
            false => ansi::strip(&bytes[..whole]),
        };
        let next = first + count(&plain);
        let mut walk = Walk { segment, bytes: &plain, at: 0, number: first, first };
        let mut lines = Vec::new();
        walk.skip_to_line(self.from);
        match &self.wanted.pattern {
            None => {
                // Without a pattern, a tail is located from the end instead of walking the whole
                // segment.
                if let Some(tail) = self.wanted.tail {
                    walk.skip_to_line(next.saturating_sub(tail as u64));
                }
                let mut size = 0;
                while let Some((number, line)) = walk.next() {
                    self.take(&mut lines, segment, number, line, true);
                    size += line.len().min(LINE_SHOWN) + 40;
                    if size > self.wanted.limit && self.wanted.tail.is_none() {
                        return Some(Scanned { lines, next: number + 1, cut: true });
                    }
                }
            }
            Some(pattern) => self.grep(pattern, &mut walk, &mut lines),
        }
        Some(Scanned { lines, next: next.max(self.from), cut: false })
    }

    fn grep(&self, pattern: &Regex, walk: &mut Walk<'_>, lines: &mut Vec<Line>) {
        let mut after = 0;
        let mut shown = walk.number;
        while let Some(hit) = pattern.find_at(walk.bytes, walk.at) {
            let begin = memchr::memrchr(b'\n', &walk.bytes[..hit.start()]).map_or(0, |at| at + 1);
            // A match that crosses a line end does not count, unless the first line matches on its
            // own.
            let end = begin
                + memchr::memchr(b'\n', &walk.bytes[begin..]).unwrap_or(walk.bytes.len() - begin);
            let matched = hit.end() <= end || pattern.is_match(&walk.bytes[begin..end]);
            if begin >= walk.bytes.len() {
                break;
            }
            let number = walk.number + count(&walk.bytes[walk.at.min(begin)..begin]);
            if matched {
                self.context(
                    walk,
                    lines,
                    (shown, number.saturating_sub(self.wanted.before as u64).max(shown)),
                    after,
                    number,
                );
                self.take(lines, walk.segment, number, &walk.bytes[begin..end], true);
                shown = number + 1;
                after = self.wanted.after;
            }
            walk.at = (end + 1).min(walk.bytes.len());
            walk.number = number + 1;
            if walk.at >= walk.bytes.len() {
                break;
            }
        }
        self.trailing(walk, lines, shown, after);
    }

    /// Adds the context after the last match and before the next one.
    fn context(
        &self,
        walk: &Walk<'_>,
        lines: &mut Vec<Line>,
        (shown, before): (u64, u64),
        after: usize,
        until: u64,
    ) {
        if self.wanted.before == 0 && after == 0 {
            return;
        }
        let mut reader = Walk { at: 0, number: walk.first, ..*walk };
        reader.skip_to_line(shown);
        while let Some((number, line)) = reader.next().filter(|(number, _)| *number < until) {
            if number < shown + after as u64 && after > 0 || number >= before {
                self.take(lines, walk.segment, number, line, false);
            }
        }
    }

    fn trailing(&self, walk: &Walk<'_>, lines: &mut Vec<Line>, shown: u64, after: usize) {
        if after == 0 {
            return;
        }
        let mut reader = Walk { at: 0, number: walk.first, ..*walk };
        reader.skip_to_line(shown);
        for _ in 0..after {
            let Some((number, line)) = reader.next() else { return };
            self.take(lines, walk.segment, number, line, false);
        }
    }

    fn take(
        &self,
        lines: &mut Vec<Line>,
        segment: &Segment,
        number: u64,
        line: &[u8],
        matched: bool,
    ) {
        let time = segment.time_of(number);
        if time < self.time {
            return;
        }
        let service = self.stream.service.clone();
        lines.push(Line { service, number, time, text: shown(line), matched });
    }
}

/// Returns the approximate size of a line in a page.
fn weight(line: &Line) -> usize {
    line.text.len() + 40
}

/// Prepares a line for output: decoded and truncated.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.len() > LINE_SHOWN {
        true => format!(
            "{}… ({} bytes in all)",
            String::from_utf8_lossy(&line[..LINE_SHOWN]),
            line.len()
        ),
        false => String::from_utf8_lossy(line).into_owned(),
    }
}

fn count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// A position between two lines of a segment.
#[derive(Clone, Copy)]
struct Walk<'a> {
    segment: &'a Segment,
    bytes: &'a [u8],
    at: usize,
    number: u64,
    /// The number of the first line in the bytes.
    first: u64,
}

impl<'a> Walk<'a> {
    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest)?;
        let line = (self.number, &rest[..end]);
        self.at += end + 1;
        self.number += 1;
        Some(line)
    }

    fn skip_to_line(&mut self, number: u64) {
        if number <= self.number {
            return;
        }
        let wanted = usize::try_from(number - self.number).unwrap_or(usize::MAX);
        match memchr::memchr_iter(b'\n', &self.bytes[self.at..]).nth(wanted - 1) {
            Some(end) => {
                self.at += end + 1;
                self.number = number;
            }
            None => {
                self.number += count(&self.bytes[self.at..]);
                self.at = self.bytes.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use regex::bytes::RegexBuilder;

    use super::{super::tests::Pen, *};

    fn wanted() -> Wanted {
        Wanted { limit: 1 << 20, ..Wanted::default() }
    }

    fn pattern(text: &str) -> Option<Regex> {
        RegexBuilder::new(text).multi_line(true).build().ok()
    }

    struct Ground {
        folder: tempfile::TempDir,
        pens: BTreeMap<String, Pen>,
    }

    impl Ground {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), pens: BTreeMap::new() }
        }

        fn write(&mut self, service: &str, bytes: &[u8], time: u64) {
            let folder = self.folder.path().join(service);
            let pen = self.pens.entry(service.into()).or_insert_with(|| Pen::open(&folder));
            pen.write(bytes, time * 1_000_000_000);
        }

        fn page(&self, wanted: &Wanted) -> Page {
            let streams: Vec<_> = self
                .pens
                .keys()
                .map(|name| Stream { service: name.clone(), folder: self.folder.path().join(name) })
                .collect();
            read(&streams, wanted)
        }

        fn texts(&self, wanted: &Wanted) -> String {
            let page = self.page(wanted);
            let lines = page.lines.iter().map(|line| {
                format!("{}{}{}", line.number, if line.matched { ":" } else { "-" }, line.text)
            });
            lines.collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn lines_of_several_services_come_by_time() {
        let mut ground = Ground::new();
        ground.write("a", b"a1\n", 1);
        ground.write("b", b"b1\nb2\n", 2);
        ground.write("a", b"a2\n", 3);
        assert_eq!(ground.texts(&wanted()), "0:a1 0:b1 1:b2 1:a2");
        assert_eq!(ground.texts(&Wanted { tail: Some(2), ..wanted() }), "1:b2 1:a2");
        let since = Some(Since::Time(2_000_000_000));
        assert_eq!(ground.texts(&Wanted { since, ..wanted() }), "0:b1 1:b2 1:a2");
    }

    #[test]
    fn a_cursor_continues_where_a_page_ended() {
        let mut ground = Ground::new();
        ground.write("a", b"a1\na2\na3\n", 1);
        ground.write("b", b"b1\n", 2);
        let page = ground.page(&Wanted { limit: 90, ..wanted() });
        assert_eq!((page.lines.len(), page.more), (2, true));
        assert_eq!(page.cursor.to_string(), "a:2,b:0");
        let since = Some(Since::Cursor(page.cursor));
        let rest = ground.page(&Wanted { since, ..wanted() });
        assert_eq!(
            rest.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(),
            ["a3", "b1"]
        );
        assert_eq!((rest.cursor.to_string(), rest.more), ("a:3,b:1".into(), false));
        let since = Some(Since::Cursor(rest.cursor));
        assert!(ground.page(&Wanted { since, ..wanted() }).lines.is_empty());
    }

    #[test]
    fn a_search_shows_matches_with_their_context() {
        let mut ground = Ground::new();
        ground.write("a", b"one\ntwo\nthree\nfour\nfive\nsix\n", 1);
        let grep = |text: &str, before, after| Wanted {
            pattern: pattern(text),
            before,
            after,
            ..wanted()
        };
        assert_eq!(ground.texts(&grep("t", 0, 0)), "1:two 2:three");
        assert_eq!(ground.texts(&grep("^four$", 1, 1)), "2-three 3:four 4-five");
        assert_eq!(ground.texts(&grep("one|six", 1, 1)), "0:one 1-two 4-five 5:six");
        assert_eq!(ground.texts(&grep("two\\s+three", 0, 0)), "");
        assert_eq!(ground.texts(&grep("e$", 0, 0)), "0:one 2:three 4:five");
        assert_eq!(ground.texts(&grep("", 0, 0)), "0:one 1:two 2:three 3:four 4:five 5:six");
    }

    #[test]
    fn colours_do_not_hide_a_match() {
        let mut ground = Ground::new();
        ground.write("a", b"x\n\x1b[31mre\x1b[0md\n\xff\xfe\n", 1);
        let search = Wanted { pattern: pattern("^red$"), ..wanted() };
        assert_eq!(ground.texts(&search), "1:red");
        assert_eq!(
            ground.texts(&Wanted { raw: true, tail: Some(2), ..wanted() }),
            "1:\x1b[31mre\x1b[0md 2:\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn old_segments_go_and_numbers_stay() {
        let mut ground = Ground::new();
        let block: Vec<u8> = (0..16_384).flat_map(|_| *b"0123456789abcde\n").collect();
        for time in 0..(100 << 20) / block.len() as u64 {
            ground.write("a", &block, time);
        }
        ground.write("a", b"last\n", 1_000);
        let total = (100 << 20) / 16;
        assert_eq!(ground.texts(&Wanted { tail: Some(1), ..wanted() }), format!("{total}:last"));
        let first = ground.page(&wanted()).lines[0].number;
        assert!(first > 0 && total - first <= (64 << 20) / 16, "{first}");
    }

    #[test]
    fn a_line_of_ten_megabytes_is_cut_for_show() {
        let mut ground = Ground::new();
        let mut line = vec![b'x'; 10 << 20];
        line.push(b'\n');
        ground.write("a", &line, 1);
        ground.write("a", b"next\n", 2);
        let page = ground.page(&wanted());
        assert!(page.lines[0].text.ends_with("… (10485760 bytes in all)"));
        assert_eq!(page.lines[1].text, "next");
    }

    #[test]
    fn only_a_cursor_is_a_cursor() {
        assert!("api:1,web:2".parse::<Cursor>().is_ok());
        for bad in ["", "5m", "api", "api:", ":3", "api:x"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_search_without_a_match_ends_where_one_with_a_match_does() {
        let mut ground = Ground::new();
        let long = "x".repeat(600 << 10);
        ground.write("web", format!("first\n{long}\n").as_bytes(), 1);
        ground.write("web", b"nee\x1b[1mdle\nhalf a nee", 2);
        let find = |text| Wanted { pattern: pattern(text), ..wanted() };
        assert_eq!(ground.texts(&find("needle")), "2:needle");
        assert_eq!(ground.texts(&find("absent")), "");
        assert_eq!(ground.page(&find("absent")).cursor, ground.page(&find("needle")).cursor);
        // What follows the last line end is not a line yet.
        assert_eq!(ground.texts(&find("half")), "");
        let raw = Wanted { raw: true, ..find("needle") };
        assert_eq!(ground.texts(&raw), "");
    }
}
