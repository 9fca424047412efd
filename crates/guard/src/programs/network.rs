//! Programs that access other machines. The wall of the room decides whether they can reach them.

use super::{operands, option};
use crate::{
    Confidence, Severity, Verdict,
    judge::{Change, Judge, shown},
    secrets,
    shell::{Flow, Word},
};

/// Returns the host of a URL, or of `user@host:path`.
pub(crate) fn host_of(text: &str) -> Option<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next()?;
    let rest = rest.rsplit('@').next()?;
    let host = rest.split(':').next()?;
    (!host.is_empty()).then(|| host.to_owned())
}

/// Whether a host is this machine.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.starts_with("127.") || host.ends_with(".localhost") || host == "["
}

/// Returns the value of a short option at the end of a bundle: `-so file` and `-sofile`.
fn bundled(words: &[Word], name: &str) -> Option<Word> {
    let letter = name.strip_prefix('-').filter(|letter| letter.len() == 1)?.chars().next()?;
    // Options of curl and wget that take no value, and so may precede it.
    const FLAGS: &str = "sSfLkvigNqncb#0123456";
    words.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.strip_prefix('-').filter(|text| !text.starts_with('-'))?;
        let place = text.find(letter)?;
        if place == 0 || !text[..place].chars().all(|c| FLAGS.contains(c)) {
            return None;
        }
        let before = &word.text[..=place + 1];
        let rest = word.after(before)?;
        if rest.text.is_empty() { words.get(at + 1).cloned() } else { Some(rest) }
    })
}

