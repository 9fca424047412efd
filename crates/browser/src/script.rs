//! Scripts: steps on a page, as a list in TOML, or one step in words.

use std::{fmt, time::Duration};

use hothouse_model::{
    browse::cut,
    config::{parse_duration, rules::nearest},
    record::Kind,
};
use toml::{Table, Value};

use crate::locate::{Locator, NotALocator};

/// The maximum length of a script, and its maximum number of steps.
const SCRIPT_MOST: usize = 256 << 10;
const STEPS_MOST: usize = 500;

/// The maximum length of a value.
const VALUE_MOST: usize = 100_000;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub action: Action,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a path of an app, or a URL.
    Goto {
        path: String,
        app: Option<String>,
    },
    Click(Locator),
    Hover(Locator),
    Check(Locator),
    Uncheck(Locator),
    Fill {
        on: Locator,
        value: String,
    },
    Select {
        on: Locator,
        value: String,
    },
    Press {
        key: String,
        on: Option<Locator>,
    },
    /// Puts a file of the worktree into a field.
    Upload {
        on: Locator,
        file: String,
    },
    /// Waits until an element is present.
    Wait(Locator),
    /// Waits for a record of the run.
    Record {
        kind: Kind,
        query: String,
    },
    Expect {
        what: Expected,
        absent: bool,
    },
    Screenshot(String),
    /// Sends a webhook to the app, as `hothouse webhook` does.
    Webhook(String),
    /// Sets how dialogs of the page are answered from now on.
    Dialog {
        accept: bool,
    },
}

/// A condition that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    Element(Locator),
    /// A part of the URL.
    Url(String),
    /// A part of the title.
    Title(String),
}

/// A script that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("the script is longer than {} KiB or {STEPS_MOST} steps", SCRIPT_MOST >> 10)]
    TooLong,
    #[error("the script is not TOML: {0}")]
    Toml(String),
    #[error("the script has no steps")]
    Empty,
    #[error("step {number}: {problem}")]
    Step { number: usize, problem: String, near: Option<String> },
}

impl hothouse_model::Explain for ScriptError {
    fn kind(&self) -> hothouse_model::FailureKind {
        hothouse_model::FailureKind::Usage
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Step { near: Some(near), .. } => vec![format!("did you mean `{near}`?")],
            Self::Empty => {
                vec!["write steps such as `[[step]]` and `click = \"button 'Pay'\"`".into()]
            }
            _ => Vec::new(),
        }
    }
}

/// The verbs of steps.
pub const VERBS: [&str; 15] = [
    "goto",
    "click",
    "hover",
    "check",
    "uncheck",
    "fill",
    "select",
    "press",
    "upload",
    "wait",
    "expect",
    "screenshot",
    "webhook",
    "dialog",
    "absent",
];

/// The keys of a step besides the verb.
const OTHER_KEYS: [&str; 6] = ["value", "file", "on", "app", "timeout", "absent"];

/// Parses a script: `[[step]]` tables, each with a verb.
pub fn parse(text: &str) -> Result<Vec<Step>, ScriptError> {
    if text.len() > SCRIPT_MOST {
        return Err(ScriptError::TooLong);
    }
    let tree: Table = text
        .parse()
        .map_err(|error: toml::de::Error| ScriptError::Toml(error.message().to_owned()))?;
    if let Some(key) = tree.keys().find(|key| *key != "step") {
        let problem = format!("`{}` is not a key of a script", cut(key, 60));
        return Err(ScriptError::Step { number: 0, problem, near: Some("[[step]]".into()) });
    }
    let steps = tree.get("step").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match steps.len() {
        0 => return Err(ScriptError::Empty),
        count if count > STEPS_MOST => return Err(ScriptError::TooLong),
        _ => {}
    }
    let read = |(at, value): (usize, &Value)| {
        let table = value.as_table().ok_or(("it is not a table".to_owned(), None));
        let step = table.and_then(one);
        step.map_err(|(problem, near)| ScriptError::Step { number: at + 1, problem, near })
    };
    steps.iter().enumerate().map(read).collect()
}

type Problem = (String, Option<String>);

