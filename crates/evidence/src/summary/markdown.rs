//! The summary for a pull request: short, and without anything that lets a room trigger an action.
//!
//! Text that a room may have chosen is in code spans, where markup, mentions and references have no effect.

use std::fmt::Write;

use hothouse_model::visible;

use super::{Summary, Verdict};
use crate::{checks::Check, compare::Comparison, coverage::Meter, outcome::ScenarioOutcome};

/// How much of a text is shown.
const SHOWN: usize = 120;

/// How many differences are listed.
const DIFFERENCES: usize = 12;

/// How many log lines are shown of a service that did not start.
const LAST_LINES: usize = 3;

/// Writes the summary.
pub fn markdown(summary: &Summary) -> String {
    let mut text = String::new();
    head(&mut text, summary);
    failures(&mut text, summary);
    changed_checks(&mut text, summary);
    list(&mut text, "Not covered", summary.not_covered.iter().map(|one| plain(one)).collect());
    let is_whole = summary.scenarios.iter().all(|one| one.failed().next().is_none());
    summary.scenarios.iter().for_each(|one| scenario(&mut text, one, is_whole));
    effects(&mut text, summary);
    covered(&mut text, summary);
    if let Some(comparison) = &summary.comparison {
        differences(&mut text, comparison);
    }
    caveats(&mut text, summary);
    foot(&mut text, summary);
    text
}

fn head(text: &mut String, summary: &Summary) {
    let (held, all) = summary.checks();
    let (sign, told) = match summary.verdict {
        Verdict::Proved => ("✅", "proved".to_owned()),
        Verdict::Failed => ("❌", "not proved".to_owned()),
        Verdict::Incomplete => ("⚠️", "incomplete".to_owned()),
        Verdict::Unproved => ("⚪", "no scenario was run".to_owned()),
    };
    push(text, &format!("## {sign} {}: {told}\n", plain(&summary.title())));
    let code = &summary.code;
    if code.commit.is_empty() {
        return push(text, &format!("{held} of {all} checks hold; which code ran is not known.\n"));
    }
    let from = match code.from_base.len() {
        0 => String::new(),
        1 => ", judged by the base's checks (1 part taken from it)".to_owned(),
        count => format!(", judged by the base's checks ({count} parts taken from it)"),
    };
    let place = match code.fresh {
        true => "in a fresh sandbox of",
        false => "in a sandbox that was already up, at",
    };
    let base = match summary.base() {
        Some(base) if code.is_branch_base() => format!(", based on {}", code_span(base)),
        Some(base) => format!(", based on {}", plain(base)),
        None => String::new(),
    };
    push(
        text,
        &format!(
            "{held} of {all} checks hold {place} commit {} on {}{base}{from}.\n",
            code_span(short(&code.commit)),
            code_span(&code.branch),
        ),
    );
}

/// Names what failed although checks may hold.
fn failures(text: &mut String, summary: &Summary) {
    for one in &summary.scenarios {
        if let Some(why) = one.reason() {
            push(
                text,
                &format!("**{}** could not be proved: {}\n", plain(&one.scenario), code_span(why)),
            );
        }
    }
}

/// Writes the checks of a scenario. Passed checks are folded if others failed.
fn scenario(text: &mut String, outcome: &ScenarioOutcome, is_whole: bool) {
    let about = outcome.about.as_deref().map(|about| format!(": {}", plain(about)));
    push(text, &format!("### {}{}\n", plain(&outcome.scenario), about.unwrap_or_default()));
    if let Some(failure) = &outcome.failure {
        let mut lines = failure.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or_default();
        push(text, &format!("It could not be carried out: {}\n", code_span(first)));
        let rest: Vec<&str> = lines.collect();
        let last = &rest[rest.len().saturating_sub(LAST_LINES)..];
        last.iter().for_each(|line| push(text, &format!("- {}", code_span(line))));
        if !last.is_empty() {
            text.push('\n');
        }
    }
    let held: Vec<&Check> = outcome.checks.iter().filter(|check| check.ok).collect();
    rows(text, &outcome.failed().collect::<Vec<_>>());
    outcome.failed().for_each(|check| detail(text, check));
    if is_whole {
        rows(text, &held);
    } else if !held.is_empty() {
        let checks = if held.len() == 1 { "check holds" } else { "checks hold" };
        fold(text, &format!("{} {checks}", held.len()));
        rows(text, &held);
        push(text, "</details>\n");
    }
    let runs = outcome.attempts.len();
    for (name, count) in outcome.flaky() {
        push(text, &format!("- **flaky**: {} failed in {count} of {runs} runs", code_span(&name)));
    }
    if !outcome.flaky().is_empty() {
        text.push('\n');
    }
}

