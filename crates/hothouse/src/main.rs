//! The one binary. It reads the environment, then chooses: command line or daemon.

use std::{env, process::ExitCode};

use hothouse_api::Build;
use hothouse_backend::{LAUNCHER_ARGUMENT, room_launcher_main};
use hothouse_cli::{DaemonEnd, Surroundings};
use hothouse_daemon::DaemonSpec;
use hothouse_host::{
    folders::{FolderVariables, Folders},
    hands, login, probe, process, view,
};
use hothouse_model::{Explain, room::API_SOCKET};

/// Variables that the user's own git and `gh` need to reach other machines; only `promote` passes
/// them on.
const CREDENTIALS: [&str; 12] = [
    "HOME",
    "PATH",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_CONFIG_DIR",
    "XDG_CONFIG_HOME",
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == probe::CHILD_ARGUMENT) {
        return probe::probe_child(&arguments[2..]);
    }
    if arguments.get(1).is_some_and(|word| word == LAUNCHER_ARGUMENT) {
        return room_launcher_main();
    }
    if arguments.get(1).is_some_and(|word| word == view::VIEW_ARGUMENT) {
        return view::view_main(&arguments[2..]);
    }
    if arguments.get(1).is_some_and(|word| word == hands::HANDS_ARGUMENT) {
        return hands::hands_main();
    }
    if arguments.get(1).is_some_and(|word| word == login::STAY_ARGUMENT) {
        return login::stay_main();
    }
    let path = |name: &str| env::var_os(name).map(Into::into);
    let folders = Folders::decide(&FolderVariables {
        home: path("HOME"),
        state_home: path("XDG_STATE_HOME"),
        config_home: path("XDG_CONFIG_HOME"),
        runtime_dir: path("XDG_RUNTIME_DIR"),
        cache_home: path("XDG_CACHE_HOME"),
    });
    hothouse_cli::run(Surroundings {
        arguments,
        variables: env::vars().filter(|(name, _)| name.starts_with("HOTHOUSE_")).collect(),
        credentials: CREDENTIALS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
            .collect(),
        search_path: env::var_os("PATH").unwrap_or_default(),
        folder: env::current_dir(),
        named_folder: env::var_os("PWD").map(Into::into),
        no_color: env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        dumb_terminal: env::var_os("TERM").is_some_and(|value| value == "dumb"),
        editor: env::var("VISUAL")
            .or_else(|_| env::var("EDITOR"))
            .ok()
            .filter(|text| !text.is_empty()),
        terminal: env::var("TERM").unwrap_or_else(|_| "dumb".into()),
        build: Build::current(process::executable_stamp()),
        folders,
        variable: |name| env::var(name).ok(),
        inside: std::path::Path::new(API_SOCKET).exists(),
        serve: Box::new(|folders, build, announce| {
            let log_filter = env::var("HOTHOUSE_LOG").ok();
            let environment = env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect();
            let spec = DaemonSpec { folders, build, log_filter, announce, environment };
            match hothouse_daemon::run(spec) {
                Ok(()) => DaemonEnd::Ended,
                Err(error) => DaemonEnd::NotStarted(error.failure()),
            }
        }),
    })
}
