//! The arguments: every command, flag and help text.

mod secret;

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use hothouse_model::{Failure, FailureKind};

pub(crate) use secret::{SecretCommand, SecretRemoveArgs, SecretSetArgs};

/// Gives every coding agent its own universe for a repository.
///
/// A sandbox has its own branch and files, an isolated machine that runs the repository's real
/// stack, its own URLs, and a record of every side effect.
#[derive(Debug, Parser)]
#[command(
    name = "hothouse",
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 did not hold, 2 usage, 3 config, 4 not found, 5 conflict, 6 this host cannot, \
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
    /// Print data only, no talk
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
pub(crate) struct ForkArgs {
    /// The name of the sandbox: a-z, 0-9 and -, at most 40
    pub(crate) name: String,
    /// The commit, tag or branch to start from [default: what is checked out here]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// The branch, when it is to be named otherwise than the sandbox
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,
    /// Start from another sandbox as it is now, or from a snapshot of it, with its uncommitted work
    /// and its data
    #[arg(long, value_name = "SANDBOX[@SNAPSHOT]", conflicts_with_all = ["base", "tree", "setup"])]
    pub(crate) from: Option<String>,
    /// Fork the repository at this address; it is cloned once, and afterwards only fetched
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) repo: Option<String>,
    /// How the files are made: auto, btrfs, overlay, reflink or copy [default: the config's]
    ///
    /// Without root, `overlay` shows them in the room alone.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) tree: Option<String>,
    /// Install dependencies anew with the configured command, rather than bring them along
    #[arg(long)]
    pub(crate) setup: bool,
    /// What the sandbox is for; shown in `status` and written to feature-request.md
    #[arg(long, value_name = "TEXT")]
    pub(crate) idea: Option<String>,
    /// A file that says at length what the sandbox is for; copied to feature-request.md
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// A folder in the worktree [default: the current one]
    pub(crate) path: Option<PathBuf>,
    /// The name of the sandbox [default: that of the worktree's folder]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// List the files with their numbers of lines
    #[arg(long)]
    pub(crate) stat: bool,
    /// Compare with where the branch left this commit [default: the base of the fork]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Show about this many tokens, then say how to go on
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// Begin with this line
    #[arg(long, value_name = "LINE")]
    pub(crate) since: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Begin where the branch left this commit [default: the base of the fork]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Show about this many tokens, then say how to go on
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// Begin with this line
    #[arg(long, value_name = "LINE")]
    pub(crate) since: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct PromoteArgs {
    /// The sandbox: NAME, or PROJECT/NAME
    #[arg(conflicts_with = "sandbox")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Push the branch, and open no pull request
    #[arg(long, conflicts_with = "merge")]
    pub(crate) push: bool,
    /// Merge the branch into its base, here
    #[arg(long)]
    pub(crate) merge: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// What to call it: a-z, 0-9 and - [default: the time]
    #[arg(required_if_eq("remove", "true"))]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Remove that snapshot instead
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The snapshot
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct UrlArgs {
    /// The app, by its label in URLs
    pub(crate) app: String,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Print the address on 127.0.0.1, which needs no trust and no resolver
    #[arg(long)]
    pub(crate) direct: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PortsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PortsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PortsCommand {
    /// Give a port back, or all whose sandboxes are gone
    Release {
        /// The port
        port: Option<u16>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ExposeArgs {
    /// The port in the room
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) which: Which,
    /// The port of this host [default: one that is kept for it]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) host_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Take the trust back
    #[arg(long)]
    pub(crate) remove: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// One sandbox, as `delete` does it
    #[arg(conflicts_with_all = ["all", "merged", "runs"])]
    pub(crate) name: Option<String>,
    /// Every sandbox in which nothing would be lost
    #[arg(long, conflicts_with_all = ["merged", "runs"])]
    pub(crate) all: bool,
    /// Those of them whose branch is merged into its base
    #[arg(long, conflicts_with = "runs")]
    pub(crate) merged: bool,
    /// The artifacts of runs that are over
    #[arg(long)]
    pub(crate) runs: bool,
    /// Only say what would go, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sandbox: NAME, or PROJECT/NAME
    pub(crate) name: String,
    /// Throw away work that is not committed
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Show the sandboxes of all projects
    #[arg(long, conflicts_with = "sandbox")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Stop the room by itself after this time, such as 30m or 2h
    #[arg(long, value_name = "DURATION")]
    pub(crate) ttl: Option<String>,
    /// The profile of the stack [default: dev, or the one that is up]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Leave a room that is up with another profile as it is
    #[arg(long)]
    pub(crate) reuse: bool,
    /// Reach listed hosts only: those of `egress.allow`, by default common development hosts and the
    /// registries of this host's own tools
    #[arg(long)]
    pub(crate) restrict_domains: bool,
    /// Wait until the services are ready, which is the default
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) wait: bool,
    /// Return when the room stands; services go on starting
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long the services may take to be ready [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The services [default: all]
    pub(crate) services: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Go on with new lines until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) grep: Option<String>,
    /// Lines of context after a match
    #[arg(short = 'A', long, value_name = "N", default_value_t = 0)]
    pub(crate) after: usize,
    /// Lines of context before a match
    #[arg(short = 'B', long, value_name = "N", default_value_t = 0)]
    pub(crate) before: usize,
    /// From a cursor on, a moment (RFC 3339), or a span back such as 5m
    #[arg(long, value_name = "CURSOR|TIME")]
    pub(crate) since: Option<String>,
    /// Only the newest lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
    /// About so many tokens, then a cursor to go on
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// Keep colours and other escape sequences
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// The service
    pub(crate) service: String,
    #[command(flatten)]
    pub(crate) which: Which,
    /// How long it may take [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The service
    pub(crate) service: String,
    /// The signal: a name such as HUP or SIGHUP, or a number
    pub(crate) signal: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    /// The service [default: the first database]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// List tables and how many rows they have
    #[arg(long)]
    pub(crate) tables: bool,
    /// Arguments of the shell
    #[arg(last = true, value_name = "ARGUMENTS", conflicts_with = "tables")]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The sandbox: NAME, or PROJECT/NAME; several run side by side
    #[arg(short = 'w', long = "sandbox", value_name = "NAME")]
    pub(crate) sandboxes: Vec<String>,
    /// Run as the room's root
    #[arg(long)]
    pub(crate) root: bool,
    /// Run in a new room on the same worktree, which is gone afterwards
    #[arg(long, conflicts_with = "attach")]
    pub(crate) fresh: bool,
    /// Join a command that runs, by the id that --verbose shows
    #[arg(long, value_name = "ID", conflicts_with_all = ["root", "words"])]
    pub(crate) attach: Option<String>,
    /// A service, for its folder and environment
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "attach")]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// As the room's root
    #[arg(long)]
    pub(crate) root: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NukeArgs {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Mend what a crash left behind
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check hothouse.toml and report every problem
    #[command(
        after_help = "Examples:\n  hothouse config check\n  hothouse config check other/hothouse.toml --json"
    )]
    Check(ConfigArgs),
    /// Show every setting with where it comes from
    #[command(after_help = "Examples:\n  hothouse config show\n  hothouse config show --json")]
    Show(ConfigArgs),
    /// Let a sandbox's own hothouse.toml change its wall and its room, after showing what would change
    ///
    /// An agent can edit the file. What describes the stack is taken from it at once; what could loosen
    /// the wall or the room waits for this.
    #[command(
        after_help = "Examples:\n  hothouse config approve -w agent-a\n  hothouse config approve -w agent-a --yes"
    )]
    Approve(ApproveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EgressCommand {
    /// List what a room tried to reach, allowed or not
    #[command(
        after_help = "Examples:\n  hothouse egress log -w agent-a\n  hothouse egress log --denied --since 10m --json\n  \
                      hothouse egress log -f"
    )]
    Log(EgressLogArgs),
    /// Say why something was denied, or what would happen to a host now
    #[command(
        after_help = "Examples:\n  hothouse egress why\n  hothouse egress why api.example.com\n  \
                      hothouse egress why db.example.com:5432"
    )]
    Why(EgressWhyArgs),
    /// Propose rules for what was denied, to be put into hothouse.toml
    #[command(after_help = "Example:\n  hothouse egress learn -w agent-a")]
    Learn(Which),
    /// Allow hosts for a sandbox, at once; without a host, list what was allowed so
    ///
    /// A rule is a host, `*.host` for everything below it, `host:port`, or a block of addresses.
    #[command(after_help = "Examples:\n  hothouse egress allow api.example.com -w agent-a\n  \
                      hothouse egress allow '*.example.com' db.example.com:5432 --project\n  \
                      hothouse egress allow --remove api.example.com")]
    Allow(EgressAllowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EgressLogArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Go on with new records until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// From a cursor on, a moment (RFC 3339), or a span back such as 5m
    #[arg(long, value_name = "CURSOR|TIME")]
    pub(crate) since: Option<String>,
    /// Only what was denied
    #[arg(long)]
    pub(crate) denied: bool,
    /// Only attempts to reach this host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Only the newest records
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
    /// About so many tokens, then a cursor to go on
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct EgressWhyArgs {
    /// The host, with a port where it is not 443
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct EgressAllowArgs {
    /// The hosts
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Allow it for every sandbox of the project
    #[arg(long)]
    pub(crate) project: bool,
    /// Take it back
    #[arg(long, requires = "hosts")]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The file [default: hothouse.toml here or in a folder above]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool for the sandboxes of this project: a btrfs in a file; needs root
    ///
    /// The file lies in the folder of the sandboxes and grows as it is written in. There must be no
    /// sandbox there yet. The daemon mounts the pool again after a restart of the host; `nuke`
    /// removes it.
    #[command(after_help = "Examples:\n  hothouse pool create\n  hothouse pool create --size 20G")]
    Create(PoolCreateArgs),
    /// Show the pools of all projects
    #[command(after_help = "Examples:\n  hothouse pool status\n  hothouse pool status --json")]
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCreateArgs {
    /// How much it may grow to, such as 20G [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon if it does not run
    Start,
    /// End the daemon; sandboxes are not disturbed
    Stop,
    /// Show the daemon
    Status,
    /// Be the daemon, in the foreground
    #[command(hide = true)]
    Run,
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
    json: bool,
}

impl Arguments {
    /// Parses the command line.
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Self, Early> {
        // The flag must be known even when the line it stands on makes no sense.
        let json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
        Self::try_parse_from(arguments).map_err(|error| Early { error, json })
    }
}

impl Early {
    /// Prints it and returns the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        let help = matches!(self.error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if help || !self.json {
            self.error.print().ok();
            return if help {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(FailureKind::Usage.exit_code())
            };
        }
        let text = self.error.render().to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let failure =
            Failure::new(FailureKind::Usage, message).hint("`hothouse --help` lists the commands");
        let body = serde_json::json!({ "error": failure });
        writeln!(std::io::stdout(), "{body}").ok();
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
