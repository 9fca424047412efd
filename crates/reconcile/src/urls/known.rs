//! A snapshot of all reachable sandboxes.

use std::{path::PathBuf, sync::Arc};

use hothouse_engine::{Engine, Exposed};
use hothouse_ingress::{Activity, RoomPort, Route, StoppedSandbox, direct::Leads, names::Address};
use hothouse_model::{
    Failure, SandboxRecord, SandboxState,
    config::SinkRecipe,
    stack::{HostedOrder, StackOrder, service::ServiceState},
};

use super::is_asleep;
use crate::Activities;

/// One sandbox, and how to reach it.
pub(super) struct Known {
    pub(super) sandbox: SandboxRecord,
    pub(super) activity: Arc<Activity>,
    /// The runtime folder of its room.
    pub(super) runtime: PathBuf,
    apps: Vec<KnownApp>,
    exposed: Vec<Exposed>,
    /// Whether its room is running.
    pub(super) lives: bool,
    /// Whether its user has paused it.
    paused: bool,
    /// The services of the host that its room may reach.
    pub(super) hosted: Vec<HostedOrder>,
    /// The ports of its room that lead to sinks.
    pub(super) sinks: Vec<SinkPort>,
    /// The ports of its own services in the room.
    pub(super) taken: Vec<u16>,
}

/// A port of a room that leads to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SinkPort {
    pub(super) service: String,
    pub(super) port: u16,
    pub(super) takes: SinkRecipe,
}

struct KnownApp {
    app: String,
    service: String,
    direct: u16,
    /// Where it answers; `None` while its room is stopped.
    target: Option<RoomPort>,
}

/// Collects all sandboxes. A problem with one does not affect the others.
pub(super) fn look(engine: &Engine, activities: &Activities) -> Result<Vec<Known>, Failure> {
    let known = |sandbox: SandboxRecord| {
        let name = sandbox.name.clone();
        know(engine, activities, sandbox)
            .inspect_err(|failure| tracing::warn!(?failure, %name, "it has no routes"))
            .ok()
    };
    Ok(engine.sandboxes()?.into_iter().filter_map(known).collect())
}

/// Collects one sandbox.
pub(super) fn know(
    engine: &Engine,
    activities: &Activities,
    sandbox: SandboxRecord,
) -> Result<Known, Failure> {
    let activity = activities.of(sandbox.key);
    let (room, stack) = (engine.room_of(&sandbox), engine.stack_of(&sandbox));
    let awake = engine.apps(&sandbox)?;
    // During a start there is no stack yet, and the sandbox is no longer asleep.
    let begins = sandbox.state(None) == SandboxState::Starting;
    let asleep = match awake.is_empty() && (activity.is_waking() || begins) {
        true => engine.kept_apps(&sandbox)?,
        false => engine.sleeping_apps(&sandbox)?,
    };
    let awake = awake.into_iter().map(|app| KnownApp {
        target: Some(RoomPort { runtime: app.runtime, port: app.port }),
        app: app.app,
        service: app.service,
        direct: app.direct,
    });
    let asleep = asleep.into_iter().map(|(app, direct)| KnownApp {
        service: app.clone(),
        app,
        direct,
        target: None,
    });
    let apps = awake.chain(asleep).collect();
    activity.set_asleep(is_asleep(&sandbox));
    Ok(Known {
        lives: room.is_some(),
        paused: room.is_some_and(|room| room.frozen) && !is_asleep(&sandbox),
        runtime: engine.places(&sandbox).runtime,
        exposed: engine.exposed(&sandbox)?,
        activity,
        apps,
        sinks: sinks(engine, &sandbox, stack.as_ref()),
        hosted: stack.as_ref().map(|stack| stack.hosted.clone()).unwrap_or_default(),
        taken: stack.iter().flat_map(|stack| &stack.services).filter_map(|s| s.port).collect(),
        sandbox,
    })
}

/// Lists the ports that lead to sinks: those of services that are not stopped.
fn sinks(engine: &Engine, sandbox: &SandboxRecord, stack: Option<&StackOrder>) -> Vec<SinkPort> {
    let services = stack.into_iter().flat_map(|stack| &stack.services);
    let ports = services.filter_map(|order| {
        let (service, takes) = (order.name().to_owned(), order.sink?);
        Some(SinkPort { service, port: order.port?, takes })
    });
    let ports: Vec<SinkPort> = ports.collect();
    if ports.is_empty() {
        return ports;
    }
    let report = engine.services(sandbox).unwrap_or_default();
    let is_wanted = |port: &SinkPort| {
        let own = report.services.iter().find(|service| service.status.name == port.service);
        own.is_some_and(|own| {
            !matches!(own.status.state, ServiceState::Stopped | ServiceState::Failed)
        })
    };
    ports.into_iter().filter(is_wanted).collect()
}

impl Known {
    /// Whether it has any ingress, or egress to a service of the host.
    pub(super) fn leads_anywhere(&self) -> bool {
        let none_inside = self.hosted.is_empty() && self.sinks.is_empty();
        !(self.apps.is_empty() && self.exposed.is_empty() && none_inside)
    }

    /// Returns whether it has an app.
    pub(super) fn has_apps(&self) -> bool {
        !self.apps.is_empty()
    }

    /// Returns the routes to its apps.
    pub(super) fn routes(&self) -> impl Iterator<Item = Route> {
        self.apps.iter().map(|app| Route {
            id: self.sandbox.id.to_string(),
            sandbox: self.sandbox.name.to_string(),
            project: self.sandbox.label.clone(),
            app: app.app.clone(),
            service: app.service.clone(),
            target: app.target.clone(),
            paused: self.paused,
            activity: self.activity.clone(),
        })
    }

    /// Returns its state if it has no room, and a request does not start one.
    pub(super) fn stopped(&self) -> Option<StoppedSandbox> {
        let is_stopped = !self.lives && self.apps.is_empty();
        is_stopped.then(|| StoppedSandbox {
            sandbox: self.sandbox.name.to_string(),
            project: self.sandbox.label.clone(),
        })
    }

    /// Returns its direct ports with their destinations.
    pub(super) fn direct(&self) -> Vec<(u16, Leads)> {
        let host = |app: &str| {
            let (app, sandbox) = (app.to_owned(), self.sandbox.name.to_string());
            Address::App { app, sandbox, project: self.sandbox.label.clone() }.to_string()
        };
        let leads = |app: &str, target: Option<RoomPort>| Leads {
            id: self.sandbox.id.to_string(),
            app: app.to_owned(),
            host: self.apps.iter().any(|known| known.app == app).then(|| host(app)),
            target,
            activity: self.activity.clone(),
        };
        let apps = self.apps.iter().map(|app| (app.direct, leads(&app.app, app.target.clone())));
        let begins = self.sandbox.state(None) == SandboxState::Starting;
        let reachable = self.lives || is_asleep(&self.sandbox) || begins;
        let exposed = self.exposed.iter().filter(|_| reachable).map(|exposed| {
            let target = RoomPort { runtime: exposed.runtime.clone(), port: exposed.port };
            (exposed.host_port, leads(&exposed.name(), Some(target)))
        });
        apps.chain(exposed).collect()
    }
}
