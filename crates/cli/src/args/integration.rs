//! The arguments of `integration`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};

use super::Which;

#[derive(Debug, Subcommand)]
pub(crate) enum IntegrationCommand {
    /// Make a mock of a description in OpenAPI 3.0 or 3.1 (JSON)
    ///
    /// Copies the description into the project's fixtures and prints the lines for hothouse.toml. The
    /// mock validates requests against it and answers with its examples, or with what fits its
    /// schemas.
    #[command(
        after_help = "Examples:\n  hothouse integration add openapi.json --name search\n  hothouse integration add openapi.json --host api.search.example --write"
    )]
    Add(IntegrationAddArgs),
    /// Record answers of the real hosts as fixtures; also `integration NAME record`
    ///
    /// While it runs, calls of the sandbox to the hosts of the integration reach the real ones: with test keys
    /// alone, and with the secrets that the wall puts in. When the command ends, or with Ctrl-C, the hosts are mocked
    /// again, and the redacted answers are fixtures in the worktree. Look at them before you commit them.
    #[command(
        after_help = "Examples:\n  hothouse integration stripe record -w agent-a -- npm run checkout\n  hothouse integration stripe record -w agent-a --for 5m"
    )]
    Record(IntegrationRecordArgs),
}

#[derive(Debug, Args)]
pub(crate) struct IntegrationRecordArgs {
    /// The integration, of class `mock` or `test-mode`
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) which: Which,
    /// End after this time [default: 10m, or the end of the command]
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) time: Option<String>,
    /// A command to run in the room; the recording ends with it
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct IntegrationAddArgs {
    /// The description
    pub(crate) file: PathBuf,
    /// The name of the integration [default: the first part of the host's name that tells it]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A host that it answers for; can be repeated [default: those of the description's servers]
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Append the lines to hothouse.toml
    #[arg(long)]
    pub(crate) write: bool,
}
