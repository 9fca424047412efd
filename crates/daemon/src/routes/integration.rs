//! Integrations.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{ErrorBody, integration::IntegrationView, sandbox::FindQuery};
use hothouse_model::{Explain, Failure, SandboxRecord, query, record::Kind};
use hothouse_reconcile::timelines::RunPlace;
use hothouse_timeline::{Direction, Selection};

use super::{blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// The maximum number of counted records per integration.
const COUNTED: usize = 100_000;

#[utoipa::path(
    get, path = "/v1/integrations", operation_id = "integration_list", params(FindQuery),
    description = "Lists how outside services are treated, and how often the run asked for each.",
    responses((status = 200, body = [IntegrationView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<Vec<IntegrationView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let listed = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let reports = daemon.engine.integration_reports(&sandbox)?;
        let views = reports.into_iter().map(|report| {
            let records = counted(&daemon, &sandbox, &report.name)?;
            Ok(IntegrationView {
                records,
                name: report.name,
                class: report.class.into(),
                vendor: report.vendor,
                hosts: report.hosts,
                sdks: report.sdks,
                wiring: report.wiring,
                writes: report.writes,
                secret: report.secret,
                caveat: report.caveat,
            })
        });
        views.collect::<Result<Vec<_>, Failure>>()
    });
    listed.await.map(axum::Json)
}

/// Counts the requests to an integration in the last run.
fn counted(daemon: &Daemon, sandbox: &SandboxRecord, name: &str) -> Result<u64, Failure> {
    let Some(room) = &sandbox.room else { return Ok(0) };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    let Ok(reader) = daemon.keepers.timelines.reader(&place) else { return Ok(0) };
    let query = query::Query::parse(&format!("integration={name}"), Some(Kind::Request));
    let query = query.map_err(|error| error.failure())?;
    let (now, direction) = (daemon.engine.now(), Direction::OldestFirst);
    let selection = Selection { query, since: None, now, limit: COUNTED, direction };
    let records = reader.records(&selection).map_err(|error| error.failure())?;
    Ok(records.len() as u64)
}
