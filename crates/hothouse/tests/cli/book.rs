//! Runs the command blocks of the book's pages in order, and compares their output with what is
//! shown.
//!
//! `xtask book` (part of `./x lint`) requires that every other command block is marked with
//! `not-run`. After an intended change: `HOTHOUSE_BLESS=1 cargo nextest run -p hothouse -E
//! 'test(/^book::/)'`, then read the diff.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_testkit::{TestEnv, User, git, is_root, skip};
use regex_lite::Regex;

use crate::surroundings;

/// The reader's home in the pages.
const HOME: &str = "/home/you";

/// What differs from run to run, and its replacement.
const FILTERS: [(&str, &str); 12] = [
    (r"\d\d:\d\d:\d\d", "TIME"),
    (r"\b\d{4}-\d\d-\d\dT[\w:.]+", "DATE"),
    (r"\b([a-z]+)_[0-9a-f]{12,16}\b", "${1}_ID"),
    // The router has port 443 unless it is taken.
    (r"\.localhost(:\d+)?", ".localhost"),
    (r"\b(\d+(\.\d+)?(ms|s|m|h))+\b", "DURATION"),
    (r"\b\d+(\.\d+)?[KMG]\b", "SIZE"),
    (r"\b([0-9a-f]{7,40})\b", "HASH"),
    (r"\b\d{4,7}\b", "NUMBER"),
    (r"[ \t]+", " "),
    // Numbers of records, and milliseconds of requests.
    (r"^\d+ TIME", "SEQ TIME"),
    (r"^(TIME .*) \d+$", "${1} MS"),
    (r"^(web ready) \d+", "${1} PID"),
];

#[test]
fn the_tutorial_runs_as_it_is_written() {
    run("docs/tutorial.md", surroundings());
}

#[test]
fn the_tutorial_runs_for_ordinary_users() {
    if !is_root() {
        return;
    }
    for user in [User::with_ranges(), User::ordinary()].into_iter().flatten() {
        let mut env = surroundings();
        env.become_user(user);
        run("docs/tutorial.md", env);
    }
}

#[test]
fn the_pages_about_stripe_and_compose_run_as_they_are_written() {
    run("docs/howto/mock-stripe.md", surroundings());
    // Without PostgreSQL, `init` suggests its image.
    match Path::new("/usr/lib/postgresql/15/bin/postgres").exists() {
        true => run("docs/howto/compose.md", surroundings()),
        false => skip("docs/howto/compose.md", "PostgreSQL 15"),
    }
}

#[test]
fn the_page_about_proofs_runs_as_it_is_written() {
    match Path::new("/usr/bin/chromium").exists() {
        true => run("docs/howto/prove-a-change.md", surroundings()),
        false => skip("a browser in a room", "chromium"),
    }
}

/// A block: commands with their output, or a script whose output is not shown.
#[derive(Debug)]
struct Command {
    text: String,
    /// The shown lines, and their position in the page; `None` for a script.
    shown: Option<(usize, Vec<String>)>,
}

