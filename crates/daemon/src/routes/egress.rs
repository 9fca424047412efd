//! The ledger of what rooms tried to reach, and the user's rules.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    egress::{
        AllowBody, ApproveBody, ChangeView, DecisionView, EgressPage, EgressQuery, EgressRecord,
        GrantView, LearnQuery, LearnedView, PendingView, TreatedView, WhyQuery, WhyView,
    },
    sandbox::FindQuery,
};
use hothouse_edge::ledger;
use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    config::{self, HostName, HostPattern, RuleTransport},
    ledger::{AttemptKind, Learned, LedgerRecord, learn},
    policy::{
        Attempt, Claim, Datagram, Decision, Policy, Protocol, ReasonCode, RecordedCode, Transport,
        Verdict,
    },
    reach::Reach,
    record::bodies::{PolicyAction, PolicyArea},
};
use hothouse_reconcile::timelines::RunPlace;
use hothouse_store::GrantReach;
use jiff::Timestamp;

use super::{
    Json, blocking,
    decision::{self, Concerned},
    sandbox::reference,
};
use crate::{Daemon, failure::ErrorResponse};

/// How many denials `egress why` shows.
const SHOWN: usize = 20;

/// The maximum time that a request waits for a record, and how often it checks.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);

#[utoipa::path(
    get, path = "/v1/egress", operation_id = "egress_log", params(EgressQuery),
    responses((status = 200, body = EgressPage), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn log(
    State(daemon): State<Daemon>,
    Query(query): Query<EgressQuery>,
) -> Result<axum::Json<EgressPage>, ErrorResponse> {
    let since = query.since.as_deref().map(|text| since(text, HostClock.now())).transpose();
    let since = since.map_err(ErrorResponse)?;
    if let Some(run) = query.run.clone() {
        let page = blocking(move || {
            let run = daemon.engine.run_by_id(&run)?;
            let place = RunPlace { run: run.id, folder: run.artifacts };
            Ok(page(daemon.keepers.timelines.ledger(&place)?, &query, since.as_ref()))
        });
        return page.await.map(axum::Json);
    }
    let sandbox = find(&daemon, query.sandbox.as_deref(), &query.folder).await?;
    let folder = daemon.engine.ledger_of(&sandbox);
    let patience = query.wait_ms.map_or(Duration::ZERO, Duration::from_millis).min(LONGEST_WAIT);
    let begun = tokio::time::Instant::now();
    let mut stop_rx = daemon.stop_tx.subscribe();
    loop {
        let (folder, query) = (folder.clone(), query.clone());
        let page =
            blocking(move || Ok(page(ledger::read(&folder), &query, since.as_ref()))).await?;
        let over = begun.elapsed() >= patience || *stop_rx.borrow_and_update();
        if !page.records.is_empty() || over {
            return Ok(axum::Json(page));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[derive(Clone, Copy)]
enum Since {
    Time(Timestamp),
    Seq(u64),
}

/// Parses a cursor, a duration before now, or a time.
fn since(text: &str, now: Timestamp) -> Result<Since, Failure> {
    if let Ok(seq) = text.parse::<u64>() {
        return Ok(Since::Seq(seq));
    }
    if let Ok(span) = config::parse_duration(text) {
        return Ok(Since::Time(now.checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH)));
    }
    text.parse::<Timestamp>().map(Since::Time).map_err(|_| {
        let message = format!("`{text}` is no cursor, no time and no span such as `5m`");
        Failure::new(FailureKind::Usage, message)
    })
}

fn page(records: Vec<LedgerRecord>, query: &EgressQuery, since: Option<&Since>) -> EgressPage {
    let newest = records.iter().map(|record| record.seq).max().unwrap_or(0);
    let from = match since {
        Some(Since::Seq(seq)) => newest.max(*seq),
        _ => newest,
    };
    let wanted = |record: &LedgerRecord| {
        let late = match since {
            None => true,
            Some(Since::Seq(seq)) => record.seq > *seq,
            Some(Since::Time(time)) => record.time >= *time,
        };
        let host = query.host.as_deref().is_none_or(|host| record.host.as_deref() == Some(host));
        late && host && !(query.denied && record.allowed)
    };
    let mut records: Vec<EgressRecord> =
        records.into_iter().filter(wanted).map(EgressRecord::from).collect();
    if let Some(tail) = query.tail {
        records.drain(..records.len().saturating_sub(tail));
    }
    EgressPage { records, cursor: from.to_string() }
}

#[utoipa::path(
    get, path = "/v1/egress/why", operation_id = "egress_why", params(WhyQuery),
    responses((status = 200, body = WhyView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn why(
    State(daemon): State<Daemon>,
    Query(query): Query<WhyQuery>,
) -> Result<axum::Json<WhyView>, ErrorResponse> {
    let sandbox = find(&daemon, query.sandbox.as_deref(), &query.folder).await?;
    let (policy, terminated) = match daemon.keepers.walls.get() {
        Some(walls) => walls.policy_of(&sandbox).await.map_err(ErrorResponse)?,
        None => {
            return Err(ErrorResponse(Failure::new(
                FailureKind::Internal,
                "there are no walls yet",
            )));
        }
    };
    let folder = daemon.engine.ledger_of(&sandbox);
    let records = blocking(move || Ok(ledger::read(&folder))).await?;
    let now = query.host.as_deref().map(|host| decision(&policy, &terminated, host, &records));
    let mut now = now.transpose().map_err(ErrorResponse)?;
    if let Some(now) = &mut now {
        if let Some(covered) = last_connection(&records, &now.host, now.port).filter(is_covered) {
            now.verdict = Decision::Denied;
            (now.code, now.reason) = (covered.code.clone(), covered.reason.clone());
        }
        now.integration = treated(&daemon, &sandbox, &now.host).await?;
    }
    let count = |allowed: bool| {
        let of = records.iter().filter(|record| record.allowed == allowed).count();
        u64::try_from(of).unwrap_or(u64::MAX)
    };
    let (allowed_count, denied_count) = (count(true), count(false));
    let host = now.as_ref().map(|now| now.host.clone());
    let of_host = |record: &LedgerRecord| {
        let address = record.address.map(|address| address.to_string());
        host.as_ref()
            .is_none_or(|host| record.host.as_ref() == Some(host) || address.as_ref() == Some(host))
    };
    let denied = records.into_iter().rev().filter(|record| !record.allowed && of_host(record));
    Ok(axum::Json(WhyView {
        sandbox: format!("{}/{}", sandbox.project, sandbox.name),
        mode: policy.mode(),
        now,
        denied: denied.take(SHOWN).map(EgressRecord::from).collect(),
        allowed_count,
        denied_count,
    }))
}

/// Returns the last connection to a host or an address.
fn last_connection<'r>(
    records: &'r [LedgerRecord],
    host: &str,
    port: Option<u16>,
) -> Option<&'r LedgerRecord> {
    let is_to = |record: &&LedgerRecord| {
        let address = record.address.map(|address| address.to_string());
        record.kind == AttemptKind::Connection
            && record.port == port
            && (record.host.as_deref() == Some(host) || address.as_deref() == Some(host))
    };
    records.iter().rev().find(is_to)
}

/// Whether it was denied because it leads to a host that is only reached terminated. Which addresses those have is
/// known where they are looked up, not from the rules alone.
fn is_covered(record: &&LedgerRecord) -> bool {
    let code = record.code.as_ref().and_then(RecordedCode::known);
    !record.allowed && code == Some(ReasonCode::Covered)
}

/// Returns the integration that handles a host.
async fn treated(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    host: &str,
) -> Result<Option<TreatedView>, ErrorResponse> {
    let Ok(host) = host.parse::<HostName>() else { return Ok(None) };
    let (engine, sandbox) = (daemon.engine.clone(), sandbox.clone());
    let found = blocking(move || engine.integration_of(&sandbox, &host)).await?;
    Ok(found.map(|(name, class)| TreatedView { name, class }))
}

/// Returns the address of the last connection to a name, if the ledger has one.
fn last_address(records: &[LedgerRecord], name: &HostName, port: Option<u16>) -> Option<IpAddr> {
    last_connection(records, name.as_str(), port)?.address
}

/// Decides as if the room had resolved the host to the address of its last connection, and used the protocol that is
/// usual on its port.
fn decision(
    policy: &Policy,
    terminated: &[HostPattern],
    text: &str,
    records: &[LedgerRecord],
) -> Result<DecisionView, Failure> {
    let (rest, transport) = match text.rsplit_once('/') {
        Some((rest, "tcp")) => (rest, RuleTransport::Tcp),
        Some((rest, "udp")) => (rest, RuleTransport::Udp),
        Some((rest, "icmp")) => (rest, RuleTransport::Icmp),
        _ => (text, RuleTransport::Tcp),
    };
    let (claim, port) = Claim::with_port(rest.as_bytes());
    let port = match (transport, port) {
        (RuleTransport::Tcp, port) => Some(port.unwrap_or(443)),
        (RuleTransport::Udp, Some(port)) => Some(port),
        (RuleTransport::Icmp, None) => None,
        _ => return Err(no_host(text)),
    };
    let (host, address, name) = match &claim {
        Claim::Name(name) => (name.to_string(), last_address(records, name, port), Some(name)),
        Claim::Address(address) => (address.to_string(), Some(*address), None),
        Claim::None | Claim::Bad(_) => return Err(no_host(text)),
    };
    let terminated =
        name.is_some_and(|name| terminated.iter().any(|pattern| pattern.matches(name)));
    let here = |name: &&HostName| transport == RuleTransport::Tcp && policy.answers_for(name);
    let asked = name.filter(|name| !here(name)).map(|name| policy.decide_name(name));
    let looked_up = asked.filter(|verdict| !verdict.allowed);
    let verdict = match (looked_up, transport) {
        (Some(denied), _) => denied,
        (None, RuleTransport::Tcp) => {
            decide_connection(policy, name, address, port.unwrap_or(443), terminated)
        }
        (None, RuleTransport::Udp) => {
            decide_datagram(policy, Transport::Udp, name, address, port, terminated)
        }
        (None, RuleTransport::Icmp) => {
            decide_datagram(policy, Transport::Icmp, name, address, None, false)
        }
    };
    Ok(DecisionView {
        host,
        port,
        transport,
        verdict: Decision::of(verdict.allowed),
        code: verdict.reason.as_ref().map(|reason| reason.code().into()),
        reason: verdict.reason.as_ref().map(ToString::to_string),
        rule: verdict.rule,
        integration: None,
    })
}

fn no_host(text: &str) -> Failure {
    let message = format!("`{text}` is not a valid host");
    Failure::new(FailureKind::Usage, message).hint(
        "write it as `api.example.com`, `api.example.com:8443`, `time.example.com:123/udp` or \
         `example.com/icmp`",
    )
}

fn decide_connection(
    policy: &Policy,
    name: Option<&HostName>,
    address: Option<IpAddr>,
    port: u16,
    terminated: bool,
) -> Verdict {
    policy.decide(&Attempt {
        claim: &name.map_or(Claim::None, |name| Claim::Name(name.clone())),
        address,
        answered: name.map_or(&[], std::slice::from_ref),
        port,
        protocol: Protocol::expected_on(port).unwrap_or(Protocol::Tls),
        hidden: false,
        terminated,
        covered: None,
    })
}

fn decide_datagram(
    policy: &Policy,
    transport: Transport,
    name: Option<&HostName>,
    address: Option<IpAddr>,
    port: Option<u16>,
    terminated: bool,
) -> Verdict {
    let answered = name.map_or(&[][..], std::slice::from_ref);
    policy.decide_datagram(&Datagram { transport, address, answered, port, terminated })
}

#[utoipa::path(
    get, path = "/v1/egress/learn", operation_id = "egress_learn", params(LearnQuery),
    responses((status = 200, body = [LearnedView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn learned(
    State(daemon): State<Daemon>,
    Query(query): Query<LearnQuery>,
) -> Result<axum::Json<Vec<LearnedView>>, ErrorResponse> {
    if let Some(run) = query.run {
        let learned = blocking(move || {
            let run = daemon.engine.run_by_id(&run)?;
            let place = RunPlace { run: run.id, folder: run.artifacts };
            let learned = learn(&daemon.keepers.timelines.ledger(&place)?);
            // The sandbox of an old run may be gone: another of its project has the same integrations.
            let all = daemon.engine.sandboxes()?;
            let of_run = all.iter().find(|one| run.sandbox_id.as_deref() == Some(one.id.as_str()));
            let project = run.project.as_deref();
            let of_project = || all.iter().find(|one| project == Some(one.project.as_str()));
            match of_run.or_else(of_project) {
                Some(sandbox) => without_integrations(&daemon.engine, sandbox, learned),
                None => Ok(learned),
            }
        });
        let learned = learned.await?.into_iter();
        return Ok(axum::Json(learned.map(LearnedView::from).collect()));
    }
    let sandbox = find(&daemon, query.sandbox.as_deref(), &query.folder).await?;
    let folder = daemon.engine.ledger_of(&sandbox);
    let (records, learned) = blocking(move || {
        let records = ledger::read(&folder);
        let learned = learn(&records);
        Ok((records, learned))
    })
    .await?;
    let (engine, record) = (daemon.engine.clone(), sandbox.clone());
    let mut learned = blocking(move || without_integrations(&engine, &record, learned)).await?;
    // Leaves out what has been allowed since.
    if let Some(walls) = daemon.keepers.walls.get() {
        let (policy, terminated) = walls.policy_of(&sandbox).await.map_err(ErrorResponse)?;
        learned.retain(|rule| {
            decision(&policy, &terminated, &rule.rule, &records)
                .is_ok_and(|decision| decision.verdict == Decision::Denied)
        });
    }
    Ok(axum::Json(learned.into_iter().map(LearnedView::from).collect()))
}

/// Leaves out rules for hosts of integrations: rules do not change how those are handled.
fn without_integrations(
    engine: &Engine,
    sandbox: &SandboxRecord,
    learned: Vec<Learned>,
) -> Result<Vec<Learned>, Failure> {
    let covered = |host: &str| match host.parse() {
        Ok(host) => engine.integration_of(sandbox, &host).map(|found| found.is_some()),
        Err(_) => Ok(false),
    };
    let mut kept = Vec::new();
    for rule in learned {
        if !covered(rule_host(&rule.rule))? {
            kept.push(rule);
        }
    }
    Ok(kept)
}

/// Returns the host of a rule, without port and transport.
fn rule_host(rule: &str) -> &str {
    let host = rule.split_once('/').map_or(rule, |(host, _)| host);
    host.rsplit_once(':').map_or(host, |(host, _)| host)
}

#[utoipa::path(
    post, path = "/v1/egress/allow", operation_id = "egress_allow", request_body = AllowBody,
    description = "Allows hosts for a sandbox or its project, or takes that back; effective immediately.",
    responses((status = 200, body = [GrantView]), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn allow(
    State(daemon): State<Daemon>,
    Json(body): Json<AllowBody>,
) -> Result<axum::Json<Vec<GrantView>>, ErrorResponse> {
    let sandbox = find(&daemon, body.sandbox.as_deref(), &body.folder).await?;
    let (engine, timelines) = (daemon.engine.clone(), daemon.keepers.timelines.clone());
    let granted = blocking(move || {
        let reach = if body.project { GrantReach::Project } else { GrantReach::Sandbox };
        match body.remove {
            true => engine.revoke_egress(&sandbox, reach, &body.rules)?,
            false => engine.allow_egress(&sandbox, reach, &body.rules)?,
        }
        let action = if body.remove { PolicyAction::Removed } else { PolicyAction::Allowed };
        let concerned = match reach {
            GrantReach::Sandbox => Concerned::One(sandbox.key),
            GrantReach::Project => Concerned::Project(sandbox.repository.common_dir.clone()),
        };
        for rule in &body.rules {
            decision::note(&engine, &timelines, &concerned, (PolicyArea::Egress, rule, action));
        }
        engine.egress_grants(&sandbox)
    })
    .await?;
    daemon.keepers.renew_walls().await;
    let view = |grant: hothouse_store::EgressGrant| GrantView {
        rule: grant.rule,
        reach: if grant.whole_project { Reach::Project } else { Reach::Sandbox },
        granted: grant.granted,
    };
    Ok(axum::Json(granted.into_iter().map(view).collect()))
}

#[utoipa::path(
    get, path = "/v1/config/pending", operation_id = "config_pending", params(FindQuery),
    responses((status = 200, body = PendingView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn pending(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<PendingView>, ErrorResponse> {
    let sandbox = find(&daemon, query.sandbox.as_deref(), &query.folder).await?;
    pending_view(daemon.engine, sandbox).await
}

#[utoipa::path(
    post, path = "/v1/config/approve", operation_id = "config_approve", request_body = ApproveBody,
    description = "Pins the worktree's config if it still is the text that was shown.",
    responses((status = 200, body = PendingView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn approve(
    State(daemon): State<Daemon>,
    Json(body): Json<ApproveBody>,
) -> Result<axum::Json<PendingView>, ErrorResponse> {
    let sandbox = find(&daemon, body.sandbox.as_deref(), &body.folder).await?;
    let (engine, record) = (daemon.engine.clone(), sandbox.clone());
    blocking(move || engine.approve_config(&record, &body.text)).await?;
    let decided = (PolicyArea::Config, "hothouse.toml", PolicyAction::Approved);
    decision::append(&daemon.keepers.timelines, &sandbox, decided);
    daemon.keepers.renew_walls().await;
    let engine = daemon.engine.clone();
    let now =
        blocking(move || engine.sandbox(sandbox.key).map(|now| now.unwrap_or(sandbox))).await?;
    pending_view(daemon.engine, now).await
}

async fn pending_view(
    engine: std::sync::Arc<Engine>,
    sandbox: SandboxRecord,
) -> Result<axum::Json<PendingView>, ErrorResponse> {
    let name = format!("{}/{}", sandbox.project, sandbox.name);
    let pending = blocking(move || engine.pending_config(&sandbox)).await?;
    let changes = pending.changes.into_iter().map(|change| ChangeView {
        key: change.key,
        base: change.base,
        worktree: change.worktree,
    });
    Ok(axum::Json(PendingView { sandbox: name, changes: changes.collect(), text: pending.text }))
}

async fn find(
    daemon: &Daemon,
    sandbox: Option<&str>,
    folder: &str,
) -> Result<SandboxRecord, ErrorResponse> {
    let wanted = sandbox.map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(folder));
    blocking(move || engine.find(wanted.as_ref(), &folder)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_cursor_a_span_or_a_moment() {
        let now = Timestamp::from_second(1_000).unwrap();
        assert!(matches!(since("12", now), Ok(Since::Seq(12))));
        let moment = |text| match since(text, now) {
            Ok(Since::Time(time)) => time.as_second(),
            _ => panic!("{text}"),
        };
        assert_eq!(moment("5m"), 700);
        assert_eq!(moment("1970-01-01T00:00:01Z"), 1);
        assert!(since("yesterday", now).is_err());
    }
}
