//! Dockerfiles and devcontainers: base images, packages, ports and the command that runs.

use crate::{
    finding::{App, Evidence, Findings, Pin},
    text,
    view::View,
};

/// Base images by name, and the program that they bring.
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

/// What a Dockerfile says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dockerfile {
    base: Option<(String, usize)>,
    command: Option<(String, usize)>,
    port: Option<(u16, usize)>,
    packages: Vec<String>,
}

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    for path in view
        .named(&["Dockerfile", "Dockerfile.dev", "Containerfile"])
        .into_iter()
        .filter(|path| !super::is_aside(path) && !path.starts_with(".devcontainer/"))
        .take(20)
    {
        let Some(source) = view.text(&path) else { continue };
        let file = parse(&source);
        pins(&path, &file, found);
        app(view, &path, &file, found);
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

/// Returns the image that a Dockerfile ends with.
pub(super) fn base(view: &View<'_>, path: &str) -> Option<String> {
    parse(&view.text(path)?).base.map(|(image, _)| image)
}

fn parse(source: &str) -> Dockerfile {
    let mut file = Dockerfile::default();
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
                file.base = Some((image.to_owned(), at + 1));
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

/// Returns the packages that `apt-get install` or `apk add` name.
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
    // The image of a devcontainer has a version of its own before that of the language: `1-3.12-bookworm`.
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

/// Gives an app of the folder its port, or makes one of the command where nothing else tells how to start.
fn app(view: &View<'_>, path: &str, file: &Dockerfile, found: &mut Findings) {
    let dir = text::folder(path);
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
    // A folder such as `docker` that holds nothing but the image is not an app of its own.
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
    let uses_pip = found.install_for(dir, &["pip"]).is_some();
    let in_environment = uses_pip
        && ["python", "python3", "gunicorn", "uvicorn", "flask", "streamlit", "celery"]
            .contains(&first.as_str());
    let command = if in_environment { format!(".venv/bin/{command}") } else { command.clone() };
    let mut app = App::web(&name, dir, command);
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

/// Takes over what the Dockerfile of a devcontainer tells, and what runs once it is made.
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
    fn dockerfiles_are_read() {
        let source = "FROM golang:1.22 AS build\nRUN go build\nCMD [\"x\"]\nFROM --platform=linux/amd64 debian:12\nRUN apt-get update && apt-get install -y \\\n  libpq5 curl && rm -rf x\nEXPOSE 8080/tcp\nCMD [\"sh\", \"-c\", \"run it\"]\n";
        let file = parse(source);
        assert_eq!(file.base, Some(("debian:12".to_owned(), 4)));
        assert_eq!(file.command, Some(("run it".to_owned(), 8)));
        assert_eq!(file.port, Some((8080, 7)));
        assert_eq!(file.packages, ["libpq5", "curl"]);
        assert_eq!(
            parse("FROM x\nCMD"),
            Dockerfile { base: Some(("x".into(), 1)), ..Dockerfile::default() }
        );
    }
}
