//! `logs`.

use std::process::ExitCode;

use hothouse_api::{
    log::{LogLine, LogPage, LogQuery},
    route,
};
use hothouse_model::{Failure, visible};

use super::{overview::names_sandbox, sandbox::check_reference};
use crate::{
    args::LogsArgs,
    session::Session,
    ui::{Tone, Ui},
};

/// The approximate number of bytes in a token.
const TOKEN_BYTES: usize = 4;

/// The minimum width of the service column.
const NAME_WIDTH: usize = 8;

/// How long one request waits for new lines.
const FOLLOW_WAIT_MS: u64 = 10_000;

/// Shows the logs of services.
pub(crate) fn show(session: &Session, ui: &Ui, args: &LogsArgs) -> Result<ExitCode, Failure> {
    if let Some(text) = &args.which.sandbox {
        check_reference(text)?;
    }
    let (sandbox, services) = match (&args.which.sandbox, args.services.split_first()) {
        _ if args.run.is_some() => (None, &args.services[..]),
        (None, Some((first, rest))) => match names_sandbox(session, "logs", first)? {
            true => (Some(first.clone()), rest),
            false => (None, &args.services[..]),
        },
        (which, _) => (which.clone(), &args.services[..]),
    };
    let mut query = LogQuery {
        sandbox,
        folder: session.folder_text()?,
        run: args.run.clone(),
        services: (!services.is_empty()).then(|| services.join(",")),
        grep: args.grep.clone(),
        before: args.before,
        after: args.after,
        since: args.since.clone(),
        tail: args.tail,
        limit: args.budget.map(|tokens| tokens.saturating_mul(TOKEN_BYTES).max(1)),
        raw: args.raw,
        wait_ms: None,
    };
    let several = services.len() != 1;
    let width = services.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut printer = Printer { ui, several, width: width.max(NAME_WIDTH), last: None };
    let mut gathered = Vec::new();
    loop {
        let mut page: LogPage = session.query(route::LOGS, &query)?;
        if ui.json && !args.follow {
            // One JSON value contains all pages.
            gathered.append(&mut page.lines);
            if args.budget.is_some() || !page.more {
                ui.print_json(&LogPage { lines: gathered, ..page });
                return Ok(ExitCode::SUCCESS);
            }
        }
        printer.print(&page.lines);
        if args.budget.is_some() && !args.follow {
            if page.more {
                ui.say(&format!("More: continue with `--since {}`.", page.cursor));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if !page.more && !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(code) = ui.cut_off() {
            return Ok(code);
        }
        query.tail = None;
        query.wait_ms = (!page.more).then_some(FOLLOW_WAIT_MS);
        query.since = Some(page.cursor);
    }
}

struct Printer<'a> {
    ui: &'a Ui,
    several: bool,
    /// The width of the longest service name so far.
    width: usize,
    last: Option<(String, u64)>,
}

impl Printer<'_> {
    fn print(&mut self, lines: &[LogLine]) {
        if lines.is_empty() {
            return;
        }
        let longest = lines.iter().map(|line| line.service.chars().count()).max().unwrap_or(0);
        self.width = self.width.max(longest);
        let text: Vec<String> = lines.iter().map(|line| self.line(line)).collect();
        self.ui.print(&text.join("\n"));
    }

    fn line(&mut self, line: &LogLine) -> String {
        if self.ui.json {
            let text = serde_json::to_string(line).expect("a line is plain data");
            return visible::json(&text).into_owned();
        }
        let gap = self.last.as_ref().is_some_and(|(service, seq)| {
            !line.matched && *service == line.service && line.seq > seq + 1
        });
        self.last = Some((line.service.clone(), line.seq));
        let gap = if gap { "--\n" } else { "" };
        // With `--raw` the line may contain colours, which are printed.
        let text = visible::painted_line(&line.text);
        match self.several {
            true => format!(
                "{gap}{} {text}",
                self.ui.paint(Tone::Faint, &format!("{:<1$}|", line.service, self.width))
            ),
            false => format!("{gap}{text}"),
        }
    }
}
