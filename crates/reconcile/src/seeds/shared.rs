//! Seeded stacks that sandboxes share: what a snapshot contains besides data, and how it is
//! created.

use std::{os::unix::ffi::OsStrExt, time::Duration};

use hothouse_engine::{ARCHIVE_LIMIT, Engine, SeedOrigin, SeedParts, SeedRole};
use hothouse_model::{
    Failure, SandboxRecord,
    query::Query,
    record::Kind,
    seed::{CONTEXT_FILE, FOLDER, STATE_FILE},
    stack::{ServiceAction, ServiceOrder},
};
use hothouse_timeline::{Direction, Selection};
use jiff::Timestamp;

use super::{LABEL, Seeding, Seeds, blocking, bundle::scheme};
use crate::{
    Timelines,
    in_room::{InRoom, RoomTask},
    timelines::RunPlace,
};

/// Records of foreign activity in a room: with any of them, its data must not become a shared
/// snapshot.
const FOREIGN: [Kind; 5] = [Kind::Exec, Kind::Browser, Kind::Agent, Kind::Restore, Kind::Commit];

/// The time limit for restarting a service.
const RESTART: Duration = Duration::from_secs(120);

/// Unpacks an archive, and reports whether it replaces existing files other than the seed's own.
const UNPACK: &str = r#"all=$(mktemp) || exit 1; cat >"$all"
tar -tf "$all" | while IFS= read -r name; do
  case $name in "./$1/"*) ;; *) [ ! -e "$name" ] || { echo REPLACED; break; } ;; esac
done
tar -xf "$all" --no-same-owner; ended=$?; rm -f "$all"; exit $ended"#;
const REPLACED: &str = "REPLACED";

impl Seeding<'_> {
    /// Unpacks the files of the snapshot that the run's data came from; returns its key, if there
    /// is one.
    pub(super) async fn unpack(&self) -> Option<String> {
        let origin = self.origin(SeedRole::Copied).await?;
        let (engine, own, key) =
            (self.seeds.engine.clone(), self.sandbox().clone(), origin.key.clone());
        let archive = blocking(move || Ok(engine.seed_archive(&own, &key))).await.ok()??;
        let mut task = RoomTask::shell(UNPACK).with_arguments([FOLDER]);
        (task.label, task.stdin, task.folder) = (LABEL, archive, Some(".".into()));
        match self.room.run(task).await {
            Ok(ended) if ended.is_ok() => {
                let key = origin.key.clone();
                if ended.stdout.text().contains(REPLACED) {
                    self.restart_apps().await;
                }
                self.settle_origin(SeedOrigin { role: SeedRole::Restored, ..origin });
                self.say(format!("the data is from snapshot {}", &key[..key.len().min(12)]));
                Some(key)
            }
            // Without its state the bundles run again on data that already contains theirs; they
            // are idempotent.
            other => {
                tracing::warn!(?other, "the files of a seed's snapshot were not unpacked");
                None
            }
        }
    }

    /// Restarts the services without data of their own: a file that one of them had open, such as
    /// an SQLite database, was replaced.
    async fn restart_apps(&self) {
        let has_files = |one: &&ServiceOrder| one.database.is_none() && one.sink.is_none();
        let services = self.room.stack.services.iter().filter(has_files);
        let names: Vec<String> = services.map(|one| one.name().to_owned()).collect();
        for name in names {
            let (engine, own) = (self.seeds.engine.clone(), self.sandbox().clone());
            self.say(format!("restart {name}: its files are those of the snapshot now"));
            let restarted = blocking(move || {
                engine.act_on_service(&own, &name, ServiceAction::Restart, RESTART)
            });
            if let Err(failure) = restarted.await {
                tracing::warn!(
                    ?failure,
                    "a service was not restarted after its files were replaced"
                );
            }
        }
    }

    async fn origin(&self, role: SeedRole) -> Option<SeedOrigin> {
        let (engine, own) = (self.seeds.engine.clone(), self.sandbox().clone());
        let origin = blocking(move || Ok(engine.seed_origin(&own))).await.ok()??;
        (origin.role == role).then_some(origin)
    }

    fn settle_origin(&self, origin: SeedOrigin) {
        let Some(room) = &self.sandbox().room else { return };
        if let Err(error) = self.seeds.engine.note_seed_origin(&room.run, &origin) {
            tracing::warn!(%error, "where the data of a run came from was not noted");
        }
    }

    /// Stores what was seeded for other sandboxes, if it depends only on the project's files.
    pub(super) async fn share(&self, begun: Timestamp) {
        let Some(origin) = self.origin(SeedRole::Candidate).await else { return };
        if origin.manifest.bundles.is_empty() {
            return;
        }
        // In any case, later seedings of this run depend on more.
        self.settle_origin(SeedOrigin { role: SeedRole::Settled, ..origin.clone() });
        let all_there =
            origin.manifest.bundles.iter().all(|name| self.state.bundles.contains_key(name));
        if !all_there || self.is_foreign() || self.names_itself() {
            return;
        }
        let kept = self.keep(&origin, begun).await;
        self.seeds.show_running(self.sandbox()).await;
        match kept {
            Ok(true) => tracing::info!(key = origin.key, "seeded data is kept for other sandboxes"),
            Ok(false) => {
                tracing::info!("seeded data is not kept: the files have changed meanwhile")
            }
            Err(failure) => tracing::warn!(?failure, "seeded data was not kept"),
        }
    }

    async fn keep(&self, origin: &SeedOrigin, begun: Timestamp) -> Result<bool, Failure> {
        let (engine, own) = (self.seeds.engine.clone(), self.sandbox().clone());
        let names = blocking(move || engine.ignored_since(&own, begun)).await?;
        let Some(names) = names else { return Ok(false) };
        let own = [CONTEXT_FILE, STATE_FILE].map(|name| format!("./{FOLDER}/{name}").into_bytes());
        let is_other = |name: &&std::path::PathBuf| !name.starts_with(FOLDER);
        let others =
            names.iter().filter(is_other).map(|name| [b"./", name.as_os_str().as_bytes()].concat());
        let list: Vec<u8> =
            own.into_iter().chain(others).flat_map(|name| [name, vec![0]].concat()).collect();
        let mut task =
            RoomTask::shell("exec tar -cf - --null --no-recursion --ignore-failed-read -T -");
        (task.label, task.stdin, task.keep) = (LABEL, list, ARCHIVE_LIMIT);
        task.folder = Some(".".into());
        let archive = self.room.run(task).await?;
        if !archive.is_ok() || archive.stdout.is_cut() {
            return Ok(false);
        }
        // Before the data is copied, so that it contains their sessions.
        let sign_in = self.seeds.browsers.states_to_share(self.sandbox()).await;
        checkpoint(&self.room).await;
        let (engine, own, origin) =
            (self.seeds.engine.clone(), self.sandbox().clone(), origin.clone());
        let timelines = self.seeds.timelines.clone();
        blocking(move || {
            // Checked again after copying: a command may have started meanwhile.
            let is_still_ours = || !is_foreign(&engine, &timelines, &own);
            let parts = SeedParts { archive: archive.stdout.head, sign_in };
            engine.keep_seeded(&own, &origin, &parts, &is_still_ours)
        })
        .await
    }

    fn is_foreign(&self) -> bool {
        is_foreign(&self.seeds.engine, &self.seeds.timelines, self.sandbox())
    }

    /// Whether bundles stored the sandbox's name, as in a URL: no other sandbox can use such data.
    fn names_itself(&self) -> bool {
        let sandbox = self.sandbox();
        let told = serde_json::to_string(&self.context).unwrap_or_default();
        told.contains(&format!(".{}.{}.localhost", sandbox.name, sandbox.label))
            || told.contains(sandbox.id.as_str())
    }
}