fn one(table: &Table) -> Result<Step, Problem> {
    let known = || VERBS.iter().chain(&OTHER_KEYS).copied();
    if let Some(key) = table.keys().find(|key| !known().any(|it| it == key.as_str())) {
        let near = nearest(key, known()).map(str::to_owned);
        return Err((format!("`{}` is not a key of a step", cut(key, 60)), near));
    }
    // `absent` is a verb with a locator, or negates `expect`.
    let is_verb =
        |(key, value): &(&String, &Value)| VERBS.contains(&key.as_str()) && !value.is_bool();
    let mut verbs = table.iter().filter(is_verb).map(|(key, _)| key);
    let (verb, more) = (verbs.next(), verbs.next());
    let (Some(verb), None) = (verb, more) else {
        return Err(("it needs exactly one verb".into(), None));
    };
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= VALUE_MOST => Ok(Some(text.clone())),
        Some(Value::Integer(number)) => Ok(Some(number.to_string())),
        Some(_) => Err((format!("`{key}` is not a text"), None)),
    };
    let subject = text(verb)?.unwrap_or_default();
    let timeout = text("timeout")?.map(|text| {
        parse_duration(&text).map_err(|complaint| (format!("`timeout` {complaint}"), None))
    });
    let parts = Parts {
        subject,
        value: text("value")?,
        file: text("file")?,
        on: text("on")?,
        app: text("app")?,
        absent: table.get("absent").and_then(Value::as_bool).unwrap_or(false),
    };
    Ok(Step { action: action(verb, parts)?, timeout: timeout.transpose()? })
}

/// The values of a step besides the verb.
#[derive(Default)]
struct Parts {
    subject: String,
    value: Option<String>,
    file: Option<String>,
    on: Option<String>,
    app: Option<String>,
    absent: bool,
}

fn locator(text: &str) -> Result<Locator, Problem> {
    text.parse().map_err(|error: NotALocator| (error.to_string(), None))
}

fn action(verb: &str, parts: Parts) -> Result<Action, Problem> {
    let Parts { subject, value, file, on, app, absent } = parts;
    let needs = |what: &str| (format!("`{verb}` needs `{what}`"), None);
    Ok(match verb {
        "goto" if subject.is_empty() || subject.chars().any(char::is_control) => {
            return Err(("`goto` needs a path".into(), None));
        }
        "goto" => Action::Goto { path: subject, app },
        "click" => Action::Click(locator(&subject)?),
        "hover" => Action::Hover(locator(&subject)?),
        "check" => Action::Check(locator(&subject)?),
        "uncheck" => Action::Uncheck(locator(&subject)?),
        "fill" => {
            Action::Fill { on: locator(&subject)?, value: value.ok_or_else(|| needs("value"))? }
        }
        "select" => {
            Action::Select { on: locator(&subject)?, value: value.ok_or_else(|| needs("value"))? }
        }
        "press" => {
            if crate::keys::find(&subject).is_none() {
                return Err((
                    format!("`{}` is not a key, such as Enter or a", cut(&subject, 40)),
                    None,
                ));
            }
            Action::Press { key: subject, on: on.as_deref().map(locator).transpose()? }
        }
        "upload" => Action::Upload {
            on: locator(&subject)?,
            file: file.or(value).ok_or_else(|| needs("file"))?,
        },
        "wait" => match record(&subject) {
            Some((kind, query)) => {
                let checked = hothouse_model::query::Query::parse(query, Some(kind));
                checked.map_err(|error| (error.to_string(), None))?;
                Action::Record { kind, query: query.to_owned() }
            }
            None => Action::Wait(locator(&subject)?),
        },
        "expect" | "absent" => {
            Action::Expect { what: expected(&subject)?, absent: absent || verb == "absent" }
        }
        "screenshot" => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if subject.is_empty() || subject.len() > 60 || !subject.chars().all(is_name) {
                return Err((
                    "`screenshot` needs a name of letters, digits and dashes".into(),
                    None,
                ));
            }
            Action::Screenshot(subject)
        }
        "webhook" if subject.contains('/') => Action::Webhook(subject),
        "webhook" => {
            return Err(("`webhook` needs VENDOR/TYPE, such as stripe/invoice.paid".into(), None));
        }
        "dialog" => match subject.as_str() {
            "accept" => Action::Dialog { accept: true },
            "dismiss" => Action::Dialog { accept: false },
            _ => return Err(("`dialog` is `accept` or `dismiss`".into(), None)),
        },
        _ => {
            let near = nearest(verb, VERBS).map(str::to_owned);
            return Err((format!("`{}` is not a step", cut(verb, 60)), near));
        }
    })
}

