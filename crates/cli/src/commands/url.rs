//! `url`, `ports` and `expose`: the addresses of apps.

use std::{collections::BTreeMap, ffi::OsStr, path::Path, process::ExitCode};

use hothouse_api::{
    SandboxView,
    port::{ExposeBody, PortView, ReleaseBody},
    route,
    sandbox::{ExposedView, FindQuery},
};
use hothouse_host::{command::Program, files};
use hothouse_model::{Failure, FailureKind, config::rules::among};

use super::{panel::is_up, past::Past, sandbox::check_reference};
use crate::{
    Surroundings,
    args::{EditArgs, ExposeArgs, NamedRun, OpenArgs, PortsArgs, PortsCommand, UrlArgs, Which},
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Prints the URL of an app.
pub(crate) fn url(session: &Session, ui: &Ui, args: UrlArgs) -> Result<ExitCode, Failure> {
    let sandbox = found(session, args.which)?;
    let app = sandbox.apps.get(&args.app).ok_or_else(|| no_app(&sandbox, &args.app))?;
    if ui.json {
        ui.print_json(app);
    } else {
        ui.print(if args.direct { &app.direct } else { &app.url });
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens an app in the browser.
pub(crate) fn open(session: &Session, ui: &Ui, args: OpenArgs) -> Result<ExitCode, Failure> {
    let sandbox = found(session, args.which)?;
    let label = match &args.app {
        Some(label) => label.clone(),
        None => usual_app(&sandbox)?,
    };
    let app = sandbox.apps.get(&label).ok_or_else(|| no_app(&sandbox, &label))?;
    let url = if args.direct { &app.direct } else { &app.url };
    match ui.json {
        true => ui.print_json(app),
        false => ui.print(url),
    }
    browse(ui, url);
    Ok(ExitCode::SUCCESS)
}

/// Chooses the app to use if none is named.
fn usual_app(sandbox: &SandboxView) -> Result<String, Failure> {
    let mut labels = sandbox.apps.keys();
    match (labels.next(), labels.next()) {
        (None, _) => Err(no_app(sandbox, "web")),
        (Some(only), None) => Ok(only.clone()),
        _ if sandbox.apps.contains_key("web") => Ok("web".to_owned()),
        _ => {
            let labels: Vec<_> = sandbox.apps.keys().map(String::as_str).collect();
            let message = format!("sandbox `{}` has several apps", sandbox.name);
            let hint = format!("name one of them: {}", labels.join(", "));
            Err(Failure::new(FailureKind::Usage, message).hint(hint))
        }
    }
}

/// Shows a URL in the user's browser, if there is a desktop. The caller prints the URL in any case.
pub(super) fn browse(ui: &Ui, url: &str) {
    if let Err(why) = opened(url) {
        ui.say(&format!("{why}. Open the URL yourself."));
    }
}

/// Opens a URL in the user's browser, or says why that did not work.
pub(super) fn opened(url: &str) -> Result<(), String> {
    let left = Program::new("xdg-open").arg(url).leave();
    left.map_err(|error| format!("No browser was opened: {error}"))
}

/// Opens the worktree of a sandbox in an editor.
pub(crate) fn edit(
    session: &Session,
    ui: &Ui,
    args: EditArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let sandbox = found(session, args.which.which())?;
    let editor = args.with.or_else(|| surroundings.editor.clone());
    let Some(editor) = editor.or_else(|| code(&surroundings.search_path)) else {
        return Err(Failure::new(FailureKind::NotFound, "no editor is known")
            .hint("set EDITOR, or pass `--with 'code --new-window'`"));
    };
    match ui.json {
        true => ui.print_json(&serde_json::json!({ "worktree": sandbox.worktree })),
        false => ui.print(&sandbox.worktree),
    }
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let editor = Program::new(program).args(words).arg(&sandbox.worktree);
    // An editor in the terminal needs the terminal, so wait for it.
    let ran = editor.in_foreground();
    ran.map(ExitCode::from).map_err(|error| {
        Failure::of(FailureKind::Host, &error)
            .hint("set EDITOR, or pass another program: `--with 'code --new-window'`")
    })
}

/// Returns the editor `code`, if it is installed.
fn code(search_path: &OsStr) -> Option<String> {
    const CODE: &str = "code";
    let mut folders = std::env::split_paths(search_path);
    folders.any(|folder| files::exists(&folder.join(CODE))).then(|| CODE.to_owned())
}

/// The maximum size of the variables file.
const ENV_LIMIT: u64 = 1 << 20;

/// Prints the variables of a run.
pub(crate) fn env(session: &Session, ui: &Ui, args: NamedRun) -> Result<ExitCode, Failure> {
    let (artifacts, of) = match args.run {
        Some(run) => (Past::find(session, &run)?.run.artifacts, Some(run)),
        None => {
            let sandbox = found(session, args.named.which())?;
            let Some(run) = sandbox.run else {
                let message = format!("sandbox `{}` has not been up yet", sandbox.name);
                let hint = format!("start it with `hothouse up {}`", sandbox.name);
                return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
            };
            (run.artifacts, None)
        }
    };
    let bytes = session.read_artifact(&Path::new(&artifacts).join("env.sh"), of, ENV_LIMIT)?;
    let text = String::from_utf8_lossy(&bytes);
    match ui.json {
        true => ui.print_json(&variables(&text)),
        false => ui.print(text.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses the lines `export NAME='VALUE'` of a run's variables file.
fn variables(text: &str) -> BTreeMap<&str, String> {
    let quoted =
        |value: &str| Some(value.strip_prefix('\'')?.strip_suffix('\'')?.replace("'\\''", "'"));
    let pairs = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    pairs.filter_map(|(name, value)| Some((name, quoted(value)?))).collect()
}

fn found(session: &Session, which: Which) -> Result<SandboxView, Failure> {
    if let Some(text) = &which.sandbox {
        check_reference(text)?;
    }
    let query = FindQuery { sandbox: which.sandbox, folder: session.folder_text()? };
    session.query(route::SANDBOX_FIND, &query)
}

fn no_app(sandbox: &SandboxView, app: &str) -> Failure {
    let message = format!("sandbox `{}` has no app `{app}`", sandbox.name);
    let known: Vec<_> = sandbox.apps.keys().map(String::as_str).collect();
    let hints = match known.is_empty() {
        true if is_up(sandbox.state) => {
            vec!["add `url = \"NAME\"` to a service in hothouse.toml".to_owned()]
        }
        true => vec![format!("apps have URLs while it is up: `hothouse up {}`", sandbox.name)],
        false => among(app, &known),
    };
    hints.into_iter().fold(Failure::new(FailureKind::NotFound, message), Failure::hint)
}

/// Forwards a host port to a port in a room.
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
            Cell::new(match port.free {
                true => format!("{} (deleted; free)", kept_for(&port.app)),
                false => kept_for(&port.app),
            }),
        ]
    });
    ui.print(&table(ui, &["PORT", "SANDBOX", "APP"], rows.collect()));
    if released {
        let now: Vec<PortView> = session.get(route::PORTS)?;
        ports.iter().for_each(|port| ui.say(&told_released(port, &now)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports that a port was released, and which one its app has now, if it is running.
fn told_released(port: &PortView, now: &[PortView]) -> String {
    let is_same = |other: &&PortView| {
        (&other.project, &other.sandbox, &other.app) == (&port.project, &port.sandbox, &port.app)
    };
    match now.iter().find(is_same) {
        Some(next) if next.port == port.port => {
            format!("Released {}. `{}` is running and has it again.", port.port, port.app)
        }
        Some(next) => format!("Released {}. `{}` moved to {}.", port.port, port.app, next.port),
        None => format!("Released {}.", port.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_a_shell_would() {
        let text = "export A='1'\nexport B='it'\\''s here'\n# a comment\n";
        let all = variables(text);
        assert_eq!(all.get("A").map(String::as_str), Some("1"));
        assert_eq!(all.get("B").map(String::as_str), Some("it's here"));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn whoever_releases_a_port_is_told_where_its_app_is_now() {
        let port = |port, app: &str| PortView {
            port,
            project: "shop".into(),
            sandbox: "a".into(),
            app: app.into(),
            reserved: jiff::Timestamp::UNIX_EPOCH,
            free: false,
        };
        let told = |now: &[PortView]| told_released(&port(43300, "web"), now);
        assert_eq!(told(&[port(43301, "api")]), "Released 43300.");
        let moved = told(&[port(43301, "api"), port(43303, "web")]);
        assert_eq!(moved, "Released 43300. `web` moved to 43303.");
        let same = told(&[port(43300, "web")]);
        assert_eq!(same, "Released 43300. `web` is running and has it again.");
    }
}
