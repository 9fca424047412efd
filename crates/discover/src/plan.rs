//! The draft as `hothouse-plan.md`: what was found and why, the policy, and what is left to decide.

use std::collections::{BTreeMap, BTreeSet};

use hothouse_model::{config::IntegrationClass, integration::Wiring};

use crate::{
    draft::{Draft, DraftIntegration, DraftService, DraftWork},
    finding::Evidence,
    write::{one_line, sections},
};

/// The marker before the user's own part, which is kept.
const OWN: &str = "<!-- yours: `hothouse init` keeps everything below -->";

/// The content of an earlier plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Sections that were proposed.
    pub proposed: BTreeSet<String>,
    /// Answers by the id of their question.
    pub answers: BTreeMap<String, String>,
    /// The user's own part.
    own: String,
}

impl Earlier {
    /// Parses a plan. Unknown lines are ignored.
    pub fn read(text: &str) -> Self {
        let (ours, own) = text.split_once(OWN).unwrap_or((text, ""));
        let mut earlier = Self { own: own.to_owned(), ..Self::default() };
        for line in ours.lines() {
            if let Some(keys) =
                line.strip_prefix("<!-- proposed: ").and_then(|line| line.strip_suffix(" -->"))
            {
                earlier.proposed.extend(keys.split_whitespace().map(str::to_owned));
            }
            if let Some((id, answer)) =
                line.strip_prefix("- [x] **").and_then(|line| line.split_once("**: "))
            {
                let answer = answer.split_once(" → ").map_or(answer, |(_, answer)| answer);
                earlier.answers.insert(id.to_owned(), answer.trim().to_owned());
            }
        }
        earlier
    }
}

/// Writes the plan.
pub fn text(draft: &Draft, earlier: &Earlier) -> String {
    let mut out = Out(String::new());
    out.line(&format!("# Sandbox plan for {}", draft.name));
    out.line("");
    out.line("Written by `hothouse init` from the files of this repository; nothing of it was run. Each line names the file and line it follows from.");
    milestone(draft, &mut out);
    services(draft, &mut out);
    policy(draft, &mut out);
    settings(draft, &mut out);
    artifacts(&mut out);
    seams(draft, &mut out);
    never(draft, &mut out);
    state(draft, &mut out);
    questions(draft, &mut out);
    caveats(draft, &mut out);
    evidence(draft, &mut out);
    let keys: BTreeSet<String> = sections(draft)
        .into_iter()
        .map(|section| section.key)
        .chain(earlier.proposed.iter().cloned())
        .collect();
    out.line(&format!("\n<!-- proposed: {} -->", keys.into_iter().collect::<Vec<_>>().join(" ")));
    let own = if earlier.own.is_empty() { "\n\n## Notes\n\n" } else { &earlier.own };
    format!("{}\n{OWN}{own}", out.0)
}

struct Out(String);

impl Out {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn heading(&mut self, text: &str) {
        self.line(&format!("\n## {text}\n"));
    }

    fn rows(&mut self, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        self.line(&format!("| {} |", head.join(" | ")));
        self.line(&format!("|{}", "---|".repeat(head.len())));
        for row in rows {
            let cells: Vec<String> = row.iter().map(|cell| cell_text(cell)).collect();
            self.line(&format!("| {} |", cells.join(" | ")));
        }
    }
}

/// Makes an untrusted text of the repository safe for a table cell.
fn cell_text(text: &str) -> String {
    let text = one_line(text);
    let text =
        text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('[', "\\[");
    if text.is_empty() { "–".to_owned() } else { text }
}

fn at(evidence: &[Evidence]) -> String {
    evidence
        .iter()
        .take(2)
        .map(
            |one| {
                if one.line > 0 { format!("{}:{}", one.file, one.line) } else { one.file.clone() }
            },
        )
        .collect::<Vec<_>>()
        .join(", ")
}

fn milestone(draft: &Draft, out: &mut Out) {
    out.heading("First milestone");
    out.line("From a fresh worktree, one command starts every service below, and the launch panel shows their URLs:\n");
    out.line("```sh\nhothouse fork try\nhothouse up -w try\n```\n");
    let apps: Vec<String> = draft
        .services
        .iter()
        .filter(|service| service.url)
        .map(|service| format!("`{}`", service.name))
        .collect();
    match apps.is_empty() {
        true => out.line("No app that answers requests was found; `hothouse exec -w try -- COMMAND` runs commands in the room."),
        false => out.line(&format!("It is reached once {} and `hothouse status -w try` says `ready`.", answers(&apps))),
    }
    for missing in &draft.missing {
        out.line(&format!("- Missing: {}", one_line(missing)));
    }
}

fn answers(apps: &[String]) -> String {
    match apps {
        [one] => format!("{one} answers"),
        many => format!("{} answer", many.join(", ")),
    }
}