/// Parses `KIND QUERY`. With a quoted name, the first word is a role, not a kind.
fn record(text: &str) -> Option<(Kind, &str)> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let kind = word.parse::<Kind>().ok()?;
    let rest = rest.trim();
    (!rest.starts_with(['\'', '"'])).then_some((kind, rest))
}

fn expected(text: &str) -> Result<Expected, Problem> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim().trim_matches(['\'', '"']);
    match word {
        "url" if !rest.is_empty() => Ok(Expected::Url(rest.to_owned())),
        "title" if !rest.is_empty() => Ok(Expected::Title(rest.to_owned())),
        _ => Ok(Expected::Element(locator(text)?)),
    }
}

impl Step {
    /// Parses one step in words: a verb, its subject, and its value.
    pub fn from_words(words: &[String]) -> Result<Self, ScriptError> {
        let fail = |(problem, near)| ScriptError::Step { number: 1, problem, near };
        let Some((verb, rest)) = words.split_first() else { return Err(ScriptError::Empty) };
        let joined = || rest.join(" ");
        let mut parts = Parts::default();
        match (verb.as_str(), rest) {
            ("fill" | "select" | "upload", [subject, value]) => {
                (parts.subject, parts.value) = (subject.clone(), Some(value.clone()));
            }
            ("press", [key, on]) => (parts.subject, parts.on) = (key.clone(), Some(on.clone())),
            _ => parts.subject = joined(),
        }
        Ok(Self { action: action(verb, parts).map_err(fail)?, timeout: None })
    }

    /// Formats it as a table of a script.
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        let mut set = |key: &str, value: String| {
            table.insert(key.to_owned(), Value::String(value));
        };
        match &self.action {
            Action::Goto { path, app } => {
                set("goto", path.clone());
                app.iter().for_each(|app| set("app", app.clone()));
            }
            Action::Click(on) => set("click", on.to_string()),
            Action::Hover(on) => set("hover", on.to_string()),
            Action::Check(on) => set("check", on.to_string()),
            Action::Uncheck(on) => set("uncheck", on.to_string()),
            Action::Fill { on, value } => {
                set("fill", on.to_string());
                set("value", value.clone());
            }
            Action::Select { on, value } => {
                set("select", on.to_string());
                set("value", value.clone());
            }
            Action::Press { key, on } => {
                set("press", key.clone());
                on.iter().for_each(|on| set("on", on.to_string()));
            }
            Action::Upload { on, file } => {
                set("upload", on.to_string());
                set("file", file.clone());
            }
            Action::Wait(on) => set("wait", on.to_string()),
            Action::Record { kind, query } => set("wait", format!("{kind} {query}")),
            Action::Expect { what, absent } => {
                set(if *absent { "absent" } else { "expect" }, what.to_string());
            }
            Action::Screenshot(name) => set("screenshot", name.clone()),
            Action::Webhook(what) => set("webhook", what.clone()),
            Action::Dialog { accept } => {
                set("dialog", if *accept { "accept" } else { "dismiss" }.into())
            }
        }
        format!("[[step]]\n{table}\n")
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(locator) => locator.fmt(f),
            Self::Url(part) => write!(f, "url {part}"),
            Self::Title(part) => write!(f, "title {part}"),
        }
    }
}

