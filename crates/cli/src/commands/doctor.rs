//! `doctor`: what works on this host, and what a crash left behind.
//!
//! The host is probed in this process, so there is a report even if no daemon can start.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use hothouse_api::{
    DaemonView, RoomsView,
    doctor::{DoctorQuery, Leftover},
    route,
};
use hothouse_discover::HostFacts;
use hothouse_host::databases::RecipeError;
use hothouse_host::probe::{Finding, FindingState, ProbeSpec, probe_host};
use hothouse_model::{Failure, FailureKind};
use serde::Serialize;

use super::config;
use crate::{
    Surroundings,
    args::{ConfigArgs, DoctorArgs},
    render::{hanging, plain},
    session::Session,
    ui::{Tone, Ui},
};

/// Probes the host, asks the daemon, and reports.
pub(crate) fn run(
    session: &Session,
    ui: &Ui,
    args: &DoctorArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let runtime = session.folders.former_runtime.as_deref().and_then(Path::parent);
    let runtime = runtime.map(PathBuf::from);
    let daemon = session.get_if_running::<DaemonView>(route::DAEMON).ok().flatten();
    let spec = ProbeSpec::new(&session.folder, surroundings.search_path.clone(), runtime);
    let host = probe_host(&ProbeSpec { daemon: daemon.map(|daemon| daemon.pid), ..spec });
    let folder = session.folder.to_string_lossy().into_owned();
    let query = DoctorQuery { folder: Some(folder) };
    let leftovers = match args.fix {
        true => session.post(route::DOCTOR_FIX, &session.operation(), &query),
        false => session.query::<Vec<Leftover>>(route::DOCTOR, &query),
    };
    let rooms = leftovers.as_ref().ok().and_then(|_| session.get::<DaemonView>(route::DAEMON).ok());
    let rooms = rooms.map(|daemon| daemon.rooms);
    let missing = of_project(session, surroundings);
    let toolchains = toolchains(session, surroundings);
    if ui.json {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let (found, daemon) = match &leftovers {
            Ok(found) => (Some(found), None),
            Err(failure) => (None, Some(failure)),
        };
        ui.print_json(&serde_json::json!({ "host": host, "rooms": rooms, "recipes": missing, "toolchains": toolchains, "leftovers": found, "error": daemon }));
    } else {
        host.iter().for_each(|finding| ui.print(&host_line(ui, finding)));
        rooms.iter().for_each(|rooms| ui.print(&rooms_line(ui, rooms)));
        missing.iter().for_each(|missing| {
            let word = ui.paint(Tone::Bad, "missing");
            ui.print(&format!("{word} {}", plain(&config::with_hint(missing))));
        });
        ui.print(&toolchains_line(ui, &toolchains));
        ui.print("");
        match &leftovers {
            Ok(found) => show_leftovers(ui, found),
            // The reason is reported below, as the failure of the command.
            Err(_) => ui
                .print(&format!("{} the daemon cannot be reached", ui.paint(Tone::Bad, "missing"))),
        }
    }
    let leftovers = match leftovers {
        Ok(leftovers) => leftovers,
        Err(failure) if ui.json => return Ok(ExitCode::from(failure.kind.exit_code())),
        Err(failure) => return Err(failure),
    };
    let unfixed = leftovers.iter().any(|leftover| args.fix && !leftover.fixed);
    Ok(if unfixed { ExitCode::from(FailureKind::Unmet.exit_code()) } else { ExitCode::SUCCESS })
}

/// Lists the programs that the current project's recipes need and this host lacks.
fn of_project(session: &Session, surroundings: &Surroundings) -> Vec<RecipeError> {
    let file = config::find(session, &ConfigArgs { file: None }).ok();
    let read = file.and_then(|file| config::read(session, &file, &surroundings.variables).ok());
    let resolved = read.and_then(Result::ok);
    resolved.map(|resolved| config::missing_programs(&resolved.config)).unwrap_or_default()
}

/// A program that drafts can use, and how rooms see it.
#[derive(Debug, Serialize)]
struct Toolchain {
    program: String,
    version: Option<String>,
    /// Whether every room has it.
    in_rooms: bool,
    /// The config line that shows it to rooms, if they do not have it.
    grant: Option<String>,
}

