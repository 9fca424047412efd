//! Workspaces: diff, log, promote and size.

use std::{collections::BTreeMap, path::PathBuf};

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody, SandboxView,
    sandbox::FindQuery,
    workspace::{
        AdoptBody, CleanBody, CleanWord, CleanedView, CommitView, DiffView, FileChangeView,
        FindingView, GrantsQuery, GrantsView, LogView, PromoteBody, PromotedView, PromotionWord,
        ReviewQuery, RunLineView, SizeView,
    },
};
use hothouse_engine::{
    CleanWish, DeletedSandbox, Difference, Doing, Finding, GrantsAnswer, Merged, Promoted,
    Promotion, SandboxSizes,
};
use hothouse_model::{Failure, SandboxRecord, review::MergeKind};
use hothouse_reconcile::{room_diff, timelines::RunPlace};
use hothouse_store::RunLine;

use super::{
    Json, Operation, blocking,
    sandbox::{already, empty_trash, reference},
};
use crate::{
    Daemon,
    failure::{ErrorResponse, usage},
    room_api::Shown,
    view,
};

/// The maximum size of a diff.
const DIFF_LIMIT: usize = 16 << 20;

#[utoipa::path(
    get, path = "/v1/sandboxes/diff", operation_id = "sandbox_diff", params(ReviewQuery),
    responses((status = 200, body = DiffView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn diff(
    State(daemon): State<Daemon>,
    shown: Shown,
    Query(query): Query<ReviewQuery>,
) -> Result<axum::Json<DiffView>, ErrorResponse> {
    if shown.0.is_some() {
        return diff_of_room(daemon, query).await;
    }
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let shown = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let (base, difference) = daemon.engine.difference(&sandbox, query.base.as_deref())?;
        let truncated = difference.text.len() > DIFF_LIMIT;
        Ok(diff_view(base, difference, truncated))
    });
    shown.await.map(axum::Json)
}

/// Answers a room with the output of git in that room: on the host git could read what only the user may.
async fn diff_of_room(
    daemon: Daemon,
    query: ReviewQuery,
) -> Result<axum::Json<DiffView>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let engine = daemon.engine.clone();
    let found = blocking(move || {
        let sandbox = engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let base = engine.base_commit(&sandbox, query.base.as_deref())?;
        let closely = engine.look_closely(&sandbox)?;
        Ok((sandbox, base, closely))
    });
    let (sandbox, base, closely) = found.await?;
    let looked = room_diff::difference(&daemon.keepers, &sandbox, &base, DIFF_LIMIT).await;
    let (difference, truncated) = looked.map_err(ErrorResponse)?;
    Ok(axum::Json(diff_view(base, Difference { closely, ..difference }, truncated)))
}

fn diff_view(base: String, difference: Difference, truncated: bool) -> DiffView {
    let text = &difference.text[..difference.text.len().min(DIFF_LIMIT)];
    let files = difference.files.into_iter().map(|file| FileChangeView {
        path: file.path,
        added: file.added,
        removed: file.removed,
    });
    DiffView {
        base,
        files: files.collect(),
        look_closely: difference.closely.iter().map(finding_view).collect(),
        diff: String::from_utf8_lossy(text).into_owned(),
        truncated,
    }
}

