//! The files of a repository as readers see them: paths, and texts that are read on demand.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use crate::{finding::Evidence, text};

/// The maximum size of a file that is read.
pub const FILE_MOST: usize = 16 << 20;

/// The maximum size of all read files together.
const ALL_MOST: usize = 256 << 20;

/// A source of file contents.
pub trait Source {
    /// Returns a file's bytes, unless it is missing, too long or not a regular file.
    fn read(&self, path: &str, most: usize) -> Option<Vec<u8>>;
}

impl Source for BTreeMap<String, String> {
    fn read(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        self.get(path).filter(|text| text.len() <= most).map(|text| text.clone().into_bytes())
    }
}

/// The files of a repository.
pub struct View<'a> {
    paths: BTreeSet<String>,
    source: &'a dyn Source,
    texts: RefCell<BTreeMap<String, Option<Rc<str>>>>,
    spent: Cell<usize>,
    notes: RefCell<Vec<Evidence>>,
    /// Dependency folders that already exist.
    pub installed: BTreeSet<String>,
    /// Committed files that are named like secrets, but are not secret.
    pub committed: BTreeSet<String>,
}

impl<'a> View<'a> {
    /// Creates a view of some paths, separated by `/`.
    pub fn new(paths: BTreeSet<String>, source: &'a dyn Source) -> Self {
        Self {
            paths,
            source,
            texts: RefCell::default(),
            spent: Cell::new(0),
            notes: RefCell::default(),
            installed: BTreeSet::new(),
            committed: BTreeSet::new(),
        }
    }

    /// Creates a view of texts in memory.
    pub fn of(files: &'a BTreeMap<String, String>) -> Self {
        Self::new(files.keys().cloned().collect(), files)
    }

    /// Adds a remark about the files for the user.
    pub fn note(&self, file: &str, line: usize, fact: impl Into<String>) {
        let note = Evidence { file: file.to_owned(), line, fact: fact.into() };
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) && notes.len() < 100 {
            notes.push(note);
        }
    }

    /// Returns the remarks.
    pub fn notes(&self) -> Vec<Evidence> {
        self.notes.borrow().clone()
    }

    /// Whether a file exists.
    pub fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Returns all paths in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Returns the paths below a folder; `""` is the root.
    pub fn below<'v>(&'v self, folder: &str) -> impl Iterator<Item = &'v str> + use<'v, 'a> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let end = prefix.clone();
        let from = self.paths.range(prefix..);
        from.map(String::as_str).take_while(move |path| path.starts_with(&end))
    }

    /// Whether a folder exists.
    pub fn has_folder(&self, folder: &str) -> bool {
        self.below(folder).next().is_some()
    }

    /// Returns the paths with one of these names, those nearest to the root first.
    pub fn named(&self, names: &[&str]) -> Vec<String> {
        let is_meant = |path: &&str| names.contains(&text::name(path));
        let mut found: Vec<_> = self.paths().filter(is_meant).map(str::to_owned).collect();
        found.sort_by_key(|path| (path.matches('/').count(), path.clone()));
        found
    }

    /// Returns the first of some files that exists in a folder.
    pub fn first(&self, folder: &str, names: &[&str]) -> Option<String> {
        names.iter().map(|name| text::join(folder, name)).find(|path| self.has(path))
    }

    /// Returns the text of a file. Invalid UTF-8 is replaced.
    pub fn text(&self, path: &str) -> Option<Rc<str>> {
        if !self.has(path) {
            return None;
        }
        if let Some(known) = self.texts.borrow().get(path) {
            return known.clone();
        }
        let left = ALL_MOST.saturating_sub(self.spent.get()).min(FILE_MOST);
        let bytes = self.source.read(path, left);
        if bytes.is_none() {
            self.note(path, 0, "it is too long or cannot be read, and was passed over");
        }
        let text: Option<Rc<str>> = bytes.map(|bytes| {
            self.spent.set(self.spent.get() + bytes.len());
            String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').into()
        });
        self.texts.borrow_mut().insert(path.to_owned(), text.clone());
        text
    }

    /// Reads a file as JSON, with the comments and trailing commas that many tools allow.
    pub fn json(&self, path: &str) -> Option<Value> {
        let text = self.text(path)?;
        self.parsed(path, text::json(&text))
    }

    /// Reads a file as YAML.
    pub fn yaml(&self, path: &str) -> Option<Value> {
        let text = self.text(path)?;
        self.parsed(path, text::yaml(&text))
    }

    /// Reads a file as TOML.
    pub fn toml(&self, path: &str) -> Option<Value> {
        let text = self.text(path)?;
        let value = toml::from_str::<toml::Value>(&text);
        let value = value.map_err(|error| error.message().to_owned());
        self.parsed(path, value.map(|value| serde_json::to_value(value).unwrap_or_default()))
    }

    fn parsed(&self, path: &str, value: Result<Value, String>) -> Option<Value> {
        match value {
            Ok(value) => Some(value),
            Err(why) => {
                let why: String =
                    why.lines().next().unwrap_or_default().chars().take(120).collect();
                self.note(path, 0, format!("it is not valid and was passed over: {why}"));
                None
            }
        }
    }

    /// Returns the evidence for a text in a file: the first line that contains it.
    pub fn evidence(&self, path: &str, needle: &str, fact: impl Into<String>) -> Evidence {
        let text = self.text(path).unwrap_or_default();
        Evidence { file: path.to_owned(), line: text::line_of(&text, needle), fact: fact.into() }
    }
}
