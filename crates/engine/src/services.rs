//! Services of a sandbox: declared, reported and controlled.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use hothouse_backend::{RoomError, connection::RoomUser};
use hothouse_config::{File, Layers, MAX_BYTES};
use hothouse_host::{FileError, files, logs};
use hothouse_model::{
    Event, Explain, Failure, FailureKind, Happening, OperationId, SandboxRecord, SandboxState,
    config::{self, Config, UnapprovedService, UnknownProfile, Work},
    event::ServiceProgress,
    room::{RoomWall, RoomWish},
    stack::{
        ServiceAction, ServiceOrder, StackOrder, StackReport, Verdict,
        service::{Exit, Found, ServiceState, ServiceStatus},
    },
};

use crate::{
    Engine, environment,
    images::ServiceImageError,
    project::{CONFIG_FILE, ProjectError},
    recipe::{self, RecipeError},
    room, setup,
    stack::{self, Facts, Stack, StackError},
    trees,
    wall::WallError,
};

/// How many lines of a service's log a failed start shows.
const LAST_LINES: usize = 20;

/// How often a wait checks whether the room is still running.
const LOOK_UP: Duration = Duration::from_secs(1);

/// For how long a service must fail its probe to be given up: some answer with 404 while they load.
const STEADY: Duration = Duration::from_secs(10);

/// The default time limit of tasks.
const TASKS: Duration = Duration::from_secs(30 * 60);

/// Why a wait for services ended without them.
#[derive(Clone, Copy, Debug)]
enum NotUp {
    Ended,
    After(Duration),
    /// Their probes return a client error, which waiting does not fix.
    Refusing,
}

/// Services whose probes return the same client error, and since when.
#[derive(Debug, Default)]
struct SteadyAnswers(HashMap<String, (u16, Instant)>);

impl SteadyAnswers {
    /// Adds a report, and returns the services that have failed for long enough.
    fn refusing(&mut self, report: &StackReport, now: Instant) -> Vec<String> {
        let mut refusing = Vec::new();
        for service in report.statuses() {
            let answer = service.answers.last().filter(|_| service.state == ServiceState::Starting);
            let Some(Found::Http { status: status @ 400..=499, .. }) =
                answer.map(|answer| &answer.found)
            else {
                self.0.remove(&service.name);
                continue;
            };
            let begun = (*status, now);
            let known = self.0.entry(service.name.clone()).or_insert(begun);
            if known.0 != begun.0 {
                *known = begun;
            }
            if now.saturating_duration_since(known.1) >= STEADY {
                refusing.push(service.name.clone());
            }
        }
        refusing
    }
}

