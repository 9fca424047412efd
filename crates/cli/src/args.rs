//! The arguments: every command, flag and help text.

mod config;
mod daemon;
mod egress;
mod pool;
mod review;
mod room;
mod sandbox;
mod secret;
mod service;
mod snapshot;
mod url;

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{
    Args, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use hothouse_model::{Failure, FailureKind};

pub(crate) use self::{
    config::{ApproveArgs, ConfigArgs, ConfigCommand},
    daemon::{DaemonCommand, DoctorArgs},
    egress::{EgressAllowArgs, EgressCommand, EgressLogArgs, EgressWhyArgs},
    pool::{PoolCommand, PoolCreateArgs},
    review::{DiffArgs, LogArgs, PromoteArgs},
    room::{ExecArgs, ShellArgs, UpArgs},
    sandbox::{AdoptArgs, CleanArgs, DeleteArgs, ForkArgs, NukeArgs, SizeArgs, StatusArgs},
    secret::{SecretCommand, SecretRemoveArgs, SecretSetArgs},
    service::{DbArgs, LogsArgs, ServiceArgs, SignalArgs},
    snapshot::{RestoreArgs, SnapshotArgs},
    url::{ExposeArgs, PortsArgs, PortsCommand, TrustArgs, UrlArgs},
};

/// Gives every coding agent its own universe for a repository.
///
/// A sandbox has its own branch and files, an isolated machine that runs the repository's real
/// stack, its own URLs, and a record of every side effect.
#[derive(Debug, Parser)]
#[command(
    name = "hothouse",
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 config, 4 not found, 5 conflict, 6 this host cannot, \
                  7 backend, 70 internal.\n\nExamples:\n  hothouse doctor            what works on this host\n  \
                  hothouse fork agent-a      a sandbox on its own branch\n  hothouse list              all of them"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Global {
    /// Print JSON on standard output, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only results
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more about what happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// Which sandbox is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Which {
    /// The sandbox: NAME, or PROJECT/NAME; without it, the one of the current folder
    #[arg(short = 'w', long = "sandbox", value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a sandbox: a branch and a worktree of its own
    ///
    /// The branch starts at the commit that is checked out here, or at --base. Your own checkout,
    /// its index and its stash stay as they are, also when they are dirty. The path of the new
    /// worktree is printed.
    #[command(
        after_help = "Examples:\n  hothouse fork agent-a\n  hothouse fork fix-login --base v2.1 --branch fix/login\n  \
                            cd \"$(hothouse fork agent-b)\""
    )]
    Fork(ForkArgs),
    /// Delete a sandbox: its worktree and all that belongs to it; the branch stays
    ///
    /// Work that is not committed is not thrown away unless you say --force.
    #[command(
        after_help = "Examples:\n  hothouse delete agent-a\n  hothouse delete other-project/agent-a --force"
    )]
    Delete(DeleteArgs),
    /// Make a sandbox of a worktree that something else made
    ///
    /// It gets a room, URLs and evidence like any other; Hothouse never removes its files.
    #[command(after_help = "Examples:\n  hothouse adopt\n  hothouse adopt ../shop-fix --name fix")]
    Adopt(AdoptArgs),
    /// Show what a sandbox changed since its base, uncommitted work included
    #[command(
        after_help = "Examples:\n  hothouse diff -w agent-a --stat\n  hothouse diff --base v2.1 --budget 4000"
    )]
    Diff(DiffArgs),
    /// List the commits of a sandbox since its base
    #[command(after_help = "Example:\n  hothouse log -w agent-a")]
    Log(LogArgs),
    /// Bring a sandbox's branch to where it belongs: pushed with a pull request, or merged here
    ///
    /// Without a flag the branch is pushed, and a pull request opened where `gh` is installed.
    #[command(
        after_help = "Examples:\n  hothouse promote agent-a\n  hothouse promote agent-a --merge\n  hothouse promote --push"
    )]
    Promote(PromoteArgs),
    /// Keep the files, commits and data of a sandbox as they are now
    ///
    /// It works while the room runs: everything in it holds still for a moment.
    #[command(
        after_help = "Examples:\n  hothouse snapshot before-migration\n  hothouse snapshot --remove before-migration"
    )]
    Snapshot(SnapshotArgs),
    /// List the snapshots of a sandbox
    #[command(after_help = "Example:\n  hothouse snapshots -w agent-a")]
    Snapshots(Which),
    /// Bring a sandbox back to a snapshot; a room that is up is started again
    #[command(after_help = "Example:\n  hothouse restore before-migration -w agent-a")]
    Restore(RestoreArgs),
    /// Say what sandboxes take on the disk, and what of it is shared
    #[command(after_help = "Examples:\n  hothouse size\n  hothouse size -w agent-a --json")]
    Size(SizeArgs),
    /// Delete sandboxes that hold nothing new, or the artifacts of runs that are over
    #[command(
        after_help = "Examples:\n  hothouse clean --merged --dry-run\n  hothouse clean --runs\n  hothouse clean agent-a"
    )]
    Clean(CleanArgs),
    /// Print the URL of an app
    #[command(
        after_help = "Examples:\n  hothouse url web -w agent-a\n  curl \"$(hothouse url api --direct)/health\""
    )]
    Url(UrlArgs),
    /// List the ports of this host that are kept for apps, or give some back
    #[command(
        after_help = "Examples:\n  hothouse ports\n  hothouse ports release\n  hothouse ports release 43100"
    )]
    Ports(PortsArgs),
    /// Lead a port of this host to a port of the room
    ///
    /// The port of this host is on 127.0.0.1, stays the same, and is kept until `ports release`.
    #[command(
        after_help = "Examples:\n  hothouse expose 5432 -w agent-a\n  hothouse expose 9229 --host-port 9229"
    )]
    Expose(ExposeArgs),
    /// Trust the certificates of URLs in this host's programs and browsers
    ///
    /// The authority behind them was made on this machine and can vouch for names below .localhost
    /// alone. You are asked first.
    #[command(
        after_help = "Examples:\n  hothouse trust\n  hothouse trust --yes\n  hothouse trust --remove"
    )]
    Trust(TrustArgs),
    /// Print a link that opens the dashboard, or with -w one sandbox in it, once
    #[command(after_help = "Examples:\n  xdg-open \"$(hothouse ui)\"\n  hothouse ui -w agent-a")]
    Ui(Which),
    /// List runs, also those of sandboxes that are gone
    #[command(after_help = "Example:\n  hothouse runs --json")]
    Runs,
    /// List the sandboxes of all projects
    #[command(
        after_help = "Examples:\n  hothouse list\n  hothouse list --json | jq -r '.[].worktree'"
    )]
    List,
    /// Show one sandbox in full
    #[command(
        after_help = "Examples:\n  hothouse status -w agent-a\n  hothouse status --all --json"
    )]
    Status(StatusArgs),
    /// Start the room of a sandbox with its services, and wait until they are ready
    ///
    /// Services are those of the worktree's hothouse.toml. In a room that is up already, what has
    /// changed there is started again; a room that died is replaced, and no file and no row is lost.
    #[command(
        after_help = "Examples:\n  hothouse up -w agent-a\n  hothouse up --ttl 2h\n  hothouse up --profile e2e --timeout 5m\n  \
                      hothouse up --no-wait"
    )]
    Up(UpArgs),
    /// End the room; worktree, layers and home stay
    #[command(after_help = "Example:\n  hothouse down -w agent-a")]
    Down(Which),
    /// Stop every process of the room in its tracks
    #[command(after_help = "Example:\n  hothouse pause -w agent-a")]
    Pause(Which),
    /// Let a paused room go on
    #[command(after_help = "Example:\n  hothouse resume -w agent-a")]
    Resume(Which),
    /// Show what services said, and go on showing it with -f
    ///
    /// Lines of several services come by time. A cursor, which --json and --budget print, is what
    /// --since takes to go on. Colours are stripped unless you say --raw.
    #[command(
        after_help = "Examples:\n  hothouse logs api --tail 50\n  hothouse logs -f api web\n  hothouse logs --grep 'ERROR|panic' -B 2 -A 5\n  \
                      hothouse logs --since 5m --json\n  hothouse logs --since api:120,web:7 --budget 2000"
    )]
    Logs(LogsArgs),
    /// Start a service and what it needs
    #[command(after_help = "Example:\n  hothouse start api -w agent-a")]
    Start(ServiceArgs),
    /// Stop a service: its own signal first, SIGKILL when its grace is over
    #[command(after_help = "Example:\n  hothouse stop worker")]
    Stop(ServiceArgs),
    /// Stop a service and start it again
    #[command(after_help = "Example:\n  hothouse restart api")]
    Restart(ServiceArgs),
    /// Send a signal to a service
    #[command(after_help = "Examples:\n  hothouse signal api HUP\n  hothouse signal api SIGUSR1")]
    Signal(SignalArgs),
    /// Open the shell of a database, or list its tables with their rows
    ///
    /// Without a name, the first service that is a database. Words after `--` go to the shell.
    #[command(
        after_help = "Examples:\n  hothouse db\n  hothouse db -- -c 'select count(*) from orders'\n  hothouse db db --tables --json"
    )]
    Db(DbArgs),
    /// Run a command in the room, as the user `agent`, in the worktree
    ///
    /// The command's own exit code is passed on: 127 when it does not exist, 126 when it cannot be
    /// run, 128 and the number when a signal ended it. It goes on when the daemon dies.
    #[command(
        after_help = "Examples:\n  hothouse exec -w agent-a -- make test\n  hothouse exec --root -- apt-get install -y jq\n  \
                            hothouse exec -w agent-a -w agent-b -- git log -1\n  hothouse exec db -- psql\n  hothouse exec --fresh -- ./untrusted.sh"
    )]
    Exec(ExecArgs),
    /// Open a shell in the room
    #[command(after_help = "Examples:\n  hothouse shell -w agent-a\n  hothouse shell --root")]
    Shell(ShellArgs),
    /// Delete every sandbox of every project; branches stay
    #[command(after_help = "Examples:\n  hothouse nuke\n  hothouse nuke --yes")]
    Nuke(NukeArgs),
    /// Explain what works on this host, what is missing, what that costs and how to mend it
    #[command(
        after_help = "Examples:\n  hothouse doctor\n  hothouse doctor --json\n  hothouse doctor --fix"
    )]
    Doctor(DoctorArgs),
    /// Look at hothouse.toml
    #[command(subcommand)]
    Config(ConfigCommand),
    /// See what a room tried to reach, why it was denied, and allow it
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Keep sandboxes in a file system of their own, where forks cost next to nothing
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Credentials that rooms use without seeing them
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Control the daemon, which starts by itself when it is needed
    #[command(subcommand)]
    Daemon(DaemonCommand),
    /// Print the version
    Version,
    /// Print the completions of a shell
    #[command(
        after_help = "Example:\n  hothouse completions bash >~/.local/share/bash-completion/completions/hothouse"
    )]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Returns the whole command tree, for completions and documentation.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// A command line that ends before any command runs: help, version or a fault.
