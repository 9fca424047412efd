//! Dockerfiles and devcontainers: base images, packages, ports and commands.

use std::collections::BTreeMap;

use crate::{
    finding::{App, Evidence, Findings, Pin},
    host::HostFacts,
    text,
    view::View,
};

/// Base images by name, and the program in them.
const BASES: [(&str, &str); 10] = [
    ("node", "node"),
    ("python", "python3"),
    ("golang", "go"),
    ("rust", "rustc"),
    ("ruby", "ruby"),
    ("php", "php"),
    ("elixir", "elixir"),
    ("openjdk", "java"),
    ("eclipse-temurin", "java"),
    ("bun", "bun"),
];

/// The content of a Dockerfile.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dockerfile {
    base: Option<(String, usize)>,
    command: Option<(String, usize)>,
    port: Option<(u16, usize)>,
    packages: Vec<String>,
    stage: Stage,
}

/// What a stage of a Dockerfile passes to stages based on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stage {
    /// The working folder, such as `/app`.
    pub(super) folder: String,
    env: BTreeMap<String, String>,
    /// Copied paths: in the build context, and in the image.
    pub(super) copies: Vec<(String, String)>,
}

impl Stage {
    /// Resolves a path in the image to an absolute one.
    fn absolute(&self, path: &str) -> String {
        match path.starts_with('/') {
            true => format!("/{}", text::join("", path)),
            false => format!("/{}", text::join(&self.folder, path)),
        }
    }

    fn add_env(&mut self, rest: &str) {
        let words = text::words(rest);
        let is_pair =
            |word: &String| word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
        let pairs: Vec<(String, String)> = match words.as_slice() {
            all if all.iter().all(is_pair) => {
                let pairs = all.iter().filter_map(|word| word.split_once('='));
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
            }
            // The legacy form: one name, and the rest of the line.
            [name, value @ ..] => vec![(name.clone(), value.join(" "))],
            [] => Vec::new(),
        };
        self.env.extend(pairs);
    }

    fn add_copies(&mut self, rest: &str) {
        let words: Vec<String> = serde_json::from_str(rest).unwrap_or_else(|_| text::words(rest));
        // Files from another stage are not from the repository.
        if words.iter().any(|word| word.starts_with("--from")) {
            return;
        }
        let words: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
        let Some((target, sources)) = words.split_last() else { return };
        let is_plain = |path: &&&String| !path.contains(['*', '?', '$', ':']);
        for source in sources.iter().filter(is_plain) {
            let target = match target.ends_with('/') && text::name(source).contains('.') {
                true => self.absolute(&format!("{target}{}", text::name(source))),
                false => self.absolute(target),
            };
            self.copies.push(((*source).clone(), target));
        }
    }
}

/// Variables about the image itself, not about the app in it.
const OF_IMAGES: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "TERM",
    "TZ",
    "PORT",
    "HOST",
    "HOSTNAME",
    "NODE_ENV",
    "NODE_VERSION",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CI",
    "GOPATH",
    "CGO_ENABLED",
    "LD_PRELOAD",
    "NEXT_TELEMETRY_DISABLED",
];

/// Prefixes of such variables.
const OF_TOOLS: [&str; 17] = [
    "LC_",
    "LANG",
    "PIP_",
    "UV_",
    "POETRY_",
    "PDM_",
    "PIPENV_",
    "DEBIAN_",
    "NPM_",
    "npm_",
    "PNPM_",
    "YARN_",
    "BUNDLE_",
    "GEM_",
    "COREPACK_",
    "CARGO_",
    "RUSTUP_",
];

/// Returns the variables that an image sets for its app and that also apply in development.
fn variables(view: &View<'_>, stage: &Stage, context: &str) -> BTreeMap<String, String> {
    let is_tools = |name: &str| {
        OF_IMAGES.contains(&name) || OF_TOOLS.iter().any(|prefix| name.starts_with(prefix))
    };
    let one = |(name, value): (&String, &String)| {
        let is_of_production = ["prod", "production"].iter().any(|word| {
            value.to_ascii_lowercase().split(['.', '-', '_']).any(|part| part == *word)
        });
        if is_tools(name) || is_of_production || value.contains('$') || value.is_empty() {
            return None;
        }
        // A path in the image counts only if it corresponds to one in the repository.
        let value = match value.starts_with('/') {
            true => format!("{OF_ROOT}{}", located(view, &places(stage, context), value)?),
            false => value.clone(),
        };
        Some((name.clone(), value))
    };
    stage.env.iter().filter_map(one).collect()
}

