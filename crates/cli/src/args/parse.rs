//! Parsing of the command line, and the errors for one that cannot be parsed.

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{
    Args, FromArgMatches, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use hothouse_model::{Failure, FailureKind, config::rules::nearest};

use super::{Arguments, Command, Global, command, help};

/// A command line that runs no command: help, version or an error.
pub(crate) struct Early {
    error: clap::Error,
    pub(super) hint: Option<String>,
    json: bool,
    /// The help of `hothouse` itself, if requested.
    help: Option<String>,
    /// The names of the intended command, as far as they exist.
    command: String,
}

/// What kind of thing a word on the command line names, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noun {
    Sandbox,
    Service,
    Unknown,
}

impl Arguments {
    /// Parses the command line. `noun` is called only for the words of one that cannot be parsed.
    pub(crate) fn parse(
        arguments: &[OsString],
        noun: impl Fn(&str) -> Noun,
    ) -> Result<Self, Early> {
        // `--json` applies to the error even if the rest of the command line is invalid.
        let json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
        if let Some(frequent) = frequent(arguments) {
            return Ok(frequent);
        }
        Self::try_parse_from(verb_first(arguments)).map_err(|mut error| {
            name_the_meant(&mut error, arguments);
            let hint = misplaced(&error, arguments, &noun);
            let help = help::asked(arguments).map(|extent| help::text(&command(), extent));
            Early { error, hint, json, help, command: meant(arguments) }
        })
    }
}

/// Parses the command line of a command that programs start often; `None` for any other command, and if it is invalid.
///
/// Building the tree of all commands takes a millisecond, a fifth of an `exec`. What fails here is parsed by that tree,
/// which reports what is wrong.
pub(super) fn frequent(arguments: &[OsString]) -> Option<Arguments> {
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let name = arguments.iter().skip(1).find(|word| !is_flag(word))?;
    match name.to_str()? {
        "delete" => alone("delete", arguments, Command::Delete),
        "down" => alone("down", arguments, Command::Down),
        "exec" => alone("exec", arguments, Command::Exec),
        "fork" => alone("fork", arguments, Command::Fork),
        "guard" => alone("guard", arguments, Command::Guard),
        "logs" => alone("logs", arguments, Command::Logs),
        "since" => alone("since", arguments, Command::Since),
        "status" => alone("status", arguments, Command::Status),
        "timeline" => alone("timeline", arguments, Command::Timeline),
        "up" => alone("up", arguments, Command::Up),
        "wait" => alone("wait", arguments, Command::Wait),
        _ => None,
    }
}

/// Parses a command line as if there were only this command.
fn alone<A: Args>(
    name: &'static str,
    arguments: &[OsString],
    command: fn(A) -> Command,
) -> Option<Arguments> {
    let only = A::augment_args(clap::Command::new(name));
    let line = Global::augment_args(clap::Command::new("hothouse")).subcommand(only);
    let matches = line.try_get_matches_from(arguments).ok()?;
    let (_, own) = matches.subcommand()?;
    let command = Some(command(A::from_arg_matches(own).ok()?));
    Some(Arguments { global: Global::from_arg_matches(&matches).ok()?, command })
}

/// Commands that other tools have, and the commands that do the same here.
pub(super) const SYNONYMS: [(&str, &str); 38] = [
    ("add", "fork"),
    ("attach", "shell"),
    ("bash", "shell"),
    ("build", "stack build"),
    ("check", "config check"),
    ("checkout", "fork"),
    ("create", "fork"),
    ("dashboard", "ui"),
    ("del", "delete"),
    ("destroy", "delete"),
    ("enter", "shell"),
    ("gc", "clean"),
    ("halt", "down"),
    ("info", "status"),
    ("inspect", "status"),
    ("kill", "stop"),
    ("land", "promote"),
    ("mail", "emails"),
    ("mails", "emails"),
    ("make", "fork"),
    ("merge", "promote"),
    ("new", "fork"),
    ("pr", "promote"),
    ("prune", "clean"),
    ("push", "promote"),
    ("remove", "delete"),
    ("rollback", "restore"),
    ("run", "exec"),
    ("save", "snapshot"),
    ("sh", "shell"),
    ("show", "status"),
    ("ssh", "shell"),
    ("tail", "logs"),
    ("undo", "undelete"),
    ("validate", "config check"),
    ("wake", "resume"),
    ("watch", "top"),
    ("worktree", "fork"),
];

/// Suggests the one command that was clearly meant instead of one that does not exist; suggests none if
/// that would be a guess.
fn name_the_meant(error: &mut clap::Error, arguments: &[OsString]) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let typed = typed.clone();
    let tree = command();
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let before = words.take_while(|word| *word != typed).filter(|word| *word != "help");
    let parent = before.fold(&tree, |at, word| at.find_subcommand(word).unwrap_or(at));
    let names = parent.get_subcommands().flat_map(|one| {
        std::iter::once(one.get_name()).chain(one.get_visible_aliases()).collect::<Vec<_>>()
    });
    let is_top = parent.get_name() == tree.get_name();
    let synonym = SYNONYMS.iter().find(|(word, _)| is_top && *word == typed);
    let meant = synonym.map(|(_, meant)| *meant).or_else(|| nearest(&typed, names));
    match meant {
        Some(meant) => {
            let meant = ContextValue::Strings(vec![meant.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        }
        None => drop(error.remove(ContextKind::SuggestedSubcommand)),
    }
}

/// Returns the names of the command in a command line, starting with `hothouse`.
fn meant(arguments: &[OsString]) -> String {
    let tree = command();
    let (mut at, mut names) = (&tree, tree.get_name().to_owned());
    for word in verb_first(arguments).iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(next) = at.find_subcommand(word) else { break };
        names.push_str(&format!(" {}", next.get_name()));
        at = next;
    }
    names
}

