//! Values from the command line: files and durations.

use std::{path::Path, time::Duration};

use hothouse_host::{FileError, files};
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

/// Reads a text for an agent, which is kept with its sandbox.
pub(super) fn told_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let bytes = files::read_capped(path, limit).map_err(|error| match error.source.kind() {
        std::io::ErrorKind::FileTooLarge => {
            let message = format!("{} is longer than {limit} bytes", path.display());
            Failure::new(FailureKind::Usage, message)
                .hint("put it into the repository, and name the file in a short text")
        }
        _ => unread(FailureKind::Usage, &error),
    })?;
    String::from_utf8(bytes).map_err(|_| not_text(path))
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
