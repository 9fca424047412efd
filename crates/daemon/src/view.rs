//! Converts the engine's types to the API's.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use hothouse_api::{
    OperationView, SandboxView,
    operation::OperationState,
    sandbox::{AgentBrief, AppView, CaveatView, ExposedView, IntegrationBrief, RunView},
    seed::RunSeedView,
    service::ServiceView,
};
use hothouse_config::in_words;
use hothouse_edge::Limit;
use hothouse_engine::{Engine, IntegrationReport, UncoveredVendor, urls_of};
use hothouse_model::{
    Failure, SandboxRecord, SandboxState, Word,
    ask::AskState,
    caveat::{Caveat, Several, ShimmedScript},
    config::{DEFAULT_PROFILE, EgressMode, Shim},
    fence::{Fence, FenceState},
    query::Query,
    record::Kind,
    room::{Capabilities, RoomReport},
    seed::SeedSummary,
    stack::{ServiceReport, StackOrder, StackReport},
    tree::{DriverName, TreeMaker},
};
use hothouse_reconcile::timelines::RunPlace;
use hothouse_store::{Outcome, PlanRecord};
use hothouse_timeline::{Direction, Selection};

use crate::Daemon;

/// How many fixture problems are reported.
const FIXTURES_MOST: usize = 5;

/// How many records of a kind are searched for hosts.
const ASKED_MOST: usize = 500;

/// Converts a sandbox.
pub(crate) fn sandbox(daemon: &Daemon, record: SandboxRecord) -> SandboxView {
    let engine = &daemon.engine;
    let found = engine.room_of(&record);
    let stack = engine.stack_of(&record);
    let report = stack.as_ref().and_then(|_| engine.services(&record));
    let state = engine.state_with_services(record.state(found.as_ref()), report.as_ref());
    let services = services(stack.as_ref(), report, &engine.logs_of(&record));
    let mut caveats = caveats(state, found.as_ref());
    caveats.extend(wall_caveats(daemon, &record, found.is_some()));
    caveats.extend(tree_caveats(&record, daemon.engine.is_hidden(&record)));
    if found.is_some() {
        caveats.extend(secret_caveats(daemon, &record));
    }
    let apps = apps(daemon, &record, &mut caveats);
    caveats.extend(sleep_caveat(&record));
    caveats.extend(closely_caveat(daemon, &record));
    let left_out = engine.left_out(&record).into_iter();
    caveats.extend(left_out.map(|problem| Caveat::LeftOut { problem }));
    let exposed = engine.exposed(&record).unwrap_or_default().into_iter();
    let exposed = exposed.map(|e| ExposedView { port: e.port, host_port: e.host_port }).collect();
    let refused = engine.refused_import(&record);
    caveats.extend(refused.map(|reason| Caveat::NotImported { reason }));
    let egress = egress_mode(daemon, &record);
    let lives = found.is_some();
    let flags = crate::routes::flag::views(&daemon.keepers.flags.of(&record));
    let flags = flags.into_iter().filter(|flag| flag.value != flag.default).collect();
    let mut fences = found.map(|room| room.fences).unwrap_or_default();
    if let (Some(FenceState::Watched(watch)), Ok(Some(_))) =
        (fences.get_mut(&Fence::Disk), engine.pool_around(&record))
    {
        watch.pool = true;
    }
    let installed = engine.is_installed(&record);
    let room_stack = engine.stack_name(&record);
    let agent = agent(daemon, &record);
    let asks = open_asks(daemon, &record);
    let (integrations, of_integrations) = integrations(daemon, &record, lives);
    let seed = daemon.keepers.seeds.summary(&record).map(run_seed);
    let Capabilities { backend, offered } = engine.capabilities();
    SandboxView {
        name: record.name.to_string(),
        id: record.id.to_string(),
        project: record.project.to_string(),
        branch: record.branch,
        base: record.base,
        worktree: record.worktree.to_string_lossy().into_owned(),
        created: record.created,
        task: record.task,
        stack: room_stack,
        egress,
        ttl: record.room.as_ref().and_then(|room| room.ends).map(|ends| ends.to_string()),
        state,
        asleep: record.room.as_ref().is_some_and(|room| room.slept.is_some()),
        backend: backend.to_string(),
        capabilities: offered.into_iter().collect(),
        tree_driver: record.tree_driver,
        profile: stack.map_or_else(|| DEFAULT_PROFILE.into(), |stack| stack.profile),
        run: record.room.map(|room| RunView {
            id: room.run.id,
            artifacts: room.run.artifacts.to_string_lossy().into_owned(),
            started: room.run.started,
            seed,
        }),
        services,
        asks,
        agent,
        exposed,
        apps,
        fences,
        caveats: caveats.into_iter().chain(of_integrations).map(CaveatView::from).collect(),
        integrations,
        installed,
        flags,
    }
}

