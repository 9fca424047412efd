//! Code in other languages, passed as an argument.
//!
//! It is not parsed: the guard examines its strings, and what the code around them could do. That finds what an agent
//! does in good faith; code that hides its strings is reported as unknown.

use std::{iter::Peekable, path::Path, str::CharIndices};

use crate::{
    Confidence, Severity, Verdict,
    judge::{Judge, names_hook, shown},
    secrets,
    shell::{Flow, Word},
};

/// The maximum length of code that is examined.
const CODE_LIMIT: usize = 128 << 10;

/// Modes that open a file for writing.
const MODES: [&str; 10] =
    ["'w'", "\"w\"", "'a'", "\"a\"", "'wb'", "\"wb\"", "'w+'", "\"w+\"", "'x'", "mode="];

/// Functions that change files.
const CHANGES: [&str; 29] = [
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

/// Functions that run a shell command.
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

/// Functions that hide what the code does.
const HIDES: [&str; 19] = [
    "b64decode",
    "base64",
    "fromCharCode",
    "fromCodePoint",
    "bytes([",
    "bytearray([",
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
    let changes = CHANGES.iter().any(|word| code.contains(word))
        || code.contains("open") && MODES.iter().any(|word| code.contains(word));
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
    let in_home = home.iter().any(|word| code.contains(word));
    for text in &strings {
        if runs && text.contains([' ', '/', '|']) {
            let script = text.clone();
            judge.child(|judge| judge.script(&script));
        }
        path(judge, text, changes || runs);
        if (changes || runs) && names_hook(text) {
            judge.write_text(text);
        }
        if in_home {
            let own = judge.scene.home.join(text.trim_start_matches(['/', '~']));
            judge.read(&Word::plain(&own.to_string_lossy()));
        }
    }
    let leaves = |text: &String| text == ".." || text == "/" || leads_out(judge, text);
    if code.contains("chdir") && (code.contains("pardir") || strings.iter().any(leaves)) {
        judge.unknown(code, "code that goes to another folder");
    }
    let lists = code.contains("subprocess") || code.contains("spawn") || code.contains("execFile");
    if lists && strings.len() > 1 {
        let words: Vec<_> = strings.iter().map(|text| Word::plain(text)).collect();
        judge.child(|judge| judge.run(words, Flow::Unknown));
    }
    let from_parts = ["resolve(", "Path(\"/", "Path('/"].iter().any(|word| code.contains(word))
        && strings.iter().any(|text| text == "/");
    const BUILDS: [&str; 9] = [
        "\"/\" +",
        "'/' +",
        "\"/\"+",
        "'/'+",
        "os.sep",
        "path.join",
        ".join(",
        "join(\"/\"",
        "join('/'",
    ];
    let built = BUILDS.iter().any(|word| code.contains(word));
    if hides && (changes || runs || code.contains("exec") || code.contains("eval("))
        || changes && (in_home || from_parts)
    {
        judge.unknown(code, "code that builds what it does at run time");
    } else if (changes || runs) && is_path_built(code) {
        judge.unknown(code, "code that puts an absolute path together at run time");
    } else if built
        && changes
        && strings.iter().any(|text| text == ".." || text == "/" || leads_out(judge, text))
    {
        judge.unknown(code, "code that builds a path at run time");
    } else if runs && strings.is_empty() {
        judge.unknown(code, "code that runs commands");
    }
}

/// Judges code whose statements are commands, as in Tcl: `exec touch x`, `spawn sh`.
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

/// Judges a string that may be a path.
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
    // Routes of web apps look like paths.
    if text.starts_with('/') && !is_real(judge, &text) {
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

/// Whether the first folder of an absolute path exists, so that something below it could be changed.
fn is_real(judge: &Judge<'_>, text: &str) -> bool {
    let Some(rest) = text.strip_prefix('/') else { return false };
    let first = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
    !first.is_empty() && judge.look(&Path::new("/").join(first)) != crate::Link::Missing
        || first == ".."
}

/// Whether an absolute path could be changed and is outside of the sandbox.
fn leads_out(judge: &Judge<'_>, text: &str) -> bool {
    is_real(judge, text) && !judge.is_inside(Path::new(text))
}

/// Whether code begins an absolute path, or one that leads up, with a string and computes how it goes on: `"/et" + x`,
/// `f"/{x}/y"`, `"/%s/y" % x`, `a = "/et"; a + b`. A path whose first folder is complete is judged by that folder.
fn is_path_built(code: &str) -> bool {
    const SEPARATORS: [&str; 6] =
        ["os.sep+", "os.sep +", "(os.sep", "path.sep+", "path.sep +", "SEPARATOR +"];
    let joins = code.contains('+') || code.contains("join(") || code.contains("concat(");
    let is_built = |literal: &Literal<'_>| {
        let Some(rest) = literal.text.strip_prefix('/') else {
            return literal.text == ".." && literal.goes_on();
        };
        let (first, is_complete) = match rest.split_once('/') {
            Some((first, _)) => (first, true),
            None => (rest, false),
        };
        let is_filled = literal.fills(first);
        // A `/` that is assigned is a separator far more often than a root.
        let is_begun = literal.goes_on() || literal.is_assigned() && joins && !rest.is_empty();
        is_filled || !is_complete && is_begun
    };
    SEPARATORS.iter().any(|separator| code.contains(separator))
        || literals(code).iter().any(is_built)
}

/// A string in code, and the code around it.
struct Literal<'c> {
    text: String,
    before: &'c str,
    after: &'c str,
}

