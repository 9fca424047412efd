//! Code of other languages in an argument.
//!
//! It is not parsed: strings in it are looked at, and what the code around them could do. That finds what an agent
//! does in good faith; what hides its strings is said to be unknown.

use std::path::Path;

use crate::{
    Confidence, Severity, Verdict,
    judge::{Judge, shown},
    secrets,
    shell::{Flow, Word},
};

/// The longest code that is looked at.
const CODE_LIMIT: usize = 128 << 10;

/// What changes files.
const CHANGES: [&str; 39] = [
    "'w'",
    "\"w\"",
    "'a'",
    "\"a\"",
    "'wb'",
    "\"wb\"",
    "'w+'",
    "\"w+\"",
    "'x'",
    "mode=",
    "write",
    "unlink",
    "remove",
    "rmtree",
    "rename",
    "replace(",
    "mkdir",
    "makedirs",
    "rmdir",
    "chmod",
    "chown",
    "symlink",
    "copy",
    "move(",
    "truncate",
    "touch",
    "appendFile",
    "createWriteStream",
    "rmSync",
    "cpSync",
    "fs.rm",
    "File.write",
    "IO.write",
    "FileUtils",
    "file_put_contents",
    "print FH",
    "open(my",
    "'>",
    "\">",
];

/// What runs a command of the shell.
const RUNS: [&str; 20] = [
    "os.system",
    "subprocess",
    "popen",
    "Popen",
    "execSync",
    "spawnSync",
    "child_process",
    "exec(",
    "spawn(",
    "system(",
    "system ",
    "shell_exec",
    "passthru",
    "qx",
    "os.execute",
    "io.popen",
    "do shell script",
    "Deno.Command",
    "exec \"",
    "exec '",
];

/// What hides what the code does.
const HIDES: [&str; 16] = [
    "b64decode",
    "base64",
    "fromCharCode",
    "chr(",
    "unhexlify",
    "bytes.fromhex",
    "codecs.decode",
    "__import__",
    "getattr(",
    "eval(",
    "compile(",
    "marshal",
    "pack(",
    "atob(",
    "Buffer.from",
    "zlib",
];

/// Judges code in an interpreter's argument.
pub(crate) fn judge(judge: &mut Judge<'_>, code: &str) {
    if code.len() > CODE_LIMIT {
        return judge.unknown("", &format!("code of {} bytes", code.len()));
    }
    judge.secrets_in(code);
    let changes = CHANGES.iter().any(|word| code.contains(word));
    let runs = RUNS.iter().any(|word| code.contains(word))
        || code.contains('`') && !code.contains("console.log(`");
    let hides = HIDES.iter().any(|word| code.contains(word));
    let home = [
        "expanduser",
        "Path.home",
        "homedir",
        "ENV['HOME']",
        "process.env.HOME",
        "environ['HOME']",
        "environ[\"HOME\"]",
        "$ENV{HOME}",
    ];
    let strings = strings(code);
    for text in &strings {
        if runs && text.contains([' ', '/', '|']) {
            let script = text.clone();
            judge.child(|judge| judge.script(&script));
        }
        path(judge, text, changes || runs);
    }
    let lists = code.contains("subprocess") || code.contains("spawn") || code.contains("execFile");
    if lists && strings.len() > 1 {
        let words: Vec<_> = strings.iter().map(|text| Word::plain(text)).collect();
        judge.child(|judge| judge.run(words, Flow::Unknown));
    }
    let built = ["\"/\" +", "'/' +", "\"/\"+", "'/'+", "os.sep", "path.join", ".join("]
        .iter()
        .any(|word| code.contains(word));
    if hides && (changes || runs || code.contains("exec") || code.contains("eval("))
        || changes && home.iter().any(|word| code.contains(word))
    {
        judge.unknown(code, "code that builds what it does at run time");
    } else if built && changes && strings.iter().any(|text| text.starts_with('/') || text == "..") {
        judge.unknown(code, "code that builds a path at run time");
    } else if runs && strings.is_empty() {
        judge.unknown(code, "code that runs commands");
    }
}

/// Code whose statements are commands, as those of Tcl are: `exec touch x`, `spawn sh`.
pub(crate) fn commands(judge: &mut Judge<'_>, code: &str) {
    self::judge(judge, code);
    for part in code.split(['\n', ';', '[', ']', '{', '}']) {
        let part = part.trim();
        if let Some(script) =
            ["exec ", "spawn ", "system "].iter().find_map(|verb| part.strip_prefix(verb))
        {
            let script = script.trim_start_matches("-noecho ").to_owned();
            judge.child(|judge| judge.script(&script));
        }
    }
}