/// Lists the user's toolchains: those that every room shows, and those that only the user's search path has.
fn toolchains(session: &Session, surroundings: &Surroundings) -> Vec<Toolchain> {
    let path = surroundings.search_path.to_string_lossy();
    let found = HostFacts::look(&session.folders.home, &path);
    let version = |program: &str| found.versions.get(program).cloned();
    let shown = found.in_room.iter().filter(|program| SHOWN.contains(&program.as_str()));
    let shown = shown.map(|program| Toolchain {
        version: version(program),
        program: program.clone(),
        in_rooms: true,
        grant: None,
    });
    let own = found.grants.iter().map(|(program, grant)| Toolchain {
        version: version(program),
        program: program.clone(),
        in_rooms: false,
        grant: Some(grant.line()),
    });
    shown.chain(own).collect()
}

/// The programs that represent a toolchain.
const SHOWN: [&str; 13] = [
    "node", "bun", "deno", "python3", "uv", "cargo", "go", "ruby", "java", "php", "dotnet",
    "elixir", "docker",
];

fn toolchains_line(ui: &Ui, all: &[Toolchain]) -> String {
    let named = |one: &Toolchain| match &one.version {
        Some(version) => format!("{} {}", one.program, plain(version)),
        None => one.program.clone(),
    };
    let (shown, own): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.in_rooms);
    let list =
        |some: &[&Toolchain]| some.iter().map(|one| named(one)).collect::<Vec<_>>().join(", ");
    if own.is_empty() {
        return line(ui, (Tone::Good, "works  "), &format!("toolchains: {}", list(&shown)));
    }
    let told = format!("toolchains: {}; rooms do not show {}", list(&shown), list(&own));
    let mut text = line(ui, (Tone::Warning, "limited"), &told);
    let mut grants: Vec<&str> = own.iter().filter_map(|one| one.grant.as_deref()).collect();
    grants.dedup();
    for grant in grants {
        text.push_str(&below(ui, &format!("fix: {} under `[room]`", plain(grant))));
    }
    text
}

fn host_line(ui: &Ui, finding: &Finding) -> String {
    let word = match finding.state {
        FindingState::Works => (Tone::Good, "works  "),
        FindingState::Limited => (Tone::Warning, "limited"),
        FindingState::Missing => (Tone::Bad, "missing"),
    };
    let mut text = line(ui, word, &format!("{}: {}", finding.title, plain(&finding.detail)));
    for (name, value) in [("costs", &finding.costs), ("fix", &finding.fix)] {
        if let Some(value) = value {
            text.push_str(&below(ui, &format!("{name}: {}", plain(value))));
        }
    }
    text
}

fn rooms_line(ui: &Ui, rooms: &RoomsView) -> String {
    let capabilities: Vec<_> = rooms.capabilities.iter().map(|one| one.as_str()).collect();
    let told = format!("the {} backend: {}", plain(&rooms.backend), capabilities.join(", "));
    line(ui, (Tone::Good, "works  "), &told)
}

/// Renders a finding after its label, which takes eight columns.
fn line(ui: &Ui, (tone, word): (Tone, &str), text: &str) -> String {
    format!("{} {}", ui.paint(tone, word), hanging(text, 8, 8, ui.columns()))
}

/// Renders a line that belongs to the finding above.
fn below(ui: &Ui, text: &str) -> String {
    format!("\n          {}", hanging(text, 10, 12, ui.columns()))
}

fn show_leftovers(ui: &Ui, leftovers: &[Leftover]) {
    if leftovers.is_empty() {
        ui.print(&format!("{} no unfinished operations", ui.paint(Tone::Good, "works  ")));
    }
    for leftover in leftovers {
        let (tone, word) =
            if leftover.fixed { (Tone::Good, "fixed  ") } else { (Tone::Bad, "broken ") };
        ui.print(&format!(
            "{} {}\n          {}",
            ui.paint(tone, word),
            plain(&leftover.what),
            plain(&leftover.why)
        ));
    }
    if leftovers.iter().any(|leftover| !leftover.fixed) {
        ui.say("hint: `hothouse doctor --fix` fixes what can be fixed");
    }
}
