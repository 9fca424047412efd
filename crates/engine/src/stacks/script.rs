//! The sources of stacks: built-in scripts, scripts of the repository and of the user, and images.
//! Pure except for reading these files.

use std::path::Path;

use hothouse_host::{beneath::Folder, files};
use hothouse_images::ImageReference;
use hothouse_workspace::content;
use serde::Deserialize;

use super::RoomStackError;

/// Runs before every script.
const PRELUDE: &str = include_str!("scripts/prelude.sh");

/// The stack below every other one.
const BASE: &str = "base";

/// The stacks that come with the program.
const BUILT_IN: [(&str, &str); 7] = [
    (BASE, include_str!("scripts/base.sh")),
    ("rust", include_str!("scripts/rust.sh")),
    ("python", include_str!("scripts/python.sh")),
    ("node", include_str!("scripts/node.sh")),
    ("go", include_str!("scripts/go.sh")),
    ("dotnet", include_str!("scripts/dotnet.sh")),
    ("unison", include_str!("scripts/unison.sh")),
];

/// The folder of scripts in a repository and beside the user's settings.
const FOLDER: &str = "stacks";

/// The maximum size of a script.
const SCRIPT_LIMIT: u64 = 1 << 20;

/// The prefix of image names.
const IMAGE: &str = "image:";

/// The stack described by a repository's `devcontainer.json`.
const DEVCONTAINER: &str = "devcontainer";

const DEVCONTAINER_FILES: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];

/// Incremented when the same script should produce a different result.
const VERSION: &str = "1";

/// One layer of a stack.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) name: String,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// A script, and its origin.
    Script { text: String, from: String },
    /// A complete root file system.
    Image { reference: ImageReference, text: String, from: String },
}

impl Recipe {
    /// Returns its origin, for display.
    pub(super) fn source(&self) -> String {
        match &self.what {
            What::Script { from, .. } | What::Image { from, .. } => from.clone(),
        }
    }

    /// Returns its name in a form suitable for a folder.
    pub(super) fn slug(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
        self.name.chars().map(plain).take(60).collect()
    }

    /// Returns the hosts that its script needs besides registries: lines `# hosts: A B` at its top.
    pub(super) fn hosts(&self) -> Vec<String> {
        let What::Script { text, .. } = &self.what else { return Vec::new() };
        let head = text.lines().take_while(|line| line.starts_with('#') || line.trim().is_empty());
        let lists = head.filter_map(|line| line.strip_prefix("# hosts:"));
        let is_host = |word: &&str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-*".contains(c);
            !word.is_empty() && word.chars().all(plain)
        };
        lists.flat_map(str::split_whitespace).filter(is_host).map(str::to_owned).collect()
    }

    /// Returns the script to run, with the common prelude.
    pub(super) fn program(&self) -> String {
        let What::Script { text, .. } = &self.what else { return String::new() };
        format!("{PRELUDE}\n{text}\n")
    }
}

/// Lists the stacks that have a script.
pub(super) fn names(root: Option<&Path>, user: &Path) -> Vec<String> {
    let mut names: Vec<String> = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect();
    for folder in root.map(|root| root.join(FOLDER)).iter().map(|it| it.as_path()).chain([user]) {
        let files = files::list(folder).unwrap_or_default();
        let scripts = files.iter().filter(|file| file.extension().is_some_and(|end| end == "sh"));
        let found = scripts.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()));
        let mut found: Vec<String> = found.filter(|name| is_name(name)).collect();
        found.sort();
        names.extend(found);
    }
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=40).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('-')
}