fn what(service: &DraftService) -> String {
    match &service.work {
        DraftWork::Recipe { kind, version, .. } => format!(
            "recipe {}{}",
            kind.word(),
            version.as_deref().map(|version| format!(" {version}")).unwrap_or_default()
        ),
        DraftWork::Image { image, .. } => format!("image {image}"),
        DraftWork::Run { run, task } => format!("`{run}`{}", if *task { " (once)" } else { "" }),
    }
}

fn services(draft: &Draft, out: &mut Out) {
    out.heading("Services and ports");
    let rows = draft.services.iter().map(|service| {
        let port = service.port.map(|port| port.to_string()).unwrap_or_default();
        let url = if service.url {
            format!("https://{}.SANDBOX.{}.localhost", service.name, draft.name)
        } else {
            String::new()
        };
        vec![
            service.name.clone(),
            what(service),
            service.dir.clone(),
            port,
            url,
            service.needs.join(", "),
            at(&service.evidence),
        ]
    });
    out.rows(&["service", "what runs", "folder", "port", "URL", "after", "evidence"], rows);
    out.line("\nPorts are those in the room; every sandbox has its own, so none conflict. `hothouse ports` shows the host's.");
    for (service, framework) in &draft.frameworks {
        out.line(&format!("- `{service}` is {framework}."));
    }
    if !draft.queues.is_empty() {
        out.line("\nQueues: `hothouse queue list` shows their jobs.\n");
        draft
            .queues
            .iter()
            .for_each(|evidence| out.line(&format!("- {}", one_line(&evidence.to_string()))));
    }
    if !draft.seeds.is_empty() {
        out.line("\nData: `hothouse up --seed s` runs these.\n");
        draft.seeds.iter().for_each(|seed| {
            out.line(&format!("- {}: `{}` ({})", seed.name, seed.run, at(&seed.evidence)))
        });
    }
    if !draft.checks.is_empty() {
        out.line("\nChecks that the project has:\n");
        draft.checks.iter().for_each(|(run, evidence)| {
            out.line(&format!("- `{}` ({})", one_line(run), at(std::slice::from_ref(evidence))))
        });
    }
}

fn policy(draft: &Draft, out: &mut Out) {
    out.heading("Policy");
    let local = draft
        .services
        .iter()
        .filter(|service| !matches!(service.work, DraftWork::Run { task: true, .. }))
        .map(|service| {
            let surface = match &service.work {
                DraftWork::Recipe { .. } => "rows (`hothouse db`), logs",
                _ => "health, logs, browser",
            };
            [
                &service.name,
                "run locally",
                "only in the sandbox",
                "none is needed",
                "as real as the program itself",
                surface,
                &at(&service.evidence),
            ]
            .map(str::to_owned)
            .to_vec()
        });
    let outside = draft.integrations.iter().map(outside);
    out.rows(
        &[
            "integration",
            "local strategy",
            "writes possible",
            "secret and its rule",
            "fidelity caveat",
            "evidence surface",
            "found in",
        ],
        local.chain(outside),
    );
    out.line("\nEverything else that leaves a room passes the wall (`[egress]`), and is in the ledger: `hothouse egress log`.");
}

fn outside(one: &DraftIntegration) -> Vec<String> {
    let writes = match one.class {
        IntegrationClass::TestMode => "yes, in the vendor's test mode",
        IntegrationClass::Seam => "whatever egress allows",
        _ => "no",
    };
    let secret = match one.class {
        IntegrationClass::ReadOnly => "`hothouse secret set`; a read-only one",
        IntegrationClass::TestMode => "`hothouse secret set`; a test key, live keys are refused",
        _ => "none is needed; rooms have a stand-in",
    };
    let surface = match one.class {
        IntegrationClass::Sink => "`emails`, `errors`, `analytics`, `objects`",
        IntegrationClass::Mock => "`requests`, `webhooks`",
        _ => "`egress log`",
    };
    let caveat = one
        .caveat
        .clone()
        .unwrap_or_else(|| "what is sent is recorded, and goes nowhere".to_owned());
    let class = format!(
        "{} (by {})",
        one.class,
        if one.wiring == Wiring::Wall { "the wall" } else { "variables and the wall" }
    );
    [
        one.title.clone(),
        class,
        writes.to_owned(),
        secret.to_owned(),
        caveat,
        surface.to_owned(),
        at(&one.evidence),
    ]
    .to_vec()
}

fn settings(draft: &Draft, out: &mut Out) {
    out.heading("Settings and secrets");
    out.line("`.env` and files like it are masked in rooms. Values in `hothouse.toml` come from examples that are part of the repository; secrets are never copied:");
    out.line("what begins with `room-only` (or a vendor's test prefix) only has the right shape, and opens nothing.\n");
    let stands_in = |service: &DraftService| {
        let names: Vec<String> = service
            .env
            .iter()
            .filter(|(_, value)| value.contains("room-only") || value.contains("room_only"))
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        (!names.is_empty()).then(|| format!("- `{}`: {}", service.name, names.join(", ")))
    };
    draft.services.iter().filter_map(stands_in).for_each(|line| out.line(&line));
    if !draft.pins.is_empty() {
        out.line("\nVersions that the repository asks for:\n");
        draft.pins.iter().for_each(|(program, version, evidence)| {
            out.line(&format!(
                "- {program} {} ({})",
                one_line(version),
                at(std::slice::from_ref(evidence))
            ))
        });
    }
}

