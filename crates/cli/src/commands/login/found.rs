//! Where tools keep their logins on the host. Pure: files and variables are passed in as functions.

use jiff::Timestamp;
use serde_json::Value;

use super::grant::{self, Grant};
use crate::args::LoginTool;

/// A tool's login: where it may be, and how to get and renew it.
pub(super) struct Login {
    pub(super) tool: &'static str,
    places: &'static [Place],
    /// How to get one.
    pub(super) how: &'static str,
    /// How to renew one.
    pub(super) renew: &'static str,
}

/// A place where a login may be.
struct Place {
    /// The variable in the room.
    variable: &'static str,
    hosts: &'static [&'static str],
    source: Source,
}

enum Source {
    /// A variable on the host.
    Variable(&'static str),
    /// A JSON file below the home, and the pointer to the value.
    Json(&'static str, &'static str),
    /// A token that expires and is renewed on this host.
    Grant(&'static Grant),
    /// A file with lines, and the text before the value.
    Line(&'static str, &'static str),
}

/// A login that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) variable: &'static str,
    pub(super) hosts: &'static [&'static str],
    pub(super) value: String,
    /// Where it was found, for display.
    pub(super) origin: String,
    pub(super) expires: Option<Timestamp>,
    /// How it is renewed.
    pub(super) grant: Option<&'static Grant>,
    /// The account that requests send beside the token, and the variable for it in the room.
    pub(super) account: Option<(&'static str, String)>,
}

const ANTHROPIC: &[&str] = &["api.anthropic.com"];
const OPENAI: &[&str] = &["api.openai.com"];
const CHATGPT: &[&str] = &["chatgpt.com"];
const GOOGLE: &[&str] = &["cloudcode-pa.googleapis.com", "www.googleapis.com"];
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
        source: Source::Grant(&grant::CLAUDE),
    },
];
const CODEX_PLACES: &[Place] = &[
    Place { variable: "CODEX_API_KEY", hosts: OPENAI, source: Source::Variable("CODEX_API_KEY") },
    Place { variable: "CODEX_API_KEY", hosts: OPENAI, source: Source::Variable("OPENAI_API_KEY") },
    Place {
        variable: "CODEX_API_KEY",
        hosts: OPENAI,
        source: Source::Json(".codex/auth.json", "/OPENAI_API_KEY"),
    },
    Place {
        variable: "CODEX_CHATGPT_TOKEN",
        hosts: CHATGPT,
        source: Source::Grant(&grant::CHATGPT),
    },
];
const GEMINI_PLACES: &[Place] = &[
    Place { variable: "GEMINI_API_KEY", hosts: GEMINI, source: Source::Variable("GEMINI_API_KEY") },
    Place {
        variable: "GEMINI_API_KEY",
        hosts: GEMINI,
        source: Source::Line(".gemini/.env", "GEMINI_API_KEY="),
    },
    Place {
        variable: "GOOGLE_CLOUD_ACCESS_TOKEN",
        hosts: GOOGLE,
        source: Source::Grant(&grant::GOOGLE),
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
                how: "run `codex login` on this host, or set OPENAI_API_KEY",
                renew: "run `codex login` on this host",
            },
            LoginTool::Gemini => Self {
                tool: "gemini",
                places: GEMINI_PLACES,
                how: "run `gemini` on this host and log in, or set GEMINI_API_KEY",
                renew: "run `gemini` once on this host: it renews the login",
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

    /// Lists the secrets that a login may become.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let accounts = self.places.iter().filter_map(|place| match &place.source {
            Source::Grant(grant) => grant.account.map(|(_, variable)| variable),
            _ => None,
        });
        let own = self.places.iter().map(|place| place.variable);
        let mut names: Vec<_> = own.chain(accounts).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}

/// Finds the first existing login.
pub(super) fn find(
    login: &Login,
    variable: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Option<Found> {
    login.places.iter().find_map(|place| {
        let text_at = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
        };
        let (mut grant, mut account) = (None, None);
        let (value, origin, expires) = match place.source {
            Source::Variable(name) => (variable(name)?, format!("the variable {name}"), None),
            Source::Json(file, pointer) => {
                let value: Value = serde_json::from_slice(&read(file)?).ok()?;
                (text_at(&value, pointer)?, format!("~/{file}"), None)
            }
            Source::Grant(own) => {
                let file: Value = serde_json::from_slice(&read(own.file)?).ok()?;
                grant = Some(own);
                account = match own.account {
                    Some((pointer, variable)) => Some((variable, text_at(&file, pointer)?)),
                    None => None,
                };
                (text_at(&file, own.access)?, format!("~/{}", own.file), own.expires(&file))
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
            grant,
            account,
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
        let by_chatgpt =
            r#"{"OPENAI_API_KEY":null,"tokens":{"access_token":"a.b.c","account_id":"acc-1"}}"#;
        let chatgpt = found(LoginTool::Codex, &[], &[(".codex/auth.json", by_chatgpt)]).unwrap();
        assert_eq!((chatgpt.variable, chatgpt.hosts), ("CODEX_CHATGPT_TOKEN", CHATGPT));
        assert_eq!(chatgpt.account, Some(("CODEX_CHATGPT_ACCOUNT", "acc-1".to_owned())));
        let by_google = r#"{"access_token":"ya29.x","refresh_token":"r","expiry_date":1000}"#;
        let google =
            found(LoginTool::Gemini, &[], &[(".gemini/oauth_creds.json", by_google)]).unwrap();
        assert_eq!((google.variable, google.hosts), ("GOOGLE_CLOUD_ACCESS_TOKEN", GOOGLE));
        let gh = found(
            LoginTool::Gh,
            &[],
            &[(".config/gh/hosts.yml", "github.com:\n    oauth_token: t\n")],
        )
        .unwrap();
        assert_eq!((gh.variable, gh.value.as_str()), ("GH_TOKEN", "t"));
    }

    #[test]
    fn what_is_not_a_login_is_not_found() {
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
        let no_account = r#"{"tokens":{"access_token":"a.b.c","refresh_token":"r"}}"#;
        assert!(found(LoginTool::Codex, &[], &[(".codex/auth.json", no_account)]).is_none());
        assert!(found(LoginTool::Codex, &[], &[(".codex/auth.json", "nonsense")]).is_none());
        assert!(found(LoginTool::Gemini, &[], &[(".gemini/.env", "OTHER=x")]).is_none());
    }
}
