//! Scripts that start several others: each becomes a separate service.

use super::{Manager, Package, framework, ports};
use crate::{
    finding::{App, AppKind},
    text,
    view::View,
};

/// Returns the files that a command runs.
pub(super) fn entry_files(view: &View<'_>, package: &Package, line: &str) -> Vec<String> {
    let is_code = |word: &String| {
        [".js", ".ts", ".mjs", ".cjs", ".tsx", ".mts"].iter().any(|ending| word.ends_with(ending))
    };
    let named =
        text::words(line).into_iter().filter(is_code).map(|word| text::join(&package.dir, &word));
    let built = |path: String| {
        // The file may be built from one beside it.
        let source = path.replacen("dist/", "src/", 1).replacen("build/", "src/", 1);
        let as_ts = source.strip_suffix(".js").map(|stem| format!("{stem}.ts"));
        [Some(path), Some(source), as_ts].into_iter().flatten().collect::<Vec<_>>()
    };
    named.flat_map(built).filter(|path| view.has(path)).collect()
}

/// Returns the script that makes what another one starts, such as `dist/server.js`, unless that is committed or made by
/// the script itself.
pub(super) fn build_of(view: &View<'_>, package: &Package, script: &str) -> Option<&'static str> {
    const BUILDS: [&str; 4] = ["build", "compile", "build:dev", "build-ts"];
    const MADE: [&str; 5] = ["dist/", "build/", "out/", "lib/", ".build/"];
    let (mut script, mut depth) = (script, 0);
    let line = loop {
        let line = package.scripts.get(script)?;
        if package.scripts.contains_key(&format!("pre{script}")) {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        // A script may only name another one.
        match words[..] {
            ["npm", "start"] | ["yarn" | "pnpm", "start"] => script = "start",
            ["npm" | "yarn" | "pnpm" | "bun", "run", other] => script = other,
            ["yarn" | "pnpm", other] if package.scripts.contains_key(other) => script = other,
            _ => break line,
        }
        depth += 1;
        if depth > 3 {
            return None;
        }
    };
    let words = text::words(line);
    let does_more = words.iter().any(|word| ["&&", "&", ";", "|", "||"].contains(&word.as_str()));
    let is_plain = words.iter().any(|word| ["node", "nodemon"].contains(&text::name(word)));
    let is_made = |word: &String| {
        let path = word.trim_start_matches("./");
        let there = [path.to_owned(), format!("{path}.js")];
        MADE.iter().any(|folder| path.starts_with(folder))
            && !there.iter().any(|path| view.has(&text::join(&package.dir, path)))
    };
    if does_more || !is_plain || !words.iter().any(is_made) {
        return None;
    }
    BUILDS.into_iter().find(|name| package.scripts.contains_key(*name))
}

/// Returns the settings file that a command requires.
pub(super) fn env_file(line: &str) -> Option<String> {
    let words = text::words(line);
    // A file for containers is not needed in a room.
    if words.iter().any(|word| word.starts_with("docker") || word == "podman") {
        return None;
    }
    let value = |at: usize, flag: &str| {
        words[at]
            .strip_prefix(&format!("{flag}="))
            .map(str::to_owned)
            .or_else(|| (words[at] == flag).then(|| words.get(at + 1).cloned()).flatten())
    };
    let flagged = (0..words.len()).find_map(|at| value(at, "--env-file"));
    flagged.or_else(|| {
        let at = words.iter().position(|word| word == "env-cmd")?;
        let own = words[at..].iter().take_while(|word| *word != "--");
        let named = own.clone().position(|word| word == "-f" || word == "--file");
        let is_other = own
            .clone()
            .any(|word| ["-e", "-r", "--environments", "--fallback"].contains(&word.as_str()));
        match named {
            _ if is_other => None,
            Some(flag) => words.get(at + flag + 1).cloned(),
            None => Some(".env".to_owned()),
        }
    })
}

/// Returns the apps of a script such as `concurrently "npm:api" "npm:web"`.
pub(super) fn expanded(view: &View<'_>, package: &Package, manager: &Manager) -> Vec<App> {
    let script = ["dev", "start:dev", "develop", "start"]
        .into_iter()
        .find(|name| package.scripts.get(*name).is_some_and(|line| parts(package, line).len() > 1));
    let Some(script) = script else { return Vec::new() };
    let parts = parts(package, &package.scripts[script]);
    let inside = parts.iter().filter(|part| !leads_outside(&part.line));
    inside.map(|part| app(view, package, manager, part)).collect()
}

/// Whether a command exposes an app to the Internet, which a room does not allow.
fn leads_outside(line: &str) -> bool {
    const TUNNELS: [&str; 6] = ["cloudflared", "ngrok", "lt", "localtunnel", "tunnelmole", "untun"];
    let words = text::words(line);
    let mut words =
        words.iter().filter(|word| !["npx", "pnpm", "yarn", "dlx"].contains(&word.as_str()));
    words.next().is_some_and(|first| TUNNELS.contains(&text::name(first)))
}

/// Splits a command that runs in another folder through a flag of its package manager into the folder and the rest.
fn elsewhere(line: &str) -> Option<(String, String)> {
    const FLAGS: [(&str, &str); 5] = [
        ("npm", "--prefix"),
        ("yarn", "--cwd"),
        ("pnpm", "--dir"),
        ("pnpm", "-C"),
        ("bun", "--cwd"),
    ];
    let words = text::words(line);
    let first = words.first()?;
    let is_used = |flag: &str| words.iter().any(|word| names(word, flag));
    let (manager, flag) =
        FLAGS.into_iter().find(|(manager, flag)| first == manager && is_used(flag))?;
    let at = words.iter().position(|word| names(word, flag))?;
    let (folder, used) = match words[at].split_once('=') {
        Some((_, folder)) => (folder.to_owned(), 1),
        None => (words.get(at + 1)?.clone(), 2),
    };
    let rest = words[..at].iter().chain(&words[at + used..]);
    let rest: Vec<_> = rest.map(|word| text::shell_word(word)).collect();
    let is_plain =
        !["&&", "||", ";", "|"].iter().any(|word| rest.iter().any(|own| own.contains(word)));
    (is_plain && manager == rest.first()?).then(|| (folder, rest.join(" ")))
}

/// Whether a word is a flag, with or without its value.
fn names(word: &str, flag: &str) -> bool {
    word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
}

/// Whether a command begins with a program that finds those of packages itself.
fn finds_packages(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    ["npm", "npx", "yarn", "pnpm", "bun", "bunx", "node"].contains(&first)
}

/// One of several commands in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    dir: String,
    /// The script that it runs, if any.
    script: Option<String>,
    line: String,
}

fn app(view: &View<'_>, package: &Package, manager: &Manager, part: &Part) -> App {
    let run = match &part.script {
        Some(script) => manager.run(script),
        None if finds_packages(&part.line) => part.line.clone(),
        // Programs of packages are found, as in a script.
        None => format!("export PATH=\"$PWD/node_modules/.bin:$PATH\"; {}", part.line),
    };
    let mut app = App::web(&text::service_name(&part.name), &part.dir, run);
    let needle = part.script.as_deref().unwrap_or("dev");
    app.evidence.push(view.evidence(
        &package.file(),
        &format!("\"{needle}\""),
        format!("one of several that start together: {}", part.line),
    ));
    let own = super::Package::read(view, &part.dir);
    let owner = own.as_ref().unwrap_or(package);
    let line = own.as_ref().and_then(|own| {
        let script = part.line.split_whitespace().last()?;
        own.scripts.get(script).cloned()
    });
    let line = line.unwrap_or_else(|| part.line.clone());
    let known = framework::of(view, owner, &line);
    app.framework = known.map(|known| known.title);
    let entries = entry_files(view, owner, &line);
    let in_source = || ports::in_files(view, entries.iter().map(String::as_str));
    app.port = ports::of_command(&line)
        .or_else(|| framework::configured(view, &part.dir).map(|(port, _)| port))
        .or(known.and_then(|known| known.port))
        .or_else(|| in_source().map(|(port, _)| port));
    if app.port.is_none() && known.is_none() {
        app.kind = AppKind::Worker;
    }
    app
}

/// Returns the scripts that match a pattern such as `dev:*`, or the command itself.
fn matching(package: &Package, command: &str, is_concurrently: bool) -> Vec<String> {
    let (prefix, pattern) = match (command.strip_prefix("npm:"), is_concurrently) {
        (Some(pattern), _) => ("npm:", pattern),
        (None, true) => return vec![command.to_owned()],
        (None, false) => ("", command),
    };
    let Some(start) = pattern.strip_suffix('*').map(|start| start.trim_end_matches('*')) else {
        return vec![command.to_owned()];
    };
    let names = package.scripts.keys().filter(|name| name.starts_with(start));
    names.map(|name| format!("{prefix}{name}")).collect()
}

/// Splits a line that starts several commands.
fn parts(package: &Package, line: &str) -> Vec<Part> {
    let words = text::words(line);
    let first = words.iter().position(|word| {
        ["concurrently", "npm-run-all", "run-p", "npm-run-all2"].contains(&text::name(word))
    });
    let Some(first) = first else { return Vec::new() };
    let takes_value =
        |word: &str| ["-n", "--names", "-c", "--prefix-colors", "-p", "--prefix"].contains(&word);
    let is_concurrently = text::name(&words[first]) == "concurrently";
    let names: Vec<String> = words
        .iter()
        .position(|word| word == "-n" || word == "--names")
        .and_then(|at| words.get(at + 1))
        .map(|names| names.split(',').map(str::to_owned).collect())
        .unwrap_or_default();
    let (mut commands, mut rest) = (Vec::new(), words[first + 1..].iter());
    while let Some(word) = rest.next() {
        if is_concurrently && takes_value(word) {
            rest.next();
        } else if !word.starts_with('-') {
            commands.extend(matching(package, word, is_concurrently));
        }
    }
    let one = |(at, command): (usize, &String)| {
        let script = command
            .strip_prefix("npm:")
            .or_else(|| command.strip_prefix("npm run "))
            .or_else(|| command.strip_prefix("yarn "))
            .or_else(|| command.strip_prefix("pnpm "))
            .or_else(|| command.strip_prefix("yarn run "))
            .or((!is_concurrently).then_some(command.as_str()));
        let script = script.map(|script| script.trim_start_matches("run ").trim().to_owned());
        let script = script.filter(|script| package.scripts.contains_key(script));
        let line = script
            .as_ref()
            .map_or_else(|| command.clone(), |script| package.scripts[script].clone());
        let name = names
            .get(at)
            .cloned()
            .or_else(|| script.clone())
            .unwrap_or_else(|| format!("app-{}", at + 1));
        // `cd client && npm start` is a command for that folder.
        let (dir, script, line) =
            match line.strip_prefix("cd ").and_then(|rest| rest.split_once("&&")) {
                Some((folder, rest)) => {
                    (text::join(&package.dir, folder.trim()), None, rest.trim().to_owned())
                }
                None => match elsewhere(&line) {
                    Some((folder, rest)) if !text::leaves(&package.dir, &folder) => {
                        (text::join(&package.dir, &folder), None, rest)
                    }
                    _ => (package.dir.clone(), script, line),
                },
            };
        let name = name
            .trim_start_matches("dev:")
            .trim_start_matches("start:")
            .trim_start_matches("watch:")
            .to_owned();
        Part { name, dir, script, line }
    };
    commands.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::{elsewhere, env_file, leads_outside};

    #[test]
    fn commands_of_other_folders_are_known() {
        for (line, expected) in [
            ("npm start --prefix frontend", Some(("frontend", "npm start"))),
            ("npm --prefix=web run dev", Some(("web", "npm run dev"))),
            ("yarn --cwd client dev", Some(("client", "yarn dev"))),
            ("pnpm -C apps/web dev", Some(("apps/web", "pnpm dev"))),
            ("npm start --prefix web && echo x", None),
            ("concurrently --prefix web npm", None),
            ("npm start", None),
        ] {
            let found = elsewhere(line);
            let found = found.as_ref().map(|(folder, rest)| (folder.as_str(), rest.as_str()));
            assert_eq!(found, expected, "{line}");
        }
        for (line, expected) in [
            ("cloudflared tunnel run x", true),
            ("npx localtunnel --port 3000", true),
            ("vite", false),
            ("", false),
        ] {
            assert_eq!(leads_outside(line), expected, "{line}");
        }
    }

    #[test]
    fn commands_that_fail_without_a_file_are_known() {
        for (line, file) in [
            ("tsx --env-file=.env src/server.ts", Some(".env")),
            ("node --env-file .env.local server.js", Some(".env.local")),
            ("env-cmd -- ts-node x.ts", Some(".env")),
            ("env-cmd -f ./.env.dev next dev", Some("./.env.dev")),
            ("env-cmd -e dev next dev", None),
            ("node --env-file-if-exists=.env server.js", None),
            ("docker compose --env-file .env up", None),
            ("dotenv -e .env -- next dev", None),
            ("next dev", None),
        ] {
            assert_eq!(env_file(line).as_deref(), file, "{line}");
        }
    }
}