/// Returns what is known of a sandbox's agent.
fn agent(daemon: &Daemon, record: &SandboxRecord) -> Option<AgentBrief> {
    let agent = daemon.keepers.agents.brief(record)?;
    Some(AgentBrief {
        tool: agent.tool,
        mode: agent.mode,
        state: agent.state,
        round: agent.round,
        reason: agent.reason,
        login: agent.login,
    })
}

/// Returns how many requests of its agents wait for the user.
fn open_asks(daemon: &Daemon, record: &SandboxRecord) -> usize {
    let asks = daemon.engine.asks(Some(record.key)).unwrap_or_default();
    asks.iter().filter(|ask| ask.state == AskState::Open).count()
}

/// Converts a sandbox for a list: its state, services, apps and agent. Fields that would have to be read or computed are left
/// out.
pub(crate) fn row(daemon: &Daemon, record: SandboxRecord) -> SandboxView {
    let engine = &daemon.engine;
    let found = engine.room_of(&record);
    let stack = engine.stack_of(&record);
    let report = stack.as_ref().and_then(|_| engine.services(&record));
    let state = engine.state_with_services(record.state(found.as_ref()), report.as_ref());
    let services = services(stack.as_ref(), report, &engine.logs_of(&record));
    let apps = apps(daemon, &record, &mut Vec::new());
    let agent = agent(daemon, &record);
    let asks = open_asks(daemon, &record);
    SandboxView {
        name: record.name.to_string(),
        id: record.id.to_string(),
        project: record.project.to_string(),
        branch: record.branch,
        base: record.base,
        worktree: record.worktree.to_string_lossy().into_owned(),
        created: record.created,
        task: record.task,
        stack: String::new(),
        egress: Word::default(),
        ttl: None,
        state,
        asleep: record.room.as_ref().is_some_and(|room| room.slept.is_some()),
        backend: String::new(),
        capabilities: Vec::new(),
        tree_driver: record.tree_driver,
        profile: String::new(),
        run: None,
        services,
        asks,
        agent,
        exposed: Vec::new(),
        apps,
        fences: BTreeMap::new(),
        caveats: Vec::new(),
        integrations: Vec::new(),
        installed: false,
        flags: Vec::new(),
    }
}

/// Converts the seed of a run.
fn run_seed(summary: SeedSummary) -> RunSeedView {
    RunSeedView {
        radius: summary.radius.map(|radius| radius.to_string()),
        bundles: summary.seeded(),
        summary: summary.files.get("json").cloned().unwrap_or_default(),
        ids: summary.ids,
        ok: summary.ok,
        caveats: summary.caveats,
    }
}

/// Reports how outside services are handled, and what that does not cover. Hosts requested without an integration are
/// reported for a running room.
fn integrations(
    daemon: &Daemon,
    record: &SandboxRecord,
    lives: bool,
) -> (Vec<IntegrationBrief>, Vec<Caveat>) {
    let reports = daemon.engine.integration_reports(record).unwrap_or_default();
    let caveat = |report: &IntegrationReport| Caveat::Integration {
        name: report.name.clone(),
        class: report.class,
        limits: report.caveat.clone(),
    };
    let mut caveats: Vec<Caveat> = reports.iter().map(caveat).collect();
    let questions = daemon.engine.open_questions(record).into_iter();
    caveats.extend(questions.map(|(id, text)| Caveat::Question { id, text }));
    let shims = daemon.engine.shims(record).unwrap_or_default();
    caveats.extend(shims.iter().map(|(name, shim)| shimmed(name.as_str(), shim)));
    let walls = daemon.keepers.walls.get().filter(|_| lives);
    let problems = walls.map(|walls| walls.fixture_problems(record)).unwrap_or_default();
    caveats.extend(problems.iter().take(FIXTURES_MOST).map(|problem| Caveat::NotLoaded {
        problem: problem.render().lines().collect::<Vec<_>>().join("; "),
    }));
    if lives {
        let hosts = asked_hosts(daemon, record);
        let found = daemon.engine.uncovered_vendors(record, hosts.iter().map(String::as_str));
        caveats.extend(found.unwrap_or_default().into_iter().map(uncovered));
    }
    let treated = reports.into_iter().map(|report| IntegrationBrief {
        name: report.name,
        class: report.class,
        vendor: report.vendor,
    });
    (treated.collect(), caveats)
}

