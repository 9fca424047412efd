//! The book: the pages of `docs/` and those beside it, in the order of `docs/SUMMARY.md`.
//!
//! The checks need nothing but this program; only the HTML needs mdBook. Pages refer to files outside of `docs/`, so
//! the book is assembled in a separate folder.

mod blocks;
mod links;
mod markdown;
pub(crate) mod reference;
mod shell;

use std::path::{Path, PathBuf};

use hothouse_host::files;

const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages that people read, outside of `docs/`.
const BESIDE: [&str; 6] = [
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "schema/environment.md",
    "examples/acme/README.md",
];

/// A page by its path from the root of the repository.
struct Page {
    path: PathBuf,
    text: String,
}

/// Checks links and command blocks of all pages, and that the summary lists each page of `docs/`.
pub(crate) fn check() -> Result<(), String> {
    let root = root()?;
    let pages = pages(&root)?;
    let mut found = links::check(&root, &pages);
    found.extend(blocks::check(&root, &pages)?);
    found.extend(missing_in_summary(&pages));
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("the book has faults:\n{}", found.join("\n"))),
    }
}

/// Assembles the book in a folder, from which `mdbook build` makes pages.
pub(crate) fn assemble(folder: &Path) -> Result<(), String> {
    let (root, told) = (root()?, |error: files::FileError| error.to_string());
    let pages = pages(&root)?;
    files::remove_tree(folder).map_err(told)?;
    let into = folder.join("pages");
    for page in &pages {
        let text = match page.path == Path::new(SUMMARY) {
            true => moved_up(&page.text),
            false => page.text.clone(),
        };
        let name =
            if page.path == Path::new(SUMMARY) { Path::new("SUMMARY.md") } else { &page.path };
        copy(text.as_bytes(), &into.join(name))?;
    }
    for linked in links::files_beside(&root, &pages) {
        let bytes = files::read_capped(&root.join(&linked), 64 << 20).map_err(told)?;
        copy(&bytes, &into.join(&linked))?;
    }
    let settings = files::read_text(&root.join("book.toml")).map_err(told)?;
    copy(settings.as_bytes(), &folder.join("book.toml"))
}

fn copy(bytes: &[u8], to: &Path) -> Result<(), String> {
    let told = |error: files::FileError| error.to_string();
    files::make_folder(to.parent().unwrap_or(to)).map_err(told)?;
    files::write(to, bytes).map_err(told)
}

/// Rewrites the links of the summary for a place one folder up.
fn moved_up(summary: &str) -> String {
    let line = |line: &str| match line.split_once("](") {
        Some((before, after)) => match after.strip_prefix("../") {
            Some(after) => format!("{before}]({after}"),
            None => format!("{before}](docs/{after}"),
        },
        None => line.to_owned(),
    };
    summary.lines().map(|one| line(one) + "\n").collect()
}

fn missing_in_summary(pages: &[Page]) -> Vec<String> {
    let Some(summary) = pages.iter().find(|page| page.path == Path::new(SUMMARY)) else {
        return vec![format!("  {SUMMARY} is missing")];
    };
    let named: Vec<PathBuf> = markdown::links(&summary.text)
        .into_iter()
        .map(|link| links::resolve(&summary.path, &link.target))
        .collect();
    let is_missing = |page: &&Page| {
        page.path.starts_with("docs")
            && page.path != Path::new(SUMMARY)
            && !named.contains(&page.path)
    };
    let missing = pages.iter().filter(is_missing);
    missing.map(|page| format!("  {SUMMARY} does not have {}", page.path.display())).collect()
}

fn root() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    files::canonical(&root).map_err(|error| error.to_string())
}

fn pages(root: &Path) -> Result<Vec<Page>, String> {
    let mut paths = below(root, Path::new("docs"))?;
    paths.extend(BESIDE.map(PathBuf::from));
    let read = |path: PathBuf| {
        let text = files::read_text(&root.join(&path)).map_err(|error| error.to_string())?;
        Ok(Page { path, text })
    };
    paths.into_iter().map(read).collect()
}

/// Returns the pages below a folder, by their paths from the root.
fn below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in files::list(&root.join(folder)).map_err(|error| error.to_string())? {
        let name = folder.join(path.file_name().unwrap_or_default());
        match files::is_folder(&path) {
            true => found.extend(below(root, &name)?),
            false if name.extension().is_some_and(|end| end == "md") => found.push(name),
            false => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn a_page_that_the_summary_lacks_is_reported() {
        let pages = [
            page(SUMMARY, "# Summary\n\n- [One](one.md)\n- [Read](../README.md)\n"),
            page("docs/one.md", ""),
            page("docs/howto/two.md", ""),
            page("README.md", ""),
        ];
        assert_eq!(
            missing_in_summary(&pages),
            ["  docs/SUMMARY.md does not have docs/howto/two.md"]
        );
    }

    #[test]
    fn the_summary_finds_its_pages_from_one_folder_up() {
        let moved = moved_up("# S\n- [One](one.md)\n  - [Read](../README.md)\n");
        assert_eq!(moved, "# S\n- [One](docs/one.md)\n  - [Read](README.md)\n");
    }

    #[test]
    fn the_book_has_no_faults() {
        check().unwrap();
    }
}
