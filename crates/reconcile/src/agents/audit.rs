//! The audit of a run: what the agent reported, joined with what the room actually did.
//!
//! The guard's reports come from the agent's own room, so they are not proof. Files, commands,
//! connections and commits were observed by Hothouse itself. What was reported but not observed, or
//! observed but not reported, is highlighted.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock, files};
use hothouse_model::{
    Explain, Failure, SandboxRecord, Word,
    agent::{
        AgentState, AuditDecision, AuditReport, AuditRow, Confidence, Seen, Severity, Verdict,
    },
    query::Query,
    record::{Kind, Record, bodies::AuditBody},
};
use hothouse_timeline::{Direction, Selection};
use serde_json::Value;

use super::transcript::{self, TranscriptCall};
use crate::{Timelines, timelines::RunPlace};

/// The maximum number of rows.
const ROWS: usize = 20_000;

/// The run to audit.
#[derive(Clone, Debug)]
pub struct AuditWish {
    pub place: RunPlace,
    /// The sandbox, if it is still in that run.
    pub sandbox: Option<SandboxRecord>,
    pub suspicious: bool,
}

/// What was observed.
#[derive(Clone, Debug, Default)]
struct Done {
    /// Files that differ from the base, relative to the worktree.
    files: Vec<String>,
    records: Vec<Record>,
    worktree: String,
}

/// Computes the audit of a run, and writes it beside its timeline.
pub fn audit(
    engine: &Engine,
    timelines: &Timelines,
    wish: &AuditWish,
) -> Result<AuditReport, Failure> {
    let said = records(timelines, &wish.place, Kind::Audit)?;
    let mut seen = Done::default();
    for kind in [Kind::Connection, Kind::Exec, Kind::Commit, Kind::Agent] {
        seen.records.extend(records(timelines, &wish.place, kind)?);
    }
    seen.records.sort_by_key(|record| record.seq);
    if let Some(sandbox) = &wish.sandbox {
        let changed = engine.difference(sandbox, None).map(|(_, difference)| difference.files);
        seen.files = changed.unwrap_or_default().into_iter().map(|file| file.path).collect();
        seen.worktree = sandbox.worktree.to_string_lossy().into_owned();
    }
    let (calls, transcripts) = transcript::kept(&wish.place.folder);
    let mut rows = join(&said, &seen);
    rows.extend(calls.iter().filter(|call| !is_reported(call, &said)).map(unreported));
    rows.sort_by_key(|row| row.time);
    let log = wish.place.folder.join("audit-log.md");
    let text = markdown(&wish.place.run, &rows);
    files::replace(&log, text.as_bytes(), 0o644).map_err(|error| error.failure())?;
    if wish.suspicious {
        rows.retain(stands_out);
    }
    Ok(AuditReport {
        rows,
        raw: wish.place.folder.join("audit-raw.jsonl").to_string_lossy().into_owned(),
        log: log.to_string_lossy().into_owned(),
        transcripts,
    })
}

/// Writes the audit of a sandbox's run.
pub(super) fn write(
    engine: &Arc<Engine>,
    timelines: &Arc<Timelines>,
    sandbox: &SandboxRecord,
) -> Result<(), Failure> {
    let Some(room) = &sandbox.room else { return Ok(()) };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    let wish = AuditWish { place, sandbox: Some(sandbox.clone()), suspicious: false };
    audit(engine, timelines, &wish).map(drop)
}

fn records(timelines: &Timelines, place: &RunPlace, kind: Kind) -> Result<Vec<Record>, Failure> {
    let reader = timelines.reader(place)?;
    let query = Query::parse("", Some(kind)).expect("nothing is a query");
    let (now, direction) = (HostClock.now(), Direction::OldestFirst);
    let selection = Selection { query, since: None, now, limit: ROWS, direction };
    reader.records(&selection).map_err(|error| error.failure())
}

fn text<'a>(body: &'a Value, key: &str) -> &'a str {
    body[key].as_str().unwrap_or_default()
}

