//! The arguments of `secret`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Give a secret its value, read from standard input and never from the command line
    ///
    /// The value is for this project alone, unless you say --everywhere. Rooms see a placeholder; the
    /// wall puts the value in, only towards the hosts that the config names for it.
    #[command(
        after_help = "Examples:\n  gh auth token | hothouse secret set GITHUB_TOKEN\n  hothouse secret set NPM_TOKEN --from file\n  \
                      hothouse secret set STRIPE_KEY --from env:STRIPE_TEST_KEY\n  \
                      hothouse secret set GITHUB_TOKEN --everywhere --host github.com --host api.github.com"
    )]
    Set(SecretSetArgs),
    /// List the secrets that are declared or set here; values are never shown
    #[command(after_help = "Examples:\n  hothouse secret list\n  hothouse secret list --json")]
    List,
    /// Forget a secret and its value
    #[command(after_help = "Example:\n  hothouse secret rm GITHUB_TOKEN")]
    Rm(SecretRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SecretSetArgs {
    /// The name, as the room's environment and the config have it
    pub(crate) name: String,
    /// Where the value is kept or comes from: keyring, file, env:NAME or command:… [default: as the
    /// config says, else keyring]
    #[arg(long, value_name = "SOURCE")]
    pub(crate) from: Option<String>,
    /// A host that may have it at most, such as api.github.com or *.example.com; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Let every project use it whose config declares it; needs --host
    #[arg(long)]
    pub(crate) everywhere: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SecretRemoveArgs {
    /// The name
    pub(crate) name: String,
    /// Mean the one for every project
    #[arg(long)]
    pub(crate) everywhere: bool,
}
