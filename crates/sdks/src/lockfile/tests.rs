use super::*;

fn names(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let kind = FileKind::of(path).unwrap_or_else(|| panic!("{path}"));
    read(kind, text.as_bytes(), &mut |name, version| {
        found.push(format!("{name} {}", version.unwrap_or("-")));
    });
    found
}

#[test]
fn each_form_of_lockfile_is_read() {
    for (path, text, expected) in [
        (
            "package-lock.json",
            r#"{"lockfileVersion":3,"packages":{"":{"name":"app"},"node_modules/@slack/web-api":{"version":"7.1.0"},"node_modules/a/node_modules/stripe":{"version":"12.0.0"}}}"#,
            vec!["@slack/web-api 7.1.0", "stripe 12.0.0"],
        ),
        (
            "npm-shrinkwrap.json",
            r#"{"dependencies":{"a":{"version":"1.0.0","dependencies":{"stripe":{"version":"8.0.0"}}}}}"#,
            vec!["a 1.0.0", "stripe 8.0.0"],
        ),
        (
            "pnpm-lock.yaml",
            "lockfileVersion: '9.0'\nimporters:\n  .:\n    dependencies:\n      stripe:\n        version: 12.0.0\npackages:\n\n  '@slack/web-api@7.1.0':\n    resolution: {integrity: x}\n  stripe@12.0.0(zod@3.0.0):\n    engines: {node: '>=12'}\n",
            vec!["@slack/web-api 7.1.0", "stripe 12.0.0"],
        ),
        (
            "pnpm-lock.yaml",
            "packages:\n  /stripe/8.1.0:\n    dev: false\n  /@octokit/rest@20.0.0:\n    dev: false\n",
            vec!["stripe 8.1.0", "@octokit/rest 20.0.0"],
        ),
        (
            "yarn.lock",
            "# yarn lockfile v1\n\n\n\"@slack/web-api@^7.0.0\", \"@slack/web-api@^7.1.0\":\n  version \"7.1.0\"\n  resolved \"x\"\n  dependencies:\n    stripe \"^1\"\n\nstripe@^12.0.0:\n  version \"12.1.0\"\n",
            vec!["@slack/web-api 7.1.0", "stripe 12.1.0"],
        ),
        (
            "yarn.lock",
            "__metadata:\n  version: 8\n  cacheKey: 10\n\n\"stripe@npm:^12.0.0, stripe@npm:^12.1.0\":\n  version: 12.1.0\n  resolution: \"stripe@npm:12.1.0\"\n",
            vec!["stripe 12.1.0"],
        ),
        (
            "bun.lock",
            "{\n  \"lockfileVersion\": 1,\n  \"packages\": {\n    \"stripe\": [\"stripe@12.0.0\", \"\", { \"dependencies\": {} }, \"sha512\"],\n    \"@slack/web-api\": [\"@slack/web-api@7.1.0\", \"\", {}, \"x\"],\n  }\n}\n",
            vec!["stripe 12.0.0", "@slack/web-api 7.1.0"],
        ),
        (
            "package.json",
            r#"{"dependencies":{"stripe":"^12"},"devDependencies":{"openai":"4"}}"#,
            vec!["stripe -", "openai -"],
        ),
        (
            "requirements.txt",
            "# comment\n-r other.txt\nstripe==7.0.0 ; python_version > '3'\nsentry-sdk[flask]>=1.0\nboto3\n--hash=sha256:x\n",
            vec!["stripe 7.0.0", "sentry-sdk -", "boto3 -"],
        ),
        (
            "poetry.lock",
            "[[package]]\nname = \"stripe\"\nversion = \"7.0.0\"\n\n[package.dependencies]\nname = \"not\"\n\n[metadata]\nversion = \"2\"\n",
            vec!["stripe 7.0.0"],
        ),
        (
            "uv.lock",
            "version = 1\n\n[[package]]\nname = \"stripe\"\nversion = \"7.0.0\"\nsource = { registry = \"x\" }\n\n[[package]]\nname = \"app\"\nsource = { virtual = \".\" }\n",
            vec!["stripe 7.0.0", "app -"],
        ),
        (
            "Pipfile.lock",
            r#"{"default":{"stripe":{"version":"==7.0.0"}},"develop":{"pytest":{}}}"#,
            vec!["stripe 7.0.0", "pytest -"],
        ),
        (
            "pyproject.toml",
            "[project]\ndependencies = [\"stripe>=7\"]\n[project.optional-dependencies]\nx = [\"openai\"]\n[tool.poetry.dependencies]\npython = \"^3\"\ntwilio = \"^8\"\n",
            vec!["openai -", "stripe -", "python -", "twilio -"],
        ),
        (
            "Cargo.lock",
            "version = 4\n\n[[package]]\nname = \"sentry\"\nversion = \"0.34.0\"\ndependencies = [\n \"x\",\n]\n",
            vec!["sentry 0.34.0"],
        ),
        (
            "Cargo.toml",
            "[dependencies]\nsentry = \"0.34\"\nmine = { package = \"async-stripe\", version = \"1\" }\n",
            vec!["async-stripe -", "sentry -"],
        ),
        (
            "go.sum",
            "github.com/stripe/stripe-go/v76 v76.1.0 h1:x=\ngithub.com/stripe/stripe-go/v76 v76.1.0/go.mod h1:y=\n",
            vec![
                "github.com/stripe/stripe-go/v76 v76.1.0",
                "github.com/stripe/stripe-go/v76 v76.1.0",
            ],
        ),
        (
            "go.mod",
            "module app\n\ngo 1.22\n\nrequire (\n\tgithub.com/slack-go/slack v0.12.0 // indirect\n)\nrequire github.com/getsentry/sentry-go v0.27.0\n",
            vec!["github.com/slack-go/slack v0.12.0", "github.com/getsentry/sentry-go v0.27.0"],
        ),
        (
            "Gemfile.lock",
            "GEM\n  remote: https://rubygems.org/\n  specs:\n    stripe (9.0.0)\n      json (>= 2)\n    twilio-ruby (5.0.0)\n\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n  stripe\n",
            vec!["stripe 9.0.0", "twilio-ruby 5.0.0"],
        ),
        (
            "Gemfile",
            "source 'x'\ngem 'stripe', '~> 9'\n  gem \"openai\"\n",
            vec!["stripe -", "openai -"],
        ),
        (
            "composer.lock",
            r#"{"packages":[{"name":"stripe/stripe-php","version":"v10.0.0"}],"packages-dev":[{"name":"x/y"}]}"#,
            vec!["stripe/stripe-php v10.0.0", "x/y -"],
        ),
        ("composer.json", r#"{"require":{"twilio/sdk":"^7"}}"#, vec!["twilio/sdk -"]),
    ] {
        assert_eq!(names(&format!("apps/{path}"), text), expected, "{path}");
    }
}

#[test]
fn hostile_files_end() {
    let deep = format!("{}{{}}", "{\"dependencies\":{\"a\":".repeat(5_000));
    let long = format!("[\"{}", "a@".repeat(1 << 20));
    for (_, kind) in NAMES {
        for bytes in [
            &b"\xff\xfe\x00"[..],
            deep.as_bytes(),
            long.as_bytes(),
            b"@",
            b"[[package]]\n=",
            b"gem \"",
            b"  '@",
        ] {
            read(kind, bytes, &mut |_, _| {});
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,300}", kind in 0..NAMES.len()) {
        read(NAMES[kind].1, text.as_bytes(), &mut |_, _| {});
    }
}