/// Joins reports with observations. Pure.
fn join(said: &[Record], seen: &Done) -> Vec<AuditRow> {
    let mut named: BTreeSet<&str> = BTreeSet::new();
    let mut rows: Vec<AuditRow> = Vec::new();
    for record in said {
        let row = said_row(record, seen, &mut named);
        rows.push(row);
    }
    let all_targets: Vec<&str> = said.iter().map(|record| text(&record.body, "target")).collect();
    let says = |what: &str| all_targets.iter().any(|target| target.contains(what));
    let agents: Vec<&Record> =
        seen.records.iter().filter(|record| record.kind == Kind::Agent).collect();
    let has_agent = !agents.is_empty() || !said.is_empty();
    let (connections, others): (Vec<&Record>, Vec<&Record>) =
        seen.records.iter().partition(|record| record.kind == Kind::Connection);
    let (programs, others): (Vec<&Record>, Vec<&Record>) =
        others.into_iter().partition(|record| record.body["sampled"] == true);
    rows.extend(others.into_iter().filter_map(|record| seen_row(record, &says)));
    rows.extend(ran(&programs, &says, !said.is_empty()));
    rows.extend(connected(&connections, &says));
    let last = seen.records.iter().chain(said).map(|record| record.time).max();
    if let Some(time) = last.filter(|_| has_agent) {
        let unsaid = seen.files.iter().filter(|file| !named.contains(file.as_str()) && !says(file));
        rows.extend(unsaid.map(|file| AuditRow {
            time,
            tool: "file".to_owned(),
            target: file.clone(),
            decision: AuditDecision::Seen.into(),
            severity: Severity::Low.into(),
            confidence: Confidence::High.into(),
            reason: "changed, but no tool call names it".to_owned(),
            seen: Some(Seen::Unsaid),
            record: None,
        }));
    }
    rows.sort_by_key(|row| row.time);
    rows.truncate(ROWS);
    rows
}

/// The maximum time between a guard's report and the line of a transcript, in seconds.
const APART: i64 = 60;

/// Whether the guard reported a call of a transcript.
fn is_reported(call: &TranscriptCall, said: &[Record]) -> bool {
    said.iter().any(|record| {
        let near = record.time.duration_since(call.time).as_secs().abs() <= APART;
        let (tool, target) = (text(&record.body, "tool"), text(&record.body, "target"));
        // Codex composes calls in code, which contains their targets; its hooks see the calls
        // themselves.
        let composed = target
            .lines()
            .next()
            .is_some_and(|line| !line.is_empty() && call.target.contains(line));
        near && (tool == call.tool || composed)
    })
}

/// Returns the row of a call that is only in the tool's own transcript.
fn unreported(call: &TranscriptCall) -> AuditRow {
    AuditRow {
        time: call.time,
        tool: call.tool.clone(),
        target: call.target.clone(),
        decision: AuditDecision::Unreported.into(),
        severity: Severity::Medium.into(),
        confidence: Confidence::Medium.into(),
        reason: "in the tool's transcript, but no guard reported it".to_owned(),
        seen: None,
        record: None,
    }
}

/// Returns the row of a reported call, and whether the room did it.
fn said_row<'s>(record: &Record, seen: &'s Done, named: &mut BTreeSet<&'s str>) -> AuditRow {
    let AuditBody { tool, target, decision, severity, confidence, mut reason, .. } =
        record.body().unwrap_or_default();
    let writes = is_write(&tool);
    let files: Vec<&str> = seen
        .files
        .iter()
        .map(String::as_str)
        .filter(|file| names(&target, file, &seen.worktree))
        .collect();
    named.extend(files.iter().copied());
    let was_seen = match (writes, decision.known()) {
        (true, Some(Verdict::Allow | Verdict::Deny)) => {
            Some(if files.is_empty() { Seen::No } else { Seen::Yes })
        }
        (false, _) if !files.is_empty() => Some(Seen::Yes),
        _ => None,
    };
    match (decision.known(), was_seen) {
        (Some(Verdict::Deny), Some(Seen::Yes)) if writes => {
            reason = format!("{reason}; the file changed all the same")
        }
        (Some(Verdict::Allow), Some(Seen::No)) if writes && !seen.worktree.is_empty() => {
            reason = format!("{reason}; said but not seen: nothing changed there");
        }
        _ => {}
    }
    AuditRow {
        time: record.time,
        tool,
        target,
        decision: decision.map(AuditDecision::Judged),
        severity,
        confidence,
        reason,
        seen: was_seen,
        record: Some(record.id.clone()),
    }
}