/// A string that may be a path.
fn path(judge: &mut Judge<'_>, text: &str, changes: bool) {
    // Perl opens `>file` for writing.
    let text = text.trim_start_matches(['>', '<', '+']).trim_start();
    let text = text
        .split_once("://")
        .filter(|(scheme, _)| *scheme == "file")
        .map_or(text, |(_, rest)| rest);
    let is_path =
        text.starts_with('/') && text.len() > 1 || text.starts_with('~') || text.contains("../");
    if !is_path || text.contains("://") || text.contains('\n') || text.len() > 1024 {
        return;
    }
    let text = match text.strip_prefix("~/") {
        Some(rest) => judge.scene.home.join(rest).to_string_lossy().into_owned(),
        None => text.to_owned(),
    };
    let word = Word::plain(&text);
    judge.read(&word);
    if judge.is_inside(Path::new(&text))
        || secrets::file(Path::new(&text), &judge.scene.home).is_some()
    {
        return;
    }
    let stream = text.starts_with("/dev/null") || text.starts_with("/dev/std");
    if changes && !stream {
        let root = judge.root().display().to_string();
        judge.note(
            Verdict::Deny,
            Severity::High,
            Confidence::Medium,
            &text,
            format!("code that can write names `{}`, which is outside of the sandbox; use a path below `{root}`", shown(&text)),
        );
    }
}

/// The strings in code, by the quotes that most languages have.
fn strings(code: &str) -> Vec<String> {
    const MOST: usize = 256;
    let mut out = Vec::new();
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        if !matches!(c, '"' | '\'' | '`') || out.len() >= MOST {
            continue;
        }
        let mut text = String::new();
        while let Some(next) = chars.next() {
            match next {
                '\\' => text.extend(chars.next()),
                next if next == c => break,
                next => text.push(next),
            }
        }
        out.push(text);
    }
    out
}

/// A program of awk: `print > "file"`, `system("…")`, `"…" | getline`.
pub(crate) fn awk(judge: &mut Judge<'_>, code: &str) {
    let strings = strings(code);
    let runs = code.contains("system(") || code.contains('|');
    for text in &strings {
        if runs {
            let script = text.clone();
            if text.contains([' ', '/']) {
                judge.child(|judge| judge.script(&script));
            }
        }
        if code.contains('>') && text.contains('/') {
            judge.write_text(text);
        }
    }
    if code.contains("system(") && strings.is_empty() {
        judge.unknown(code, "a program of awk that runs commands");
    }
}

/// A script of sed: `w file`, `s/a/b/w file`, and `e`, which executes.
pub(crate) fn sed(judge: &mut Judge<'_>, script: &str) {
    for part in script.split([';', '\n']) {
        let part = part.trim();
        if let Some((before, file)) = part.split_once(" /").or_else(|| part.split_once("w ")) {
            let writes = before.ends_with('w') || part.contains("w ");
            if writes && !file.is_empty() {
                let file = part.rsplit("w ").next().unwrap_or(file).trim().to_owned();
                judge.write_text(&file);
            }
        }
        let substitutes = part.starts_with('s') && part.len() > 3;
        let flags = part.rsplit('/').next().unwrap_or_default();
        let is_flags = flags.len() <= 4 && flags.chars().all(|c| "gIiepmM0123456789".contains(c));
        let command = without_address(part);
        if substitutes && is_flags && flags.contains('e') || command == "e" {
            judge.unknown(script, "a script of sed that executes");
        }
        if let Some(command) = command.strip_prefix("e ") {
            let command = command.trim_end_matches('}').to_owned();
            judge.child(|judge| judge.script(&command));
            judge.unknown(script, "a script of sed that executes");
        }
        if let Some(file) = ["w ", "W "].iter().find_map(|verb| command.strip_prefix(verb)) {
            judge.write_text(file.trim());
        }
    }
}

/// A command of sed without the lines that it is for: `1,$!{e date` is `e date`.
fn without_address(part: &str) -> &str {
    let mut rest = part;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "$,!~+{ \t".contains(c));
        match rest.strip_prefix('/').and_then(|inner| inner.split_once('/')) {
            Some((_, after)) => rest = after.trim_start_matches(['I', 'M']),
            None => return rest,
        }
    }
}
