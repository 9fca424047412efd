//! Verifies the folder of a run on its own: it may come from another machine.

use std::path::Path;

use hothouse_evidence::{
    confirm::confirm,
    summary::{HTML, JSON, MARKDOWN, Summary},
};
use hothouse_host::beneath::Folder;
use hothouse_model::{Explain, Failure, FailureKind, record::Record};
use hothouse_timeline::{Anchor, Verification, digest, verify};

use super::artifacts;

/// The result of checking a folder.
#[derive(Clone, Debug)]
pub struct FolderCheck {
    pub chain: Verification,
    /// Claims of the summary that the folder does not support.
    pub problems: Vec<String>,
    /// Whether there is a summary.
    pub has_summary: bool,
}

/// Checks chain, summary and files of a folder, without using anything that this machine knows of
/// the run. A head that the reader has from elsewhere, such as a pull request, must be part of the
/// chain.
pub fn verify_folder(path: &Path, head: Option<&str>) -> Result<FolderCheck, Failure> {
    let folder = Folder::open(path).map_err(|error| {
        let kind = if error.is_not_found() { FailureKind::NotFound } else { FailureKind::Host };
        Failure::of(kind, &error).hint("name a run, or the folder of one")
    })?;
    let records = artifacts::records(&folder)?;
    let summary = artifacts::read(&folder, JSON);
    let has_summary = summary.is_some();
    let summary = summary.map(|bytes| serde_json::from_slice::<Summary>(&bytes));
    let run = match (&summary, records.first()) {
        (Some(Ok(summary)), _) => summary.run.clone(),
        (_, Some(first)) => first.run.clone(),
        _ => String::new(),
    };
    let mut problems = Vec::new();
    let anchors = match &summary {
        Some(Ok(summary)) => vec![Anchor {
            run: run.clone(),
            seq: summary.chain.records,
            hash: summary.chain.head.clone(),
            ended: false,
        }],
        _ => Vec::new(),
    };
    let chain = verify(path, &run, &anchors, None).map_err(|error| error.failure())?;
    match summary {
        Some(Ok(summary)) => problems.extend(of_summary(&folder, &summary, &records)),
        Some(Err(error)) => problems.push(format!("summary.json cannot be read: {error}")),
        None => problems.extend(without_claims(&folder)),
    }
    if let Some(head) = head
        && chain.head != head
        && !records.iter().any(|record| record.hash == head)
    {
        problems.push(format!("the chain has no record with the hash {head}"));
    }
    Ok(FolderCheck { chain, problems, has_summary })
}

/// Reports the texts of a missing summary: nothing ties them to the records.
fn without_claims(folder: &Folder) -> Vec<String> {
    let texts = [MARKDOWN, HTML].into_iter().filter(|name| artifacts::read(folder, name).is_some());
    texts
        .map(|name| format!("{name} is there, but not the {JSON} that it would follow from"))
        .collect()
}

/// Returns claims of a summary that the folder does not support.
pub(super) fn of_summary(folder: &Folder, summary: &Summary, records: &[Record]) -> Vec<String> {
    let mut wrong = confirm(summary, records);
    for (path, hash) in &summary.evidence {
        match artifacts::read(folder, path) {
            None => wrong.push(format!("{path} is missing")),
            Some(bytes) if digest(&bytes) != *hash => wrong.push(format!("{path} was changed")),
            Some(_) => {}
        }
    }
    // A summary that names no commit says that it could not look.
    if !summary.code.commit.is_empty() && !artifacts::is_sealed(summary, records) {
        wrong.push("no record of the run has the hash of what is in its files".into());
    }
    if artifacts::outcomes(folder) != summary.scenarios {
        wrong.push("the outcomes of scenarios are not those of the summary".into());
    }
    let (markdown, page) = artifacts::render(folder, summary, records);
    for (name, text) in [(MARKDOWN, markdown), (HTML, page)] {
        match artifacts::read(folder, name) {
            None => wrong.push(format!("{name} is missing")),
            Some(bytes) if bytes != text.as_bytes() => {
                wrong.push(format!("{name} does not say what summary.json says"));
            }
            Some(_) => {}
        }
    }
    wrong
}
