//! Parsing of the command line, and what is said of one that cannot be parsed.

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use hothouse_model::{Failure, FailureKind, config::rules::nearest};

use super::{Arguments, command, help};

/// A command line that runs no command: help, version or an error.
pub(crate) struct Early {
    error: clap::Error,
    pub(super) hint: Option<String>,
    json: bool,
    /// The help of `hothouse` itself, if that is wanted.
    help: Option<String>,
}

impl Arguments {
    /// Parses the command line.
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Self, Early> {
        // `--json` applies to the error even if the rest of the command line is invalid.
        let json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
        Self::try_parse_from(verb_first(arguments)).map_err(|mut error| {
            name_the_nearest(&mut error);
            let hint = misplaced(&error, arguments);
            let help = help::asked(arguments).map(|extent| help::text(&command(), extent));
            Early { error, hint, json, help }
        })
    }
}

/// Keeps one of several commands that look like the one that was typed, if it is plainly the one that was meant.
fn name_the_nearest(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let Some(ContextValue::Strings(alike)) = error.get(ContextKind::SuggestedSubcommand) else {
        return;
    };
    let Some(meant) = nearest(typed, alike.iter().map(String::as_str)) else { return };
    let meant = ContextValue::Strings(vec![meant.to_owned()]);
    error.insert(ContextKind::SuggestedSubcommand, meant);
}

/// Puts the verb of `integration NAME record` before the name.
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

/// Returns a hint for a sandbox that was named without `-w`, or a command of `exec` without `--`.
fn misplaced(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if let Some(hint) = command_without_dashes(error, arguments) {
        return Some(hint);
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let name = words.find(|word| !word.starts_with('-'))?;
    let tree = command();
    let mut takes = tree.find_subcommand(name)?.get_arguments();
    takes
        .any(|argument| argument.get_long() == Some("sandbox"))
        .then(|| format!("pass the sandbox with -w: `hothouse {name} -w {word}`"))
}

/// Returns a hint for `exec npm test`, where `npm` was taken for a service.
fn command_without_dashes(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let kinds = [ErrorKind::UnknownArgument, ErrorKind::MissingRequiredArgument];
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let at = words.iter().position(|word| *word == "exec")?;
    let is_plain = !words.iter().any(|word| *word == "--" || *word == "--attach");
    let first = words[at + 1..].iter().position(|word| !word.starts_with('-'))?;
    let follows_a_flag = first > 0 && matches!(words[at + first], "-w" | "--sandbox" | "-C");
    if !is_plain || follows_a_flag || !kinds.contains(&error.kind()) {
        return None;
    }
    let (options, command) = words[at + 1..].split_at(first);
    let options: String = options.iter().map(|word| format!("{word} ")).collect();
    Some(format!("put the command after `--`: `hothouse exec {options}-- {}`", command.join(" ")))
}

impl Early {
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
        let text = self.error.render().to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let hint = self.hint.unwrap_or_else(|| "`hothouse --help` lists the commands".to_owned());
        let failure = Failure::new(FailureKind::Usage, message).hint(hint);
        // Indented like every other answer, although there is no `Ui` yet.
        let body = serde_json::json!({ "error": failure });
        writeln!(std::io::stdout(), "{body:#}").ok();
        ExitCode::from(failure.kind.exit_code())
    }
}
