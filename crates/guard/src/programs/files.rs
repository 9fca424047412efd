//! Programs that process files.

use super::{has, operands, option};
use crate::{
    Confidence, Severity, Verdict,
    judge::{Change, Judge},
    shell::{Flow, Word, ansi},
};

/// Files of at least this size are assumed to fill the disk.
const HUGE: u64 = 10 << 30;

impl Judge<'_> {
    pub(super) fn enter(&mut self, words: &[Word]) -> Flow {
        let mut to = words.iter().find(|word| word.text == "-" || !word.is_option()).cloned();
        // With `CDPATH` the folder may be anywhere.
        let searches =
            self.state.variables.get("CDPATH").is_some_and(|path| path.as_deref() != Some(""));
        if searches && to.as_ref().is_some_and(|to| !to.text.starts_with(['/', '.', '-'])) {
            to = Some(Word::unknown());
        }
        self.change_folder(to.as_ref());
        Flow::Nothing
    }

    pub(super) fn folder(&mut self) -> Flow {
        match self.state.folders.as_deref() {
            Some([one]) => Flow::Known(one.to_string_lossy().into_owned()),
            _ => Flow::Unknown,
        }
    }

    pub(super) fn print(&mut self, program: &str, words: &[Word]) -> Flow {
        if !words.iter().all(Word::is_known) {
            return Flow::Unknown;
        }
        let text = |words: &[Word]| {
            words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
        };
        if program == "printf" {
            let [format, rest @ ..] = words else { return Flow::Nothing };
            let plain = ansi(&format.text);
            return match (plain.as_str(), rest) {
                (plain, []) if !plain.contains('%') => Flow::Known(plain.to_owned()),
                ("%s\n" | "%b\n", all) => {
                    Flow::Known(all.iter().map(|word| ansi(&word.text) + "\n").collect())
                }
                ("%s" | "%b", all) => {
                    Flow::Known(all.iter().map(|word| ansi(&word.text)).collect())
                }
                _ => Flow::Unknown,
            };
        }
        let options = words
            .iter()
            .take_while(|word| matches!(word.text.as_str(), "-n" | "-e" | "-ne" | "-en" | "-E"));
        let (count, escapes) = options.fold((0, false), |(count, escapes), word| {
            (count + 1, escapes || word.text.contains('e'))
        });
        let said = text(&words[count..]);
        Flow::Known(if escapes { ansi(&said) } else { said } + "\n")
    }

    pub(super) fn read_all(&mut self, words: &[Word], input: Flow) -> Flow {
        let files = operands(words, &["-n", "-c", "-s", "-l"]);
        files.iter().for_each(|word| self.read(word));
        self.huge(option(words, &["-c", "--bytes"]).as_ref());
        if let [file] = files.as_slice()
            && let Some(flow) = self.written(file)
        {
            return flow;
        }
        match files.is_empty() {
            true => input,
            false => Flow::Unknown,
        }
    }

    /// Judges `xxd -r` and similar programs, which convert between bytes and digits.
    pub(super) fn dump(&mut self, words: &[Word], input: Flow) -> Flow {
        let files = operands(words, &["-l", "-c", "-g", "-s", "-o", "-N", "-n"]);
        files.iter().take(1).for_each(|word| self.read(word));
        files.iter().skip(1).for_each(|word| self.change(word, Change::Write));
        let plain = has(words, 'r', &["-revert"]) && has(words, 'p', &["-ps", "-plain"]);
        let Flow::Known(text) = input else { return Flow::Unknown };
        let digits: String = text.split_whitespace().collect();
        let pairs = (0..digits.len() / 2).map(|at| digits.get(at * 2..at * 2 + 2));
        let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
        let decoded = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.filter(|_| plain && files.is_empty()).map_or(Flow::Unknown, Flow::Known)
    }

    /// Judges `less +'!command'`.
    pub(super) fn pager_commands(&mut self, words: &[Word]) {
        for word in words {
            if let Some(script) =
                word.text.strip_prefix("+!").or_else(|| word.text.strip_prefix("++!"))
            {
                let script = script.to_owned();
                self.child(|judge| judge.script(&script));
            }
        }
    }

    pub(super) fn decode(&mut self, program: &str, words: &[Word], input: Flow) -> Flow {
        use base64::Engine as _;
        operands(words, &["-w"]).iter().for_each(|word| self.read(word));
        let decodes = has(words, 'd', &["--decode"]) || has(words, 'D', &[]);
        match (input, decodes && program == "base64") {
            (Flow::Known(text), true) => {
                let text: String = text.split_whitespace().collect();
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
                text.map_or(Flow::Unknown, Flow::Known)
            }
            (flow @ Flow::Network(_), _) => flow,
            _ => Flow::Unknown,
        }
    }

    pub(super) fn file_program(&mut self, program: &str, words: &[Word], input: &Flow) -> Flow {
        match program {
            "rm" | "rmdir" | "unlink" | "shred" | "srm" | "trash" => self.remove(program, words),
            "cp" | "mv" | "install" | "ln" | "link" => self.copy(program, words),
            "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "setfattr" => {
                self.attributes(program, words)
            }
            "dd" => self.convert(words),
            "tar" | "bsdtar" | "cpio" | "unzip" | "zip" | "7z" => self.archive(program, words),
            "mkdir" => {
                for word in operands(words, &["-m", "--mode"]) {
                    self.change(word, Change::Write);
                    self.makes(word);
                }
            }
            "fallocate" | "truncate" => {
                self.huge(option(words, &["-l", "-s", "--length", "--size"]).as_ref());
                self.write_all(operands(words, &["-l", "-s", "-o", "--length", "--size", "-r"]));
            }
            "tee" | "touch" | "mkfifo" | "sponge" => {
                let files = operands(words, &["-d", "-t", "-r", "-m"]);
                if program == "tee" {
                    files.iter().for_each(|file| self.writes(file, input));
                }
                self.write_all(files);
                return if program == "tee" { input.clone() } else { Flow::Nothing };
            }
            "mknod" => self.write_all(operands(words, &["-m"]).into_iter().take(1).collect()),
            "gzip" | "gunzip" | "bzip2" | "xz" | "zstd"
                if !has(words, 'c', &["--stdout", "--to-stdout"])
                    && !has(words, 't', &["--test", "--list"]) =>
            {
                self.write_all(operands(words, &["-S"]));
            }
            "patch" => {
                if let Some(folder) = option(words, &["-d", "--directory"]) {
                    self.change(&folder, Change::Write);
                }
                self.outputs(words);
                self.write_all(
                    operands(words, &["-d", "-i", "-o", "-p"]).into_iter().take(1).collect(),
                );
            }
            "sort" | "uniq" => {
                self.outputs(words);
                let files = operands(words, &["-o", "-k", "-t", "-T", "-S", "-f", "-s", "-w"]);
                if let ("uniq", [_, to, ..]) = (program, files.as_slice()) {
                    self.change(to, Change::Write);
                }
                files.iter().for_each(|word| self.read(word));
                return Self::passed_on(&files, input);
            }
            "split" | "csplit" => {
                let prefix = option(words, &["-f", "--prefix"]).filter(|_| program == "csplit");
                let second =
                    operands(words, &["-b", "-l", "-n", "-a"]).get(1).map(|it| (*it).clone());
                let second = second.filter(|_| program == "split");
                prefix.or(second).iter().for_each(|prefix| self.change(prefix, Change::Write));
                let filter = option(words, &["--filter"]).map(|filter| filter.text);
                filter.iter().for_each(|script| {
                    self.child(|judge| judge.script(script));
                });
            }
            "mktemp" => return self.temporary(words),
            _ => {}
        }
        Flow::Unknown
    }

    fn write_all(&mut self, words: Vec<&Word>) {
        words.into_iter().for_each(|word| self.change(word, Change::Write));
    }

    fn temporary(&mut self, words: &[Word]) -> Flow {
        let place = option(words, &["-p", "--tmpdir"]);
        if let Some(place) = &place {
            self.change(place, Change::Write);
        }
        let template = operands(words, &["-p"]).first().map(|word| (*word).clone());
        match (place, template) {
            (None, None) => Flow::Known("/tmp/tmp.XXXXXXXXXX\n".to_owned()),
            (None, Some(word)) => {
                self.change(&word, Change::Write);
                if word.is_known() { Flow::Known(word.text) } else { Flow::Unknown }
            }
            _ => Flow::Unknown,
        }
    }

    fn remove(&mut self, program: &str, words: &[Word]) {
        let valued: &[&str] = if program == "shred" { &["-n", "-s"] } else { &[] };
        let files = operands(words, valued);
        let whole = has(words, 'r', &["--recursive"]) || has(words, 'R', &[]);
        for word in files {
            let text = word.text.trim_end_matches('/').to_owned();
            // `rm -rf dir/*` removes the same as `rm -rf dir`, except for the folder itself.
            let everything = text == "*" || text == ".*" || text == "./*";
            let stem = text.strip_suffix("/*").filter(|_| word.is_known());
            let of_top = stem.and_then(|stem| self.paths(stem));
            let of_top = of_top.is_some_and(|all| all.iter().any(|path| path == self.root()));
            if whole && (everything && self.is_at_top() || of_top) {
                self.empties();
            }
            let mut target = word.clone();
            if word.is_known() && text.ends_with("/*") {
                let stem = text.trim_end_matches('*').to_owned();
                let inside = Word::plain(&format!("{stem}x"));
                target = inside;
            }
            self.change(&target, Change::Remove);
        }
        if words.iter().any(|word| word.text == "--no-preserve-root") {
            self.note(
                Verdict::Deny,
                Severity::Critical,
                Confidence::High,
                "/",
                "`--no-preserve-root` is for removing a whole system; remove what you mean, by name",
            );
        }
    }

    /// Asks about removing everything in the sandbox.
    pub(super) fn empties(&mut self) {
        self.note(
            Verdict::Ask,
            Severity::High,
            Confidence::Medium,
            "*",
            "this removes everything in the sandbox; remove what you mean, by name",
        );
    }

    fn is_at_top(&self) -> bool {
        let folders = self.state.folders.as_deref().unwrap_or_default();
        folders.iter().any(|folder| folder == self.root() || folder == &self.scene.root)
    }

    fn copy(&mut self, program: &str, words: &[Word]) {
        let valued = [
            "-t",
            "--target-directory",
            "-S",
            "--suffix",
            "-m",
            "--mode",
            "-o",
            "-g",
            "--owner",
            "--group",
        ];
        let grouped = super::wrappers::bundled(words, 't', "abdfilnprsuvxRHLPTZDCc");
        let into = option(words, &["-t", "--target-directory"]).or_else(|| grouped.clone());
        let mut files = operands(words, &valued);
        // `cp -rt folder file`: the folder is the value of an option.
        if let Some(folder) = &grouped
            && let Some(at) = files.iter().position(|word| *word == folder)
        {
            files.remove(at);
        }
        let is_folder = program == "install" && has(words, 'd', &["--directory"]);
        let to = match into {
            Some(into) => Some(into),
            None if is_folder => None,
            None if files.len() > 1 => files.pop().cloned(),
            // `ln -s target` creates the link here.
            None if program == "ln" => {
                files.first().and_then(|word| word.text.rsplit('/').next().map(Word::plain))
            }
            None => None,
        };
        // Before links are recorded: the path itself is judged, not its later target.
        if let Some(to) = &to {
            self.change(to, Change::Write);
        }
        let copies = program == "cp";
        let links = copies && has(words, 's', &["--symbolic-link"]);
        let hard = copies && has(words, 'l', &["--link"]);
        let keeps_links = program == "mv"
            || copies
                && (has(words, 'a', &["--archive", "--no-dereference"])
                    || ['P', 'd', 'r', 'R'].iter().any(|flag| has(words, *flag, &[])));
        for word in &files {
            if let (Some(to), true) = (&to, matches!(program, "cp" | "mv")) {
                self.follows(word, to, keeps_links);
            }
            match program {
                "cp" if links || hard => self.linked(word, to.as_ref(), links),
                "mv" => self.change(word, Change::Remove),
                "install" if is_folder => self.change(word, Change::Write),
                "ln" | "link" => self.linked(word, to.as_ref(), has(words, 's', &["--symbolic"])),
                _ => self.read(word),
            }
        }
    }

    /// Tracks copied and moved links, and scripts that the same call has written.
    fn follows(&mut self, from: &Word, to: &Word, keeps_links: bool) {
        let name = from.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let within = Word::plain(&format!("{}/{name}", to.text.trim_end_matches('/')));
        if !from.is_known() || !to.is_known() {
            return;
        }
        if let Some(flow) = self.written(from) {
            self.writes(to, &flow);
            self.writes(&within, &flow);
        }
        let Some(folders) = self.state.folders.clone().filter(|_| keeps_links) else { return };
        for folder in folders {
            let own = crate::scene::lexical(&folder.join(&from.text));
            let crate::Link::To(_) = self.look(&own) else { continue };
            let Some(target) = self.paths(&from.text).and_then(|all| all.into_iter().next()) else {
                continue;
            };
            for at in [to, &within] {
                self.state
                    .links
                    .push((crate::scene::lexical(&folder.join(&at.text)), target.clone()));
            }
        }
    }

    /// Records a link that the command creates; writes through it go to its target.
    fn linked(&mut self, target: &Word, at: Option<&Word>, symbolic: bool) {
        self.read(target);
        let Some(at) = at.filter(|at| at.is_known()) else { return };
        let Some(folders) = self.state.folders.clone() else { return };
        let to = std::path::PathBuf::from(&target.text);
        for folder in folders {
            let at = crate::scene::lexical(&folder.join(&at.text));
            let to = if symbolic || to.is_absolute() { to.clone() } else { folder.join(&to) };
            self.state.links.push((at.clone(), to.clone()));
            // `ln -s x folder/` creates the link in the folder.
            if let Some(name) = to.file_name() {
                self.state.links.push((at.join(name), to.clone()));
            }
        }
        if target.is_known() && !self.is_inside(std::path::Path::new(&target.text)) {
            let hard = !symbolic;
            self.note(
                if hard { Verdict::Deny } else { Verdict::Allow },
                Severity::Medium,
                Confidence::High,
                &target.text,
                format!(
                    "a link to `{}`, which is outside of the sandbox; copy what you need",
                    target.text
                ),
            );
        }
    }

    fn attributes(&mut self, program: &str, words: &[Word]) {
        let files = operands(words, &["--reference", "-m", "-x", "-n", "-v", "--from"]);
        let given = words.iter().any(|word| word.text.starts_with("--reference"));
        let skip = usize::from(!given && !matches!(program, "setfacl" | "setfattr"));
        if let ("chmod", Some(mode)) = (program, files.first()) {
            let text = mode.text.as_str();
            let special = text.contains("+s")
                || text.len() == 4 && matches!(text.as_bytes()[0], b'2' | b'4' | b'6');
            if special {
                self.note(
                    Verdict::Ask,
                    Severity::High,
                    Confidence::High,
                    text,
                    "set-user-id bits let others act as the owner; a sandbox needs none",
                );
            } else if text.ends_with("777") && has(words, 'R', &["--recursive"]) {
                self.note(
                    Verdict::Allow,
                    Severity::Medium,
                    Confidence::High,
                    text,
                    "makes everything writable by everybody",
                );
            }
        }
        files.into_iter().skip(skip).for_each(|word| self.change(word, Change::Attributes));
    }

    fn convert(&mut self, words: &[Word]) {
        let value = |name: &str| words.iter().find_map(|word| word.after(name));
        if let Some(from) = value("if=") {
            self.read(&from);
        }
        if let Some(to) = value("of=") {
            self.change(&to, Change::Write);
        }
        let size = |name: &str| value(name).and_then(|word| bytes(&word.text));
        if let (Some(block), Some(count)) = (size("bs="), size("count=")) {
            self.too_large(block.saturating_mul(count));
        }
        let endless = ["/dev/zero", "/dev/urandom", "/dev/random"];
        let from = value("if=").filter(|from| endless.contains(&from.text.as_str()));
        let to = value("of=").filter(|to| !to.text.starts_with("/dev/"));
        if from.is_some() && to.is_some() && value("count=").is_none() {
            self.fills_the_disk();
        }
    }

    /// Asks about a file that grows until the disk is full.
    pub(crate) fn fills_the_disk(&mut self) {
        self.note(
            Verdict::Ask,
            Severity::Medium,
            Confidence::High,
            "",
            "this writes until the disk of the sandbox is full; say how much you need",
        );
    }

    fn huge(&mut self, size: Option<&Word>) {
        if let Some(size) = size.and_then(|word| bytes(&word.text)) {
            self.too_large(size);
        }
    }

    fn too_large(&mut self, size: u64) {
        if size >= HUGE {
            self.note(
                Verdict::Ask,
                Severity::Medium,
                Confidence::High,
                "",
                format!(
                    "a file of {} GiB fills the disk of the sandbox; use a smaller one",
                    size >> 30
                ),
            );
        }
    }

    fn archive(&mut self, program: &str, words: &[Word]) {
        let folder = option(words, &["-C", "--directory", "-d"]);
        match program {
            "unzip" => {
                if let Some(folder) = &folder {
                    self.change(folder, Change::Write);
                }
            }
            "zip" | "7z" => {
                if let Some(to) = operands(words, &[]).get(usize::from(program == "7z")) {
                    self.change(to, Change::Write);
                }
                if let Some(to) = option(words, &["-o"]).filter(|_| program == "7z") {
                    self.change(&to, Change::Write);
                }
                operands(words, &[]).iter().for_each(|word| self.read(word));
                if let Some(test) = option(words, &["-TT", "--unzip-command"]) {
                    self.child(|judge| judge.script(&test.text));
                }
            }
            "cpio" => {
                let place = option(words, &["-D", "--directory"]).or_else(|| {
                    operands(words, &["-D", "-F", "-O", "-I", "-H", "-R"])
                        .first()
                        .map(|it| (*it).clone())
                });
                place.iter().for_each(|place| self.change(place, Change::Write));
                if let Some(file) = option(words, &["-O", "--file"]) {
                    self.change(&file, Change::Write);
                }
                if words.iter().any(|word| word.text == "--absolute-filenames") {
                    self.unknown("", "an archive with absolute names");
                }
            }
            _ => {
                let letters = tar_letters(words);
                let mode = letters.as_str();
                let folder = folder.or_else(|| tar_value(words, 'C'));
                let extracts = mode.trim_start_matches('-').contains('x')
                    && !mode.starts_with("--")
                    || words.iter().any(|word| matches!(word.text.as_str(), "--extract" | "--get"));
                let creates = mode.trim_start_matches('-').contains('c') && !mode.starts_with("--")
                    || words.iter().any(|word| word.text == "--create");
                match &folder {
                    Some(folder) if extracts => self.change(folder, Change::Write),
                    None if extracts => self.change(&Word::plain("."), Change::Write),
                    _ => {}
                }
                let is_absolute = has(words, 'P', &["--absolute-names"])
                    || !mode.starts_with('-') && mode.contains('P');
                if let Some(place) = option(words, &["--one-top-level"]).filter(|_| extracts) {
                    self.change(&place, Change::Write);
                }
                if extracts && is_absolute {
                    self.unknown("", "an archive with absolute names");
                }
                let program = option(words, &["-I", "--use-compress-program"]);
                let program = program.or_else(|| {
                    option(words, &["--rsh-command", "--rmt-command", "--info-script"])
                });
                if let Some(program) = program {
                    self.child(|judge| judge.script(&program.text));
                }
                let file = option(words, &["-f", "--file"]).or_else(|| {
                    let bundled =
                        mode.trim_start_matches('-').ends_with('f') && !mode.starts_with("--");
                    bundled.then(|| words.get(1).cloned()).flatten()
                });
                if let (Some(file), true) = (&file, creates) {
                    self.change(file, Change::Write);
                }
                if let (Some(folder), true) = (&folder, creates) {
                    for word in operands(words, &["-C", "-f", "--file"]) {
                        let whole = format!("{}/{}", folder.text.trim_end_matches('/'), word.text);
                        self.read_text(&whole);
                    }
                }
                for word in words.iter().filter(|word| {
                    word.text.starts_with("--to-command")
                        || word.text.starts_with("--checkpoint-action")
                }) {
                    if let Some((_, script)) = word.text.split_once('=') {
                        let script = script.trim_start_matches("exec=").to_owned();
                        self.script(&script);
                    }
                }
                operands(words, &["-C", "-f", "--file"])
                    .into_iter()
                    .skip(1)
                    .for_each(|word| self.read(word));
            }
        }
    }
}

