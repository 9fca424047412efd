//! The egress policy of a room: the pinned config, what the user has allowed since, and how the
//! room was started. Also pending changes of the pinned half.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use hothouse_config::MAX_BYTES;
use hothouse_host::FileError;
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    config::{
        self, Config, Destination, Egress, EgressMode, HostName, HostPattern, Hosts,
        IntegrationClass, PendingChange, RuleTransport, pending_changes,
    },
    policy::AnsweredHere,
};
use hothouse_store::{EgressGrant, GrantReach, StoreError};

use crate::{
    Engine,
    project::{CONFIG_FILE, ProjectError},
    trees,
};

/// The folder of the ledger, among the logs of a sandbox; no service can have this name.
const LEDGER: &str = ".egress";

/// The parameters of a room's wall.
#[derive(Clone, Debug, PartialEq)]
pub struct RoomEgress {
    pub egress: Egress,
    pub granted: Vec<Destination>,
    /// The hosts whose TLS is terminated.
    pub terminated: Vec<HostPattern>,
    /// The hosts that are never dialled.
    pub answered_here: AnsweredHere,
    /// The names of services.
    pub own_names: Vec<String>,
    /// In the form that `-w` accepts.
    pub sandbox: String,
    pub run: String,
    pub ledger: PathBuf,
}

/// A config of the worktree with changes that a user must approve.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingConfig {
    pub changes: Vec<PendingChange>,
    /// The text that would be pinned.
    pub text: String,
}

/// An egress change that is not possible.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    #[error("`{rule}` is not a valid egress rule: {why}")]
    Rule { rule: String, why: String },
    #[error(
        "`{rule}` belongs to the integration `{integration}` of class `{class}`, which no rule opens"
    )]
    Covered { rule: String, integration: String, class: IntegrationClass },
    #[error("`{rule}` was not allowed with `egress allow`")]
    Unknown { rule: String },
    #[error("the config has changed since it was shown")]
    Changed,
    #[error("the worktree has no {CONFIG_FILE} to approve")]
    NoConfig,
    #[error("the worktree's {CONFIG_FILE} is not text")]
    NotText,
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

hothouse_model::explain! {
    EgressError passes on Project, File, Store;
    kind {
        Self::Rule { .. } => FailureKind::Usage,
        Self::Unknown { .. } | Self::NoConfig => FailureKind::NotFound,
        Self::Covered { .. } | Self::Changed => FailureKind::Conflict,
        Self::NotText => FailureKind::Config,
    }
    hints {
        Self::Rule { .. } => vec![
            "a rule is a host, `*.host`, `host:port` or a block such as `10.0.0.0/8`".into(),
        ],
        Self::Covered { integration, .. } => vec![format!(
            "change `class` in `[integration.{integration}]` of {CONFIG_FILE}, then run `hothouse config approve`"
        )],
        Self::Unknown { .. } => {
            vec!["`hothouse egress allow` without a host lists what was allowed".into()]
        }
        Self::Changed => vec!["review it again: `hothouse config approve`".into()],
        Self::NoConfig | Self::NotText => Vec::new(),
    }
}

impl Engine {
    /// Computes the egress policy of a sandbox's room. `recorded` names the integration whose
    /// responses are being recorded, if any.
    pub fn room_egress(
        &self,
        sandbox: &SandboxRecord,
        recorded: Option<&str>,
    ) -> Result<RoomEgress, Failure> {
        let find = || -> Result<RoomEgress, EgressError> {
            let config = recording(self.pinned_config(sandbox)?, recorded);
            let mut egress = config.egress.clone();
            if sandbox.room.as_ref().is_some_and(|room| room.restricted) {
                egress.mode = EgressMode::Allowlist;
            }
            let grants = self.with.store.egress_grants(sandbox.key)?;
            let granted = grants.iter().filter_map(|grant| grant.rule.parse().ok());
            let stack = self.with.rooms.stack(&self.places(sandbox).runtime).unwrap_or_default();
            Ok(RoomEgress {
                egress,
                granted: granted.collect(),
                terminated: config.terminated_hosts(),
                answered_here: AnsweredHere::of(&config),
                own_names: stack.services.into_iter().map(|service| service.spec.name).collect(),
                sandbox: format!("{}/{}", sandbox.project, sandbox.name),
                run: sandbox.room.as_ref().map(|room| room.run.id.clone()).unwrap_or_default(),
                ledger: self.ledger_of(sandbox),
            })
        };
        find().map_err(|error| error.failure())
    }