/// Returns where repository files are in an image: the path there, and the path here.
pub(super) fn places(stage: &Stage, context: &str) -> Vec<(String, String)> {
    let one = |(source, target): &(String, String)| {
        (!text::leaves(context, source)).then(|| (target.clone(), text::join(context, source)))
    };
    stage.copies.iter().filter_map(one).collect()
}

/// Returns the repository file or folder for a path in an image.
pub(super) fn located(view: &View<'_>, places: &[(String, String)], path: &str) -> Option<String> {
    let below = |target: &str| {
        let rest = path.strip_prefix(target.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
    };
    let mut fitting: Vec<(usize, String)> = places
        .iter()
        .filter_map(|(target, source)| Some((target.len(), text::join(source, &below(target)?))))
        .collect();
    // A file copied into a folder keeps its name.
    let named = |(target, source): &(String, String)| {
        let kept = format!("{}/{}", target.trim_end_matches('/'), text::name(source));
        (kept == path && view.has(source)).then(|| (kept.len(), source.clone()))
    };
    fitting.extend(places.iter().filter_map(named));
    // Deeper paths hide the ones around them.
    fitting.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    let known = |path: &String| path.is_empty() || view.has(path) || view.has_folder(path);
    fitting.into_iter().map(|(_, path)| path).find(known)
}

/// Parses the last stage of a Dockerfile.
pub(super) fn stage(view: &View<'_>, path: &str) -> Stage {
    view.text(path).map(|source| parse(&source).stage).unwrap_or_default()
}

pub(super) fn read(view: &View<'_>, host: &HostFacts, found: &mut Findings) {
    for path in view
        .named(&["Dockerfile", "Dockerfile.dev", "Containerfile"])
        .into_iter()
        .filter(|path| !super::is_aside(path) && !path.starts_with(".devcontainer/"))
        .take(20)
    {
        let Some(source) = view.text(&path) else { continue };
        let file = parse(&source);
        pins(&path, &file, found);
        app(view, host, &path, &file, found);
        if text::folder(&path).is_empty() && !file.packages.is_empty() {
            let fact = format!("the image installs {}", file.packages.join(", "));
            found.caveats.push(Evidence {
                line: text::line_of(&source, "install"),
                file: path.clone(),
                fact,
            });
        }
    }
    devcontainer(view, found);
}

/// Returns the base image of the last stage.
pub(super) fn base(view: &View<'_>, path: &str) -> Option<String> {
    parse(&view.text(path)?).base.map(|(image, _)| image)
}

fn parse(source: &str) -> Dockerfile {
    let mut file = Dockerfile::default();
    let mut stages: BTreeMap<String, Stage> = BTreeMap::new();
    let mut bases: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut stage_name: Option<String> = None;
    let mut lines = source.lines().enumerate().take(5000);
    while let Some((at, line)) = lines.next() {
        let mut whole = line.trim().to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            match lines.next() {
                Some((_, next)) => whole.push_str(next.trim()),
                None => break,
            }
            if whole.len() > 20_000 {
                break;
            }
        }
        let (word, rest) = whole.split_once(char::is_whitespace).unwrap_or((&whole, ""));
        let rest = rest.trim();
        match word.to_ascii_uppercase().as_str() {
            "FROM" => {
                let image = rest
                    .split_whitespace()
                    .find(|word| !word.starts_with("--"))
                    .unwrap_or_default();
                if let Some(name) = stage_name.take() {
                    bases.extend(file.base.clone().map(|base| (name.clone(), base)));
                    stages.insert(name, file.stage);
                }
                let mut words = rest.split_whitespace().rev();
                let name = words
                    .next()
                    .filter(|_| words.next().is_some_and(|word| word.eq_ignore_ascii_case("as")));
                stage_name = name.map(str::to_owned);
                file.stage = stages.get(image).cloned().unwrap_or_default();
                // A stage that is based on another one has that one's base.
                let base = bases.get(image).cloned();
                file.base = Some(base.unwrap_or_else(|| (image.to_owned(), at + 1)));
                // A later stage has its own command.
                (file.command, file.port) = (None, None);
            }
            "EXPOSE" => {
                let port =
                    rest.split_whitespace().find_map(|word| word.split('/').next()?.parse().ok());
                file.port = file.port.or(port.map(|port| (port, at + 1)));
            }
            "CMD" => file.command = shell_line(rest).map(|line| (line, at + 1)),
            "ENTRYPOINT" if file.command.is_none() => {
                file.command = shell_line(rest).map(|line| (line, at + 1))
            }
            "WORKDIR" => file.stage.folder = file.stage.absolute(rest.trim_matches('"')),
            "ENV" => file.stage.add_env(rest),
            "COPY" | "ADD" => file.stage.add_copies(rest),
            "RUN" => file.packages.extend(packages(rest)),
            _ => {}
        }
    }
    file.packages.dedup();
    file
}

