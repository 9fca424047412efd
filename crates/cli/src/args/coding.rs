//! Coding agents: the guard, the audit, starting them, and races.

use clap::{Args, Subcommand, ValueEnum};

use super::{Named, NamedRun, WhichRun};
use crate::complete;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GuardArgs {
    #[command(subcommand)]
    pub(crate) command: Option<GuardCommand>,
    /// The tool whose hook input is read [default: recognized from the input]
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<GuardTool>,
    /// What is done about calls that the guard does not understand [default: ask]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<GuardMode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardTool {
    Claude,
    Codex,
    Gemini,
    Copilot,
    Cursor,
    #[value(name = "opencode")]
    OpenCode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardMode {
    Ask,
    Deny,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GuardCommand {
    /// Put the guard into the hooks of a tool
    ///
    /// Only the guard's own entry is written; everything else in the file stays as it is.
    #[command(
        after_help = "Examples:\n  hothouse guard install --for claude\n  hothouse guard install --for codex --user"
    )]
    Install(GuardInstallArgs),
    /// Take the guard out of the hooks of a tool
    ///
    /// Only the guard's own entry is removed.
    #[command(
        after_help = "Examples:\n  hothouse guard uninstall --for claude\n  hothouse guard uninstall --for codex --user"
    )]
    Uninstall(GuardInstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GuardInstallArgs {
    /// The tool
    #[arg(long = "for", value_name = "TOOL", required = true)]
    pub(crate) tools: Vec<GuardTool>,
    /// In your home folder, for all projects, instead of this project
    #[arg(long)]
    pub(crate) user: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only what was blocked, is suspicious, or does not fit together
    #[arg(long)]
    pub(crate) suspicious: bool,
    /// Print the audit as Markdown
    #[arg(long)]
    pub(crate) md: bool,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Start a coding agent in the room of a sandbox
    ///
    /// It runs on a terminal that the room keeps: it outlives your terminal and the daemon. The guard is
    /// installed in the room, and SANDBOX_DIR names the worktree.
    #[command(
        after_help = "Examples:\n  hothouse agent start agent-a --tool claude --prompt 'make the header blue'\n  \
                      hothouse agent start agent-a --tool 'bash scripts/agent.sh' --attach"
    )]
    Start(AgentStartArgs),
    /// Run a coding agent again and again until its work is done
    ///
    /// Each round ends with a commit. The loop ends when the check holds, the file of --done is there, rounds,
    /// time or cost run out, or three rounds are alike.
    #[command(
        after_help = "Examples:\n  hothouse agent loop agent-a --tool claude --check 'npm test' --rounds 10\n  \
                      hothouse agent loop agent-a --tool 'bash agent.sh' --done DONE.md --time 1h"
    )]
    Loop(AgentLoopArgs),
    /// End the agent of a sandbox
    #[command(
        after_help = "Examples:\n  hothouse agent stop agent-a\n  hothouse agent stop agent-a --json"
    )]
    Stop(AgentNameArgs),
    /// Start the last agent of a sandbox again, where it left off
    #[command(
        after_help = "Examples:\n  hothouse agent resume agent-a\n  hothouse agent resume agent-a --json"
    )]
    Resume(AgentNameArgs),
    /// List agents: tool, state, round, cost
    #[command(after_help = "Examples:\n  hothouse agent list\n  hothouse agent list --json")]
    List(NamedRun),
    /// Show what the terminal of an agent showed
    #[command(
        after_help = "Examples:\n  hothouse agent logs agent-a\n  hothouse agent logs agent-a --tail 50"
    )]
    Logs(AgentLogsArgs),
    /// Attach to the terminal of an agent; several may
    ///
    /// ctrl-] d detaches, and so does closing your terminal; the agent runs on.
    #[command(
        after_help = "Examples:\n  hothouse agent attach agent-a\n  hothouse agent attach -w acme/agent-a"
    )]
    Attach(AgentNameArgs),
    /// Let every room use a login of this host, without holding it
    ///
    /// Rooms get a placeholder; the wall puts the value into requests to the vendor's hosts alone. The value is read
    /// from the tool's own files each time, so what the tool renews here is renewed for rooms.
    #[command(
        after_help = "Examples:\n  hothouse agent login claude\n  hothouse agent login codex --remove"
    )]
    Login(LoginArgs),
    /// Print the login of a tool, for the wall
    #[command(hide = true)]
    Token {
        tool: LoginTool,
        /// The account instead of the token
        #[arg(long)]
        account: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoginTool {
    Claude,
    Codex,
    Gemini,
    Copilot,
    Gh,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The tool
    pub(crate) tool: LoginTool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Rooms can use it no longer
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentNameArgs {
    #[command(flatten)]
    pub(crate) which: Named,
}

#[derive(Debug, Args)]
pub(crate) struct AgentLogsArgs {
    #[command(flatten)]
    pub(crate) which: NamedRun,
    /// Only the last lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
}

/// What an agent is and what it is told.
#[derive(Debug, Args)]
pub(crate) struct AgentTaskArgs {
    /// The tool: claude, codex, gemini, copilot, opencode, aider, or a command [default: agent.command of the
    /// config, else claude]
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// What the agent is told [default: to do what feature-request.md says, if there is a task]
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// What the agent is told, from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) prompt_file: Option<std::path::PathBuf>,
    /// The task, written to feature-request.md
    #[arg(long, value_name = "TEXT")]
    pub(crate) idea: Option<String>,
    /// The task, from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<std::path::PathBuf>,
    /// The model that the tool is to use
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Leave the hooks of the tool alone; the room is the fence either way
    #[arg(long)]
    pub(crate) no_guard: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentStartArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    #[command(flatten)]
    pub(crate) task: AgentTaskArgs,
    /// Work through the prompt without a human, then end
    #[arg(long)]
    pub(crate) unattended: bool,
    /// Attach to its terminal at once
    #[arg(long)]
    pub(crate) attach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentLoopArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    #[command(flatten)]
    pub(crate) task: AgentTaskArgs,
    /// The most rounds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// The most time, all rounds together, such as 2h
    #[arg(long, value_name = "DURATION")]
    pub(crate) time: Option<String>,
    /// The most dollars, as far as the tool reports them
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) cost: Option<f64>,
    /// A command of the room that is 0 when the work is done
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Option<String>,
    /// A file of the worktree whose presence says that the work is done
    #[arg(long, value_name = "FILE")]
    pub(crate) done: Option<String>,
    /// How long a rate limit is waited for first; twice as long each time [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) pause: Option<String>,
    /// Wait until the loop has ended; exits with 1 if its work is not done
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RaceArgs {
    /// The task
    #[arg(long, value_name = "TEXT")]
    pub(crate) idea: String,
    /// Tools or commands, one side each: `claude,codex`, or a command with spaces
    #[arg(long = "with", value_name = "TOOL", required = true)]
    pub(crate) with: Vec<String>,
    /// How many sides each tool has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) times: u32,
    /// When a side is ended [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub(crate) time: Option<String>,
    /// Judge each side by these scenarios of the base
    #[arg(long = "scenario", value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// Judge each side by this command, with the base's tests in the place of its own
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Option<String>,
    /// The sandbox to start from [default: HEAD of the current folder]
    #[arg(short = 'w', long = "sandbox", value_name = "NAME", add = complete::sandboxes())]
    pub(crate) sandbox: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// The side to keep
    #[arg(add = complete::sandboxes())]
    pub(crate) name: String,
    /// Merge its branch into the base
    #[arg(long)]
    pub(crate) merge: bool,
    /// Push its branch
    #[arg(long)]
    pub(crate) push: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TmuxArgs {
    /// The sandboxes, a pane each
    #[arg(required = true, value_name = "NAME", add = complete::sandboxes())]
    pub(crate) names: Vec<String>,
    /// Start this agent in each that has none
    #[arg(long, value_name = "TOOL")]
    pub(crate) agent: Option<String>,
    /// The name of the session
    #[arg(long, value_name = "NAME", default_value = "hothouse")]
    pub(crate) session: String,
    /// Only make the session; do not attach to it
    #[arg(long)]
    pub(crate) detached: bool,
}
