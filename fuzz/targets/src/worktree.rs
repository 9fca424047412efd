//! Files of a worktree, coverage reports of services, and tool calls of agents.

use hothouse_evidence::coverage::{
    ChangedText, Collector, Meter, reports,
    v8::{self, ScriptRun, ScriptText},
};
use hothouse_model::{config::LiveKeys, live_keys};
use hothouse_sdks::{FileKind, ProjectFile, lockfile};

/// Checks an env file of a worktree: every entry has a name, and is searched for live keys.
pub fn env_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (name, value) in live_keys::env_file_entries(&text) {
        assert!(!name.is_empty() && text.contains(&name));
        live_keys::find(&name, &value, &LiveKeys::default());
    }
}

/// Reads bytes as every kind of lockfile and manifest: whatever they contain, names are bounded by the file's length.
pub fn lockfiles(bytes: &[u8]) {
    for path in LOCKFILES {
        let kind = FileKind::of(path).expect("each of them is known");
        lockfile::read(kind, bytes, &mut |name, version| {
            // An invalid byte becomes three bytes.
            let most = bytes.len() * 3;
            assert!(name.len() <= most && version.is_none_or(|version| version.len() <= most));
        });
    }
    let files = LOCKFILES.map(|path| ProjectFile { path, bytes });
    hothouse_sdks::find(&files);
}

const LOCKFILES: [&str; 17] = [
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "package.json",
    "requirements.txt",
    "uv.lock",
    "Pipfile.lock",
    "pyproject.toml",
    "Cargo.lock",
    "Cargo.toml",
    "go.sum",
    "go.mod",
    "Gemfile.lock",
    "Gemfile",
    "composer.lock",
    "composer.json",
];

/// Checks coverage reports of services, and a source map: whatever they contain, lines are those of the change.
pub fn coverage_reports(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let files = [ChangedText {
        path: "src/a.ts".into(),
        text: Some(text.clone()),
        lines: vec![(2, 4), (9, 9)].into(),
    }];
    let roots = ["/workspace".to_owned()];
    let mut collector = Collector::new(&files, &roots);
    for script in reports::node(bytes) {
        collector.script(Meter::Node, &script);
    }
    collector.lines(Meter::Python, reports::python(bytes));
    collector.lines(Meter::Lcov, reports::lcov(&text));
    let whole = ScriptRun {
        url: "https://web.a.localhost/src/a.js".into(),
        ranges: v8::ranges(&serde_json::from_slice(bytes).unwrap_or_default()),
        text: ScriptText::Whole(text.clone()),
        map: None,
    };
    collector.script(Meter::Browser, &whole);
    collector.script(Meter::Browser, &ScriptRun { map: Some(bytes.to_vec()), ..whole });
    for file in collector.done().files {
        let told = file.ran.with(&file.idle);
        assert_eq!(told.within(&files[0].lines), told, "no line that was not changed");
        assert!(file.ran.within(&file.idle).is_empty(), "a line ran, or it did not");
    }
}

/// Checks hook input of coding agents: it is read or refused, and if read, a decision follows and can be answered.
pub fn guard(bytes: &[u8]) {
    struct Nothing;
    impl hothouse_guard::Files for Nothing {
        fn look(&self, path: &std::path::Path) -> hothouse_guard::Link {
            match path.ends_with("link") {
                true => hothouse_guard::Link::To("../..".into()),
                false => hothouse_guard::Link::Missing,
            }
        }
    }
    let unset = |_: &str| None;
    let scene = hothouse_guard::Scene {
        root: "/w/a".into(),
        also: vec!["/tmp".into()],
        home: "/home/u".into(),
        folder: "/w/a".into(),
        mode: hothouse_guard::Mode::Ask,
        in_room: true,
        variable: &unset,
        files: &Nothing,
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    let shell = serde_json::json!({ "tool": "bash", "args": { "command": text } }).to_string();
    for input in [bytes, shell.as_bytes()] {
        for vendor in hothouse_guard::Vendor::ALL.map(Some).into_iter().chain([None]) {
            let Ok(call) = hothouse_guard::Call::read(input, vendor) else { continue };
            let decision = hothouse_guard::decide(&call, &scene);
            let answer = call.vendor.answer(&decision);
            serde_json::from_str::<serde_json::Value>(&answer.stdout).expect("an answer is JSON");
            let hidden = hothouse_guard::redacted(&call.target);
            assert_eq!(hothouse_guard::redacted(&hidden), hidden, "what is redacted stays so");
        }
    }
}
