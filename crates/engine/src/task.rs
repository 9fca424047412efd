//! The task files that an agent finds in its worktree: the request, and a prompt for each role.
//!
//! The repository's own prompts at the same paths take precedence over ours.

use std::path::Path;

use hothouse_host::{FileError, beneath::Folder};
use hothouse_workspace::tree::hidden::HiddenTree;

use crate::project::CONFIG_FILE;

/// The file that holds the request.
const REQUEST: &str = "feature-request.md";

/// The folder of the prompts.
const PROMPTS: &str = ".hothouse/prompts";

/// The exclude patterns for both, in worktrees that have not committed them.
pub(crate) const IGNORED: [&str; 2] = ["/feature-request.md", "/.hothouse/"];

/// The prompts that every worktree with a task gets.
const ROLES: [(&str, &str); 3] = [
    ("implement.md", include_str!("task/implement.md")),
    ("review.md", include_str!("task/review.md")),
    ("verify.md", include_str!("task/verify.md")),
];

/// Instructions about the sandbox for every coding agent, in the file that its tool reads for all
/// projects.
pub fn instructions() -> &'static str {
    include_str!("task/instructions.md")
}

/// Returns the request as it is recorded.
pub(crate) fn request(idea: Option<&str>, context: Option<&str>) -> Option<String> {
    match (idea, context) {
        (None, None) => None,
        (Some(idea), None) => Some(format!("# Request\n\n{}\n", idea.trim_end())),
        (None, Some(context)) => Some(context.to_owned()),
        (Some(idea), Some(context)) => {
            Some(format!("# Request\n\n{}\n\n{context}", idea.trim_end()))
        }
    }
}

/// Writes the config of the user's checkout, for a commit that has none.
pub(crate) fn write_config(worktree: &Path, text: &str) -> Result<(), FileError> {
    opened(worktree)?.write(Path::new(CONFIG_FILE), text.as_bytes(), 0o644)
}

/// Writes the request, and the prompts that the repository does not have.
pub(crate) fn write(worktree: &Path, text: &str) -> Result<(), FileError> {
    let folder = opened(worktree)?;
    folder.write(Path::new(REQUEST), text.as_bytes(), 0o644)?;
    folder.make_folders(Path::new(PROMPTS))?;
    for (name, prompt) in ROLES {
        let path = Path::new(PROMPTS).join(name);
        if folder.stat(&path)?.is_none() {
            folder.write(&path, prompt.as_bytes(), 0o644)?;
        }
    }
    Ok(())
}

/// Opens a worktree for writing. If only a room shows it, that room has not been started yet.
fn opened(worktree: &Path) -> Result<Folder, FileError> {
    let hidden = HiddenTree::at(worktree);
    Folder::open(&hidden.map_or_else(|| worktree.to_owned(), |it| it.upper()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read files by plain means")]
mod tests {
    use super::*;

    #[test]
    fn a_repositorys_own_prompt_wins() {
        let folder = tempfile::tempdir().unwrap();
        let prompts = folder.path().join(PROMPTS);
        std::fs::create_dir_all(&prompts).unwrap();
        std::fs::write(prompts.join("review.md"), "ours").unwrap();
        write(folder.path(), "do it").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(REQUEST)).unwrap(), "do it");
        assert_eq!(std::fs::read_to_string(prompts.join("review.md")).unwrap(), "ours");
        assert!(prompts.join("implement.md").exists());
    }

    #[test]
    fn a_request_joins_idea_and_context() {
        assert_eq!(request(None, None), None);
        assert_eq!(request(Some("blue"), None).unwrap(), "# Request\n\nblue\n");
        assert_eq!(request(None, Some("# All\n")).unwrap(), "# All\n");
        assert_eq!(request(Some("blue"), Some("more\n")).unwrap(), "# Request\n\nblue\n\nmore\n");
    }
}