/// Returns the option letters of `tar`: `xzf` and `-C folder -xzf` alike.
fn tar_letters(words: &[Word]) -> String {
    let old = words.first().filter(|word| !word.text.starts_with('-'));
    let mut letters = old.map_or(String::new(), |word| word.text.clone());
    for word in
        words.iter().filter(|word| word.text.starts_with('-') && !word.text.starts_with("--"))
    {
        // The rest of a word after such a letter is its value.
        let takes_value = |letter: char| "CFHIKLNTVXbfg".contains(letter);
        let own = word.text.split_inclusive(takes_value).next().unwrap_or(&word.text);
        letters.push_str(own);
    }
    letters
}

/// Returns the value of a letter in the first word of `tar`: for `xfC a.tar folder` the values follow in order.
fn tar_value(words: &[Word], letter: char) -> Option<Word> {
    let first = words.first()?;
    let letters = first.text.trim_start_matches('-');
    let valued = letters.chars().filter(|c| "fCbTXgKNVLHFI".contains(*c));
    let at = valued.take_while(|c| *c != letter).count();
    letters.contains(letter).then(|| words.get(1 + at).cloned()).flatten()
}

/// Parses a size such as `10G`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].chars().next().map(|c| c.to_ascii_uppercase()) {
        None | Some('C') => 1,
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        Some('T') => 1 << 40,
        Some('P') => 1 << 50,
        _ => return None,
    };
    Some(number.saturating_mul(unit))
}