fn artifacts(out: &mut Out) {
    out.heading("Artifacts");
    out.line("`hothouse status --json` has the path of a run's folder (`run.artifacts`): `timeline.jsonl`, `emails/`, `requests`, screenshots, logs, `summary.md` and `summary.html`.");
    out.line("They outlive the sandbox; `hothouse runs` lists them, `hothouse verify RUN` proves that nothing was changed.");
}

fn seams(draft: &Draft, out: &mut Out) {
    out.heading("Seams");
    let by_env: Vec<&DraftIntegration> = draft
        .integrations
        .iter()
        .filter(|one| matches!(one.class, IntegrationClass::Local | IntegrationClass::Seam))
        .collect();
    match by_env.is_empty() {
        true => out.line("None is needed: every known SDK is led by the wall, so the app's code does not change. If a later one cannot be, add a base URL that a variable sets, never a branch for sandboxes."),
        false => by_env.iter().for_each(|one| out.line(&format!("- {}: the app must let a variable choose its address ({}).", one.title, at(&one.evidence)))),
    }
}

fn never(draft: &Draft, out: &mut Out) {
    out.heading("What must never be written to");
    let names: Vec<&str> = draft
        .integrations
        .iter()
        .filter(|one| one.class != IntegrationClass::TestMode)
        .map(|one| one.title.as_str())
        .collect();
    if !names.is_empty() {
        out.line(&format!(
            "- The real {}: rooms reach a stand-in, or read at most.",
            names.join(", ")
        ));
    }
    out.line("- Production and staging databases: URLs of managed databases and live keys are refused at `up`.");
    out.line("- Your own checkout, its `.env` files and other sandboxes: rooms see none of them.");
}

fn state(draft: &Draft, out: &mut Out) {
    out.heading("Safe local state to copy");
    if draft.state.is_empty() && draft.deps.is_empty() {
        out.line("Installed dependencies come along copy-on-write (`deps`). No other state was found that would be safe and useful.");
        return;
    }
    draft.deps.iter().for_each(|folder| out.line(&format!("- `{folder}`, copy-on-write")));
    draft
        .state
        .iter()
        .for_each(|evidence| out.line(&format!("- {}", one_line(&evidence.to_string()))));
}

fn questions(draft: &Draft, out: &mut Out) {
    out.heading("Questions");
    if draft.questions.is_empty() {
        out.line("None.");
        return;
    }
    out.line("Answer with `hothouse init --answer ID=TEXT`; until then each is a caveat of every sandbox.\n");
    for question in &draft.questions {
        match &question.answer {
            Some(answer) => out.line(&format!(
                "- [x] **{}**: {} → {}",
                question.id,
                one_line(&question.text).replace(" → ", " "),
                one_line(answer)
            )),
            None => out.line(&format!(
                "- [ ] **{}**: {} Until then: {}.",
                question.id, question.text, question.until_then
            )),
        }
    }
}

fn caveats(draft: &Draft, out: &mut Out) {
    if draft.caveats.is_empty() && draft.notes.is_empty() {
        return;
    }
    out.heading("Caveats");
    draft.caveats.iter().for_each(|caveat| out.line(&format!("- {}", one_line(caveat))));
    draft.notes.iter().for_each(|note| out.line(&format!("- {}", one_line(&note.to_string()))));
}

fn evidence(draft: &Draft, out: &mut Out) {
    out.heading("Evidence");
    let of_services =
        draft.services.iter().map(|service| (service.name.clone(), &service.evidence));
    let of_managers = draft.managers.iter().map(|(name, evidence)| (name.clone(), evidence));
    let of_integrations = draft.integrations.iter().map(|one| (one.title.clone(), &one.evidence));
    for (name, all) in of_managers.chain(of_services).chain(of_integrations) {
        for evidence in all.iter().take(6) {
            out.line(&format!("- {name}: {}", one_line(&evidence.to_string())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Question;

    #[test]
    fn a_plan_is_read_back() {
        let question = Question {
            id: "port-web".into(),
            text: "Which → port?".into(),
            until_then: "none".into(),
            key: None,
            answer: Some("3000".into()),
            evidence: vec![],
        };
        let draft = Draft { name: "shop".into(), questions: vec![question], ..Draft::default() };
        let first = text(&draft, &Earlier::default());
        let mine = format!("{first}my own words\n");
        let earlier = Earlier::read(&mine);
        assert_eq!(earlier.answers["port-web"], "3000");
        assert!(earlier.proposed.contains("project"));
        let again = text(&draft, &earlier);
        assert_eq!(again, mine);
        assert_eq!(Earlier::read("- [x] **broken").answers.len(), 0);
    }

    #[test]
    fn cells_hold_what_they_are_given() {
        assert_eq!(cell_text("a|b\nc <script> [x](y)"), "a\\|b c &lt;script> \\[x](y)");
    }
}
