//! What ties a summary to the chain of its run.
//!
//! Records tell which mails and requests there were. The rest of a summary — which commit ran, what a page showed, what
//! a query printed — is only in files, which anyone can edit. So its hash becomes a record, and whoever knows the head
//! of the chain notices a change.

use hothouse_model::record::{Kind, Record, bodies::LogBody};

use super::Summary;
use crate::outcome::ScenarioOutcome;

/// Returns the part of a summary that a seal covers: what is known when the run ends, and what no record has.
pub fn sealed(summary: &Summary) -> Vec<u8> {
    // Further attempts and a comparison come after the run, from runs of their own. The verdict follows from the checks.
    let scenarios = summary.scenarios.iter().cloned();
    let scenarios = scenarios.map(|one| ScenarioOutcome { attempts: Vec::new(), ok: false, ..one });
    let all = Summary {
        project: summary.project.clone(),
        sandbox: summary.sandbox.clone(),
        run: summary.run.clone(),
        code: summary.code.clone(),
        digests: summary.digests.clone(),
        seed: summary.seed.clone(),
        flags: summary.flags.clone(),
        scenarios: scenarios.collect(),
        changed_checks: summary.changed_checks.clone(),
        files: summary.files.clone(),
        coverage: summary.coverage.clone(),
        caveats: summary.caveats.clone(),
        not_covered: summary.not_covered.clone(),
        evidence: summary.evidence.clone(),
        ..Summary::default()
    };
    serde_json::to_vec(&all).expect("a summary has text as keys")
}

/// Returns the last seal among the records of a run.
pub fn seal_of(records: &[Record]) -> Option<String> {
    let logs = records.iter().rev().filter(|record| record.kind == Kind::Log);
    logs.filter_map(|record| record.body::<LogBody>().ok()).find_map(|body| body.seals)
}
