//! `up` of a running room: its services are updated to the config, or the room is replaced.

use hothouse_model::{
    SandboxRecord,
    config::{self, Config},
    stack::StackOrder,
};
use hothouse_workspace::content;

use super::{RoomRequestError, UpSpec};
use crate::{Engine, StepError};

impl Engine {
    /// Returns why a running room cannot be updated to the current config, if so.
    pub(super) fn why_replaced(
        &self,
        sandbox: &SandboxRecord,
        spec: &UpSpec,
    ) -> Result<Option<String>, RoomRequestError> {
        let runtime = self.places(sandbox).runtime;
        let (running, wall) = (self.with.rooms.stack(&runtime), self.with.rooms.wall(&runtime));
        let profile = running.as_ref().map_or(config::DEFAULT_PROFILE, |stack| &stack.profile);
        // Another profile is a conflict, or leaves the room running.
        if spec.profile.as_deref().is_some_and(|wanted| wanted != profile) {
            return Ok(None);
        }
        let config = self.pinned_config(sandbox)?;
        let now = settings_of_room(&config);
        // Rooms of earlier releases do not record it.
        if !wall.settings.is_empty() && wall.settings != now {
            let reason = "approved settings of `[room]`, `[secret]` or `[env]` need a new one";
            return Ok(Some(reason.to_owned()));
        }
        let tools = self.with.rooms.tools(&runtime);
        let stack = self.stack_for(sandbox, Some(profile), &tools, &wall)?;
        let known = running.unwrap_or_default();
        let has = |name: &str| known.services.iter().any(|service| service.name() == name);
        let added = stack.data.iter().find(|data| !has(&data.service));
        // The folder of its data can be mounted only in a new room.
        Ok(added.map(|data| format!("service `{}` needs storage for its data", data.service)))
    }

    /// Returns the profile of a start: the requested one, else that of the room it replaces.
    pub(super) fn profile_for(&self, sandbox: &SandboxRecord, spec: &UpSpec) -> Option<String> {
        let running = self.stack_of(sandbox).map(|stack| stack.profile);
        let running = running.filter(|profile| profile != config::DEFAULT_PROFILE);
        spec.profile.clone().or(running)
    }

    /// Updates the services of a running room to the current config.
    pub(super) fn up_again(
        &self,
        sandbox: &SandboxRecord,
        spec: &UpSpec,
    ) -> Result<(), RoomRequestError> {
        // Tightening is always safe; only a new start loosens.
        if spec.restrict {
            self.with.store.restrict_room(sandbox.key, true)?;
        }
        self.keep_wall(sandbox).map_err(StepError::from)?;
        let runtime = self.places(sandbox).runtime;
        let running = self.with.rooms.stack(&runtime);
        let profile = running.as_ref().map_or(config::DEFAULT_PROFILE, |stack| &stack.profile);
        if let Some(wanted) = spec.profile.as_deref().filter(|wanted| *wanted != profile) {
            self.check_profile(sandbox, wanted)?;
            return match spec.reuse {
                true => Ok(()),
                false => Err(RoomRequestError::OtherProfile {
                    name: sandbox.name.clone(),
                    profile: profile.to_owned(),
                }),
            };
        }
        let tools = self.with.rooms.tools(&runtime);
        let wall = self.with.rooms.wall(&runtime);
        let stack = self.stack_for(sandbox, Some(profile), &tools, &wall)?;
        let known = running.unwrap_or_default();
        self.reserve_for(sandbox, &stack.order)?;
        let nothing = |order: &StackOrder| order.services.is_empty() && order.hosted.is_empty();
        if !(nothing(&stack.order) && nothing(&known)) {
            self.with.rooms.supervise(&runtime, &stack.order)?;
        }
        Ok(())
    }
}

/// Returns the parts of a config that only a new room applies, in a comparable form.
pub(super) fn settings_of_room(config: &Config) -> String {
    let half = config.pinned_half();
    let terminates = !config.terminated_hosts().is_empty();
    let all = (&half.room, &half.secrets, &half.variables, terminates);
    content::key(&[serde_json::to_vec(&all).unwrap_or_default().as_slice()])
}