fn is_write(tool: &str) -> bool {
    let tool = tool.to_lowercase();
    ["write", "edit", "patch", "create", "replace", "delete", "move"]
        .iter()
        .any(|word| tool.contains(word))
}

/// Whether a target refers to a file of the worktree.
fn names(target: &str, file: &str, worktree: &str) -> bool {
    let whole = Path::new(worktree).join(file);
    let whole = whole.to_string_lossy();
    target.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| "'\"`;,()".contains(c)).trim_start_matches("./");
        word == file || word == whole || word.trim_start_matches(['>', '<']) == file
    })
}

/// Returns the connections, one row per host and outcome.
fn connected(records: &[&Record], says: &dyn Fn(&str) -> bool) -> Vec<AuditRow> {
    let mut rows: BTreeMap<(String, bool), (AuditRow, BTreeSet<&str>)> = BTreeMap::new();
    for record in records {
        let body = &record.body;
        let host = text(body, "host");
        let host = if host.is_empty() { text(body, "address") } else { host };
        let port = body["port"].as_u64().map_or(String::new(), |port| format!(":{port}"));
        let (target, denied) = (format!("{host}{port}"), body["allowed"].as_bool() == Some(false));
        let said = says(host) && !host.is_empty();
        let (verdict, severity) = match denied {
            true => (Verdict::Deny, Severity::High),
            false => (Verdict::Allow, Severity::Low),
        };
        let made = || AuditRow {
            time: record.time,
            tool: "connection".to_owned(),
            target: target.clone(),
            decision: AuditDecision::Judged(verdict).into(),
            severity: severity.into(),
            confidence: Confidence::High.into(),
            reason: record.summary.clone(),
            seen: Some(if said { Seen::Yes } else { Seen::Unsaid }),
            record: Some(record.id.clone()),
        };
        let (_, ids) =
            rows.entry((target.clone(), denied)).or_insert_with(|| (made(), BTreeSet::new()));
        ids.insert(&record.id);
    }
    let counted = rows.into_values().map(|(mut row, ids)| {
        if ids.len() > 1 {
            row.reason = format!("{} connections; the first: {}", ids.len(), row.reason);
        }
        row
    });
    counted.collect()
}

/// Returns the observed programs, one row per command line. Without a guard, none of them counts as
/// unreported.
fn ran(records: &[&Record], says: &dyn Fn(&str) -> bool, is_guarded: bool) -> Vec<AuditRow> {
    let mut rows: BTreeMap<String, (AuditRow, usize)> = BTreeMap::new();
    for record in records {
        let words = record.body["argv"].as_array().into_iter().flatten();
        let argv: Vec<&str> = words.filter_map(Value::as_str).collect();
        let target = argv.join(" ");
        let (_, count) = rows.entry(target.clone()).or_insert_with(|| {
            let row = AuditRow {
                time: record.time,
                tool: "process".to_owned(),
                target,
                decision: AuditDecision::Seen.into(),
                severity: Severity::None.into(),
                confidence: Confidence::High.into(),
                reason: "ran in the room".to_owned(),
                seen: is_guarded
                    .then(|| if names_program(says, &argv) { Seen::Yes } else { Seen::Unsaid }),
                record: Some(record.id.clone()),
            };
            (row, 0)
        });
        *count += 1;
    }
    let counted = rows.into_values().map(|(mut row, count)| {
        if count > 1 {
            row.reason = format!("ran in the room {count} times");
        }
        row
    });
    counted.collect()
}

/// Whether a tool call mentions a program; the shell that runs commands of a tool is never
/// mentioned.
fn names_program(says: &dyn Fn(&str) -> bool, argv: &[&str]) -> bool {
    let Some((program, rest)) = argv.split_first() else { return true };
    let name = program.rsplit('/').next().unwrap_or(program);
    let is_shell = matches!(name, "sh" | "bash" | "zsh" | "dash");
    let script = rest.iter().find(|word| !word.starts_with('-'));
    match script {
        Some(script) if is_shell => says(script) || says(name),
        _ => is_shell || says(name) || rest.iter().any(|word| word.len() > 3 && says(word)),
    }
}

