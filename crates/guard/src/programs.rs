//! What programs do with their arguments.
//!
//! *To add a program:* add an arm in [`Judge::run_known`], with its function in the module of its family. A program
//! without a family runs in the sandbox like any other; only the paths among its arguments are judged.

mod builders;
mod carried;
mod files;
mod git;
mod names;
mod network;
mod scripts;
mod system;
mod wrappers;

use std::path::Path;

pub(crate) use self::network::host_of;
use crate::{
    Confidence, Severity, Verdict,
    judge::{Change, Judge, shown},
    shell::{Flow, Word},
};

impl Judge<'_> {
    /// Judges one command, and returns what it prints.
    pub(crate) fn run(&mut self, words: Vec<Word>, input: Flow) -> Flow {
        let mut words = words;
        if words.is_empty() {
            return Flow::Nothing;
        }
        let name = words.remove(0);
        if !name.is_known() {
            words.iter().for_each(|word| self.given(word));
            self.unknown(&name.text, "a program whose name is only known later");
            return Flow::Unknown;
        }
        // Inline scripts and functions read what their caller reads.
        let passed = match &input {
            Flow::Known(_) | Flow::Network(_) | Flow::Names(_) => input.clone(),
            Flow::Unknown | Flow::Nothing => self.state.input.clone(),
        };
        let before = std::mem::replace(&mut self.state.input, passed);
        let flow = self.run_named(name, &words, input);
        self.state.input = before;
        flow
    }

    fn run_named(&mut self, name: Word, words: &[Word], input: Flow) -> Flow {
        if let Some(flow) = self.call(&name.text, words) {
            return flow;
        }
        if self.state.depth >= 36 {
            self.unknown(&name.text, "a command that is nested this deep");
            return Flow::Unknown;
        }
        self.state.depth += 1;
        // `.` is a program, but not a file name.
        let program = Path::new(&name.text).file_name().and_then(|it| it.to_str());
        let program = program.unwrap_or(&name.text).to_owned();
        let flow = self.run_known(&program, &name, words, input);
        self.state.depth -= 1;
        flow
    }

    fn run_known(&mut self, program: &str, name: &Word, words: &[Word], input: Flow) -> Flow {
        match program {
            "cd" | "pushd" | "chdir" => self.enter(words),
            "popd" => {
                let before = self.state.previous();
                self.state.enter(before);
                Flow::Nothing
            }
            "pwd" => self.folder(),
            "echo" | "printf" => self.print(program, words),
            "cat" | "tac" | "head" | "tail" | "less" | "more" | "nl" | "bat" | "strings" => {
                self.pager_commands(words);
                self.read_all(words, input)
            }
            "xxd" | "od" | "hexdump" => self.dump(words, input),
            "base64" | "base32" => self.decode(program, words, input),
            "eval" => self.eval(words),
            "source" | "." => self.source(words, input),
            "exec" | "command" | "builtin" | "sudo" | "doas" | "env" | "nice" | "nohup"
            | "time" | "timeout" | "setsid" | "ionice" | "stdbuf" | "chrt" | "taskset"
            | "strace" | "ltrace" | "unbuffer" | "caffeinate" | "chronic" | "xvfb-run"
            | "dbus-run-session" | "fakeroot" | "proot" | "gosu" | "watch" | "flock" | "chroot"
            | "unshare" | "nsenter" | "busybox" | "toybox" | "su" | "runuser" | "script"
            | "pkexec" | "sudoedit" | "parallel" | "numactl" | "systemd-run" | "entr" | "retry"
            | "noglob" | "coproc" => self.wrapper(program, words, input),
            "sh" | "bash" | "zsh" | "dash" | "ksh" | "mksh" | "ash" | "fish" | "rbash" | "csh"
            | "tcsh" | "pwsh" | "nu" | "xonsh" | "elvish" => {
                self.shell_program(program, words, input)
            }
            "xargs" => self.xargs(words, input),
            "find" | "fd" | "fdfind" => self.search(program, words),
            "git" => self.git(words),
            program if program.starts_with("git-") => {
                let own = std::iter::once(Word::plain(&program[4..])).chain(words.iter().cloned());
                self.git(&own.collect::<Vec<_>>())
            }
            "python" | "python2" | "python3" | "pypy3" | "node" | "nodejs" | "deno" | "bun"
            | "perl" | "ruby" | "php" | "lua" | "luajit" | "tclsh" | "osascript" | "Rscript"
            | "julia" | "elixir" | "groovy" | "jshell" | "ts-node" | "tsx" | "expect" | "wish" => {
                self.interpreter(program, words, input)
            }
            program if program.starts_with("python3.") => self.interpreter("python3", words, input),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(words, &input),
            "sed" | "gsed" => self.sed(words),
            "vi" | "vim" | "nvim" | "ex" | "ed" | "emacs" | "nano" => {
                self.editor(program, words, &input)
            }
            "curl" | "wget" | "http" | "https" | "xh" | "aria2c" => self.download(program, words),
            "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ssh" | "scp" | "sftp" | "ftp"
            | "rsync" | "rclone" => self.remote(program, words),
            "read" => self.reads_line(words, &input),
            "mapfile" | "readarray" | "getopts" => {
                for word in words.iter().filter(|word| !word.is_option()) {
                    self.state.arrays.remove(&word.text);
                    self.set(&word.text, &Word::unknown());
                }
                Flow::Nothing
            }
            "rm" | "rmdir" | "unlink" | "shred" | "srm" | "trash" | "cp" | "mv" | "install"
            | "ln" | "link" | "touch" | "mkdir" | "truncate" | "tee" | "chmod" | "chown"
            | "chgrp" | "chattr" | "setfacl" | "setfattr" | "mkfifo" | "mknod" | "dd"
            | "fallocate" | "tar" | "bsdtar" | "unzip" | "zip" | "7z" | "gzip" | "gunzip"
            | "bzip2" | "xz" | "zstd" | "patch" | "split" | "csplit" | "sponge" | "mktemp"
            | "cpio" | "sort" | "uniq" | "yes" => self.file_program(program, words, &input),
            "kill" | "pkill" | "killall" | "killall5" | "blkdiscard" | "secret-tool" | "vault"
            | "tmux" | "screen" | "crontab" | "at" | "batch" | "systemctl" | "service"
            | "shutdown" | "reboot" | "poweroff" | "halt" | "init" | "mount" | "umount"
            | "mkfs" | "fdisk" | "parted" | "wipefs" | "iptables" | "nft" | "ufw" | "sysctl"
            | "modprobe" | "insmod" | "useradd" | "usermod" | "passwd" | "visudo" | "chpasswd"
            | "docker" | "podman" | "kubectl" | "gh" | "glab" | "aws" | "gcloud" | "az"
            | "security" | "op" | "pass" | "gpg" | "ssh-add" | "ssh-keygen" | "terraform"
            | "psql" | "mysql" | "redis-cli" | "npm" | "pnpm" | "yarn" | "pip" | "pip3" | "uv"
            | "cargo" | "apt" | "apt-get" | "dnf" | "brew" | "gem" | "hothouse" | "env-dump"
            | "printenv" | "history" | "disown" | "alias" | "trap" | "ulimit" | "umask" | "npx"
            | "uvx" | "pipx" | "make" | "gmake" => self.system_program(program, words, &input),
            program if program.starts_with("mkfs.") => self.system_program("mkfs", words, &input),
            "exit" | "return" | "break" | "continue" | ":" | "true" | "false" | "test" | "["
            | "set" | "shift" | "wait" | "jobs" | "bg" | "fg" | "type" | "hash" | "let"
            | "shopt" => Flow::Nothing,
            // The name stands for the printed path, which the script may run.
            "which" => match operands(words, &[]).as_slice() {
                [one] if one.is_known() => Flow::Known(format!("{}\n", one.text)),
                _ => Flow::Unknown,
            },
            "complete" | "bind" => self.completion(program, words),
            "ls" | "stat" | "file" | "wc" | "du" | "df" | "tree" | "grep" | "egrep" | "fgrep"
            | "rg" | "ag" | "diff" | "cmp" | "md5sum" | "sha256sum" | "sha1sum" | "realpath"
            | "readlink" | "basename" | "dirname" | "jq" | "yq" | "cut" | "tr" | "column"
            | "date" | "id" | "whoami" | "uname" | "hostname" | "seq" | "sleep" | "ps"
            | "pgrep" | "lsof" | "nproc" | "free" | "uptime" | "comm" | "join" | "paste"
            | "fold" | "rev" | "expr" | "bc" => {
                words.iter().filter(|word| !word.is_option()).for_each(|word| self.read(word));
                if program == "yq" && has(words, 'i', &["--inplace"]) {
                    let files = operands(words, &[]).into_iter().skip(1);
                    files.for_each(|word| self.change(word, Change::Write));
                }
                self.printed(program, words, &input)
            }
            "cmake" | "ninja" | "meson" | "tsc" | "openssl" | "tcpdump" | "sqlite3" | "gdb"
            | "lldb" | "man" | "sshfs" | "fuser" | "gcc" | "cc" | "g++" | "clang" | "ffmpeg"
            | "convert" | "magick" | "pandoc" | "ldconfig" | "debugfs" => {
                self.builder(program, words, &input)
            }
            _ => self.other(program, name, words, input),
        }
    }

    /// Judges an unknown program.
    fn other(&mut self, program: &str, name: &Word, words: &[Word], input: Flow) -> Flow {
        if name.text.contains('/') {
            self.given(name);
            if let Some(flow) = self.written(name) {
                return self.child(|judge| judge.piped_script(flow));
            }
            if let Some(actual) = self.linked_program(program, name) {
                return self.run_known(&actual, name, words, input);
            }
        }
        if matches!(program, "just" | "task" | "go-task" | "rake") {
            self.printed_rules(words);
        }
        self.carried(program, words, input);
        self.outputs(words);
        words.iter().for_each(|word| self.given(word));
        Flow::Unknown
    }

    /// Judges rules of a build that come from another command.
    pub(super) fn printed_rules(&mut self, words: &[Word]) {
        if words.iter().any(|word| word.text.contains("/dev/fd/") || word.text == "/dev/stdin") {
            self.unknown("", "rules that another command prints");
        }
    }

    /// Judges options with which programs of all kinds write a file.
    pub(super) fn outputs(&mut self, words: &[Word]) {
        const OPTIONS: [&str; 12] = [
            "-o",
            "-O",
            "--output",
            "--out",
            "--output-file",
            "--outfile",
            "--out-dir",
            "--outdir",
            "--log-file",
            "--outDir",
            "--outFile",
            "--dest",
        ];
        for (at, word) in words.iter().enumerate() {
            if OPTIONS.contains(&word.text.as_str()) {
                if let Some(next) = words.get(at + 1) {
                    self.change(next, Change::Write);
                }
            } else if let Some(value) =
                OPTIONS[2..].iter().find_map(|option| word.after(&format!("{option}=")))
            {
                self.change(&value, Change::Write);
            }
        }
    }

    /// Judges a path among the arguments of a program, which may do anything with it.
    pub(super) fn given(&mut self, word: &Word) {
        let value = match word.text.split_once('=') {
            Some((option, _)) if word.is_option() || !option.contains('/') => {
                word.after(&format!("{option}=")).unwrap_or_else(|| word.clone())
            }
            _ => word.clone(),
        };
        self.read(&value);
        let text = value.known();
        let is_path = text.starts_with('/') || text.starts_with("..") || text.contains("/../");
        if !is_path || text.contains("://") {
            return;
        }
        const READ_ONLY: [&str; 12] = [
            "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/proc", "/sys", "/etc",
            "/dev", "/run",
        ];
        let path = Path::new(text);
        let is_system = READ_ONLY.iter().any(|folder| path.starts_with(folder));
        if self.is_inside(path) || is_system && !text.contains("..") {
            return;
        }
        let root = self.root().display().to_string();
        // The home of a room is the room's own.
        if self.scene.in_room && path.starts_with(&self.scene.home) && !text.contains("..") {
            return;
        }
        let verdict = match self.scene.mode {
            crate::Mode::Ask => Verdict::Ask,
            crate::Mode::Deny => Verdict::Deny,
        };
        self.note(
            verdict,
            Severity::Medium,
            Confidence::Low,
            text,
            format!("a program is given `{}`, which is outside of the sandbox; use a path below `{root}`", shown(text)),
        );
    }
}

