//! The package registries that the host's tools are configured for, found by asking the tools.
//!
//! Each tool runs as the user, with a time limit, and in the root folder so that it reads no file
//! of a repository. Its output is only searched for addresses, and not trusted otherwise.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use hothouse_model::config::Destination;

use crate::{Program, files};

/// The time limit of one tool. All run in parallel, and a dozen of them on a busy machine take a
/// while. The registries of a tool that times out are denied for the next ten minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The size limit for configuration files.
const FILE_LIMIT: u64 = 1 << 20;

/// The size limit for rustup's manifests, which list every component for every platform.
const MANIFEST_LIMIT: u64 = 8 << 20;

/// How many toolchains are inspected.
const TOOLCHAINS_MOST: usize = 8;

/// A query to a tool.
struct Question {
    program: &'static str,
    words: &'static [&'static str],
    /// Only lines that contain one of these are used. Empty means all lines.
    lines: &'static [&'static str],
}

/// Runs pip without the hooks of pyenv: its shims for `pip install` and `python3 -m pip install`
/// write to the user's pyenv afterwards, wait a minute for a lock, and leave the lock behind if
/// killed.
const PIP: &str =
    "import runpy, sys; sys.argv[0] = 'pip'; runpy.run_module('pip', run_name='__main__')";

const QUESTIONS: &[Question] = &[
    Question { program: "npm", words: &["config", "get", "registry"], lines: &[] },
    Question { program: "npm", words: &["config", "list"], lines: &["registry"] },
    Question { program: "pnpm", words: &["config", "get", "registry"], lines: &[] },
    Question { program: "yarn", words: &["config", "get", "registry"], lines: &[] },
    Question { program: "yarn", words: &["config", "get", "npmRegistryServer"], lines: &[] },
    Question { program: "pip3", words: &["config", "list"], lines: &["index-url", "find-links"] },
    // The help text names the default index.
    Question { program: "python3", words: &["-c", PIP, "install", "--help"], lines: &["(default"] },
    // An index may store its files on another host, which only the index knows.
    Question {
        program: "python3",
        words: &[
            "-c",
            PIP,
            "install",
            "--dry-run",
            "--no-deps",
            "--ignore-installed",
            "--break-system-packages",
            "--disable-pip-version-check",
            "--quiet",
            "--report",
            "-",
            "--only-binary",
            ":all:",
            "pip",
        ],
        lines: &["\"url\""],
    },
    Question { program: "go", words: &["env", "GOPROXY"], lines: &[] },
    Question { program: "gem", words: &["sources", "--list"], lines: &[] },
    Question {
        program: "apt-get",
        words: &["indextargets", "--format", "$(REPO_URI)"],
        lines: &[],
    },
    Question { program: "composer", words: &["config", "--global", "repositories"], lines: &[] },
    Question { program: "dotnet", words: &["nuget", "list", "source"], lines: &[] },
];

/// Configuration files of tools that cannot be queried, below the user's home.
const FILES: &[(&str, &[&str])] = &[
    (".cargo/config.toml", &["registry", "index", "dl"]),
    (".cargo/config", &["registry", "index", "dl"]),
    (".m2/settings.xml", &["<url>"]),
    (".config/uv/uv.toml", &["url"]),
    (".bunfig.toml", &["registry"]),
    (".condarc", &["http"]),
];

/// Queries all tools, and returns the registries they are configured for. Takes as long as the
/// slowest tool.
pub fn registries(home: &Path) -> Vec<Destination> {
    let asked: Vec<_> = QUESTIONS.iter().map(|question| thread::spawn(|| ask(question))).collect();
    let mut found: BTreeSet<Destination> = BTreeSet::new();
    for (file, lines) in FILES {
        let bytes = files::read_capped(&home.join(file), FILE_LIMIT).unwrap_or_default();
        found.extend(addresses(&of_lines(&String::from_utf8_lossy(&bytes), lines)));
    }
    found.extend(cargo_indexes(home));
    found.extend(rustup_servers(home));
    for answer in asked {
        // A tool that failed counts as not installed.
        found.extend(answer.join().unwrap_or_default());
    }
    found.into_iter().collect()
}

fn ask(question: &Question) -> Vec<Destination> {
    // A wide terminal, so that help texts do not break lines inside an address.
    let program = Program::new(question.program).args(question.words).folder(Path::new("/"));
    let Ok(run) = program.env("COLUMNS", "400").run_within(PATIENCE) else { return Vec::new() };
    let text = String::from_utf8_lossy(&run.stdout);
    let mut found = addresses(&of_lines(&text, question.lines));
    // Go's checksums come from a host that its proxy setting does not contain.
    if question.program == "go" && !found.is_empty() {
        found.extend(ask_sums());
    }
    found
}

fn ask_sums() -> Option<Destination> {
    let program = Program::new("go").args(["env", "GOSUMDB"]).folder(Path::new("/"));
    let output = program.output_within(PATIENCE).ok()?;
    let text = String::from_utf8_lossy(&output);
    let name = text.split_whitespace().next()?.split('+').next()?;
    (name != "off" && name.contains('.')).then(|| name.parse().ok()).flatten()
}

