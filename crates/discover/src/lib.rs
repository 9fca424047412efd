//! What a repository is made of, from its files alone, and the configuration that follows from it.
//!
//! ```text
//! files --scan--> View --readers--> Findings (each with its evidence) --decide--> Draft --write--> hothouse.toml, hothouse-plan.md
//! ```
//!
//! - [`scan`]: the one effect, a bounded walk that follows no link
//! - [`view`]: the files, as the readers see them
//! - [`finding`]: what readers find, with file and line
//! - `read`: the readers, one module per ecosystem or kind of file
//! - `decide`: from findings to a [`draft`]
//! - [`write`]: the draft as a commented `hothouse.toml`, merged into one that exists
//! - [`plan`]: the draft as `hothouse-plan.md`
//!
//! Nothing of the repository is ever run. Its files may be anything: what cannot be read is reported and skipped.

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

/// Looks at a repository and drafts its configuration.
pub fn discover(view: &View<'_>, host: &HostFacts, folder: &str) -> Draft {
    let findings = read::all(view, host);
    decide::decide(view, findings, host, folder)
}
