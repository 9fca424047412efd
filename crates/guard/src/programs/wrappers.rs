//! Programs that run other programs.

use super::{operands, option};
use crate::{
    Confidence, Severity, Verdict,
    judge::{Change, Judge},
    shell::{Flow, Word},
};

impl Judge<'_> {
    pub(super) fn wrapper(&mut self, program: &str, words: &[Word], input: Flow) -> Flow {
        match program {
            "sudo" | "doas" | "su" | "runuser" | "gosu" | "pkexec" | "sudoedit" => {
                let (verdict, severity) = match self.scene.in_room {
                    true => (Verdict::Allow, Severity::Low),
                    false => (Verdict::Ask, Severity::High),
                };
                self.note(
                    verdict,
                    severity,
                    Confidence::High,
                    program,
                    "acts as another user; in a room `hothouse exec --root` is for that",
                );
            }
            "nsenter" | "unshare" | "chroot" => self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::Medium,
                program,
                format!("`{program}` changes what the command can see; run it without"),
            ),
            "nohup" | "setsid" | "systemd-run" => self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::Medium,
                program,
                "leaves a process behind; declare a service in `hothouse.toml` instead",
            ),
            _ => {}
        }
        if program == "sudoedit"
            || program == "sudo"
                && words.first().is_some_and(|word| matches!(word.text.as_str(), "-e" | "--edit"))
        {
            operands(words, &["-u"]).into_iter().for_each(|word| self.change(word, Change::Write));
            return Flow::Nothing;
        }
        if let ("exec", true) = (program, words.is_empty()) {
            return Flow::Nothing;
        }
        if matches!(program, "command")
            && words.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V"))
        {
            return match words {
                [_, one] if one.is_known() => Flow::Known(format!("{}\n", one.text)),
                _ => Flow::Unknown,
            };
        }
        if let Some(script) = self.inner_script(program, words) {
            return match script.is_known() {
                true => self.child(|judge| judge.script(&script.text)),
                false => {
                    self.unknown(&script.text, &format!("a script that `{program}` runs"));
                    Flow::Unknown
                }
            };
        }
        // These run in the shell itself; all others are a process, which has its own current folder.
        if matches!(program, "exec" | "command" | "builtin" | "noglob" | "time") {
            let inner = self.inner(program, words);
            return self.run(inner, input);
        }
        self.child(|judge| {
            let inner = judge.inner(program, words);
            judge.run(inner, input)
        })
    }

    /// Returns an argument that is a complete script.
    fn inner_script(&mut self, program: &str, words: &[Word]) -> Option<Word> {
        match program {
            "script" => self.recorded(words),
            "su" | "runuser" | "flock" | "unshare" => option(words, &["-c", "--command"]),
            "env" => {
                option(words, &["-S", "--split-string"]).or_else(|| bundled(words, 'S', "iv0"))
            }
            "watch" | "entr" | "parallel" | "retry" => {
                let rest = operands(words, &["-n", "-d", "--interval", "-j", "--jobs"]);
                let cut =
                    rest.iter().position(|word| word.text.starts_with(":::")).unwrap_or(rest.len());
                let mut texts: Vec<_> = rest[..cut].iter().map(|word| word.text.as_str()).collect();
                // `parallel command ::: a b` runs the command with each value.
                texts.extend(rest[cut..].iter().skip(1).map(|word| word.text.as_str()));
                match rest.iter().all(|word| word.is_known()) {
                    true if program == "parallel" && cut == rest.len() => Some(Word::unknown()),
                    true => Some(Word::plain(&texts.join(" "))),
                    false => Some(Word::unknown()),
                }
            }
            _ => None,
        }
    }

    /// Judges `script`, which writes the output of a command to a file.
    fn recorded(&mut self, words: &[Word]) -> Option<Word> {
        let at = words.iter().position(|word| {
            let text = word.text.as_str();
            text == "--command"
                || text.starts_with('-') && !text.starts_with("--") && text.ends_with('c')
        });
        let command = at.and_then(|at| words.get(at + 1).cloned());
        let command = command.or_else(|| option(words, &["--command"]));
        let files: Vec<Word> = words
            .iter()
            .enumerate()
            .filter(|(own, word)| at.is_none_or(|at| *own != at + 1) && !word.is_option())
            .map(|(_, word)| word.clone())
            .collect();
        files.iter().for_each(|file| self.change(file, Change::Write));
        // Without a command it starts an interactive shell.
        command.or_else(|| Some(Word::plain(":")))
    }

    /// Returns the command that a wrapper runs.
    fn inner(&mut self, program: &str, words: &[Word]) -> Vec<Word> {
        let valued: &[&str] = match program {
            "sudo" | "doas" => {
                &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U", "-D", "--user", "--group"]
            }
            "env" => &["-u", "--unset", "-C", "--chdir"],
            "nice" => &["-n", "--adjustment"],
            "timeout" => &["-s", "--signal", "-k", "--kill-after"],
            "ionice" => &["-c", "-n", "-p"],
            "time" => &["-o", "-f", "--output", "--format"],
            "stdbuf" => &["-i", "-o", "-e"],
            "strace" | "ltrace" => &["-e", "-o", "-p", "-s"],
            "exec" => &["-a"],
            "flock" => &["-w", "-E"],
            "nsenter" => &["-t", "--target"],
            "chroot" => &["--userspec", "--groups"],
            "gosu" => &[],
            "systemd-run" => &["-p", "--unit", "-u"],
            "numactl" | "taskset" | "chrt" => &["-c", "-p"],
            _ => &[],
        };
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
                break;
            }
            if let ("env" | "sudo", Some((name, _))) = (program, text.split_once('='))
                && !word.is_option()
            {
                let value = word.after(&format!("{name}=")).unwrap_or_else(Word::unknown);
                self.loader_variable(name, &value);
                self.set(name, &value);
                at += 1;
                continue;
            }
            // `env -` is `env -i`, and a group may follow `coproc`.
            if matches!((program, text), ("env", "-") | ("coproc", "{" | "(")) {
                at += 1;
                continue;
            }
            if !word.is_option() {
                break;
            }
            if matches!((program, text), ("env", "-C" | "--chdir") | ("sudo", "-D" | "--chdir")) {
                self.change_folder(words.get(at + 1));
            }
            let attached = word.after("--chdir=").or_else(|| word.after("-C"));
            if let ("env" | "sudo", Some(folder)) = (program, attached)
                && !folder.text.is_empty()
            {
                self.change_folder(Some(&folder));
            }
            if matches!(program, "strace" | "ltrace" | "time")
                && let Some(file) = option(&words[at..words.len().min(at + 2)], &["-o", "--output"])
                && matches!(text, "-o" | "--output") | text.starts_with("--output=")
            {
                self.change(&file, Change::Write);
            }
            at += 1 + usize::from(valued.contains(&text));
        }
        // Positional arguments before the command.
        at += match program {
            "timeout" | "gosu" | "flock" | "chroot" | "taskset" | "chrt" => 1,
            _ => 0,
        };
        words.get(at..).unwrap_or_default().to_vec()
    }

    pub(super) fn xargs(&mut self, words: &[Word], input: Flow) -> Flow {
        let valued = [
            "-I",
            "-J",
            "-n",
            "-P",
            "-L",
            "-d",
            "-E",
            "-s",
            "-a",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
        ];
        let mut at = 0;
        let mut place = None;
        while let Some(word) = words.get(at).filter(|word| word.is_option()) {
            let text = word.text.as_str();
            if matches!(text, "-I" | "-J") {
                place = words.get(at + 1).map(|word| word.text.clone());
            } else if matches!(text, "-i" | "--replace") {
                place = Some("{}".to_owned());
            } else if let Some(own) = text.strip_prefix("--replace=") {
                place = Some(own.to_owned());
            } else if let Some(own) = text.strip_prefix("-I") {
                place = Some(own.to_owned());
            }
            at += 1 + usize::from(valued.contains(&text));
        }
        let command = words.get(at..).unwrap_or_default().to_vec();
        let file = option(&words[..at], &["-a", "--arg-file"]);
        let input = match file.map(|file| self.written(&file)) {
            Some(written) => written.unwrap_or(Flow::Unknown),
            None => input,
        };
        let from: Vec<Word> = match &input {
            Flow::Names(names) => names.iter().map(|name| Word::plain(name)).collect(),
            Flow::Known(text) => text.split_whitespace().take(64).map(Word::plain).collect(),
            Flow::Nothing => Vec::new(),
            _ => vec![Word::unknown()],
        };
        if command.is_empty() {
            return Flow::Unknown;
        }
        match place {
            Some(place) => from.iter().for_each(|word| {
                let put = |own: &Word| match (own.text.contains(&place), word.is_known()) {
                    (false, _) => own.clone(),
                    (true, true) => Word::plain(&own.text.replace(&place, &word.text)),
                    (true, false) => Word::unknown(),
                };
                self.run(command.iter().map(put).collect(), Flow::Unknown);
            }),
            None => {
                let all = command.into_iter().chain(from).collect();
                self.run(all, Flow::Unknown);
            }
        }
        Flow::Unknown
    }

    pub(super) fn search(&mut self, program: &str, words: &[Word]) -> Flow {
        let begin = words.iter().position(|word| {
            word.is_option() && !matches!(word.text.as_str(), "-L" | "-H" | "-P")
                || matches!(word.text.as_str(), "(" | "!")
        });
        let mut starts: Vec<Word> = match program {
            "find" => words[..begin.unwrap_or(words.len())]
                .iter()
                .filter(|word| !word.is_option())
                .cloned()
                .collect(),
            // `fd` and similar programs expect the pattern first.
            _ => {
                let own = words.iter().position(|word| {
                    matches!(word.text.as_str(), "-x" | "--exec" | "-X" | "--exec-batch")
                });
                let own = &words[..own.unwrap_or(words.len())];
                super::operands(own, &["-e", "-t", "-d", "-E"])
                    .into_iter()
                    .skip(1)
                    .cloned()
                    .collect()
            }
        };
        if starts.is_empty() {
            starts.push(Word::plain("."));
        }
        let deletes = words.iter().any(|word| word.text == "-delete");
        for start in &starts {
            self.read(start);
            if deletes {
                let narrowed = words.iter().any(|word| {
                    ["-name", "-iname", "-path", "-regex", "-newer", "-mtime", "-size", "-empty"]
                        .contains(&word.text.as_str())
                });
                if !narrowed && matches!(start.text.trim_end_matches('/'), "." | "") {
                    self.empties();
                }
                let below = Word::plain(&format!("{}/x", start.text.trim_end_matches('/')));
                let target = if start.is_known() { below } else { start.clone() };
                self.change(&target, Change::Remove);
                if !matches!(start.text.trim_end_matches('/'), "." | "") {
                    self.change(start, Change::Remove);
                }
            }
        }
        for (at, word) in words.iter().enumerate() {
            match word.text.as_str() {
                "-fprint" | "-fprintf" | "-fls" | "-fprint0" => {
                    if let Some(file) = words.get(at + 1) {
                        self.change(file, Change::Write);
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "--exec" | "-X"
                | "--exec-batch" => {
                    let name = option(words, &["-name", "-iname"]).filter(Word::is_known);
                    let name = name.map(|name| name.text.replace(['*', '?', '[', ']'], ""));
                    let name =
                        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "x".to_owned());
                    let appends = program != "find";
                    self.for_each_found(&starts, &name, &words[at + 1..], appends);
                }
                _ => {}
            }
        }
        Self::found(words, &starts)
    }

    /// Runs a command for files below the searched folders.
    fn for_each_found(&mut self, starts: &[Word], name: &str, words: &[Word], appends: bool) {
        let end = words
            .iter()
            .position(|word| matches!(word.text.as_str(), ";" | "+"))
            .unwrap_or(words.len());
        let command = &words[..end];
        for start in starts {
            let found = match start.is_known() {
                true => Word::plain(&format!("{}/{name}", start.text.trim_end_matches('/'))),
                false => Word::unknown(),
            };
            let put = |word: &Word| match word.text.contains("{}") {
                false => word.clone(),
                true if word.text == "{}" => found.clone(),
                true if found.is_known() => Word::plain(&word.text.replace("{}", &found.text)),
                true => Word::unknown(),
            };
            let mut all: Vec<Word> = command.iter().map(put).collect();
            // `fd -x rm` is `fd -x rm {}`.
            if appends && !command.iter().any(|word| word.text.contains("{}")) {
                all.push(found.clone());
            }
            self.run(all, Flow::Unknown);
        }
    }
}

/// Returns the value of a short option at the end of a bundle: `-vS script` and `-vSscript`.
pub(super) fn bundled(words: &[Word], letter: char, flags: &str) -> Option<Word> {
    words.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.strip_prefix('-').filter(|text| !text.starts_with('-'))?;
        let place = text.find(letter).filter(|place| *place > 0)?;
        if !text[..place].chars().all(|c| flags.contains(c)) {
            return None;
        }
        let rest = word.after(&word.text[..place + 1 + letter.len_utf8()])?;
        if rest.text.is_empty() { words.get(at + 1).cloned() } else { Some(rest) }
    })
}
