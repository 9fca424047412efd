//! Interpreters and tools of a project that its room does not show: a virtual environment leads to the Python of
//! pyenv or uv, a manifest needs the Node of nvm. What mends it is told as a line of the config.

use std::path::{Path, PathBuf};

use hothouse_host::{beneath::Folder, files};
use hothouse_model::{caveat::Caveat, config::Room};

/// Folders of the host that no room shows unless they are granted.
const PRIVATE: [&str; 8] = ["home", "root", "tmp", "run", "mnt", "media", "srv", "var"];

/// Programs that a file at the top of a worktree asks for.
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

/// Folders below the home that belong to one tool as a whole, and what must be granted with them.
const WHOLE: [(&str, &[&str]); 9] = [
    (".pyenv", &["~/.pyenv"]),
    (".rbenv", &["~/.rbenv"]),
    (".asdf", &["~/.asdf"]),
    (".volta", &["~/.volta"]),
    (".bun", &["~/.bun"]),
    (".deno", &["~/.deno"]),
    (".cargo", &["~/.cargo", "~/.rustup"]),
    (".rustup", &["~/.cargo", "~/.rustup"]),
    (".local/share/uv", &["~/.local/share/uv"]),
];

/// The virtual environments of Python that are looked for besides dependency folders.
const ENVIRONMENTS: [&str; 3] = [".venv", "venv", "env"];

/// What is known of the host.
pub(crate) struct Host<'a> {
    pub(crate) home: &'a Path,
    /// Where the user's own commands are looked for.
    pub(crate) search_path: &'a str,
    /// Where the room's are.
    pub(crate) in_room: &'a str,
}

/// Lists what a worktree needs and its room would not show.
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
            setting: setting(&path, host.home),
            path,
        })
        .collect()
}

/// Follows links of one folder, such as `python` to `python3`, to the first that leads out of the worktree.
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

fn look_up(program: &str, search_path: &str) -> Option<PathBuf> {
    let folders = search_path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Path::new(folder).join(program)).find(|path| files::exists(path))
}

/// Whether a room does not show a path of the host.
fn is_hidden(path: &Path, shown: &[PathBuf]) -> bool {
    let top = path.components().nth(1).map(|part| part.as_os_str());
    let is_private = top.is_some_and(|top| PRIVATE.iter().any(|name| top == *name));
    is_private && !shown.iter().any(|folder| path.starts_with(folder))
}

/// Returns the line of `[room]` that shows a program.
fn setting(program: &Path, home: &Path) -> String {
    let short = |path: &Path| match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => path.display().to_string(),
    };
    let below = program.strip_prefix(home).ok();
    let whole = below.and_then(|below| {
        WHOLE.iter().find(|(folder, _)| below.starts_with(folder)).map(|(_, tools)| *tools)
    });
    if let Some(tools) = whole {
        let quoted: Vec<_> = tools.iter().map(|tool| format!("\"{tool}\"")).collect();
        return format!("tools = [{}]", quoted.join(", "));
    }
    let folder = program.parent().unwrap_or(program);
    let prefix = folder.parent().filter(|_| folder.ends_with("bin"));
    // A prefix such as `~/.local` holds much more than the program.
    let is_wide = |prefix: &&Path| *prefix == home || prefix.ends_with(".local");
    match prefix.filter(|prefix| !is_wide(prefix)) {
        Some(prefix) => format!("tools = [\"{}\"]", short(prefix)),
        None => {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            format!(
                "mounts = [{{ source = \"{}\", target = \"/usr/local/bin/{name}\" }}]",
                short(program)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_mends_it_grants_the_tool_and_little_else() {
        for (program, expected) in [
            ("/home/u/.pyenv/versions/3.12.1/bin/python3.12", r#"tools = ["~/.pyenv"]"#),
            (
                "/home/u/.local/share/uv/python/cpython-3.12/bin/python3.12",
                r#"tools = ["~/.local/share/uv"]"#,
            ),
            (
                "/home/u/.nvm/versions/node/v22.1.0/bin/node",
                r#"tools = ["~/.nvm/versions/node/v22.1.0"]"#,
            ),
            ("/home/u/.cargo/bin/cargo", r#"tools = ["~/.cargo", "~/.rustup"]"#),
            (
                "/home/u/.local/bin/uv",
                r#"mounts = [{ source = "~/.local/bin/uv", target = "/usr/local/bin/uv" }]"#,
            ),
            ("/srv/node/bin/node", r#"tools = ["/srv/node"]"#),
        ] {
            assert_eq!(setting(Path::new(program), Path::new("/home/u")), expected);
        }
    }

    #[test]
    fn what_is_granted_or_belongs_to_the_system_is_not_told() {
        let shown = [PathBuf::from("/home/u/.pyenv"), PathBuf::from("/home/u/shop")];
        for (path, hidden) in [
            ("/home/u/.pyenv/versions/3/bin/python", false),
            ("/home/u/shop/.venv/bin/python", false),
            ("/home/u/.nvm/x/bin/node", true),
            ("/root/.cargo/bin/cargo", true),
            ("/usr/bin/python3", false),
            ("/opt/node/bin/node", false),
        ] {
            assert_eq!(is_hidden(Path::new(path), &shown), hidden, "{path}");
        }
    }

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
