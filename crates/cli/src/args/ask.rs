//! What agents request from their user.

use clap::{Args, Subcommand, ValueEnum};

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// What you need, and why
    #[arg(required = true, value_name = "REASON")]
    pub(crate) text: Vec<String>,
    /// The host that the room should reach, such as api.example.com
    #[arg(long, value_name = "HOST", conflicts_with_all = ["secret", "limit"])]
    pub(crate) host: Option<String>,
    /// The secret that the room needs, by its name
    #[arg(long, value_name = "NAME", conflicts_with = "limit")]
    pub(crate) secret: Option<String>,
    /// The limit that should change, such as memory=8g
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) limit: Option<String>,
    /// Wait for the answer; exits with 1 if it is no, or does not come in time
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "wait")]
    pub(crate) timeout: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AsksArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AsksCommand>,
    /// Show answered requests too
    #[arg(long)]
    pub(crate) all: bool,
    /// Those of a run by its id, also of a deleted sandbox, answered ones too
    #[arg(long, value_name = "ID", conflicts_with = "sandbox")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AsksCommand {
    /// Answer a request; without an answer, asks for one on the terminal
    ///
    /// A host that was asked for is allowed for its sandbox, effective immediately. What else was asked
    /// for is only answered: the agent is told, and you do it.
    #[command(after_help = "Examples:\n  hothouse asks answer ask_0123456789abcdef allow\n  \
                      hothouse asks answer ask_0123456789abcdef deny --because 'use the mock'")]
    Answer {
        /// The request, as `hothouse asks` lists it
        id: String,
        /// The answer
        answer: Option<Answer>,
        /// What the agent is told with it
        #[arg(long, value_name = "TEXT")]
        because: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    Allow,
    Deny,
}
