//! `integrations` and `integration add`: outside services, and how they are treated.

use std::{path::Path, process::ExitCode};

use hothouse_api::{integration::IntegrationView, route, sandbox::FindQuery};
use hothouse_config::MAX_BYTES;
use hothouse_host::files;
use hothouse_mock::openapi::OpenApiMock;
use hothouse_model::{
    Failure, FailureKind,
    config::{EntryName, HostPattern},
};
use serde_json::Value;

use super::{config, given::unread, past::Past, timeline::checked};
use crate::{
    args::{ConfigArgs, IntegrationAddArgs, WhichRun},
    edited::Base,
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Lists integrations.
pub(crate) fn list(session: &Session, ui: &Ui, of: WhichRun) -> Result<ExitCode, Failure> {
    let all: Vec<IntegrationView> = match &of.run {
        Some(run) => Past::find(session, run)?.integrations()?,
        None => {
            let query = FindQuery { sandbox: checked(of.which)?, folder: session.folder_text()? };
            session.query(route::INTEGRATIONS, &query)?
        }
    };
    if ui.json {
        ui.print_json(&all);
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        ui.say("No integrations: add `[integration.NAME]` to hothouse.toml.");
        return Ok(ExitCode::SUCCESS);
    }
    let heading = ["NAME", "CLASS", "WIRING", "WRITES", "RECORDS", "SECRET", "HOSTS"];
    ui.print(&table(ui, &heading, all.iter().map(row).collect()));
    for one in &all {
        ui.say(&format!("{}: {}", plain(&one.name), plain(&one.caveat)));
        if !one.sdks.is_empty() {
            ui.say(&format!("  used by {}", plain(&one.sdks.join(", "))));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(one: &IntegrationView) -> Vec<Cell> {
    let writes = if one.writes { ("yes", Tone::Warning) } else { ("no", Tone::Good) };
    vec![
        Cell::new(&one.name).tone(Tone::Strong),
        Cell::new(one.class.as_str()),
        Cell::new(one.wiring.as_str()),
        Cell::new(writes.0).tone(writes.1),
        Cell::new(one.records.to_string()),
        Cell::new(&one.secret),
        Cell::new(one.hosts.join(" ")),
    ]
}

/// The largest API description.
const DESCRIPTION_MOST: u64 = 16 << 20;

/// Creates a mock from an API description.
pub(crate) fn add(
    session: &Session,
    ui: &Ui,
    args: &IntegrationAddArgs,
    variables: &[(String, String)],
) -> Result<ExitCode, Failure> {
    let config_file = config::find(session, &ConfigArgs { file: None })?;
    let resolved = config::read(session, &config_file, variables)?;
    let resolved = resolved.map_err(|problems| config::broken(&problems))?;
    let source = session.folder.join(&args.file);
    let bytes = files::read_capped(&source, DESCRIPTION_MOST)
        .map_err(|error| unread(FailureKind::NotFound, &error))?;
    let shown = args.file.display().to_string();
    OpenApiMock::load(&shown, &bytes)
        .map_err(|problem| Failure::new(FailureKind::Config, problem.render()))
        .map_err(|failure| failure.hint("an OpenAPI description in JSON is needed, 3.0 or 3.1"))?;
    let hosts = hosts(args, &bytes)?;
    let name = name(args, &hosts)?;
    if resolved.config.integrations.contains_key(name.as_str()) {
        let message = format!("`[integration.{name}]` is in hothouse.toml already");
        return Err(Failure::new(FailureKind::Conflict, message).hint("choose another `--name`"));
    }
    let project = Base::Project(config_file.parent().unwrap_or(Path::new(".")).to_owned());
    let file = format!("hothouse/fixtures/{name}/openapi.json");
    project.file(&file).write(&bytes)?;
    let lines = lines(&name, &hosts);
    if args.write {
        let config = project.file(config_file.file_name().unwrap_or_default());
        let text = config.read_capped(MAX_BYTES as u64)?.unwrap_or_default();
        let joint = if text.ends_with('\n') { "\n" } else { "\n\n" };
        let text = format!("{text}{joint}{lines}");
        config.write(&text)?;
    }
    match ui.json {
        true => ui.print_json(&serde_json::json!({
            "name": name, "hosts": hosts, "file": file, "config": lines, "written": args.write,
        })),
        false => {
            ui.say(&format!("Wrote {file}."));
            ui.print(lines.trim_end());
            if !args.write {
                ui.say("Add these lines to hothouse.toml, or pass --write.");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(name: &EntryName, hosts: &[String]) -> String {
    let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
    format!("[integration.{name}]\nclass = \"mock\"\nhosts = [{}]\n", hosts.join(", "))
}

/// Returns the named hosts, or those of the description's servers.
fn hosts(args: &IntegrationAddArgs, bytes: &[u8]) -> Result<Vec<String>, Failure> {
    let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let servers = document["servers"].as_array().cloned().unwrap_or_default();
    let of_server = |server: &Value| {
        let (_, rest) = server["url"].as_str()?.split_once("://")?;
        rest.split(['/', ':', '?']).next().map(str::to_owned)
    };
    let mut found = match args.host.is_empty() {
        true => servers.iter().filter_map(of_server).collect(),
        false => args.host.clone(),
    };
    found.dedup();
    let wrong = |host: &String| host.parse::<HostPattern>().is_err();
    if found.is_empty() || found.iter().any(wrong) {
        let message = "the hosts of the service cannot be told from the description";
        return Err(Failure::new(FailureKind::Usage, message).hint("name them with `--host HOST`"));
    }
    Ok(found)
}

/// Returns the given name, or the first host's name before its suffix.
fn name(args: &IntegrationAddArgs, hosts: &[String]) -> Result<EntryName, Failure> {
    let parts: Vec<&str> = hosts[0].split('.').collect();
    let told = parts.len().checked_sub(2).and_then(|at| parts.get(at)).copied();
    let text = args.name.as_deref().or(told).unwrap_or("api").to_ascii_lowercase();
    text.parse().map_err(|_| {
        let message = format!("`{text}` is not a name for an integration");
        Failure::new(FailureKind::Usage, message).hint("choose one with `--name`")
    })
}
