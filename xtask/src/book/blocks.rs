//! Command blocks: each is run by a test or marked as not run, and every command in them is valid.

use std::{ffi::OsString, path::Path};

use hothouse_host::files;

use super::{Page, markdown, markdown::Fence, shell};

/// The file that names the pages whose blocks are run.
const TESTS: &str = "crates/hothouse/tests/cli/book.rs";

/// What marks a block that no test runs.
const NOT_RUN: &str = "not-run";

/// Names the test module, next to [`TESTS`], that runs the commands of a block in its own way.
const RUN_BY: &str = "run-by=";

/// Reports blocks that are neither run nor marked, and commands that do not exist.
pub(super) fn check(root: &Path, pages: &[Page]) -> Result<Vec<String>, String> {
    let tests = files::read_text(&root.join(TESTS)).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for page in pages {
        let name = page.path.display();
        let is_run = tests.contains(&format!("\"{name}\""));
        for fence in markdown::fences(&page.text).into_iter().filter(is_shell) {
            let is_told =
                is_run || fence.attributes.contains(&NOT_RUN) || is_run_by(root, page, &fence);
            if !is_told {
                let (line, language) = (fence.line, fence.language);
                found.push(format!(
                    "  {name}:{line}: no test runs this block: name the page in {TESTS}, or write \
                     ```{language},{NOT_RUN}"
                ));
            }
            found.extend(faults(&fence).into_iter().map(|fault| format!("  {name}:{fault}")));
        }
        // Commands in the history were valid at their time.
        if !page.path.ends_with("CHANGELOG.md") {
            found.extend(
                span_faults(&page.text).into_iter().map(|fault| format!("  {name}:{fault}")),
            );
        }
    }
    Ok(found)
}

/// Returns whether the test module that a block names knows its page.
fn is_run_by(root: &Path, page: &Page, fence: &Fence<'_>) -> bool {
    let mut named = fence.attributes.iter().filter_map(|one| one.strip_prefix(RUN_BY));
    named.any(|module| {
        let file = root.join(TESTS).with_file_name(format!("{module}.rs"));
        let text = files::read_text(&file).unwrap_or_default();
        text.contains(&format!("{}\"", page.path.display()))
    })
}

fn is_shell(fence: &Fence<'_>) -> bool {
    matches!(fence.language, "sh" | "bash" | "shell" | "console")
}

/// Returns the commands of a block that the program would reject.
fn faults(fence: &Fence<'_>) -> Vec<String> {
    let has_prompts = fence.lines.iter().any(|line| line.starts_with("$ "));
    let is_command = |line: &&str| !has_prompts || line.starts_with("$ ");
    let lines = fence.lines.iter().zip(fence.line + 1..).filter(|(line, _)| is_command(line));
    let of = |(line, number): (&&str, usize)| {
        let commands = shell::commands(line.trim_start_matches("$ ")).into_iter();
        let refused = commands.filter_map(|words| refusal(&words, &[]));
        refused.map(|why| format!("{number}: {why}")).collect::<Vec<_>>()
    };
    lines.flat_map(of).collect()
}

/// Returns the commands within sentences that do not exist; arguments may be missing there.
fn span_faults(text: &str) -> Vec<String> {
    use clap::error::ErrorKind::{
        ArgumentConflict, DisplayHelpOnMissingArgumentOrSubcommand, InvalidValue,
        MissingRequiredArgument, MissingSubcommand,
    };
    let partial = [
        ArgumentConflict,
        DisplayHelpOnMissingArgumentOrSubcommand,
        InvalidValue,
        MissingRequiredArgument,
        MissingSubcommand,
    ];
    let spans = markdown::spans(text).into_iter();
    let of = |(number, span): (usize, &str)| {
        let refused =
            shell::commands(span).into_iter().filter_map(|words| refusal(&words, &partial));
        refused.map(|why| format!("{number}: {why}")).collect::<Vec<_>>()
    };
    spans.flat_map(of).collect()
}

/// Returns why the program would reject these arguments.
fn refusal(words: &[String], allowed: &[clap::error::ErrorKind]) -> Option<String> {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayVersion, InvalidSubcommand, InvalidValue, ValueValidation,
    };
    let is_abridged = words.iter().any(|word| word.contains('…') || word.contains("..."));
    if is_abridged {
        return None;
    }
    // Optional words are in brackets.
    let bare = words.iter().map(|word| word.trim_matches(['[', ']']));
    let all: Vec<OsString> = std::iter::once("hothouse").chain(bare).map(OsString::from).collect();
    let all = hothouse_cli::verb_first(&all);
    let error = hothouse_cli::command().try_get_matches_from(all).err()?;
    // Words in upper case stand for the reader's values.
    let has_placeholder = words.iter().any(|word| word.chars().any(|c| c.is_ascii_uppercase()));
    match error.kind() {
        DisplayHelp | DisplayVersion => None,
        InvalidValue | ValueValidation if has_placeholder => None,
        InvalidSubcommand if has_placeholder && words[0] == "help" => None,
        kind if allowed.contains(&kind) => None,
        _ => {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Some(format!("`hothouse {}`: {why}", words.join(" ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str, tests: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(TESTS);
        files::make_folder(file.parent().unwrap()).unwrap();
        files::write(&file, tests).unwrap();
        check(folder.path(), &[Page { path: "docs/a.md".into(), text: text.to_owned() }]).unwrap()
    }

    #[test]
    fn a_block_is_run_or_marked() {
        assert_eq!(check_text("```sh\nls\n```\n", "").len(), 1);
        assert!(check_text("```sh,not-run\nls\n```\n", "").is_empty());
        assert!(check_text("```sh\nls\n```\n", "run(\"docs/a.md\")").is_empty());
        assert!(check_text("```text\nls\n```\n", "").is_empty());
        assert!(
            check_text("```sh,run-by=book\nls\n```\n", "include_str!(\"x/docs/a.md\")").is_empty()
        );
        assert_eq!(check_text("```sh,run-by=other\nls\n```\n", "docs/a.md\"").len(), 1);
    }

    #[test]
    fn commands_that_do_not_exist_are_reported() {
        let found = check_text(
            "```sh,not-run\nhothouse frok a\nhothouse fork a --blue\nhothouse fork a\n```\n",
            "",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        let found = check_text("Use `hothouse egress allow`, not `hothouse egress permit`.\n", "");
        assert_eq!(found.len(), 1, "{found:?}");
        let shown = "```console,not-run\n$ hothouse fork a\nhothouse frok is not shown\n```\n";
        assert!(check_text(shown, "").is_empty());
    }
}
