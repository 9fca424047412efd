//! Compilers, generators and inspectors: what they write, and the commands that they run.

use super::{operands, option};
use crate::{
    Severity,
    judge::{Change, Judge},
    shell::{Flow, Word},
};

impl Judge<'_> {
    pub(super) fn builder(&mut self, program: &str, words: &[Word], input: &Flow) -> Flow {
        match program {
            "cmake" => self.cmake(words),
            "ninja" => {
                self.printed_rules(words);
                self.write_options(words, &["-C", "-f"]);
            }
            "meson" => {
                self.write_options(words, &["-C", "--destdir", "--prefix"]);
                let places = operands(words, &[]);
                let is_setup = places.first().is_some_and(|verb| verb.text == "setup");
                if let Some(place) = places.get(1).filter(|_| is_setup) {
                    self.change(place, Change::Write);
                }
            }
            "tsc" => self.write_options(
                words,
                &["--outDir", "--outFile", "--declarationDir", "--tsBuildInfoFile"],
            ),
            "openssl" => self.write_options(words, &["-out", "-keyout", "-writerand"]),
            "tcpdump" => {
                self.write_options(words, &["-w"]);
                self.script_options(words, &["-z"]);
            }
            "gcc" | "cc" | "g++" | "clang" => {
                self.write_options(words, &["-o", "-MF", "-dumpdir"]);
                self.script_options(words, &["-wrapper"]);
            }
            // The last argument is their output.
            "ffmpeg" | "convert" | "magick" | "pandoc" => {
                self.outputs(words);
                if let Some(to) = words.last().filter(|word| !word.is_option()) {
                    self.change(to, Change::Write);
                }
            }
            "sqlite3" => self.sqlite(words, input),
            "gdb" | "lldb" => self.debugger(program, words),
            "man" => self.script_options(words, &["-P", "--pager", "-H", "--html"]),
            "fuser"
                if words
                    .iter()
                    .any(|word| word.text.starts_with("-k") || word.text == "--kill") =>
            {
                self.remark(Severity::Medium, program, "ends processes by what they use");
            }
            "sshfs" | "ldconfig" | "debugfs" => {
                self.unknown(program, "a program that changes what the system sees");
            }
            _ => {}
        }
        words.iter().for_each(|word| self.given(word));
        Flow::Unknown
    }

    /// Judges options whose values are written files or folders.
    fn write_options(&mut self, words: &[Word], names: &[&str]) {
        for (at, word) in words.iter().enumerate() {
            let next = || words.get(at + 1).cloned();
            let value = names.iter().find_map(|name| match word.text == *name {
                true => next(),
                false => word
                    .after(&format!("{name}="))
                    .or_else(|| word.after(name).filter(|_| name.len() == 2)),
            });
            value.iter().for_each(|place| self.change(place, Change::Write));
        }
    }

    /// Judges options whose values are commands.
    fn script_options(&mut self, words: &[Word], names: &[&str]) {
        for name in names {
            if let Some(script) = option(words, &[name]) {
                match script.is_known() {
                    true => {
                        self.child(|judge| judge.script(&script.text.replace(',', " ")));
                    }
                    false => self.unknown(&script.text, "a command that is only known later"),
                }
            }
        }
    }

    fn cmake(&mut self, words: &[Word]) {
        self.write_options(words, &["-B", "--prefix", "--build"]);
        for word in words {
            if let Some(value) = word.after("-DCMAKE_INSTALL_PREFIX=") {
                self.change(&value, Change::Write);
            }
        }
        // `cmake -E touch x` is `touch x`.
        let Some(at) = words.iter().position(|word| word.text == "-E") else { return };
        let rest = words.get(at + 1..).unwrap_or_default();
        let Some(verb) = rest.first().map(|word| word.text.clone()) else { return };
        let program = match verb.as_str() {
            "copy" | "copy_if_different" | "copy_directory" => "cp",
            "rename" => "mv",
            "remove" | "rm" | "remove_directory" => "rm",
            "make_directory" => "mkdir",
            "touch" | "touch_nocreate" => "touch",
            "create_symlink" => "ln",
            "tar" => "tar",
            "env" => "env",
            "chdir" => {
                self.change_folder(rest.get(1));
                self.run(rest.get(2..).unwrap_or_default().to_vec(), Flow::Nothing);
                return;
            }
            _ => return,
        };
        let own = rest.get(1..).unwrap_or_default().iter().cloned();
        let all = std::iter::once(Word::plain(program)).chain(own).collect();
        self.run(all, Flow::Nothing);
    }

    fn sqlite(&mut self, words: &[Word], input: &Flow) {
        let places = operands(words, &["-cmd", "-init", "-separator", "-newline", "-nullvalue"]);
        if let Some(file) = places.first().filter(|file| file.text != ":memory:") {
            let file = file.text.trim_start_matches("file:").to_owned();
            self.change(&Word::plain(&file), Change::Write);
        }
        let said: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let more = if let Flow::Known(more) = input { more.as_str() } else { "" };
        for line in said.iter().map(String::as_str).chain([more]).flat_map(str::lines) {
            self.client_command(line.trim());
            let upper = line.to_uppercase();
            if upper.contains("ATTACH") || upper.contains("INTO '") || upper.contains("WRITEFILE") {
                self.unknown(line, "a statement that names another file");
            }
        }
    }

    fn debugger(&mut self, program: &str, words: &[Word]) {
        for (at, word) in words.iter().enumerate() {
            let is_command = matches!(
                word.text.as_str(),
                "-ex" | "-iex" | "--ex" | "-o" | "--one-line" | "-eval-command" | "--eval-command"
            );
            let Some(command) = words.get(at + 1).filter(|_| is_command) else { continue };
            let text = command.text.trim();
            let shell = ["shell ", "!", "make ", "platform shell "];
            match shell.iter().find_map(|verb| text.strip_prefix(verb)) {
                Some(script) => {
                    let script = script.to_owned();
                    self.child(|judge| judge.script(&script));
                }
                None if matches!(
                    text,
                    "run" | "bt" | "backtrace" | "quit" | "q" | "info threads"
                ) => {}
                None => self.unknown(text, &format!("a command of `{program}`")),
            }
        }
    }

    /// Reports something that is allowed but notable.
    fn remark(&mut self, severity: Severity, program: &str, what: &str) {
        let reason = format!("`{program}` {what}");
        self.note(crate::Verdict::Allow, severity, crate::Confidence::Medium, program, reason);
    }
}
