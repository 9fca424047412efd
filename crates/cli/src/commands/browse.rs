//! `browse`: opens a page in the browser of a room.

use std::{process::ExitCode, time::Duration};

use hothouse_api::{
    browse::{AuthLinkBody, AuthLinkView, BrowseBody, BrowseView},
    route,
};
use hothouse_host::files;
use hothouse_model::{
    Failure, FailureKind,
    browse::{BrowseReport, BrowseSpec},
    visible,
};

use super::{
    given::{duration, not_text, unread},
    timeline::checked,
};
use crate::{
    args::{AuthLinkArgs, BrowseArgs},
    budget::{self, Budget},
    session::Session,
    ui::{Tone, Ui},
};

/// The approximate number of tokens printed as text of the page's tree, unless the user sets another.
const TREE_TOKENS: usize = 800;

/// How many lines of each list are printed as text.
const LINES: usize = 10;

/// The maximum size of a script.
const SCRIPT_MOST: u64 = 256 << 10;

/// The steps that a kept page accepts.
const VERBS: [&str; 15] = [
    "goto",
    "click",
    "hover",
    "check",
    "uncheck",
    "fill",
    "select",
    "press",
    "upload",
    "wait",
    "expect",
    "absent",
    "screenshot",
    "webhook",
    "dialog",
];

/// Opens a page and prints what was found.
pub(crate) fn open(session: &Session, ui: &Ui, args: BrowseArgs) -> Result<ExitCode, Failure> {
    let (budget, recorded) = (args.budget, args.record.clone());
    let (sandbox, folder) = (checked(args.which.clone())?, session.folder_text()?);
    let body = BrowseBody { sandbox, folder, spec: spec(session, args)? };
    let BrowseView { mut report } = session.post(route::BROWSE, &session.operation(), &body)?;
    if let Some(file) = recorded {
        let path = session.folder.join(file);
        let script = report.script.take().unwrap_or_default();
        files::write(&path, script).map_err(|error| Failure::of(FailureKind::Host, &error))?;
        ui.say(&format!("Wrote the steps to {}.", path.display()));
    }
    if let Some(tokens) = budget {
        shorten(&mut report, tokens);
    }
    match ui.json {
        true => ui.print_json(&report),
        false => ui.print(&text(ui, &report, budget)),
    }
    Ok(match report.ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FailureKind::Unmet.exit_code()),
    })
}

/// Prints a link that opens an app while signed in.
pub(crate) fn link(session: &Session, ui: &Ui, args: AuthLinkArgs) -> Result<ExitCode, Failure> {
    let (sandbox, folder) = (checked(args.which)?, session.folder_text()?);
    let body = AuthLinkBody { sandbox, folder, role: args.role };
    let view: AuthLinkView = session.post(route::AUTH_LINK, &session.operation(), &body)?;
    match ui.json {
        true => ui.print_json(&view),
        false => ui.print(&view.url),
    }
    if args.open {
        super::url::browse(ui, &view.url);
    }
    Ok(ExitCode::SUCCESS)
}

/// Splits the words of a command into an app and a path, or a step.
fn words(args: &BrowseArgs) -> Result<(String, String, Vec<String>), Failure> {
    let all: Vec<String> = args.app.iter().chain(&args.path).chain(&args.words).cloned().collect();
    let is_step = all.first().is_some_and(|word| VERBS.contains(&word.as_str()));
    match (args.session.is_some(), is_step, all.as_slice()) {
        (true, true, _) => Ok((String::new(), String::new(), all)),
        (true, false, []) => Ok((String::new(), String::new(), Vec::new())),
        (_, _, [app]) => Ok((app.clone(), String::new(), Vec::new())),
        (_, _, [app, path]) => Ok((app.clone(), path.clone(), Vec::new())),
        (_, _, []) => Err(Failure::new(FailureKind::Usage, "no app is named")
            .hint("such as `hothouse browse web /`")),
        (true, ..) => Err(Failure::new(FailureKind::Usage, format!("`{}` is not a step", all[0]))
            .hint(format!("steps: {}", VERBS.join(", ")))),
        (false, ..) => Err(Failure::new(FailureKind::Usage, "an app and one path are expected")
            .hint("steps are for a kept page: add `--session NAME`")),
    }
}

fn script(session: &Session, args: &BrowseArgs) -> Result<Option<String>, Failure> {
    let Some(file) = &args.script else { return Ok(None) };
    let bytes = files::read_capped(&session.folder.join(file), SCRIPT_MOST)
        .map_err(|error| unread(FailureKind::NotFound, &error))?;
    String::from_utf8(bytes).map(Some).map_err(|_| not_text(file))
}

