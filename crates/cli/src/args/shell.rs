//! Completions and manual pages for shells.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder for all pages, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
    /// Add them to the start file of bash, zsh or fish
    #[arg(long)]
    pub(crate) install: bool,
    /// Take them out of it
    #[arg(long, conflicts_with = "install")]
    pub(crate) remove: bool,
}
