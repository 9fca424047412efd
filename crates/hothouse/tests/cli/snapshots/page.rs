//! A page: the output of some commands, with placeholders for what differs between runs or hosts.

use std::{cell::RefCell, panic};

use hothouse_testkit::{Ran, TestEnv};

/// Table columns whose cells are replaced.
const VOLATILE: [(&str, &str); 13] = [
    ("PID", "[PID]"),
    ("AGE", "[AGE]"),
    ("TIME", "[TIME]"),
    ("SINCE", "[TIME]"),
    ("RUN", "[RUN]"),
    ("COMMIT", "[COMMIT]"),
    ("PROCESS", "[PROCESS]"),
    ("SEQ", "[SEQ]"),
    ("RECORDED", "[COUNT]"),
    ("STARTED", "[AGE]"),
    ("SECONDS", "[SPAN]"),
    ("CPU", "[SPAN]"),
    ("MEMORY", "[SIZE]"),
];

/// What is replaced everywhere.
const FILTERS: [(&str, &str); 34] = [
    (r"\bjust now\b|\b\d+ (s|min|hours?|days?) ago\b", "[AGO]"),
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[TIME]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "[TIME]"),
    (r"Ready in [^ ]+\. Slowest", "Ready in [SPAN]. Slowest"),
    (r"@\S+ \+\S+", "@[SPAN] +[SPAN]"),
    (r"\b[0-9a-f]{64}\b", "[KEY]"),
    (r"\b[0-9a-f]{40}\b", "[COMMIT]"),
    (r"\b[0-9a-f]{10}\b", "[COMMIT]"),
    (r"\brun_[0-9a-f]{12}\b", "[RUN]"),
    (r"\bop_[0-9a-z]{8,}\b", "[OPERATION]"),
    (r"\beg_[0-9a-f]{10}\b", "[RECORD]"),
    (r"\b([a-z]+)_[0-9a-f]{16}\b", "${1}_[RECORD]"),
    (r#""duration_ms": \d+"#, r#""duration_ms": "[SPAN]""#),
    (r#""stopped": \d+"#, r#""stopped": "[PID]""#),
    (r"\bshop-(\w+)-[0-9a-f]{4}\b", "shop-$1-[ID]"),
    (r#""(room_)?pid": \d+"#, r#""${1}pid": "[PID]""#),
    (r"(?m)^pid( +)\d+", "pid$1[PID]"),
    (r#""(started|ready)_ms": (\d+|null)"#, r#""${1}_ms": "[SPAN]""#),
    (r#""probes": \[[^\]]*\]"#, r#""probes": "[PROBES]""#),
    (r#""(own|shared|total|data|git|room|snapshots|worktree)": \d+"#, r#""$1": "[BYTES]""#),
    (r#"("ok": \w+,\s+"records"): \d+"#, r#"$1: "[COUNT]""#),
    (r#"("artifacts": "[^"]*",\s+"bytes"): \d+"#, r#"$1: "[BYTES]""#),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]"),
    (r"(https://[a-z0-9.-]+\.localhost)(:\d+)?", "$1:[PORT]"),
    (r"\b[0-9a-f]{32}\.hothouse\.localhost\b", "[LABEL].hothouse.localhost"),
    (r"\b4[345]\d{3}\b", "[PORT]"),
    (r"\buid \d+", "uid [UID]"),
    (r#""uid": \d+"#, r#""uid": "[UID]""#),
    (r#""(cpu|memory|pids)": "[^"]*""#, r#""$1": "[HOST]""#),
    (r#""disk": "[^"]*""#, r#""disk": "[HOST]""#),
    (r"\b(cpu|memory|pids) (v\d|off[^,\n]*|on|[a-z]+: [^,\n]*), ", "$1 [HOST], "),
    (r"\bdisk [^\n]*, inotify", "disk [HOST], inotify"),
    (r"\bgit version [0-9.]+", "git version [VERSION]"),
    (concat!(env!("CARGO_PKG_VERSION"), r"(\+\d+)?"), "[VERSION]"),
];

/// Compares pages with the files beside this one; all of them, so that one run shows every change.
#[derive(Default)]
pub(super) struct Pages {
    changed: RefCell<Vec<String>>,
}

impl Pages {
    /// Compares one page, with more filters than the usual ones.
    pub(super) fn compare(&self, name: &str, text: &str, more: &[(&str, &str)]) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/snapshots");
        self.compare_in(folder, name, text, more);
    }

    /// Compares a page of terminal output, which has a separate folder.
    pub(super) fn compare_shown(&self, name: &str, text: &str, more: &[(&str, &str)]) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/snapshots/terminal");
        self.compare_in(folder, name, text, more);
    }

    fn compare_in(&self, folder: &str, name: &str, text: &str, more: &[(&str, &str)]) {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_snapshot_path(folder);
        for (pattern, name) in more.iter().chain(&FILTERS) {
            settings.add_filter(pattern, *name);
        }
        let compare = || settings.bind(|| insta::assert_snapshot!(name, text));
        if panic::catch_unwind(panic::AssertUnwindSafe(compare)).is_err() {
            self.changed.borrow_mut().push(name.to_owned());
        }
    }

    /// Fails if a page has changed.
    pub(super) fn end(self) {
        let changed = self.changed.into_inner();
        assert!(
            changed.is_empty(),
            "the output changed; look at the differences above, then accept them with `INSTA_UPDATE=always`: {}",
            changed.join(", ")
        );
    }
}

/// Formats the output of a command.
pub(super) fn entry(env: &TestEnv, ran: &Ran) -> String {
    let root = env.root().to_str().unwrap();
    let mut entry = format!("$ hothouse {}\n{}", ran.words, align(&ran.stdout, root));
    if !ran.stderr.is_empty() {
        entry.push_str(&format!("--- stderr\n{}", align(&ran.stderr, root)));
    }
    entry.push_str(&format!("--- exit {}\n\n", ran.code));
    entry
}

/// Formats what a command showed on a terminal.
pub(super) fn screen(env: &TestEnv, command: &str, shown: &str) -> String {
    let root = env.root().to_str().unwrap();
    let (mut parts, mut table) = (vec![String::new()], None::<Vec<usize>>);
    for line in shown.lines() {
        // A message may directly follow a table, which is detected by text between its columns.
        let crosses = |start: &usize| line.chars().nth(start - 1).is_some_and(|c| c != ' ');
        if table.as_ref().is_some_and(|starts| starts.iter().skip(1).any(crosses)) {
            parts.push(String::new());
            table = None;
        }
        table = table.or_else(|| columns(line)).filter(|_| !line.is_empty());
        let part = parts.last_mut().expect("there is a first part");
        part.push_str(&format!("{line}\n"));
    }
    let parts: String = parts.iter().map(|part| align(part, root)).collect();
    format!("$ {command}\n{parts}\n")
}

/// Replaces the folder of the test and volatile cells of tables, and aligns those again. A cell
/// that is not below its column's header ends up in another one, so a misaligned table stays
/// misaligned.
fn align(text: &str, root: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(starts) = columns(line) else {
            out.push_str(&format!("{}\n", line.replace(root, "[ROOT]")));
            continue;
        };
        let mut table = vec![cells(line, &starts)];
        while let Some(row) = lines.next_if(|row| !row.is_empty()) {
            table.push(cells(row, &starts));
        }
        replace_volatile(&mut table, root);
        out.push_str(&render(&table, starts[0]));
    }
    out
}

fn render(table: &[Vec<String>], indent: usize) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..table[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let row = padded.collect::<Vec<_>>().join("  ");
        format!("{}{}\n", " ".repeat(indent), row.trim_end())
    };
    table.iter().map(line).collect()
}

/// Returns where the columns start below a line, if it is the header of a table.
fn columns(line: &str) -> Option<Vec<usize>> {
    // A race counts lines in columns named `+` and `-`.
    let is_head = line.chars().all(|c| c.is_ascii_uppercase() || matches!(c, ' ' | '+' | '-'));
    let bytes = line.as_bytes();
    let starts_word = |at: &usize| {
        bytes[*at] != b' '
            && (*at == 0 || bytes[at - 1] == b' ')
            && (*at < 2 || bytes[at - 2] == b' ')
    };
    let starts: Vec<_> = (0..bytes.len()).filter(starts_word).collect();
    (is_head && starts.len() > 1).then_some(starts)
}

fn cells(line: &str, starts: &[usize]) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let cell = |(start, end): (&usize, usize)| {
        let end = end.min(chars.len());
        chars.get(*start..end.max(*start)).unwrap_or_default().iter().collect::<String>()
    };
    starts.iter().zip(ends).map(cell).map(|cell| cell.trim_end().to_owned()).collect()
}

fn replace_volatile(table: &mut [Vec<String>], root: &str) {
    let Some((head, rows)) = table.split_first_mut() else { return };
    for (cell, name) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&*head)) {
        let volatile = VOLATILE.iter().find(|(volatile, _)| volatile == name);
        *cell = match volatile {
            Some((_, token)) if cell != "-" && !cell.is_empty() => (*token).to_owned(),
            _ if is_size(cell) => "[SIZE]".to_owned(),
            _ if is_host_port(cell) => "[PORT]".to_owned(),
            _ => cell.replace(root, "[ROOT]"),
        };
    }
}

fn is_size(cell: &str) -> bool {
    let number = cell.strip_suffix(['B', 'K', 'M', 'G']);
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Returns whether it is one of the ports that are kept for apps.
fn is_host_port(cell: &str) -> bool {
    cell.parse().is_ok_and(|port: u16| (43_000..46_000).contains(&port))
}