#[utoipa::path(
    get, path = "/v1/sandboxes/log", operation_id = "sandbox_log", params(ReviewQuery),
    responses((status = 200, body = LogView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn log(
    State(daemon): State<Daemon>,
    Query(query): Query<ReviewQuery>,
) -> Result<axum::Json<LogView>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let shown = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let (base, commits) = daemon.engine.commits(&sandbox, query.base.as_deref())?;
        let commits = commits.into_iter().map(|commit| CommitView {
            id: commit.id,
            author: commit.author,
            date: commit.date,
            subject: commit.subject,
        });
        Ok(LogView { base, commits: commits.collect() })
    });
    shown.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/sandboxes/promote", operation_id = "sandbox_promote", request_body = PromoteBody,
    responses((status = 200, body = PromotedView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn promote(
    State(daemon): State<Daemon>,
    Json(body): Json<PromoteBody>,
) -> Result<axum::Json<PromotedView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let how = promotion(body.how);
    let answer = match (body.shown_grants, body.accept_grants) {
        (Some(shown), _) => GrantsAnswer::These(shown),
        (None, true) => GrantsAnswer::All,
        (None, false) => GrantsAnswer::None,
    };
    let promoted = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(body.folder))?;
        let environment: Vec<_> = body.environment.into_iter().collect();
        daemon.engine.promote(&sandbox, how, &answer, &environment)
    });
    promoted.await.map(|promoted| axum::Json(promoted_view(promoted)))
}

#[utoipa::path(
    get, path = "/v1/sandboxes/promote/grants", operation_id = "sandbox_promote_grants", params(GrantsQuery),
    responses((status = 200, body = GrantsView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn promoted_grants(
    State(daemon): State<Daemon>,
    Query(query): Query<GrantsQuery>,
) -> Result<axum::Json<GrantsView>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let found = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        daemon.engine.promoted_grants(&sandbox, promotion(query.how))
    });
    found.await.map(|grants| axum::Json(GrantsView { grants }))
}

fn finding_view(finding: &Finding) -> FindingView {
    FindingView { kind: finding.kind, path: finding.path.clone(), text: finding.to_string() }
}

fn promotion(word: PromotionWord) -> Promotion {
    match word {
        PromotionWord::Merge => Promotion::Merge,
        PromotionWord::Push => Promotion::Push,
        PromotionWord::Request => Promotion::Request,
    }
}

fn promoted_view(promoted: Promoted) -> PromotedView {
    let (merged, commit) = match promoted.merged {
        None => (None, None),
        Some(Merged::Nothing) => (Some(MergeKind::Nothing), None),
        Some(Merged::Forward { to }) => (Some(MergeKind::Forward), Some(to)),
        Some(Merged::Commit { id }) => (Some(MergeKind::Commit), Some(id)),
    };
    PromotedView {
        branch: promoted.branch,
        into: promoted.into,
        commits: promoted.commits,
        merged,
        commit,
        pushed_to: promoted.pushed_to,
        request: promoted.request,
        no_request: promoted.no_request,
        grants: promoted.grants,
        look_closely: promoted.closely.iter().map(finding_view).collect(),
        left_behind: promoted.left_behind.count,
        evidence: promoted.evidence.map(|page| page.to_string_lossy().into_owned()),
    }
}

