//! Secrets: where a value comes from, and who may use it. A value is read on demand and stored only
//! where the user put it.
//!
//! A project's setting takes precedence over the one for all projects, which takes precedence over
//! the config; the config alone can name only a variable or, in the user's own file, a command.

pub(crate) mod known;

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use hothouse_host::{FileError, Program, RunError, files, keyring::KeyringError};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    config::{HostPattern, Secret, SecretName, SecretSource},
    id::fnv1a,
    secret::{MOST_LENGTH, Origin, SecretValue, ValueError},
};
use hothouse_store::{SecretRecord, StoreError};
use hothouse_workspace::DiscoverError;
use jiff::Timestamp;

use crate::{
    Engine,
    project::{ProjectError, ProjectSettings},
};

/// The time limit of a command that prints a value.
const PATIENCE: Duration = Duration::from_secs(30);

/// A secret that cannot be set, or whose value is not available.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret `{name}` has no value")]
    NotSet { name: SecretName },
    #[error("secret `{name}` comes from the variable {variable}, which the daemon does not have")]
    NoVariable { name: SecretName, variable: String },
    #[error("the file of secret `{name}` can be read by others: {}", .path.display())]
    OpenFile { name: SecretName, path: PathBuf },
    #[error("the value of secret `{name}` is no longer in the {place}")]
    Gone { name: SecretName, place: &'static str },
    #[error("the value of secret `{name}` cannot be used")]
    Value {
        name: SecretName,
        #[source]
        source: ValueError,
    },
    #[error("the command of secret `{name}` printed no value")]
    Command { name: SecretName },
    #[error("a secret for every project needs the hosts that may receive it")]
    Anywhere,
    #[error("secret `{name}` from {} needs a value", in_words(from))]
    NoInput { name: SecretName, from: Origin },
    #[error("secret `{name}` from {} takes no value", in_words(from))]
    Superfluous { name: SecretName, from: Origin },
    #[error("no secret `{name}` is set {scope}")]
    Unknown { name: SecretName, scope: &'static str },
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Project(#[from] ProjectError),
}

hothouse_model::explain! {
    SecretError passes on Keyring, File, Store, Discover, Project;
    kind {
        Self::NotSet { .. } | Self::Unknown { .. } | Self::Gone { .. } => FailureKind::NotFound,
        Self::NoVariable { .. } | Self::OpenFile { .. } | Self::Command { .. } => {
            FailureKind::Host
        }
        Self::Value { .. }
        | Self::Anywhere
        | Self::NoInput { .. }
        | Self::Superfluous { .. } => FailureKind::Usage,
    }
    hints {
        Self::NotSet { name } | Self::Gone { name, .. } => {
            vec![format!("give it one with `hothouse secret set {name}`")]
        }
        Self::NoVariable { variable, .. } => {
            vec![format!("run `hothouse daemon stop`, then any command with {variable} set")]
        }
        Self::OpenFile { path, .. } => vec![
            format!("if nobody else has read it: `chmod 600 {}`", path.display()),
            "otherwise revoke the value where it was issued, and set a new one".into(),
        ],
        Self::Anywhere => vec!["add `--host api.example.com`".into()],
        Self::NoInput { name, .. } => {
            vec![format!("`printf %s \"$VALUE\" | hothouse secret set {name}`")]
        }
        Self::Unknown { .. } => vec!["`hothouse secret list` shows what is set".into()],
        Self::Value { .. } | Self::Superfluous { .. } | Self::Command { .. } => Vec::new(),
    }
}

/// The parameters of `secret set`.
#[derive(Clone, Debug)]
pub struct SecretSpec {
    pub name: SecretName,
    /// The folder where the command was run, inside the project.
    pub folder: PathBuf,
    /// The source of the value; by default from the config.
    pub source: Option<SecretSource>,
    pub value: Option<String>,
    /// Whether it applies to all projects.
    pub everywhere: bool,
    /// The only hosts that may receive it.
    pub hosts: Vec<HostPattern>,
}

/// A secret in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretLine {
    pub name: SecretName,
    /// Whether it was set for all projects.
    pub everywhere: bool,
    pub source: SecretSource,
    /// The hosts that receive it in this project.
    pub hosts: Vec<HostPattern>,
    pub set: Option<Timestamp>,
    /// Whether the project's config declares it.
    pub declared: bool,
    /// Why it has no value, if it has none.
    pub missing: Option<String>,
}

impl Engine {
    /// Sets a secret.
    pub fn set_secret(&self, spec: SecretSpec) -> Result<SecretLine, Failure> {
        self.try_set_secret(spec).map_err(|error| error.failure())
    }

    fn try_set_secret(&self, spec: SecretSpec) -> Result<SecretLine, SecretError> {
        let project = match spec.everywhere {
            true => None,
            false => Some(self.repository_around(&spec.folder)?.place.common_dir),
        };
        if spec.everywhere && spec.hosts.is_empty() {
            return Err(SecretError::Anywhere);
        }
        let declared = self.declared(&spec.folder);
        let declared = declared.as_ref().and_then(|all| all.get(&spec.name));
        let source = spec.source.or_else(|| declared.map(|secret| secret.from.clone()));
        let source = source.unwrap_or(SecretSource::Keyring);
        let name = spec.name;
        let kept = matches!(source, SecretSource::Keyring | SecretSource::File);
        match (kept, spec.value) {
            (true, None) => {
                return Err(SecretError::NoInput { name, from: Origin::from(&source) });
            }
            (false, Some(_)) => {
                return Err(SecretError::Superfluous { name, from: Origin::from(&source) });
            }
            (true, Some(value)) => {
                let value = SecretValue::new(value)
                    .map_err(|source| SecretError::Value { name: name.clone(), source })?;
                self.keep(project.as_deref(), &name, &source, &value)?;
            }
            (false, None) => {}
        }
        let record =
            SecretRecord { project, name, source, hosts: spec.hosts, set: self.with.clock.now() };
        self.with.store.set_secret(&record)?;
        Ok(self.line(&record, declared))
    }

    /// Lists the secrets of the project around a folder, declared or set, and those for all
    /// projects.
    pub fn secrets(&self, folder: &Path) -> Result<Vec<SecretLine>, Failure> {
        let records = self.with.store.secrets().map_err(|error| error.failure())?;
        let project = self.repository_around(folder).ok().map(|found| found.place.common_dir);
        let declared = self.declared(folder).unwrap_or_default();
        let ours = |record: &&SecretRecord| match &record.project {
            Some(of) => Some(of) == project.as_ref(),
            // A project's own secret hides the one for all projects.
            None => !records
                .iter()
                .any(|r| r.name == record.name && r.project.is_some() && r.project == project),
        };
        let mut lines: Vec<SecretLine> = records
            .iter()
            .filter(ours)
            .map(|record| self.line(record, declared.get(&record.name)))
            .collect();
        for (name, secret) in &declared {
            if !lines.iter().any(|line| line.name == *name) {
                let value = project.as_deref().map(|p| self.secret_value(p, name, secret));
                lines.push(SecretLine {
                    name: name.clone(),
                    everywhere: false,
                    source: secret.from.clone(),
                    hosts: secret.hosts.clone(),
                    set: None,
                    declared: true,
                    missing: value.and_then(Result::err).map(|error| error.to_string()),
                });
            }
        }
        lines.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(lines)
    }

    /// Removes a secret and, if Hothouse stored it, its value.
    pub fn remove_secret(
        &self,
        folder: &Path,
        name: &SecretName,
        everywhere: bool,
    ) -> Result<(), Failure> {
        let remove = || -> Result<(), SecretError> {
            let project = match everywhere {
                true => None,
                false => Some(self.repository_around(folder)?.place.common_dir),
            };
            let account = account(project.as_deref(), name);
            let file = self.value_file(project.as_deref(), name);
            // The value is removed first: without the record it could not be found later.
            let from_file = files::exists(&file);
            files::remove_file(&file)?;
            let from_keyring = self.with.wall.keyring.remove(&account).unwrap_or(false);
            let known = self.with.store.forget_secret(project.as_ref(), name)?;
            if !(known || from_file || from_keyring) {
                let scope = if everywhere { "for every project" } else { "for this project" };
                return Err(SecretError::Unknown { name: name.clone(), scope });
            }
            Ok(())
        };
        remove().map_err(|error| error.failure())
    }

    /// Returns the value of a secret that a project's config declares.
    pub fn secret_value(
        &self,
        project: &Path,
        name: &SecretName,
        declared: &Secret,
    ) -> Result<SecretValue, SecretError> {
        let record = self.secret_record(project, name)?;
        match (record, &declared.from) {
            (Some(record), _) => self.fetch(record.project.as_deref(), name, &record.source),
            (None, from @ (SecretSource::Environment(_) | SecretSource::Command(_))) => {
                self.fetch(Some(project), name, from)
            }
            (None, _) => Err(SecretError::NotSet { name: name.clone() }),
        }
    }

    /// Whether a secret declared by a sandbox's config has a value now. This may run a command of
    /// the user.
    pub fn has_secret(&self, sandbox: &SandboxRecord, name: &str) -> bool {
        let Ok(config) = self.pinned_config(sandbox) else { return false };
        let declared = config.secrets.iter().find(|(own, _)| own.as_str() == name);
        let project = &sandbox.repository.common_dir;
        declared.is_some_and(|(name, secret)| self.secret_value(project, name, secret).is_ok())
    }

    /// Fetches the values that must be redacted for a sandbox and that are not known yet, as far as
    /// possible: of the secrets that its config declares, and of those that the user set. This may
    /// run commands of the user.
    pub fn learn_secrets(&self, sandbox: &SandboxRecord) {
        let project = &sandbox.repository.common_dir;
        let declared = self.pinned_config(sandbox).ok();
        let is_new = |name: &SecretName| {
            !self.known.of(project).1.iter().any(|(known, _)| known == name.as_str())
        };
        let declared = declared.iter().flat_map(|config| &config.secrets);
        for (name, secret) in declared.filter(|(name, _)| is_new(name)) {
            self.secret_value(project, name, secret).ok();
        }
        let records = self.with.store.secrets().unwrap_or_default();
        let ours = |one: &&SecretRecord| one.project.as_ref().is_none_or(|of| of == project);
        for one in records.iter().filter(ours).filter(|one| is_new(&one.name)) {
            self.fetch(one.project.as_deref(), &one.name, &one.source).ok();
        }
    }

    /// Returns the values of a project's secrets fetched so far, with their names, and the current
    /// generation.
    pub fn known_secrets(&self, project: &Path) -> (u64, Vec<(String, SecretValue)>) {
        self.known.of(project)
    }

    /// Returns the git directory of the repository around a folder, which identifies its project.
    pub fn project_folder(&self, folder: &Path) -> Option<PathBuf> {
        Some(self.repository_around(folder).ok()?.place.common_dir)
    }

    /// Returns the generation, which changes with every new value.
    pub fn secrets_generation(&self) -> u64 {
        self.known.generation()
    }

    /// Returns the hosts that receive a secret: those of the config, restricted by the user.
    pub fn secret_hosts(
        &self,
        project: &Path,
        name: &SecretName,
        declared: &Secret,
    ) -> Vec<HostPattern> {
        let record = self.secret_record(project, name).ok().flatten();
        within(&declared.hosts, record.as_ref())
    }

    fn secret_record(
        &self,
        project: &Path,
        name: &SecretName,
    ) -> Result<Option<SecretRecord>, StoreError> {
        let records = self.with.store.secrets()?;
        let of = |wanted: Option<&Path>| {
            records.iter().find(|one| one.name == *name && one.project.as_deref() == wanted)
        };
        Ok(of(Some(project)).or_else(|| of(None)).cloned())
    }

    fn declared(&self, folder: &Path) -> Option<std::collections::BTreeMap<SecretName, Secret>> {
        let place = self.repository_around(folder).ok()?.place;
        let settings = ProjectSettings::read(&place, &self.with.user_config, &[]).ok()?;
        Some(settings.config.secrets)
    }

    fn line(&self, record: &SecretRecord, declared: Option<&Secret>) -> SecretLine {
        let value = self.fetch(record.project.as_deref(), &record.name, &record.source);
        SecretLine {
            name: record.name.clone(),
            everywhere: record.project.is_none(),
            source: record.source.clone(),
            hosts: match declared {
                Some(declared) => within(&declared.hosts, Some(record)),
                None => record.hosts.clone(),
            },
            set: Some(record.set),
            declared: declared.is_some(),
            missing: value.err().map(|error| error.to_string()),
        }
    }

    fn keep(
        &self,
        project: Option<&Path>,
        name: &SecretName,
        source: &SecretSource,
        value: &SecretValue,
    ) -> Result<(), SecretError> {
        let (file, account) = (self.value_file(project, name), account(project, name));
        // A value is stored in one place only: the one named last.
        if *source == SecretSource::Keyring {
            self.with.wall.keyring.set(&account, value)?;
            return Ok(files::remove_file(&file)?);
        }
        files::make_private_folder(file.parent().unwrap_or(&file))?;
        files::replace(&file, value.expose().as_bytes(), 0o600)?;
        // Without a keyring there is nothing to remove.
        self.with.wall.keyring.remove(&account).ok();
        Ok(())
    }

    fn fetch(
        &self,
        project: Option<&Path>,
        name: &SecretName,
        source: &SecretSource,
    ) -> Result<SecretValue, SecretError> {
        let value = self.fetch_again(project, name, source)?;
        self.known.note(project, name.as_str(), &value);
        Ok(value)
    }

    fn fetch_again(
        &self,
        project: Option<&Path>,
        name: &SecretName,
        source: &SecretSource,
    ) -> Result<SecretValue, SecretError> {
        let unfit = |source| SecretError::Value { name: name.clone(), source };
        match source {
            SecretSource::Keyring => {
                let value = self.with.wall.keyring.get(&account(project, name))?;
                value.ok_or_else(|| SecretError::Gone { name: name.clone(), place: "keyring" })
            }
            SecretSource::File => {
                let path = self.value_file(project, name);
                let mode = std::fs::metadata(&path).map(|found| found.permissions().mode());
                match mode {
                    Ok(mode) if mode & 0o077 != 0 => {
                        return Err(SecretError::OpenFile { name: name.clone(), path });
                    }
                    Ok(_) => {}
                    Err(_) => {
                        return Err(SecretError::Gone { name: name.clone(), place: "file" });
                    }
                }
                let bytes = files::read_capped(&path, MOST_LENGTH as u64 + 1)?;
                SecretValue::from_bytes(bytes).map_err(unfit)
            }
            SecretSource::Environment(variable) => {
                let value = self.with.wall.environment.get(variable.as_str());
                let value = value.ok_or_else(|| SecretError::NoVariable {
                    name: name.clone(),
                    variable: variable.to_string(),
                })?;
                SecretValue::new(value.clone()).map_err(unfit)
            }
            SecretSource::Command(command) => {
                // Never in a project's folder, whose content may not be the user's own.
                let home = &self.with.home;
                let folder = if files::is_folder(home) { home } else { Path::new("/") };
                let program = Program::new("/bin/sh").args(["-c", command]).folder(folder);
                let gave_none = |error: RunError| {
                    // Without the error itself: a command line or its output may contain the value.
                    tracing::warn!(%name, missing = matches!(error, RunError::Missing { .. }), "the command of a secret failed");
                    SecretError::Command { name: name.clone() }
                };
                let bytes = program.output_within(PATIENCE).map_err(gave_none)?;
                SecretValue::from_bytes(bytes).map_err(unfit)
            }
        }
    }

    fn value_file(&self, project: Option<&Path>, name: &SecretName) -> PathBuf {
        self.with.wall.secrets.join(scope(project)).join(name.as_str())
    }
}

/// Returns the name of a project in files and keyrings. It must not change between releases,
/// because stored values are looked up by it; the path is chosen by the user.
pub(crate) fn scope(project: Option<&Path>) -> String {
    project.map_or("everywhere".to_owned(), |project| {
        format!("{:016x}", fnv1a(&[project.as_os_str().as_encoded_bytes()]))
    })
}

fn account(project: Option<&Path>, name: &SecretName) -> String {
    format!("{}:{name}", scope(project))
}

/// Describes the origin of a secret, without a command: that may contain a secret itself.
fn in_words(origin: &Origin) -> String {
    match origin {
        Origin::Command => "a command".into(),
        other => other.to_string(),
    }
}

fn within(declared: &[HostPattern], record: Option<&SecretRecord>) -> Vec<HostPattern> {
    let most = record.map(|record| record.hosts.as_slice()).unwrap_or_default();
    let allowed =
        |host: &&HostPattern| most.is_empty() || most.iter().any(|wide| wide.includes(host));
    declared.iter().filter(allowed).cloned().collect()
}
