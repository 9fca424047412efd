//! Shell commands, by the grammar of bash.
//!
//! A script is walked in the order in which a shell would run it, tracking folder, variables, functions and links at
//! each point. Unknown values stay unknown and are reported as such, never guessed.

mod expansion;
mod statement;
mod text;
mod word;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use tree_sitter::{Node, Parser};

pub(crate) use self::{text::ansi, word::Word};
use crate::{Confidence, Severity, Verdict, judge::Judge};

/// The maximum length of a script.
const SCRIPT_LIMIT: usize = 256 << 10;

/// The maximum nesting of scripts in scripts, and of statements in statements.
const DEPTH: usize = 40;

/// The maximum number of commands per call, including loops and functions.
const COMMANDS: usize = 4000;

/// The state at one point of a script.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The folders that the script may be in; `None` if not known.
    pub(crate) folders: Option<Vec<PathBuf>>,
    before: Option<Vec<PathBuf>>,
    /// Variables; `None` for one whose value is not known.
    pub(crate) variables: HashMap<String, Option<String>>,
    /// Arrays with known values.
    pub(crate) arrays: HashMap<String, Vec<Word>>,
    functions: HashMap<String, String>,
    /// The name of the function or script, `$0`.
    zero: Option<Word>,
    /// The default input of commands: that of the group around them.
    pub(crate) input: Flow,
    /// The arguments of the function or script.
    arguments: Vec<Word>,
    /// Links that the script has created.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Folders that the script has created.
    pub(crate) made: Vec<PathBuf>,
    /// Files that the script has written, with their content: it may run them next.
    pub(crate) written: Vec<(PathBuf, Flow)>,
    pub(crate) depth: usize,
    commands: usize,
}

/// The output of a command, or its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Nothing,
    Known(String),
    /// From the network.
    Network(String),
    /// Names of files like these.
    Names(Vec<String>),
    Unknown,
}

impl State {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folders: Some(vec![folder]),
            before: None,
            variables: HashMap::new(),
            arrays: HashMap::new(),
            functions: HashMap::new(),
            zero: None,
            input: Flow::Nothing,
            arguments: Vec::new(),
            links: Vec::new(),
            made: Vec::new(),
            written: Vec::new(),
            depth: 0,
            commands: 0,
        }
    }

    /// Changes the folder.
    pub(crate) fn enter(&mut self, folders: Option<Vec<PathBuf>>) {
        self.before = std::mem::replace(&mut self.folders, folders);
    }

    pub(crate) fn previous(&self) -> Option<Vec<PathBuf>> {
        self.before.clone()
    }

    /// Merges the states of two possible paths through a script.
    fn join(&mut self, other: &Self) {
        self.folders = match (self.folders.take(), &other.folders) {
            (Some(mut all), Some(more)) => {
                let new = more.iter().filter(|path| !all.contains(path)).cloned();
                let new: Vec<_> = new.collect();
                all.extend(new);
                (all.len() <= 8).then_some(all)
            }
            _ => None,
        };
        for (name, value) in &other.variables {
            if self.variables.get(name) != Some(value) {
                self.variables.insert(name.clone(), None);
            }
        }
        self.arrays.retain(|name, value| other.arrays.get(name) == Some(value));
        let links: Vec<_> =
            other.links.iter().filter(|link| !self.links.contains(link)).cloned().collect();
        self.links.extend(links);
        let made: Vec<_> =
            other.made.iter().filter(|path| !self.made.contains(path)).cloned().collect();
        self.made.extend(made);
        let written: Vec<_> =
            other.written.iter().filter(|one| !self.written.contains(one)).cloned().collect();
        self.written.extend(written);
        for (name, body) in &other.functions {
            self.functions.entry(name.clone()).or_insert_with(|| body.clone());
        }
    }
}

