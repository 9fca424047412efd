//! The environment of commands in a room: nothing is inherited from the caller.

use std::path::{Path, PathBuf};

use hothouse_backend::connection::RoomUser;
use hothouse_host::files;
use hothouse_model::{SandboxRecord, room::RoomWall};

use crate::{managers, room::shared_path};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const ROOT_HOME: &str = "/root";

/// Tools that look for their files below the user's home, and the variable that overrides it.
const HOMES: [(&str, &str); 4] = [
    (".rustup", "RUSTUP_HOME"),
    (".nvm", "NVM_DIR"),
    (".pyenv", "PYENV_ROOT"),
    (".sdkman", "SDKMAN_DIR"),
];

/// Paths of browsers, which rooms share with the host.
const BROWSERS: [&str; 5] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/usr/bin/chrome-headless-shell",
    "/usr/bin/chromium-headless-shell",
];

/// The variables that tell browser tools where it is: Playwright, Puppeteer, Lighthouse and Karma.
const BROWSER_VARIABLES: [&str; 5] = [
    "PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH",
    "PLAYWRIGHT_MCP_EXECUTABLE_PATH",
    "PUPPETEER_EXECUTABLE_PATH",
    "CHROME_PATH",
    "CHROME_BIN",
];

/// The variables that keep them from downloading their own.
const NO_DOWNLOADS: [&str; 3] = [
    "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD",
    "PUPPETEER_SKIP_DOWNLOAD",
    "PUPPETEER_SKIP_CHROMIUM_DOWNLOAD",
];

/// Returns the complete environment, as `NAME=value`.
pub fn of(
    sandbox: &SandboxRecord,
    user: RoomUser,
    terminal: Option<&str>,
    tools: &[PathBuf],
    wall: &RoomWall,
) -> Vec<Vec<u8>> {
    let all = pairs(sandbox, user, terminal, tools, wall).into_iter();
    all.map(|(name, value)| format!("{name}={value}").into_bytes()).collect()
}

