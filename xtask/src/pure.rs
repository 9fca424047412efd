//! Crates without effects: values in, values out.
//!
//! Dependencies show most of it (`docs/crates.md`); files, clocks and the environment are in the standard library, so
//! only the source shows their use.

use std::path::Path;

use hothouse_host::files;

use crate::borders::sources;

/// The crates that are pure according to `docs/ARCHITECTURE.md`.
const PURE: [&str; 13] = [
    "config",
    "dashboard",
    "evidence",
    "guard",
    "http",
    "mcp",
    "mock",
    "model",
    "room-wire",
    "sdks",
    "service",
    "sinks",
    "supervise",
];

/// Anything beyond the values that a function is given.
const EFFECTS: [&str; 15] = [
    "hothouse_host",
    "rustix",
    "std::env::",
    "env::var",
    "std::fs",
    "fs::File",
    "std::process",
    "std::thread",
    "tokio",
    "Instant::now",
    "SystemTime",
    "Timestamp::now",
    "TcpStream",
    "UdpSocket",
    "UnixStream",
];

/// Reports effects in crates that must not have any.
pub(crate) fn check() -> Result<(), String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for name in PURE {
        for file in sources(&crates.join(name).join("src"))? {
            if is_for_tests(&file) {
                continue;
            }
            let text = files::read_text(&file).map_err(|error| error.to_string())?;
            found.extend(effects(&text).map(|effect| format!("{}: {effect}", file.display())));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("these crates must be pure: {}", found.join(", "))),
    }
}

fn is_for_tests(file: &Path) -> bool {
    let names = ["tests", "tests.rs", "testing.rs"];
    file.iter().any(|part| names.iter().any(|name| part == *name))
}

/// Returns the effects that a source names outside of comments and of its tests, which come last.
fn effects(source: &str) -> impl Iterator<Item = &'static str> {
    let mut lines = source.lines().peekable();
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        match line {
            // Tests in a file of their own may be named above the code.
            "#[cfg(test)]" if lines.peek().is_some_and(|next| next.ends_with(';')) => {
                lines.next();
            }
            "#[cfg(test)]" => break,
            line if line.trim_start().starts_with("//") => {}
            line => code.push(line),
        }
    }
    EFFECTS.into_iter().filter(move |effect| code.iter().any(|line| line.contains(effect)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_seen_and_comments_and_tests_are_not() {
        for (source, expected) in [
            ("let now = Timestamp::now();", vec!["Timestamp::now"]),
            ("use std::fs;\nfs::File::open(x)", vec!["std::fs", "fs::File"]),
            ("// std::fs is not used\nfn f() {}", vec![]),
            ("fn f() {}\n#[cfg(test)]\nmod tests { use std::fs; }", vec![]),
            ("#[cfg(test)]\nmod testing;\nuse std::fs;", vec!["std::fs"]),
            ("use jiff::Timestamp;", vec![]),
        ] {
            assert_eq!(effects(source).collect::<Vec<_>>(), expected, "{source}");
        }
    }

    #[test]
    fn pure_crates_are_pure() {
        check().unwrap();
    }
}