fn spec(session: &Session, args: BrowseArgs) -> Result<BrowseSpec, Failure> {
    let viewport = args.viewport.as_deref().map(str::parse).transpose();
    let timeout = duration("--timeout", args.timeout.as_deref())?;
    let (app, path, step) = words(&args)?;
    Ok(BrowseSpec {
        app,
        path,
        step,
        script: script(session, &args)?,
        auth: args.auth,
        full_page: args.full_page,
        element: args.element,
        device: args.device,
        viewport: viewport.map_err(|error| Failure::of(FailureKind::Usage, &error))?,
        locale: args.locale,
        timezone: args.timezone,
        clock: args.clock,
        reduced_motion: args.reduced_motion,
        offline: args.offline,
        video: args.video,
        trace: args.trace,
        har: args.har,
        timeout_ms: timeout.map(|it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        session: args.session,
        record: args.record.is_some(),
        close: args.close,
    })
}

/// Cuts the long texts of a report: half of the tokens go to the tree, half to the text.
fn shorten(report: &mut BrowseReport, tokens: usize) {
    let half = |text: &str| {
        let part = budget::cut(text, Budget { tokens: Some(tokens / 2), first_line: 0 });
        (part.text.to_owned(), part.next_line)
    };
    let (tree, next) = half(&report.accessibility.snapshot);
    let lines = report.accessibility.snapshot.lines().count();
    report.accessibility.left_out += next.map_or(0, |next| (lines - next) as u64);
    report.accessibility.snapshot = tree;
    report.text = half(&report.text).0;
}

/// Renders a report for a reader.
fn text(ui: &Ui, report: &BrowseReport, budget: Option<usize>) -> String {
    let mut lines = Vec::new();
    let tone = if report.ok { Tone::Good } else { Tone::Bad };
    let status = report.status.map_or("no answer".to_owned(), |status| status.to_string());
    let head = format!("{} {}", ui.paint(tone, &status), visible::line(&report.final_url));
    lines.push(match report.title.is_empty() {
        true => head,
        false => format!("{head}  {}", ui.paint(Tone::Strong, &visible::line(&report.title))),
    });
    for (name, all) in told(report) {
        let shown = all.iter().take(LINES).map(|line| format!("  {}", visible::line(line)));
        if !all.is_empty() {
            lines.push(format!("{name}:"));
        }
        lines.extend(shown);
        if all.len() > LINES {
            lines.push(format!("  and {} more", all.len() - LINES));
        }
    }
    let tokens = Some(budget.unwrap_or(TREE_TOKENS));
    let tree = budget::cut(&report.accessibility.snapshot, Budget { tokens, first_line: 0 });
    if !tree.text.is_empty() {
        lines.push("page:".into());
        lines.extend(tree.text.lines().map(|line| format!("  {}", visible::line(line))));
    }
    if tree.next_line.is_some() {
        lines.push("  … (more with --budget)".into());
    }
    lines.extend(report.screenshots.iter().map(|path| format!("screenshot: {path}")));
    lines.extend(report.har.iter().map(|path| format!("har: {path}")));
    lines.extend(report.trace_file.iter().map(|path| format!("trace: {path}")));
    lines.extend(report.video.iter().map(|path| format!("video: {path}")));
    lines.push(format!("artifacts: {}", report.artifacts));
    lines.extend(report.hints.iter().map(|hint| format!("hint: {hint}")));
    lines.join("\n")
}

/// Lists what deserves a line, by kind.
fn told(report: &BrowseReport) -> Vec<(&'static str, Vec<String>)> {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let bad_console =
        report.console.iter().filter(|line| matches!(&*line.level, "error" | "warning"));
    let media = report.media.iter().filter(|media| !media.ok);
    vec![
        ("steps", report.steps.iter().map(step).collect()),
        ("page errors", report.page_errors.iter().map(|error| first_line(error)).collect()),
        (
            "failed requests",
            report
                .failed_requests
                .iter()
                .map(|it| format!("{} {} {}", it.reason, it.method, it.url))
                .collect(),
        ),
        (
            "slow requests",
            report
                .slow_requests
                .iter()
                .map(|it| format!("{} ms {}", it.duration_ms, it.url))
                .collect(),
        ),
        ("media that did not decode", media.map(|media| media.src.clone()).collect()),
        (
            "console",
            bad_console.map(|line| format!("{}: {}", line.level, first_line(&line.text))).collect(),
        ),
        (
            "redirects",
            report
                .redirects
                .iter()
                .map(|it| format!("{} {} -> {}", it.status, it.from, it.to))
                .collect(),
        ),
        (
            "dialogs",
            report
                .dialogs
                .iter()
                .map(|it| format!("{} {}: {}", it.r#type, it.answer, it.message))
                .collect(),
        ),
        (
            "downloads",
            report
                .downloads
                .iter()
                .map(|it| format!("{} ({} bytes, {})", it.name, it.bytes, it.state))
                .collect(),
        ),
        ("windows that it opened", report.popups.clone()),
        ("notes", report.notes.clone()),
    ]
}

fn step(step: &hothouse_model::browse::StepReport) -> String {
    let mut line = format!("{} {}", if step.ok { "ok  " } else { "FAIL" }, step.step);
    if let Some(error) = &step.error {
        line.push_str(&format!(": {error}"));
    }
    if !step.near.is_empty() {
        line.push_str(&format!("; there is {}", step.near.join(", ")));
    }
    line
}