/// Returns the recipes of a stack: itself, then its parents.
pub(super) fn chain(
    name: &str,
    root: Option<&Path>,
    user: &Path,
) -> Result<Vec<Recipe>, RoomStackError> {
    if let Some(reference) = name.strip_prefix(IMAGE) {
        return Ok(vec![image(name, reference, format!("image {reference}"))?]);
    }
    if name == DEVCONTAINER {
        return Ok(vec![devcontainer(root)?]);
    }
    let unknown = || {
        let mut known = vec![super::HOST.to_owned()];
        known.extend(names(root, user));
        known.extend(["image:REF".to_owned(), DEVCONTAINER.to_owned()]);
        RoomStackError::Unknown { name: name.to_owned(), known }
    };
    let own = script(name, root, user).ok_or_else(unknown)?;
    let mut chain = vec![own];
    if name != BASE {
        chain.extend(script(BASE, root, user));
    }
    Ok(chain)
}

/// Finds a script: the repository's own, the user's, or a built-in one.
fn script(name: &str, root: Option<&Path>, user: &Path) -> Option<Recipe> {
    if !is_name(name) {
        return None;
    }
    let file = format!("{name}.sh");
    let of_project = root.map(|_| (Path::new(FOLDER).join(&file), format!("{FOLDER}/{file}")));
    let of_user = (user.join(&file), "your own script".to_owned());
    let of_project = of_project.and_then(|(path, from)| Some((read_beneath(root?, &path)?, from)));
    let of_user = || Some((files::read_capped(&of_user.0, SCRIPT_LIMIT).ok()?, of_user.1.clone()));
    if let Some((bytes, from)) = of_project.or_else(of_user) {
        let text = String::from_utf8(bytes).ok()?;
        return Some(Recipe { name: name.to_owned(), what: What::Script { text, from } });
    }
    let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    let (text, from) = ((*text).to_owned(), "built in".to_owned());
    Some(Recipe { name: name.to_owned(), what: What::Script { text, from } })
}

/// Reads a file of a repository. Links may have come from a room, and are not followed.
fn read_beneath(root: &Path, file: &Path) -> Option<Vec<u8>> {
    Folder::open(root).ok()?.read_capped(file, SCRIPT_LIMIT).ok()
}

fn image(name: &str, text: &str, from: String) -> Result<Recipe, RoomStackError> {
    let reference = text
        .parse()
        .map_err(|source| RoomStackError::Reference { name: name.to_owned(), source })?;
    let what = What::Image { reference, text: text.to_owned(), from };
    Ok(Recipe { name: name.to_owned(), what })
}

/// The part of a `devcontainer.json` that describes its system.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Devcontainer {
    image: Option<String>,
    build: Option<serde_json::Value>,
    docker_file: Option<String>,
    docker_compose_file: Option<serde_json::Value>,
}

fn devcontainer(root: Option<&Path>) -> Result<Recipe, RoomStackError> {
    let name = || DEVCONTAINER.to_owned();
    let not = |why: String| RoomStackError::Devcontainer { name: name(), why };
    let read = |file: &&str| {
        let bytes = read_beneath(root?, Path::new(file))?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), (*file).to_owned()))
    };
    let found = DEVCONTAINER_FILES.iter().find_map(read);
    let (text, file) =
        found.ok_or_else(|| not(format!("the repository has no {}", DEVCONTAINER_FILES[0])))?;
    let read: Devcontainer = serde_json::from_str(&without_comments(&text))
        .map_err(|error| not(format!("{file} cannot be read: {error}")))?;
    match read {
        Devcontainer { image: Some(reference), .. } => {
            image(DEVCONTAINER, &reference, format!("image {reference} ({file})"))
        }
        Devcontainer { build: Some(_), .. } | Devcontainer { docker_file: Some(_), .. } => {
            Err(not(format!(
                "{file} names a Dockerfile, and Hothouse builds none: write what it installs as `stacks/NAME.sh`"
            )))
        }
        Devcontainer { docker_compose_file: Some(_), .. } => {
            Err(not(format!("{file} names a compose file: `hothouse init` makes services of it")))
        }
        _ => Err(not(format!("{file} names no image"))),
    }
}

