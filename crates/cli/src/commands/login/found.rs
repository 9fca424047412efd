//! Where tools keep their logins on the host. Pure: files and variables come in as functions.

use jiff::Timestamp;
use serde_json::Value;

use crate::args::LoginTool;

/// A tool's login: where it may be, and what it is good for.
pub(super) struct Login {
    pub(super) tool: &'static str,
    places: &'static [Place],
    /// How to get one.
    pub(super) how: &'static str,
    /// How to renew one.
    pub(super) renew: &'static str,
}

/// A place of a login.
struct Place {
    /// The variable of the room.
    variable: &'static str,
    hosts: &'static [&'static str],
    source: Source,
}

enum Source {
    /// A variable of the host.
    Variable(&'static str),
    /// A file of JSON below the home, the pointer to the value, and the pointer to when it expires, in milliseconds.
    Json(&'static str, &'static str, Option<&'static str>),
    /// A file of lines, and what comes before the value.
    Line(&'static str, &'static str),
}

/// A login that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) variable: &'static str,
    pub(super) hosts: &'static [&'static str],
    pub(super) value: String,
    /// Where it is from, for the user.
    pub(super) origin: String,
    pub(super) expires: Option<Timestamp>,
}

const ANTHROPIC: &[&str] = &["api.anthropic.com"];
const OPENAI: &[&str] = &["api.openai.com"];
const GEMINI: &[&str] = &["generativelanguage.googleapis.com"];
const GITHUB: &[&str] = &["api.github.com", "github.com"];
const COPILOT: &[&str] = &[
    "api.github.com",
    "api.githubcopilot.com",
    "api.individual.githubcopilot.com",
    "api.business.githubcopilot.com",
];

const CLAUDE_PLACES: &[Place] = &[
    Place {
        variable: "ANTHROPIC_API_KEY",
        hosts: ANTHROPIC,
        source: Source::Variable("ANTHROPIC_API_KEY"),
    },
    Place {
        variable: "CLAUDE_CODE_OAUTH_TOKEN",
        hosts: ANTHROPIC,
        source: Source::Variable("CLAUDE_CODE_OAUTH_TOKEN"),
    },
    Place {
        variable: "CLAUDE_CODE_OAUTH_TOKEN",
        hosts: ANTHROPIC,
        source: Source::Json(
            ".claude/.credentials.json",
            "/claudeAiOauth/accessToken",
            Some("/claudeAiOauth/expiresAt"),
        ),
    },
];
const CODEX_PLACES: &[Place] = &[
    Place { variable: "CODEX_API_KEY", hosts: OPENAI, source: Source::Variable("CODEX_API_KEY") },
    Place { variable: "CODEX_API_KEY", hosts: OPENAI, source: Source::Variable("OPENAI_API_KEY") },
    Place {
        variable: "CODEX_API_KEY",
        hosts: OPENAI,
        source: Source::Json(".codex/auth.json", "/OPENAI_API_KEY", None),
    },
];
const GEMINI_PLACES: &[Place] = &[
    Place { variable: "GEMINI_API_KEY", hosts: GEMINI, source: Source::Variable("GEMINI_API_KEY") },
    Place {
        variable: "GEMINI_API_KEY",
        hosts: GEMINI,
        source: Source::Line(".gemini/.env", "GEMINI_API_KEY="),
    },
];
const COPILOT_PLACES: &[Place] = &[
    Place {
        variable: "COPILOT_GITHUB_TOKEN",
        hosts: COPILOT,
        source: Source::Variable("COPILOT_GITHUB_TOKEN"),
    },
    Place {
        variable: "COPILOT_GITHUB_TOKEN",
        hosts: COPILOT,
        source: Source::Variable("GH_TOKEN"),
    },
    Place {
        variable: "COPILOT_GITHUB_TOKEN",
        hosts: COPILOT,
        source: Source::Line(".config/gh/hosts.yml", "oauth_token:"),
    },
];
const GH_PLACES: &[Place] = &[
    Place { variable: "GH_TOKEN", hosts: GITHUB, source: Source::Variable("GH_TOKEN") },
    Place {
        variable: "GH_TOKEN",
        hosts: GITHUB,
        source: Source::Line(".config/gh/hosts.yml", "oauth_token:"),
    },
];