fn rows(text: &mut String, checks: &[&Check]) {
    if checks.is_empty() {
        return;
    }
    push(text, "| | check | wanted | found | records |\n|---|---|---|---|---|");
    checks.iter().for_each(|check| row(text, check));
    text.push('\n');
}

fn row(text: &mut String, check: &Check) {
    let records: Vec<String> = check.records.iter().take(3).map(|id| code_span(id)).collect();
    let more = match check.records.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    push(
        text,
        &format!(
            "| {} | {} {} | {} | {} | {}{more} |",
            if check.ok { "✅" } else { "❌" },
            plain(&check.kind),
            cell(&check.query),
            cell(&check.wanted),
            cell(&check.seen),
            records.join(", ").replace('|', "\\|"),
        ),
    );
}

/// Writes the closest records of a failed check, and the command that shows more.
fn detail(text: &mut String, check: &Check) {
    for near in &check.nearest {
        let failed: Vec<String> = near.failed.iter().map(|term| code_span(term)).collect();
        push(
            text,
            &format!(
                "- near {}: {} {}, but {} does not hold",
                plain(&check.kind),
                code_span(&near.id),
                code_span(&near.summary),
                failed.join(", ")
            ),
        );
    }
    if let Some(more) = &check.more {
        push(text, &format!("- more of {}: {}\n", plain(&check.kind), code_span(more)));
    }
}

fn effects(text: &mut String, summary: &Summary) {
    if summary.scenarios.is_empty() {
        return;
    }
    let all: Vec<String> = summary
        .effects
        .iter()
        .map(|one| format!("{} {}", one.count, plain(&one.plural())))
        .collect();
    push(text, &format!("**Effects:** {}\n", all.join(" · ")));
}

/// Writes how much of the change ran; the rest is under "Not covered".
fn covered(text: &mut String, summary: &Summary) {
    let Some((ran, all)) = summary.lines_run() else { return };
    let meters: Vec<&str> = summary.meters().into_iter().map(Meter::as_str).collect();
    let routes = &summary.coverage.routes;
    let asked = routes.iter().filter(|route| route.exercised).count();
    let routes = match routes.len() {
        0 => String::new(),
        count => format!("; {asked} of {count} routes of changed files were requested"),
    };
    let by = meters.join(", ");
    push(
        text,
        &format!("**Change run:** {ran} of {all} changed lines ran (measured by {by}){routes}\n"),
    );
}

fn differences(text: &mut String, comparison: &Comparison) {
    let names: Vec<String> = comparison.sides.iter().map(|side| code_span(&side.name)).collect();
    let same: Vec<String> =
        comparison.same.iter().map(|(kind, count)| format!("{count} {}", plain(kind))).collect();
    let same = if same.is_empty() { "nothing".to_owned() } else { same.join(" · ") };
    push(text, &format!("**Differences** ({}); the same: {same}\n", names.join(" against ")));
    if comparison.differences.is_empty() {
        return push(text, "None.\n");
    }
    push(text, "| kind | what | before | now |\n|---|---|---|---|");
    for one in comparison.differences.iter().take(DIFFERENCES) {
        let side = |text: &Option<String>| text.as_deref().map_or("–".to_owned(), cell);
        push(
            text,
            &format!(
                "| {} | {} | {} | {} |",
                plain(&one.kind),
                cell(&one.what),
                side(&one.left),
                side(&one.right)
            ),
        );
    }
    text.push('\n');
    match comparison.differences.len().saturating_sub(DIFFERENCES) {
        0 => {}
        more => push(text, &format!("… and {more} more.\n")),
    }
}

