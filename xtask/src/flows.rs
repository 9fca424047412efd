//! Keeps documents that name functions up to date: each function is in the file that is named with it.

use std::path::Path;

use hothouse_host::files;

/// The document with rows of files and functions.
const DOCUMENT: &str = "docs/flows.md";

/// Reports rows of the document whose file or function does not exist.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = read(&root.join(DOCUMENT))?;
    let mut missing = Vec::new();
    for (file, function) in rows(&document) {
        let source = read(&root.join("crates").join(file))?;
        if !defines(&source, function) {
            missing.push(format!("{file} has no `{function}`"));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("{DOCUMENT} is out of date: {}", missing.join(", "))),
    }
}

fn read(path: &Path) -> Result<String, String> {
    files::read_text(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the file and the function of each row of a table.
fn rows(document: &str) -> impl Iterator<Item = (&str, &str)> {
    document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (file, function) = (quoted(cells.next()?)?, quoted(cells.next()?)?);
        file.ends_with(".rs").then_some((file, function))
    })
}

fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

fn defines(source: &str, function: &str) -> bool {
    let marked = format!("fn {function}");
    source.match_indices(&marked).any(|(at, _)| source[at + marked.len()..].starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_table_are_read() {
        let text = "| where | function |\n|---|---|\n| `a/src/b.rs` | `go` | what |\nno row";
        assert_eq!(rows(text).collect::<Vec<_>>(), [("a/src/b.rs", "go")]);
        assert!(defines("pub(crate) async fn go<T>()", "go"));
        assert!(!defines("fn going()", "go"));
    }

    #[test]
    fn the_flows_are_true() {
        check().unwrap();
    }
}
