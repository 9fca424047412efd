//! Merges defaults, the user's file, the project's file and the environment.

use serde::{Deserialize, Serialize};

use crate::{
    check::check_services, check::check_tree, keys::ROOT, settle::apply_templates,
    settle::settle_integrations, settle::settle_services, settle::without_templates, shape::Shape,
    source::Source, tree::Node, tree::Origin, tree::Place, tree::Value, tree::overlay,
    walk::Templates, walk::check_plain, walk::walk_file,
};
use hothouse_model::config::{
    Complaint, Config, Problem,
    rules::{join_key, settle},
};

const DEFAULTS: &str = include_str!("defaults.toml");

/// A file's content, and its name as the reader knows it.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
}

/// Everything that a configuration is made of, apart from the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers<'a> {
    /// The user's own file; it may set only [`USER_KEYS`].
    pub user: Option<File<'a>>,
    /// The project's `hothouse.toml`.
    pub project: Option<File<'a>>,
    /// Environment variables; those that [`ENVIRONMENT`] does not list are ignored.
    pub environment: &'a [(String, String)],
}

/// An environment variable that sets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    pub name: &'static str,
    pub key: &'static str,
}

const fn variable(name: &'static str, key: &'static str) -> EnvironmentVariable {
    EnvironmentVariable { name, key }
}

/// Every variable that sets a key; it wins over all files.
pub const ENVIRONMENT: &[EnvironmentVariable] = &[
    variable("HOTHOUSE_PLACE", "project.place"),
    variable("HOTHOUSE_STACK", "room.stack"),
    variable("HOTHOUSE_MEMORY", "room.memory"),
    variable("HOTHOUSE_CPUS", "room.cpus"),
    variable("HOTHOUSE_PIDS", "room.pids"),
    variable("HOTHOUSE_DISK", "room.disk"),
    variable("HOTHOUSE_TREE", "room.tree"),
    variable("HOTHOUSE_BACKEND", "room.backend"),
    variable("HOTHOUSE_EGRESS_MODE", "egress.mode"),
    variable("HOTHOUSE_TTL", "sandbox.ttl"),
    variable("HOTHOUSE_IDLE", "sandbox.idle"),
];

/// The keys that a user's own file may set; the others describe one project.
pub const USER_KEYS: &[&str] = &[
    "project.place",
    "room",
    "sandbox",
    "egress",
    "secret",
    "env",
    "live-keys",
    "agent",
    "terminal",
    "notify",
];

/// A configuration and where each of its values came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub config: Config,
    tree: Node,
}

/// One value of a configuration, as `config show` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    pub key: String,
    pub value: serde_json::Value,
    /// `default`, `file:line` or `environment NAME`.
    pub origin: String,
}

/// Parses a project file over the defaults.
pub fn parse(file: &str, text: &str) -> Result<Resolved, Vec<Problem>> {
    parse_bytes(file, text.as_bytes())
}

/// Parses a project file of arbitrary bytes over the defaults.
pub fn parse_bytes(file: &str, bytes: &[u8]) -> Result<Resolved, Vec<Problem>> {
    resolve(&Layers { project: Some(File { name: file, bytes }), ..Layers::default() })
}

/// Merges all layers and validates the result, or reports all problems.
pub fn resolve(layers: &Layers<'_>) -> Result<Resolved, Vec<Problem>> {
    let Layers { user, project, environment } = *layers;
    let mut problems = Vec::new();
    let defaults = read_defaults();
    let root = Shape::Table(&ROOT);
    let mut tree = without_templates(defaults.clone());
    let user = user.map(|file| read(file, check_user_file, &mut problems));
    let project = project.map(|file| read(file, check_project_file, &mut problems));
    for layer in [user, project].into_iter().flatten() {
        tree = overlay(tree, layer, &root);
    }
    apply_environment(&mut tree, environment, &mut problems);
    apply_templates(&mut tree, &defaults, &root);
    settle_integrations(&mut tree);
    let profiles = settle_services(&mut tree, &defaults);
    problems.extend(check_tree(&tree));
    let sets = tree.get("service").into_iter().chain(profiles.iter().map(|(_, services)| services));
    problems.extend(sets.flat_map(check_services));
    prove(tree, profiles, settle(without_consequences(problems)))
}

/// Removes the problem of a missing key where an unknown key in the same table was probably meant to be that one.
fn without_consequences(problems: Vec<Problem>) -> Vec<Problem> {
    let meant: Vec<(String, String)> = problems
        .iter()
        .filter(|problem| problem.message.starts_with("unknown key"))
        .filter_map(|problem| {
            let (table, _) = problem.key.rsplit_once('.')?;
            Some((table.to_owned(), format!("`{}`", problem.suggestion.as_ref()?)))
        })
        .collect();
    let follows = |problem: &Problem| {
        let lacks = problem.message.contains("needs one of");
        lacks
            && meant
                .iter()
                .any(|(table, key)| *table == problem.key && problem.message.contains(key.as_str()))
    };
    problems.into_iter().filter(|problem| !follows(problem)).collect()
}