/// Returns the row of something that the room did.
fn seen_row(record: &Record, says: &dyn Fn(&str) -> bool) -> Option<AuditRow> {
    let body = &record.body;
    let row = |tool: &str,
               target: String,
               decision: Word<AuditDecision>,
               severity: Severity,
               reason: String,
               said: bool| {
        AuditRow {
            time: record.time,
            tool: tool.to_owned(),
            target,
            decision,
            severity: severity.into(),
            confidence: Confidence::High.into(),
            reason,
            seen: Some(if said { Seen::Yes } else { Seen::Unsaid }),
            record: Some(record.id.clone()),
        }
    };
    match record.kind {
        Kind::Commit => {
            let said = says("git commit");
            Some(row(
                "commit",
                text(body, "commit").chars().take(12).collect(),
                AuditDecision::Seen.into(),
                Severity::None,
                record.summary.clone(),
                said,
            ))
        }
        Kind::Exec => {
            let argv: Vec<&str> =
                body["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            // A command reported by a program of the room was not observed.
            let is_noted = body["inside"] == true;
            let (decision, reason) = match is_noted {
                true => (AuditDecision::Said, "noted by a program of the room"),
                false => (AuditDecision::Seen, "run from outside of the room"),
            };
            // The end of a command is a separate record.
            body["exit"].is_null().then(|| AuditRow {
                seen: (!is_noted).then_some(Seen::Yes),
                ..row(
                    "exec",
                    argv.join(" "),
                    decision.into(),
                    Severity::None,
                    reason.to_owned(),
                    true,
                )
            })
        }
        Kind::Agent => {
            let state: Word<AgentState> = Word::read(text(body, "state").to_owned());
            let severity = match state.known() {
                Some(AgentState::Failed) => Severity::Medium,
                _ => Severity::None,
            };
            Some(row(
                "agent",
                text(body, "tool").to_owned(),
                state.map(AuditDecision::Agent),
                severity,
                record.summary.clone(),
                true,
            ))
        }
        _ => None,
    }
}

/// Whether a row is highlighted.
fn stands_out(row: &AuditRow) -> bool {
    let is = |verdict| row.decision == AuditDecision::Judged(verdict);
    let quiet = row.tool == "commit" || row.tool == "connection" && is(Verdict::Allow);
    let unseen = row.seen == Some(Seen::Unsaid) && !quiet;
    let not_done = is(Verdict::Allow) && row.seen == Some(Seen::No);
    is(Verdict::Deny)
        || is(Verdict::Ask)
        || unseen
        || not_done
        || row.severity.known().is_some_and(|severity| severity >= Severity::Medium)
}

/// Formats the audit: highlighted rows first, then all by kind.
fn markdown(run: &str, rows: &[AuditRow]) -> String {
    let mut out = format!(
        "# Audit of {run}\n\nWhat the agent's guard reported is the agent's word; what the room did is what Hothouse saw.\n"
    );
    let count =
        |verdict| rows.iter().filter(|row| row.decision == AuditDecision::Judged(verdict)).count();
    out.push_str(&format!(
        "\n{} rows: {} allowed, {} asked, {} denied.\n",
        rows.len(),
        count(Verdict::Allow),
        count(Verdict::Ask),
        count(Verdict::Deny)
    ));
    section(&mut out, "Blocked and suspicious", rows.iter().filter(|row| stands_out(row)));
    let tools: BTreeSet<&str> = rows.iter().map(|row| row.tool.as_str()).collect();
    for tool in tools {
        section(&mut out, tool, rows.iter().filter(|row| row.tool == tool));
    }
    out
}

fn section<'a>(out: &mut String, title: &str, rows: impl Iterator<Item = &'a AuditRow>) {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n## {}\n\n| time | decision | severity | seen | target | reason |\n|---|---|---|---|---|---|\n", cell(title)));
    for row in rows {
        let AuditRow { time, decision, severity, seen, target, reason, .. } = row;
        let seen = seen.map_or("–", Seen::as_str);
        out.push_str(&format!(
            "| {time} | {} | {} | {seen} | {} | {} |\n",
            cell(decision.as_str()),
            cell(severity.as_str()),
            cell(target),
            cell(reason)
        ));
    }
}

