//! Questions that only a person can answer.

use hothouse_model::config::IntegrationClass;

use crate::{
    Question,
    draft::{Draft, DraftWork},
    finding::{AppKind, Evidence, Findings},
};

/// Adds questions to those of the readers.
pub(super) fn ask(found: &Findings, draft: &mut Draft) {
    draft.questions.extend(found.questions.clone());
    let mut add = |id: String,
                   text: String,
                   until_then: &str,
                   key: Option<String>,
                   evidence: Vec<Evidence>| {
        draft.questions.push(Question {
            id,
            text,
            until_then: until_then.to_owned(),
            key,
            answer: None,
            evidence,
        });
    };
    if found.apps.is_empty() {
        add(
            "run".to_owned(),
            "Which command serves something? Nothing here tells, so this looks like a library or a command-line program.".to_owned(),
            "`up` starts no app; `hothouse exec -- COMMAND` runs whatever you like",
            Some("service.web.run".to_owned()),
            Vec::new(),
        );
    }
    for app in found.apps.iter().filter(|app| app.kind == AppKind::Web && app.port.is_none()) {
        let text = match app.clash {
            Some(port) => format!(
                "`{}` listens on {port}, which another service has, and nothing here tells how to change that. On which port does it listen once you changed it?",
                app.name
            ),
            None => format!("On which port does `{}` listen?", app.name),
        };
        add(
            format!("port-{}", app.name),
            text,
            "it has no URL, and counts as ready once it runs",
            Some(format!("service.{}.port", app.name)),
            app.evidence.clone(),
        );
    }
    let has_web = draft
        .services
        .iter()
        .any(|service| service.url && matches!(service.work, DraftWork::Run { .. }));
    let real: Vec<_> = draft
        .integrations
        .iter()
        .filter(|one| matches!(one.class, IntegrationClass::ReadOnly | IntegrationClass::TestMode))
        .cloned()
        .collect();
    for one in real {
        draft.questions.push(Question {
            id: format!("class-{}", one.name),
            text: format!("May rooms reach the real {} ({})?", one.title, one.class),
            until_then: format!("it is treated as `{}`", one.class),
            key: Some(format!("integration.{}.class", one.name)),
            answer: None,
            evidence: one.evidence.clone(),
        });
    }
    if !draft.integrations.is_empty() {
        let names: Vec<&str> = draft.integrations.iter().map(|one| one.title.as_str()).collect();
        draft.questions.push(Question {
            id: "never-write".to_owned(),
            text: format!(
                "Which outside systems must never receive a write from a sandbox, besides {}?",
                names.join(", ")
            ),
            until_then: "only what the policy table names is kept from being written to".to_owned(),
            key: None,
            answer: None,
            evidence: Vec::new(),
        });
    }
    if has_web {
        draft.questions.push(Question {
            id: "scenarios".to_owned(),
            text: "Which flows matter most when somebody checks the app by hand?".to_owned(),
            until_then: "no scenario is declared, so `prove` has nothing to show".to_owned(),
            key: None,
            answer: None,
            evidence: Vec::new(),
        });
    }
}
