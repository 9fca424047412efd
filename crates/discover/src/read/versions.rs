//! Versions of toolchains that a repository requires.

use crate::{
    finding::{Findings, Pin},
    text,
    view::View,
};

/// Files that contain one version, and its program.
const FILES: [(&str, &str); 13] = [
    (".nvmrc", "node"),
    (".node-version", "node"),
    (".python-version", "python3"),
    ("runtime.txt", "python3"),
    (".ruby-version", "ruby"),
    (".go-version", "go"),
    (".java-version", "java"),
    (".elixir-version", "elixir"),
    ("rust-toolchain", "rustc"),
    (".bun-version", "bun"),
    (".deno-version", "deno"),
    (".php-version", "php"),
    (".terraform-version", "terraform"),
];

/// Tool names in `.tool-versions` and `mise.toml`.
const TOOLS: [(&str, &str); 16] = [
    ("nodejs", "node"),
    ("node", "node"),
    ("python", "python3"),
    ("ruby", "ruby"),
    ("golang", "go"),
    ("go", "go"),
    ("rust", "rustc"),
    ("java", "java"),
    ("elixir", "elixir"),
    ("erlang", "erl"),
    ("bun", "bun"),
    ("deno", "deno"),
    ("php", "php"),
    ("pnpm", "pnpm"),
    ("dotnet", "dotnet"),
    ("uv", "uv"),
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    for (file, program) in FILES {
        let Some(text) = view.text(file) else { continue };
        let Some(version) =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
        else {
            continue;
        };
        if !version.starts_with('[') && (file != "runtime.txt" || version.starts_with("python-")) {
            pin(view, found, program, version, file);
        }
    }
    if let Some(channel) =
        view.toml("rust-toolchain.toml").and_then(|value| text_at(&value, "/toolchain/channel"))
    {
        pin(view, found, "rustc", &channel, "rust-toolchain.toml");
    }
    if let Some(text) = view.text(".tool-versions") {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some(tool), Some(version)) = (words.next(), words.next()) {
                named(view, found, tool, version, ".tool-versions");
            }
        }
    }
    for file in ["mise.toml", ".mise.toml", ".config/mise.toml"] {
        let Some(value) = view.toml(file) else { continue };
        let Some(tools) = value["tools"].as_object() else { continue };
        for (tool, version) in tools {
            let version = version
                .as_str()
                .or_else(|| version[0].as_str())
                .or_else(|| version["version"].as_str());
            named(view, found, tool, version.unwrap_or("latest"), file);
        }
    }
    python(view, found);
    if let Some(version) =
        view.json("package.json").and_then(|value| text_at(&value, "/engines/node"))
    {
        pin(view, found, "node", &version, "package.json");
    }
    if let Some(version) =
        view.json("global.json").and_then(|value| text_at(&value, "/sdk/version"))
    {
        pin(view, found, "dotnet", &version, "global.json");
    }
    if let Some(text) = view.text("go.mod")
        && let Some(version) = text.lines().find_map(|line| line.strip_prefix("go "))
    {
        pin(view, found, "go", version.trim(), "go.mod");
    }
}

/// Reads the versions that Python manifests require, that of the root first.
fn python(view: &View<'_>, found: &mut Findings) {
    for file in view.named(&[".python-version"]).iter().filter(|path| !super::is_aside(path)) {
        let text = view.text(file).unwrap_or_default();
        if let Some(version) = text.lines().map(str::trim).find(|line| !line.is_empty()) {
            pin(view, found, "python3", version, file);
        }
    }
    let manifests = view.named(&["pyproject.toml", "Pipfile"]);
    for file in manifests.iter().filter(|path| !super::is_aside(path)).take(20) {
        let Some(value) = view.toml(file) else { continue };
        let places = [
            "/project/requires-python",
            "/tool/poetry/dependencies/python",
            "/requires/python_version",
        ];
        if let Some(version) = places.iter().find_map(|place| text_at(&value, place)) {
            let evidence = view.evidence(file, &version, format!("python3 {version}"));
            found.ranges.push(Pin { program: "python3", version: version.clone(), evidence });
            pin(view, found, "python3", &version, file);
        }
    }
}

fn text_at(value: &serde_json::Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

fn named(view: &View<'_>, found: &mut Findings, tool: &str, version: &str, file: &str) {
    if let Some((_, program)) = TOOLS.iter().find(|(name, _)| *name == tool) {
        pin(view, found, program, version, file);
    }
}

fn pin(view: &View<'_>, found: &mut Findings, program: &'static str, version: &str, file: &str) {
    let version: String = version.chars().take(60).collect();
    if found.pins.iter().any(|pin| pin.program == program) {
        return;
    }
    let evidence = view.evidence(file, &version, format!("{} {version}", text::name(program)));
    found.pins.push(Pin { program, version, evidence });
}
