//! `integrations`: how outside services are treated.

use std::process::ExitCode;

use hothouse_api::{integration::IntegrationView, route, sandbox::FindQuery};
use hothouse_model::Failure;

use super::timeline::checked;
use crate::{
    args::Which,
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Lists integrations.
pub(crate) fn list(session: &Session, ui: &Ui, which: Which) -> Result<ExitCode, Failure> {
    let query = FindQuery { sandbox: checked(which)?, folder: session.folder_text()? };
    let all: Vec<IntegrationView> = session.query(route::INTEGRATIONS, &query)?;
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
        Cell::new(&one.class),
        Cell::new(&one.wiring),
        Cell::new(writes.0).tone(writes.1),
        Cell::new(one.records.to_string()),
        Cell::new(&one.secret),
        Cell::new(one.hosts.join(" ")),
    ]
}