/// Returns the registries that cargo has used: its index folders are named after them, and each
/// contains the location of its files.
fn cargo_indexes(home: &Path) -> Vec<Destination> {
    let folders = files::list(&home.join(".cargo/registry/index")).unwrap_or_default();
    let of_folder = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?.rsplit_once('-')?.0.parse::<Destination>().ok();
        let config =
            files::read_capped(&folder.join("config.json"), FILE_LIMIT).unwrap_or_default();
        let config = addresses(&String::from_utf8_lossy(&config));
        Some(name.into_iter().chain(config).collect::<Vec<_>>())
    };
    folders.into_iter().filter_map(of_folder).flatten().collect()
}

/// Returns the servers from which rustup installed toolchains: each manifest contains the addresses of its
/// components' files.
fn rustup_servers(home: &Path) -> BTreeSet<Destination> {
    let toolchains = files::list(&home.join(".rustup/toolchains")).unwrap_or_default();
    let of_toolchain = |toolchain: PathBuf| {
        let manifest = toolchain.join("lib/rustlib/multirust-channel-manifest.toml");
        let bytes = files::read_capped(&manifest, MANIFEST_LIMIT).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().find(|line| line.starts_with("url = "))?;
        addresses(line).into_iter().next()
    };
    toolchains.into_iter().take(TOOLCHAINS_MOST).filter_map(of_toolchain).collect()
}

fn of_lines(text: &str, wanted: &[&str]) -> String {
    let fits = |line: &&str| {
        let bare = line.trim_start();
        let comment = bare.starts_with(['#', ';']);
        !comment && (wanted.is_empty() || wanted.iter().any(|word| line.contains(word)))
    };
    text.lines().filter(fits).collect::<Vec<_>>().join("\n")
}

/// Finds the hosts of all URLs in a text. The port is included only if it is not the default one.
fn addresses(text: &str) -> Vec<Destination> {
    let starts = text.match_indices("://").filter_map(|(at, _)| {
        let usual = match &text[..at] {
            before if before.ends_with("https") => "443",
            before if before.ends_with("http") => "80",
            _ => return None,
        };
        Some((usual, &text[at + 3..]))
    });
    let targets = starts.filter_map(|(usual, rest)| {
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'<>,|)\\".contains(c));
        let authority = rest[..end.unwrap_or(rest.len())].rsplit('@').next()?;
        let bare = authority.strip_suffix(&format!(":{usual}")).unwrap_or(authority);
        bare.parse::<Destination>().ok()
    });
    targets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, lines: &[&str]) -> Vec<String> {
        addresses(&of_lines(text, lines)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_found_in_what_tools_print() {
        assert_eq!(found("https://registry.corp.example/npm/\n", &[]), ["registry.corp.example"]);
        let pip = "global.index-url='https://user:secret@pip.example:8443/simple'\nglobal.proxy='http://p.example'";
        assert_eq!(found(pip, &["index-url"]), ["pip.example:8443"]);
        assert_eq!(
            found("https://go.example,https://b.example|direct", &[]),
            ["go.example", "b.example"]
        );
        assert_eq!(
            found("[source.x]\nregistry = \"sparse+https://c.example:443/i/\"", &["registry"]),
            ["c.example"]
        );
        assert_eq!(found("# https://no.example\nhttp://10.0.0.5:4873/", &[]), ["10.0.0.5:4873"]);
        assert_eq!(
            found("git@github.com:a/b ssh://x.example file:///y", &[]),
            Vec::<String>::new()
        );
        assert_eq!(found("https://bad host/ https:// https://\u{fffd}.example/", &[]), ["bad"]);
        assert_eq!(found("https://B\u{fc}cher.example/", &[]), ["xn--bcher-kva.example"]);
    }

    #[test]
    fn cargos_indexes_tell_their_hosts() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".cargo/registry/index/index.corp.example-1949cf8c6b5b557f");
        files::make_folder(&folder).unwrap();
        let config = r#"{"dl":"https://files.corp.example/crates","api":"https://corp.example"}"#;
        files::replace(&folder.join("config.json"), config.as_bytes(), 0o644).unwrap();
        let shown: Vec<_> = cargo_indexes(home.path()).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["index.corp.example", "files.corp.example", "corp.example"]);
    }

    #[test]
    fn toolchains_tell_the_server_they_are_from() {
        let home = tempfile::tempdir().unwrap();
        for (name, host) in [("stable", "rust.corp.example"), ("1.80.0", "rust.corp.example")] {
            let folder = home.path().join(".rustup/toolchains").join(name).join("lib/rustlib");
            files::make_folder(&folder).unwrap();
            let manifest = format!(
                "date = \"2026-01-01\"\n[pkg.cargo]\ngit = \"https://no.example/x\"\nurl = \"https://{host}/dist/cargo.tar.gz\"\n"
            );
            let file = folder.join("multirust-channel-manifest.toml");
            files::replace(&file, manifest.as_bytes(), 0o644).unwrap();
        }
        files::make_folder(&home.path().join(".rustup/toolchains/linked")).unwrap();
        let shown: Vec<_> = rustup_servers(home.path()).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["rust.corp.example"]);
    }
}
