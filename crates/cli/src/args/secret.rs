//! The arguments of `secret`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set the value of a secret, read from standard input and never from the command line
    ///
    /// The value is for this project only, unless you pass --everywhere. Rooms see a placeholder;
    /// the wall inserts the value, only in requests to the hosts that the config names for it.
    #[command(
        after_help = "Examples:\n  gh auth token | hothouse secret set GITHUB_TOKEN\n  hothouse secret set NPM_TOKEN --from file\n  \
                      hothouse secret set STRIPE_KEY --from env:STRIPE_TEST_KEY\n  \
                      hothouse secret set GITHUB_TOKEN --everywhere --host github.com --host api.github.com"
    )]
    Set(SecretSetArgs),
    /// List the secrets declared or set here; values are never shown
    #[command(after_help = "Examples:\n  hothouse secret list\n  hothouse secret list --json")]
    List,
    /// Remove a secret and its value
    #[command(
        after_help = "Examples:\n  hothouse secret rm GITHUB_TOKEN\n  hothouse secret rm GITHUB_TOKEN --json"
    )]
    Rm(SecretRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SecretSetArgs {
    /// The name, as in the config and in the room's environment
    pub(crate) name: String,
    /// Where the value is stored or read from: keyring, file, env:NAME or command:… [default: as in
    /// the config, else keyring]
    #[arg(long, value_name = "SOURCE")]
    pub(crate) from: Option<String>,
    /// A host that may receive it, such as api.github.com or *.example.com; can be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Make it available to every project whose config declares it; needs --host
    #[arg(long)]
    pub(crate) everywhere: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SecretRemoveArgs {
    /// The name
    pub(crate) name: String,
    /// Remove the value that was set for every project
    #[arg(long)]
    pub(crate) everywhere: bool,
}
