//! Every command has a page of text and JSON, success and failure.

use std::{collections::BTreeSet, fs, path::Path};

use hothouse_testkit::Ran;

use super::words;

/// What a page must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    TextSuccess,
    TextFailure,
    JsonSuccess,
    JsonFailure,
}

use Part::{JsonFailure, JsonSuccess, TextFailure, TextSuccess};

const PARTS: [Part; 4] = [TextSuccess, TextFailure, JsonSuccess, JsonFailure];

/// Lists the commands that do something by themselves, except for hidden ones.
fn commands() -> BTreeSet<String> {
    let mut tree = hothouse_cli::command();
    tree.build();
    let mut names = BTreeSet::new();
    let mut open = vec![(String::new(), &tree)];
    while let Some((above, command)) = open.pop() {
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let path = format!("{above} {}", one.get_name()).trim_start().to_owned();
            let is_group = one.is_subcommand_required_set() || one.is_arg_required_else_help_set();
            if one.get_name() == "help" {
                continue;
            }
            if !(is_group && one.has_subcommands()) {
                names.insert(path.clone());
            }
            open.push((path, one));
        }
    }
    names
}

/// Reads a page back into its entries.
fn entries(page: &str) -> Vec<Ran> {
    let parts = page.split("\n$ hothouse ").skip(1);
    let entry = |part: &str| {
        let (line, rest) = part.split_once('\n').unwrap_or((part, ""));
        let (shown, code) = rest.rsplit_once("--- exit ").expect("each entry ends with its code");
        let (stdout, stderr) = shown.split_once("--- stderr\n").unwrap_or((shown, ""));
        Ran {
            words: line.to_owned(),
            code: code.trim().parse().expect("an exit code is a number"),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    };
    parts.map(entry).collect()
}

fn is_json(ran: &Ran) -> bool {
    words(&ran.words).iter().take_while(|word| **word != "--").any(|word| *word == "--json")
}

fn part(ran: &Ran) -> Part {
    match (is_json(ran), ran.code == 0) {
        (false, true) => TextSuccess,
        (false, false) => TextFailure,
        (true, true) => JsonSuccess,
        (true, false) => JsonFailure,
    }
}

/// Returns whether an entry runs a command: `undelete` shows more than `undelete`.
fn runs(ran: &Ran, command: &str) -> bool {
    let first = command.split(' ').next();
    words(&ran.words).first().copied() == first
}

/// Lists the parts that the page of a command lacks.
fn missing(command: &str, page: &str) -> Vec<Part> {
    let prints_json = !crate::outputs::is_text_alone(command);
    let shown: BTreeSet<Part> =
        entries(page).iter().filter(|ran| runs(ran, command)).map(part).collect();
    let wanted = PARTS.iter().filter(|part| prints_json || !matches!(part, JsonSuccess));
    wanted.filter(|part| !shown.contains(part)).copied().collect()
}

/// Returns whether a failure says what to do next. What a command in a room printed, and what a check found,
/// is not our failure.
fn has_hint(ran: &Ran) -> bool {
    let is_failure = match is_json(ran) {
        true => ran.stdout.starts_with("{\n  \"error\""),
        false => ran.stderr.lines().any(|line| line.starts_with("error: ")),
    };
    let text = format!("{}{}", ran.stdout, ran.stderr);
    let hints = ["hint: ", "\"hints\": [\n", "For more information, try '--help'."];
    ran.code == 0 || !is_failure || hints.iter().any(|hint| text.contains(hint))
}

fn page(command: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    fs::read_to_string(folder.join(format!("{}.snap", command.replace(' ', "-"))))
        .unwrap_or_default()
}

#[test]
fn every_page_is_complete() {
    let lacking: Vec<_> = commands()
        .into_iter()
        .map(|command| (missing(&command, &page(&command)), command))
        .filter(|(parts, _)| !parts.is_empty())
        .map(|(parts, command)| format!("`{command}` has no page of {parts:?}"))
        .collect();
    assert!(lacking.is_empty(), "add them to `snapshots.rs`:\n{}", lacking.join("\n"));
}

#[test]
fn every_failure_says_what_to_do_next() {
    let silent: Vec<_> = commands()
        .iter()
        .flat_map(|command| entries(&page(command)))
        .filter(|ran| !has_hint(ran))
        .map(|ran| ran.to_string())
        .collect();
    assert!(silent.is_empty(), "failures without a hint:\n{}", silent.join("\n"));
}

#[test]
fn a_new_command_needs_its_pages() {
    assert!(commands().contains("egress allow") && !commands().contains("egress"));
    assert_eq!(missing("status", ""), PARTS);
    let text = "---\n$ hothouse status\nup\n--- exit 0\n\n$ hothouse status x\n--- stderr\nerror: no\n--- exit 4\n";
    assert_eq!(missing("status", text), [JsonSuccess, JsonFailure]);
    assert!(!has_hint(&entries(text)[1]));
    // What `exec` runs may have a `--json` of its own.
    let other =
        "---\n$ hothouse exec -- x --json\n--- exit 0\n\n$ hothouse run --json\n--- exit 0\n";
    assert_eq!(missing("exec", other), [TextFailure, JsonSuccess, JsonFailure]);
}