/// Runs all blocks of a page in one folder, and compares what they print with what is shown.
fn run(page: &str, mut env: TestEnv) {
    if !env.can_have_rooms(page) {
        return;
    }
    if !Path::new("/bin/bash").exists() {
        return skip(page, "bash");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = fs::read_to_string(&file).unwrap();
    let home = prepare(&mut env);
    let mut folder = home.clone();
    let mut blessed: Vec<String> = text.lines().map(str::to_owned).collect();
    let (mut faults, mut shift) = (Vec::new(), 0_isize);
    for command in commands(&text) {
        let (printed, code, next) = carry_out(&env, &folder, &command.text);
        folder = next;
        let state = env.root().join("state");
        let printed = printed.replace(home.to_str().unwrap(), HOME);
        let printed = printed.replace(state.to_str().unwrap(), "/home/you/.local/state");
        let Some((line, shown)) = command.shown else {
            assert_eq!(code, 0, "{page}: {}\n{printed}", command.text);
            continue;
        };
        assert!(code == 0 || !printed.is_empty(), "{page}: `{}` ended with {code}", command.text);
        if fits(&shown, &printed) {
            continue;
        }
        faults.push(format!(
            "{page}:{line}: $ {}\nshown:\n{}\nreal:\n{printed}",
            command.text,
            shown.join("\n")
        ));
        let at = line.strict_add_signed(shift);
        let real: Vec<String> = printed.lines().map(|line| line.trim_end().to_owned()).collect();
        shift += real.len().cast_signed() - shown.len().cast_signed();
        blessed.splice(at..at + shown.len(), real);
    }
    if std::env::var_os("HOTHOUSE_BLESS").is_some() {
        fs::write(&file, blessed.join("\n") + "\n").unwrap();
    } else {
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

/// Creates the reader's home with an identity for git, and `hothouse` on the search path.
fn prepare(env: &mut TestEnv) -> PathBuf {
    let home = env.root().join("home");
    fs::create_dir_all(&home).unwrap();
    env.give_to_user(&home);
    let programs = env.binary().parent().unwrap().to_str().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    env.set("PATH", format!("{programs}:{path}"));
    git(&home, &["config", "--file", ".gitconfig", "user.name", "You"]);
    git(&home, &["config", "--file", ".gitconfig", "user.email", "you@example.com"]);
    git(&home, &["config", "--file", ".gitconfig", "init.defaultBranch", "main"]);
    env.give_to_user(&home.join(".gitconfig"));
    home
}

/// Runs a command; returns its output, its exit code, and its final folder.
fn carry_out(env: &TestEnv, folder: &Path, text: &str) -> (String, i32, PathBuf) {
    let (script, place) = (env.root().join("step.sh"), env.root().join("step.folder"));
    let wrapped = format!("exec 2>&1\n{text}\ncode=$?\npwd > {}\nexit $code\n", place.display());
    fs::write(&script, wrapped).unwrap();
    fs::write(&place, "").unwrap();
    env.give_to_user(&script);
    env.give_to_user(&place);
    let ran = env.shell(folder, &format!("bash {} < /dev/null", script.display()));
    let next = fs::read_to_string(&place).unwrap();
    let next = if next.is_empty() { folder.to_owned() } else { PathBuf::from(next.trim_end()) };
    (String::from_utf8_lossy(&ran.stdout).into_owned(), ran.status.code().unwrap_or(-1), next)
}

/// Reads the blocks that are to be run.
fn commands(page: &str) -> Vec<Command> {
    let lines: Vec<&str> = page.lines().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let Some(info) = lines[at].strip_prefix("```") else {
            at += 1;
            continue;
        };
        let end = (at + 1..lines.len()).find(|&end| lines[end] == "```").expect("a block ends");
        match info {
            "sh" => found.push(Command { text: lines[at + 1..end].join("\n"), shown: None }),
            "console" => found.extend(sessions(&lines[at + 1..end], at + 1)),
            _ => {}
        }
        at = end + 1;
    }
    found
}

/// Splits a block at its prompts; `> ` continues a command.
fn sessions(lines: &[&str], first: usize) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    for (line, number) in lines.iter().zip(first..) {
        if let Some(text) = line.strip_prefix("$ ") {
            found.push(Command { text: text.to_owned(), shown: Some((number + 1, Vec::new())) });
            continue;
        }
        let Command { text, shown: Some((start, shown)) } =
            found.last_mut().expect("a block begins with a prompt")
        else {
            continue;
        };
        match line.strip_prefix("> ") {
            Some(more) if shown.is_empty() => {
                text.push('\n');
                text.push_str(more);
                *start = number + 1;
            }
            _ => shown.push((*line).to_owned()),
        }
    }
    // The empty line between two commands belongs to neither.
    for Command { shown, .. } in &mut found {
        let shown = &mut shown.as_mut().expect("all are commands").1;
        while shown.last().is_some_and(String::is_empty) {
            shown.pop();
        }
    }
    found
}

/// Returns whether the shown output matches; a line `…` stands for any lines, `…` in a line for any
/// text.
fn fits(shown: &[String], printed: &str) -> bool {
    let printed: Vec<String> = printed.trim_end().lines().map(filtered).collect();
    let shown: Vec<String> = shown.iter().map(|line| filtered(line)).collect();
    lines_fit(&shown, &printed)
}

fn lines_fit(shown: &[String], printed: &[String]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((line, rest)), _) if line == "…" => {
            (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..]))
        }
        (Some((line, rest)), Some((real, others))) => {
            line_fits(line, real) && lines_fit(rest, others)
        }
        _ => false,
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once('…') else { return shown == printed };
    let rest = printed.strip_prefix(before);
    rest.is_some_and(|rest| {
        (0..=rest.len())
            .filter(|&at| rest.is_char_boundary(at))
            .any(|at| line_fits(after, &rest[at..]))
    })
}

fn filtered(line: &str) -> String {
    let replace = |text: String, (pattern, with): &(&str, &str)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    };
    FILTERS.iter().fold(line.to_owned(), replace).trim_end().to_owned()
}

#[test]
fn what_is_shown_must_be_what_was_printed() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&shown("Ready in 3s.\n…\nend"), "Ready in 1.25s.\na\nb\nend\n"));
    assert!(fits(&shown("curl: (35) … denied"), "curl: (35) TLS: access denied\n"));
    assert!(fits(
        &shown("run_0123456789ab  at 127.0.0.1:40001"),
        "run_ffffffffffff at 127.0.0.1:52000"
    ));
    assert!(!fits(&shown("One lamp: 20 EUR"), "One lamp: 25 EUR\n"));
    assert!(!fits(&shown("a"), "a\nb\n"));
    assert!(!fits(&shown(""), "a\n"));
    let read = commands(
        "```sh\na\nb\n```\n```console\n$ c\n> d\nout\n\n$ e\n```\n```sh,not-run\nf\n```\n",
    );
    let texts: Vec<_> = read.iter().map(|command| command.text.as_str()).collect();
    assert_eq!(texts, ["a\nb", "c\nd", "e"]);
    assert_eq!(read[1].shown, Some((7, vec!["out".to_owned()])));
}