impl Judge<'_> {
    pub(super) fn download(&mut self, program: &str, words: &[Word]) -> Flow {
        let valued = [
            "-o",
            "-O",
            "-H",
            "-X",
            "-d",
            "-u",
            "-A",
            "-e",
            "-F",
            "-T",
            "-b",
            "-c",
            "-D",
            "-K",
            "-x",
            "-m",
            "-w",
            "--output",
            "--header",
            "--request",
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-urlencode",
            "--user",
            "--form",
            "--upload-file",
            "--cookie",
            "--cookie-jar",
            "--config",
            "--max-time",
            "--retry",
            "--connect-timeout",
            "--url",
            "--output-document",
            "--directory-prefix",
            "-P",
            "--post-data",
            "--post-file",
            "--json",
            "--cacert",
            "--cert",
            "--key",
            "--proxy",
            "--resolve",
            "--output-dir",
            "-t",
            "--tries",
            "-U",
            "--write-out",
        ];
        // `curl -O` takes no value; `wget -O` does.
        let files: &[&str] = match program {
            "wget" => {
                &["-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file"]
            }
            _ => &[
                "-o",
                "--output",
                "--output-dir",
                "-c",
                "--cookie-jar",
                "-D",
                "--dump-header",
                "--trace",
            ],
        };
        let mut saved = Vec::new();
        for name in files {
            let file = option(words, &[name]).or_else(|| bundled(words, name));
            if let Some(file) = file.filter(|file| file.text != "-") {
                self.change(&file, Change::Write);
                saved.push(file);
            }
        }
        if let Some(program) = option(words, &["--use-askpass"]) {
            self.given(&program);
            self.unknown(&program.text, "a program that asks for a password");
        }
        let valued: Vec<&str> =
            valued.iter().copied().filter(|name| !(program == "curl" && *name == "-O")).collect();
        let urls = operands(words, &valued);
        let host = urls.iter().find_map(|word| host_of(word.known())).unwrap_or_default();
        if let Some(config) = option(words, &["-K", "--config"]) {
            self.read(&config);
            self.unknown(&config.text, "a request that a file describes");
        }
        for word in words {
            if let Some(path) =
                word.text.strip_prefix("file://").or_else(|| word.text.strip_prefix("FILE://"))
            {
                self.read_text(path);
            }
        }
        self.sends(words, &host);
        if !is_loopback(&host) {
            self.note(
                Verdict::Allow,
                Severity::Low,
                Confidence::High,
                &host,
                format!("asks `{}`", shown(&host)),
            );
        }
        // `wget` saves to a file unless given `-O -`, also as `-qO-`.
        let prints = words.iter().enumerate().any(|(at, word)| {
            let bundled = word.text.starts_with('-') && !word.text.starts_with("--");
            bundled && word.text.ends_with("O-")
                || bundled
                    && word.text.ends_with('O')
                    && words.get(at + 1).is_some_and(|next| next.text == "-")
                || word.text == "--output-document=-"
        });
        let flow = Flow::Network(host);
        saved.iter().for_each(|file| self.writes(file, &flow));
        let names_itself = program == "wget" && saved.is_empty() && !prints
            || program == "curl"
                && words.iter().any(|word| {
                    word.text == "--remote-name"
                        || !word.text.starts_with("--")
                            && word.is_option()
                            && word.text.contains('O')
                });
        if names_itself {
            let last = urls.last().and_then(|url| url.text.rsplit('/').next());
            last.iter().for_each(|name| self.writes(&Word::plain(name), &flow));
        }
        match !saved.is_empty() || names_itself {
            true => Flow::Nothing,
            false => flow,
        }
    }

    /// Judges the files that a request sends.
    fn sends(&mut self, words: &[Word], host: &str) {
        let files = words.iter().enumerate().filter_map(|(at, word)| {
            let text = word.text.as_str();
            let next = || words.get(at + 1);
            match text {
                "-T" | "--upload-file" | "--post-file" | "--body-file" => next().cloned(),
                _ if text.starts_with("--post-file=") => word.after("--post-file="),
                _ if text.starts_with("--body-file=") => word.after("--body-file="),
                _ if text.starts_with("--upload-file=") => word.after("--upload-file="),
                "-d" | "--data" | "--data-binary" | "--json" => {
                    next().and_then(|word| word.after("@"))
                }
                // `name@file`, and `name=@file` in a form.
                "--data-urlencode" => next().and_then(|word| {
                    let (name, file) = word.text.split_once('@')?;
                    (!name.contains(['=', ' ', '"', '{'])).then(|| Word::plain(file))
                }),
                "-F" | "--form" => next().and_then(|word| {
                    let (_, value) = word.text.split_once('=')?;
                    value.strip_prefix(['@', '<']).map(Word::plain)
                }),
                _ => ["--data=@", "--data-binary=@", "-d@", "--upload-file="]
                    .iter()
                    .find_map(|prefix| word.after(prefix)),
            }
        });
        let files: Vec<_> = files.collect();
        for file in files {
            self.read(&file);
            if is_loopback(host) {
                continue;
            }
            self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::Medium,
                &file.text,
                format!(
                    "this sends `{}` to `{}`; ask your user first",
                    shown(&file.text),
                    shown(host)
                ),
            );
        }
    }

    pub(super) fn remote(&mut self, program: &str, words: &[Word]) -> Flow {
        let executes = matches!(program, "nc" | "ncat" | "netcat")
            && words
                .iter()
                .any(|word| matches!(word.text.as_str(), "-e" | "-c" | "--exec" | "--sh-exec"))
            || program == "socat"
                && words.iter().any(|word| {
                    let upper = word.text.to_uppercase();
                    upper.starts_with("EXEC:") || upper.starts_with("SYSTEM:")
                });
        if executes {
            self.note(
                Verdict::Deny,
                Severity::Critical,
                Confidence::High,
                program,
                "this gives another machine a shell; nothing in a sandbox needs that",
            );
            return Flow::Unknown;
        }
        match program {
            "scp" | "rsync" | "sftp" | "rclone" => {
                self.by_command(words);
                self.transfer(program, words);
            }
            "ssh" => {
                self.by_command(words);
                let host =
                    operands(words, &["-p", "-i", "-o", "-l", "-F", "-L", "-R", "-D", "-J", "-b"]);
                let host = host.first().map(|word| word.text.clone()).unwrap_or_default();
                self.note(
                    Verdict::Ask,
                    Severity::High,
                    Confidence::High,
                    &host,
                    format!(
                        "this works on `{}`, another machine; work in the sandbox",
                        shown(&host)
                    ),
                );
            }
            _ => {
                let host = operands(words, &["-p", "-w", "-q"])
                    .first()
                    .map(|word| word.text.clone())
                    .unwrap_or_default();
                if !matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1" | "") {
                    self.note(
                        Verdict::Ask,
                        Severity::Medium,
                        Confidence::Medium,
                        &host,
                        format!(
                            "a raw connection to `{}`; use HTTP, which the wall can show your user",
                            shown(&host)
                        ),
                    );
                }
            }
        }
        Flow::Network(String::new())
    }

    /// Judges options of ssh and similar programs that name a command: `-o ProxyCommand=…`.
    fn by_command(&mut self, words: &[Word]) {
        let settings = words.iter().enumerate().filter_map(|(at, word)| match word.text.as_str() {
            "-o" => words.get(at + 1).cloned(),
            _ => word.after("-o").filter(|_| !word.text.starts_with("--")),
        });
        let settings: Vec<Word> = settings.collect();
        for setting in settings.iter().filter(|one| one.text.to_lowercase().contains("command")) {
            let script = setting.text.split_once(['=', ' ']).map_or("", |(_, script)| script);
            let script = script.to_owned();
            self.child(|judge| judge.script(&script));
        }
    }

    fn transfer(&mut self, program: &str, words: &[Word]) {
        if program == "rsync" {
            for name in
                ["--log-file", "--backup-dir", "--partial-dir", "--temp-dir", "--write-batch"]
            {
                if let Some(place) = option(words, &[name]) {
                    self.change(&place, Change::Write);
                }
            }
            if let Some(script) = option(words, &["--rsync-path"]) {
                self.child(|judge| judge.script(&script.text));
            }
        }
        let mut places = operands(
            words,
            &["-e", "-P", "-i", "-o", "-F", "--rsh", "--exclude", "--include", "-l"],
        );
        let Some(to) = places.pop() else { return };
        let is_remote =
            |word: &Word| word.text.split('/').next().is_some_and(|first| first.contains(':'));
        let grouped = super::wrappers::bundled(words, 'e', "avrzhnPutlpgoDHAXxS");
        let rsh = option(words, &["-e", "--rsh"])
            .or_else(|| option(words, &["-S"]).filter(|_| program == "scp"));
        if let Some(script) = rsh.or(grouped).filter(|script| script.text != "ssh") {
            self.child(|judge| judge.script(&script.text));
        }
        places.iter().filter(|word| !is_remote(word)).for_each(|word| self.read(word));
        if is_remote(to) {
            self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::High,
                &to.text,
                format!("this sends files to `{}`; ask your user first", shown(&to.text)),
            );
            return;
        }
        let deletes = words
            .iter()
            .any(|word| word.text.starts_with("--delete") || word.text == "--remove-source-files");
        self.change(to, if deletes { Change::Remove } else { Change::Write });
        if words.iter().any(|word| word.text == "--remove-source-files") {
            places.iter().for_each(|word| self.change(word, Change::Remove));
        }
    }

    /// Judges a connection made by the shell itself, `/dev/tcp/HOST/PORT`.
    pub(crate) fn raw_connection(&mut self, host: &str) {
        self.note(
            Verdict::Deny,
            Severity::Critical,
            Confidence::High,
            host,
            format!(
                "a raw connection to `{}` by the shell, as reverse shells make; use `curl`",
                shown(host)
            ),
        );
    }

    /// Judges a variable that loads code into a program.
    pub(crate) fn loader_variable(&mut self, name: &str, value: &Word) {
        if secrets::value(&value.text).is_some() {
            self.secrets_in(&value.text);
        }
        match name {
            "PROMPT_COMMAND" if value.is_known() => {
                let script = value.text.clone();
                self.child(|judge| judge.script(&script));
            }
            "LD_PRELOAD" | "LD_LIBRARY_PATH" | "LD_AUDIT" | "BASH_ENV" | "ENV"
            | "PYTHONSTARTUP" | "PERL5OPT" | "PROMPT_COMMAND" | "NODE_OPTIONS" | "RUBYOPT"
            | "PYTHONPATH" | "PERL5LIB" | "GCONV_PATH" | "CLASSPATH" => {
                self.given(value);
                self.note(
                    Verdict::Allow,
                    Severity::Medium,
                    Confidence::Medium,
                    name,
                    format!("`{name}` brings other code into the program"),
                );
            }
            "GIT_SSH_COMMAND"
            | "GIT_EDITOR"
            | "GIT_PAGER"
            | "PAGER"
            | "EDITOR"
            | "VISUAL"
            | "GIT_EXTERNAL_DIFF"
            | "RSYNC_RSH"
            | "GIT_SEQUENCE_EDITOR"
            | "GIT_ASKPASS"
            | "SSH_ASKPASS"
            | "SUDO_ASKPASS"
            | "GIT_PROXY_COMMAND"
            | "GIT_SSH"
            | "LESSOPEN"
            | "MANPAGER"
            | "BROWSER"
            | "CARGO_BUILD_RUSTC_WRAPPER"
            | "RUSTC_WRAPPER"
            | "TAR_OPTIONS"
            | "PS0"
            | "PS4"
                if value.is_known() && !value.text.is_empty() =>
            {
                let script = value.text.clone();
                self.child(|judge| judge.script(&script));
            }
            "GIT_DIR" | "GIT_WORK_TREE" | "GIT_INDEX_FILE" | "CARGO_TARGET_DIR" | "GOBIN"
            | "CARGO_INSTALL_ROOT" | "npm_config_prefix" => self.change(value, Change::Write),
            "GIT_EXEC_PATH" | "GIT_TEMPLATE_DIR" => self.programs_from(value),
            "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" if value.text != "/dev/null" => {
                self.unknown(&value.text, "a file of settings for git");
            }
            name if name.starts_with("GIT_CONFIG_KEY_") => {
                let setting = Word::plain(&format!("{}=?", value.text));
                self.git_setting(Some(&setting));
            }
            "PATH" => {
                for folder in value.known().split(':').filter(|folder| folder.starts_with('/')) {
                    let path = std::path::Path::new(folder);
                    if !path.starts_with(&self.scene.home) {
                        self.given(&Word::plain(folder));
                    }
                }
            }
            "PS1" if value.is_known() && value.text.contains(['$', '`']) => {
                self.unknown(&value.text, "a prompt that runs commands");
            }
            _ => {}
        }
    }
}
