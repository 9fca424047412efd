//! `emails`, `email`: what apps sent to people.

use std::{
    ops::ControlFlow,
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use hothouse_api::{
    route,
    timeline::{TimelinePage, TimelineQuery},
};
use hothouse_model::{
    Failure, FailureKind,
    record::{
        Kind, Record,
        bodies::{Attachment, MailBody, MailCheck, MailEnvelope, MailFiles, MailTemplate},
        kind_of_id,
    },
};
use serde::Serialize;

use super::timeline::{Budget, cut, go_on, of_kind, terms, visit};
use crate::{
    args::{EmailArgs, EmailsArgs},
    render::{Cell, bytes, plain, plain_lines, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The largest file of a mail that is printed.
const FILE_LIMIT: u64 = 64 << 20;

/// A mail in the list.
#[derive(Serialize)]
struct MailLine {
    id: String,
    time: jiff::Timestamp,
    from: String,
    to: Vec<String>,
    cc: Vec<String>,
    bcc: Vec<String>,
    subject: String,
    via: String,
    size: u64,
    attachments: Vec<Attachment>,
    files: MailFiles,
    service: Option<String>,
}

/// A mail shown by itself.
#[derive(Serialize)]
struct MailView {
    #[serde(flatten)]
    line: MailLine,
    text: Option<String>,
    html: Option<String>,
    headers: Vec<(String, String)>,
    links: Vec<String>,
    codes: Vec<String>,
    checks: Vec<MailCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<MailTemplate>,
    envelope: MailEnvelope,
}

impl MailView {
    fn of(record: &Record, artifacts: &str) -> Self {
        let body: MailBody = record.body().unwrap_or_default();
        let line = MailLine {
            id: record.id.clone(),
            time: record.time,
            from: body.from,
            to: body.to,
            cc: body.cc,
            bcc: body.bcc,
            subject: body.subject,
            via: body.via,
            size: body.size,
            attachments: body.attachments,
            files: absolute(body.files, Path::new(artifacts)),
            service: record.service.clone(),
        };
        Self {
            line,
            text: body.text,
            html: body.html,
            headers: body.headers,
            links: body.links,
            codes: body.codes,
            checks: body.checks,
            template: body.template,
            envelope: body.envelope,
        }
    }

    /// Whether its subject, headers or text contain a text, ignoring case.
    fn has(&self, wanted: &str) -> bool {
        let wanted = wanted.to_lowercase();
        let headers = self.headers.iter().map(|(_, value)| value.as_str());
        let texts = [Some(self.line.subject.as_str()), self.text.as_deref(), self.html.as_deref()];
        let mut all = headers.chain(texts.into_iter().flatten());
        all.any(|text| text.to_lowercase().contains(&wanted))
    }
}

/// Makes paths below the folder of a run absolute. A path that leads out of it is left out.
fn absolute(files: MailFiles, artifacts: &Path) -> MailFiles {
    let one = |file: Option<String>| {
        file.and_then(|file| Some(below(artifacts, &file)?.to_string_lossy().into_owned()))
    };
    MailFiles {
        eml: one(files.eml),
        html: one(files.html),
        text: one(files.text),
        json: one(files.json),
    }
}

fn below(folder: &Path, file: &str) -> Option<PathBuf> {
    let path = Path::new(file);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_below.then(|| folder.join(path))
}

/// Lists mails.
pub(crate) fn list(session: &Session, ui: &Ui, args: EmailsArgs) -> Result<ExitCode, Failure> {
    let query = of_kind(session, Kind::Mail, terms(&args.query), args.part.since, args.part.run)?;
    let mut budget = Budget::new(ui, args.part.budget);
    let mut records = Vec::new();
    let (artifacts, next) = visit(session, query, &mut |record| {
        if !budget.takes(&MailView::of(&record, "").line) {
            return ControlFlow::Break(());
        }
        records.push(record);
        ControlFlow::Continue(())
    })?;
    let lines: Vec<MailLine> =
        records.iter().map(|record| MailView::of(record, &artifacts).line).collect();
    match ui.json {
        true => ui.print_json(&lines),
        false if lines.is_empty() => ui.say("No such mails."),
        false => ui.print(&table(
            ui,
            &["TIME", "ID", "VIA", "TO", "SUBJECT"],
            lines.iter().map(row).collect(),
        )),
    }
    go_on(ui, next);
    Ok(ExitCode::SUCCESS)
}

fn row(line: &MailLine) -> Vec<Cell> {
    let all: Vec<&String> = line.to.iter().chain(&line.cc).chain(&line.bcc).collect();
    let to = match all[..] {
        [] => "-".to_owned(),
        [one] => one.clone(),
        [first, ..] => format!("{first} +{}", all.len() - 1),
    };
    vec![
        Cell::new(line.time.strftime("%H:%M:%S").to_string()).tone(Tone::Faint),
        Cell::new(&line.id),
        Cell::new(&line.via),
        Cell::new(to),
        Cell::new(cut(&line.subject)).tone(Tone::Strong),
    ]
}

/// Shows one mail.
pub(crate) fn show(session: &Session, ui: &Ui, args: EmailArgs) -> Result<ExitCode, Failure> {
    let mail = find(session, &args)?;
    if ui.json {
        ui.print_json(&mail);
        return Ok(ExitCode::SUCCESS);
    }
    let at = || (session, args.run.run.clone());
    match () {
        () if args.html => print_file(at(), ui, mail.line.files.html.as_deref(), "html")?,
        () if args.raw => print_file(at(), ui, mail.line.files.eml.as_deref(), "message")?,
        () if args.text => print_file(at(), ui, mail.line.files.text.as_deref(), "text")?,
        () if args.links => print_lines(ui, &mail.links, "links"),
        () if args.codes => print_lines(ui, &mail.codes, "codes"),
        () => ui.print(&page(&mail)),
    }
    Ok(ExitCode::SUCCESS)
}

fn find(session: &Session, args: &EmailArgs) -> Result<MailView, Failure> {
    let is_latest = args.id == "latest";
    if !is_latest && kind_of_id(&args.id) != Some(Kind::Mail) {
        let failure = Failure::new(
            FailureKind::Usage,
            format!("`{}` is not the id of a mail", plain(&args.id)),
        );
        return Err(failure.hint("pass `latest`, or an id that `hothouse emails` lists"));
    }
    let by_id = if is_latest { String::new() } else { terms(std::slice::from_ref(&args.id)) };
    let query = of_kind(session, Kind::Mail, by_id, args.since.clone(), args.run.clone())?;
    let query = TimelineQuery { limit: Some(1), newest: true, ..query };
    let found = match &args.grep {
        None => latest(session, &query)?,
        Some(wanted) => latest_with(session, query, wanted)?,
    };
    found.ok_or_else(|| none(args, is_latest))
}

fn latest(session: &Session, query: &TimelineQuery) -> Result<Option<MailView>, Failure> {
    let TimelinePage { records, artifacts, .. } = session.query(route::TIMELINE, query)?;
    Ok(records.first().map(|record| MailView::of(record, &artifacts)))
}

/// Searches all mails; the last one that contains the text counts.
fn latest_with(
    session: &Session,
    query: TimelineQuery,
    wanted: &str,
) -> Result<Option<MailView>, Failure> {
    let mut last = None;
    let query = TimelineQuery { newest: false, ..query };
    let (artifacts, _) = visit(session, query, &mut |record| {
        if MailView::of(&record, "").has(wanted) {
            last = Some(record);
        }
        ControlFlow::Continue(())
    })?;
    Ok(last.map(|record| MailView::of(&record, &artifacts)))
}

fn none(args: &EmailArgs, is_latest: bool) -> Failure {
    let failure = match (&args.grep, is_latest) {
        (Some(wanted), _) => {
            Failure::new(FailureKind::Unmet, format!("no mail has `{}`", plain(wanted)))
        }
        (None, true) => Failure::new(FailureKind::Unmet, "no mail was sent in this run"),
        (None, false) => {
            Failure::new(FailureKind::NotFound, format!("there is no mail `{}`", plain(&args.id)))
        }
    };
    failure.hint("`hothouse emails` lists what was sent; `hothouse wait mail` waits for it")
}

/// Prints a file: unchanged into a pipe, escaped on a terminal.
fn print_file(
    (session, run): (&Session, Option<String>),
    ui: &Ui,
    file: Option<&str>,
    what: &str,
) -> Result<(), Failure> {
    let Some(file) = file else {
        return Err(Failure::new(FailureKind::Unmet, format!("this mail has no {what} part")));
    };
    let bytes = session.read_artifact(Path::new(file), run, FILE_LIMIT)?;
    let text = String::from_utf8_lossy(&bytes);
    match ui.is_terminal() {
        true => ui.print(&plain_lines(&text.replace("\r\n", "\n"))),
        false => ui.print_bytes(&bytes),
    }
    Ok(())
}

fn print_lines(ui: &Ui, lines: &[String], what: &str) {
    if lines.is_empty() {
        ui.say(&format!("This mail has no {what}."));
    }
    for line in lines {
        ui.print(&plain(line));
    }
}

/// Renders a mail for a reader.
fn page(mail: &MailView) -> String {
    let line = &mail.line;
    let mut head = vec![("from", line.from.clone())];
    for (name, list) in [("to", &line.to), ("cc", &line.cc), ("bcc", &line.bcc)] {
        if !list.is_empty() {
            head.push((name, list.join(", ")));
        }
    }
    head.push(("subject", line.subject.clone()));
    head.push(("sent", format!("{} by {}, {}", line.time, line.via, bytes(line.size))));
    let attachment =
        |file: &Attachment| format!("{} ({}, {})", file.name, file.content_type, bytes(file.size));
    head.extend(line.attachments.iter().map(|file| ("attached", attachment(file))));
    head.extend(mail.template.iter().map(|template| ("template", template.name.clone())));
    head.extend(mail.links.iter().map(|link| ("link", link.clone())));
    head.extend(mail.codes.iter().map(|code| ("code", code.clone())));
    head.extend(mail.checks.iter().map(|check| ("check", check.text.clone())));
    head.extend(line.files.html.iter().map(|file| ("page", file.clone())));
    let head: String =
        head.iter().map(|(name, value)| format!("{name}: {}\n", plain(value))).collect();
    match &mail.text {
        Some(text) => format!("{head}\n{}", plain_lines(text.replace("\r\n", "\n").trim_end())),
        None => head.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::Draft;

    use super::*;

    #[test]
    fn files_stay_below_the_folder_of_their_run() {
        let folder = Path::new("/runs/1");
        assert_eq!(
            below(folder, "email-outbox/a.eml"),
            Some(PathBuf::from("/runs/1/email-outbox/a.eml"))
        );
        for outside in ["/etc/passwd", "../x", "a/../../x"] {
            assert_eq!(below(folder, outside), None, "{outside}");
        }
    }

    fn view() -> MailView {
        let body = serde_json::json!({
            "from": "shop@acme.test", "to": ["ann@example.com"], "subject": "Your \u{1b}[2Jreceipt", "via": "smtp", "size": 2048,
            "attachments": [{ "name": "i.pdf", "type": "application/pdf", "size": 10 }], "text": "hello\r\nYou",
            "headers": [["X-Tag", "Blue"]], "files": { "eml": "email-outbox/m.eml" },
            "checks": [{ "check": "no-date", "text": "there is no Date header" }],
        });
        let draft = Draft::new(Kind::Mail, jiff::Timestamp::UNIX_EPOCH, "", body);
        let record = draft.into_record("mail_0", "a", "run_1");
        MailView::of(&record, "/runs/1")
    }

    #[test]
    fn a_mail_is_found_by_what_it_says() {
        for (wanted, found) in [("RECEIPT", true), ("blue", true), ("you", true), ("absent", false)]
        {
            assert_eq!(view().has(wanted), found, "{wanted}");
        }
    }

    #[test]
    fn a_mail_is_shown_without_what_moves_the_cursor() {
        assert_eq!(
            page(&view()),
            "from: shop@acme.test\nto: ann@example.com\nsubject: Your \\u{1b}[2Jreceipt\nsent: 1970-01-01T00:00:00Z by smtp, 2.0K\n\
             attached: i.pdf (application/pdf, 10B)\ncheck: there is no Date header\n\nhello\nYou"
        );
        let json = serde_json::to_value(view()).unwrap();
        assert_eq!(json["files"]["eml"], "/runs/1/email-outbox/m.eml");
    }
}