impl Literal<'_> {
    /// Whether something is appended to it. Strings beside each other are one string in Python.
    fn goes_on(&self) -> bool {
        let after = self.after.trim_start_matches([' ', '\t']);
        let is_dotted = after.strip_prefix('.').is_some_and(|rest| {
            let calls = ["concat(", "format(", "__add__("];
            rest.trim_start().starts_with(['"', '\'', '$'])
                || calls.iter().any(|call| rest.starts_with(call))
        });
        after.starts_with(['+', '"', '\'']) || after.starts_with("<<") || is_dotted
    }

    /// Whether a part of it is computed: `${x}`, `#{x}`, `$x`, `{x}` of an f-string or of `format`, `%s` of `%`.
    fn fills(&self, part: &str) -> bool {
        let after = self.after.trim_start();
        let formats = self.before.ends_with(['f', 'F']) || after.starts_with(".format(");
        part.contains('$')
            || part.contains("#{")
            || part.contains('{') && formats
            || part.contains('%') && after.starts_with('%')
    }

    fn is_assigned(&self) -> bool {
        let before = self.before.trim_end();
        let compares = ["==", "!=", ">=", "<="].iter().any(|sign| before.ends_with(sign));
        before.ends_with('=') && !compares
    }
}

/// Returns the strings in code, by the quotes of most languages.
fn strings(code: &str) -> Vec<String> {
    literals(code).into_iter().map(|literal| literal.text).collect()
}

fn literals(code: &str) -> Vec<Literal<'_>> {
    const MOST: usize = 256;
    let mut out = Vec::new();
    let mut chars = code.char_indices().peekable();
    while let Some((begin, c)) = chars.next() {
        if !matches!(c, '"' | '\'' | '`') || out.len() >= MOST {
            continue;
        }
        let (mut text, mut end) = (String::new(), code.len());
        while let Some((at, next)) = chars.next() {
            match next {
                '\\' => text.extend(escaped(&mut chars)),
                next if next == c => {
                    end = at + c.len_utf8();
                    break;
                }
                next => text.push(next),
            }
        }
        out.push(Literal { text, before: &code[..begin], after: &code[end..] });
    }
    out
}