impl fmt::Display for Step {
    /// Formats it in words, without a value that is filled in: it may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Goto { path, app: None } => write!(f, "goto {path}"),
            Action::Goto { path, app: Some(app) } => write!(f, "goto {app} {path}"),
            Action::Click(on) => write!(f, "click {on}"),
            Action::Hover(on) => write!(f, "hover {on}"),
            Action::Check(on) => write!(f, "check {on}"),
            Action::Uncheck(on) => write!(f, "uncheck {on}"),
            Action::Fill { on, .. } => write!(f, "fill {on}"),
            Action::Select { on, value } => write!(f, "select {on}: {}", cut(value, 80)),
            Action::Press { key, on: None } => write!(f, "press {key}"),
            Action::Press { key, on: Some(on) } => write!(f, "press {key} on {on}"),
            Action::Upload { on, file } => write!(f, "upload {on}: {file}"),
            Action::Wait(on) => write!(f, "wait {on}"),
            Action::Record { kind, query } => write!(f, "wait {kind} {query}"),
            Action::Expect { what, absent: false } => write!(f, "expect {what}"),
            Action::Expect { what, absent: true } => write!(f, "absent {what}"),
            Action::Screenshot(name) => write!(f, "screenshot {name}"),
            Action::Webhook(what) => write!(f, "webhook {what}"),
            Action::Dialog { accept } => {
                write!(f, "dialog {}", if *accept { "accept" } else { "dismiss" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
        [[step]]
        goto = "/login"
        [[step]]
        fill = "label 'Email'"
        value = "ann@example.com"
        [[step]]
        press = "Enter"
        on = "label 'Email'"
        [[step]]
        wait = "mail to:ann"
        timeout = "20s"
        [[step]]
        wait = "log 'Messages'"
        [[step]]
        expect = "url /thanks"
        [[step]]
        expect = "text 'Error'"
        absent = true
        [[step]]
        upload = "label 'Photo'"
        file = "cat.png"
        [[step]]
        screenshot = "after-pay"
        [[step]]
        webhook = "stripe/invoice.paid"
    "#;

    #[test]
    fn a_script_is_read_and_written_as_it_was() {
        let steps = parse(SCRIPT).unwrap();
        let words: Vec<String> = steps.iter().map(Step::to_string).collect();
        assert_eq!(
            words,
            [
                "goto /login",
                "fill label 'Email'",
                "press Enter on label 'Email'",
                "wait mail to:ann",
                "wait log 'Messages'",
                "expect url /thanks",
                "absent text 'Error'",
                "upload label 'Photo': cat.png",
                "screenshot after-pay",
                "webhook stripe/invoice.paid",
            ]
        );
        let written: String = steps.iter().map(Step::to_toml).collect();
        let again = parse(&written).unwrap();
        let actions = |steps: &[Step]| -> Vec<Action> {
            steps.iter().map(|step| step.action.clone()).collect()
        };
        assert_eq!(actions(&again), actions(&steps));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_number() {
        for (text, told) in [
            ("", "has no steps"),
            ("x = 1", "`x` is not a key of a script"),
            ("[[step]]\nclck = \"a\"", "step 1: `clck` is not a key of a step"),
            (
                "[[step]]\ngoto = \"/\"\n[[step]]\nclick = \"a\"\nfill = \"b\"",
                "step 2: it needs exactly one verb",
            ),
            ("[[step]]\nfill = \"a\"", "`fill` needs `value`"),
            ("[[step]]\nclick = 1.5", "`click` is not a text"),
            ("[[step]]\npress = \"Entr\"", "`Entr` is not a key"),
            ("[[step]]\nwait = \"mail too:x\"", "too"),
            ("[[step]]\nscreenshot = \"../x\"", "`screenshot` needs a name"),
            ("step = 7", "has no steps"),
            ("[[", "not TOML"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        let many = "[[step]]\nclick = \"a\"\n".repeat(STEPS_MOST + 1);
        assert_eq!(parse(&many), Err(ScriptError::TooLong));
    }

    #[test]
    fn one_step_in_words() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Step::from_words(&words).map(|step| step.to_string())
        };
        assert_eq!(of(&["click", "button 'Pay'"]).unwrap(), "click button 'Pay'");
        assert_eq!(of(&["click", "button", "Pay"]).unwrap(), "click button 'Pay'");
        assert_eq!(of(&["fill", "e12", "secret"]).unwrap(), "fill e12");
        assert_eq!(of(&["wait", "mail", "to:ann"]).unwrap(), "wait mail to:ann");
        assert!(
            matches!(of(&["clik", "x"]), Err(ScriptError::Step { near: Some(near), .. }) if near == "click")
        );
    }
}
