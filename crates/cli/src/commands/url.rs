//! `url`, `ports` and `expose`: the addresses of apps.

use std::process::ExitCode;

use hothouse_api::{
    SandboxView,
    port::{ExposeBody, PortView, ReleaseBody},
    route,
    sandbox::{ExposedView, FindQuery},
};
use hothouse_model::{Failure, FailureKind};

use super::{panel::is_up, sandbox::check_reference};
use crate::{
    args::{ExposeArgs, PortsArgs, PortsCommand, UrlArgs},
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Prints the URL of an app.
pub(crate) fn url(session: &Session, ui: &Ui, args: UrlArgs) -> Result<ExitCode, Failure> {
    if let Some(text) = &args.which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: args.which.sandbox, folder: session.folder_text()? };
    let sandbox: SandboxView = session.query(route::SANDBOX_FIND, &query)?;
    let Some(app) = sandbox.apps.get(&args.app) else {
        let message = format!("sandbox `{}` has no app `{}`", sandbox.name, args.app);
        let known: Vec<_> = sandbox.apps.keys().map(String::as_str).collect();
        let hint = match known.is_empty() {
            true if is_up(sandbox.state) => {
                "add `url = \"NAME\"` to a service in hothouse.toml".to_owned()
            }
            true => format!("apps have URLs while it is up: `hothouse up -w {}`", sandbox.name),
            false => format!("available: {}", known.join(", ")),
        };
        return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
    };
    if ui.json {
        ui.print_json(app);
    } else {
        ui.print(if args.direct { &app.direct } else { &app.url });
    }
    Ok(ExitCode::SUCCESS)
}

/// Forwards a port of the host to a port of a room.
pub(crate) fn expose(session: &Session, ui: &Ui, args: ExposeArgs) -> Result<ExitCode, Failure> {
    if let Some(text) = &args.which.sandbox {
        check_reference(text)?;
    }
    let body = ExposeBody {
        sandbox: args.which.sandbox,
        folder: session.folder_text()?,
        port: args.port,
        host_port: args.host_port,
    };
    let exposed: ExposedView = session.post(route::PORTS_EXPOSE, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&exposed);
    } else {
        ui.print(&format!("127.0.0.1:{}", exposed.host_port));
        let ExposedView { port, host_port } = exposed;
        ui.say(&format!(
            "Forwards to port {port} of the room while it is up; `hothouse ports release {host_port}` removes it."
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Names what a port is reserved for: an app, or an exposed port.
fn kept_for(app: &str) -> String {
    app.strip_prefix(':').map_or_else(|| app.to_owned(), |port| format!("port {port}"))
}

/// Lists the ports reserved for apps, or releases some.
pub(crate) fn ports(session: &Session, ui: &Ui, args: &PortsArgs) -> Result<ExitCode, Failure> {
    let (ports, released): (Vec<PortView>, bool) = match &args.command {
        None => (session.get(route::PORTS)?, false),
        Some(PortsCommand::Release { port }) => {
            let body = ReleaseBody { port: *port };
            (session.post(route::PORTS_RELEASE, &session.operation(), &body)?, true)
        }
    };
    if ui.json {
        ui.print_json(&ports);
        return Ok(ExitCode::SUCCESS);
    }
    if ports.is_empty() {
        ui.say(if released { "No ports were released." } else { "No reserved ports." });
        return Ok(ExitCode::SUCCESS);
    }
    let rows = ports.iter().map(|port| {
        vec![
            Cell::new(port.port.to_string()).tone(Tone::Strong),
            Cell::new(format!("{}/{}", port.project, port.sandbox)),
            Cell::new(kept_for(&port.app)),
        ]
    });
    ui.print(&table(ui, &["PORT", "SANDBOX", "APP"], rows.collect()));
    if released {
        ui.say("Released.");
    }
    Ok(ExitCode::SUCCESS)
}