impl Seeds {
    /// Updates the URLs of a sandbox: its room was paused while its data was copied, so its apps may still be shown as
    /// paused.
    async fn show_running(&self, sandbox: &SandboxRecord) {
        if let Some(urls) = self.urls.get() {
            urls.refresh_one(sandbox).await;
        }
    }

    /// Stores the data of databases after the first `up` of a sandbox without seeds, so that the
    /// next one with the same files starts with its migrations done.
    pub async fn keep_migrated(&self, sandbox: &SandboxRecord) {
        let turn = self.turn(sandbox.key);
        let _turn = turn.lock().await;
        let (engine, own) = (self.engine.clone(), sandbox.clone());
        let origin = blocking(move || Ok(engine.seed_origin(&own))).await.ok().flatten();
        let is_meant = |origin: &SeedOrigin| {
            origin.role == SeedRole::Candidate && origin.manifest.bundles.is_empty()
        };
        let (Some(origin), Some(room)) = (origin.filter(is_meant), &sandbox.room) else { return };
        let settled = SeedOrigin { role: SeedRole::Settled, ..origin.clone() };
        if let Err(error) = self.engine.note_seed_origin(&room.run, &settled) {
            return tracing::warn!(%error, "where the data of a run came from was not noted");
        }
        let Ok(room) = InRoom::of(&self.engine, &self.connections, sandbox).await else { return };
        checkpoint(&room).await;
        let (engine, own, timelines) =
            (self.engine.clone(), sandbox.clone(), self.timelines.clone());
        let kept = blocking(move || {
            let is_still_ours = || !is_foreign(&engine, &timelines, &own);
            match is_still_ours() {
                true => engine.keep_seeded(&own, &origin, &SeedParts::default(), &is_still_ours),
                false => Ok(false),
            }
        });
        let kept = kept.await;
        self.show_running(sandbox).await;
        match kept {
            Ok(true) => tracing::info!("data after migrations is kept for other sandboxes"),
            Ok(false) => tracing::info!("data after migrations is not kept: it depends on more"),
            Err(failure) => tracing::warn!(?failure, "data after migrations was not kept"),
        }
    }
}

/// Makes databases flush their data, so that copies of it start quickly.
async fn checkpoint(room: &InRoom) {
    for service in room.stack.services.iter().filter(|service| service.database.is_some()) {
        let script = match scheme(service) {
            "postgres" => "exec psql -X -q -c CHECKPOINT",
            _ => continue,
        };
        let mut task = RoomTask::shell(script).of_service(service.name());
        (task.label, task.timeout) = (LABEL, Duration::from_secs(30));
        room.run(task).await.ok();
    }
}

/// Whether anything but services and bundles ran in a room, or may have run unrecorded.
fn is_foreign(engine: &Engine, timelines: &Timelines, sandbox: &SandboxRecord) -> bool {
    let Some(room) = &sandbox.room else { return true };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    let Ok(reader) = timelines.reader(&place) else { return true };
    let now = engine.now();
    let happened = |kind| {
        let query = Query::parse("", Some(kind)).expect("nothing is a query");
        let selection =
            Selection { query, since: None, now, limit: 1, direction: Direction::NewestFirst };
        reader.records(&selection).map_or(true, |found| !found.is_empty())
    };
    timelines.lost(&place) > 0 || FOREIGN.into_iter().any(happened)
}