    /// Returns where the ledger of a sandbox is.
    pub fn ledger_of(&self, sandbox: &SandboxRecord) -> PathBuf {
        self.logs_of(sandbox).join(LEDGER)
    }

    /// Returns what a user has allowed in addition to the config.
    pub fn egress_grants(&self, sandbox: &SandboxRecord) -> Result<Vec<EgressGrant>, Failure> {
        self.with.store.egress_grants(sandbox.key).map_err(|error| error.failure())
    }

    /// Allows hosts for a sandbox or its whole project: all of them, or none if one is not a valid
    /// rule.
    pub fn allow_egress(
        &self,
        sandbox: &SandboxRecord,
        reach: GrantReach,
        rules: &[String],
    ) -> Result<(), Failure> {
        let allow = || -> Result<(), EgressError> {
            let rules = rules.iter().map(|rule| grant(rule)).collect::<Result<Vec<_>, _>>()?;
            let config = self.pinned_config(sandbox)?;
            rules.iter().try_for_each(|rule| opens_something(&config, rule))?;
            let now = self.with.clock.now();
            Ok(self.with.store.grant_egress(sandbox.key, reach, &rules, now)?)
        };
        allow().map_err(|error| error.failure())
    }

    /// Checks that a rule could be allowed for a sandbox; returns its normalized form, which
    /// reveals look-alike letters of other alphabets.
    pub(crate) fn check_egress_rule(
        &self,
        sandbox: &SandboxRecord,
        rule: &str,
    ) -> Result<String, Failure> {
        let check = || -> Result<String, EgressError> {
            let config = self.pinned_config(sandbox)?;
            let rule = grant(rule)?;
            opens_something(&config, &rule)?;
            Ok(rule)
        };
        check().map_err(|error| error.failure())
    }

    /// Returns the integration of a sandbox that handles a host, and its class.
    pub fn integration_of(
        &self,
        sandbox: &SandboxRecord,
        host: &HostName,
    ) -> Result<Option<(String, IntegrationClass)>, Failure> {
        let config = self.pinned_config(sandbox).map_err(|error| error.failure())?;
        Ok(config.integration_of(host).map(|(name, one)| (name.to_string(), one.class)))
    }

    /// Revokes what a user allowed.
    pub fn revoke_egress(
        &self,
        sandbox: &SandboxRecord,
        reach: GrantReach,
        rules: &[String],
    ) -> Result<(), Failure> {
        let revoke = || -> Result<(), EgressError> {
            let rules = rules.iter().map(|rule| grant(rule)).collect::<Result<Vec<_>, _>>()?;
            let known = self.with.store.egress_grants(sandbox.key)?;
            let whole = reach == GrantReach::Project;
            let is_known = |rule: &&String| {
                known.iter().any(|grant| grant.rule == **rule && grant.whole_project == whole)
            };
            if let Some(rule) = rules.iter().find(|rule| !is_known(rule)) {
                return Err(EgressError::Unknown { rule: rule.clone() });
            }
            self.with.store.revoke_egress(sandbox.key, reach, &rules)?;
            Ok(())
        };
        revoke().map_err(|error| error.failure())
    }

    /// Returns the changes of the worktree's config in the pinned half.
    pub fn pending_config(&self, sandbox: &SandboxRecord) -> Result<PendingConfig, Failure> {
        self.try_pending(sandbox).map_err(|error| error.failure())
    }

    fn try_pending(&self, sandbox: &SandboxRecord) -> Result<PendingConfig, EgressError> {
        let text = self.worktree_text(sandbox)?.ok_or(EgressError::NoConfig)?;
        let base = self.pinned_config(sandbox)?;
        let asked = self.config_of(&text)?;
        Ok(PendingConfig { changes: pending_changes(&base, &asked), text })
    }