/// Removes comments and trailing commas, which such files may have.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_text = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_text => {
                plain.push(c);
                plain.extend(chars.next());
            }
            '"' => {
                in_text = !in_text;
                plain.push(c);
            }
            '/' if !in_text && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            '/' if !in_text && chars.peek() == Some(&'*') => {
                let mut last = ' ';
                chars.next();
                for c in chars.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            '}' | ']' if !in_text => {
                let end = plain.trim_end().len();
                if plain[..end].ends_with(',') {
                    plain.truncate(end - 1);
                }
                plain.push(c);
            }
            c => plain.push(c),
        }
    }
    plain
}

/// Returns the digest of all inputs of a stack: its script, its parents', and the distribution.
pub(super) fn digest(chain: &[Recipe]) -> String {
    let system = files::read_capped(Path::new("/etc/os-release"), 1 << 16).unwrap_or_default();
    let mut parts: Vec<Vec<u8>> = vec![VERSION.into(), std::env::consts::ARCH.into()];
    for recipe in chain {
        match &recipe.what {
            What::Script { .. } => parts.push(recipe.program().into_bytes()),
            What::Image { text, .. } => parts.push(format!("{IMAGE}{text}").into_bytes()),
        }
    }
    if chain.iter().any(|recipe| matches!(recipe.what, What::Script { .. })) {
        parts.push(system);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    content::key(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_the_repository_replaces_one_of_the_program() {
        let root = tempfile::tempdir().unwrap();
        let user = tempfile::tempdir().unwrap();
        let of = |name: &str| chain(name, Some(root.path()), user.path());
        let before = of("node").unwrap();
        assert_eq!(before.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["node", BASE]);
        files::make_folder(&root.path().join(FOLDER)).unwrap();
        files::write(
            &root.path().join("stacks/node.sh"),
            "# hosts: a.example.com *.b.example.com\ntrue\n",
        )
        .unwrap();
        files::write(&root.path().join("stacks/Bad Name.sh"), "true\n").unwrap();
        files::write(&user.path().join("own.sh"), "true\n").unwrap();
        let after = of("node").unwrap();
        assert_ne!(digest(&before), digest(&after));
        assert_eq!(digest(&before[1..]), digest(&after[1..]));
        assert_eq!(after[0].hosts(), ["a.example.com", "*.b.example.com"]);
        assert_eq!(after[0].source(), "stacks/node.sh");
        assert_eq!(of("own").unwrap()[0].source(), "your own script");
        let all = names(Some(root.path()), user.path());
        assert_eq!(all.iter().filter(|name| *name == "node").count(), 1, "{all:?}");
        assert!(all.contains(&"own".to_owned()) && !all.iter().any(|name| name.contains(' ')));
        for name in ["nothing", "../etc/passwd", "", "-x"] {
            assert!(matches!(of(name), Err(RoomStackError::Unknown { .. })), "{name}");
        }
    }

    #[test]
    fn hosts_are_read_from_the_head_alone() {
        let text = "#!/bin/sh\n# hosts: one.example.com\n\ntrue\n# hosts: two.example.com\n";
        let what = What::Script { text: text.into(), from: String::new() };
        let recipe = Recipe { name: "x".into(), what };
        assert_eq!(recipe.hosts(), ["one.example.com"]);
    }

    #[test]
    fn a_devcontainer_is_its_image() {
        let root = tempfile::tempdir().unwrap();
        let of = || chain(DEVCONTAINER, Some(root.path()), Path::new("/none"));
        assert!(of().unwrap_err().to_string().contains("has no .devcontainer"));
        let write =
            |text: &str| files::write(&root.path().join(".devcontainer.json"), text).unwrap();
        write("{ // a comment, \"x\"\n \"name\": \"a//b\", \"image\": \"debian:12\", /* more */ }");
        let found = of().unwrap();
        assert_eq!(found[0].source(), "image debian:12 (.devcontainer.json)");
        write("{ \"build\": { \"dockerfile\": \"Dockerfile\" } }");
        assert!(of().unwrap_err().to_string().contains("names a Dockerfile"));
        write("{ nonsense");
        assert!(of().unwrap_err().to_string().contains("cannot be read"));
    }
}