/// Returns the arguments that are not options; `valued` are the options that take the next argument.
pub(crate) fn operands<'w>(words: &'w [Word], valued: &[&str]) -> Vec<&'w Word> {
    let mut out = Vec::new();
    let (mut at, mut only) = (0, false);
    while let Some(word) = words.get(at) {
        if !only && word.text == "--" {
            only = true;
        } else if !only && word.is_option() {
            at += usize::from(valued.contains(&word.text.as_str()));
        } else {
            out.push(word);
        }
        at += 1;
    }
    out
}

/// Returns the value of an option: `-o value`, `-ovalue`, `--out value` or `--out=value`.
pub(crate) fn option(words: &[Word], names: &[&str]) -> Option<Word> {
    words.iter().enumerate().find_map(|(at, word)| {
        names.iter().find_map(|name| match word.text == *name {
            true => words.get(at + 1).cloned(),
            false if name.starts_with("--") => word.after(&format!("{name}=")),
            false => word
                .after(name)
                .filter(|value| !value.text.is_empty() && !word.text.starts_with("--")),
        })
    })
}

/// Whether a short option, bundled or not, or a long one is given.
pub(crate) fn has(words: &[Word], short: char, long: &[&str]) -> bool {
    words.iter().take_while(|word| word.text != "--").any(|word| {
        let text = word.text.as_str();
        long.contains(&text)
            || text.starts_with('-') && !text.starts_with("--") && text.contains(short)
    })
}
