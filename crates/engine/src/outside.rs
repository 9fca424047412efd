//! Interpreters and tools of a project that its room does not show: a virtual environment that
//! links to the Python of pyenv or uv, a manifest that needs nvm's Node. The fix is suggested as a
//! line of the config.

use std::path::{Path, PathBuf};

use hothouse_host::{
    beneath::Folder,
    programs::{grant, is_hidden, look_up},
};
use hothouse_model::{caveat::Caveat, config::Room};

/// Programs required by a file at the top of a worktree.
const NEEDED: [(&str, &str); 12] = [
    ("package.json", "node"),
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("deno.json", "deno"),
    ("Cargo.toml", "cargo"),
    ("go.mod", "go"),
    ("pyproject.toml", "python3"),
    ("requirements.txt", "python3"),
    ("uv.lock", "uv"),
    ("poetry.lock", "poetry"),
    ("Gemfile", "bundle"),
];

/// Python virtual environments that are checked besides dependency folders.
const ENVIRONMENTS: [&str; 3] = [".venv", "venv", "env"];

/// Facts about the host.
pub(crate) struct Host<'a> {
    pub(crate) home: &'a Path,
    /// The user's search path.
    pub(crate) search_path: &'a str,
    /// The room's search path.
    pub(crate) in_room: &'a str,
}

/// Lists what a worktree needs but its room would not show.
pub(crate) fn find(
    worktree: &Folder,
    room: &Room,
    shown: &[PathBuf],
    host: &Host<'_>,
) -> Vec<Caveat> {
    let of_deps = room.deps.iter().map(|folder| folder.as_str());
    let mut environments: Vec<_> = of_deps.chain(ENVIRONMENTS).map(PathBuf::from).collect();
    environments.sort();
    environments.dedup();
    let interpreters = environments.iter().filter_map(|folder| {
        let link = folder.join("bin/python");
        let target = leads_outside(worktree, &link)?;
        Some((link.display().to_string(), target))
    });
    let is_there = |name: &str| matches!(worktree.stat(Path::new(name)), Ok(Some(_)));
    let mut programs: Vec<_> =
        NEEDED.iter().filter(|(file, _)| is_there(file)).map(|(_, program)| *program).collect();
    programs.dedup();
    let tools = programs.into_iter().filter_map(|program| {
        let is_in_room = look_up(program, host.in_room).is_some();
        let found = look_up(program, host.search_path).filter(|_| !is_in_room)?;
        Some((program.to_owned(), found))
    });
    let hidden = interpreters.chain(tools).filter(|(_, path)| is_hidden(path, shown));
    hidden
        .map(|(program, path)| Caveat::ToolOutside {
            program,
            setting: grant(&path, host.home).line(),
            path,
        })
        .collect()
}

/// Follows links within a folder, such as `python` to `python3`, to the first that leads out of the
/// worktree.
fn leads_outside(worktree: &Folder, link: &Path) -> Option<PathBuf> {
    const MOST: usize = 8;
    let mut link = link.to_owned();
    for _ in 0..MOST {
        let target = worktree.read_link(&link).ok()?;
        if target.is_absolute() {
            return Some(target);
        }
        let name = target.file_name().filter(|_| target.components().count() == 1)?;
        link.set_file_name(name);
    }
    None
}

#[cfg(test)]
mod tests {
    use hothouse_host::files;

    use super::*;

    #[test]
    fn links_of_virtual_environments_and_needs_of_manifests_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        files::make_folder(&at("work/.venv/bin")).unwrap();
        files::make_folder(&at("bin")).unwrap();
        let python = Path::new("/home/u/.pyenv/versions/3/bin/python3");
        files::symlink(python, &at("work/.venv/bin/python3")).unwrap();
        files::symlink(Path::new("python3"), &at("work/.venv/bin/python")).unwrap();
        files::replace(&at("work/package.json"), b"{}", 0o644).unwrap();
        files::replace(&at("bin/node"), b"", 0o755).unwrap();
        let room = hothouse_config::parse("hothouse.toml", "").unwrap().config.room;
        let search = at("bin").display().to_string();
        let found = |in_room: &str| {
            let host = Host { home: Path::new("/home/u"), search_path: &search, in_room };
            let worktree = Folder::open(&at("work")).unwrap();
            find(&worktree, &room, &[], &host).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let all = found("/nowhere");
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("`.venv/bin/python`") && all[0].contains("~/.pyenv"), "{all:?}");
        assert!(all[1].contains("`node`"), "{all:?}");
        assert_eq!(found(&search).len(), 1, "the room has its own node");
    }
}
