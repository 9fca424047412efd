//! Verdicts, with severity, confidence and reason.

use hothouse_model::agent::{Confidence, Severity, Verdict};
use serde::{Deserialize, Serialize};

/// A finding in a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub verdict: Verdict,
    pub severity: Severity,
    pub confidence: Confidence,
    /// Its subject: a path, a host, a program.
    pub target: String,
    /// Why, and what to do instead.
    pub reason: String,
}

/// The outcome for a whole call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub verdict: Verdict,
    pub severity: Severity,
    pub confidence: Confidence,
    pub target: String,
    pub reason: String,
}

/// The maximum number of findings that a reason names.
const NAMED: usize = 3;

/// The maximum length of a target.
const TARGET_LIMIT: usize = 400;

impl Decision {
    /// Decides by the worst finding; without one the call is allowed.
    pub fn of(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|found| {
            std::cmp::Reverse((found.verdict, found.severity, found.confidence))
        });
        let Some(worst) = findings.first().cloned() else {
            return Self {
                verdict: Verdict::Allow,
                severity: Severity::None,
                confidence: Confidence::High,
                target: String::new(),
                reason: "inside of the sandbox".to_owned(),
            };
        };
        let mut reasons: Vec<&str> = Vec::new();
        for found in findings.iter().filter(|found| found.verdict == worst.verdict) {
            if !reasons.contains(&found.reason.as_str()) && reasons.len() < NAMED {
                reasons.push(&found.reason);
            }
        }
        Self {
            verdict: worst.verdict,
            severity: worst.severity,
            confidence: worst.confidence,
            target: worst.target.chars().take(TARGET_LIMIT).collect(),
            reason: reasons.join("; "),
        }
    }
}
