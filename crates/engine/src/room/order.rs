//! What a room is made of: its order, from the granting config and the files of the sandbox.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, files};
use hothouse_model::{
    OperationId, SandboxRecord,
    caveat::Caveat,
    config::{self, Config},
    glob,
    room::{RoomMount, RoomOrder, RoomWall},
};

use super::{RoomPlaces, RoomRequestError, again::settings_of_room, aliases, room_id};
use crate::{Engine, masks, stacks::Rebuild, trees};

impl Engine {
    pub(super) fn order(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Result<RoomOrder, RoomRequestError> {
        if config.room.backend != self.with.rooms.capabilities().backend {
            return Err(RoomRequestError::Backend { backend: config.room.backend.as_str() });
        }
        if !files::exists(&sandbox.worktree) {
            return Err(RoomRequestError::NoWorktree { path: sandbox.worktree.clone() });
        }
        self.mend_pointer(sandbox)?;
        self.settle_owners(sandbox)?;
        let secrets = self.found_secrets(sandbox).into_iter();
        let mut masks: Vec<_> = secrets.map(|path| sandbox.worktree.join(path)).collect();
        let RoomPlaces { runtime, storage, claim } = self.places(sandbox);
        let mounts = config.room.mounts.iter().map(|mount| RoomMount {
            source: self.expand(mount.source.as_str()),
            target: self.expand(mount.target.as_ref().unwrap_or(&mount.source).as_str()),
            writable: mount.write,
            own: false,
        });
        let mounts: Vec<_> = mounts.collect();
        let tools: Vec<_> =
            config.room.tools.iter().map(|tool| self.expand(tool.as_str())).collect();
        let granted: Vec<_> =
            tools.iter().chain(mounts.iter().map(|mount| &mount.source)).collect();
        let (mask, unmask) = mask_patterns(config);
        masks.extend(self.masks_of_the_host(&mask, &unmask, &granted)?);
        Ok(RoomOrder {
            id: room_id(sandbox.name.as_str(), &runtime),
            sandbox: Some(sandbox.key),
            hostname: sandbox.name.to_string(),
            names: Vec::new(),
            worktree: sandbox.worktree.clone(),
            aliases: aliases(sandbox),
            storage,
            runtime,
            tools,
            mounts,
            masks,
            git: Some(self.room_git(sandbox)?),
            memory: Some(config.room.memory.bytes()),
            cpus: Some(config.room.cpus),
            pids: Some(config.room.pids),
            disk: Some(config.room.disk.bytes()),
            ephemeral: false,
            wall: RoomWall::default(),
            claim: Some(claim),
            layers: trees::layers(sandbox),
        })
    }

    pub(super) fn give_wall(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
        order: &mut RoomOrder,
        operation: Option<&OperationId>,
    ) -> Result<(), RoomRequestError> {
        let (wall, mounts) = self.wall_for(sandbox, config)?;
        order.wall = wall;
        let (name, root) = (self.stack_name(sandbox), Some(sandbox.repository.root.as_path()));
        order.wall.stack = self.ensure_stack(&name, root, Rebuild::IfMissing, operation)?;
        order.wall.settings = settings_of_room(config);
        order.wall.caveats.extend(masked(&order.worktree, &order.masks));
        order.mounts.extend(mounts);
        Ok(self.give_managers(sandbox, &config.room, order)?)
    }

    /// Returns secrets of the host in granted folders: a tool folder may contain one.
    fn masks_of_the_host(
        &self,
        mask: &[String],
        unmask: &[String],
        granted: &[&PathBuf],
    ) -> Result<Vec<PathBuf>, FileError> {
        let of_the_host =
            |pattern: &&String| pattern.starts_with(['/', '~']) && !unmask.contains(pattern);
        let mut masks = Vec::new();
        for pattern in mask.iter().filter(of_the_host) {
            let found = matches_of(&self.expand(pattern))?;
            masks.extend(
                found
                    .into_iter()
                    .filter(|path| granted.iter().any(|folder| path.starts_with(folder))),
            );
        }
        Ok(masks)
    }

    pub(crate) fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some(rest) => self.with.home.join(rest.trim_start_matches('/')),
            None => path.into(),
        }
    }
}

/// Reports the files of a worktree that are masked in its room.
fn masked(worktree: &Path, masks: &[PathBuf]) -> Option<Caveat> {
    let own = masks.iter().filter_map(|mask| mask.strip_prefix(worktree).ok());
    masks::listed(own).map(|files| Caveat::Masked { files })
}

fn mask_patterns(config: &Config) -> (Vec<String>, Vec<String>) {
    let patterns = |list: &[config::FilePattern]| {
        list.iter().map(|pattern| pattern.as_str().to_owned()).collect()
    };
    (patterns(&config.room.mask), patterns(&config.room.unmask))
}

/// Returns the existing paths that match a pattern in the last component.
fn matches_of(pattern: &Path) -> Result<Vec<PathBuf>, FileError> {
    let wanted = pattern.file_name().unwrap_or_default().as_encoded_bytes();
    if !glob::is_wild(wanted) {
        return Ok(files::exists(pattern).then(|| pattern.to_owned()).into_iter().collect());
    }
    let beside = files::list(pattern.parent().unwrap_or(pattern))?;
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // A literal name with a bracket is masked too.
        name == wanted || glob::fits(wanted, name)
    };
    Ok(beside.into_iter().filter(fits).collect())
}

#[cfg(test)]
mod tests;