fn shell_line(text: &str) -> Option<String> {
    let words: Vec<String> = match serde_json::from_str(text) {
        Ok(words) => words,
        Err(_) => {
            return Some(text.to_owned()).filter(|text| !text.is_empty() && !text.starts_with('['));
        }
    };
    match words.as_slice() {
        [shell, flag, line] if shell.ends_with("sh") && flag == "-c" => Some(line.clone()),
        words => {
            Some(words.iter().map(|word| text::shell_word(word)).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns the packages in `apt-get install` or `apk add`.
fn packages(line: &str) -> Vec<String> {
    let Some((_, rest)) = line
        .split_once("apt-get install")
        .or_else(|| line.split_once("apt install"))
        .or_else(|| line.split_once("apk add"))
    else {
        return Vec::new();
    };
    let rest = rest.split(['&', ';', '|', '#']).next().unwrap_or_default();
    let is_package = |word: &&str| !word.starts_with('-') && !word.contains('$') && word.len() < 60;
    rest.split_whitespace().filter(is_package).take(40).map(str::to_owned).collect()
}

fn pins(path: &str, file: &Dockerfile, found: &mut Findings) {
    let Some((image, line)) = &file.base else { return };
    let (name, tag) = super::compose::image_parts(image);
    // Devcontainer images have their own version before that of the language: `1-3.12-bookworm`.
    let tag = tag.map(|tag| match tag.split_once('-') {
        Some((own, rest)) if image.contains("devcontainers/") && own.parse::<u8>().is_ok() => {
            rest.to_owned()
        }
        _ => tag,
    });
    let (Some((_, program)), Some(tag)) = (BASES.iter().find(|(base, _)| *base == name), tag)
    else {
        return;
    };
    if text::major(&tag).is_none() || found.pins.iter().any(|pin| pin.program == *program) {
        return;
    }
    let version: String = tag.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let evidence =
        Evidence { file: path.to_owned(), line: *line, fact: format!("the image is {image}") };
    found.pins.push(Pin { program, version, evidence });
}

/// Marks a path relative to the repository's root, which each service sees relative to its own folder.
pub(crate) const OF_ROOT: &str = "root:";

/// Marks variables of an image: examples of settings and compose take precedence.
pub(crate) const OF_IMAGE: &str = "image:";

/// Sets the port of an app in the folder, or creates one from the command if nothing else says how to start.
fn app(view: &View<'_>, host: &HostFacts, path: &str, file: &Dockerfile, found: &mut Findings) {
    let dir = text::folder(path);
    for app in found.apps.iter_mut().filter(|app| app.dir == dir) {
        for (name, value) in variables(view, &file.stage, dir) {
            app.env.entry(name).or_insert_with(|| format!("{OF_IMAGE}{value}"));
        }
    }
    let exposed = file.port.map(|(port, line)| {
        (port, Evidence { file: path.to_owned(), line, fact: format!("it exposes {port}") })
    });
    if let Some(app) =
        found.apps.iter_mut().find(|app| app.dir == dir && app.kind == crate::finding::AppKind::Web)
    {
        if let (None, Some((port, evidence))) = (app.port, exposed) {
            app.port = Some(port);
            app.evidence.push(evidence);
        }
        return;
    }
    // A folder such as `docker` that contains only the image is not a separate app.
    const MANIFESTS: [&str; 13] = [
        "package.json",
        "pyproject.toml",
        "requirements.txt",
        "Pipfile",
        "manage.py",
        "go.mod",
        "Cargo.toml",
        "Gemfile",
        "composer.json",
        "mix.exs",
        "pom.xml",
        "build.gradle",
        "deno.json",
    ];
    let is_bare = !dir.is_empty() && view.first(dir, &MANIFESTS).is_none();
    let has_app = is_bare && !found.apps.is_empty()
        || found.apps.iter().any(|app| app.dir == dir || dir.is_empty());
    let Some((command, line)) = file.command.as_ref().filter(|_| !has_app) else { return };
    // Paths such as `/app/server` exist only in the image.
    let first = text::words(command).into_iter().next().unwrap_or_default();
    if first.starts_with('/')
        || first.starts_with("./")
        || first.contains("nginx")
        || first.is_empty()
        || command.contains("$")
    {
        return;
    }
    let name = if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(dir)) };
    // It runs in the image's working folder, if that corresponds to one in the repository.
    let home = located(view, &places(&file.stage, dir), &file.stage.folder);
    let home = home.filter(|home| home != dir && view.has_folder(home));
    let home = home.as_deref().unwrap_or(dir);
    if text::words(command)
        .iter()
        .any(|word| ["node", "npm", "yarn", "pnpm"].contains(&word.as_str()))
    {
        super::node::install_for(view, host, home, found);
    }
    let mut app = App::web(&name, home, super::python::found_from(found, home, command, false));
    let own = variables(view, &file.stage, dir).into_iter();
    app.env.extend(own.map(|(name, value)| (name, format!("{OF_IMAGE}{value}"))));
    app.port = super::ports::of_command(&app.run).or(exposed.as_ref().map(|(port, _)| *port));
    app.evidence.push(Evidence {
        file: path.to_owned(),
        line: *line,
        fact: "the image's command".to_owned(),
    });
    app.evidence.extend(exposed.map(|(_, evidence)| evidence));
    if app.port.is_none() {
        app.kind = crate::finding::AppKind::Worker;
    }
    found.apps.push(app);
}

/// Reads the Dockerfile of a devcontainer, and its setup commands.
fn devcontainer_file(view: &View<'_>, path: &str, value: &serde_json::Value, found: &mut Findings) {
    let name = value["build"]["dockerfile"].as_str().or_else(|| value["dockerFile"].as_str());
    let folder = text::folder(path);
    if let Some(name) = name.filter(|name| !text::leaves(folder, name)) {
        let dockerfile = text::join(folder, name);
        if let Some(source) = view.text(&dockerfile) {
            let file = parse(&source);
            pins(&dockerfile, &file, found);
            if !file.packages.is_empty() {
                let fact = format!(
                    "the devcontainer installs {}: install what the app needs of it on this host, or build a stack of them (`stacks/NAME.sh`)",
                    file.packages.join(", ")
                );
                found.caveats.push(view.evidence(&dockerfile, "install", fact));
            }
        }
    }
    for key in ["postCreateCommand", "updateContentCommand"] {
        if let Some(line) = value[key].as_str() {
            let line: String = line.chars().take(200).collect();
            let fact = format!(
                "the devcontainer runs `{line}` once it is made; what `install` does not do of it needs a task"
            );
            found.caveats.push(view.evidence(path, key, fact));
        }
    }
}

fn devcontainer(view: &View<'_>, found: &mut Findings) {
    let Some(path) = view.first("", &[".devcontainer/devcontainer.json", ".devcontainer.json"])
    else {
        return;
    };
    let Some(value) = view.json(&path) else { return };
    if let Some(image) = value["image"].as_str() {
        let evidence = view.evidence(&path, image, format!("the devcontainer runs in {image}"));
        let file =
            Dockerfile { base: Some((image.to_owned(), evidence.line)), ..Dockerfile::default() };
        pins(&path, &file, found);
        found.caveats.push(evidence);
    }
    devcontainer_file(view, &path, &value, found);
    for (feature, _) in value["features"].as_object().into_iter().flatten() {
        let name = text::name(feature.split(':').next().unwrap_or(feature)).to_owned();
        let program = match name.as_str() {
            "node" => "node",
            "python" => "python3",
            "go" => "go",
            "rust" => "cargo",
            "ruby" => "ruby",
            "java" => "java",
            "dotnet" => "dotnet",
            "php" => "php",
            _ => continue,
        };
        let evidence = view.evidence(&path, feature, format!("the devcontainer has {name}"));
        found.needs(program, &evidence);
    }
    let forwarded = value["forwardPorts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| port.as_u64()?.try_into().ok());
    let forwarded: Vec<u16> = forwarded.collect();
    let mut without: Vec<&mut App> = found
        .apps
        .iter_mut()
        .filter(|app| app.port.is_none() && app.kind == crate::finding::AppKind::Web)
        .collect();
    if let ([port], [app]) = (forwarded.as_slice(), without.as_mut_slice()) {
        app.port = Some(*port);
        app.evidence.push(view.evidence(
            &path,
            &port.to_string(),
            format!("the devcontainer forwards {port}"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_variables_and_copies_are_those_of_the_last_stage() {
        let source = "FROM python:3.12 AS base\nENV A=1 B='two words'\nENV OLD form of it\nWORKDIR /srv\nWORKDIR app\n\
            FROM node:20 AS built\nENV LOST=1\nCOPY . /elsewhere\nFROM base\nCOPY --from=built /x /y\nCOPY --chown=1 ./src .\n\
            COPY compose/start compose/other.sh /bin/\nCOPY [\"run\", \"/run-it\"]\n";
        let stage = parse(source).stage;
        assert_eq!(stage.folder, "/srv/app");
        let env: Vec<_> = stage.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["A=1", "B=two words", "OLD=form of it"]);
        let places = places(&stage, "");
        let files: BTreeMap<String, String> =
            ["src/shop/main.py", "compose/start", "compose/other.sh", "run"]
                .map(|path| (path.to_owned(), String::new()))
                .into();
        let view = View::of(&files);
        for (path, expected) in [
            ("/srv/app", Some("src")),
            ("/srv/app/shop/main.py", Some("src/shop/main.py")),
            ("/bin/start", Some("compose/start")),
            ("/bin/other.sh", Some("compose/other.sh")),
            ("/run-it", Some("run")),
            ("/y", None),
            ("/elsewhere", None),
            ("/srv/application", None),
        ] {
            assert_eq!(located(&view, &places, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn dockerfiles_are_read() {
        let source = "FROM golang:1.22 AS build\nRUN go build\nCMD [\"x\"]\nFROM --platform=linux/amd64 debian:12\nRUN apt-get update && apt-get install -y \\\n  libpq5 curl && rm -rf x\nEXPOSE 8080/tcp\nCMD [\"sh\", \"-c\", \"run it\"]\n";
        let file = parse(source);
        assert_eq!(file.base, Some(("debian:12".to_owned(), 4)));
        assert_eq!(file.command, Some(("run it".to_owned(), 8)));
        assert_eq!(file.port, Some((8080, 7)));
        assert_eq!(file.packages, ["libpq5", "curl"]);
        let staged = parse("FROM python:3.7 AS builder\nRUN x\nFROM builder AS dev\nRUN y\n");
        assert_eq!(staged.base, Some(("python:3.7".to_owned(), 1)));
        assert_eq!(
            parse("FROM x\nCMD"),
            Dockerfile { base: Some(("x".into(), 1)), ..Dockerfile::default() }
        );
    }
}