impl Judge<'_> {
    /// Judges a script run by a tool.
    pub(crate) fn shell(&mut self, script: &str, folder: Option<&str>) {
        self.start_in(folder);
        self.secrets_in(script);
        self.script(script);
    }

    /// Judges a command run by a tool without a shell.
    pub(crate) fn argv(&mut self, words: &[String], folder: Option<&str>) {
        self.start_in(folder);
        words.iter().for_each(|word| self.secrets_in(word));
        let words = words.iter().map(|word| Word::plain(word)).collect();
        self.run(words, Flow::Nothing);
    }

    fn start_in(&mut self, folder: Option<&str>) {
        let Some(folder) = folder else { return };
        let folders = self.state.folders.clone().unwrap_or_default();
        let joined = folders.iter().map(|own| crate::scene::lexical(&own.join(folder)));
        self.state.folders = Some(joined.collect());
    }

    /// Walks a script, and returns its output.
    pub(crate) fn script(&mut self, script: &str) -> Flow {
        if self.state.depth >= DEPTH {
            self.unknown(script, "a script that is nested this deep");
            return Flow::Unknown;
        }
        if script.len() > SCRIPT_LIMIT {
            self.unknown("", &format!("a script of {} bytes", script.len()));
            return Flow::Unknown;
        }
        let Some(tree) = parse(script) else {
            self.unknown(script, "this script");
            return Flow::Unknown;
        };
        self.state.depth += 1;
        let root = tree.root_node();
        if root.has_error() {
            self.unknown(script, "a script that bash may read in another way");
        }
        let flow = self.statements(root, script);
        self.state.depth -= 1;
        flow
    }

    /// Whether another command may be judged.
    fn may_go_on(&mut self) -> bool {
        self.state.commands += 1;
        match self.state.commands.cmp(&COMMANDS) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => {
                self.unknown("", "a script with this many commands");
                false
            }
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Changes the folder like `cd`.
    pub(crate) fn change_folder(&mut self, to: Option<&Word>) {
        let Some(word) = to else {
            let home = self.scene.home.clone();
            return self.state.enter(Some(vec![home]));
        };
        if word.text == "-" {
            let before = self.state.previous();
            return self.state.enter(before);
        }
        if !word.is_known() {
            return self.state.enter(None);
        }
        let to = Path::new(&word.text);
        let folders = match to.is_absolute() {
            true => Some(vec![crate::scene::lexical(to)]),
            false => self.state.folders.as_ref().map(|all| {
                all.iter().map(|folder| crate::scene::lexical(&folder.join(to))).collect()
            }),
        };
        self.state.enter(folders);
    }

    /// Calls a function defined by the script.
    pub(crate) fn call(&mut self, name: &str, arguments: &[Word]) -> Option<Flow> {
        let body = self.state.functions.get(name)?.clone();
        if self.state.depth >= DEPTH / 2 {
            self.note(
                Verdict::Deny,
                Severity::Critical,
                Confidence::Medium,
                name,
                format!("`{name}` calls itself without an end, as a fork bomb does; write a loop that ends"),
            );
            return Some(Flow::Unknown);
        }
        Some(self.with_arguments(arguments.to_vec(), &body))
    }

    /// Walks a script with arguments.
    pub(crate) fn with_arguments(&mut self, arguments: Vec<Word>, script: &str) -> Flow {
        let before = std::mem::replace(&mut self.state.arguments, arguments);
        let flow = self.script(script);
        self.state.arguments = before;
        flow
    }

    /// Walks the script of `sh -c`, whose first argument is its name.
    pub(crate) fn with_name(&mut self, words: &[Word], script: &str) -> Flow {
        let before = std::mem::replace(&mut self.state.zero, words.first().cloned());
        let flow = self.with_arguments(words.get(1..).unwrap_or_default().to_vec(), script);
        self.state.zero = before;
        flow
    }
}

fn parse(script: &str) -> Option<tree_sitter::Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(script, None)
}

/// Returns the text of a node.
fn text_of<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// Returns the named children of a node.
fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).collect()
}
