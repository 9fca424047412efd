//! `routes`.

use std::process::ExitCode;

use hothouse_api::{
    route,
    routes::{RouteView, RoutesQuery},
};
use hothouse_model::Failure;

use super::timeline::checked;
use crate::{
    args::RoutesArgs,
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Lists the paths of apps.
pub(crate) fn list(session: &Session, ui: &Ui, args: RoutesArgs) -> Result<ExitCode, Failure> {
    let (sandbox, folder) = (checked(args.which)?, session.folder_text()?);
    let query = RoutesQuery { sandbox, folder, app: args.app, ask: args.ask };
    let routes: Vec<RouteView> = session.query(route::ROUTES, &query)?;
    match ui.json {
        true => ui.print_json(&routes),
        false if routes.is_empty() => ui.say("No routes were found in the source."),
        false => {
            let rows = routes.iter().map(row).collect();
            ui.print(&table(ui, &["APP", "METHODS", "PATH", "SOURCE"], rows));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(route: &RouteView) -> Vec<Cell> {
    vec![
        Cell::new(route.app.as_deref().unwrap_or("-")),
        Cell::new(route.methods.join(",")).tone(Tone::Faint),
        Cell::new(&route.path).tone(Tone::Strong),
        Cell::new(&route.source).tone(Tone::Faint),
    ]
}
