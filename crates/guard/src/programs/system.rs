//! Programs with effects beyond files: processes, packages, accounts, clouds.

use super::{has, operands, option};
use crate::{
    Confidence, Severity, Verdict,
    judge::{Change, Judge, shown},
    shell::{Flow, Word},
};

impl Judge<'_> {
    pub(super) fn system_program(&mut self, program: &str, words: &[Word], input: &Flow) -> Flow {
        let first = words
            .iter()
            .find(|word| !word.is_option())
            .map_or("", |word| word.text.as_str())
            .to_owned();
        match program {
            "kill" | "pkill" | "killall" | "killall5" => self.kills(program, words),
            "tmux" | "screen" => self.multiplexer(program, words),
            "shutdown" | "reboot" | "poweroff" | "halt" | "init" => {
                self.denied(program, "ends the machine; stop services with `hothouse stop`")
            }
            "mkfs" | "fdisk" | "parted" | "wipefs" | "blkdiscard" => {
                self.denied(program, "destroys file systems; a sandbox has no disks of its own")
            }
            "mount" | "umount" | "modprobe" | "insmod" | "iptables" | "nft" | "ufw" | "sysctl"
            | "visudo" | "chpasswd" | "passwd" | "useradd" | "usermod" => {
                let lists = words.is_empty()
                    || has(words, 'l', &["--list"])
                    || program == "sysctl"
                        && !has(words, 'w', &[])
                        && !words.iter().any(|word| word.text.contains('='));
                if !lists {
                    self.asked(
                        program,
                        Severity::High,
                        "changes the system; declare what the project needs in `hothouse.toml`",
                    );
                }
            }
            "crontab" | "at" | "batch" if !has(words, 'l', &["--list"]) => {
                self.asked(program, Severity::High, "plans work for later, outside of the sandbox; use `hothouse cron` or a service");
            }
            "systemctl" | "service"
                if !matches!(
                    first.as_str(),
                    "status" | "list-units" | "is-active" | "show" | ""
                ) =>
            {
                self.asked(
                    program,
                    Severity::High,
                    "changes services of the system; use `hothouse start` and `hothouse stop`",
                );
            }
            "docker" | "podman" => self.container(words),
            "kubectl" | "terraform" | "aws" | "gcloud" | "az" => self.cloud(program, words),
            "gh" | "glab" => self.forge(program, words),
            "security" | "op" | "pass" | "ssh-add" | "secret-tool" | "vault" => self.asked(
                program,
                Severity::High,
                "reads passwords or keys; ask your user for what you need (`hothouse ask`)",
            ),
            "gpg" => {
                if words.iter().any(|word| word.text.contains("secret-key")) {
                    self.denied(program, "exports private keys; ask your user for what you need");
                }
                self.outputs(words);
            }
            "ssh-keygen" => {
                if let Some(file) = option(words, &["-f"]) {
                    self.change(&file, Change::Write);
                }
            }
            "psql" | "mysql" | "redis-cli" => self.database(program, words, input),
            "npm" | "pnpm" | "yarn" | "pip" | "pip3" | "uv" | "cargo" | "apt" | "apt-get"
            | "dnf" | "brew" | "gem" | "npx" | "uvx" | "pipx" | "make" | "gmake" => {
                self.packages(if program == "gmake" { "make" } else { program }, words, input)
            }
            "hothouse" => {
                let says = |text: &str| words.iter().any(|word| word.text == text);
                if says("guard") && says("uninstall") {
                    self.denied(program, "takes the guard out; that is your user's to decide");
                }
            }
            "printenv" => self.note(
                Verdict::Allow,
                Severity::Low,
                Confidence::High,
                program,
                "prints the environment",
            ),
            "trap" => {
                if let Some(script) = words
                    .iter()
                    .find(|word| word.is_known() && !word.is_option() && word.text != "--")
                {
                    let script = script.text.clone();
                    self.child(|judge| judge.script(&script));
                }
            }
            "alias" => {
                for word in words {
                    if let Some((_, body)) = word.text.split_once('=') {
                        let body = body.to_owned();
                        self.child(|judge| judge.script(&body));
                    }
                }
            }
            "disown" => self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::Medium,
                program,
                "leaves a process behind; declare a service in `hothouse.toml` instead",
            ),
            "history" if has(words, 'c', &[]) => {
                self.asked(program, Severity::Medium, "clears the history");
            }
            _ => {}
        }
        Flow::Unknown
    }

    fn denied(&mut self, program: &str, why: &str) {
        self.note(
            Verdict::Deny,
            Severity::Critical,
            Confidence::High,
            program,
            format!("`{program}` {why}"),
        );
    }

    fn asked(&mut self, program: &str, severity: Severity, why: &str) {
        self.note(Verdict::Ask, severity, Confidence::High, program, format!("`{program}` {why}"));
    }

    /// Judges the commands of a makefile.
    fn recipes(&mut self, rules: &str) {
        for line in rules.lines() {
            let recipe =
                line.strip_prefix('\t').or_else(|| line.split_once(';').map(|(_, rest)| rest));
            if let Some(recipe) = recipe {
                let recipe = recipe.trim_start_matches(['@', '-', '+', ' ']).to_owned();
                self.child(|judge| judge.script(&recipe));
            }
        }
    }

    fn kills(&mut self, program: &str, words: &[Word]) {
        let everything = program == "kill" && words.iter().skip(1).any(|word| word.text == "-1")
            || program == "kill" && words.len() == 1 && words[0].text == "-1"
            || program == "kill"
                && words.iter().any(|word| word.text == "1")
                && !words.iter().any(|word| word.text == "-0");
        let sessions = words.iter().any(|word| {
            matches!(
                word.text.as_str(),
                "tmux" | "screen" | "hothouse" | "claude" | "codex" | "sshd" | "systemd" | "node"
            )
        });
        let of_user = program != "kill"
            && words.iter().any(|word| {
                matches!(word.text.as_str(), "-u" | "-U" | "--user" | "--uid" | "--euid")
                    || word.text.starts_with("-u")
                    || word.text.starts_with("--user=")
            });
        // `pkill -f .` matches every process.
        let all_names = program == "pkill"
            && operands(words, &["-s", "-t", "-P", "-g"])
                .iter()
                .any(|word| matches!(word.text.as_str(), "." | ".*" | "" | "^"));
        let everything = everything || of_user || all_names || program == "killall5";
        if everything {
            self.denied(program, "ends every process; end the ones that you started, by their ids");
        } else if program != "kill" && sessions {
            self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::Medium,
                program,
                format!("`{program}` ends the session that you run in, or others like it; end what you started, by its id"),
            );
        } else if program != "kill" {
            self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::Medium,
                program,
                format!("`{program}` ends processes by name"),
            );
        }
    }

    fn multiplexer(&mut self, program: &str, words: &[Word]) {
        let kills = words.iter().any(|word| {
            matches!(
                word.text.as_str(),
                "kill-server" | "kill-session" | "kill-pane" | "kill-window" | "quit" | "-wipe"
            )
        });
        if kills {
            return self.denied(program, "ends the session that you run in; leave it alone");
        }
        let sends = words.iter().any(|word| {
            matches!(word.text.as_str(), "send-keys" | "send" | "run-shell" | "pipe-pane" | "stuff")
        });
        if sends {
            return self.asked(program, Severity::Medium, "types into another terminal");
        }
        let starts = words.iter().position(|word| {
            matches!(
                word.text.as_str(),
                "new"
                    | "new-session"
                    | "new-window"
                    | "split-window"
                    | "respawn-pane"
                    | "respawn-window"
                    | "popup"
                    | "if-shell"
                    | "-dm"
                    | "-dmS"
            )
        });
        if let Some(at) = starts {
            let rest = operands(&words[at + 1..], &["-s", "-n", "-c", "-t", "-x", "-y"]);
            let texts: Vec<_> = rest.iter().map(|word| word.text.as_str()).collect();
            if rest.iter().all(|word| word.is_known()) {
                self.child(|judge| judge.script(&texts.join(" ")));
            }
            self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::Medium,
                program,
                "leaves a process behind; declare a service in `hothouse.toml` instead",
            );
        }
    }

    fn container(&mut self, words: &[Word]) {
        let mut sources: Vec<String> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let value = match word.text.as_str() {
                "-v" | "--volume" | "--mount" => words.get(at + 1).map(|word| word.text.clone()),
                text => ["-v=", "--volume=", "--mount="]
                    .iter()
                    .find_map(|prefix| text.strip_prefix(prefix))
                    .or_else(|| {
                        text.strip_prefix("-v").filter(|rest| rest.starts_with(['/', '.', '~']))
                    })
                    .map(str::to_owned),
            };
            let Some(value) = value else { continue };
            let source = value.split(',').find_map(|part| {
                part.strip_prefix("source=").or_else(|| part.strip_prefix("src="))
            });
            let source = source.unwrap_or_else(|| value.split(':').next().unwrap_or_default());
            if source.starts_with(['/', '.', '~']) {
                sources.push(source.to_owned());
            }
        }
        sources.iter().for_each(|source| self.change(&Word::plain(source), Change::Write));
        let says = |texts: &[&str]| {
            words.iter().any(|word| texts.iter().any(|text| word.text.starts_with(text)))
        };
        let verb = operands(words, &["-H", "--host", "--context", "-c"]);
        let verb = verb.first().map_or("", |word| word.text.as_str()).to_owned();
        if verb == "cp" {
            // `docker cp container:/x here`
            let to = words.last().filter(|to| !to.text.contains(':'));
            to.iter().for_each(|to| self.change(to, Change::Write));
        }
        if verb == "compose" {
            option(words, &["-f", "--file"]).iter().for_each(|file| self.given(file));
        }
        let powers = [
            "--privileged",
            "--pid=host",
            "--network=host",
            "--net=host",
            "--cap-add",
            "--device",
            "--security-opt",
            "--userns=host",
            "--ipc=host",
        ];
        if says(&powers) {
            self.asked("docker", Severity::High, "asks for powers over the host; run it without");
        }
        if words.first().is_some_and(|word| word.text == "system") && says(&["prune"]) {
            self.asked(
                "docker",
                Severity::High,
                "removes what others use; remove your own containers by name",
            );
        }
    }

    fn cloud(&mut self, program: &str, words: &[Word]) {
        let changes = words.iter().any(|word| {
            matches!(
                word.text.as_str(),
                "delete"
                    | "apply"
                    | "destroy"
                    | "rm"
                    | "rb"
                    | "terminate-instances"
                    | "create"
                    | "drain"
                    | "scale"
                    | "exec"
                    | "sync"
                    | "cp"
            ) || word.text.starts_with("delete-")
                || word.text.starts_with("put-")
                || word.text.starts_with("create-")
        });
        let secret = words.iter().any(|word| {
            word.text.contains("secret")
                || word.text == "print-access-token"
                || word.text == "get-access-token"
                || word.text == "get-session-token"
        });
        if changes || secret {
            self.asked(
                program,
                Severity::High,
                "works on real infrastructure; that is your user's to decide",
            );
        }
    }

    fn forge(&mut self, program: &str, words: &[Word]) {
        let pair: Vec<_> = words
            .iter()
            .filter(|word| !word.is_option())
            .map(|word| word.text.as_str())
            .take(2)
            .collect();
        match pair.as_slice() {
            ["auth", "token"] => {
                self.denied(program, "prints a token; commands that need it find it themselves")
            }
            ["repo", "delete"]
            | ["release", "delete"]
            | ["secret", _]
            | ["repo", "edit"]
            | ["pr", "merge"] => {
                self.asked(
                    program,
                    Severity::High,
                    "changes what others see; that is your user's to decide",
                );
            }
            ["api", _]
                if words.iter().any(|word| {
                    matches!(word.text.as_str(), "DELETE" | "PUT" | "PATCH" | "POST")
                }) =>
            {
                self.asked(
                    program,
                    Severity::High,
                    "changes what others see; that is your user's to decide",
                );
            }
            _ => {}
        }
    }

    fn database(&mut self, program: &str, words: &[Word], input: &Flow) {
        let mut text =
            words.iter().map(|word| word.text.to_uppercase()).collect::<Vec<_>>().join(" ");
        if let Flow::Known(more) = input {
            text.push_str(&more.to_uppercase());
        }
        if ["DROP DATABASE", "DROP SCHEMA", "TRUNCATE ", "FLUSHALL", "FLUSHDB"]
            .iter()
            .any(|word| text.contains(word))
        {
            self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::Medium,
                program,
                "drops data; `hothouse snapshot` first keeps a way back",
            );
        }
        if let Some(file) = option(words, &["-o", "--output"]) {
            self.change(&file, Change::Write);
        }
        let said: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let more = if let Flow::Known(more) = input { more.as_str() } else { "" };
        for text in said.iter().map(String::as_str).chain([more]) {
            self.written_by_statements(text);
        }
        for line in said.iter().map(String::as_str).chain([more]).flat_map(str::lines) {
            self.client_command(line.trim());
        }
    }

    /// Judges files and programs in SQL statements: `COPY … TO '…'`, `INTO OUTFILE '…'`.
    fn written_by_statements(&mut self, text: &str) {
        let upper = text.to_ascii_uppercase();
        for (verb, runs) in
            [("TO PROGRAM '", true), (" TO '", false), ("OUTFILE '", false), ("DUMPFILE '", false)]
        {
            let Some(at) = upper.find(verb).map(|at| at + verb.len()) else { continue };
            let copies = upper.contains("COPY") || verb.contains("FILE");
            let value = text
                .get(at..)
                .and_then(|rest| rest.split('\'').next())
                .unwrap_or_default()
                .to_owned();
            match (runs, copies) {
                (true, true) => {
                    self.child(|judge| judge.script(&value));
                }
                (false, true) if value.starts_with(['/', '.', '~']) => self.write_text(&value),
                _ => {}
            }
        }
    }

    /// Judges built-in commands of database clients: `\! command`, `.shell command`, `.output file`.
    pub(super) fn client_command(&mut self, line: &str) {
        let runs = ["\\!", ".shell ", ".system ", "system "];
        let writes = [
            "\\o ", "\\w ", ".output ", ".once ", ".backup ", ".save ", ".clone ", ".log ", "tee ",
        ];
        if let Some(script) = runs.iter().find_map(|verb| line.strip_prefix(verb)) {
            let script = script.to_owned();
            self.child(|judge| judge.script(&script));
        } else if let Some(file) = writes.iter().find_map(|verb| line.strip_prefix(verb)) {
            match file.trim().strip_prefix('|') {
                Some(script) => {
                    let script = script.to_owned();
                    self.child(|judge| judge.script(&script));
                }
                None => self.write_text(file.trim().trim_matches(['\'', '"'])),
            }
        }
    }

    /// Judges packages whose code does not come from a registry.
    fn fetched_elsewhere(&mut self, program: &str, words: &[Word]) {
        let places = ["git+", "git://", "http://", "https://", "git@"];
        let own = operands(
            words,
            &[
                "-i",
                "--index-url",
                "--extra-index-url",
                "-f",
                "--find-links",
                "--registry",
                "--proxy",
                "--index",
                "--trusted-host",
            ],
        );
        let named =
            option(words, &["--git", "--from"]).filter(|_| matches!(program, "cargo" | "uvx"));
        // Arguments after the package of `npx` are for the package.
        let runs = matches!(program, "npx" | "uvx" | "pipx");
        let count = if runs { 1 } else { own.len() };
        let place = own.into_iter().take(count).cloned().chain(named).find(|word| {
            places.iter().any(|place| word.text.starts_with(place) || word.text.contains("@git+"))
        });
        let verbs = ["install", "i", "add", "wheel", "download"];
        let installs = runs || words.iter().any(|word| verbs.contains(&word.text.as_str()));
        let Some(place) = place.filter(|_| installs) else { return };
        // In a room the wall decides what is reachable.
        let verdict = if self.scene.in_room { Verdict::Allow } else { Verdict::Ask };
        self.note(
            verdict,
            Severity::Medium,
            Confidence::High,
            &place.text,
            format!(
                "this runs code from `{}`, which is no registry; ask your user first",
                shown(&place.text)
            ),
        );
    }

    fn packages(&mut self, program: &str, words: &[Word], input: &Flow) {
        let says = |text: &str| words.iter().any(|word| word.text == text);
        self.fetched_elsewhere(program, words);
        self.package_commands(program, words);
        match program {
            "apt" | "apt-get" | "dnf" | "brew"
                if !self.scene.in_room
                    && words.iter().any(|word| {
                        matches!(word.text.as_str(), "install" | "remove" | "purge" | "upgrade")
                    }) =>
            {
                self.asked(
                    program,
                    Severity::High,
                    "changes the host's packages; run it in the room (`hothouse exec --root`)",
                );
            }
            "npm" | "pnpm" | "yarn" => {
                if let Some(place) = option(words, &["--pack-destination"]) {
                    self.change(&place, Change::Write);
                }
                if let Some(shell) = option(words, &["--script-shell"]) {
                    self.unknown(&shell.text, "a shell that runs the scripts");
                }
                let place = option(words, &["--prefix", "-C", "--cwd", "--dir"]);
                if (says("-g") || says("--global")) && place.is_none() && !self.scene.in_room {
                    self.asked(
                        program,
                        Severity::Medium,
                        "installs for all projects; install it in this one",
                    );
                }
                if says("publish") || says("unpublish") {
                    self.asked(
                        program,
                        Severity::High,
                        "changes the public registry; that is your user's to decide",
                    );
                }
                if let Some(place) = place {
                    self.change(&place, Change::Write);
                }
            }
            "pip" | "pip3" | "uv" => {
                if let Some(place) = option(
                    words,
                    &["-t", "--target", "--prefix", "--root", "-d", "--dest", "-w", "--wheel-dir"],
                )
                .filter(|place| place.text != "install")
                {
                    self.change(&place, Change::Write);
                }
                if says("--break-system-packages") && !self.scene.in_room {
                    self.asked(
                        program,
                        Severity::Medium,
                        "changes the host's Python; use a virtual environment in the sandbox",
                    );
                }
            }
            "cargo" => {
                if says("publish") || says("yank") {
                    self.asked(
                        program,
                        Severity::High,
                        "changes the public registry; that is your user's to decide",
                    );
                }
                if let [verb, place, ..] =
                    operands(words, &["--name", "--vcs", "--edition"]).as_slice()
                    && matches!(verb.text.as_str(), "new" | "init")
                {
                    self.change(place, Change::Write);
                }
                if says("watch") {
                    self.whole_commands(words);
                }
                let settings = words.iter().enumerate().filter_map(|(at, word)| {
                    match word.text == "--config" {
                        true => words.get(at + 1).cloned(),
                        false => word.after("--config="),
                    }
                });
                for place in settings.collect::<Vec<_>>() {
                    self.unknown(&place.text, "a setting of cargo, which may name a program");
                }
                for place in
                    ["--target-dir", "--root", "--manifest-path", "--artifact-dir", "--out-dir"]
                {
                    if let Some(place) = option(words, &[place]) {
                        self.change(&place, Change::Write);
                    }
                }
            }
            "npx" | "uvx" | "pipx" => {
                let name = operands(words, &["-p", "--package", "-c", "--call"])
                    .first()
                    .map(|word| word.text.clone());
                if let Some(script) = option(words, &["-c", "--call"]) {
                    self.child(|judge| judge.script(&script.text));
                }
                self.note(
                    Verdict::Allow,
                    Severity::Low,
                    Confidence::High,
                    &name.clone().unwrap_or_default(),
                    format!("runs the package `{}`", shown(&name.unwrap_or_default())),
                );
                operands(words, &["-p", "--package", "-c", "--call"])
                    .into_iter()
                    .skip(1)
                    .for_each(|word| self.given(word));
            }
            "make" => {
                self.printed_rules(words);
                for place in [
                    option(words, &["-C", "--directory"]),
                    option(words, &["-f", "--file", "--makefile"]),
                ]
                .into_iter()
                .flatten()
                {
                    match (place.text.as_str(), self.written(&place)) {
                        ("-" | "/dev/stdin", _) => {
                            if let Flow::Known(rules) = input {
                                self.recipes(rules);
                            }
                            self.unknown("", "rules that another command prints");
                        }
                        (_, Some(Flow::Known(rules))) => self.recipes(&rules),
                        (_, Some(_)) => {
                            self.unknown(&place.text, "rules that another command prints")
                        }
                        _ => self.change(&place, Change::Write),
                    }
                }
                for word in words {
                    if let Some((name, value)) =
                        word.text.split_once('=').filter(|(name, _)| !name.starts_with('-'))
                    {
                        match name {
                            "SHELL" | "CC" | "CXX" => {
                                self.unknown(value, "a program that `make` is to run")
                            }
                            "DESTDIR" | "prefix" | "PREFIX" => {
                                self.change(&Word::plain(value), Change::Write)
                            }
                            _ => {}
                        }
                    }
                }
                if says("install")
                    && !words.iter().any(|word| {
                        word.text.starts_with("DESTDIR")
                            || word.text.to_lowercase().starts_with("prefix")
                    })
                    && !self.scene.in_room
                {
                    self.asked(
                        "make",
                        Severity::Medium,
                        "installs into the system; pass DESTDIR or PREFIX below the sandbox",
                    );
                }
                if let Some(script) = option(words, &["--eval"]) {
                    self.unknown(&script.text, "a rule that `make` is to run");
                }
            }
            _ => {}
        }
    }
}