fn shimmed(name: &str, shim: &Shim) -> Caveat {
    let script = match (&shim.url, shim.r#use) {
        (Some(url), _) => ShimmedScript::Url(url.to_string()),
        (None, Some(vendor)) => ShimmedScript::Vendor(vendor.to_string()),
        (None, None) => ShimmedScript::None,
    };
    Caveat::Shimmed { name: name.to_owned(), script }
}

fn uncovered(found: UncoveredVendor) -> Caveat {
    let UncoveredVendor { vendor, title, host, sdks, class } = found;
    Caveat::Uncovered { vendor, title, host, sdks, class }
}

/// Returns the hosts that a run has requested recently.
fn asked_hosts(daemon: &Daemon, record: &SandboxRecord) -> BTreeSet<String> {
    let Some(room) = &record.room else { return BTreeSet::new() };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    let Ok(reader) = daemon.keepers.timelines.reader(&place) else { return BTreeSet::new() };
    let newest = |kind: Kind| {
        let query = Query::parse("", Some(kind)).ok()?;
        let (now, direction) = (daemon.engine.now(), Direction::NewestFirst);
        reader.records(&Selection { query, since: None, now, limit: ASKED_MOST, direction }).ok()
    };
    let records = [Kind::Connection, Kind::Request].into_iter().filter_map(newest).flatten();
    records.filter_map(|record| record.body["host"].as_str().map(str::to_owned)).collect()
}

/// Returns the addresses of apps, and adds caveats about what prevents access.
fn apps(
    daemon: &Daemon,
    record: &SandboxRecord,
    caveats: &mut Vec<Caveat>,
) -> BTreeMap<String, AppView> {
    let apps = match labels(&daemon.engine, record) {
        Ok(apps) => apps,
        Err(failure) => {
            caveats.push(Caveat::NoApps { problem: failure.message });
            return BTreeMap::new();
        }
    };
    if let (false, Some(ingress)) = (apps.is_empty(), daemon.keepers.urls.get()) {
        let problem = ingress.problem().map(str::to_owned);
        caveats.extend(problem.map(|problem| Caveat::NoUrls { problem }));
        caveats.extend(ingress.conflicts(record.key));
        if ingress.port().is_some() && !ingress.resolves() {
            caveats.push(Caveat::NoResolver);
        }
    }
    let views = apps.iter().map(|(app, direct)| {
        let urls = urls_of(record, app, *direct, daemon.keepers.url_port());
        let view = AppView {
            url: urls.url.unwrap_or_else(|| urls.direct.clone()),
            shared: urls.shared.unwrap_or_else(|| urls.direct.clone()),
            direct: urls.direct,
        };
        (urls.app, view)
    });
    views.collect()
}

/// Returns the labels and direct ports of apps, including sleeping ones.
fn labels(engine: &Engine, record: &SandboxRecord) -> Result<Vec<(String, u16)>, Failure> {
    let awake = engine.apps(record)?.into_iter().map(|app| (app.app, app.direct));
    Ok(awake.chain(engine.sleeping_apps(record)?).collect())
}

/// Reports unusual files in its commits. If they cannot be examined, other caveats say so.
fn closely_caveat(daemon: &Daemon, record: &SandboxRecord) -> Option<Caveat> {
    let found = daemon.engine.look_closely(record).unwrap_or_default();
    let found = Several::of(found.iter().map(ToString::to_string))?;
    Some(Caveat::LookClosely { found })
}

fn sleep_caveat(record: &SandboxRecord) -> Option<Caveat> {
    let since = record.room.as_ref()?.slept?;
    Some(Caveat::Asleep { since })
}

