//! `up`, `down`, `pause`, `resume`.

use std::process::ExitCode;

use hothouse_api::{
    SandboxView, route,
    sandbox::{FindQuery, UpBody},
};
use hothouse_model::{Failure, FailureKind, config};

use super::sandbox::{check_reference, in_full};
use crate::{
    args::{UpArgs, Which},
    progress::Progress,
    session::Session,
    ui::Ui,
};

/// What can be done to a room that takes no more than its name.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Down,
    Pause,
    Resume,
}

impl Action {
    fn route(self) -> &'static str {
        match self {
            Self::Down => route::SANDBOX_DOWN,
            Self::Pause => route::SANDBOX_PAUSE,
            Self::Resume => route::SANDBOX_RESUME,
        }
    }

    fn done(self, name: &str) -> String {
        match self {
            Self::Down => format!("Stopped the room of `{name}`; its files stay."),
            Self::Pause => format!("Paused the room of `{name}`."),
            Self::Resume => format!("The room of `{name}` goes on."),
        }
    }
}

/// Starts a room and shows the sandbox.
pub(crate) fn up(session: &Session, ui: &Ui, args: UpArgs) -> Result<ExitCode, Failure> {
    let ttl = args.ttl.as_deref().map(config::parse_duration).transpose();
    let ttl = ttl.map_err(|error| {
        Failure::new(FailureKind::Usage, format!("--ttl {error}")).hint("write it as `30m` or `2h`")
    })?;
    if let Some(text) = &args.which.sandbox {
        check_reference(text)?;
    }
    let body = UpBody {
        sandbox: args.which.sandbox,
        folder: session.folder_text()?,
        ttl_seconds: ttl.map(|ttl| ttl.as_secs().max(1)),
    };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let shown: Result<SandboxView, Failure> = session.post(route::SANDBOX_UP, &operation, &body);
    drop(progress);
    let shown = shown?;
    if ui.json {
        ui.print_json(&shown);
    } else {
        ui.say(&format!("The room of `{}` is up.", shown.name));
        ui.print(&in_full(ui, &shown));
        ui.say(&format!("Run something in it: `hothouse exec -w {} -- COMMAND`", shown.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// Does something to a room.
pub(crate) fn act(
    session: &Session,
    ui: &Ui,
    which: Which,
    action: Action,
) -> Result<ExitCode, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: which.sandbox, folder: session.folder_text()? };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let shown: Result<SandboxView, Failure> = session.post(action.route(), &operation, &query);
    drop(progress);
    let shown = shown?;
    if ui.json {
        ui.print_json(&shown);
    } else {
        ui.say(&action.done(&shown.name));
    }
    Ok(ExitCode::SUCCESS)
}
