//! `diff`, `log`, `promote`.

use std::process::ExitCode;

use hothouse_api::{
    route,
    workspace::{
        DiffView, FindingView, GrantsQuery, GrantsView, LogView, PromoteBody, PromotedView,
        PromotionWord, ReviewQuery,
    },
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{Failure, review::MergeKind};

use super::sandbox::check_reference;
use crate::{
    args::{DiffArgs, LogArgs, PromoteArgs, Which},
    budget::{Budget, cut},
    render::{Cell, age, plain, plain_lines, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Shows what a sandbox changed.
pub(crate) fn diff(session: &Session, ui: &Ui, args: DiffArgs) -> Result<ExitCode, Failure> {
    let which = args.which.which();
    let name = which.sandbox.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let query = query(session, which, args.base)?;
    let diff: DiffView = session.query(route::SANDBOX_DIFF, &query)?;
    if ui.json {
        ui.print_json(&diff);
        return Ok(ExitCode::SUCCESS);
    }
    if diff.files.is_empty() && diff.look_closely.is_empty() {
        ui.say("No changes.");
        return Ok(ExitCode::SUCCESS);
    }
    let text = if args.stat { stat(ui, &diff) } else { shown(ui, &diff.diff) };
    for line in closely(&diff.look_closely) {
        ui.say(&line);
    }
    print_within(ui, &text, args.budget, args.since)?;
    if diff.truncated && !args.stat {
        ui.say("The diff is too long to show; `--stat` lists every file.");
    }
    ui.next(&format!("hothouse promote{name}"));
    Ok(ExitCode::SUCCESS)
}

/// Prints the findings before the diff, whose text hides them.
fn closely(findings: &[FindingView]) -> Vec<String> {
    if findings.is_empty() {
        return Vec::new();
    }
    let lines = findings.iter().map(|finding| format!("  {}", plain(&finding.text)));
    std::iter::once("Look closely:".to_owned()).chain(lines).collect()
}

/// Escapes control characters on a terminal, because the agent wrote the text.
fn shown(ui: &Ui, text: &str) -> String {
    let text = text.trim_end_matches('\n');
    if ui.is_terminal() { plain_lines(text) } else { text.to_owned() }
}

fn stat(ui: &Ui, diff: &DiffView) -> String {
    let number = |lines: Option<u64>, sign: char| match lines {
        Some(lines) => format!("{sign}{lines}"),
        None => "binary".into(),
    };
    let rows = diff.files.iter().map(|file| {
        vec![
            Cell::new(&file.path),
            Cell::new(number(file.added, '+')).tone(Tone::Good),
            Cell::new(number(file.removed, '-')).tone(Tone::Bad),
        ]
    });
    table(ui, &["FILE", "ADDED", "REMOVED"], rows.collect())
}

/// Prints a text within the reader's budget, and how to continue.
fn print_within(
    ui: &Ui,
    text: &str,
    budget: Option<usize>,
    since: Option<usize>,
) -> Result<(), Failure> {
    let cut = cut(text, Budget { tokens: budget, first_line: since.unwrap_or(0) });
    ui.print(cut.text);
    if let Some(next) = cut.next_line {
        ui.say(&format!("More: continue with `--since {next}`."));
    }
    Ok(())
}

/// Lists the commits of a sandbox.
pub(crate) fn log(session: &Session, ui: &Ui, args: LogArgs) -> Result<ExitCode, Failure> {
    let which = args.which.which();
    let name = which.sandbox.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let query = query(session, which, args.base)?;
    let log: LogView = session.query(route::SANDBOX_LOG, &query)?;
    if ui.json {
        ui.print_json(&log);
        return Ok(ExitCode::SUCCESS);
    }
    if log.commits.is_empty() {
        ui.say("No commits yet.");
        return Ok(ExitCode::SUCCESS);
    }
    let now = HostClock.now();
    let rows = log.commits.iter().map(|commit| {
        vec![
            Cell::new(commit.id.get(..10).unwrap_or(&commit.id)).tone(Tone::Strong),
            Cell::new(age(commit.date, now)),
            Cell::new(&commit.author),
            Cell::new(&commit.subject),
        ]
    });
    let text = table(ui, &["COMMIT", "AGE", "AUTHOR", "SUBJECT"], rows.collect());
    print_within(ui, &text, args.budget, args.since)?;
    ui.next(&format!("hothouse diff{name}"));
    Ok(ExitCode::SUCCESS)
}

/// Merges a sandbox's branch into the user's branch, or pushes it.
pub(crate) fn promote(
    session: &Session,
    ui: &Ui,
    args: PromoteArgs,
    environment: &[(String, String)],
) -> Result<ExitCode, Failure> {
    if let Some(text) = &args.name {
        check_reference(text)?;
    }
    let query = GrantsQuery {
        sandbox: args.name.or(args.which.sandbox),
        folder: session.folder_text()?,
        how: match (args.merge, args.push) {
            (true, _) => PromotionWord::Merge,
            (false, true) => PromotionWord::Push,
            (false, false) => PromotionWord::Request,
        },
    };
    let shown_grants = match args.accept_grants {
        true => None,
        false => match ask_for_grants(session, ui, &query)? {
            GrantsAsked::Refused => {
                ui.say("Nothing was promoted.");
                return Ok(ExitCode::from(1));
            }
            GrantsAsked::Accepted(shown) => Some(shown),
            GrantsAsked::Nobody => None,
        },
    };
    let body = PromoteBody {
        sandbox: query.sandbox,
        folder: query.folder,
        how: query.how,
        accept_grants: args.accept_grants,
        shown_grants,
        environment: environment.iter().cloned().collect(),
    };
    let operation = session.operation();
    let promoted: PromotedView = session.post(route::SANDBOX_PROMOTE, &operation, &body)?;
    if ui.json {
        ui.print_json(&promoted);
        return Ok(ExitCode::SUCCESS);
    }
    for line in told(&promoted) {
        ui.say(&line);
    }
    if let Some(address) = &promoted.request {
        ui.print(&plain(address));
    }
    if let (Some(_), 0, Some(name)) = (&promoted.merged, promoted.left_behind, &body.sandbox) {
        ui.next(&format!("hothouse delete {}", plain(name)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The user's answer to whether a branch may change what sandboxes are granted.
enum GrantsAsked {
    /// Not a terminal, or nothing to ask.
    Nobody,
    Accepted(Vec<String>),
    Refused,
}

fn ask_for_grants(session: &Session, ui: &Ui, query: &GrantsQuery) -> Result<GrantsAsked, Failure> {
    if !ui.can_ask() {
        return Ok(GrantsAsked::Nobody);
    }
    let found: GrantsView = session.query(route::SANDBOX_PROMOTE_GRANTS, query)?;
    if found.grants.is_empty() {
        return Ok(GrantsAsked::Nobody);
    }
    ui.say("The branch changes what sandboxes of this repository are granted:");
    for grant in &found.grants {
        ui.say(&format!("  {}", plain(grant)));
    }
    Ok(match ui.ask("Accept these changes?") {
        Some(true) => GrantsAsked::Accepted(found.grants),
        _ => GrantsAsked::Refused,
    })
}

fn told(promoted: &PromotedView) -> Vec<String> {
    let PromotedView { branch, into, commits, .. } = promoted;
    let counted = if *commits == 1 { "1 commit".into() } else { format!("{commits} commits") };
    let merged = promoted.merged.map(|how| match how {
        MergeKind::Nothing => format!("`{into}` is up to date with `{branch}`."),
        MergeKind::Forward | MergeKind::Commit => {
            format!("Merged {counted} of `{branch}` into `{into}`.")
        }
    });
    let pushed = promoted.pushed_to.as_ref();
    let pushed = pushed.map(|remote| format!("Pushed {counted} of `{branch}` to `{remote}`."));
    let request = promoted.request.as_ref().map(|_| "Opened a pull request.".to_owned());
    let no_request = promoted.no_request.as_ref();
    let no_request = no_request.map(|why| format!("No pull request was opened: {}.", plain(why)));
    let granted = match promoted.grants.is_empty() {
        true => None,
        false => Some(format!("Granted from now on: {}.", plain(&promoted.grants.join(", ")))),
    };
    let left = match promoted.left_behind {
        0 => None,
        1 => Some("1 changed file is not committed, so it was left out.".to_owned()),
        count => Some(format!("{count} changed files are not committed, so they were left out.")),
    };
    let evidence = promoted.evidence.as_ref();
    let evidence = evidence.map(|page| format!("What was proved of it: {}", plain(page)));
    let told = [merged, pushed, request, no_request, evidence, granted, left];
    let told = told.into_iter().flatten();
    told.chain(closely(&promoted.look_closely)).collect()
}

fn query(session: &Session, which: Which, base: Option<String>) -> Result<ReviewQuery, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    Ok(ReviewQuery { sandbox: which.sandbox, folder: session.folder_text()?, base })
}