/// Converts services, ordered by name.
fn services(
    stack: Option<&StackOrder>,
    report: Option<StackReport>,
    logs: &Path,
) -> Vec<ServiceView> {
    let view = |ServiceReport { status: service, host_pid }: ServiceReport| {
        let order =
            stack.and_then(|stack| stack.services.iter().find(|o| o.name() == service.name));
        ServiceView {
            port: order.and_then(|order| order.port),
            url: order.and_then(|order| order.url.clone()),
            health: service.answers.last().map(|answer| answer.found.clone()),
            log: logs.join(&service.name).to_string_lossy().into_owned(),
            state: service.state,
            pid: host_pid,
            room_pid: service.pid.and_then(|pid| u32::try_from(pid).ok()),
            restarts: service.restarts,
            task: service.task,
            needs: service.needs,
            exit: service.exit,
            probes: service.answers,
            started_ms: service.started_ms,
            ready_ms: service.ready_ms,
            name: service.name,
        }
    };
    report.map(|report| report.services).unwrap_or_default().into_iter().map(view).collect()
}

fn caveats(state: SandboxState, found: Option<&RoomReport>) -> Vec<Caveat> {
    match found {
        Some(found) => found.caveats.clone(),
        None => (state == SandboxState::Failed).then_some(Caveat::Died).into_iter().collect(),
    }
}

/// Returns the egress mode of a sandbox; `none` if its config cannot be read, because its wall is then closed.
fn egress_mode(daemon: &Daemon, record: &SandboxRecord) -> Word<EgressMode> {
    let found = daemon.engine.room_egress(record, None);
    found.map_or(Word::Other("none".into()), |found| found.egress.mode.into())
}

/// Returns caveats about a sandbox's wall: that it is closed, or that the config requests more.
fn wall_caveats(daemon: &Daemon, record: &SandboxRecord, lives: bool) -> Vec<Caveat> {
    let mut all = Vec::new();
    let problem = daemon.keepers.walls.get().and_then(|walls| walls.problem(record.key));
    if let (true, Some(problem)) = (lives, problem) {
        all.push(Caveat::Closed { problem });
    }
    let limits =
        daemon.keepers.walls.get().map(|walls| walls.limits(record.key)).unwrap_or_default();
    all.extend(limits.iter().filter(|_| lives).map(|limit| match limit {
        Limit::Datagrams => Caveat::NoDatagrams,
        Limit::Echo => Caveat::NoEcho,
    }));
    let refused = daemon.keepers.shares.refused(record.id.as_str());
    all.extend((refused > 0).then_some(Caveat::OverBudget { refused }));
    // An unreadable config requests nothing; `up` reports what is wrong with it.
    let pending = daemon.engine.pending_config(record).map(|pending| in_words(&pending.changes));
    let sandbox = record.name.clone();
    let changes = Several::of(pending.unwrap_or_default());
    all.extend(changes.map(|changes| Caveat::Pending { changes, sandbox }));
    all
}

/// Returns caveats about secrets, variables and live keys.
fn secret_caveats(daemon: &Daemon, record: &SandboxRecord) -> Vec<Caveat> {
    let wall = daemon.engine.wall_of(&daemon.engine.places(record).runtime);
    wall.caveats.into_iter().chain(daemon.engine.uncovered_secrets(record)).collect()
}

/// Returns caveats about the sandbox's files and branch.
fn tree_caveats(record: &SandboxRecord, is_hidden: bool) -> Vec<Caveat> {
    let mut all = Vec::new();
    if is_hidden {
        all.push(Caveat::Hidden);
    }
    if record.tree_driver == TreeMaker::Driver(DriverName::Copy) {
        all.push(Caveat::FullCopies);
    }
    if let Some(agent_branch) = record.agent_branch.clone() {
        all.push(Caveat::Diverged { branch: record.branch.clone(), agent_branch });
    }
    all
}

/// Converts an operation.
pub(crate) fn operation(plan: PlanRecord) -> OperationView {
    let (state, failure) = match plan.outcome {
        Outcome::Open => (OperationState::Open, None),
        Outcome::Done => (OperationState::Done, None),
        Outcome::Undone(failure) => (OperationState::Undone, Some(failure)),
        Outcome::Failed(failure) => (OperationState::Stuck, Some(failure)),
    };
    OperationView {
        id: plan.operation.to_string(),
        kind: plan.kind,
        subject: plan.subject,
        state,
        failure,
    }
}
