//! The arguments of `integration`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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
