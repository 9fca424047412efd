//! The output of `init`.

use hothouse_discover::draft::{DraftService, DraftWork};
use serde_json::{Value, json};

use super::{Drafted, trial::Trial};
use crate::{
    render::{Cell, plain, table},
    ui::{Tone, Ui},
};

/// Renders a draft for programs: each decision with its evidence.
pub(super) fn json(drafted: &Drafted, trial: Option<&Trial>) -> Value {
    let draft = &drafted.draft;
    let open: Vec<_> =
        draft.questions.iter().filter(|question| question.answer.is_none()).collect();
    let answered: Vec<_> =
        draft.questions.iter().filter(|question| question.answer.is_some()).collect();
    let of_questions =
        open.iter().map(|question| format!("{} ({})", question.text, question.until_then));
    let of_notes = draft.notes.iter().map(ToString::to_string);
    let caveats: Vec<String> = draft
        .missing
        .iter()
        .cloned()
        .chain(draft.caveats.iter().cloned())
        .chain(of_notes)
        .chain(of_questions)
        .collect();
    let managers =
        draft.managers.iter().map(|(name, evidence)| json!({ "name": name, "evidence": evidence }));
    let pins = draft.pins.iter().map(|(program, version, evidence)| {
        json!({ "program": program, "version": version, "evidence": [evidence] })
    });
    json!({
        "config": drafted.config_file(),
        "plan": drafted.plan_file(),
        "merged": drafted.is_merged,
        "name": draft.name,
        "setup": draft.setup,
        "tools": draft.tools,
        "managers": managers.collect::<Vec<_>>(),
        "versions": pins.collect::<Vec<_>>(),
        "services": draft.services.iter().map(service).collect::<Vec<_>>(),
        "integrations": draft.integrations,
        "questions": open,
        "answers": answered,
        "missing": draft.missing,
        "caveats": caveats,
        "try": trial.map(Trial::json),
    })
}

fn service(service: &DraftService) -> Value {
    let (kind, what, task) = match &service.work {
        DraftWork::Recipe { kind, .. } => ("recipe", kind.word().to_owned(), false),
        DraftWork::Image { image, .. } => ("image", image.clone(), false),
        DraftWork::Run { run, task } => ("run", run.clone(), *task),
    };
    let mut value = json!({
        "name": service.name,
        "dir": service.dir,
        "port": service.port,
        "url": service.url,
        "needs": service.needs,
        "task": task,
        "env": service.env.keys().collect::<Vec<_>>(),
        "evidence": service.evidence,
    });
    value[kind] = what.into();
    value
}

/// Prints what was found, and what to do next.
pub(super) fn tell(ui: &Ui, drafted: &Drafted, trial: Option<&Trial>) {
    let draft = &drafted.draft;
    let rows = draft.services.iter().map(|service| {
        let what = match &service.work {
            DraftWork::Recipe { kind, version, .. } => {
                format!("{} {}", kind.word(), version.as_deref().unwrap_or_default())
            }
            DraftWork::Image { image, .. } => image.clone(),
            DraftWork::Run { run, .. } => run.clone(),
        };
        let evidence = service.evidence.first();
        let evidence = evidence.map(|one| {
            if one.line > 0 { format!("{}:{}", one.file, one.line) } else { one.file.clone() }
        });
        vec![
            Cell::new(plain(&service.name)).tone(Tone::Strong),
            Cell::new(plain(&short(&what))),
            Cell::new(service.port.map(|port| port.to_string()).unwrap_or_default()),
            Cell::new(plain(&evidence.unwrap_or_default())).tone(Tone::Faint),
        ]
    });
    if !draft.services.is_empty() {
        ui.print(&table(ui, &["SERVICE", "WHAT RUNS", "PORT", "FROM"], rows.collect()));
    }
    for one in &draft.integrations {
        ui.say(&format!(
            "{}: {} ({}).",
            one.title,
            one.class,
            plain(&one.evidence.first().map(ToString::to_string).unwrap_or_default())
        ));
    }
    for missing in &draft.missing {
        ui.say(&format!("Missing: {}.", plain(missing)));
    }
    for caveat in
        draft.caveats.iter().chain(&draft.notes.iter().map(ToString::to_string).collect::<Vec<_>>())
    {
        ui.say(&format!("Note: {}.", plain(caveat)));
    }
    for question in draft.questions.iter().filter(|question| question.answer.is_none()) {
        ui.say(&format!(
            "Open: {} `hothouse init --answer {}=…`",
            plain(&question.text),
            question.id
        ));
    }
    let (config, plan) = (drafted.config_file(), drafted.plan_file());
    ui.say(&match drafted.is_merged {
        true => format!("Updated {} and wrote {}.", config.display(), plan.display()),
        false => format!("Wrote {} and {}.", config.display(), plan.display()),
    });
    match trial {
        Some(trial) => trial.tell(ui),
        None => ui.next("hothouse fork try && hothouse up try"),
    }
}

fn short(text: &str) -> String {
    const WIDTH: usize = 60;
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
