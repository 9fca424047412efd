//! Small repositories, one per ecosystem and manager, and the draft for each.
//!
//! A repository is a file in `corpus/`: `-- path --` begins a file, `-- path (committed) --` a committed one with
//! settings. The draft must be a valid configuration, and is compared with the page in `snapshots/`; run with
//! `INSTA_UPDATE=always` to write pages, and review the difference.

#![expect(clippy::disallowed_methods, reason = "tests read files by plain means")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use hothouse_discover::{HostFacts, View, plan, write};

fn header(line: &str) -> Option<&str> {
    let path = line.strip_prefix("-- ")?.strip_suffix(" --")?;
    Some(path.strip_suffix(COMMITTED).unwrap_or(path))
}

const COMMITTED: &str = " (committed)";

fn committed(text: &str) -> BTreeSet<String> {
    let is_one = |line: &&str| line.ends_with(&format!("{COMMITTED} --"));
    text.lines().filter(is_one).filter_map(header).map(str::to_owned).collect()
}

fn repository(text: &str) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(path) = header(line) {
            files.insert(path.to_owned(), String::new());
            current = Some(path.to_owned());
        } else if let Some(file) = current.as_ref().and_then(|path| files.get_mut(path)) {
            file.push_str(line);
            file.push('\n');
        }
    }
    files
}

fn drafted(files: &BTreeMap<String, String>, host: &HostFacts) -> (String, String) {
    drafted_with(files, BTreeSet::new(), host)
}

fn drafted_with(
    files: &BTreeMap<String, String>,
    committed: BTreeSet<String>,
    host: &HostFacts,
) -> (String, String) {
    let mut view = View::of(files);
    view.committed = committed;
    let draft = hothouse_discover::discover(&view, host, "shop");
    let config = write::merged(None, &draft, &BTreeSet::new()).expect("a new file can be written");
    if let Err(problems) = hothouse_config::parse("hothouse.toml", &config) {
        let shown: Vec<_> = problems.iter().map(|problem| problem.render()).collect();
        panic!("{}\n{config}", shown.join("\n"));
    }
    let again = write::merged(Some(&config), &draft, &BTreeSet::new()).expect("it can be merged");
    assert_eq!(again, config, "running it again changes nothing");
    (config, plan::text(&draft, &plan::Earlier::default()))
}

#[test]
fn every_repository_has_its_draft() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 25, "{}", names.len());
    for path in names {
        let text = fs::read_to_string(&path).unwrap();
        let (files, committed) = (repository(&text), committed(&text));
        let everything = HostFacts::with_everything();
        let (config, plan) = drafted_with(&files, committed, &everything);
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // The plan's tables repeat the config; the evidence after them could be wrong independently.
        let tail = plan.split("## Questions").nth(1).unwrap_or_default();
        let tail = tail.split("<!-- proposed").next().unwrap_or_default();
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, format!("{config}\n=====\n{tail}"));
        });
        // A host without any programs gets a valid draft too.
        drafted(&files, &HostFacts::default());
    }
}

#[test]
fn no_secret_of_an_example_is_copied() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/secrets.txt"))
            .unwrap();
    let (config, plan) = drafted(&repository(&text), &HostFacts::with_everything());
    for secret in ["wJalr", "ghp_abc", "s3cr3t", "9f86d08"] {
        assert!(!config.contains(secret) && !plan.contains(secret), "{secret}\n{config}");
    }
    assert!(config.contains("PLAIN = \"yes\""), "{config}");
}

#[test]
fn without_yarn_on_the_host_its_packages_come_from_the_registry_of_npm() {
    let lockfile = |host: &str| {
        let line = format!("resolved \"https://{host}/express/-/express-4.0.0.tgz#aa\"");
        let package =
            r#"{"name":"shop","scripts":{"dev":"node a.js"},"dependencies":{"express":"4"}}"#;
        let files = [("package.json", package.to_owned()), ("yarn.lock", line)];
        files.map(|(name, text)| (name.to_owned(), text)).into()
    };
    let all = HostFacts::with_everything();
    let mut without = HostFacts::with_everything();
    without.in_room.remove("yarn");
    let rewrites = "--registry $r";
    for (host, facts, expected) in [
        ("registry.yarn.example", &without, true),
        ("registry.npm.example", &without, true),
        // Private registries are named as they are.
        ("packages.shop.example", &without, false),
        ("registry.yarn.example", &all, false),
    ] {
        let (config, _) = drafted(&lockfile(host), facts);
        assert_eq!(config.contains(rewrites), expected, "{host}: {config}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// Whatever the files contain, the draft is valid and nothing panics.
    #[test]
    fn any_text_leads_to_a_valid_draft(
        names in proptest::collection::vec(proptest::sample::select(vec![
            "package.json", "compose.yaml", "pyproject.toml", "Cargo.toml", "go.mod", "Gemfile", "Procfile", "Makefile", ".env.example",
            "Dockerfile", "mix.exs", "pom.xml", "deno.json", "requirements.txt", "app/main.py", "turbo.json", ".github/workflows/a.yml",
            "composer.json", "artisan", "manage.py", "server.js", "justfile", ".devcontainer.json", "x.csproj", "alembic.ini",
        ]), 1..8),
        texts in proptest::collection::vec("[ -~\n]{0,200}|(services|scripts|name|image|dev|run|FROM|CMD|=|:|\\{|\\}|\"|\\[|\\]|\n| |http://localhost:3000|postgres://a:b@c/d|FastAPI\\(|app = |[a-z]{1,6}){0,40}", 8),
    ) {
        let files: BTreeMap<String, String> = names.into_iter().map(str::to_owned).zip(texts).collect();
        drafted(&files, &HostFacts::with_everything());
    }
}
