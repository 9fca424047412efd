//! Programs and container engines on the host.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{
    Finding, PATIENCE, ProbeSpec,
    parse::{Version, parse_version},
};
use crate::command::Program;

/// The oldest git that is supported.
const OLDEST_GIT: Version = Version(2, 38);

/// Where system programs are, even if `PATH` does not contain these folders.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Finds the first of several programs in `PATH` and the system's folders.
pub(super) fn find(search_path: &OsStr, names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Probes the programs that Hothouse can use.
pub(super) fn findings(spec: &ProbeSpec) -> Vec<Finding> {
    let path = &spec.search_path;
    let simple = |id, title, names: &[&str], costs, package| {
        let found = find(path, names);
        decide_program(id, title, found.as_deref(), costs, package)
    };
    vec![
        git(spec),
        simple(
            "chromium",
            "Chromium",
            &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"],
            "`browse`, `smoke` and `prove` cannot look at pages",
            "chromium",
        ),
        engine(
            "docker",
            "Docker",
            find(path, &["docker"]),
            &docker_sockets(spec),
            "the `docker` backend cannot be used",
            "docker.io",
        ),
        engine(
            "incus",
            "Incus",
            find(path, &["incus", "lxc"]),
            &incus_sockets(),
            "the `incus` backend cannot be used",
            "incus",
        ),
        simple(
            "ssh",
            "OpenSSH client",
            &["ssh"],
            "remote hosts and deploy keys cannot be used",
            "openssh-client",
        ),
        simple("gh", "GitHub CLI", &["gh"], "`promote` pushes, but opens no pull request", "gh"),
        simple(
            "bwrap",
            "bubblewrap",
            &["bwrap"],
            "tools that sandbox themselves with it do not run in rooms",
            "bubblewrap",
        ),
    ]
}

fn git(spec: &ProbeSpec) -> Finding {
    let found = find(&spec.search_path, &["git"]);
    let run =
        found.as_ref().and_then(|git| Program::new(git).arg("--version").run_within(PATIENCE).ok());
    let said = run.map(|run| {
        String::from_utf8_lossy(&run.stdout).lines().next().unwrap_or_default().to_owned()
    });
    let trusted = found.and_then(|git| {
        let ask = Program::new(git).args(["-C", "/", "config", "--get-all", "safe.directory"]);
        ask.run_within(PATIENCE).ok()
    });
    let trusted = trusted.map(|run| String::from_utf8_lossy(&run.stdout).into_owned());
    decide_git(said.as_deref(), trusted.as_deref().unwrap_or_default())
}

/// Whether git trusts the repositories of every user. An empty value clears those before it.
fn trusts_all(folders: &str) -> bool {
    folders.lines().rev().take_while(|folder| !folder.is_empty()).any(|folder| folder == "*")
}

fn decide_git(said: Option<&str>, trusted: &str) -> Finding {
    let (id, title) = ("git", "git");
    let costs = "no sandbox can be made";
    let fix = "sudo apt install git";
    match said.map(|said| (said, parse_version(said))) {
        Some((said, Some(version))) if version >= OLDEST_GIT && trusts_all(trusted) => {
            Finding::limited(
                id,
                title,
                format!("{said}, with `safe.directory = *`"),
                "your git trusts repositories that an agent plants below its worktree",
            )
            .fixed_by("git config --global --edit: name folders in `safe.directory`, not `*`")
        }
        Some((said, Some(version))) if version >= OLDEST_GIT => Finding::works(id, title, said),
        Some((said, _)) => {
            Finding::missing(id, title, format!("{said}: too old, 2.38 is needed"), costs)
                .fixed_by(fix)
        }
        None => Finding::missing(id, title, "not installed", costs).fixed_by(fix),
    }
}

fn decide_program(
    id: &str,
    title: &str,
    found: Option<&Path>,
    costs: &str,
    package: &str,
) -> Finding {
    match found {
        Some(path) => Finding::works(id, title, path.display().to_string()),
        None => Finding::missing(id, title, "not installed", costs)
            .fixed_by(format!("sudo apt install {package}")),
    }
}

fn docker_sockets(spec: &ProbeSpec) -> Vec<PathBuf> {
    let rootless = spec.runtime_folder.iter().map(|folder| folder.join("docker.sock"));
    std::iter::once(PathBuf::from("/var/run/docker.sock")).chain(rootless).collect()
}

fn incus_sockets() -> Vec<PathBuf> {
    let places = [
        "/run/incus/unix.socket",
        "/var/lib/incus/unix.socket",
        "/var/snap/lxd/common/lxd/unix.socket",
    ];
    places.map(PathBuf::from).to_vec()
}

fn engine(
    id: &str,
    title: &str,
    client: Option<PathBuf>,
    sockets: &[PathBuf],
    costs: &str,
    package: &str,
) -> Finding {
    let answers = sockets.iter().find(|socket| listens(socket));
    let refused = sockets.iter().find(|socket| socket.exists());
    decide_engine(
        id,
        title,
        client.as_deref(),
        answers.map(PathBuf::as_path),
        refused.map(PathBuf::as_path),
        costs,
        package,
    )
}

/// Whether something listens on a socket. Never blocks, even if the engine hangs.
fn listens(socket: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let ours = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let address = SocketAddrUnix::new(socket);
    matches!((ours, address), (Ok(ours), Ok(address)) if connect(&ours, &address).is_ok())
}

/// Derives the finding for an engine from its client, a socket that answers, and one that does not.
fn decide_engine(
    id: &str,
    title: &str,
    client: Option<&Path>,
    answers: Option<&Path>,
    refused: Option<&Path>,
    costs: &str,
    package: &str,
) -> Finding {
    match (answers, refused, client) {
        // The backend needs only the engine's API.
        (Some(socket), _, _) => {
            Finding::works(id, title, format!("the engine listens on {}", socket.display()))
        }
        (None, Some(socket), _) => Finding::limited(
            id,
            title,
            format!("no permission to connect to {}", socket.display()),
            costs,
        )
        .fixed_by(format!("sudo usermod -aG {id} $USER, then log in again; or start the engine")),
        (None, None, Some(client)) => Finding::limited(
            id,
            title,
            format!("{} is installed, but its engine is not running", client.display()),
            costs,
        )
        .fixed_by(format!("sudo systemctl start {id}")),
        (None, None, None) => Finding::missing(id, title, "not installed", costs)
            .fixed_by(format!("sudo apt install {package}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::FindingState::{Limited, Missing, Works};

    #[test]
    fn an_old_git_counts_as_missing() {
        for (said, state) in [
            (Some("git version 2.47.1"), Works),
            (Some("git version 2.38.0"), Works),
            (Some("git version 2.30.2"), Missing),
            (Some("what?"), Missing),
            (None, Missing),
        ] {
            assert_eq!(decide_git(said, "").state, state, "{said:?}");
        }
    }

    #[test]
    fn a_git_that_trusts_every_repository_is_named() {
        for (trusted, state) in [
            ("*\n", Limited),
            ("/srv/a\n*\n/srv/b\n", Limited),
            ("/srv/a\n/srv/*\n", Works),
            ("*\n\n/srv/a\n", Works),
        ] {
            let found = decide_git(Some("git version 2.47.1"), trusted);
            assert_eq!(found.state, state, "{trusted:?}: {found:?}");
        }
    }

    #[test]
    fn an_engine_needs_a_socket_that_answers() {
        let (client, socket) =
            (Some(Path::new("/usr/bin/docker")), Some(Path::new("/run/docker.sock")));
        for (client, answers, refused, state) in [
            (client, socket, socket, Works),
            (None, socket, socket, Works),
            (client, None, socket, Limited),
            (client, None, None, Limited),
            (None, None, None, Missing),
        ] {
            assert_eq!(
                decide_engine("docker", "Docker", client, answers, refused, "c", "p").state,
                state
            );
        }
    }

    #[test]
    fn a_socket_counts_only_while_someone_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        assert!(!listens(&path));
        let engine = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(listens(&path));
        drop(engine);
        assert!(!listens(&path));
    }

    #[test]
    fn only_absolute_folders_of_the_path_are_searched() {
        assert!(find(OsStr::new(".:/bin:/usr/bin"), &["nothing-of-this-name", "sh"]).is_some());
        assert!(find(OsStr::new("."), &["Cargo.toml"]).is_none());
    }
}
