//! Counts tests that cannot run here.
//!
//! `./x test` names a file to which every skip adds a line, and prints them at the end with their
//! reasons. With `HOTHOUSE_REQUIRE=all`, as in `.ci/run`, a skip fails its test unless
//! `.config/skips.txt` lists it.

use std::{env, fmt, fs::OpenOptions, io::Write};

/// The variable that names the file of skips; one line each: test, what, missing, separated by
/// tabs.
const RECORD: &str = "HOTHOUSE_TEST_SKIPS";

/// The variable that forbids skips.
const REQUIRE: &str = "HOTHOUSE_REQUIRE";

/// The skips that are never forbidden, each with the reason above it.
const ALLOWED: &str = include_str!("../../../.config/skips.txt");

/// Records that a test, or a part of it, does not run because this host lacks something.
///
/// Panics where skips are forbidden. Only for features that a host lacks: a case that does not
/// apply to a user or a mode is not a skip.
pub fn skip(what: &str, missing: &str) {
    let skip = Skip { what: one_line(what), missing: one_line(missing) };
    eprintln!("SKIPPED: {skip} is missing here");
    if let Some(file) = env::var_os(RECORD) {
        let line = format!("{}\t{}\t{}\n", test_name(), skip.what, skip.missing);
        // One write to a file opened for appending: lines of other tests come before or after it.
        let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    if let Err(why) = skip.judge(env::var(REQUIRE).ok().as_deref(), ALLOWED) {
        panic!("{why}");
    }
}

/// A test that did not run, and what it needs.
struct Skip {
    what: String,
    missing: String,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.missing)
    }
}

impl Skip {
    /// Decides whether the test may continue, by the value of [`REQUIRE`].
    fn judge(&self, require: Option<&str>, allowed: &str) -> Result<(), String> {
        match require {
            None | Some("") => Ok(()),
            Some("all") if patterns(allowed).any(|pattern| matches(pattern, &self.to_string())) => {
                Ok(())
            }
            Some("all") => Err(format!(
                "{self} is missing here, and {REQUIRE}=all forbids to skip what .config/skips.txt does not list"
            )),
            Some(other) => Err(format!("{REQUIRE} is `{other}`; its only value is `all`")),
        }
    }
}

/// Returns the lines of the list that are neither empty nor comments.
fn patterns(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns whether a pattern matches the whole text, as in `./x`.
fn matches(pattern: &str, text: &str) -> bool {
    hothouse_model::glob::fits(pattern.as_bytes(), text.as_bytes())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the name of the running test: a variable of nextest, or the thread's name with libtest.
fn test_name() -> String {
    env::var("NEXTEST_TEST_NAME")
        .ok()
        .or_else(|| std::thread::current().name().map(str::to_owned))
        .unwrap_or_else(|| "a test".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("a: b", "a: b", true),
            ("a: b", "a: bc", false),
            ("a: *", "a: b", true),
            ("*: b", "a: b", true),
            ("*a*b", "xaxb", true),
            ("*a*b", "xbxa", false),
            ("a*", "ba", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_skip_is_forbidden_unless_it_is_listed() {
        let skip = Skip { what: "a browser".into(), missing: "chromium".into() };
        assert_eq!(skip.judge(None, ""), Ok(()));
        assert_eq!(skip.judge(Some("all"), "# why\na browser: chrom*\n"), Ok(()));
        let why = skip.judge(Some("all"), "# a browser: chromium\nanother: chromium\n");
        assert!(why.unwrap_err().starts_with("a browser: chromium is missing here"));
        assert!(skip.judge(Some("some"), "a browser: chromium\n").is_err());
    }

    #[test]
    fn each_listed_skip_has_its_reason_above_it() {
        let mut explained = false;
        for line in ALLOWED.lines().map(str::trim) {
            assert!(line.is_empty() || line.starts_with('#') || explained, "no reason: {line}");
            explained = line.starts_with('#') || (explained && !line.is_empty());
            assert!(line.starts_with('#') || !line.starts_with('*'), "too wide: {line}");
        }
    }
}