/// Returns the environment by name.
pub(crate) fn pairs(
    sandbox: &SandboxRecord,
    user: RoomUser,
    terminal: Option<&str>,
    tools: &[PathBuf],
    wall: &RoomWall,
) -> Vec<(String, String)> {
    let (name, home) = match user {
        RoomUser::Agent => ("agent", "/home/agent"),
        RoomUser::Root => ("root", ROOT_HOME),
    };
    let mut all = vec![
        ("PATH", search_path(home, tools)),
        ("HOME", home.to_owned()),
        ("USER", name.to_owned()),
        ("LOGNAME", name.to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        // Without a terminal Python buffers its output, and a log would show nothing.
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("HOTHOUSE_SANDBOX", sandbox.name.to_string()),
        ("HOTHOUSE_ID", sandbox.id.to_string()),
        ("HOTHOUSE_WORKSPACE", shared_path(sandbox).display().to_string()),
    ];
    for (folder, variable) in HOMES {
        if let Some(tool) = tools.iter().find(|tool| tool.ends_with(folder)) {
            all.push((variable, tool.display().to_string()));
        }
    }
    if let Some(browser) = BROWSERS.iter().find(|path| files::exists(Path::new(path))) {
        all.extend(BROWSER_VARIABLES.map(|name| (name, (*browser).to_owned())));
        all.extend(NO_DOWNLOADS.map(|name| (name, "1".to_owned())));
    }
    if let Some(room) = &sandbox.room {
        all.push(("HOTHOUSE_RUN", room.run.id.clone()));
    }
    if let Some(kind) = terminal {
        all.push(("TERM", kind.to_owned()));
    }
    let own = all.into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut all: Vec<(String, String)> = own.collect();
    all.retain(|(name, _)| !wall.environment.contains_key(name));
    let of_wall = wall.environment.iter();
    let of_wall = of_wall.filter(|(name, _)| user == RoomUser::Agent || !managers::is_agents(name));
    all.extend(of_wall.map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// Returns the variable that tells builds of native Node modules where its headers are, if the room's Node has them.
pub(crate) fn node_headers(
    stack: Option<&str>,
    tools: &[PathBuf],
    has_other_manager: bool,
) -> Option<(&'static str, String)> {
    let prefix = node_prefix(stack, tools)?;
    let npm = major_of_npm(Path::new(&prefix)).filter(|_| !has_other_manager);
    Some((headers_variable(npm), prefix))
}

/// Returns the prefix of the room's Node if its headers are there too, so that no package manager has to download them
/// to build native modules. A stack brings its own.
fn node_prefix(stack: Option<&str>, tools: &[PathBuf]) -> Option<String> {
    if stack.is_some_and(|stack| stack != "host") {
        return None;
    }
    let system = ["/usr/local", "/usr"].map(PathBuf::from);
    let mut prefixes = tools.iter().chain(&system);
    let first = prefixes.find(|prefix| files::exists(&prefix.join("bin/node")))?;
    files::exists(&first.join("include/node/node_version.h")).then(|| first.display().to_string())
}

/// Returns the variable that tells node-gyp where Node's headers are. npm 11 warns about the usual one before every
/// command, but its node-gyp reads another; other managers may have an older node-gyp.
fn headers_variable(npm: Option<u32>) -> &'static str {
    match npm {
        Some(11..) => "npm_package_config_node_gyp_nodedir",
        _ => "npm_config_nodedir",
    }
}

/// Returns the major version of the npm that comes with a Node.
fn major_of_npm(prefix: &Path) -> Option<u32> {
    const MANIFEST_MOST: u64 = 1 << 20;
    let manifest = prefix.join("lib/node_modules/npm/package.json");
    let manifest: serde_json::Value =
        serde_json::from_slice(&files::read_capped(&manifest, MANIFEST_MOST).ok()?).ok()?;
    manifest["version"].as_str()?.split('.').next()?.parse().ok()
}

/// Returns the search path: the user's own programs, then granted tool folders, then the system's.
pub(crate) fn search_path(home: &str, tools: &[PathBuf]) -> String {
    let of_tools = tools.iter().flat_map(|tool| ["bin", "shims"].map(|name| tool.join(name)));
    let of_tools = of_tools
        .filter(|folder| files::is_folder(folder))
        .map(|folder| folder.display().to_string());
    let own = format!("{home}/.local/bin");
    // The room's root does not use what the agent installs.
    let of_cargo = (home != ROOT_HOME).then(managers::cargo_programs);
    std::iter::once(own)
        .chain(of_cargo)
        .chain(of_tools)
        .chain([PATH.to_owned()])
        .collect::<Vec<_>>()
        .join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_first_node_are_told() {
        let home = tempfile::tempdir().unwrap();
        let tool = home.path().join("v22");
        for file in ["bin/node", "include/node/node_version.h"] {
            files::make_folder(tool.join(file).parent().unwrap()).unwrap();
            files::write(&tool.join(file), "").unwrap();
        }
        let shown = Some(tool.display().to_string());
        assert_eq!(node_prefix(None, std::slice::from_ref(&tool)), shown);
        assert_eq!(node_prefix(Some("host"), std::slice::from_ref(&tool)), shown);
        assert_eq!(node_prefix(Some("node"), std::slice::from_ref(&tool)), None);
        let bare = home.path().join("v20");
        files::make_folder(&bare.join("bin")).unwrap();
        files::write(&bare.join("bin/node"), "").unwrap();
        assert_eq!(node_prefix(None, &[bare, tool]), None);
    }

    #[test]
    fn npm_11_is_told_of_headers_without_a_warning() {
        let prefix = tempfile::tempdir().unwrap();
        let npm = prefix.path().join("lib/node_modules/npm");
        files::make_folder(&npm).unwrap();
        for file in ["bin/node", "include/node/node_version.h"] {
            files::make_folder(prefix.path().join(file).parent().unwrap()).unwrap();
            files::write(&prefix.path().join(file), "").unwrap();
        }
        let tools = [prefix.path().to_owned()];
        let told = |has_other_manager| node_headers(None, &tools, has_other_manager).unwrap().0;
        assert_eq!(told(false), "npm_config_nodedir");
        for (version, variable) in [
            ("10.9.2", "npm_config_nodedir"),
            ("11.19.1", "npm_package_config_node_gyp_nodedir"),
            ("12.0.0", "npm_package_config_node_gyp_nodedir"),
        ] {
            let manifest = format!("{{ \"name\": \"npm\", \"version\": \"{version}\" }}");
            files::write(&npm.join("package.json"), manifest).unwrap();
            assert_eq!(told(false), variable, "{version}");
            assert_eq!(told(true), "npm_config_nodedir", "that of another manager may be older");
        }
    }
}
