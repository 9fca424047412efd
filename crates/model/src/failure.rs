//! Failures: one value for the terminal, the socket and the log.
//!
//! The kind says who must act next. It alone determines exit code and HTTP status, so the two cannot disagree. The
//! cause chain is separate from the message, so that nothing is printed twice.

use std::error::Error;

use serde::{Deserialize, Serialize};

/// Who must act after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// What was asked for did not happen: a failed check, a missing event, a timeout of `wait`.
    Unmet,
    /// The command line is wrong.
    Usage,
    /// `hothouse.toml` is wrong.
    Config,
    /// What was named does not exist.
    NotFound,
    /// Something that exists is in the way.
    Conflict,
    /// This host cannot do it.
    Host,
    /// The engine behind a room refused.
    Backend,
    /// An internal error: an invariant of ours does not hold.
    Internal,
}

impl FailureKind {
    /// Every kind, for the documented list.
    pub const ALL: [Self; 8] = [
        Self::Unmet,
        Self::Usage,
        Self::Config,
        Self::NotFound,
        Self::Conflict,
        Self::Host,
        Self::Backend,
        Self::Internal,
    ];

    /// Returns the exit code of a command that fails this way.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Unmet => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::NotFound => 4,
            Self::Conflict => 5,
            Self::Host => 6,
            Self::Backend => 7,
            Self::Internal => 70,
        }
    }

    /// Returns the HTTP status of a response that fails this way.
    pub fn http_status(self) -> u16 {
        match self {
            Self::Unmet => 412,
            Self::Usage => 400,
            Self::Config => 422,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Host => 501,
            Self::Backend => 502,
            Self::Internal => 500,
        }
    }
}

/// An error that knows who must act and what to do next.
pub trait Explain: Error + Sized {
    /// Returns who must act.
    fn kind(&self) -> FailureKind;

    /// Returns causes that are values rather than errors, such as the problems of a config.
    fn causes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what to do next.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes the failure that users read.
    fn failure(&self) -> Failure {
        let mut failure = Failure { hints: self.hints(), ..Failure::of(self.kind(), self) };
        failure.causes.extend(self.causes());
        failure
    }
}

impl<E: Explain> Explain for Box<E> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }

    fn causes(&self) -> Vec<String> {
        (**self).causes()
    }

    fn hints(&self) -> Vec<String> {
        (**self).hints()
    }
}

/// Implements [`Explain`] for an error of several operations: variants that only pass an error on are listed once, and
/// their errors explain themselves. `kind` has an arm for every other variant; `causes` and `hints` have arms where
/// there are any.
///
/// ```ignore
/// hothouse_model::explain! {
///     AdoptError passes on Git, File;
///     kind {
///         Self::Known { .. } => FailureKind::Conflict,
///     }
///     hints {
///         Self::Known { name, .. } => vec![format!("see `hothouse status -w {name}`")],
///     }
/// }
/// ```
#[macro_export]
macro_rules! explain {
    (
        $name:ident passes on $($passed:ident),+ ;
        $(kind { $($kind:tt)* })?
        $(causes { $($causes:tt)* })?
        $(hints { $($hints:tt)* })?
    ) => {
        impl $crate::Explain for $name {
            fn kind(&self) -> $crate::FailureKind {
                match self {
                    $(Self::$passed(error) => $crate::Explain::kind(error),)+
                    $($($kind)*)?
                }
            }

            fn causes(&self) -> Vec<String> {
                match self {
                    $(Self::$passed(error) => $crate::Explain::causes(error),)+
                    $($($causes)*)?
                    #[allow(unreachable_patterns, reason = "some have a cause for every variant")]
                    _ => Vec::new(),
                }
            }

            fn hints(&self) -> Vec<String> {
                match self {
                    $(Self::$passed(error) => $crate::Explain::hints(error),)+
                    $($($hints)*)?
                    #[allow(unreachable_patterns, reason = "some have a hint for every variant")]
                    _ => Vec::new(),
                }
            }
        }
    };
}

/// A failure as users read it: what happened, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Who must act; on the wire, the stable `code`.
    #[serde(rename = "code")]
    pub kind: FailureKind,
    /// What was attempted and on what, without the cause.
    pub message: String,
    /// The chain of causes, outermost first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What to do next; each names a command or a setting.
    #[serde(default)]
    pub hints: Vec<String>,
}

impl Failure {
    /// Makes a failure that has no cause beyond its message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// Makes a failure from an error and its chain of sources.
    pub fn of(kind: FailureKind, error: &dyn Error) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self { kind, message: error.to_string(), causes, hints: Vec::new() }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns the message and its causes in one line.
    pub fn in_a_line(&self) -> String {
        let parts = std::iter::once(&self.message).chain(&self.causes);
        parts.map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join(": ")
    }

    /// Renders the failure for a terminal, one line per fact.
    pub fn render(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        for cause in &self.causes {
            text.push_str(&format!("  caused by: {}\n", cause.replace('\n', "\n    ")));
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("mount overlay for `blue`")]
    struct Mount(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("sandbox `blue` did not start")]
    struct Start(#[source] Mount);

    #[test]
    fn the_chain_is_walked_and_nothing_is_printed_twice() {
        let error = Start(Mount(std::io::Error::from_raw_os_error(1)));
        let failure = Failure::of(FailureKind::Host, &error).hint("run `hothouse doctor`");
        assert_eq!(
            failure.render(),
            "error: sandbox `blue` did not start\n  caused by: mount overlay for `blue`\n  \
             caused by: Operation not permitted (os error 1)\nhint: run `hothouse doctor`\n"
        );
        assert_eq!(
            failure.in_a_line(),
            "sandbox `blue` did not start: mount overlay for `blue`: Operation not permitted (os error 1)"
        );
    }

    #[test]
    fn every_kind_has_its_own_exit_code_and_status() {
        let distinct = |values: Vec<u16>| {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.len() == values.len()
        };
        assert!(distinct(FailureKind::ALL.iter().map(|kind| kind.exit_code().into()).collect()));
        assert!(distinct(FailureKind::ALL.iter().map(|kind| kind.http_status()).collect()));
    }
}
