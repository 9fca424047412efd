//! Finds host programs, and the grants that show them to a room.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Program, files};

/// The `PATH` of system programs, which every room shows.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Host folders that no room shows unless they are granted.
const PRIVATE: [&str; 8] = ["home", "root", "tmp", "run", "mnt", "media", "srv", "var"];

/// Folders below the home that belong to one tool, and what must be granted with them.
const WHOLE: [(&str, &[&str]); 12] = [
    (".pyenv", &["~/.pyenv"]),
    (".rbenv", &["~/.rbenv"]),
    (".asdf", &["~/.asdf"]),
    (".volta", &["~/.volta"]),
    (".bun", &["~/.bun"]),
    (".deno", &["~/.deno"]),
    (".cargo", &["~/.cargo", "~/.rustup"]),
    (".rustup", &["~/.cargo", "~/.rustup"]),
    (".local/share/uv", &["~/.local/share/uv"]),
    (".local/share/mise", &["~/.local/share/mise"]),
    (".goenv", &["~/.goenv"]),
    (".dotnet", &["~/.dotnet"]),
];

/// A setting that shows a program to a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Folders for `tools`.
    Tools(Vec<String>),
    /// One file for `mounts`: source and target.
    Mount(String, String),
}

impl Grant {
    /// Returns the line for the `[room]` section.
    pub fn line(&self) -> String {
        match self {
            Self::Tools(folders) => {
                let quoted: Vec<_> = folders.iter().map(|tool| format!("\"{tool}\"")).collect();
                format!("tools = [{}]", quoted.join(", "))
            }
            Self::Mount(source, target) => {
                format!("mounts = [{{ source = \"{source}\", target = \"{target}\" }}]")
            }
        }
    }
}

/// Finds a program in a search path.
pub fn look_up(program: &str, search_path: &str) -> Option<PathBuf> {
    let folders = search_path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Path::new(folder).join(program)).find(|path| files::exists(path))
}

/// Asks a host program for its version, such as `20.11.1`.
pub fn version(program: &str, search_path: &str) -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let path = look_up(program, search_path)?;
    let words = if program == "go" { "version" } else { "--version" };
    let asked = Program::new(path.to_str()?).args([words]).folder(Path::new("/"));
    let run = asked.run_within(PATIENCE).ok()?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let is_version = |word: &&str| {
        let bare = word.trim_start_matches("go").trim_start_matches('v');
        bare.contains('.') && bare.starts_with(|c: char| c.is_ascii_digit())
    };
    let word = text.split_whitespace().find(is_version)?;
    let bare = word.trim_start_matches("go").trim_start_matches('v');
    Some(bare.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect())
}

/// Whether a room does not show a path of the host.
pub fn is_hidden(path: &Path, shown: &[PathBuf]) -> bool {
    let top = path.components().nth(1).map(|part| part.as_os_str());
    let is_private = top.is_some_and(|top| PRIVATE.iter().any(|name| top == *name));
    is_private && !shown.iter().any(|folder| path.starts_with(folder))
}

/// Returns the narrowest grant that shows a program to a room.
pub fn grant(program: &Path, home: &Path) -> Grant {
    let short = |path: &Path| match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => path.display().to_string(),
    };
    let below = program.strip_prefix(home).ok();
    let whole = below.and_then(|below| {
        WHOLE.iter().find(|(folder, _)| below.starts_with(folder)).map(|(_, tools)| *tools)
    });
    if let Some(tools) = whole {
        return Grant::Tools(tools.iter().map(|tool| (*tool).to_owned()).collect());
    }
    let folder = program.parent().unwrap_or(program);
    let prefix = folder.parent().filter(|_| folder.ends_with("bin"));
    // A prefix such as `~/.local` contains much more than the program.
    let is_wide = |prefix: &&Path| *prefix == home || prefix.ends_with(".local");
    match prefix.filter(|prefix| !is_wide(prefix)) {
        Some(prefix) => Grant::Tools(vec![short(prefix)]),
        None => {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            Grant::Mount(short(program), format!("/usr/local/bin/{name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_line_grants_the_tool_and_little_else() {
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
            (
                "/home/u/.sdkman/candidates/java/current/bin/java",
                r#"tools = ["~/.sdkman/candidates/java/current"]"#,
            ),
            ("/home/u/.cargo/bin/cargo", r#"tools = ["~/.cargo", "~/.rustup"]"#),
            (
                "/home/u/.local/bin/uv",
                r#"mounts = [{ source = "~/.local/bin/uv", target = "/usr/local/bin/uv" }]"#,
            ),
            ("/srv/node/bin/node", r#"tools = ["/srv/node"]"#),
            ("/home/u/go/bin/air", r#"tools = ["~/go"]"#),
        ] {
            assert_eq!(grant(Path::new(program), Path::new("/home/u")).line(), expected);
        }
    }

    #[test]
    fn what_is_granted_or_belongs_to_the_system_is_not_reported() {
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
}
