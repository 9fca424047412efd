//! Verdicts, how bad, how sure, and why.

use serde::{Deserialize, Serialize};

/// What the tool should do with the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Allow,
    /// A human decides.
    Ask,
    Deny,
}

/// How bad it would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    None,
    Low,
    /// Worth a look in the audit.
    Medium,
    High,
    Critical,
}

/// How sure the guard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    Low,
    Medium,
    High,
}

/// One thing that was found in a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub verdict: Verdict,
    pub severity: Severity,
    pub confidence: Confidence,
    /// What it concerns: a path, a host, a program.
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

/// How many findings a reason names.
const NAMED: usize = 3;

/// How long a target is at most.
const TARGET_LIMIT: usize = 400;

impl Decision {
    /// The worst finding decides; without one the call is allowed.
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

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl Confidence {
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}
