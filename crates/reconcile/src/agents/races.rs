//! Stored races, so that the next daemon continues one that was interrupted.
//!
//! The name of a race is derived from the operation that requested it, and the names of its
//! sandboxes from that. So every step can be repeated: existing sandboxes are not created again,
//! started agents are not started again.

use std::{path::PathBuf, sync::Arc};

use hothouse_host::files;
use hothouse_model::{
    Explain, Failure, OperationId,
    agent::RaceView,
    id::{fnv1a, hex},
};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::JoinSet};

use super::{Agents, RaceWish, race};
use crate::{Keepers, Stop, proofs::Asker};

/// The stored record of a race.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptRace {
    pub(super) name: String,
    operation: OperationId,
    pub(super) wish: RaceWish,
    /// The common start of all sides, once determined.
    pub(super) base: Option<String>,
    ended: Option<Result<RaceView, Failure>>,
}

/// Returns the name of the race of an operation.
fn name_of(operation: &OperationId) -> String {
    let digest = fnv1a(&[operation.as_str().as_bytes()]).to_be_bytes();
    format!("race-{}", hex(&digest[..3]))
}

impl Agents {
    fn race_file(&self, name: &str) -> PathBuf {
        self.with.folder.join("races").join(format!("{name}.json"))
    }

    fn kept_race(&self, name: &str) -> Option<KeptRace> {
        let text = files::read_capped(&self.race_file(name), 16 << 20).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn keep_race(&self, kept: &KeptRace) -> Result<(), Failure> {
        let file = self.race_file(&kept.name);
        let folder = file.parent().unwrap_or(&file);
        files::make_private_folder(folder).map_err(|error| error.failure())?;
        let text = serde_json::to_vec(kept).expect("a race has text as keys");
        files::replace(&file, &text, 0o600).map_err(|error| error.failure())
    }

    fn kept_races(&self) -> Vec<KeptRace> {
        let listed = files::list(&self.with.folder.join("races")).unwrap_or_default();
        let names = listed.iter().filter_map(|path| path.file_stem()?.to_str());
        names.filter_map(|name| self.kept_race(name)).collect()
    }

    /// Returns the races whose sandboxes exist, with the results of those that have ended.
    pub fn races(&self) -> Vec<(String, Option<Result<RaceView, Failure>>)> {
        self.kept_races().into_iter().map(|kept| (kept.name, kept.ended)).collect()
    }

    /// Returns the result of a race, if it has ended.
    pub fn race_of(&self, name: &str) -> Option<Result<RaceView, Failure>> {
        let is_name = name.strip_prefix("race-").is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        if is_name { self.kept_race(name)?.ended } else { None }
    }
}

/// Runs a race to its end, unless it has ended or is already running.
pub(super) async fn once(
    keepers: &Keepers,
    wish: RaceWish,
    operation: OperationId,
) -> Result<RaceView, Failure> {
    let name = name_of(&operation);
    let turn = keepers.agents.race_turn(&name);
    let _turn = turn.lock().await;
    let known = keepers.agents.kept_race(&name).filter(|kept| kept.operation == operation);
    let mut kept = known.unwrap_or_else(|| KeptRace {
        name,
        operation: operation.clone(),
        wish,
        base: None,
        ended: None,
    });
    if let Some(ended) = kept.ended {
        return ended;
    }
    keepers.agents.keep_race(&kept)?;
    // No client needs to wait: a race continues without it.
    let (_waiting, left) = watch::channel(false);
    let ended = race::run_all(keepers, &mut kept, &Asker { operation, left }).await;
    kept.ended = Some(ended.clone());
    keepers.agents.keep_race(&kept)?;
    ended
}

/// Continues the races that an earlier daemon started, and removes those whose sandboxes are gone.
pub(crate) async fn go_on(keepers: Keepers, mut stop: Stop) {
    let agents: Arc<Agents> = keepers.agents.clone();
    let sandboxes = keepers.engine.sandboxes().unwrap_or_default();
    let names: Vec<String> = sandboxes.iter().map(|sandbox| sandbox.name.to_string()).collect();
    // Before a race queries them.
    sandboxes.iter().for_each(|sandbox| agents.follow_active(sandbox));
    let mut running = JoinSet::new();
    for kept in agents.kept_races() {
        if kept.ended.is_none() {
            tracing::info!(race = kept.name, "a race of an earlier daemon goes on");
            let all = keepers.clone();
            running.spawn(async move { once(&all, kept.wish, kept.operation).await });
        } else if !names.iter().any(|name| name.starts_with(&format!("{}-", kept.name))) {
            files::remove_file(&agents.race_file(&kept.name)).ok();
        }
    }
    let all = async {
        while let Some(ended) = running.join_next().await {
            if let Ok(Err(failure)) = ended {
                tracing::warn!(message = failure.message, "a race of an earlier daemon failed");
            }
        }
    };
    tokio::select! {
        () = all => {}
        () = stop.told() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_operation_is_the_same_race() {
        let operation = OperationId::from_random([7; 12]);
        assert_eq!(name_of(&operation), name_of(&operation.clone()));
        assert_ne!(name_of(&operation), name_of(&OperationId::from_random([8; 12])));
        let sandbox = format!("{}-8", name_of(&operation));
        assert!(sandbox.parse::<hothouse_model::SandboxName>().is_ok(), "{sandbox}");
    }
}