pub(crate) struct Early {
    error: clap::Error,
    hint: Option<String>,
    json: bool,
}

impl Arguments {
    /// Parses the command line.
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Self, Early> {
        // The flag must be known even when the line it stands on makes no sense.
        let json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
        Self::try_parse_from(arguments).map_err(|error| {
            let hint = misplaced(&error, arguments);
            Early { error, hint, json }
        })
    }
}

/// Tells whoever names a sandbox without `-w` where its name belongs.
fn misplaced(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let name = words.find(|word| !word.starts_with('-'))?;
    let tree = command();
    let mut takes = tree.find_subcommand(name)?.get_arguments();
    takes
        .any(|argument| argument.get_long() == Some("sandbox"))
        .then(|| format!("a sandbox is named with -w: `hothouse {name} -w {word}`"))
}

impl Early {
    /// Prints it and returns the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        let help = matches!(self.error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if help || !self.json {
            self.error.print().ok();
            if let Some(hint) = &self.hint {
                writeln!(std::io::stderr(), "hint: {hint}").ok();
            }
            return if help {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(FailureKind::Usage.exit_code())
            };
        }
        let text = self.error.render().to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let hint = self.hint.unwrap_or_else(|| "`hothouse --help` lists the commands".to_owned());
        let failure = Failure::new(FailureKind::Usage, message).hint(hint);
        // Indented like every other answer, although there is no `Ui` yet.
        let body = serde_json::json!({ "error": failure });
        writeln!(std::io::stdout(), "{body:#}").ok();
        ExitCode::from(failure.kind.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_a_help_text() {
        for command in
            command().get_subcommands().flat_map(|c| std::iter::once(c).chain(c.get_subcommands()))
        {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
