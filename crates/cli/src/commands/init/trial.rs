//! `init --try`: creates a sandbox, starts it, inspects it and deletes it.

use hothouse_api::{
    SandboxView, route,
    sandbox::{DeleteBody, DeletedView, FindQuery, ForkBody, UpBody},
};
use hothouse_host::random;
use hothouse_model::{Failure, SandboxState};
use serde_json::{Value, json};

use crate::{Surroundings, progress::Progress, render::plain, session::Session, ui::Ui};

/// How long services may take: the first start installs and builds.
const PATIENCE_SECONDS: u64 = 900;

/// The outcome of trying a draft.
pub(super) struct Trial {
    pub(super) ok: bool,
    state: String,
    /// Each service with its state and its probe's result.
    services: Vec<(String, String, String)>,
    failure: Option<Failure>,
}

impl Trial {
    pub(super) fn json(&self) -> Value {
        let services = self
            .services
            .iter()
            .map(|(name, state, health)| json!({ "name": name, "state": state, "health": health }));
        json!({ "ok": self.ok, "state": self.state, "services": services.collect::<Vec<_>>(), "error": self.failure })
    }

    pub(super) fn tell(&self, ui: &Ui) {
        for (name, state, health) in &self.services {
            ui.say(&format!("Tried `{}`: {state} {}", plain(name), plain(health)));
        }
        if let Some(failure) = &self.failure {
            ui.say(&format!("It did not start: {}", plain(&failure.message)));
            for line in failure.causes.iter().flat_map(|cause| cause.lines()) {
                ui.say(&format!("  {}", plain(line)));
            }
            failure.hints.iter().for_each(|hint| ui.say(&format!("hint: {}", plain(hint))));
        }
        ui.say(if self.ok {
            "The draft works."
        } else {
            "The draft does not work yet: change hothouse.toml, then `hothouse init --try` again."
        });
    }
}

/// Tries the config that has just been written.
pub(super) fn run(
    session: &Session,
    ui: &Ui,
    surroundings: &Surroundings,
) -> Result<Trial, Failure> {
    let name = format!("init-try-{:04x}", u16::from_ne_bytes(random::bytes()));
    let folder = session.folder_text()?;
    let body = ForkBody {
        name: name.clone(),
        folder: folder.clone(),
        base: None,
        branch: None,
        task: None,
        context: None,
        from: None,
        environment: Default::default(),
        repository: None,
        tree: None,
        stack: None,
        setup: false,
        variables: surroundings.variables.iter().cloned().collect(),
    };
    let operation = session.operation();
    let made: SandboxView = session.post(route::SANDBOXES, &operation, &body)?;
    let tried = start(session, ui, &name, &folder);
    let seen = session.query::<SandboxView>(
        route::SANDBOX_FIND,
        &FindQuery { sandbox: Some(name.clone()), folder: folder.clone() },
    );
    let deleted =
        DeleteBody { sandbox: name.clone(), folder, force: true, branch: true, now: true };
    session.post::<DeletedView>(route::SANDBOX_DELETE, &session.operation(), &deleted)?;
    let seen = seen.unwrap_or(made);
    let services = seen.services.iter().map(|service| {
        (
            service.name.clone(),
            service.state.to_string(),
            service.health.as_ref().map(ToString::to_string).unwrap_or_default(),
        )
    });
    let (ok, failure) = match tried {
        Ok(view) => (view.state == SandboxState::Ready, None),
        Err(failure) => (false, Some(failure)),
    };
    Ok(Trial { ok, state: seen.state.as_str().to_owned(), services: services.collect(), failure })
}

fn start(session: &Session, ui: &Ui, name: &str, folder: &str) -> Result<SandboxView, Failure> {
    let body = UpBody {
        sandbox: Some(name.to_owned()),
        folder: folder.to_owned(),
        ttl_seconds: None,
        profile: None,
        reuse: false,
        restrict_domains: false,
        seed: Vec::new(),
        only_running: false,
        no_wait: false,
        timeout_seconds: Some(PATIENCE_SECONDS),
    };
    let operation = session.operation();
    let progress = Progress::tell(session, ui, &operation);
    let up = session.post(route::SANDBOX_UP, &operation, &body);
    drop(progress);
    up
}
