//! Commands among the arguments of an unknown program: `firejail rm x`, `pnpm exec rm x`.

use std::path::Path;

use super::{operands, option};
use crate::{
    judge::Judge,
    shell::{Flow, Word},
};

/// Programs whose names mark the beginning of such a command.
const RECOGNIZED: [&str; 26] = [
    "rm", "rmdir", "touch", "mv", "cp", "tee", "dd", "ln", "sh", "bash", "zsh", "dash", "ksh",
    "python", "python3", "node", "perl", "ruby", "sed", "chmod", "chown", "truncate", "mkdir",
    "shred", "curl", "git",
];

/// Programs that run each argument as a complete command.
const RUNNERS: [&str; 7] =
    ["hyperfine", "concurrently", "nodemon", "watchexec", "chokidar", "onchange", "cargo-watch"];

impl Judge<'_> {
    /// Judges a command among the arguments of a program.
    pub(super) fn carried(&mut self, program: &str, words: &[Word], input: Flow) {
        // These run it on another machine, or in a container.
        if matches!(program, "adb" | "heroku" | "fly" | "flyctl" | "vagrant" | "apk") {
            return;
        }
        let is_command = |word: &Word| {
            let name = Path::new(&word.text).file_name().and_then(|name| name.to_str());
            word.is_known() && name.is_some_and(|name| RECOGNIZED.contains(&name))
        };
        let at = words.iter().position(is_command).filter(|at| at + 1 < words.len());
        if let Some(at) = at {
            let own = words[at..].to_vec();
            self.child(|judge| judge.run(own, input));
        }
        if RUNNERS.contains(&program) {
            self.whole_commands(words);
        }
        if let Some(script) = option(words, &["--run", "--command"]).filter(Word::is_known) {
            self.child(|judge| judge.script(&script.text));
        }
    }

    /// Judges arguments that are complete commands, as in `concurrently 'a b' 'c d'`.
    pub(super) fn whole_commands(&mut self, words: &[Word]) {
        for word in words.iter().filter(|word| word.is_known() && word.text.contains(' ')) {
            self.child(|judge| judge.script(&word.text));
        }
    }

    /// Judges `npm exec`, `pnpm exec`, `yarn exec`, `uv run`, and newly set scripts.
    pub(super) fn package_commands(&mut self, program: &str, words: &[Word]) {
        let verb = operands(words, &["-C", "--prefix", "--dir", "-F", "--filter"]);
        let verb = verb.first().map_or("", |verb| verb.text.as_str()).to_owned();
        if matches!(program, "npm" | "pnpm") && matches!(verb.as_str(), "exec" | "x" | "dlx") {
            match option(words, &["-c", "--call"]) {
                Some(script) if program == "npm" => {
                    self.child(|judge| judge.script(&script.text));
                }
                _ => {}
            }
            if words.iter().any(|word| matches!(word.text.as_str(), "-c" | "--shell-mode")) {
                self.whole_commands(words);
            }
        }
        let runs = matches!(program, "npx" | "uvx" | "pipx");
        if runs || matches!(verb.as_str(), "exec" | "x" | "dlx" | "run" | "tool") {
            self.carried(program, words, Flow::Nothing);
        }
        if (program, verb.as_str()) == ("npm", "pkg") {
            for word in words {
                if let Some((_, script)) =
                    word.text.split_once('=').filter(|(name, _)| name.starts_with("scripts."))
                {
                    let script = script.to_owned();
                    self.child(|judge| judge.script(&script));
                }
            }
        }
    }

    /// Returns the program behind a link, if it has another name.
    pub(super) fn linked_program(&self, program: &str, name: &Word) -> Option<String> {
        let paths = self.paths(&name.text)?;
        let actual = paths.first()?.file_name()?.to_str()?;
        (actual != program).then(|| actual.to_owned())
    }

    /// Judges commands that the shell runs for completion and keys.
    pub(super) fn completion(&mut self, program: &str, words: &[Word]) -> Flow {
        let script = match program {
            "complete" => option(words, &["-C"]).map(|script| script.text),
            _ => words.iter().any(|word| word.text == "-x").then(|| {
                let key = words.last().map_or("", |word| word.text.as_str());
                key.rsplit_once(':').map_or(key, |(_, script)| script).to_owned()
            }),
        };
        if let Some(script) = script {
            self.child(|judge| judge.script(&script));
        }
        Flow::Nothing
    }
}
