//! git.

use super::{has, operands, option};
use crate::{
    Confidence, Severity, Verdict,
    judge::{Change, Judge},
    shell::{Flow, Word},
};

/// Commands that change nothing.
const READS: [&str; 26] = [
    "status",
    "log",
    "diff",
    "show",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "rev-parse",
    "rev-list",
    "cat-file",
    "grep",
    "blame",
    "describe",
    "shortlog",
    "name-rev",
    "merge-base",
    "for-each-ref",
    "show-ref",
    "count-objects",
    "fsck",
    "help",
    "version",
    "check-ignore",
    "whatchanged",
    "var",
    "diff-tree",
];

/// Configuration that git executes.
const EXECUTED: [&str; 21] = [
    "alias.",
    "core.sshcommand",
    "core.pager",
    "core.editor",
    "core.fsmonitor",
    "core.hookspath",
    "diff.external",
    "credential.helper",
    "sequence.editor",
    "pager.",
    "filter.",
    "core.gitproxy",
    "core.askpass",
    "include.",
    "includeif.",
    "uploadpack.packobjectshook",
    "interactive.difffilter",
    "browser.",
    "sendemail.",
    "instaweb.",
    "protocol.ext.",
];

/// Suffixes of settings that name a program, in any section: `gpg.ssh.program`, `merge.x.driver`.
const EXECUTED_ENDS: [&str; 8] =
    [".program", ".driver", ".textconv", ".command", ".cmd", ".uploadpack", ".receivepack", ".vcs"];

