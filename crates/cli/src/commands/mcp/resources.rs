//! MCP resources: logs, mails and files of the run.

use hothouse_api::{
    route,
    timeline::{ArtifactQuery, ArtifactView},
};
use hothouse_mcp::{
    budget,
    resource::{Content, Resource, Template, is_text, kind_of},
};
use hothouse_model::{Failure, FailureKind};
use serde_json::{Value, json};

use super::calls::Calls;

pub(super) const ARTIFACTS: &str = "hothouse://artifacts/";
const LOGS: &str = "hothouse://logs/";
const MAILS: &str = "hothouse://mails/";

/// The URI templates.
pub(super) const TEMPLATES: [Template; 3] = [
    Template {
        uri: "hothouse://logs/{service}",
        name: "log",
        about: "The last lines of a service's log",
    },
    Template { uri: "hothouse://mails/{id}", name: "mail", about: "One mail that an app sent" },
    Template {
        uri: "hothouse://artifacts/{+file}",
        name: "artifact",
        about: "A file of the run, such as a screenshot, by the path that a result names",
    },
];

/// How many lines of a log are read, and how many mails are listed.
const LINES: &str = "200";
const MAILS_LISTED: usize = 50;

impl Calls {
    /// Lists the logs of services and the mails of the run.
    pub(super) fn list_resources(&self) -> Value {
        let status = self.json(&["status"]).unwrap_or_default();
        let services = status["services"].as_array().cloned().unwrap_or_default();
        let logs = services.iter().filter_map(|service| service["name"].as_str()).map(|name| {
            let (uri, name) = (format!("{LOGS}{name}"), format!("log of {name}"));
            Resource { uri, name, kind: "text/plain" }
        });
        let mails = self.json(&["emails"]).unwrap_or_default();
        let mails = mails.as_array().cloned().unwrap_or_default();
        let mails = mails.iter().rev().take(MAILS_LISTED).filter_map(|mail| {
            let (id, subject) = (mail["id"].as_str()?, mail["subject"].as_str().unwrap_or("mail"));
            let uri = format!("{MAILS}{id}");
            Some(Resource { uri, name: budget::cut_text(subject, 80), kind: "application/json" })
        });
        let all: Vec<_> = logs.chain(mails).map(|resource| resource.shown()).collect();
        json!({ "resources": all })
    }

    /// Reads one resource.
    pub(super) fn read_resource(&self, uri: &str) -> Result<Value, Failure> {
        let word = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            Some(text.to_owned()).filter(|text| {
                !text.is_empty() && !text.starts_with('-') && text.chars().all(plain)
            })
        };
        if let Some(service) = uri.strip_prefix(LOGS).and_then(word) {
            let page = self.json(&["logs", &service, "--tail", LINES]).ok_or_else(missing)?;
            let lines = page["lines"].as_array().cloned().unwrap_or_default();
            let text: Vec<_> = lines.iter().filter_map(|line| line["text"].as_str()).collect();
            let text = budget::cut_text(&text.join("\n"), budget::RESULT);
            return Ok(Content::Text(text).shown(uri, "text/plain"));
        }
        if let Some(id) = uri.strip_prefix(MAILS).and_then(word) {
            let mail = self.json(&["email", &id]).ok_or_else(missing)?;
            let text = budget::cut_text(&mail.to_string(), budget::RESULT);
            return Ok(Content::Text(text).shown(uri, "application/json"));
        }
        match uri.strip_prefix(ARTIFACTS) {
            Some(file) => self.artifact(uri, file),
            None => Err(missing()),
        }
    }

    fn artifact(&self, uri: &str, file: &str) -> Result<Value, Failure> {
        let session = self.session()?;
        let query = ArtifactQuery {
            sandbox: self.sandbox(),
            folder: session.folder_text()?,
            run: None,
            file: file.to_owned(),
        };
        let found: ArtifactView = session.query(route::ARTIFACTS, &query)?;
        let kind = kind_of(&found.file);
        let content = match is_text(kind).then(|| text(&found.base64)).flatten() {
            Some(text) => Content::Text(budget::cut_text(&text, budget::RESULT)),
            None => Content::Blob(found.base64),
        };
        Ok(content.shown(uri, kind))
    }
}

fn text(base64: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).ok()?;
    String::from_utf8(bytes).ok()
}

fn missing() -> Failure {
    Failure::new(FailureKind::NotFound, "there is no such resource")
}