/// Services that cannot be run as configured.
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    #[error(transparent)]
    Unapproved(#[from] UnapprovedService),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error(transparent)]
    Wall(#[from] WallError),
    #[error(transparent)]
    Image(#[from] ServiceImageError),
}

hothouse_model::explain! {
    ServicesError passes on Project, File, Recipe, Stack, Wall, Image;
    kind {
        Self::Profile(_) => FailureKind::NotFound,
        Self::Unapproved(_) => FailureKind::Config,
    }
    hints {
        Self::Profile(error) => vec![format!("available: {}", error.known.join(", "))],
        Self::Unapproved(_) => {
            vec!["a service on the host must be in the config of the base commit".into()]
        }
    }
}

impl Engine {
    /// Fails if the worktree's config has no such profile.
    pub(crate) fn check_profile(
        &self,
        sandbox: &SandboxRecord,
        profile: &str,
    ) -> Result<(), ServicesError> {
        self.worktree_config(sandbox)?.for_profile(Some(profile))?;
        Ok(())
    }

    /// Computes the stack of a sandbox from its worktree's config, within what is pinned.
    pub(crate) fn stack_for(
        &self,
        sandbox: &SandboxRecord,
        profile: Option<&str>,
        tools: &[PathBuf],
        wall: &RoomWall,
    ) -> Result<Stack, ServicesError> {
        let profile = profile.unwrap_or(config::DEFAULT_PROFILE);
        let config = self.worktree_config(sandbox)?.for_profile(Some(profile))?;
        let mut programs = std::collections::BTreeMap::new();
        for (name, service) in &config.services {
            if let Work::Database(recipe) = service.work() {
                let version = service.version.as_ref();
                let found = recipe::find(recipe, name.as_str(), version, &wall.stack)?;
                programs.insert(name.clone(), found);
            }
        }
        let places = trees::places(sandbox);
        let worktree = room::shared_path(sandbox);
        let facts = Facts {
            profile,
            worktree: &worktree,
            environment: environment::pairs(sandbox, RoomUser::Agent, None, tools, wall),
            host: &self.with.wall.environment,
            logs: self.logs_of(sandbox),
            data: places.data(),
            golden: places.golden_data(),
            programs,
            images: self.images_of(sandbox, &config)?,
            names: self.names(sandbox),
            sandbox: sandbox.id.as_str(),
        };
        let mut stack = stack::resolve(&config, &facts)?;
        // Their initial data is created by the same programs.
        let made = stack.data.iter_mut().filter(|data| data.archive.is_none());
        made.for_each(|data| data.stack.clone_from(&wall.stack));
        stack.caveats.extend(self.refuse_live_keys(sandbox, &config, &stack)?);
        Ok(stack)
    }

    /// Reads the config of the worktree, which the agent may have written, within the pinned half.
    pub(crate) fn worktree_config(&self, sandbox: &SandboxRecord) -> Result<Config, ServicesError> {
        let folder = trees::open_judging(sandbox)?;
        let own = match folder.read_capped(Path::new(CONFIG_FILE), MAX_BYTES as u64 + 1) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let config = match own.as_deref().map(std::str::from_utf8) {
            None => self.config_of("")?,
            Some(Ok(text)) => self.config_of(text)?,
            // Parsed again for an error with its position.
            Some(Err(_)) => Arc::new(self.read_bytes(own.as_deref())?),
        };
        let pinned = self.pinned_config(sandbox)?.pinned_half();
        Ok(Config::clone(&config).with_pinned(&pinned)?)
    }

    fn read_bytes(&self, own: Option<&[u8]>) -> Result<Config, ProjectError> {
        let project = own.map(|bytes| File { name: CONFIG_FILE, bytes });
        let layers = Layers { user: None, project, environment: &[] };
        let resolved = hothouse_config::resolve(&layers);
        Ok(resolved.map_err(|problems| ProjectError::Config { problems })?.config)
    }

    /// Returns where the logs of a sandbox's services are.
    pub fn logs_of(&self, sandbox: &SandboxRecord) -> PathBuf {
        self.with.logs.join(sandbox.id.as_str())
    }

    /// Returns the services declared in a sandbox's room, if it is running.
    pub fn stack_of(&self, sandbox: &SandboxRecord) -> Option<StackOrder> {
        self.room_of(sandbox)?;
        self.with.rooms.stack(&self.places(sandbox).runtime)
    }

    /// Returns the state of a sandbox's services; `None` for a room without any.
    pub fn services(&self, sandbox: &SandboxRecord) -> Option<StackReport> {
        self.stack_of(sandbox)?;
        let report = self.with.rooms.services(&self.places(sandbox).runtime, None, LOOK_UP);
        report.inspect_err(|error| tracing::warn!(%error, "the services could not be updated")).ok()
    }

    /// Waits until the services of a sandbox are up, or have failed.
    pub fn await_services(
        &self,
        sandbox: &SandboxRecord,
        timeout: Duration,
        operation: &OperationId,
    ) -> Result<(), Failure> {
        self.await_start(sandbox, timeout, Duration::ZERO, operation)
    }

    /// Like [`await_services`](Self::await_services), but the time limit of services is suspended
    /// while a task that they wait for is running: a first installation may take many minutes.
    pub fn await_tasks_and_services(
        &self,
        sandbox: &SandboxRecord,
        timeout: Duration,
        operation: &OperationId,
    ) -> Result<(), Failure> {
        self.await_start(sandbox, timeout, TASKS, operation)
    }

    fn await_start(
        &self,
        sandbox: &SandboxRecord,
        timeout: Duration,
        tasks: Duration,
        operation: &OperationId,
    ) -> Result<(), Failure> {
        let runtime = self.running(sandbox)?;
        let Some(stack) = self.with.rooms.stack(&runtime) else { return Ok(()) };
        let is_task =
            |name: &str| stack.services.iter().any(|one| one.name() == name && one.spec.task);
        let begun = Instant::now();
        let mut deadline = begun + timeout;
        let (mut after, mut told) = (None, Vec::new());
        let (mut crashed, mut steady) = (HashSet::new(), SteadyAnswers::default());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let report = self.with.rooms.services(&runtime, after, left.min(LOOK_UP));
            let report = match report {
                Ok(report) => report,
                Err(error) => {
                    self.check_replaced(sandbox, &error, left)?;
                    after = None;
                    continue;
                }
            };
            self.say_waiting(&report, &mut told, operation);
            self.say_crashes(sandbox, &report, &mut crashed, operation);
            let mut statuses = report.statuses();
            if statuses.any(|one| one.state == ServiceState::Starting && is_task(&one.name)) {
                deadline = put_off(deadline, Instant::now() + timeout, begun + tasks);
            }
            let refusing = steady.refusing(&report, Instant::now());
            match report.verdict() {
                Verdict::Ready => return Ok(()),
                Verdict::Failed(names) => {
                    return Err(self.not_up(sandbox, &report, &names, NotUp::Ended));
                }
                Verdict::Pending if !refusing.is_empty() => {
                    return Err(self.not_up(sandbox, &report, &refusing, NotUp::Refusing));
                }
                Verdict::Pending if left.is_zero() => {
                    let open = report.statuses().filter(|service| !service.state.is_settled());
                    let names: Vec<_> = open.map(|service| service.name.clone()).collect();
                    return Err(self.not_up(sandbox, &report, &names, NotUp::After(timeout)));
                }
                Verdict::Pending => after = Some(report.version),
            }
        }
    }

    /// Explains a room that no longer answers. If another command has replaced it, the new one is
    /// waited for instead.
    fn check_replaced(
        &self,
        sandbox: &SandboxRecord,
        error: &RoomError,
        left: Duration,
    ) -> Result<(), Failure> {
        let is_settled = self.settled(sandbox.key, left);
        let now = self.sandbox(sandbox.key)?.filter(|now| !now.deleting);
        let wish = now.as_ref().and_then(|now| now.room.as_ref()).map(|room| room.wish);
        match (wish, now) {
            (Some(RoomWish::Up | RoomWish::Starting), Some(now))
                if is_settled && self.room_of(&now).is_some() =>
            {
                Ok(())
            }
            (Some(RoomWish::Up | RoomWish::Starting), _) => Err(error.failure()),
            _ => {
                let message = format!("`{}` was stopped by another command", sandbox.name);
                Err(Failure::new(FailureKind::Conflict, message))
            }
        }
    }

    /// Reports which services an operation is waiting for, if that has changed.
    fn say_waiting(&self, report: &StackReport, told: &mut Vec<String>, operation: &OperationId) {
        let open = report.statuses().filter(|service| !service.state.is_settled());
        let open: Vec<String> = open.map(|s| format!("{} ({})", s.name, s.state)).collect();
        if open != *told {
            let services = report.statuses().map(|service| ServiceProgress {
                name: service.name.clone(),
                state: service.state,
                settled: service.state.is_settled(),
            });
            let what = Happening::Services { services: services.collect() };
            (self.with.events)(Event { operation: operation.clone(), what });
        }
        if !open.is_empty() && open != *told {
            self.note_waiting(operation, &format!("wait for {}", open.join(", ")));
            *told = open;
        }
    }

    /// Reports what an operation waits for.
    pub(crate) fn note_waiting(&self, operation: &OperationId, title: &str) {
        let what = Happening::Waiting { title: title.to_owned() };
        (self.with.events)(Event { operation: operation.clone(), what });
    }

    /// Reports the first crash of a service immediately: its restarts take a while.
    fn say_crashes(
        &self,
        sandbox: &SandboxRecord,
        report: &StackReport,
        told: &mut HashSet<String>,
        operation: &OperationId,
    ) {
        for service in report.statuses().filter(|service| service.restarts > 0) {
            let Some(exit) = &service.exit else { continue };
            if service.state == ServiceState::Failed || !told.insert(service.name.clone()) {
                continue;
            }
            let lines = self.lines_of_this_start(sandbox, service);
            let colon = if lines.is_empty() { "" } else { ":\n" };
            let text = format!(
                "`{}` exited ({exit}) and is being restarted{colon}{}",
                service.name,
                lines.join("\n")
            );
            self.note(Some(operation), text);
        }
    }

    /// Performs an action on a service and, if it starts, waits for it.
    pub fn act_on_service(
        &self,
        sandbox: &SandboxRecord,
        service: &str,
        action: ServiceAction,
        timeout: Duration,
    ) -> Result<(), Failure> {
        self.act_on_service_telling(sandbox, service, action, timeout, &|| {})
    }

    /// Like [`act_on_service`](Self::act_on_service), calling `starts` as soon as the service is
    /// starting: its port may lead to a sink.
    pub fn act_on_service_telling(
        &self,
        sandbox: &SandboxRecord,
        service: &str,
        action: ServiceAction,
        timeout: Duration,
        starts: &dyn Fn(),
    ) -> Result<(), Failure> {
        let runtime = self.running(sandbox)?;
        self.with.rooms.act(&runtime, Some(service), action).map_err(|error| error.failure())?;
        // Without a probe there is only the process itself to wait for.
        let stack = self.with.rooms.stack(&runtime).unwrap_or_default();
        let order = stack.services.iter().find(|order| order.name() == service);
        let unasked = order.is_some_and(|order| order.spec.probe.is_none() && !order.spec.task);
        let done = |report: &ServiceStatus| match action {
            ServiceAction::Signal(_) => true,
            ServiceAction::Stop => !report.state.is_running(),
            ServiceAction::Start | ServiceAction::Restart => {
                report.state.is_settled() || unasked && report.state == ServiceState::Starting
            }
        };
        let deadline = Instant::now() + timeout;
        let (mut after, mut is_told) = (None, false);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let report = self.with.rooms.services(&runtime, after, left.min(LOOK_UP));
            let report = report.map_err(|error| error.failure())?;
            let own = report.statuses().find(|report| report.name == service);
            let Some(own) = own else {
                return Err(RoomError::NoService { service: service.to_owned() }.failure());
            };
            if own.state == ServiceState::Starting && !is_told {
                is_told = true;
                starts();
            }
            let names = [service.to_owned()];
            match done(own) {
                true => return Ok(()),
                false if own.state == ServiceState::Failed => {
                    return Err(self.not_up(sandbox, &report, &names, NotUp::Ended));
                }
                false if left.is_zero() => {
                    return Err(self.not_up(sandbox, &report, &names, NotUp::After(timeout)));
                }
                false => after = Some(report.version),
            }
        }
    }

    /// Reports which services did not start, with everything known about the reason.
    fn not_up(
        &self,
        sandbox: &SandboxRecord,
        report: &StackReport,
        names: &[String],
        what: NotUp,
    ) -> Failure {
        let listed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let (services, were) =
            if names.len() == 1 { ("service", "was") } else { ("services", "were") };
        let listed = listed.join(", ");
        let message = match what {
            NotUp::After(time) => {
                let time = config::format_duration(time);
                format!("{services} {listed} {were} not ready after {time}")
            }
            NotUp::Ended => format!("{services} {listed} did not start"),
            NotUp::Refusing => {
                let time = config::format_duration(STEADY);
                format!("{services} {listed} refused each probe for {time}")
            }
        };
        let mut failure = Failure::new(FailureKind::Unmet, message);
        for service in report.statuses().filter(|service| names.contains(&service.name)) {
            failure.causes.extend(why(service));
            let lines = self.lines_of_this_start(sandbox, service);
            if !lines.is_empty() {
                let name = &service.name;
                failure.causes.push(format!("the last lines of `{name}`:\n{}", lines.join("\n")));
            }
        }
        let first = names.first().map(String::as_str).unwrap_or_default();
        let name = &sandbox.name;
        if let NotUp::Refusing = what {
            failure = failure.hint(
                "`ready = { http = \"/path\", host = \"NAME\" }` asks for another path, or under another host name",
            );
        }
        let mut failed = report.statuses().filter(|service| names.contains(&service.name));
        if failed.any(|service| service.exit == Some(Exit::Code(0))) {
            failure = failure.hint("a command that is meant to end is a task: set `task = true`");
        }
        if let Some(hint) = self.install_hint(sandbox) {
            failure = failure.hint(hint);
        }
        let others = match report.statuses().count() > names.len() {
            true => "the other services are up",
            false => "the room is up",
        };
        failure.hint(format!("`hothouse logs {first} -w {name}` shows the full log")).hint(format!(
            "{others}: see `hothouse status -w {name}`, try again with `hothouse up -w {name}`"
        ))
    }

    /// Says how to install dependencies that a worktree lacks, unless its stack installs them itself.
    fn install_hint(&self, sandbox: &SandboxRecord) -> Option<String> {
        let has = |file: &str| files::exists(&sandbox.worktree.join(file));
        let (folder, command) = setup::missing_install(has)?;
        let stack = self.stack_of(sandbox).unwrap_or_default();
        let installs =
            |service: &ServiceOrder| service.spec.run.join(" ").contains(setup::verb(command));
        let name = &sandbox.name;
        (!stack.services.iter().any(installs)).then(|| {
            format!(
                "the worktree has no `{folder}`: `hothouse exec -w {name} -- {command}` installs it"
            )
        })
    }

    /// Returns the last lines that a service wrote since its last requested start: earlier ones
    /// would be misleading. The room knows where they begin.
    fn lines_of_this_start(&self, sandbox: &SandboxRecord, service: &ServiceStatus) -> Vec<String> {
        let starts = self.with.rooms.starts(&self.places(sandbox).runtime).unwrap_or_default();
        let begins = starts.into_iter().find(|(name, _)| *name == service.name);
        let since = begins.map(|begins| logs::Since::Cursor(logs::Cursor([begins].into())));
        self.tail_since(sandbox, &service.name, LAST_LINES, since)
    }

    /// Returns the last lines of a service's log, escaped for display.
    pub fn last_lines(&self, sandbox: &SandboxRecord, service: &str) -> Vec<String> {
        self.tail_of(sandbox, service, LAST_LINES)
    }

    /// Returns this many of the last lines of a service's log, escaped for display.
    pub fn tail_of(&self, sandbox: &SandboxRecord, service: &str, lines: usize) -> Vec<String> {
        self.tail_since(sandbox, service, lines, None)
    }

    fn tail_since(
        &self,
        sandbox: &SandboxRecord,
        service: &str,
        lines: usize,
        since: Option<logs::Since>,
    ) -> Vec<String> {
        let folder = self.logs_of(sandbox).join(service);
        let stream = logs::Stream { service: service.to_owned(), folder };
        let limit = (64 << 10).max(lines.saturating_mul(400));
        let wanted = logs::Wanted { since, tail: Some(lines), limit, ..logs::Wanted::default() };
        let plain = |line: logs::Line| {
            // Stack traces of Go and Java are indented with tabs.
            let shown = line.text.chars().filter(|c| !c.is_control() || *c == '\t');
            shown.take(400).collect::<String>()
        };
        logs::read(&[stream], &wanted).lines.into_iter().map(plain).collect()
    }

    /// Returns the logs of a sandbox: the named ones, or all.
    pub fn log_streams(
        &self,
        sandbox: &SandboxRecord,
        names: &[String],
    ) -> Result<Vec<logs::Stream>, Failure> {
        let folder = self.logs_of(sandbox);
        let known = files::list(&folder).map_err(|error| error.failure())?;
        let known: Vec<logs::Stream> = known
            .into_iter()
            .filter_map(|folder| {
                let service = folder.file_name()?.to_str()?.to_owned();
                // Names that begin with a dot belong to no service.
                (!service.starts_with('.')).then_some(logs::Stream { service, folder })
            })
            .collect();
        for name in names {
            if !known.iter().any(|stream| stream.service == *name) {
                let all: Vec<_> = known.iter().map(|stream| stream.service.as_str()).collect();
                let hints = match all.is_empty() {
                    true => vec!["no service of this sandbox has been started yet".to_owned()],
                    false => config::rules::among(name, &all),
                };
                let message = format!("service `{name}` has no log");
                let failure = Failure::new(FailureKind::NotFound, message);
                return Err(hints.into_iter().fold(failure, Failure::hint));
            }
        }
        let wanted = |stream: &logs::Stream| names.is_empty() || names.contains(&stream.service);
        Ok(known.into_iter().filter(wanted).collect())
    }

    /// Returns the state of a sandbox, including its services.
    pub fn state_with_services(
        &self,
        state: SandboxState,
        report: Option<&StackReport>,
    ) -> SandboxState {
        match (state, report.map(StackReport::verdict)) {
            (SandboxState::Ready, Some(Verdict::Failed(_))) => SandboxState::Degraded,
            (SandboxState::Ready, Some(Verdict::Pending)) => {
                let is_ill = |report: &StackReport| report.statuses().any(|s| s.state.is_ill());
                match report.is_some_and(is_ill) {
                    true => SandboxState::Degraded,
                    false => SandboxState::Starting,
                }
            }
            (state, _) => state,
        }
    }
}

