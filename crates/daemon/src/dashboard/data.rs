//! The databases of a room.

use hothouse_dashboard::{
    data::{DataPage, Rows, TableLine},
    page::{Head, render},
    place::Part,
};
use hothouse_ingress::html::Markup;
use hothouse_model::Failure;
use hothouse_reconcile::{in_room::InRoom, tables};

use super::{query_value, records};
use crate::{Daemon, routes::blocking};

/// Renders the tables of a database, and rows of the one that the query names.
pub(super) async fn page(daemon: &Daemon, head: &Head, query: &str) -> Option<Markup> {
    let mut page = DataPage {
        head,
        here: Some(Part::Data),
        databases: Vec::new(),
        service: None,
        tables: Vec::new(),
        has_rows: false,
        rows: None,
        step: tables::ROWS,
        problem: None,
    };
    if let Err(failure) = fill(daemon, &mut page, query).await {
        page.problem = Some(failure.message);
    }
    Some(render(&page))
}

async fn fill(daemon: &Daemon, page: &mut DataPage<'_>, query: &str) -> Result<(), Failure> {
    let (known, id) = (daemon.clone(), page.head.sandbox.clone().unwrap_or_default());
    let sandbox = blocking(move || Ok(records::sandbox(&known, &id))).await.ok().flatten();
    let Some(sandbox) = sandbox else { return Ok(()) };
    let room = InRoom::of(&daemon.engine, &daemon.keepers.connections, &sandbox).await?;
    page.databases = tables::databases(&room);
    let wanted = query_value(query, "service").filter(|name| page.databases.contains(name));
    // A database with rows by default, rather than a cache.
    let usual = page.databases.iter().find(|name| tables::has_rows(&room, name));
    let usual = usual.or(page.databases.first()).cloned();
    let Some(service) = wanted.or(usual) else { return Ok(()) };
    page.has_rows = tables::has_rows(&room, &service);
    page.service = Some(service.clone());
    let listed = tables::list(&room, &service).await?;
    let line = |table: tables::Table| TableLine { name: table.name, rows: table.rows };
    page.tables = listed.into_iter().map(line).collect();
    let Some(table) = query_value(query, "table").filter(|_| page.has_rows) else { return Ok(()) };
    let from = query_value(query, "from").and_then(|from| from.parse().ok()).unwrap_or(0);
    let tables::Rows { columns, rows, more } = tables::rows(&room, &service, &table, from).await?;
    page.rows = Some(Rows { table, columns, rows, from, more });
    Ok(())
}