impl Login {
    pub(super) fn of(tool: LoginTool) -> Self {
        match tool {
            LoginTool::Claude => Self {
                tool: "claude",
                places: CLAUDE_PLACES,
                how: "run `claude` on this host and log in, or set ANTHROPIC_API_KEY",
                renew: "run `claude` once on this host: it renews the login",
            },
            LoginTool::Codex => Self {
                tool: "codex",
                places: CODEX_PLACES,
                how: "run `codex login --with-api-key` on this host, or set OPENAI_API_KEY; logins by ChatGPT cannot be used by rooms",
                renew: "run `codex login` on this host",
            },
            LoginTool::Gemini => Self {
                tool: "gemini",
                places: GEMINI_PLACES,
                how: "set GEMINI_API_KEY, or write it to ~/.gemini/.env",
                renew: "set another GEMINI_API_KEY",
            },
            LoginTool::Copilot => Self {
                tool: "copilot",
                places: COPILOT_PLACES,
                how: "run `gh auth login` on this host, or set COPILOT_GITHUB_TOKEN",
                renew: "run `gh auth refresh` on this host",
            },
            LoginTool::Gh => Self {
                tool: "gh",
                places: GH_PLACES,
                how: "run `gh auth login` on this host, or set GH_TOKEN",
                renew: "run `gh auth refresh` on this host",
            },
        }
    }

    /// The secrets that a login may be.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let mut names: Vec<_> = self.places.iter().map(|place| place.variable).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}

/// Finds the first login that there is.
pub(super) fn find(
    login: &Login,
    variable: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Option<Found> {
    login.places.iter().find_map(|place| {
        let (value, origin, expires) = match place.source {
            Source::Variable(name) => (variable(name)?, format!("the variable {name}"), None),
            Source::Json(file, pointer, expires) => {
                let value: Value = serde_json::from_slice(&read(file)?).ok()?;
                let until = expires.and_then(|pointer| value.pointer(pointer)?.as_i64());
                let until = until.and_then(|until| Timestamp::from_millisecond(until).ok());
                (value.pointer(pointer)?.as_str()?.to_owned(), format!("~/{file}"), until)
            }
            Source::Line(file, before) => {
                let text = String::from_utf8(read(file)?).ok()?;
                let line = text.lines().find_map(|line| line.trim().strip_prefix(before))?;
                (line.trim().trim_matches(['"', '\'']).to_owned(), format!("~/{file}"), None)
            }
        };
        let is_value =
            !value.is_empty() && value.len() < 16 << 10 && !value.contains(char::is_control);
        is_value.then_some(Found {
            variable: place.variable,
            hosts: place.hosts,
            value,
            origin,
            expires,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tool: LoginTool, variables: &[(&str, &str)], files: &[(&str, &str)]) -> Option<Found> {
        let pick = |all: &[(&str, &str)], name: &str| {
            all.iter().find(|(known, _)| *known == name).map(|one| one.1.to_owned())
        };
        find(&Login::of(tool), &|name| pick(variables, name), &|name| {
            pick(files, name).map(String::into_bytes)
        })
    }

    #[test]
    fn logins_are_found_where_tools_keep_them() {
        let credentials = r#"{"claudeAiOauth":{"accessToken":"tok-1","expiresAt":1000}}"#;
        let claude =
            found(LoginTool::Claude, &[], &[(".claude/.credentials.json", credentials)]).unwrap();
        assert_eq!((claude.variable, claude.value.as_str()), ("CLAUDE_CODE_OAUTH_TOKEN", "tok-1"));
        assert_eq!(claude.expires, Some(Timestamp::from_millisecond(1000).unwrap()));
        let key = found(
            LoginTool::Claude,
            &[("ANTHROPIC_API_KEY", "k")],
            &[(".claude/.credentials.json", credentials)],
        )
        .unwrap();
        assert_eq!(
            (key.variable, key.value.as_str(), key.expires),
            ("ANTHROPIC_API_KEY", "k", None)
        );
        let codex =
            found(LoginTool::Codex, &[], &[(".codex/auth.json", r#"{"OPENAI_API_KEY":"o"}"#)])
                .unwrap();
        assert_eq!((codex.variable, codex.hosts), ("CODEX_API_KEY", OPENAI));
        let gh = found(
            LoginTool::Gh,
            &[],
            &[(".config/gh/hosts.yml", "github.com:\n    oauth_token: t\n")],
        )
        .unwrap();
        assert_eq!((gh.variable, gh.value.as_str()), ("GH_TOKEN", "t"));
    }

    #[test]
    fn what_is_no_login_is_not_found() {
        assert!(found(LoginTool::Claude, &[], &[]).is_none());
        assert!(found(LoginTool::Claude, &[("ANTHROPIC_API_KEY", "")], &[]).is_none());
        assert!(
            found(
                LoginTool::Codex,
                &[],
                &[(".codex/auth.json", r#"{"OPENAI_API_KEY":null,"tokens":{}}"#)]
            )
            .is_none()
        );
        assert!(found(LoginTool::Codex, &[], &[(".codex/auth.json", "nonsense")]).is_none());
        assert!(found(LoginTool::Gemini, &[], &[(".gemini/.env", "OTHER=x")]).is_none());
    }
}
