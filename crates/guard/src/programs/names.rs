//! Output of programs that is known without running them: file names, numbers, other names.

use super::{has, operands, option};
use crate::{
    judge::Judge,
    shell::{Flow, Word},
};

/// How many numbers of `seq` are evaluated.
const NUMBERS: i64 = 32;

impl Judge<'_> {
    /// Returns the output of a program that only reads. `input` is passed on by filters.
    pub(super) fn printed(&mut self, program: &str, words: &[Word], input: &Flow) -> Flow {
        let none_unknown = words.iter().all(Word::is_known);
        match program {
            "ls" if !has(words, 'l', &["--format"]) => {
                // Names in a folder are printed without the folder.
                let shown = operands(words, &["-I"]).into_iter();
                let patterns =
                    shown.filter(|word| word.text.contains('*')).map(|word| word.text.clone());
                let patterns: Vec<String> = patterns.collect();
                match patterns.is_empty() {
                    true => Flow::Names(vec!["./*".to_owned()]),
                    false => Flow::Names(patterns),
                }
            }
            "rg" | "ag" if has(words, 'l', &["--files", "--files-with-matches"]) => {
                let all = !words.iter().any(|word| matches!(word.text.as_str(), "-g" | "--glob"));
                let skipped = usize::from(!words.iter().any(|word| word.text == "--files"));
                below(
                    &operands(words, &["-g", "--glob", "-t", "--type", "-e", "-T"]),
                    skipped,
                    all && skipped == 0,
                )
            }
            "grep" | "egrep" | "fgrep" => {
                let own = operands(words, &["-e", "-f", "-m", "-A", "-B", "-C"]);
                match (has(words, 'l', &["--files-with-matches"]), input) {
                    (true, _) => below(&own, 1, false),
                    (false, Flow::Names(names)) if own.len() <= 1 => filtered(names),
                    (false, Flow::Network(host)) if own.len() <= 1 => Flow::Network(host.clone()),
                    _ => Flow::Unknown,
                }
            }
            "date" | "uname" | "hostname" | "nproc" | "whoami" | "id" | "wc" | "uptime"
                if none_unknown && !words.iter().any(|word| word.text.contains(['/', '.'])) =>
            {
                Flow::Known("0\n".to_owned())
            }
            "basename" => match operands(words, &["-s", "--suffix"]).first() {
                Some(word) if word.is_known() => {
                    let name =
                        word.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                    let end = operands(words, &[]).get(1).map_or("", |end| end.text.as_str());
                    let end =
                        option(words, &["-s", "--suffix"]).map_or(end.to_owned(), |end| end.text);
                    Flow::Known(name.strip_suffix(end.as_str()).unwrap_or(name).to_owned() + "\n")
                }
                _ => Flow::Unknown,
            },
            "dirname" => match operands(words, &[]).as_slice() {
                [word] if word.is_known() => {
                    let text = word.text.trim_end_matches('/');
                    let folder = text.rsplit_once('/').map_or(".", |(folder, _)| folder);
                    Flow::Known(if folder.is_empty() {
                        "/\n".to_owned()
                    } else {
                        format!("{folder}\n")
                    })
                }
                _ => Flow::Unknown,
            },
            "seq" if none_unknown => {
                let numbers: Vec<i64> =
                    words.iter().filter_map(|word| word.text.parse().ok()).collect();
                let (first, last) = match numbers.as_slice() {
                    [last] => (1, *last),
                    [first, .., last] => (*first, *last),
                    [] => return Flow::Unknown,
                };
                if numbers.len() != words.len() || last.saturating_sub(first) > NUMBERS {
                    return Flow::Unknown;
                }
                Flow::Known((first..=last).map(|one| format!("{one}\n")).collect())
            }
            _ => Flow::Unknown,
        }
    }

    /// Returns the output of filters that pass on complete lines.
    pub(super) fn passed_on(words: &[&Word], input: &Flow) -> Flow {
        match input {
            Flow::Names(_) | Flow::Network(_) if words.is_empty() => input.clone(),
            _ => Flow::Unknown,
        }
    }

    /// Returns the output of `find`; patterns make it incomplete.
    pub(super) fn found(words: &[Word], starts: &[Word]) -> Flow {
        let says = |texts: &[&str]| words.iter().any(|word| texts.contains(&word.text.as_str()));
        if says(&["-printf", "-exec", "-execdir", "-ls", "-delete", "-x", "-X"])
            || !starts.iter().all(Word::is_known)
        {
            return Flow::Unknown;
        }
        let narrowed =
            says(&["-name", "-iname", "-path", "-regex", "-newer", "-mtime", "-size", "-empty"]);
        let end = if narrowed { "x" } else { "*" };
        Flow::Names(
            starts
                .iter()
                .map(|start| format!("{}/{end}", start.text.trim_end_matches('/')))
                .collect(),
        )
    }

    /// Returns names that `git` prints.
    pub(super) fn git_names(command: &str, words: &[Word]) -> Flow {
        let says = |text: &str| words.iter().any(|word| word.text == text);
        match command {
            "ls-files" => Flow::Names(vec!["./*".to_owned()]),
            "diff" | "show" | "log" if says("--name-only") => Flow::Names(vec!["./x".to_owned()]),
            "grep" if says("-l") || says("--files-with-matches") => {
                Flow::Names(vec!["./x".to_owned()])
            }
            "describe" | "symbolic-ref" => Flow::Known("x\n".to_owned()),
            "branch" if says("--show-current") => Flow::Known("x\n".to_owned()),
            "rev-parse" if says("HEAD") || says("--short") || says("--abbrev-ref") => {
                Flow::Known("x\n".to_owned())
            }
            "rev-list" if says("--count") => Flow::Known("0\n".to_owned()),
            _ => Flow::Unknown,
        }
    }

    /// Evaluates `read a b` for file names and single lines.
    pub(super) fn reads_line(&mut self, words: &[Word], input: &Flow) -> Flow {
        let names = operands(words, &["-p", "-t", "-n", "-N", "-d", "-u", "-i", "-a"]);
        let ifs = self.state.variables.get("IFS").map(|own| own.clone().unwrap_or("?".to_owned()));
        let plain = ifs.is_none_or(|own| own.chars().all(char::is_whitespace));
        let line = match input {
            Flow::Names(all) if all.len() == 1 => all.first().map(String::as_str),
            Flow::Known(text) if text.trim_end_matches('\n').lines().count() == 1 => {
                text.lines().next()
            }
            _ => None,
        };
        for name in &names {
            self.state.arrays.remove(&name.text);
        }
        let Some(line) =
            line.filter(|_| plain && option(words, &["-d", "-a", "-n", "-N"]).is_none())
        else {
            names.iter().for_each(|name| self.set(&name.text, &Word::unknown()));
            return Flow::Nothing;
        };
        let mut rest = line.trim();
        for (at, name) in names.iter().enumerate() {
            let is_last = at + 1 == names.len();
            let (own, after) = match rest.split_once(char::is_whitespace) {
                Some((own, after)) if !is_last => (own, after.trim_start()),
                _ => (rest, ""),
            };
            self.set(&name.text, &Word::plain(own));
            rest = after;
        }
        Flow::Nothing
    }
}

/// Returns file names below the searched folders.
fn below(words: &[&Word], skipped: usize, all: bool) -> Flow {
    let end = if all { "*" } else { "x" };
    let folders = words.get(skipped..).unwrap_or_default();
    if !folders.iter().all(|word| word.is_known()) {
        return Flow::Unknown;
    }
    match folders.is_empty() {
        true => Flow::Names(vec![format!("./{end}")]),
        false => Flow::Names(
            folders
                .iter()
                .map(|word| format!("{}/{end}", word.text.trim_end_matches('/')))
                .collect(),
        ),
    }
}

/// Marks names as incomplete.
fn filtered(names: &[String]) -> Flow {
    Flow::Names(names.iter().map(|name| name.replace("/*", "/x")).collect())
}