/// Moves the verb of `integration NAME record` before the name.
pub fn verb_first(arguments: &[OsString]) -> Vec<OsString> {
    let mut words = arguments.to_vec();
    let before = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let noun = words[..before].iter().position(|word| word == "integration");
    if let Some(at) = noun
        && at + 2 < before
        && words[at + 2] == "record"
        && words[at + 1] != "add"
        && words[at + 1] != "record"
    {
        words.swap(at + 1, at + 2);
    }
    words
}

/// Returns a hint for a sandbox named without `-w`, or a command for `exec` without `--`.
fn misplaced(
    error: &clap::Error,
    arguments: &[OsString],
    noun: &dyn Fn(&str) -> Noun,
) -> Option<String> {
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    if let Some(hint) = command_without_dashes(error, &words, noun) {
        return Some(hint);
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    if matches!(wrong.as_str(), "-w" | "--sandbox") {
        return Some(format!("`{}` takes no sandbox: leave `{wrong}` out", meant(arguments)));
    }
    if wrong.starts_with('-') {
        return None;
    }
    let at = words.iter().position(|word| !word.starts_with('-'))?;
    let (name, given) = (words[at], &words[at + 1..]);
    let tree = command();
    let mut takes = tree.find_subcommand(name)?.get_arguments();
    let takes_sandbox = takes.any(|argument| argument.get_long() == Some("sandbox"));
    if !takes_sandbox || given.iter().any(|word| matches!(*word, "-w" | "--sandbox")) {
        return None;
    }
    // The sandbox may come before the superfluous word.
    let meant = given.iter().find(|word| noun(word) == Noun::Sandbox);
    let sandbox = meant.copied().unwrap_or(wrong);
    let rest = given.iter().filter(|word| **word != sandbox && **word != "--json");
    let rest: String = rest.map(|word| format!(" {word}")).collect();
    Some(format!("pass the sandbox with -w: `hothouse {name}{rest} -w {sandbox}`"))
}

/// Returns a hint for `exec npm test`, where `npm` was mistaken for a service.
fn command_without_dashes(
    error: &clap::Error,
    words: &[&str],
    noun: &dyn Fn(&str) -> Noun,
) -> Option<String> {
    let kinds = [ErrorKind::UnknownArgument, ErrorKind::MissingRequiredArgument];
    let at = words.iter().position(|word| *word == "exec")?;
    let is_plain = !words.iter().any(|word| *word == "--" || *word == "--attach");
    let first = first_operand(&words[at + 1..])?;
    if !is_plain || !kinds.contains(&error.kind()) {
        return None;
    }
    let own = |word: &&&str| matches!(**word, "--json" | "--quiet" | "--verbose");
    let (options, line) = words[at + 1..].split_at(first);
    let line: Vec<&str> = line.iter().filter(|word| !own(word)).copied().collect();
    let options: String = options.iter().map(|word| format!("{word} ")).collect();
    let (head, tail) = (line[0], line[1..].join(" "));
    let command = if tail.is_empty() { "COMMAND" } else { &tail };
    let meant = match noun(head) {
        Noun::Sandbox => format!("{options}-w {head} -- {command}"),
        Noun::Service => format!("{options}{head} -- {command}"),
        Noun::Unknown => format!("{options}-- {}", line.join(" ")),
    };
    Some(format!("put the command after `--`: `hothouse exec {meant}`"))
}

/// Returns the index of the first word that is neither a flag of `exec` nor the value of one.
fn first_operand(words: &[&str]) -> Option<usize> {
    let takes_value = |word: &str| matches!(word, "-w" | "--sandbox" | "-C" | "--folder");
    let mut is_value = false;
    words.iter().position(|word| {
        let is_operand = !is_value && !word.starts_with('-');
        is_value = takes_value(word);
        is_operand
    })
}

impl Early {
    /// Returns the failure as programs get it.
    #[cfg(test)]
    pub(super) fn told(&self) -> Failure {
        failure(&self.error, self.hint.clone(), &self.command)
    }

    /// Prints the help or error and returns the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        if let Some(help) = self.help {
            writeln!(std::io::stdout(), "{help}").ok();
            return ExitCode::SUCCESS;
        }
        let help = matches!(self.error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if help || !self.json {
            self.error.print().ok();
            if let Some(hint) = &self.hint {
                writeln!(std::io::stderr(), "hint: {hint}").ok();
            }
            return if help {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(FailureKind::Usage.exit_code())
            };
        }
        let failure = failure(&self.error, self.hint, &self.command);
        // Indented like all other output, although there is no `Ui` yet.
        let body = serde_json::json!({ "error": failure });
        writeln!(std::io::stdout(), "{body:#}").ok();
        ExitCode::from(failure.kind.exit_code())
    }
}

/// Converts a command-line error to a failure: its first paragraph, and clap's tips as hints.
fn failure(error: &clap::Error, hint: Option<String>, command: &str) -> Failure {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let message: Vec<&str> = first.lines().map(str::trim).collect();
    let message = message.join(" ").trim_start_matches("error: ").to_owned();
    let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    // How to pass a flag as a value is of no use to who knows better what was meant.
    let tips = tips.filter(|tip| hint.is_none() || !tip.starts_with("to pass '"));
    let hints: Vec<String> = tips.map(str::to_owned).chain(hint.clone()).collect();
    let failure = Failure::new(FailureKind::Usage, message);
    match hints.is_empty() {
        true => failure.hint(format!("`{command} --help` shows how it is used")),
        false => hints.into_iter().fold(failure, Failure::hint),
    }
}