/// Converts the merged tree to types, if it has no problems.
fn prove(
    tree: Node,
    profiles: Vec<(String, Node)>,
    problems: Vec<Problem>,
) -> Result<Resolved, Vec<Problem>> {
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut whole = tree.clone();
    for (name, services) in profiles {
        if let Some(profile) = whole.entry(&["profile", &name]) {
            profile.insert("service".to_owned(), services);
        }
    }
    // A test proves for every key that the table of keys and the types agree. If they did not, the user would get a
    // problem to report rather than a crash.
    match serde_json::from_value(whole.to_json()) {
        Ok(config) => Ok(Resolved { config, tree }),
        Err(error) => {
            let message = format!("passed every check and still could not be read: {error}");
            Err(vec![tree.place.bare_problem(Complaint::new(message))])
        }
    }
}

fn read_defaults() -> Node {
    let (mut tree, problems) =
        walk_file(&Source::new("defaults.toml", DEFAULTS), Templates::Allowed);
    debug_assert!(problems.is_empty(), "the compiled-in defaults are sound: {problems:?}");
    mark_default(&mut tree);
    tree
}

fn mark_default(node: &mut Node) {
    node.place.origin = Origin::Default;
    match &mut node.value {
        Value::Table(entries) => entries.values_mut().for_each(mark_default),
        Value::List(items) => items.iter_mut().for_each(mark_default),
        _ => {}
    }
}

fn read(file: File<'_>, check: fn(&Node) -> Vec<Problem>, problems: &mut Vec<Problem>) -> Node {
    match Source::open(file.name, file.bytes) {
        Ok(source) => {
            let (tree, found) = walk_file(&source, Templates::Refused);
            // The keys below an unclosed heading seem to be elsewhere.
            let below = source.below_unclosed(&found);
            let found = found.into_iter().chain(check(&tree));
            let is_displaced = |problem: &Problem| {
                problem.message.starts_with("unknown key")
                    && below.iter().any(|part| part.contains(&problem.line))
            };
            problems.extend(found.filter(|problem| !is_displaced(problem)));
            tree
        }
        Err(problem) => {
            problems.push(problem);
            Node::empty()
        }
    }
}

/// Reports keys that only a project may set.
fn check_user_file(tree: &Node) -> Vec<Problem> {
    let sections = tree.entries().filter(|(name, _)| !USER_KEYS.contains(name));
    let inner = sections.flat_map(|(section, node)| {
        let part = USER_KEYS
            .iter()
            .any(|key| key.split_once('.').is_some_and(|(first, _)| first == section));
        let keys = node
            .entries()
            .filter(move |(name, _)| !USER_KEYS.contains(&join_key(section, name).as_str()));
        if part { keys.map(|(_, node)| node).collect() } else { vec![node] }
    });
    let complaint =
        || Complaint::new("cannot be set in the user's own file: it describes one project");
    inner.map(|node| node.place.problem(complaint().among("", USER_KEYS.iter().copied()))).collect()
}

/// Reports keys that only the user may set: commands on the host, notifications, and resolvers, which see every name.
fn check_project_file(tree: &Node) -> Vec<Problem> {
    let resolvers = tree.get("egress").and_then(|egress| egress.get("resolvers"));
    let resolvers = resolvers.map(|node| {
        let complaint = "cannot be set by a project: name resolvers in the user's own file";
        node.place.problem(Complaint::new(complaint))
    });
    let notify = tree.get("notify").map(|node| {
        let complaint = "cannot be set by a project: how you are told is for the user's own file";
        node.place.problem(Complaint::new(complaint))
    });
    let secrets = tree.get("secret").into_iter().flat_map(Node::entries);
    let sources = secrets.filter_map(|(_, secret)| secret.get("from"));
    let commands =
        sources.filter(|from| from.text().is_some_and(|text| text.starts_with("command:")));
    let complaint =
        "cannot be a command here: it would run on the host; name it in the user's own file";
    let commands = commands.map(|from| from.place.problem(Complaint::new(complaint)));
    resolvers.into_iter().chain(notify).chain(commands).collect()
}

fn apply_environment(
    tree: &mut Node,
    environment: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    for known in ENVIRONMENT {
        let Some((_, text)) = environment.iter().find(|(name, _)| name == known.name) else {
            continue;
        };
        let Some((section, name)) = known.key.split_once('.') else { continue };
        let place =
            Place { origin: Origin::Environment(known.name), column: 0, key: known.key.to_owned() };
        match shape_at(section, name).map(|shape| check_plain(shape, text, &place)) {
            Some(Ok(value)) => {
                let entries = tree.entry(&[section]);
                entries.into_iter().for_each(|entries| {
                    entries.insert(
                        name.to_owned(),
                        Node { value: value.clone(), place: place.clone() },
                    );
                });
            }
            Some(Err(complaint)) => problems.push(place.problem(complaint)),
            None => debug_assert!(false, "{} sets a key that does not exist", known.name),
        }
    }
}

fn shape_at(section: &str, name: &str) -> Option<&'static Shape> {
    match &ROOT.key(section)?.shape {
        Shape::Table(table) => table.key(name).map(|key| &key.shape),
        _ => None,
    }
}

impl Resolved {
    /// Lists every value with its origin, in the order of the keys.
    pub fn show(&self) -> Vec<Shown> {
        let mut shown = Vec::new();
        show_node(&self.tree, "", &mut shown);
        shown
    }
}

fn show_node(node: &Node, key: &str, shown: &mut Vec<Shown>) {
    match &node.value {
        Value::Table(entries) => {
            entries.iter().for_each(|(name, below)| show_node(below, &join_key(key, name), shown))
        }
        _ => shown.push(Shown {
            key: key.to_owned(),
            value: node.to_json(),
            origin: node.place.origin.to_string(),
        }),
    }
}
