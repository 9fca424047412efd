//! Words that are not used: the second table of `docs/GLOSSARY.md`, looked for in sources and docs.

use std::path::{Path, PathBuf};

use hothouse_host::files;

const GLOSSARY: &str = "docs/GLOSSARY.md";
const HEADING: &str = "## Words that are not used";

/// Where people read.
const PLACES: [&str; 5] = ["crates", "docs", "xtask/src", "README.md", "SECURITY.md"];

/// A phrase, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    phrase: String,
    instead: String,
}

/// Reports each place where a phrase of the list stands.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let glossary = read(&root.join(GLOSSARY))?;
    let words = words(&glossary);
    if words.is_empty() {
        return Err(format!("{GLOSSARY} has no table below `{HEADING}`"));
    }
    let mut found = Vec::new();
    for place in PLACES {
        for file in texts(&root.join(place))? {
            // The list itself, and this file.
            if file.ends_with(GLOSSARY) || file.ends_with(file!()) {
                continue;
            }
            found.extend(findings(&file, &read(&file)?, &words));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("words that {GLOSSARY} replaces:\n{}", found.join("\n"))),
    }
}

/// Reads the rows of the table.
fn words(glossary: &str) -> Vec<Word> {
    let table = glossary.split_once(HEADING).map_or("", |(_, table)| table);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (phrase, instead) = row.split_once("` | ")?;
        let instead = instead.trim_end_matches('|').trim();
        Some(Word { phrase: phrase.to_owned(), instead: instead.to_owned() })
    })
    .collect()
}

fn findings(file: &Path, text: &str, words: &[Word]) -> Vec<String> {
    let lines = text.lines().zip(1..);
    lines
        .flat_map(|(line, number)| {
            let hits = words.iter().filter(move |word| line.contains(&word.phrase));
            hits.map(move |Word { phrase, instead }| {
                format!("  {}:{number}: `{phrase}`; write: {instead}", file.display())
            })
        })
        .collect()
}

fn read(file: &Path) -> Result<String, String> {
    files::read_text(file).map_err(|error| error.to_string())
}

/// Returns the sources and documents below a path.
fn texts(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !files::is_folder(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for path in files::list(path).map_err(|error| error.to_string())? {
        let is_text =
            path.extension().is_some_and(|end| end == "rs" || end == "md" || end == "html");
        if files::is_folder(&path) {
            found.extend(texts(&path)?);
        } else if is_text {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_its_phrases_are_found() {
        let glossary = format!(
            "| `a` | b |\n{HEADING}\n\n| Instead of | Write |\n|---|---|\n| `is no x of` | not a valid x |\n"
        );
        let words = words(&glossary);
        let expected = Word { phrase: "is no x of".into(), instead: "not a valid x".into() };
        assert_eq!(words, [expected]);
        let text = "fine\n// this is no x of ours\n";
        let found = findings(Path::new("f.rs"), text, &words);
        assert_eq!(found, ["  f.rs:2: `is no x of`; write: not a valid x"]);
    }
}
