//! Words that are not used: the second table of `docs/GLOSSARY.md`, looked for in sources and docs.

use std::path::{Path, PathBuf};

use hothouse_host::files;

const GLOSSARY: &str = "docs/GLOSSARY.md";
const HEADING: &str = "## Words that are not used";
const TYPES_HEADING: &str = "## Types with one meaning";

/// The files and folders to search.
const PLACES: [&str; 5] = ["crates", "docs", "xtask/src", "README.md", "SECURITY.md"];

/// A phrase, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    phrase: String,
    instead: String,
}

/// Reports each occurrence of a listed phrase.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let glossary = read(&root.join(GLOSSARY))?;
    let words = words(&glossary);
    if words.is_empty() {
        return Err(format!("{GLOSSARY} has no table below `{HEADING}`"));
    }
    let types = types(&glossary);
    let (mut found, mut defined) = (Vec::new(), Vec::new());
    for place in PLACES {
        for file in texts(&root.join(place))? {
            // The list itself, and this file.
            if file.ends_with(GLOSSARY) || file.ends_with(file!()) {
                continue;
            }
            let text = read(&file)?;
            found.extend(findings(&file, &text, &words));
            defined.extend(definitions(&file, &text, &types));
        }
    }
    found.extend(second_meanings(&types, &defined));
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

/// Reads the names of types that the glossary allows to be defined only once.
fn types(glossary: &str) -> Vec<String> {
    let table = glossary.split_once(TYPES_HEADING).map_or("", |(_, table)| table);
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
}

/// Finds where types of the list are defined: the name, and the place.
fn definitions(file: &Path, text: &str, types: &[String]) -> Vec<(String, String)> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split(|part: char| !part.is_alphanumeric()).collect();
        let defines = |pair: &[&str]| matches!(pair[0], "struct" | "enum" | "trait");
        let name = words.windows(2).find(|pair| defines(pair))?[1];
        types.iter().any(|known| known == name).then(|| name.to_owned())
    };
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
    lines
        .filter_map(|(line, number)| Some((of(line)?, format!("{}:{number}", file.display()))))
        .collect()
}

/// Reports each type of the list that is not defined exactly once.
fn second_meanings(types: &[String], defined: &[(String, String)]) -> Vec<String> {
    let places = |name: &String| {
        let all = defined.iter().filter(|(one, _)| one == name);
        all.map(|(_, place)| place.as_str()).collect::<Vec<_>>()
    };
    let all = types.iter().map(|name| (name, places(name)));
    all.filter(|(_, places)| places.len() != 1)
        .map(|(name, places)| format!("  `{name}` must have one meaning: {places:?}"))
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

    #[test]
    fn a_type_of_the_list_that_is_defined_twice_or_nowhere_is_reported() {
        let glossary = format!(
            "{TYPES_HEADING}\n\n| `Target` | x |\n| `Gone` | y |\n\n## Next\n| `Other` | z |\n"
        );
        let types = types(&glossary);
        assert_eq!(types, ["Target", "Gone"]);
        let text = "pub struct Target {\n// an enum Target\n    type Target = X;\npub(crate) enum Target<'a> {\n";
        let defined = definitions(Path::new("f.rs"), text, &types);
        let places: Vec<_> = defined.iter().map(|(_, place)| place.as_str()).collect();
        assert_eq!(places, ["f.rs:1", "f.rs:4"]);
        let found = second_meanings(&types, &defined);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
