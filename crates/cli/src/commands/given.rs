//! Values from the command line: files and durations.

use std::{path::Path, time::Duration};

use hothouse_host::FileError;
use hothouse_model::{Explain, Failure, FailureKind, config};

/// Returns the failure for a file named by the user that cannot be read.
pub(super) fn unread(kind: FailureKind, error: &FileError) -> Failure {
    let failure = Failure { kind, ..error.failure() };
    match error.is_not_found() {
        true => failure.hint("check the path; a relative one starts at the current folder"),
        false => failure,
    }
}

/// Returns the failure for a file named by the user that is not text.
pub(super) fn not_text(path: &Path) -> Failure {
    Failure::new(FailureKind::Usage, format!("{} is not text in UTF-8", path.display()))
        .hint("name a text file, or convert it with `iconv -t UTF-8`")
}

/// Parses a duration from an option.
pub(super) fn duration(flag: &str, text: Option<&str>) -> Result<Option<Duration>, Failure> {
    text.map(|text| required_duration(flag, text)).transpose()
}

/// Parses the duration of an option that always has a value.
pub(super) fn required_duration(flag: &str, text: &str) -> Result<Duration, Failure> {
    config::parse_duration(text).map_err(|complaint| {
        Failure::new(FailureKind::Usage, format!("{flag} {complaint}"))
            .hint(format!("such as `{flag} 30s` or `{flag} 2h`"))
    })
}