    /// Pins the worktree's config, if it is still the text that the user has seen.
    pub fn approve_config(&self, sandbox: &SandboxRecord, seen: &str) -> Result<(), Failure> {
        let approve = || -> Result<(), EgressError> {
            let pending = self.try_pending(sandbox)?;
            if pending.text != seen {
                return Err(EgressError::Changed);
            }
            self.with.store.pin_config(sandbox.key, &pending.text)?;
            self.approve_settings(&sandbox.repository.common_dir, &pending.text)?;
            self.describe_again(sandbox.key);
            Ok(())
        };
        approve().map_err(|error| error.failure())
    }

    /// Pins the worktree's config if its pinned half equals the user's own on the base branch: a
    /// human wrote it, so it needs no approval.
    pub(crate) fn take_users_config(&self, sandbox: &SandboxRecord) -> Result<(), EgressError> {
        // Whoever needs the config reports its errors.
        let Ok(pending) = self.try_pending(sandbox) else { return Ok(()) };
        if pending.changes.is_empty() || !self.is_users_own(sandbox, &pending.text) {
            return Ok(());
        }
        self.with.store.pin_config(sandbox.key, &pending.text)?;
        self.describe_again(sandbox.key);
        Ok(())
    }

    /// Whether the user wrote the same pinned half, on the branch that the sandbox is based on.
    fn is_users_own(&self, sandbox: &SandboxRecord, text: &str) -> bool {
        let Ok(asked) = self.config_of(text) else { return false };
        let users = self.untainted_users_configs(sandbox);
        let is_same = |own: &String| {
            self.config_of(own).is_ok_and(|own| pending_changes(&own, &asked).is_empty())
        };
        users.iter().any(is_same)
    }

    fn worktree_text(&self, sandbox: &SandboxRecord) -> Result<Option<String>, EgressError> {
        let folder = trees::open_worktree(sandbox)?;
        match folder.read_capped(Path::new(CONFIG_FILE), MAX_BYTES as u64 + 1) {
            Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| EgressError::NotText),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the effective config while the responses of an integration are recorded.
pub(crate) fn recording(config: Arc<Config>, recorded: Option<&str>) -> Arc<Config> {
    recorded.map_or(config.clone(), |name| Arc::new(config.recording(name)))
}

/// Rejects a rule for a single host that an integration answers for: it would have no effect.
fn opens_something(config: &Config, rule: &str) -> Result<(), EgressError> {
    let destination = rule.parse::<Destination>().ok();
    let Some(Hosts::Pattern(HostPattern::Name(host))) = destination.map(|to| to.hosts) else {
        return Ok(());
    };
    match config.integration_of(&host) {
        Some((name, one)) if one.class.is_answered_here() => Err(EgressError::Covered {
            rule: rule.to_owned(),
            integration: name.to_string(),
            class: one.class,
        }),
        _ => Ok(()),
    }
}

/// Normalizes a rule given by a user.
fn grant(text: &str) -> Result<String, EgressError> {
    let rule = |why: &str| EgressError::Rule { rule: text.to_owned(), why: why.to_owned() };
    let target: Destination =
        text.parse().map_err(|complaint: config::Complaint| rule(&complaint.message))?;
    match target.hosts {
        Hosts::Named(_) => Err(rule("put lists into the config")),
        Hosts::Any if target.port.is_none() && target.transport != Some(RuleTransport::Icmp) => {
            Err(rule("to allow everything, set `mode = \"web\"` in the config"))
        }
        _ => Ok(target.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_by_hand_has_one_form_and_names_its_hosts() {
        assert_eq!(grant("GitHub.com.").unwrap(), "github.com");
        assert_eq!(grant("*.example.com:8443").unwrap(), "*.example.com:8443");
        assert_eq!(grant("10.0.0.0/8").unwrap(), "10.0.0.0/8");
        assert_eq!(grant("Time.example.com:123/udp").unwrap(), "time.example.com:123/udp");
        assert_eq!(grant("*/icmp").unwrap(), "*/icmp");
        for bad in [
            "*",
            "*/tcp",
            "time.example/udp",
            "a.example:53/udp",
            "@toolchain",
            "https://a.example/",
            "a..b",
            "10.0.0.1/8",
            "",
        ] {
            let failure = grant(bad).unwrap_err().failure();
            assert_eq!(failure.kind, FailureKind::Usage, "{bad}: {failure:?}");
        }
    }
}