impl Judge<'_> {
    pub(super) fn git(&mut self, words: &[Word]) -> Flow {
        let before = self.state.folders.clone();
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| word.is_option()) {
            let text = word.text.as_str();
            match text {
                "-C" => self.change_folder(words.get(at + 1)),
                "-c" => self.git_setting(words.get(at + 1)),
                "--git-dir" | "--work-tree" => {
                    if let Some(place) = words.get(at + 1) {
                        self.change(place, Change::Write);
                    }
                }
                _ => {
                    for option in ["--git-dir=", "--work-tree="] {
                        if let Some(place) = word.after(option) {
                            self.change(&place, Change::Write);
                        }
                    }
                    let attached = word.after("-c").filter(|_| !text.starts_with("--"));
                    if let Some(setting) = word.after("--config-env=").or(attached) {
                        self.git_setting(Some(&setting));
                    }
                    if let Some(place) = word.after("--exec-path=") {
                        self.programs_from(&place);
                    }
                }
            }
            at += 1 + usize::from(matches!(
                text,
                "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path"
            ));
        }
        let flow = match words.get(at) {
            None => Flow::Unknown,
            Some(command) if !command.is_known() => {
                self.unknown(&command.text, "a command of git that is only known later");
                Flow::Unknown
            }
            Some(command) => self.git_command(&command.text.clone(), &words[at + 1..]),
        };
        self.state.folders = before;
        flow
    }

    /// Judges a folder in which git looks for its own commands.
    pub(super) fn programs_from(&mut self, place: &Word) {
        let is_own = place.is_known()
            && ["/usr/", "/opt/", "/nix/"].iter().any(|folder| place.text.starts_with(folder))
            && !place.text.contains("..");
        if !is_own {
            self.unknown(&place.text, "a folder with commands for git");
        }
    }

    /// Judges a setting on the command line, which may be a program.
    pub(super) fn git_setting(&mut self, setting: Option<&Word>) {
        let Some(setting) = setting else { return };
        let (name, value) = setting.text.split_once('=').unwrap_or((&setting.text, ""));
        let (name, value) = (name.to_lowercase(), value.to_owned());
        let executes = EXECUTED.iter().any(|key| name.starts_with(key))
            || EXECUTED_ENDS.iter().any(|end| name.ends_with(end));
        if !executes || name == "core.pager" && value == "cat" || value.is_empty() {
            return;
        }
        match (name.starts_with("alias."), value.strip_prefix('!')) {
            (true, Some(script)) => {
                self.script(script);
            }
            (true, None) => {}
            _ => self.unknown(&setting.text, "a program that git is to execute"),
        }
    }

    fn git_command(&mut self, command: &str, words: &[Word]) -> Flow {
        if command == "rev-parse" && words.iter().any(|word| word.text == "--show-toplevel") {
            let inside = self.state.folders.as_deref().is_some_and(|all| {
                all.iter().all(|folder| {
                    folder.starts_with(&self.scene.root) || folder.starts_with(self.root())
                })
            });
            return match inside {
                true => Flow::Known(self.scene.root.to_string_lossy().into_owned()),
                false => Flow::Unknown,
            };
        }
        let lists = match command {
            "branch" | "tag" | "remote" | "stash" | "worktree" | "config" | "submodule"
            | "notes" | "reflog" => {
                words.iter().all(|word| {
                    matches!(
                        word.text.as_str(),
                        "-v" | "-vv"
                            | "-a"
                            | "-r"
                            | "-l"
                            | "--list"
                            | "list"
                            | "show"
                            | "--show-current"
                            | "--get"
                            | "status"
                            | "--all"
                    ) || word.text.starts_with("--format")
                        || word.text.starts_with("--sort")
                }) || matches!(
                    (command, words.first().map(|word| word.text.as_str())),
                    ("config", Some("--get" | "get" | "--list"))
                        | ("remote", Some("get-url" | "show"))
                )
            }
            _ => false,
        };
        if !READS.contains(&command) && !lists {
            self.change(&Word::plain("."), Change::Write);
        }
        match command {
            "push" => self.push(words),
            "clone" | "init" => {
                let places = operands(words, &["-b", "--branch", "--depth", "-c", "-o", "--origin", "--reference", "-j", "--separate-git-dir"]);
                if let Some(program) = option(words, &["-u", "--upload-pack", "--template"]) {
                    self.unknown(&program.text, "a program that git is to execute");
                }
                if let Some(ext) = places.iter().find(|word| word.text.starts_with("ext::")) {
                    self.unknown(&ext.text, "a program that git is to execute");
                }
                if let Some(place) = option(words, &["--separate-git-dir"]) {
                    self.change(&place, Change::Write);
                }
                let to = places.get(usize::from(command == "clone"));
                if let Some(to) = to {
                    self.change(to, Change::Write);
                    self.makes(to);
                }
                for setting in words.windows(2).filter(|pair| pair[0].text == "-c") {
                    self.git_setting(Some(&setting[1]));
                }
            }
            "worktree" => {
                let places = operands(words, &["-b", "-B", "--reason"]);
                let verb = places.first().map_or("", |word| word.text.as_str());
                if matches!(verb, "add" | "move" | "remove") {
                    let count = if verb == "move" { 2 } else { 1 };
                    places.iter().skip(1).take(count).for_each(|word| self.change(word, Change::Write));
                }
            }
            "config" => self.git_config(words),
            "filter-branch" | "filter-repo" | "replace" => self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::High,
                command,
                format!("`git {command}` rewrites the history; make a new commit that undoes what is wrong"),
            ),
            "reflog" if words.first().is_some_and(|word| matches!(word.text.as_str(), "expire" | "delete")) => self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::High,
                command,
                "this removes the way back to lost commits; leave the reflog as it is",
            ),
            "gc" | "prune" if words.iter().any(|word| word.text.starts_with("--prune=now") || word.text == "--expire=now") => {
                self.note(Verdict::Ask, Severity::Medium, Confidence::High, command, "this removes unreachable commits for good");
            }
            "rebase" | "reset" | "clean" | "checkout" | "restore" | "branch" | "stash" | "commit" => {
                self.git_loss(command, words);
                // Paths that are removed, or replaced from a commit.
                let from = words.iter().position(|word| word.text == "--");
                let paths = match (command, from) {
                    ("clean", _) => operands(words, &["-e", "--exclude"]),
                    ("checkout" | "restore", Some(at)) => operands(&words[at + 1..], &[]),
                    _ => Vec::new(),
                };
                let change = if command == "clean" { Change::Remove } else { Change::Write };
                paths.iter().filter(|path| path.text != ".").for_each(|path| self.change(path, change));
            }
            "checkout-index" => {
                if let Some(prefix) = option(words, &["--prefix"]) {
                    self.change(&prefix, Change::Write);
                }
            }
            "rev-parse" | "hash-object" => {}
            "grep" | "diff" | "apply" | "am" | "archive" | "bundle" | "format-patch" | "log" | "show" => {
                // `git grep -O` opens the matching files in a program.
                let pager = option(words, &["-O", "--open-files-in-pager"]).filter(|_| command == "grep");
                match pager {
                    Some(pager) => {
                        self.child(|judge| judge.script(&pager.text));
                    }
                    None => self.outputs(words),
                }
                if let ("bundle", [create, file, ..]) = (command, operands(words, &[]).as_slice())
                    && create.text == "create"
                {
                    self.change(file, Change::Write);
                }
                if let Some(folder) = option(words, &["--directory"]).filter(|_| matches!(command, "apply" | "am")) {
                    self.change(&folder, Change::Write);
                }
                if words.iter().any(|word| word.text == "--unsafe-paths") {
                    self.unknown("--unsafe-paths", "a patch that may leave the repository");
                }
                if let Some(program) = option(words, &["--exec", "--upload-pack", "--extcmd"]) {
                    self.unknown(&program.text, "a program that git is to execute");
                }
                operands(words, &["-o", "--output", "-e", "-C"]).into_iter().for_each(|word| self.read(word));
            }
            "update-ref" if words.iter().any(|word| word.text == "-d") => self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::High,
                command,
                "this deletes a ref, and with it the way to its commits; use `git branch -d`",
            ),
            "remote" if words.first().is_some_and(|word| word.text == "set-url") => self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::High,
                command,
                "this sends pushes to another place; that is your user's to decide",
            ),
            "difftool" | "mergetool" | "send-email" | "fetch-pack" | "upload-pack" | "daemon" | "instaweb" => {
                if let Some(program) = option(words, &["-x", "--extcmd", "--exec", "--sendmail-cmd"]) {
                    self.child(|judge| judge.script(&program.text));
                }
            }
            "fetch" | "pull" | "ls-remote" => {
                if let Some(program) = option(words, &["--upload-pack", "--exec"]) {
                    self.child(|judge| judge.script(&program.text));
                }
                let ext = words.iter().find(|word| word.text.starts_with("ext::")).cloned();
                if let Some(ext) = ext {
                    self.child(|judge| judge.script(ext.text.trim_start_matches("ext::")));
                    self.unknown(&ext.text, "a program that git is to execute");
                }
            }
            _ if command.starts_with("credential") => self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::High,
                command,
                "`git credential` prints passwords; git asks for them itself where it needs them",
            ),
            _ => {}
        }
        if command == "rebase" || command == "bisect" {
            for script in [option(words, &["-x", "--exec"])].into_iter().flatten() {
                self.child(|judge| judge.script(&script.text));
            }
            if let Some(at) =
                words.iter().position(|word| word.text == "run").filter(|_| command == "bisect")
            {
                self.run(words[at + 1..].to_vec(), Flow::Nothing);
            }
        }
        if command == "submodule" && words.first().is_some_and(|word| word.text == "foreach") {
            let texts: Vec<_> = words[1..]
                .iter()
                .filter(|word| !word.is_option())
                .map(|word| word.text.as_str())
                .collect();
            self.child(|judge| judge.script(&texts.join(" ")));
        }
        Self::git_names(command, words)
    }

    fn push(&mut self, words: &[Word]) {
        let force = has(words, 'f', &["--force", "--forc", "--for"]);
        let refs = operands(words, &["-o", "--push-option", "--receive-pack", "--repo"]);
        let forced_ref = refs.iter().skip(1).any(|word| word.text.starts_with('+'));
        let deletes = has(words, 'd', &["--delete", "--mirror", "--prune"])
            || refs.iter().skip(1).any(|word| word.text.starts_with(':'));
        let lease = words.iter().any(|word| word.text.starts_with("--force-with-lease"));
        if force || forced_ref || deletes {
            self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::High,
                "git push",
                "this replaces or deletes what others have on the remote; push without force, or let your user promote the branch (`hothouse promote`)",
            );
        } else if lease {
            self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::High,
                "git push",
                "this replaces commits on the remote; let your user promote the branch (`hothouse promote`)",
            );
        } else if refs.first().is_some_and(|to| {
            to.text.contains("://") || to.text.contains('@') && to.text.contains(':')
        }) {
            self.note(
                Verdict::Ask,
                Severity::High,
                Confidence::Medium,
                "git push",
                "this pushes to an address that is no remote of the repository; ask your user first",
            );
        } else {
            self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::High,
                "git push",
                "pushes to a remote; commits of a sandbox reach your user without that",
            );
        }
        if let Some(program) = option(words, &["--receive-pack", "--exec"]) {
            self.unknown(&program.text, "a program that git is to execute");
        }
    }

    fn git_config(&mut self, words: &[Word]) {
        let file = option(words, &["-f", "--file"]);
        if let Some(file) = &file {
            self.change(file, Change::Write);
        }
        let names = operands(words, &["-f", "--file", "--type"]);
        let writes = names.len() > 1
            && !words.iter().any(|word| {
                matches!(
                    word.text.as_str(),
                    "--get" | "--get-all" | "--list" | "-l" | "get" | "list"
                )
            });
        let home = self.scene.home.join(".gitconfig");
        for word in words {
            match word.text.as_str() {
                "--global" if writes => {
                    self.change(&Word::plain(&home.to_string_lossy()), Change::Write)
                }
                "--system" if writes => self.change(&Word::plain("/etc/gitconfig"), Change::Write),
                _ => {}
            }
        }
        if let (true, [name, value, ..]) = (writes, names.as_slice()) {
            let pair = Word::plain(&format!("{}={}", name.text, value.text));
            self.git_setting(Some(&pair));
        }
    }

    /// Judges commands that lose uncommitted work, or commits.
    fn git_loss(&mut self, command: &str, words: &[Word]) {
        let says = |texts: &[&str]| words.iter().any(|word| texts.contains(&word.text.as_str()));
        let what = match command {
            "reset" if says(&["--hard", "--merge"]) => "drops changes that are not committed",
            "clean" if has(words, 'f', &["--force"]) => "removes files that git does not know",
            "rebase" => "rewrites commits of this branch",
            "branch" if says(&["-D", "--delete", "-d"]) => "deletes a branch",
            "stash" if says(&["drop", "clear"]) => "drops stashed changes",
            "commit" if says(&["--amend"]) => "replaces the last commit",
            "commit" if says(&["--no-verify", "-n"]) => "commits without the repository's checks",
            "checkout" | "restore" if says(&["."]) => "drops changes that are not committed",
            _ => return,
        };
        self.note(
            Verdict::Allow,
            Severity::Medium,
            Confidence::High,
            command,
            format!("`git {command}` {what}"),
        );
    }
}