/// Explains what is wrong with a service.
fn why(service: &ServiceStatus) -> Vec<String> {
    let name = &service.name;
    let mut causes = Vec::new();
    if let Some(exit) = &service.exit {
        let times = match service.restarts {
            0 => String::new(),
            1 => ", after 1 restart".to_owned(),
            times => format!(", after {times} restarts"),
        };
        causes.push(format!("`{name}` exited: {exit}{times}"));
    } else {
        causes.push(match service.state {
            ServiceState::Starting => {
                format!("the process of `{name}` is running, but it is not ready")
            }
            state => format!("`{name}` is {state}"),
        });
    }
    if service.state == ServiceState::Waiting && !service.needs.is_empty() {
        causes.push(format!("`{name}` is waiting for {}", service.needs.join(", ")));
    }
    if let Some(answer) = service.answers.last() {
        causes.push(format!("last probe result: {}", without_page(&answer.found)));
    }
    causes
}

/// Leaves out the page that an app answered a probe with: its status says enough.
fn without_page(found: &Found) -> String {
    match found {
        Found::Http { status, said } if said.starts_with('<') => format!("http {status}"),
        found => found.to_string(),
    }
}

/// Returns the deadline of services whose task is still running: they get their own time after it,
/// within the time limit of all tasks.
fn put_off(deadline: Instant, after_task: Instant, last: Instant) -> Instant {
    deadline.max(after_task.min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_left_out_of_what_a_probe_found() {
        let found = |said: &str| Found::Http { status: 404, said: said.to_owned() };
        assert_eq!(without_page(&found("<!DOCTYPE html> <html>")), "http 404");
        assert_eq!(without_page(&found("no such path")), "http 404: no such path");
    }

    #[test]
    fn what_waits_for_a_task_has_its_own_time_after_it() {
        let begun = Instant::now();
        let at = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        assert_eq!(put_off(at(2), at(7), at(30)), at(7));
        assert_eq!(put_off(at(31), at(33), at(30)), at(31), "a task without end is given up");
        assert_eq!(put_off(at(5), at(9), at(0)), at(5), "who names a time means it");
    }
}
