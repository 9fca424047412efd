//! Derives from a repository's files alone what it consists of, and a configuration for it.
//!
//! ```text
//! files --scan--> View --readers--> Findings (each with its evidence) --decide--> Draft --write--> hothouse.toml, hothouse-plan.md
//! ```
//!
//! - [`scan`]: the only effect, a bounded walk that follows no links
//! - [`view`]: the files, as the readers see them
//! - [`finding`]: the findings of readers, with file and line
//! - `read`: the readers, one module per ecosystem or kind of file
//! - `decide`: turns findings into a [`draft`]
//! - [`write`]: the draft as a commented `hothouse.toml`, merged into an existing one
//! - [`plan`]: the draft as `hothouse-plan.md`
//!
//! Nothing of the repository is ever run. Its files are not trusted: unreadable ones are reported and skipped.

mod decide;
pub mod draft;
pub mod finding;
pub mod host;
pub mod plan;
mod read;
pub mod scan;
mod text;
pub mod view;
pub mod write;

pub use self::{
    draft::{Draft, Question},
    finding::{Evidence, Findings},
    host::HostFacts,
    view::View,
};

/// Examines a repository and drafts its configuration.
pub fn discover(view: &View<'_>, host: &HostFacts, folder: &str) -> Draft {
    let findings = read::all(view, host);
    decide::decide(view, findings, host, folder)
}
