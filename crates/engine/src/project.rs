//! A project: a repository with its `hothouse.toml`.

use std::path::{Path, PathBuf};

use hothouse_config::{File, Layers, MAX_BYTES};
use hothouse_host::{FileError, files};
use hothouse_model::{
    FailureKind, ProjectName,
    config::{Config, Place, Problem},
    sandbox::RepositoryPlace,
};

/// The file that makes a repository a project.
pub(crate) const CONFIG_FILE: &str = "hothouse.toml";

/// Project settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the configuration has {}", counted(.problems.len()))]
    Config { problems: Vec<Problem> },
}

fn counted(problems: usize) -> String {
    if problems == 1 { "1 problem".into() } else { format!("{problems} problems") }
}

hothouse_model::explain! {
    ProjectError passes on File;
    kind {
        Self::Config { .. } => FailureKind::Config,
    }
    causes {
        Self::Config { problems } => problems.iter().map(Problem::render).collect(),
    }
    hints {
        Self::Config { .. } => {
            vec!["`hothouse config check` shows the same at any time".into()]
        }
    }
}

/// The settings of a project, from its user.
#[derive(Clone, Debug)]
pub(crate) struct ProjectSettings {
    pub(crate) name: ProjectName,
    pub(crate) config: Config,
}

impl ProjectSettings {
    /// Reads the settings from the user's own checkout, never from a sandbox's.
    pub(crate) fn read(
        place: &RepositoryPlace,
        user_config: &Path,
        variables: &[(String, String)],
    ) -> Result<Self, ProjectError> {
        let project = read_file(&place.root.join(CONFIG_FILE))?;
        Self::of(place, project, user_config, variables)
    }

    /// Parses the settings from a text, for a repository without a checkout.
    pub(crate) fn of(
        place: &RepositoryPlace,
        project: Option<Vec<u8>>,
        user_config: &Path,
        variables: &[(String, String)],
    ) -> Result<Self, ProjectError> {
        let user = read_file(user_config)?;
        let user_name = user_config.display().to_string();
        let layers = Layers {
            user: user.as_deref().map(|bytes| File { name: &user_name, bytes }),
            project: project.as_deref().map(|bytes| File { name: CONFIG_FILE, bytes }),
            environment: variables,
        };
        let resolved = hothouse_config::resolve(&layers)
            .map_err(|problems| ProjectError::Config { problems })?;
        let folder = place.root.file_name().unwrap_or_default().to_string_lossy();
        let from_folder = || ProjectName::from_folder(folder.trim_end_matches(".git"));
        let name = resolved.config.project.name.clone().unwrap_or_else(from_folder);
        Ok(Self { name, config: resolved.config })
    }

    /// Returns the folder of the sandboxes.
    pub(crate) fn sandboxes(&self, place: &RepositoryPlace) -> PathBuf {
        match self.config.project.place {
            Place::Inside if !is_bare(place) => place.root.join(".worktrees"),
            Place::Inside | Place::Sibling => beside(place),
        }
    }

    /// Returns the pattern with which git must ignore the sandboxes, if they are inside the
    /// checkout.
    pub(crate) fn ignored(&self, place: &RepositoryPlace) -> Option<&'static str> {
        let inside = self.config.project.place == Place::Inside && !is_bare(place);
        inside.then_some("/.worktrees/")
    }
}

pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match files::read_regular(path, MAX_BYTES as u64 + 1) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a repository has no checkout of its own.
pub(crate) fn is_bare(place: &RepositoryPlace) -> bool {
    place.root == place.common_dir
}

/// Returns the folder of a repository's sandboxes: `<repo>-sandboxes` beside it.
fn beside(place: &RepositoryPlace) -> PathBuf {
    let root = if is_bare(place) { place.root.with_extension("") } else { place.root.clone() };
    let mut folder = root.into_os_string();
    folder.push("-sandboxes");
    folder.into()
}

#[cfg(test)]
mod tests {
    use hothouse_model::Explain;

    use super::*;

    fn settings(text: &str) -> Result<(ProjectSettings, RepositoryPlace), ProjectError> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("My Shop.git");
        files::make_folder(&root).unwrap();
        files::replace(&root.join(CONFIG_FILE), text.as_bytes(), 0o644).unwrap();
        let place = RepositoryPlace { common_dir: root.join(".git"), root };
        ProjectSettings::read(&place, &folder.path().join("none"), &[])
            .map(|settings| (settings, place))
    }

    #[test]
    fn a_project_without_a_name_takes_its_folders() {
        let (settings, place) = settings("").unwrap();
        assert_eq!(settings.name.as_str(), "my-shop");
        let folder = settings.sandboxes(&place);
        assert!(folder.ends_with("My Shop.git-sandboxes"), "{}", folder.display());
        assert_eq!(settings.ignored(&place), None);
    }

    #[test]
    fn sandboxes_can_live_inside_the_checkout() {
        let (settings, place) =
            settings("[project]\nname = \"shop\"\nplace = \"inside\"\n").unwrap();
        assert_eq!(settings.sandboxes(&place), place.root.join(".worktrees"));
        assert_eq!(settings.ignored(&place), Some("/.worktrees/"));
    }

    #[test]
    fn a_broken_config_names_every_problem() {
        let failure = settings("[project]\nnmae = \"x\"\n[rom]\n").unwrap_err().failure();
        assert_eq!(failure.kind, FailureKind::Config);
        assert_eq!(failure.causes.len(), 2, "{failure:?}");
    }
}