#[utoipa::path(
    post, path = "/v1/sandboxes/adopt", operation_id = "sandbox_adopt", request_body = AdoptBody,
    responses((status = 200, body = SandboxView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn adopt(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<AdoptBody>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let name = body.name.as_deref().map(str::parse).transpose().map_err(|error| usage(&error))?;
    let done = already(&daemon, &id).await?;
    let adopted = blocking(move || {
        let folder = PathBuf::from(body.folder);
        let sandbox = match done {
            true => daemon.engine.find(None, &folder)?,
            false => daemon.engine.adopt(&folder, name, id)?,
        };
        Ok(view::sandbox(&daemon, sandbox))
    });
    adopted.await.map(axum::Json)
}

#[utoipa::path(
    get, path = "/v1/sizes", operation_id = "sizes", params(FindQuery),
    description = "Measures one sandbox, or all where none is named.",
    responses((status = 200, body = [SizeView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn sizes(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<Vec<SizeView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let measured = blocking(move || {
        let all = match wanted {
            Some(_) => vec![daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?],
            None => daemon.engine.sandboxes()?,
        };
        let sizes = |sandbox: &SandboxRecord| -> Result<_, Failure> {
            Ok(size_view(sandbox, &daemon.engine.size(sandbox)?))
        };
        let mut shown = all.iter().map(sizes).collect::<Result<Vec<_>, _>>()?;
        if wanted.is_none() {
            let trash = daemon.engine.deleted()?.into_iter();
            shown.extend(trash.map(|deleted| deleted_size(&daemon, deleted)));
        }
        Ok(shown)
    });
    measured.await.map(axum::Json)
}

fn size_view(sandbox: &SandboxRecord, sizes: &SandboxSizes) -> SizeView {
    let SandboxSizes { worktree, git, data, room, snapshots } = sizes;
    let parts = [
        ("worktree", worktree.total),
        ("git", *git),
        ("data", data.total),
        ("room", *room),
        ("snapshots", snapshots.total),
    ];
    let sum = sizes.sum();
    SizeView {
        project: sandbox.project.to_string(),
        name: sandbox.name.to_string(),
        tree_driver: sandbox.tree_driver,
        own: sum.own,
        shared: sum.shared,
        total: sum.total,
        parts: parts.map(|(part, bytes)| (part.to_owned(), bytes)).into(),
        deleted: None,
    }
}

/// Shows a sandbox in the trash among the others: it uses disk space until it expires.
fn deleted_size(daemon: &Daemon, deleted: DeletedSandbox) -> SizeView {
    let bytes = daemon.engine.bytes_of_deleted(&deleted).unwrap_or(0);
    SizeView {
        project: deleted.project,
        name: deleted.name,
        tree_driver: deleted.tree_driver,
        own: bytes,
        shared: 0,
        total: bytes,
        parts: BTreeMap::new(),
        deleted: Some(deleted.deleted),
    }
}

#[utoipa::path(
    post, path = "/v1/clean", operation_id = "clean", request_body = CleanBody,
    responses((status = 200, body = [CleanedView]))
)]
pub(crate) async fn clean(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<CleanBody>,
) -> Result<axum::Json<Vec<CleanedView>>, ErrorResponse> {
    let wish = match body.what {
        CleanWord::All => CleanWish::All,
        CleanWord::Merged => CleanWish::Merged,
        CleanWord::Runs => CleanWish::Runs,
        CleanWord::Trash => CleanWish::Trash,
    };
    let doing = if body.dry_run { Doing::Dry } else { Doing::Now };
    let cleaned = blocking(move || {
        let looked_at = daemon.engine.clean(wish, doing, &id)?;
        if doing == Doing::Now {
            let folders = daemon.engine.known_folders()?;
            folders.iter().for_each(|folder| empty_trash(&daemon, folder));
        }
        let shown = looked_at.into_iter().map(|item| CleanedView {
            what: item.what,
            goes: item.goes,
            reason: item.reason,
            bytes: item.bytes,
        });
        Ok(shown.collect())
    });
    cleaned.await.map(axum::Json)
}

#[utoipa::path(get, path = "/v1/runs", operation_id = "runs", responses((status = 200, body = [RunLineView])))]
pub(crate) async fn runs(
    State(daemon): State<Daemon>,
    shown: Shown,
) -> Result<axum::Json<Vec<RunLineView>>, ErrorResponse> {
    let listed = blocking(move || {
        let mut runs = daemon.engine.runs()?;
        if let Shown(Some(own)) = shown {
            let own = daemon.engine.sandbox(own)?.map(|sandbox| sandbox.id.to_string());
            runs.retain(|run| own.is_some() && run.sandbox_id == own);
        }
        let view = |run: RunLine| {
            let place = RunPlace { run: run.id.clone(), folder: run.artifacts.clone() };
            RunLineView {
                records: daemon.keepers.timelines.records(&place).unwrap_or(run.records),
                bytes: daemon.engine.bytes_of_run(&run),
                id: run.id,
                sandbox: run.sandbox,
                project: run.project,
                started: run.started,
                ended: run.ended,
                scenario: run.scenario,
                ok: run.ok,
                artifacts: run.artifacts.to_string_lossy().into_owned(),
            }
        };
        Ok(runs.into_iter().map(view).collect())
    });
    listed.await.map(axum::Json)
}