/// Escapes untrusted text for a table: one line, without markup.
fn cell(text: &str) -> String {
    let text: String = text.chars().take(300).collect();
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '\\' | '#' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Draft;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn said(tool: &str, target: &str, decision: Verdict) -> Record {
        let body = AuditBody {
            tool: tool.into(),
            target: target.into(),
            decision: decision.into(),
            severity: Severity::None.into(),
            ..AuditBody::default()
        };
        record(Kind::Audit, serde_json::to_value(body).unwrap(), "")
    }

    fn record(kind: Kind, body: Value, summary: &str) -> Record {
        Draft::new(kind, Timestamp::UNIX_EPOCH, summary, body).into_record("x_1", "a", "run_1")
    }

    fn seen(files: &[&str], records: Vec<Record>) -> Done {
        Done {
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            records,
            worktree: "/w/a".into(),
        }
    }

    #[test]
    fn what_was_said_is_compared_with_what_was_seen() {
        let all = [
            said("Write", "/w/a/x.txt", Verdict::Allow),
            said("Write", "/w/a/never", Verdict::Allow),
            said("Write", "/etc/x", Verdict::Deny),
        ];
        let rows = join(&all, &seen(&["x.txt", "quiet.txt"], Vec::new()));
        let found: Vec<_> =
            rows.iter().map(|row| (row.target.as_str(), row.seen.map(Seen::as_str))).collect();
        assert!(found.contains(&("/w/a/x.txt", Some("yes"))));
        assert!(found.contains(&("/w/a/never", Some("no"))));
        assert!(found.contains(&("/etc/x", Some("no"))));
        assert!(found.contains(&("quiet.txt", Some("unsaid"))));
    }

    #[test]
    fn what_a_room_notes_itself_is_not_what_was_run_from_outside() {
        let exec = |inside: bool| {
            record(
                Kind::Exec,
                json!({ "argv": ["npm", "test"], "inside": inside, "exit": null }),
                "",
            )
        };
        let rows = join(&[], &seen(&[], vec![exec(false), exec(true)]));
        let found: Vec<_> =
            rows.iter().map(|row| (row.decision.as_str(), row.seen.map(Seen::as_str))).collect();
        assert_eq!(found, [("seen", Some("yes")), ("said", None)]);
        assert!(!rows[1].reason.contains("outside"), "{}", rows[1].reason);
    }

    #[test]
    fn words_of_earlier_builds_stay_as_they_are() {
        let body = json!({ "tool": "Write", "target": "x", "decision": "unknown", "severity": "", "reason": "r" });
        let rows = join(&[record(Kind::Audit, body, "")], &seen(&[], Vec::new()));
        let written = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!((&written["decision"], &written["severity"]), (&json!("unknown"), &json!("")));
        assert!(!stands_out(&rows[0]));
    }

    #[test]
    fn a_denied_connection_that_nobody_announced_stands_out() {
        let denied = record(
            Kind::Connection,
            json!({ "host": "evil.example", "port": 80, "allowed": false }),
            "denied",
        );
        let rows = join(&[said("Bash", "ls", Verdict::Allow)], &seen(&[], vec![denied]));
        let row = rows.iter().find(|row| row.tool == "connection").unwrap();
        assert_eq!(
            (row.target.as_str(), row.decision.as_str(), row.seen.map(Seen::as_str)),
            ("evil.example:80", "deny", Some("unsaid"))
        );
        assert!(stands_out(row));
        let page = markdown("run_1", &rows);
        let (first, second) = (page.find("Blocked").unwrap(), page.find("## Bash").unwrap());
        assert!(first < second && page.contains("evil.example:80"));
    }

    #[test]
    fn text_of_an_agent_makes_no_markup() {
        assert_eq!(cell("a|b`c\n<img>"), "a\\|b\\`c \\<img\\>");
    }
}
