//! `egress log`, `why`, `learn` and `allow`: what rooms tried to reach, and what they may reach.

use std::process::ExitCode;

use hothouse_api::{
    egress::{
        AllowBody, DecisionView, EgressPage, EgressQuery, EgressRecord, GrantView, LearnQuery,
        LearnedView, WhyQuery, WhyView,
    },
    route,
};
use hothouse_model::{
    Failure,
    config::{IntegrationClass, RuleTransport},
    ledger::AttemptKind,
    policy::{Decision, ReasonCode, RecordedCode},
};

use super::timeline::checked;
use crate::{
    args::{EgressAllowArgs, EgressLogArgs, EgressWhyArgs, WhichRun},
    render::{Cell, bytes, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The approximate number of bytes in a token.
const TOKEN_BYTES: usize = 4;

/// How long one request waits for new records.
const FOLLOW_WAIT_MS: u64 = 10_000;

/// Shows the ledger.
pub(crate) fn log(session: &Session, ui: &Ui, args: EgressLogArgs) -> Result<ExitCode, Failure> {
    let mut query = EgressQuery {
        sandbox: checked(args.which)?,
        folder: session.folder_text()?,
        run: args.run,
        since: args.since,
        denied: args.denied,
        host: args.host,
        tail: args.tail,
        wait_ms: None,
    };
    let mut first = true;
    loop {
        let page: EgressPage = session.query(route::EGRESS, &query)?;
        let budget = args.budget.map(|tokens| tokens.saturating_mul(TOKEN_BYTES));
        let (records, next) = within(page.records, budget);
        match ui.json {
            true if args.follow => records.iter().for_each(|record| {
                ui.print_json_line(record);
            }),
            true => ui.print_json(&records),
            false if records.is_empty() && first && !args.follow => {
                ui.say("No connections out of the room yet.");
            }
            false => print(ui, &records, first),
        }
        if let (Some(next), false) = (next, args.follow) {
            ui.say(&format!("More: continue with `--since {next}`."));
        }
        if !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        first = false;
        query.tail = None;
        query.wait_ms = Some(FOLLOW_WAIT_MS);
        query.since = Some(page.cursor);
    }
}

/// Cuts records to a budget. Returns the cursor to continue from, if there are more.
fn within(
    mut records: Vec<EgressRecord>,
    budget: Option<usize>,
) -> (Vec<EgressRecord>, Option<u64>) {
    let Some(budget) = budget else { return (records, None) };
    // Sorted by number, so that the cursor skips nothing.
    records.sort_by_key(|record| record.seq);
    let mut used = 0;
    let size = |record: &EgressRecord| serde_json::to_string(record).map_or(0, |text| text.len());
    let fits = records.iter().take_while(|record| {
        used += size(record);
        used <= budget
    });
    let count = fits.count().max(1);
    if count >= records.len() {
        return (records, None);
    }
    records.truncate(count);
    let next = records.last().map(|record| record.seq);
    (records, next)
}

fn print(ui: &Ui, records: &[EgressRecord], heading: bool) {
    if records.is_empty() {
        return;
    }
    let rows: Vec<_> = records.iter().map(row).collect();
    let columns = ["TIME", "VERDICT", "HOST", "PORT", "SENT", "RECEIVED", "PROCESS", "WHY"];
    let text = table(ui, &columns, rows);
    let text = if heading { &text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    ui.print(text);
}

fn row(record: &EgressRecord) -> Vec<Cell> {
    let time = record.time.strftime("%H:%M:%S").to_string();
    let denied = record.verdict == Decision::Denied;
    let verdict = match (denied, record.open) {
        (true, _) => Cell::new(record.verdict.as_str()).tone(Tone::Bad),
        (false, true) => Cell::new("open").tone(Tone::Good),
        (false, false) => Cell::new(record.verdict.as_str()).tone(Tone::Good),
    };
    let process =
        record.process.as_ref().map(|process| format!("{}[{}]", process.name, process.pid));
    let why = match (&record.reason, &record.error) {
        (Some(reason), _) => reason.clone(),
        (None, Some(error)) => error.clone(),
        (None, None) => record.rule.clone(),
    };
    let size = |count: u64| if denied { "-".to_owned() } else { bytes(count) };
    vec![
        Cell::new(time).tone(Tone::Faint),
        verdict,
        Cell::new(shown_host(record)),
        Cell::new(shown_port(record)),
        Cell::new(size(record.sent)),
        Cell::new(size(record.received)),
        Cell::new(process.unwrap_or_else(|| "-".into())),
        Cell::new(why),
    ]
}

fn shown_port(record: &EgressRecord) -> String {
    let protocol = record.protocol.as_deref().unwrap_or_default().to_lowercase();
    match (record.kind, record.port) {
        (AttemptKind::Datagram, Some(port)) => format!("{port}/{protocol}"),
        (AttemptKind::Datagram, None) => protocol,
        (_, Some(port)) => port.to_string(),
        (_, None) => "dns".to_owned(),
    }
}

fn shown_host(record: &EgressRecord) -> String {
    let host = record.host.clone().or_else(|| record.address.clone());
    host.unwrap_or_else(|| "-".into())
}

/// Explains why a connection was denied, or whether a host would be allowed now.
pub(crate) fn why(session: &Session, ui: &Ui, args: EgressWhyArgs) -> Result<ExitCode, Failure> {
    let query =
        WhyQuery { sandbox: checked(args.which)?, folder: session.folder_text()?, host: args.host };
    let why: WhyView = session.query(route::EGRESS_WHY, &query)?;
    if ui.json {
        ui.print_json(&why);
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    if let Some(now) = &why.now {
        let tone = match now.verdict {
            Decision::Allowed => Tone::Good,
            Decision::Denied => Tone::Bad,
        };
        lines.push(format!(
            "{} is {} now",
            plain(&shown(now)),
            ui.paint(tone, now.verdict.as_str())
        ));
        lines.push(format!("  rule: {}", plain(&now.rule)));
        if let Some(reason) = &now.reason {
            lines.push(format!("  why:  {}", plain(reason)));
        }
        if let Some(one) = &now.integration {
            lines.push(format!("  integration: {} ({})", plain(&one.name), treatment(one.class)));
        } else if now.reason.is_some() {
            lines.push(format!(
                "  ask:  hothouse egress allow {} -w {}",
                plain(&asked(now, &why)),
                why.sandbox
            ));
        }
    } else {
        lines.push(format!(
            "mode {}: {} allowed, {} denied",
            why.mode, why.allowed_count, why.denied_count
        ));
    }
    ui.print(&lines.join("\n"));
    match why.denied.is_empty() {
        true => ui.say("None of its connections were denied."),
        false => print(ui, &why.denied, true),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns how an integration of a class treats requests.
fn treatment(class: IntegrationClass) -> &'static str {
    match class {
        IntegrationClass::Mock => "mock: fixtures answer, the host is never reached",
        IntegrationClass::Sink => "sink: requests are recorded, the host is never reached",
        IntegrationClass::Disable => "disable: every request is refused",
        IntegrationClass::ReadOnly => "read-only: requests that change something are refused",
        IntegrationClass::TestMode => "test-mode: only requests with test credentials pass",
        IntegrationClass::Local => "local: a service of the room stands in",
        IntegrationClass::Shim => "shim: a script in the browser stands in",
        IntegrationClass::Seam => "seam: the app has its own seam",
    }
}

/// Returns the destination in question.
fn shown(now: &DecisionView) -> String {
    let host = match now.port {
        Some(port) if now.host.contains(':') => format!("[{}]:{port}", now.host),
        Some(port) => format!("{}:{port}", now.host),
        None => now.host.clone(),
    };
    match now.transport {
        RuleTransport::Tcp => host,
        transport => format!("{host}/{transport}"),
    }
}

/// Returns the rule that would allow it. A private address needs a rule with the address itself.
fn asked(now: &DecisionView, why: &WhyView) -> String {
    let is_address = now.code.as_ref().and_then(RecordedCode::known) == Some(ReasonCode::NotPublic);
    let address = why.denied.iter().find_map(|record| record.address.clone());
    address.filter(|_| is_address).unwrap_or_else(|| asked_host(now))
}

fn asked_host(now: &DecisionView) -> String {
    match now.port {
        Some(22 | 80 | 443) if now.transport == RuleTransport::Tcp => now.host.clone(),
        _ => shown(now),
    }
}

/// Suggests rules for denied connections.
pub(crate) fn learn(session: &Session, ui: &Ui, of: WhichRun) -> Result<ExitCode, Failure> {
    let (sandbox, folder) = (checked(of.which)?, session.folder_text()?);
    let query = LearnQuery { sandbox, folder, run: of.run };
    let learned: Vec<LearnedView> = session.query(route::EGRESS_LEARN, &query)?;
    if ui.json {
        ui.print_json(&learned);
        return Ok(ExitCode::SUCCESS);
    }
    if learned.is_empty() {
        ui.say(nothing_learned(session, &query)?);
        return Ok(ExitCode::SUCCESS);
    }
    let rules = toml_lines(&learned);
    let kept = "    # the entries that are already here, and:";
    ui.print(&format!("[egress]\nallow = [\n{kept}\n{}\n]", rules.join("\n")));
    let hosts: Vec<_> = learned.iter().map(|rule| plain(&rule.rule)).collect();
    ui.say(&format!(
        "Keep the entries that should pass. For this sandbox only, effective immediately: `hothouse egress allow {}`",
        hosts.join(" ")
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the message for the case that no rule is proposed although something may have been denied.
fn nothing_learned(session: &Session, query: &LearnQuery) -> Result<&'static str, Failure> {
    if query.run.is_some() {
        return Ok("No denied connections to allow.");
    }
    let all = WhyQuery { sandbox: query.sandbox.clone(), folder: query.folder.clone(), host: None };
    let why: WhyView = session.query(route::EGRESS_WHY, &all)?;
    Ok(match why.denied_count {
        0 => "No denied connections to allow.",
        _ => {
            "No rule is proposed for what was denied: `hothouse egress log --denied` shows why, and `hothouse egress why HOST` which rule would allow a host."
        }
    })
}

/// Reports which hosts are still denied although a rule names them, and what would allow them.
fn tell_still_denied(session: &Session, ui: &Ui, body: &AllowBody) -> Result<(), Failure> {
    for rule in body.rules.iter().filter(|rule| !rule.contains('*')) {
        let host = Some(rule.clone());
        let query = WhyQuery { sandbox: body.sandbox.clone(), folder: body.folder.clone(), host };
        // A rule such as an address block does not name a host that could be queried.
        let Ok(why) = session.query::<WhyView>(route::EGRESS_WHY, &query) else { continue };
        let Some(now) = why.now.as_ref().filter(|now| now.verdict == Decision::Denied) else {
            continue;
        };
        let Some(reason) = &now.reason else { continue };
        let other = asked(now, &why);
        let next = match other == asked_host(now) {
            true => String::new(),
            false => format!("; `hothouse egress allow {}` would allow it", plain(&other)),
        };
        ui.say(&format!("Note: {} is still denied: {}{next}.", plain(&shown(now)), plain(reason)));
    }
    Ok(())
}

/// Renders one line per host, with an entry for each of its ports or protocols.
fn toml_lines(learned: &[LearnedView]) -> Vec<String> {
    let mut hosts: Vec<(&str, Vec<&LearnedView>)> = Vec::new();
    for rule in learned {
        let host = host_of(&rule.rule);
        match hosts.iter_mut().find(|(known, _)| *known == host) {
            Some((_, rules)) => rules.push(rule),
            None => hosts.push((host, vec![rule])),
        }
    }
    hosts.iter().map(|(_, rules)| toml_line(rules)).collect()
}

/// Returns the host of a rule: `host`, `host:port`, `host:port/udp`, `[v6]:port` or `host/icmp`.
fn host_of(rule: &str) -> &str {
    let rule = rule.split_once('/').map_or(rule, |(host, _)| host);
    match rule.rsplit_once(':') {
        Some((host, port))
            if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => rule,
    }
}

fn toml_line(rules: &[&LearnedView]) -> String {
    let attempts: usize = rules.iter().map(|rule| rule.attempts).sum();
    let times = if attempts == 1 { "once".into() } else { format!("{attempts} times") };
    let mut processes: Vec<_> = rules.iter().flat_map(|rule| &rule.processes).cloned().collect();
    processes.sort();
    processes.dedup();
    let by = match processes.is_empty() {
        true => String::new(),
        false => format!(" by {}", plain(&processes.join(", "))),
    };
    let entries: Vec<_> = rules.iter().map(|rule| format!("\"{}\",", plain(&rule.rule))).collect();
    format!("    {}  # {times}{by}", entries.join(" "))
}

/// Allows hosts, removes such rules, or lists them.
pub(crate) fn allow(
    session: &Session,
    ui: &Ui,
    args: EgressAllowArgs,
) -> Result<ExitCode, Failure> {
    let listing = args.hosts.is_empty();
    let body = AllowBody {
        sandbox: checked(args.which)?,
        folder: session.folder_text()?,
        rules: args.hosts,
        project: args.project,
        remove: args.remove,
    };
    let grants: Vec<GrantView> = session.post(route::EGRESS_ALLOW, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&grants);
        return Ok(ExitCode::SUCCESS);
    }
    match (listing, body.remove) {
        (true, _) if grants.is_empty() => ui.say("No hosts were allowed with `egress allow`."),
        (true, _) => {}
        (false, true) => ui.say("Removed; connections that it allowed are closed."),
        (false, false) => {
            ui.say(&format!("Allowed {}; effective immediately.", body.rules.join(", ")));
            tell_still_denied(session, ui, &body)?;
        }
    }
    if !grants.is_empty() {
        let rows = grants.iter().map(|grant| {
            let day = grant.granted.strftime("%Y-%m-%d %H:%M").to_string();
            vec![
                Cell::new(&grant.rule).tone(Tone::Strong),
                Cell::new(grant.reach.as_str()),
                Cell::new(day).tone(Tone::Faint),
            ]
        });
        ui.print(&table(ui, &["RULE", "FOR", "SINCE"], rows.collect()));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_has_one_line_per_host() {
        let rule = |rule: &str, attempts, process: &str| LearnedView {
            rule: rule.into(),
            attempts,
            processes: vec![process.into()],
            last: jiff::Timestamp::UNIX_EPOCH,
        };
        let learned = [
            rule("a.example:5432", 2, "node"),
            rule("b.example", 1, "curl"),
            rule("a.example", 1, "curl"),
            rule("[2001:db8::1]:53/udp", 1, "dig"),
        ];
        assert_eq!(
            toml_lines(&learned),
            [
                "    \"a.example:5432\", \"a.example\",  # 3 times by curl, node",
                "    \"b.example\",  # once by curl",
                "    \"[2001:db8::1]:53/udp\",  # once by dig",
            ]
        );
    }
}