/// Reads what follows a backslash: `x2f`, `u002f`, `u{2f}`, `057`, or one character.
fn escaped(chars: &mut Peekable<CharIndices<'_>>) -> Option<char> {
    let (_, kind) = chars.next()?;
    let braced = kind == 'u' && chars.next_if(|(_, c)| *c == '{').is_some();
    let (base, most) = match kind {
        'x' => (16, 2),
        'u' if braced => (16, 6),
        'u' => (16, 4),
        'U' => (16, 8),
        '0'..='7' => (8, 2),
        other => return Some(other),
    };
    let mut value = if base == 8 { kind.to_digit(8)? } else { 0 };
    for read in 0..=most {
        let digit = chars.next_if(|(_, c)| read < most && c.is_digit(base));
        let Some(digit) = digit.and_then(|(_, c)| c.to_digit(base)) else {
            if read == 0 && base == 16 {
                return Some(kind);
            }
            break;
        };
        value = value * base + digit;
    }
    if braced {
        chars.next_if(|(_, c)| *c == '}');
    }
    char::from_u32(value)
}

/// Judges an awk program: `print > "file"`, `system("…")`, `"…" | getline`.
pub(crate) fn awk(judge: &mut Judge<'_>, code: &str) {
    let strings = strings(code);
    let runs = code.contains("system(") || code.contains('|');
    for text in strings.iter().filter(|text| runs && text.contains([' ', '/'])) {
        judge.child(|judge| judge.script(text));
    }
    for target in awk_outputs(code) {
        match self::strings(target).as_slice() {
            [path] if target.starts_with('"') => judge.write_text(path),
            _ => judge.unknown(target, "a program of awk that writes a file"),
        }
    }
    let built = code.split("system(").skip(1).any(|rest| {
        let argument = rest.split(')').next().unwrap_or_default().trim();
        !argument.starts_with('"') || argument.matches('"').count() != 2 || !argument.ends_with('"')
    });
    if built {
        judge.unknown(code, "a program of awk that runs commands");
    }
}

/// Returns what follows `>` where awk prints: in an action, not in a comparison.
fn awk_outputs(code: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut quoted, mut prints, mut open) = (false, false, 0_usize);
    let mut before = ' ';
    for (at, c) in code.char_indices() {
        match c {
            '"' if before != '\\' => quoted = !quoted,
            _ if quoted => {}
            '{' | '}' | ';' | '\n' => (prints, open) = (false, 0),
            'p' if code[at..].starts_with("print") => prints = true,
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            '>' if prints && open == 0 && before != '>' => {
                let rest = code[at..].trim_start_matches('>').trim_start();
                let end = rest.find([';', '}', '\n']).unwrap_or(rest.len());
                out.push(rest[..end].trim());
            }
            _ => {}
        }
        before = c;
    }
    out
}

/// Judges a sed script: `w file`, `s/a/b/w file`, and `e`, which executes.
pub(crate) fn sed(judge: &mut Judge<'_>, script: &str) {
    for part in script.split([';', '\n']) {
        let command = without_address(part.trim());
        let flags = command.strip_prefix('s').and_then(flags_of).unwrap_or_default();
        if let Some(at) = flags.find('w') {
            judge.write_text(flags[at + 1..].trim());
        }
        let plain = flags.split('w').next().unwrap_or_default();
        if plain.contains('e') || command == "e" {
            judge.unknown(script, "a script of sed that executes");
        }
        if let Some(command) = command.strip_prefix("e ") {
            let command = command.trim_end_matches('}').to_owned();
            judge.child(|judge| judge.script(&command));
            judge.unknown(script, "a script of sed that executes");
        }
        if let Some(file) =
            command.strip_prefix(['w', 'W']).filter(|file| file.starts_with([' ', '/', '.', '~']))
        {
            judge.write_text(file.trim());
        }
    }
}

/// Returns the flags of `s`, with any delimiter: `ge` for `s|a|b|ge`.
fn flags_of(rest: &str) -> Option<&str> {
    let between = rest.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace())?;
    let (mut seen, mut escaped) = (0, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == between => seen += 1,
            _ => {}
        }
        if seen == 3 {
            return Some(rest[at + between.len_utf8()..].trim_end_matches('}').trim());
        }
    }
    None
}

/// Returns a sed command without its addresses: `e date` for `1,$!{e date`.
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
