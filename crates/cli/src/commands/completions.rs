//! `completions`: the script for a shell, and its place in that shell's start file.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap_complete::Shell;
use hothouse_host::files;
use hothouse_model::{Explain, Failure, FailureKind};
use serde_json::json;

use crate::{Surroundings, args::CompletionsArgs, ui::Ui};

const BEGIN: &str = "# hothouse: begin";
const END: &str = "# hothouse: end";

/// The largest start file that is changed.
const FILE_MOST: u64 = 4 << 20;

/// Prints the script that a shell sources, or adds it to the shell's start file.
pub(crate) fn run(
    ui: &Ui,
    args: &CompletionsArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    if args.install || args.remove {
        return install(ui, args, surroundings);
    }
    let (script, name) = (script(args.shell), args.shell.to_string());
    match ui.json {
        true => ui.print_json(&json!({ "shell": name, "script": script })),
        false => ui.print(script.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the script that a shell sources. It calls this program for every completion, so names of sandboxes and
/// services are known.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    let shells = clap_complete::env::Shells::builtins();
    if let Some(completer) = shells.completer(&shell.to_string()) {
        let written = completer.write_registration(
            "COMPLETE",
            "hothouse",
            "hothouse",
            "hothouse",
            &mut script,
        );
        written.expect("memory can be written");
    }
    String::from_utf8_lossy(&script).into_owned()
}

fn install(
    ui: &Ui,
    args: &CompletionsArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let variable = |name: &str| (surroundings.variable)(name).filter(|value| !value.is_empty());
    let home = variable("HOME").map(PathBuf::from).ok_or_else(|| {
        Failure::new(FailureKind::Host, "HOME is not set").hint("set it to your home folder")
    })?;
    let folder = |name: &str, usual: &str| {
        variable(name).map(PathBuf::from).unwrap_or_else(|| home.join(usual))
    };
    let (file, lines) = match args.shell {
        Shell::Bash => (home.join(".bashrc"), BASH),
        Shell::Zsh => (folder("ZDOTDIR", "").join(".zshrc"), ZSH),
        Shell::Fish => (folder("XDG_CONFIG_HOME", ".config").join("fish/config.fish"), FISH),
        other => {
            let message = format!("completions of {other} cannot be installed from here");
            return Err(Failure::new(FailureKind::Usage, message)
                .hint(format!("source what `hothouse completions {other}` prints")));
        }
    };
    let is_changed = change(&file, (!args.remove).then_some(lines))?;
    let shown = file.display();
    if ui.json {
        let changed: Vec<_> = is_changed.then(|| shown.to_string()).into_iter().collect();
        ui.print_json(&json!({ "changed": changed, "removed": args.remove }));
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&match (is_changed, args.remove) {
        (true, false) => {
            format!("Added completions to {shown}; shells that start from now on have them.")
        }
        (true, true) => format!("Removed completions from {shown}."),
        (false, false) => format!("{shown} has completions already."),
        (false, true) => format!("{shown} has no completions of ours."),
    });
    Ok(ExitCode::SUCCESS)
}

const BASH: &str = "command -v hothouse >/dev/null && source <(hothouse completions bash)";

/// A new account has no completions at all until `compinit` has been called.
const ZSH: &str = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n\
                   (( $+commands[hothouse] )) && source <(hothouse completions zsh)";

const FISH: &str =
    "type -q hothouse; and status is-interactive; and hothouse completions fish | source";

/// Adds our lines to the end of a file, or removes them; everything else stays. Returns whether the file has changed.
fn change(file: &Path, lines: Option<&str>) -> Result<bool, Failure> {
    // The target of a link is changed in place: start files are often kept in a repository.
    let file = files::canonical(file).unwrap_or_else(|_| file.to_owned());
    let text = match files::read_capped(&file, FILE_MOST) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| {
            let message = format!("{} is not valid UTF-8", file.display());
            Failure::new(FailureKind::Host, message).hint("add the line to it yourself")
        })?,
        Err(error) if error.is_not_found() => String::new(),
        Err(error) => return Err(error.failure()),
    };
    let new = with(&text, lines);
    if new == text {
        return Ok(false);
    }
    if let Some(folder) = file.parent() {
        files::make_folder(folder).map_err(|error| error.failure())?;
    }
    let known = std::fs::metadata(&file).ok();
    let mode = known.map_or(0o644, |known| known.permissions().mode() & 0o777);
    files::replace(&file, new.as_bytes(), mode).map_err(|error| error.failure())?;
    Ok(true)
}

/// Returns a text with our lines at its end, or without them.
fn with(text: &str, lines: Option<&str>) -> String {
    let rest = match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            let after = text[end + END.len()..].strip_prefix('\n').unwrap_or("");
            format!("{}{after}", &text[..begin])
        }
        _ => text.to_owned(),
    };
    match lines {
        Some(lines) => {
            let gap = if rest.is_empty() || rest.ends_with('\n') { "" } else { "\n" };
            format!("{rest}{gap}{BEGIN}\n{lines}\n{END}\n")
        }
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_lines_come_and_go_and_nothing_else_changes() {
        for text in ["", "alias x=y\n", "alias x=y"] {
            let installed = with(text, Some("source it"));
            assert!(installed.ends_with("# hothouse: begin\nsource it\n# hothouse: end\n"));
            assert_eq!(with(&installed, Some("source it")), installed, "once is enough");
            assert_eq!(with(&installed, None).trim_end(), text.trim_end());
        }
        let between = "a\n# hothouse: begin\nold\n# hothouse: end\nb\n";
        assert_eq!(with(between, None), "a\nb\n");
        assert_eq!(
            with("# hothouse: end\n# hothouse: begin\n", None),
            "# hothouse: end\n# hothouse: begin\n"
        );
    }
}
