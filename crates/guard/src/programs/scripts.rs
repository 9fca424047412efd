//! Shells and interpreters.

use super::{has, operands, option};
use crate::{
    Confidence, Severity, Verdict, inline,
    judge::{Change, Judge},
    shell::{Flow, Word},
};

impl Judge<'_> {
    pub(super) fn eval(&mut self, words: &[Word]) -> Flow {
        if !words.iter().all(Word::is_known) {
            self.unknown("", "`eval` of a text that is only known later");
            return Flow::Unknown;
        }
        let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        self.script(&texts.join(" "))
    }

    pub(super) fn source(&mut self, words: &[Word], input: Flow) -> Flow {
        match words.first() {
            // In the current shell: its folder and variables are kept.
            Some(file) if is_input(&file.text) => match input {
                Flow::Known(script) => self.script(&script),
                other => self.piped_script(other),
            },
            Some(file) if self.is_of_the_user(file) => {
                self.read(file);
                Flow::Unknown
            }
            Some(file) => self.script_file(file),
            None => Flow::Unknown,
        }
    }

    /// Whether a file is one that the user's own shell reads too, such as `~/.nvm/nvm.sh`.
    fn is_of_the_user(&self, file: &Word) -> bool {
        let paths = if file.is_known() { self.paths(&file.text) } else { None };
        let in_home = paths.is_some_and(|all| {
            all.iter()
                .all(|path| path.starts_with(&self.scene.home) && !path.starts_with(self.root()))
        });
        in_home && self.written(file).is_none()
    }

    /// Judges an executed file: the guard does not read it, but knows what the same call has written to it.
    fn script_file(&mut self, file: &Word) -> Flow {
        self.read(file);
        if !file.is_known() {
            self.unknown(&file.text, "a script in a file that is only known later");
        } else if is_input(&file.text) || file.text.starts_with("/dev/fd/") {
            self.unknown(&file.text, "a script that another command prints");
        } else if let Some(flow) = self.written(file) {
            return self.child(|judge| judge.piped_script(flow));
        } else {
            self.given(file);
        }
        Flow::Unknown
    }

    pub(super) fn shell_program(&mut self, program: &str, words: &[Word], input: Flow) -> Flow {
        let mut at = 0;
        while let Some(word) =
            words.get(at).filter(|word| word.is_option() || word.text.starts_with('+'))
        {
            let text = word.text.as_str();
            let is_code = text == "--command"
                || text == "-Command"
                || text.starts_with('-') && !text.starts_with("--") && text.contains('c');
            if is_code {
                // `-c` may be followed by more options.
                let script = words[at + 1..]
                    .iter()
                    .find(|word| !word.is_option() && word.text != "pipefail");
                return self.shell_code(program, script, &words[at + 1..]);
            }
            if matches!(text, "--rcfile" | "--init-file")
                && let Some(file) = words.get(at + 1)
            {
                self.script_file(file);
            }
            let takes_name = !text.starts_with("--") && text.ends_with(['o', 'O']);
            at += 1 + usize::from(takes_name || matches!(text, "--rcfile" | "--init-file"));
        }
        if let Some(file) =
            words.get(at).filter(|word| word.text != "-" && !has(&words[..at], 's', &[]))
        {
            if file.text.starts_with("/dev/fd/") {
                // `bash <(curl …)`: the command of the substitution is judged separately.
                self.note(
                    Verdict::Deny,
                    Severity::High,
                    Confidence::Medium,
                    &file.text,
                    "this executes what another command prints; save it to a file in the sandbox and read it first",
                );
                return Flow::Unknown;
            }
            if is_input(&file.text) {
                return self.piped_script(input);
            }
            return self.script_file(file);
        }
        self.piped_script(input)
    }

    fn shell_code(&mut self, program: &str, script: Option<&Word>, words: &[Word]) -> Flow {
        match script {
            Some(script) if script.is_known() && program != "pwsh" => {
                let position = words.iter().position(|word| word == script).unwrap_or_default();
                let arguments = words.get(position + 1..).unwrap_or_default().to_vec();
                self.child(|judge| judge.with_name(&arguments, &script.text))
            }
            Some(script) => {
                self.unknown(&script.text, &format!("a script that `{program}` runs"));
                Flow::Unknown
            }
            None => Flow::Nothing,
        }
    }

    /// Judges a script on standard input.
    pub(super) fn piped_script(&mut self, input: Flow) -> Flow {
        match input {
            // Its own standard input is the rest of the script.
            Flow::Known(script) => self.child(|judge| {
                judge.state.input = Flow::Nothing;
                judge.script(&script)
            }),
            Flow::Network(host) => {
                self.note(
                    Verdict::Deny,
                    Severity::Critical,
                    Confidence::High,
                    &host,
                    "this executes what the network sends; download it into the sandbox, read it, then run the file",
                );
                Flow::Unknown
            }
            Flow::Unknown | Flow::Names(_) => {
                self.unknown("", "a script that another command prints");
                Flow::Unknown
            }
            Flow::Nothing => Flow::Nothing,
        }
    }

    pub(super) fn interpreter(&mut self, program: &str, words: &[Word], input: Flow) -> Flow {
        let (short, long): (&[&str], &[&str]) = match program {
            "python" | "python2" | "python3" | "pypy3" => (&["-c"], &[]),
            "node" | "nodejs" | "bun" | "ts-node" | "tsx" => {
                (&["-e", "-p", "-pe"], &["--eval", "--print"])
            }
            "perl" => (&["-e", "-E", "-ne", "-pe", "-nE", "-pi", "-lne", "-i.bak"], &[]),
            "php" => (&["-r"], &[]),
            "deno" => (&["eval"], &[]),
            "expect" => (&["-c"], &[]),
            _ => (&["-e"], &["--eval"]),
        };
        let edits = matches!(program, "perl" | "ruby")
            && words.iter().any(|word| {
                word.text.starts_with("-i")
                    || word.text.starts_with("-pi")
                    || word.text.starts_with("-ni")
            });
        if edits {
            let files = operands(words, &["-e", "-E", "-pe", "-ne"]);
            files.into_iter().for_each(|word| self.change(word, Change::Write));
        }
        if program.starts_with("python")
            && let Some(module) = option(words, &["-m"])
        {
            return self.module(&module.text.clone(), words);
        }
        if matches!(program, "perl" | "ruby") {
            self.read_files(words);
        }
        let own: Vec<Word> = words.iter().take_while(|word| word.is_option()).cloned().collect();
        let attached = match program {
            "perl" | "ruby" => own.iter().find_map(|word| word.after("-e")),
            _ if program.starts_with("py") => {
                own.iter().find_map(|word| word.after("-c")).or_else(|| {
                    let next = words.get(..words.len().min(own.len() + 1)).unwrap_or_default();
                    super::wrappers::bundled(next, 'c', "bBdEIiOPqsSuvxR")
                })
            }
            _ => None,
        };
        let attached = attached.filter(|code| !code.text.is_empty());
        let code = attached.or_else(|| {
            words.iter().enumerate().find_map(|(at, word)| {
                let text = word.text.as_str();
                let is_code = short.contains(&text)
                    || long.contains(&text)
                    || program == "perl"
                        && text.starts_with('-')
                        && !text.starts_with("--")
                        && text.ends_with(['e', 'E']);
                match is_code {
                    true => words.get(at + 1).cloned(),
                    false => long.iter().find_map(|long| word.after(&format!("{long}="))),
                }
            })
        });
        let command_language = matches!(program, "tclsh" | "expect" | "wish");
        for place in words.iter().filter_map(|word| word.after("--allow-write=")) {
            self.change(&place, Change::Write);
        }
        let file = words.iter().find(|word| !word.is_option() && word.text != "run");
        match (code, file, input) {
            (Some(code), ..) if code.is_known() && command_language => {
                inline::commands(self, &code.text)
            }
            (None, None, Flow::Known(code)) if command_language => inline::commands(self, &code),
            (Some(code), ..) if code.is_known() => inline::judge(self, &code.text),
            (Some(code), ..) => self.unknown(&code.text, &format!("code that `{program}` runs")),
            (None, Some(file), _) if file.text != "-" => {
                if file.text.starts_with("/dev/fd/") {
                    self.unknown(&file.text, "code that another command prints");
                } else if let Some(flow) = self.written(file) {
                    match flow {
                        Flow::Known(code) => inline::judge(self, &code),
                        other => {
                            self.piped_script(other);
                        }
                    }
                } else {
                    self.outputs(words);
                    words.iter().for_each(|word| self.given(word));
                }
            }
            (None, _, Flow::Known(code)) => inline::judge(self, &code),
            (None, _, Flow::Network(host)) => {
                self.piped_script(Flow::Network(host));
            }
            (None, None, Flow::Unknown) => self.unknown("", "code that another command prints"),
            _ => {}
        }
        Flow::Unknown
    }

    /// Judges files that an inline program processes: `perl -pe 1 FILE`.
    fn read_files(&mut self, words: &[Word]) {
        let mut is_code = false;
        for word in words {
            if word.is_option() {
                is_code = !word.text.starts_with("--") && word.text.ends_with(['e', 'E']);
            } else if !std::mem::take(&mut is_code) {
                self.read(word);
            }
        }
    }

    /// Judges `python -m MODULE`.
    fn module(&mut self, module: &str, words: &[Word]) -> Flow {
        let at = words.iter().position(|word| word.text == module).map_or(words.len(), |at| at + 1);
        let rest = words.get(at..).unwrap_or_default().to_vec();
        match module {
            "pip" => {
                self.run([Word::plain("pip")].into_iter().chain(rest).collect(), Flow::Nothing);
            }
            "timeit" | "pdb" | "cProfile" | "trace" | "runpy" | "code" => {
                for word in
                    rest.iter().filter(|word| word.is_known() && word.text.contains(['(', ' ']))
                {
                    inline::judge(self, &word.text);
                }
            }
            "venv" | "virtualenv" => {
                operands(&rest, &[]).into_iter().for_each(|word| self.change(word, Change::Write));
            }
            "zipfile" | "tarfile" => {
                let files = operands(&rest, &[]);
                let extracts = has(&rest, 'e', &["--extract"]);
                let made = if extracts { files.get(1) } else { files.first() };
                let reads = has(&rest, 'l', &["--list"]) || has(&rest, 't', &["--test"]);
                match made {
                    Some(place) if !reads => self.change(place, Change::Write),
                    _ => {}
                }
            }
            _ => {
                self.outputs(&rest);
                rest.iter().for_each(|word| self.given(word));
            }
        }
        Flow::Unknown
    }

    pub(super) fn awk(&mut self, words: &[Word], input: &Flow) -> Flow {
        let rest = operands(words, &["-F", "-v", "-f", "-i", "-E", "-l"]);
        let file = option(words, &["-f", "-E", "--file", "--exec"]);
        if let Some(file) =
            file.filter(|file| is_input(&file.text) || file.text.starts_with("/dev/fd/"))
        {
            match input {
                Flow::Known(code) => inline::awk(self, code),
                _ => self.unknown(&file.text, "a program of awk that another command prints"),
            }
        }
        let own = option(words, &["-f", "--file"]).and_then(|file| self.written(&file));
        match own {
            Some(Flow::Known(code)) => inline::awk(self, &code),
            Some(_) => self.unknown("", "a program of awk that another command prints"),
            None => {}
        }
        match rest.first() {
            Some(code) if option(words, &["-f"]).is_none() => match code.is_known() {
                true => inline::awk(self, &code.text.clone()),
                false => self.unknown(&code.text, "a program of awk"),
            },
            _ => {}
        }
        rest.iter().skip(1).for_each(|word| self.read(word));
        if words.iter().any(|word| word.text == "inplace") {
            rest.iter().skip(1).for_each(|word| self.change(word, Change::Write));
        }
        Flow::Unknown
    }

    pub(super) fn sed(&mut self, words: &[Word]) -> Flow {
        let in_place = words.iter().any(|word| {
            word.text.starts_with("--in-place")
                || word.text.starts_with('-')
                    && !word.text.starts_with("--")
                    && word.text.contains('i')
                    && !word.text.starts_with("-e")
        });
        let mut rest = operands(words, &["-e", "-f", "-l", "--expression", "--file"]);
        let given: Vec<Word> = words
            .iter()
            .enumerate()
            .filter_map(|(at, _)| {
                option(words.get(at..at + 2).unwrap_or(&words[at..]), &["-e", "--expression"])
            })
            .collect();
        let script = match (given.is_empty(), option(words, &["-f", "--file"])) {
            (false, _) => {
                Some(given.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n"))
            }
            (true, Some(file)) => match (self.written(&file), is_input(&file.text)) {
                (Some(Flow::Known(script)), _) => Some(script),
                (_, true) => {
                    self.unknown(&file.text, "a script of sed that another command prints");
                    None
                }
                _ => None,
            },
            (true, None) if rest.is_empty() => None,
            (true, None) => Some(rest.remove(0).text.clone()),
        };
        if let Some(script) = script {
            inline::sed(self, &script);
        }
        for word in rest {
            match in_place {
                true => self.change(word, Change::Write),
                false => self.read(word),
            }
        }
        Flow::Unknown
    }

    pub(super) fn editor(&mut self, program: &str, words: &[Word], input: &Flow) -> Flow {
        let commands = words.iter().enumerate().filter(|(_, word)| {
            let text = word.text.as_str();
            // Short options can be bundled, as in `ex -sc`.
            matches!(text, "--cmd" | "-S" | "--eval" | "-f")
                || text.starts_with('-') && !text.starts_with("--") && text.ends_with('c')
        });
        let commands: Vec<_> = commands.filter_map(|(at, _)| words.get(at + 1)).cloned().collect();
        let plus = words.iter().filter_map(|word| word.text.strip_prefix('+').map(Word::plain));
        for command in commands.into_iter().chain(plus) {
            match command.text.trim_start_matches([':', '%']).strip_prefix('!') {
                Some(script) => {
                    self.script(script);
                }
                None if command.text.chars().all(|c| c.is_ascii_digit() || c == '$') => {}
                None if matches!(command.text.as_str(), "q" | "q!" | "wq" | "x") => {}
                None => self.unknown(&command.text, &format!("a command of `{program}`")),
            }
        }
        if let (Flow::Known(text), true) = (input, matches!(program, "ex" | "ed" | "vim" | "vi")) {
            for line in text.lines() {
                if let Some(script) =
                    line.trim_start_matches([':', 'r', 'w', ' ']).strip_prefix('!')
                {
                    self.script(script);
                }
                let line = line.trim().trim_start_matches(':');
                if let Some(file) = line.strip_prefix("w ").or_else(|| line.strip_prefix("w! ")) {
                    self.write_text(file.trim());
                }
            }
        }
        operands(words, &["-c", "-sc", "-esc", "--cmd", "-S", "--eval", "-f"])
            .into_iter()
            .filter(|word| !word.text.starts_with('+'))
            .for_each(|word| self.change(word, Change::Write));
        Flow::Unknown
    }
}

/// Whether a name refers to the program's own standard input.
fn is_input(name: &str) -> bool {
    matches!(name, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" | "-")
}