fn changed_checks(text: &mut String, summary: &Summary) {
    let all = summary.changed_checks.iter().map(|one| {
        let weaker = if one.weaker { "**weaker** " } else { "" };
        format!("{weaker}{} {}: {}", one.area.as_str(), code_span(&one.name), code_span(&one.how))
    });
    list(text, "Changed checks", all.collect());
}

fn list(text: &mut String, title: &str, items: Vec<String>) {
    if items.is_empty() {
        return push(text, &format!("**{title}:** none\n"));
    }
    push(text, &format!("**{title}**\n"));
    items.iter().for_each(|item| push(text, &format!("- {item}")));
    text.push('\n');
}

/// Starts a collapsed section. Its title contains nothing from a room.
fn fold(text: &mut String, title: &str) {
    text.push_str("<details><summary>");
    text.push_str(title);
    push(text, "</summary>\n");
}

/// Folds the caveats of this sandbox, which apply to every run.
fn caveats(text: &mut String, summary: &Summary) {
    if summary.caveats.is_empty() {
        return push(text, "**Caveats:** none\n");
    }
    fold(text, &format!("Caveats: {}", summary.caveats.len()));
    for one in &summary.caveats {
        push(text, &format!("- {}: {}", plain(&one.area), plain(&one.text)));
    }
    push(text, "\n</details>\n");
}

fn foot(text: &mut String, summary: &Summary) {
    let Summary { run, chain, digests, tool, seed, flags, .. } = summary;
    let seed = if seed.is_empty() { "none".to_owned() } else { seed.join(", ") };
    let flags: Vec<String> = flags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let flags = if flags.is_empty() { "none".to_owned() } else { flags.join(", ") };
    let told = format!(
        "Run {} with {} records; seed {}; flags {}; tree {}; config {}; fixtures {}; {}. Check it with {}.",
        code_span(run),
        chain.records,
        code_span(&seed),
        code_span(&flags),
        code_span(short(&summary.code.tree)),
        code_span(&digests.config),
        code_span(&digests.fixtures),
        plain(tool),
        code_span(&format!("hothouse verify FOLDER --head {}", chain.head)),
    );
    fold(text, "What was run, and how to check it");
    push(text, &told);
    push(text, "\n</details>");
}

fn push(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all text");
}

/// Returns the beginning of a hash.
pub(super) fn short(hash: &str) -> &str {
    &hash[..hash.floor_char_boundary(10)]
}

/// Puts a text into a code span.
fn code_span(text: &str) -> String {
    let line = shown(text).replace('`', "'");
    if line.is_empty() { "–".to_owned() } else { format!("`{line}`") }
}

/// Puts a text into a cell of a table.
fn cell(text: &str) -> String {
    code_span(text).replace('|', "\\|")
}

/// Makes a text one line, truncated.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = visible::line(&line).into_owned();
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Removes everything from a text that Markdown could interpret.
fn plain(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut all = String::with_capacity(line.len());
    for c in visible::line(&line).chars() {
        match c {
            '<' => all.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '|' | '~' => all.extend(['\\', c]),
            // A mention or a reference would notify somebody or become a link.
            '@' | '#' => all.extend([c, '\u{2060}']),
            c => all.push(c),
        }
    }
    // URLs would become links.
    all.replace("://", ":\u{2060}//").replace("www.", "www\u{2060}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_cannot_write_markup_into_a_pull_request() {
        assert_eq!(code_span("a `b` <img> @all"), "`a 'b' <img> @all`");
        assert_eq!(code_span("one\ntwo | x\u{202e}"), "`one two | x\\u{202e}`");
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(plain("<img src=x> [a](b) **"), "&lt;img src=x> \\[a\\](b) \\*\\*");
        assert_eq!(plain("@all #1"), "@\u{2060}all #\u{2060}1");
        assert_eq!(
            plain("see https://a.b or www.a.b"),
            "see https:\u{2060}//a.b or www\u{2060}.a.b"
        );
        assert_eq!(code_span(&"ü".repeat(200)).chars().count(), SHOWN + 3);
    }
}
