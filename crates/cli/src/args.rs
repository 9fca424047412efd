//! The arguments: every command, flag and help text.

mod agent;
mod analytics;
mod ask;
mod browse;
mod coding;
mod config;
mod daemon;
mod egress;
mod errors;
mod flag;
mod help;
mod init;
mod integration;
mod mail;
mod objects;
pub(crate) mod parse;
mod pool;
mod proof;
mod queue;
mod review;
mod room;
mod routes;
mod sandbox;
mod secret;
mod seed;
mod service;
mod shell;
mod snapshot;
mod stack;
mod timeline;
mod url;
mod webhook;

use std::ffi::OsString;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::complete;

pub(crate) use self::{
    agent::{
        AgentTool, EventsArgs, ExplainArgs, InstallArgs, McpArgs, McpCommand, SkillsCommand,
        SkillsInstallArgs, ToolProfile, TopArgs,
    },
    analytics::{AnalyticsArgs, LlmArgs},
    ask::{Answer, AskArgs, AsksArgs, AsksCommand},
    browse::{AuthCommand, AuthLinkArgs, BrowseArgs},
    coding::{
        AgentCommand, AgentLogsArgs, AgentLoopArgs, AgentStartArgs, AgentTaskArgs, AuditArgs,
        GuardArgs, GuardCommand, GuardInstallArgs, GuardMode, GuardTool, KeepArgs, LoginArgs,
        LoginTool, RaceArgs, TmuxArgs,
    },
    config::{ApproveArgs, ConfigArgs, ConfigCommand},
    daemon::{DaemonCommand, DoctorArgs},
    egress::{EgressAllowArgs, EgressCommand, EgressLogArgs, EgressWhyArgs},
    errors::ErrorsArgs,
    flag::{FlagsArgs, FlagsCommand},
    init::InitArgs,
    integration::{IntegrationAddArgs, IntegrationCommand, IntegrationRecordArgs},
    mail::{EmailArgs, EmailsArgs},
    objects::ObjectsArgs,
    pool::{PoolCommand, PoolCreateArgs},
    proof::{CompareArgs, JudgeArg, ProveArgs, ScenariosArgs, SmokeArgs, SummaryArgs},
    queue::{CronCommand, QueueCommand},
    review::{DiffArgs, LogArgs, PromoteArgs},
    room::{ExecArgs, ShellArgs, UpArgs},
    routes::RoutesArgs,
    sandbox::{
        AdoptArgs, CleanArgs, DeleteArgs, ForkArgs, NukeArgs, SizeArgs, StatusArgs, UndeleteArgs,
    },
    secret::{SecretCommand, SecretRemoveArgs, SecretSetArgs},
    seed::{SeedArgs, SeedsArgs},
    service::{DbArgs, LogsArgs, ServiceArgs, SignalArgs},
    shell::{CompletionsArgs, ManArgs},
    snapshot::{RestoreArgs, SnapshotArgs},
    stack::{StackBuildArgs, StackCommand},
    timeline::{MarkArgs, RequestsArgs, SinceArgs, TimelineArgs, VerifyArgs, WaitArgs, WhichRun},
    url::{EditArgs, ExposeArgs, OpenArgs, PortsArgs, PortsCommand, TrustArgs, UiArgs, UrlArgs},
    webhook::{ListenArgs, WebhookArgs, WebhookCommand, WebhookSendArgs, WebhooksArgs},
};

/// Gives every coding agent its own universe for a repository.
///
/// A sandbox has its own branch and files, an isolated machine that runs the repository's real
/// stack, its own URLs, and a record of every side effect.
#[derive(Debug, Parser)]
#[command(
    name = "hothouse",
    version,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 config, 4 not found, 5 conflict, 6 not possible on this host, \
                  7 backend, 70 internal.\n\nExamples:\n  hothouse doctor            what works on this host\n  \
                  hothouse fork agent-a      a sandbox on its own branch\n  hothouse list              all sandboxes"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Without a command: where you are, and what to do next.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of every command.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Global {
    /// Print JSON on standard output, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only results
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more about what happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// Which sandbox is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Which {
    /// The sandbox: NAME, or PROJECT/NAME [default: the one of the current folder]
    #[arg(short = 'w', long = "sandbox", value_name = "NAME", add = complete::sandboxes())]
    pub(crate) sandbox: Option<String>,
}

