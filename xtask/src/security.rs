//! `SECURITY.md` names tests; each must exist.

use std::path::Path;

use hothouse_host::files;

const DOCUMENT: &str = "SECURITY.md";
const HEADING: &str = "## What an attacker may try";

/// A test that the document names: `module::name` and the file it is in.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: usize,
    test: String,
    file: String,
}

/// Reports tests that do not exist, and rows of the table of attacks that name none.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = files::read_text(&root.join(DOCUMENT)).map_err(|error| error.to_string())?;
    let mut found = untested(&text);
    for Named { line, test, file } in named(&text) {
        let source = files::read_text(&root.join(&file)).unwrap_or_default();
        if !has_test(&source, test.rsplit("::").next().unwrap_or(&test)) {
            found.push(format!("  {DOCUMENT}:{line}: {file} has no test `{test}`"));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("attacks without a test:\n{}", found.join("\n"))),
    }
}

/// Finds links to sources whose text is the name of a test.
fn named(text: &str) -> Vec<Named> {
    let of = |(line, number): (&str, usize)| {
        let links = line.split("[`").skip(1).filter_map(|rest| rest.split_once("`]("));
        let named = links.filter_map(|(test, rest)| {
            let file = rest.split_once(')')?.0;
            file.ends_with(".rs").then(|| Named {
                line: number,
                test: test.into(),
                file: file.into(),
            })
        });
        named.collect::<Vec<_>>()
    };
    text.lines().zip(1..).flat_map(of).collect()
}

/// Returns the rows of the table of attacks that no test shows.
fn untested(text: &str) -> Vec<String> {
    let Some((before, section)) = text.split_once(HEADING) else {
        return vec![format!("  {DOCUMENT} has no `{HEADING}`")];
    };
    let first = before.lines().count() + 1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().zip(first..).filter(|(line, _)| line.starts_with("| ")).skip(1);
    let is_bare = |(line, _): &(&str, usize)| named(line).is_empty();
    rows.filter(is_bare).map(|(_, line)| format!("  {DOCUMENT}:{line}: no test is named")).collect()
}

/// Returns whether a source has a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_named = |line: &&str| {
        let rest = line.trim_start_matches("async ").strip_prefix("fn ");
        rest.is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
    };
    let is_test = |at: usize| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        above.into_iter().any(|line| line.contains("test]") || line.contains("test("))
    };
    lines.iter().enumerate().any(|(at, line)| is_named(line) && is_test(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_function_with_the_attribute() {
        let source =
            "#[test]\nfn one() {}\nfn two() {}\n#[tokio::test]\n#[ignore]\nasync fn three() {}\n";
        assert!(has_test(source, "one") && has_test(source, "three"));
        assert!(!has_test(source, "two") && !has_test(source, "on"));
    }

    #[test]
    fn rows_without_a_test_are_reported() {
        let text = format!(
            "# S\n{HEADING}\n\n| a | b |\n|---|---|\n| x | [`m::t`](a/b.rs) |\n| y | `m::u` |\n\n## Next\n| z | none |\n"
        );
        assert_eq!(untested(&text), ["  SECURITY.md:7: no test is named"]);
        assert_eq!(named(&text), [Named { line: 6, test: "m::t".into(), file: "a/b.rs".into() }]);
    }

    #[test]
    fn every_test_that_is_named_exists() {
        check().unwrap();
    }
}
