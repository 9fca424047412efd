//! MCP and skills for agents, and events for programs that follow them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Which;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Which tools: the daily ones, or all
    #[arg(long, value_name = "PROFILE", default_value = "daily")]
    pub(crate) profile: ToolProfile,
    /// Serve streamable HTTP on 127.0.0.1, and print the URL and the token
    #[arg(long)]
    pub(crate) http: bool,
    /// The port for --http [default: a free one]
    #[arg(long, value_name = "PORT", requires = "http")]
    pub(crate) port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolProfile {
    Daily,
    Full,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add Hothouse to the configuration of a tool, or take it out again
    ///
    /// Only the entry `hothouse` is written or removed; everything else in the file stays as it is.
    #[command(
        after_help = "Examples:\n  hothouse mcp install --for claude\n  hothouse mcp install --for cursor --user\n  \
                      hothouse mcp install --for codex --remove"
    )]
    Install(InstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The tool
    #[arg(long = "for", value_name = "TOOL", required = true)]
    pub(crate) tools: Vec<AgentTool>,
    /// In your home folder, for all projects, instead of this project
    #[arg(long)]
    pub(crate) user: bool,
    /// Take it out again
    #[arg(long)]
    pub(crate) remove: bool,
    /// Which tools the server offers: the daily ones, or all
    #[arg(long, value_name = "PROFILE", default_value = "daily")]
    pub(crate) profile: ToolProfile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentTool {
    Claude,
    Codex,
    Cursor,
    Vscode,
    Gemini,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// Write the skills where a tool looks for them, or take them out again
    ///
    /// They are short texts that tell an agent how to use Hothouse, with the commands of this version.
    /// Files that you changed are not touched unless you pass --force.
    #[command(
        after_help = "Examples:\n  hothouse skills install --for claude\n  hothouse skills install --for codex --user\n  \
                      hothouse skills install --for claude --agents-md\n  hothouse skills install --for claude --remove"
    )]
    Install(SkillsInstallArgs),
    /// List the skills
    #[command(after_help = "Examples:\n  hothouse skills list\n  hothouse skills list --json")]
    List,
}

#[derive(Debug, Args)]
pub(crate) struct SkillsInstallArgs {
    /// The tool
    #[arg(long = "for", value_name = "TOOL", default_value = "claude")]
    pub(crate) tools: Vec<AgentTool>,
    /// In your home folder, for all projects, instead of this folder
    #[arg(long)]
    pub(crate) user: bool,
    /// Add a paragraph to AGENTS.md too
    #[arg(long)]
    pub(crate) agents_md: bool,
    /// Take them out again
    #[arg(long)]
    pub(crate) remove: bool,
    /// Replace files that were changed
    #[arg(long)]
    pub(crate) force: bool,
    /// The folder of the project [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code: of an error, an exit, a denied connection or a caveat
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How often to look, such as `1s`
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    pub(crate) every: String,
    /// Print one table and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Follow what happens until you stop it
    #[arg(short, long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) which: Which,
}