/// Which sandbox is meant, for commands that need no other name: `status agent-a` or `status -w agent-a`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Named {
    /// The sandbox, as with -w
    #[arg(value_name = "SANDBOX", conflicts_with = "sandbox", add = complete::sandboxes())]
    name: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Named {
    pub(crate) fn which(self) -> Which {
        Which { sandbox: self.name.or(self.which.sandbox) }
    }
}

/// Which sandbox is meant, or which of its runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NamedRun {
    #[command(flatten)]
    pub(crate) named: Named,
    /// A run by its id, also of a deleted sandbox [default: the sandbox's last run]
    #[arg(long, value_name = "ID", conflicts_with_all = ["name", "sandbox"])]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at this repository and draft hothouse.toml and hothouse-plan.md
    ///
    /// Reads manifests, lockfiles, compose files, workflows and examples of settings; runs nothing of the
    /// repository and copies no secret. Run it again at any time: it adds what is new and keeps your edits. On a
    /// terminal it asks what it could not find out; whatever stays open is a caveat until it is answered.
    #[command(
        after_help = "Examples:\n  hothouse init\n  hothouse init --yes --try\n  hothouse init --answer port-web=3000\n  hothouse init --json | jq '.services[].evidence'"
    )]
    Init(InitArgs),
    /// Make a sandbox: a branch and a worktree of its own
    ///
    /// The branch starts at the commit checked out here, or at --base. Your own checkout, its
    /// index and its stash are not touched, even if there are uncommitted changes. Prints the path
    /// of the new worktree.
    #[command(
        after_help = "Examples:\n  hothouse fork agent-a\n  hothouse fork fix-login --base v2.1 --branch fix/login\n  \
                            cd \"$(hothouse fork agent-b)\""
    )]
    Fork(ForkArgs),
    /// Systems that rooms can be made of
    #[command(subcommand)]
    Stack(StackCommand),
    /// Delete sandboxes with their worktrees and data; branches are kept
    ///
    /// Name, ports and branch are free at once; `undelete` brings the rest back for a day. Refuses
    /// to lose uncommitted work unless you pass --force.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  hothouse delete agent-a\n  hothouse delete agent-a agent-b\n  hothouse delete other-project/agent-a --force\n  hothouse delete agent-a --now"
    )]
    Delete(DeleteArgs),
    /// Bring a deleted sandbox back from the trash, or list what is in it
    ///
    /// A deleted sandbox is kept for a day: files, data, snapshots, runs, and its branch where
    /// that was removed. Its room is down.
    #[command(
        after_help = "Examples:\n  hothouse undelete\n  hothouse undelete agent-a\n  hothouse undelete agent-a --as agent-b"
    )]
    Undelete(UndeleteArgs),
    /// Make a sandbox from an existing worktree
    ///
    /// It gets a room, URLs and evidence like any other; Hothouse never removes its files.
    #[command(after_help = "Examples:\n  hothouse adopt\n  hothouse adopt ../shop-fix --name fix")]
    Adopt(AdoptArgs),
    /// Show what a sandbox changed since its base, uncommitted work included
    #[command(
        after_help = "Examples:\n  hothouse diff agent-a --stat\n  hothouse diff --base v2.1 --budget 4000"
    )]
    Diff(DiffArgs),
    /// List the commits of a sandbox since its base
    #[command(after_help = "Examples:\n  hothouse log agent-a\n  hothouse log --base v2.1")]
    Log(LogArgs),
    /// Push a sandbox's branch and open a pull request, or merge it here
    ///
    /// Without a flag the branch is pushed, and a pull request opened where `gh` is installed.
    #[command(
        after_help = "Examples:\n  hothouse promote agent-a\n  hothouse promote agent-a --merge\n  hothouse promote --push"
    )]
    Promote(PromoteArgs),
    /// Take a snapshot of a sandbox: its files, commits and data
    ///
    /// Works while the room is running; its processes are paused for a moment.
    #[command(
        after_help = "Examples:\n  hothouse snapshot before-migration\n  hothouse snapshot --remove before-migration"
    )]
    Snapshot(SnapshotArgs),
    /// List the snapshots of a sandbox
    #[command(after_help = "Examples:\n  hothouse snapshots agent-a\n  hothouse snapshots --json")]
    Snapshots(Named),
    /// Restore a sandbox to a snapshot; a running room is restarted
    #[command(
        after_help = "Examples:\n  hothouse restore before-migration\n  hothouse restore before-migration -w agent-a"
    )]
    Restore(RestoreArgs),
    /// Show the disk usage of sandboxes, and how much of it is shared
    #[command(after_help = "Examples:\n  hothouse size\n  hothouse size agent-a --json")]
    Size(SizeArgs),
    /// Delete sandboxes with nothing to lose, empty the trash, or delete the artifacts of finished runs
    ///
    /// Nothing that it deletes is kept in the trash.
    #[command(
        after_help = "Examples:\n  hothouse clean --merged --dry-run\n  hothouse clean --trash\n  hothouse clean --runs\n  hothouse clean agent-a"
    )]
    Clean(CleanArgs),
    /// Print the URL of an app
    #[command(
        after_help = "Examples:\n  hothouse url web -w agent-a\n  curl \"$(hothouse url api --direct)/health\""
    )]
    Url(UrlArgs),
    /// Open an app in the browser
    ///
    /// Without a name, opens the only app, or the one whose label is `web`. Prints the URL.
    #[command(after_help = "Examples:\n  hothouse open\n  hothouse open web -w agent-a")]
    Open(OpenArgs),
    /// Open the worktree of a sandbox in an editor
    ///
    /// Uses $VISUAL, $EDITOR, or `code` if it is installed. Prints the path.
    #[command(
        visible_alias = "code",
        after_help = "Examples:\n  hothouse edit agent-a\n  hothouse edit agent-a --with 'code --new-window'"
    )]
    Edit(EditArgs),
    /// Print the variables of a run, to be sourced by a shell
    ///
    /// They name the sandbox, its run, its artifacts and the URLs of its apps.
    #[command(after_help = "Examples:\n  . <(hothouse env agent-a)\n  hothouse env agent-a --json")]
    Env(NamedRun),
    /// List the host ports reserved for apps, or release some
    #[command(
        after_help = "Examples:\n  hothouse ports\n  hothouse ports release\n  hothouse ports release 43100"
    )]
    Ports(PortsArgs),
    /// Forward a port of this host to a port of the room
    ///
    /// The host port listens on 127.0.0.1 and stays reserved until `ports release`.
    #[command(
        after_help = "Examples:\n  hothouse expose 5432 -w agent-a\n  hothouse expose 9229 --host-port 9229"
    )]
    Expose(ExposeArgs),
    /// Make this host's programs and browsers trust the certificates of URLs
    ///
    /// The certificate authority (CA) was generated on this machine and can only sign names below
    /// .localhost. Asks before it changes anything.
    #[command(
        after_help = "Examples:\n  hothouse trust\n  hothouse trust --yes\n  hothouse trust --remove"
    )]
    Trust(TrustArgs),
    /// Print a single-use link to the dashboard, or with -w to one sandbox in it
    #[command(after_help = "Examples:\n  hothouse ui --open\n  hothouse ui agent-a")]
    Ui(UiArgs),
    /// List runs, including those of deleted sandboxes
    #[command(
        after_help = "Examples:\n  hothouse runs\n  hothouse runs --json | jq -r '.[0].artifacts'"
    )]
    Runs,
    /// List the sandboxes of all projects
    #[command(
        visible_aliases = ["ls", "ps"],
        after_help = "Examples:\n  hothouse list\n  hothouse list --json | jq -r '.[].worktree'"
    )]
    List,
    /// Show one sandbox in full
    #[command(after_help = "Examples:\n  hothouse status agent-a\n  hothouse status --all --json")]
    Status(StatusArgs),
    /// Start the room of a sandbox with its services, and wait until they are ready
    ///
    /// The services are those of the worktree's hothouse.toml. If the room is already up, changed
    /// services are restarted; a room that died is replaced, and no file or row is lost.
    #[command(
        after_help = "Examples:\n  hothouse up agent-a\n  hothouse up --ttl 2h\n  hothouse up --profile e2e --timeout 5m\n  \
                      hothouse up --seed m\n  hothouse up --no-wait"
    )]
    Up(UpArgs),
    /// Stop the room; worktree, installed packages and home are kept
    #[command(after_help = "Examples:\n  hothouse down agent-a\n  hothouse down")]
    Down(Named),
    /// Pause every process of the room
    #[command(after_help = "Examples:\n  hothouse pause agent-a\n  hothouse pause")]
    Pause(Named),
    /// Resume a paused room
    #[command(after_help = "Examples:\n  hothouse resume agent-a\n  hothouse resume")]
    Resume(Named),
    /// Show the logs of services; -f follows them
    ///
    /// Lines of several services are sorted by time. --json and --budget print a cursor; pass it to
    /// --since to continue from there. Colours are stripped unless you pass --raw.
    #[command(
        after_help = "Examples:\n  hothouse logs api --tail 50\n  hothouse logs agent-a api\n  hothouse logs -f api web\n  hothouse logs --grep 'ERROR|panic' -B 2 -A 5\n  \
                      hothouse logs --since 5m --json\n  hothouse logs --since api:120,web:7 --budget 2000"
    )]
    Logs(LogsArgs),
    /// Start a service and the services it needs
    #[command(
        after_help = "Examples:\n  hothouse start api -w agent-a\n  hothouse start worker --timeout 5m"
    )]
    Start(ServiceArgs),
    /// Stop a service: its stop signal first, SIGKILL after its grace period
    #[command(after_help = "Examples:\n  hothouse stop worker\n  hothouse stop api -w agent-a")]
    Stop(ServiceArgs),
    /// Restart a service
    #[command(after_help = "Examples:\n  hothouse restart api\n  hothouse restart web -w agent-a")]
    Restart(ServiceArgs),
    /// Send a signal to a service
    #[command(after_help = "Examples:\n  hothouse signal api HUP\n  hothouse signal api SIGUSR1")]
    Signal(SignalArgs),
    /// Open the shell of a database, or list its tables with row counts
    ///
    /// Without a name, uses the first database. Arguments after `--` are passed to its shell.
    #[command(
        after_help = "Examples:\n  hothouse db\n  hothouse db -- -c 'select count(*) from orders'\n  hothouse db db --tables --json"
    )]
    Db(DbArgs),
    /// Run a command in the room, as the user `agent`, in the worktree
    ///
    /// With --json, prints its exit code, output, errors and duration as JSON once it has ended.
    ///
    /// Exits with the command's exit code: 127 if it does not exist, 126 if it cannot be run, 128
    /// plus the signal's number if a signal killed it. The command keeps running if the daemon
    /// dies.
    #[command(
        after_help = "Examples:\n  hothouse exec -w agent-a -- make test\n  hothouse exec --root -- apt-get install -y jq\n  \
                            hothouse exec -C apps/web -- npm test\n  hothouse exec -w agent-a -w agent-b -- git log -1\n  hothouse exec db -- psql\n  hothouse exec --fresh -- ./untrusted.sh"
    )]
    Exec(ExecArgs),
    /// Open a shell in the room
    #[command(after_help = "Examples:\n  hothouse shell agent-a\n  hothouse shell --root")]
    Shell(ShellArgs),
    /// List what happened in a run: requests, connections, marks, snapshots and more
    ///
    /// A query is a list of terms that must all hold: `field:text` contains, `field=text` equals,
    /// `field~regex` matches, `-term` does not hold, a word alone is looked for in the summary.
    #[command(
        after_help = "Examples:\n  hothouse timeline -w agent-a\n  hothouse timeline --kind request 'host:stripe status=200'\n  \
                      hothouse timeline --since before-checkout --json\n  hothouse timeline --run run_0123456789"
    )]
    Timeline(TimelineArgs),
    /// Set a mark in the timeline, for `since` and --since
    #[command(
        after_help = "Examples:\n  hothouse mark before-checkout\n  hothouse mark before-checkout -w agent-a"
    )]
    Mark(MarkArgs),
    /// Count what happened since a mark, kinds without a record included
    #[command(
        after_help = "Examples:\n  hothouse since before-checkout -w agent-a\n  hothouse since before-checkout --json"
    )]
    Since(SinceArgs),
    /// Wait for a record, and print the first that matches, even if it is already there
    ///
    /// Exits with 1 at the timeout, and shows the records that come nearest.
    #[command(
        after_help = "Examples:\n  hothouse wait request host:api.stripe.com --since before-checkout\n  \
                      hothouse wait request 'path:/v1/orders status=201' --timeout 10s --json"
    )]
    Wait(WaitArgs),
    /// Check that the timeline of a run is as it was written
    ///
    /// Exits with 1 if a record was changed, removed, swapped or appended, or if the summary of the run claims what its
    /// records and files do not show.
    #[command(
        after_help = "Examples:\n  hothouse verify run_0123456789\n  hothouse verify ./run_0123456789 --head sha256:…\n  \
                      hothouse verify ./run_0123456789 --signers team.pub"
    )]
    Verify(VerifyArgs),
    /// List the scenarios that a sandbox declares
    #[command(
        after_help = "Examples:\n  hothouse scenarios\n  hothouse scenarios -w agent-a --json"
    )]
    Scenarios(ScenariosArgs),
    /// Carry out a scenario in a running sandbox, and check its effects
    ///
    /// Opens the page, then waits for each expected effect until its deadline. Exits with 1 if a check does not hold.
    #[command(
        after_help = "Examples:\n  hothouse smoke checkout -w agent-a\n  hothouse smoke checkout --json"
    )]
    Smoke(SmokeArgs),
    /// Prove scenarios in fresh sandboxes of a commit, which are removed afterwards
    ///
    /// Leaves only the folder of the run, with a summary for a pull request. Exits with 1 if a check does not hold.
    #[command(
        after_help = "Examples:\n  hothouse prove checkout -w agent-a\n  hothouse prove checkout refund --judge base\n  \
                      hothouse prove checkout --times 5\n  hothouse prove checkout --against-base"
    )]
    Prove(ProveArgs),
    /// Compare sandboxes or runs: mail, events, errors, requests, rows, pages
    ///
    /// Ids, times and names of the sandboxes are set aside.
    #[command(after_help = "Examples:\n  hothouse compare agent-a agent-b --scenario checkout\n  \
                      hothouse compare run_0123456789 run_9876543210")]
    Compare(CompareArgs),
    /// Sum up a run for a reviewer, as Markdown, a page and JSON
    #[command(
        after_help = "Examples:\n  hothouse summary -w agent-a\n  hothouse summary --md >body.md\n  \
                      hothouse summary --run run_0123456789 --html\n  hothouse summary --sign"
    )]
    Summary(SummaryArgs),
    /// List the requests of a room that could be seen
    #[command(
        after_help = "Examples:\n  hothouse requests -w agent-a\n  hothouse requests 'host:stripe method=POST'\n  \
                      hothouse requests --unmatched --json"
    )]
    Requests(RequestsArgs),
    /// List the jobs of queues, empty them, or try one again
    #[command(subcommand)]
    Queue(QueueCommand),
    /// List schedules, or run one now
    #[command(subcommand)]
    Cron(CronCommand),
    /// List the paths of apps, as their source and the scenarios name them
    ///
    /// Found by patterns of common frameworks: what a program computes is not among them.
    #[command(after_help = "Examples:\n  hothouse routes -w agent-a\n  hothouse routes api --json")]
    Routes(RoutesArgs),
    /// List the bundles of data that a sandbox can be seeded with
    #[command(
        after_help = "Examples:\n  hothouse seeds -w agent-a\n  hothouse seeds --stale --json"
    )]
    Seeds(SeedsArgs),
    /// Seed a running sandbox with bundles, in the order of their needs
    ///
    /// What is named runs again if it is there already; what it needs runs only if it is not. Bundles share one
    /// JSON file, whose path they have in HOTHOUSE_SEED_CONTEXT. Prints a summary with the ids that they told.
    #[command(
        after_help = "Examples:\n  hothouse seed m -w agent-a\n  hothouse seed users,orders\n  hothouse seed checkout --json"
    )]
    Seed(SeedArgs),
    /// List how outside services are treated, and what that leaves out
    #[command(
        after_help = "Examples:\n  hothouse integrations -w agent-a\n  hothouse integrations --json"
    )]
    Integrations(WhichRun),
    /// Add an outside service that is mocked
    #[command(subcommand)]
    Integration(IntegrationCommand),
    /// List the events of analytics that the apps sent
    ///
    /// With --require, exits with 1 unless every one of the events was sent.
    #[command(
        after_help = "Examples:\n  hothouse analytics -w agent-a\n  hothouse analytics --require order_completed\n  \
                      hothouse analytics 'name=order_completed properties.plan=pro' --latest --json"
    )]
    Analytics(AnalyticsArgs),
    /// List the calls of language models, and what answered them
    #[command(
        after_help = "Examples:\n  hothouse llm -w agent-a\n  hothouse llm matched=false --json\n  hothouse llm provider=openai model:gpt"
    )]
    Llm(LlmArgs),
    /// List the objects that the apps stored
    ///
    /// What was removed or replaced since is not listed; --all lists every change.
    #[command(
        after_help = "Examples:\n  hothouse objects -w agent-a\n  hothouse objects bucket=acme-goods key:invoice --json"
    )]
    Objects(ObjectsArgs),
    /// List feature flags as the apps are told them, or pin one for this run
    #[command(
        after_help = "Examples:\n  hothouse flags -w agent-a\n  hothouse flags set new-checkout true -w agent-a\n  \
                      hothouse flags set arm '\"control\"'\n  hothouse flags unset new-checkout"
    )]
    Flags(FlagsArgs),
    /// Open a page of an app in a browser in the room, and tell what it found
    ///
    /// Screenshots, the console, exceptions, failed and slow requests, media that did not decode and
    /// the page's accessibility tree are written to the artifacts of the run. Exits with 1 if the
    /// page was answered with a status of 400 or more, or threw an exception, or a step failed.
    ///
    /// Steps of a script and of a kept page: goto, click, fill, select, check, uncheck, hover, press,
    /// upload, wait, expect, absent, screenshot, webhook, dialog.
    #[command(
        after_help = "Examples:\n  hothouse browse web / -w agent-a --full-page\n  hothouse browse web /cart --device 'iPhone 15' --json\n  \
                      hothouse browse admin /orders --auth admin --har\n  hothouse browse web --script checkout.toml\n  \
                      hothouse browse web /cart --session s\n  hothouse browse --session s click \"button 'Pay'\"\n  \
                      hothouse browse --session s --record checkout.toml --close"
    )]
    Browse(BrowseArgs),
    /// Sign in to an app as one of the roles of hothouse.toml
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Send a webhook to an app, signed as its vendor does
    ///
    /// Exits with 1 if the app does not accept it, or with --adversary does not withstand it.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  hothouse webhook stripe/payment_intent.succeeded -w agent-a\n  \
                      hothouse webhook stripe/invoice.paid --set amount_paid=500 --to api/webhooks/stripe\n  \
                      hothouse webhook github/push --adversary wrong-secret\n  hothouse webhook event.json --vendor stripe"
    )]
    Webhook(WebhookArgs),
    /// List the webhooks that were delivered to apps, an attempt each
    #[command(
        after_help = "Examples:\n  hothouse webhooks -w agent-a\n  hothouse webhooks 'type:payment_intent -status=200'\n  \
                      hothouse webhooks --out --json"
    )]
    Webhooks(WebhooksArgs),
    /// List the mails and text messages that apps sent; nothing leaves the host
    #[command(
        after_help = "Examples:\n  hothouse emails -w agent-a\n  hothouse emails 'to:ann subject:receipt'\n  \
                      hothouse emails via=resend --since before-checkout --json"
    )]
    Emails(EmailsArgs),
    /// Show one mail, its html, text, links or codes
    #[command(
        after_help = "Examples:\n  hothouse email latest\n  hothouse email latest --grep 'Your code' --codes\n  \
                      hothouse email mail_0123456789abcdef --raw"
    )]
    Email(EmailArgs),
    /// List the issues that apps reported, or show one with its last event
    ///
    /// Events of one place in the code are one issue. An issue is new if this run had not seen it
    /// before the first event that is listed.
    #[command(
        after_help = "Examples:\n  hothouse errors -w agent-a\n  hothouse errors type=TypeError --since before-checkout\n  \
                      hothouse errors err_0123456789abcdef"
    )]
    Errors(ErrorsArgs),
    /// Ask your user for something that a room may not take, such as a host
    ///
    /// The request is a record of the run and appears in `hothouse asks`. The answer is a record of
    /// kind `ask` with the id of the request: `hothouse wait ask id=ID` waits for it.
    #[command(
        after_help = "Examples:\n  hothouse ask 'prices come from there' --host api.example.com\n  \
                      hothouse ask 'the tests need more memory' --limit memory=8g --wait"
    )]
    Ask(AskArgs),
    /// List what agents ask for, and answer them
    ///
    /// On a terminal each open request is shown in turn: `a` allows it, `d` denies it.
    #[command(
        after_help = "Examples:\n  hothouse asks\n  hothouse asks --json\n  hothouse asks answer ask_0123456789abcdef allow"
    )]
    Asks(AsksArgs),
    /// Follow what happens: operations, and records of every run
    ///
    /// With --json each line is one JSON object; its `event` is `record` or a step of an operation.
    #[command(
        after_help = "Examples:\n  hothouse events -f\n  hothouse events -f -w agent-a --json"
    )]
    Events(EventsArgs),
    /// Watch all sandboxes: state, services, processor, memory, errors, denials
    ///
    /// Keys: arrows or `j` and `k` choose, Enter opens the app, `l` follows logs, `s` opens a shell, `r` restarts the
    /// services, `p` pauses or resumes, `q` quits. Without a terminal one table is printed.
    #[command(after_help = "Examples:\n  hothouse top\n  hothouse top --json")]
    Top(TopArgs),
    /// Start, follow and end coding agents in rooms
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Run several agents on one task, side by side, and compare what they made
    ///
    /// Each side has a sandbox of its own from the same start, and the same limits. The base's checks judge. Returns
    /// when all have stopped; `hothouse keep` takes one.
    #[command(
        after_help = "Examples:\n  hothouse race --idea 'make it blue' --with claude,codex --check 'npm test'\n  \
                      hothouse race --idea 'faster search' --with 'bash agent.sh' --times 3 -w agent-a"
    )]
    Race(RaceArgs),
    /// Keep one side of a race, and remove the others
    ///
    /// The branches of all sides stay. A side with work that is not committed is left alone.
    #[command(
        after_help = "Examples:\n  hothouse keep race-1f2e-1\n  hothouse keep race-1f2e-1 --merge"
    )]
    Keep(KeepArgs),
    /// Open sandboxes side by side in tmux, a pane each
    #[command(
        after_help = "Examples:\n  hothouse tmux agent-a agent-b\n  hothouse tmux agent-a agent-b --agent claude"
    )]
    Tmux(TmuxArgs),
    /// Judge a tool call of a coding agent before it happens
    ///
    /// Reads hook input on standard input and answers in the tool's own shape. It is advice: the room is the fence.
    /// SANDBOX_DIR is what may be written. Without a daemon it decides all the same.
    #[command(
        after_help = "Examples:\n  hothouse guard install --for claude\n  SANDBOX_DIR=$PWD hothouse guard < hook.json"
    )]
    Guard(GuardArgs),
    /// Show what agents said they would do, and what the room really did
    ///
    /// What was said but not seen, and seen but not said, stands out.
    #[command(
        after_help = "Examples:\n  hothouse audit -w agent-a\n  hothouse audit --suspicious\n  hothouse audit --md > audit.md"
    )]
    Audit(AuditArgs),
    /// Serve the commands as tools of the Model Context Protocol (MCP)
    ///
    /// Speaks on standard input and output, or with --http on 127.0.0.1. In a room the tools are for
    /// its own sandbox.
    #[command(
        after_help = "Examples:\n  hothouse mcp\n  hothouse mcp --profile full -w agent-a\n  hothouse mcp --http\n  \
                      hothouse mcp install --for claude"
    )]
    Mcp(McpArgs),
    /// Teach agents to use Hothouse, in the format of their tools
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Explain a code: of an error, an exit, a denied connection or a caveat
    #[command(
        after_help = "Examples:\n  hothouse explain not-listed\n  hothouse explain 6\n  hothouse explain"
    )]
    Explain(ExplainArgs),
    /// Delete every sandbox of every project; branches are kept
    #[command(after_help = "Examples:\n  hothouse nuke\n  hothouse nuke --yes")]
    Nuke(NukeArgs),
    /// Check what works on this host, what is missing, what that means and how to fix it
    #[command(
        after_help = "Examples:\n  hothouse doctor\n  hothouse doctor --json\n  hothouse doctor --fix"
    )]
    Doctor(DoctorArgs),
    /// Check and show hothouse.toml
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show what a room tried to reach, explain why it was denied, and allow it
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Keep sandboxes on a file system of their own, where forks are almost free
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Manage credentials that rooms use without seeing them
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Control the daemon, which starts automatically when needed
    #[command(subcommand)]
    Daemon(DaemonCommand),
    /// Print the version
    #[command(after_help = "Examples:\n  hothouse version\n  hothouse version --json")]
    Version,
    /// Print the completion script for a shell, or install it
    ///
    /// Names of sandboxes, services, apps and snapshots are completed as well. `--install` adds a few lines to the
    /// shell's start file (~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish), and `--remove` takes these out.
    #[command(
        after_help = "Examples:\n  hothouse completions bash --install\n  source <(hothouse completions zsh)\n  hothouse completions fish | source"
    )]
    Completions(CompletionsArgs),
    /// Print the manual page, or write all pages into a folder
    #[command(
        after_help = "Examples:\n  hothouse man | man -l -\n  hothouse man --folder ~/.local/share/man/man1"
    )]
    Man(ManArgs),
}

/// Returns the whole command tree, for completions and documentation.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Returns the names of the command in a command line, such as `egress allow`; empty if there is none.
pub(crate) fn path_of(arguments: &[OsString]) -> String {
    let Ok(matches) = command().try_get_matches_from(arguments) else { return String::new() };
    let mut names = Vec::new();
    let mut at = &matches;
    while let Some((name, below)) = at.subcommand() {
        names.push(name.to_owned());
        at = below;
    }
    names.join(" ")
}

/// Whether a command accepts the sandbox as `-w`.
pub(crate) fn takes_sandbox(path: &str) -> bool {
    let tree = command();
    let found = path.split(' ').try_fold(&tree, |at, name| at.find_subcommand(name));
    found.is_some_and(|found| found.get_arguments().any(|a| a.get_long() == Some("sandbox")))
}

#[cfg(test)]
mod tests;
