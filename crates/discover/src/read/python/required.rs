//! Variables that Python settings require, if no example names them: `os.environ["X"]`, `env("X")`, `config("X")`, and
//! fields of settings classes without a default.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::{
    finding::{Evidence, Findings, Setting},
    text,
    view::View,
};

/// The maximum number of variables per project.
const MOST: usize = 40;

static CALL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?:os\.environ\[\s*["']([A-Z][A-Z0-9_]+)["']\s*\]|\b(?:env|config)(?:\.str|\.int|\.bool|\.url|\.db|\.list)?\(\s*["']([A-Z][A-Z0-9_]+)["']\s*(?:,\s*cast\s*=\s*[\w.]+\s*)?\))"#,
    )
    .expect("a fixed pattern")
});

static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^    ([A-Za-z][A-Za-z0-9_]*)\s*:\s*(str|int|SecretStr|PostgresDsn|RedisDsn|AnyUrl|AnyHttpUrl|HttpUrl|EmailStr)\s*(?:#.*)?$")
        .expect("a fixed pattern")
});

/// Adds the variables that a folder's settings require.
pub(super) fn read(view: &View<'_>, dir: &str, found: &mut Findings) {
    let paths: Vec<String> =
        view.below(dir).filter(|path| is_settings(dir, path)).take(40).map(str::to_owned).collect();
    let home = home(dir, found);
    let mut count = 0;
    for path in paths {
        let source = view.text(&path).unwrap_or_default();
        for (name, line) in names(&source) {
            let is_known =
                |known: &Setting| known.dir == home && known.name.eq_ignore_ascii_case(&name);
            if count >= MOST || found.settings.iter().any(is_known) {
                continue;
            }
            count += 1;
            let fact = format!("{name} has no default");
            let evidence = Evidence { file: path.clone(), line, fact };
            found.settings.push(Setting {
                dir: home.clone(),
                name,
                value: String::new(),
                evidence,
            });
        }
    }
}

/// Returns the folder whose settings apply to commands of this folder.
fn home(dir: &str, found: &Findings) -> String {
    let mut here = dir;
    while !here.is_empty() && !found.settings.iter().any(|setting| setting.dir == here) {
        here = text::folder(here);
    }
    match found.settings.iter().any(|setting| setting.dir == here) {
        true => here.to_owned(),
        false => dir.to_owned(),
    }
}

/// Whether a file contains settings for development.
fn is_settings(dir: &str, path: &str) -> bool {
    let below = path.get(dir.len()..).unwrap_or(path);
    let name = text::name(path);
    let Some(stem) = name.strip_suffix(".py") else { return false };
    let is_one = ["settings", "config", "configuration", "env", "base", "common", "local", "dev"]
        .iter()
        .any(|word| stem == *word || stem.starts_with(&format!("{word}_")));
    let is_in = ["settings/", "config/", "conf/"].iter().any(|part| below.contains(part))
        || ["settings", "config", "configuration"].iter().any(|word| stem.starts_with(word));
    let elsewhere = ["prod", "production", "staging", "test", "tests", "heroku", "ci", "deploy"];
    let is_elsewhere = stem.split(['_', '-']).any(|word| elsewhere.contains(&word))
        || super::super::is_aside(below);
    is_one && is_in && !is_elsewhere
}

/// Returns the variables without a default, with their lines.
fn names(source: &str) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    // Fields count from a settings class to the next line that is not indented.
    let mut class: Option<bool> = None;
    let mut is_body = false;
    let is_prefixed = source.contains("env_prefix");
    for (at, line) in source.lines().enumerate().take(5000) {
        if line.trim_start().starts_with('#') {
            continue;
        }
        if !line.starts_with([' ', '\t']) && !line.trim().is_empty() {
            let name = line.to_ascii_lowercase();
            // Production settings do not apply to development.
            let is_elsewhere = ["prod", "test", "staging"].iter().any(|word| name.contains(word));
            let is_one = line.contains("BaseSettings") && !is_elsewhere;
            class = line.starts_with("class ").then_some(is_one);
            is_body = ["def ", "if ", "else", "elif ", "try", "except", "with ", "async "]
                .iter()
                .any(|word| line.starts_with(word));
        }
        if class == Some(true)
            && !is_prefixed
            && let Some(field) = FIELD.captures(line).and_then(|found| found.get(1))
        {
            all.push((field.as_str().to_ascii_uppercase(), at + 1));
        }
        // Calls in functions and other classes do not run at startup; those in a dictionary or a field do.
        let is_field = line.starts_with("    ") && !line.starts_with("     ");
        let is_asked = class.is_none() && !is_body || class == Some(true) && is_field;
        for found in CALL.captures_iter(line).filter(|_| is_asked) {
            if let Some(name) = found.get(1).or_else(|| found.get(2)) {
                all.push((name.as_str().to_owned(), at + 1));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_without_a_default_are_found() {
        let source = r#"
import os
SECRET_KEY = os.environ["SECRET_KEY"]
DEBUG = env("DEBUG", default=True)
# OLD = os.environ["OLD"]
TOKEN = config('API_TOKEN')
NAME = os.getenv("NAME")
class Settings(BaseSettings):
    database_url: PostgresDsn
    title: str = "x"
    jwt_secret: str  # needed
    model_config = SettingsConfigDict(env_file=".env")
class ProductionConfig(Config):
    SERVER_NAME = os.environ["SERVER_NAME"]
"#;
        let found: Vec<_> = names(source).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["SECRET_KEY", "API_TOKEN", "DATABASE_URL", "JWT_SECRET"]);
    }

    #[test]
    fn settings_of_production_are_passed_over() {
        for (path, expected) in [
            ("shop/settings.py", true),
            ("config/settings/base.py", true),
            ("app/core/config.py", true),
            ("config/settings/production.py", false),
            ("tests/settings.py", false),
            ("shop/settings_test.py", false),
            ("shop/base.py", false),
            ("shop/models.py", false),
        ] {
            assert_eq!(is_settings("", path), expected, "{path}");
        }
    }
}
