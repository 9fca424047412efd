//! The draft as a commented `hothouse.toml`, merged with what the user has already written.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{DocumentMut, Item, Table, Value};

use crate::{
    draft::{Draft, DraftReady, DraftService, DraftWork, Question},
    finding::{Evidence, StoreKind},
};

const HEAD: &str = "\
# Drafted by `hothouse init` from the files of this repository. Edit it as you like: running `init` again adds what is
# new and keeps what you changed. hothouse-plan.md tells why, and what is left to decide.
";

/// A part of the file: its dotted key, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub key: String,
    pub text: String,
}

/// A file that cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotToml(pub String);

/// Returns the file: a new one, or the given one with missing sections added.
///
/// `earlier` are keys of previously proposed sections: those that are missing were removed by the user, and are not
/// added again.
pub fn merged(
    existing: Option<&str>,
    draft: &Draft,
    earlier: &BTreeSet<String>,
) -> Result<String, NotToml> {
    let sections = sections(draft);
    let Some(existing) = existing.filter(|text| !text.trim().is_empty()) else {
        let parts: Vec<&str> = std::iter::once(HEAD)
            .chain(sections.iter().map(|section| section.text.as_str()))
            .collect();
        return Ok(with_questions(&parts.join("\n"), &draft.questions));
    };
    let document: DocumentMut =
        existing.parse().map_err(|error: toml_edit::TomlError| NotToml(error.to_string()))?;
    let is_new = |section: &&Section| {
        find(&document, &section.key).is_none() && !earlier.contains(&section.key)
    };
    let mut text = existing.trim_end().to_owned();
    text.push('\n');
    for section in sections.iter().filter(is_new) {
        // An inline table cannot be extended.
        let is_inline = section
            .key
            .split('.')
            .next()
            .and_then(|top| document.get(top))
            .is_some_and(|item| item.is_value());
        if !is_inline {
            text = format!("{text}\n{}", section.text);
        }
    }
    Ok(with_questions(&text, &draft.questions))
}

fn find<'d>(document: &'d DocumentMut, key: &str) -> Option<&'d Item> {
    let mut item = document.as_item();
    for part in key.split('.') {
        item = item.get(part)?;
    }
    Some(item)
}

/// Returns whether a config has a key.
pub fn has_key(text: &str, key: &str) -> bool {
    text.parse::<DocumentMut>().is_ok_and(|document| find(&document, key).is_some())
}

/// Sets an answer in a config, as a number, a list or a text. If it begins a section, no other key is required.
pub fn answered(text: &str, key: &str, answer: &str) -> Result<String, NotToml> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| NotToml(error.to_string()))?;
    let parts: Vec<&str> = key.split('.').collect();
    let (last, tables) = parts.split_last().ok_or_else(|| NotToml("an empty key".to_owned()))?;
    let mut table: &mut Table = document.as_table_mut();
    for (depth, part) in tables.iter().enumerate() {
        let item = table.entry(part).or_insert_with(|| {
            let mut inner = Table::new();
            inner.set_implicit(depth + 1 < tables.len());
            Item::Table(inner)
        });
        table = item.as_table_mut().ok_or_else(|| NotToml(format!("`{part}` is not a table")))?;
    }
    let is_service = tables.first() == Some(&"service");
    table.insert(last, toml_edit::value(typed(answer)));
    // A service with a port is an app.
    if is_service && *last == "port" && !table.contains_key("url") && tables.len() == 2 {
        table.insert("url", toml_edit::value(tables[1]));
    }
    Ok(document.to_string())
}

fn typed(answer: &str) -> Value {
    match answer.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) if answer.starts_with('[') => answer.parse().unwrap_or_else(|_| answer.into()),
        Err(_) => match answer {
            "true" => true.into(),
            "false" => false.into(),
            text => text.into(),
        },
    }
}

/// Writes the open questions, and removes the answered ones.
fn with_questions(text: &str, questions: &[Question]) -> String {
    let Ok(mut document) = text.parse::<DocumentMut>() else { return text.to_owned() };
    document.remove("question");
    let mut text = document.to_string().trim_end().to_owned();
    text.push('\n');
    let open: Vec<&Question> =
        questions.iter().filter(|question| question.answer.is_none()).collect();
    if open.is_empty() {
        return text;
    }
    text.push_str("\n# What is left to decide; each is a caveat of every sandbox until `hothouse init --answer ID=TEXT`.\n[question]\n");
    for question in open {
        text.push_str(&format!("{} = {}\n", question.id, quoted(&question.text)));
    }
    text
}

/// Returns the parts of a draft.
pub fn sections(draft: &Draft) -> Vec<Section> {
    let mut all = vec![project(draft)];
    all.extend(room(draft));
    all.extend(draft.services.iter().map(|one| service("", one)));
    all.extend(
        draft.profiled.iter().map(|(profile, one)| service(&format!("profile.{profile}."), one)),
    );
    all.extend(draft.integrations.iter().map(|one| {
        let mut text = comments(&one.evidence);
        text.push_str(&format!(
            "[integration.{}]\nclass = \"{}\"\nhosts = {}\n",
            one.name,
            one.class,
            list(&one.hosts)
        ));
        Section { key: format!("integration.{}", one.name), text }
    }));
    for seed in &draft.seeds {
        let mut text = comments(&seed.evidence);
        text.push_str(&format!("[seed.bundle.{}]\nrun = {}\n", seed.name, quoted(&seed.run)));
        if let Some(service) = &seed.service {
            text.push_str(&format!("service = {}\n", quoted(service)));
        }
        if !seed.dir.is_empty() {
            text.push_str(&format!("dir = {}\n", quoted(&seed.dir)));
        }
        all.push(Section { key: format!("seed.bundle.{}", seed.name), text });
    }
    if !draft.seeds.is_empty() {
        let names: Vec<String> = draft.seeds.iter().map(|seed| seed.name.clone()).collect();
        all.push(Section {
            key: "seed.radius".to_owned(),
            text: format!("[seed.radius]\ns = {}\n", list(&names)),
        });
    }
    all
}

fn project(draft: &Draft) -> Section {
    let mut text = format!("[project]\nname = {}\n", quoted(&draft.name));
    if let Some(setup) = &draft.setup {
        text.push_str(&format!(
            "setup = {}   # by `fork --setup` or the first `up`; later forks share the result\n",
            quoted(setup)
        ));
    }
    Section { key: "project".to_owned(), text }
}

fn room(draft: &Draft) -> Option<Section> {
    let mut lines = Vec::new();
    if let Some((stack, evidence)) = &draft.stack {
        lines.push(comments(evidence));
        lines.push(format!(
            "stack = {}   # this host has it not; built once, by `up` or `hothouse stack build {stack}`\n",
            quoted(stack)
        ));
    }
    if !draft.deps.is_empty() {
        lines.push(format!(
            "deps = {}   # what is installed comes along, copy-on-write\n",
            list(&draft.deps)
        ));
    }
    if !draft.tools.is_empty() {
        lines.push(format!(
            "tools = {}   # this host's toolchains, read-only\n",
            list(&draft.tools)
        ));
    }
    if !draft.mounts.is_empty() {
        let one = |(source, target): &(String, String)| {
            format!("{{ source = {}, target = {} }}", quoted(source), quoted(target))
        };
        let all: Vec<String> = draft.mounts.iter().map(one).collect();
        lines.push(format!("mounts = [{}]\n", all.join(", ")));
    }
    (!lines.is_empty())
        .then(|| Section { key: "room".to_owned(), text: format!("[room]\n{}", lines.concat()) })
}

/// Writes a service, in a profile if `above` names one.
fn service(above: &str, service: &DraftService) -> Section {
    let mut text = comments(&service.evidence);
    if let Some(note) = &service.note {
        text.push_str(&format!("# {}\n", one_line(note)));
    }
    text.push_str(&format!("[{above}service.{}]\n", service.name));
    let mut put = |key: &str, value: String| text.push_str(&format!("{key} = {value}\n"));
    match &service.work {
        DraftWork::Recipe { kind, version, database, user, password } => {
            put("recipe", quoted(recipe_word(*kind)));
            for (key, value) in [
                ("version", version),
                ("database", database),
                ("user", user),
                ("password", password),
            ] {
                if let Some(value) = value {
                    put(key, quoted(value));
                }
            }
        }
        DraftWork::Image { image, command } => {
            put("image", quoted(image));
            if let Some(command) = command {
                put("command", quoted(command));
            }
        }
        DraftWork::Run { run, task } => {
            put("run", quoted(run));
            if *task {
                put("task", "true".to_owned());
            }
        }
    }
    if !service.dir.is_empty() {
        put("dir", quoted(&service.dir));
    }
    if let Some(port) = service.port {
        put("port", port.to_string());
    }
    if !service.ports.is_empty() {
        put("ports", format!("{:?}", service.ports));
    }
    if service.url {
        put("url", quoted(&service.name));
    }
    if !service.needs.is_empty() {
        put("needs", list(&service.needs));
    }
    match &service.ready {
        Some(DraftReady::Http(path)) => put("ready", format!("{{ http = {} }}", quoted(path))),
        Some(DraftReady::Tcp) => put("ready", "{ tcp = true }".to_owned()),
        None => {}
    }
    text.push_str(&env(above, &service.name, &service.env));
    Section { key: format!("{above}service.{}", service.name), text }
}

fn recipe_word(kind: StoreKind) -> &'static str {
    kind.word()
}

/// Writes variables on one line, or as a separate table if there are many.
fn env(above: &str, service: &str, all: &BTreeMap<String, String>) -> String {
    let pair =
        |(name, value): (&String, &String)| format!("{} = {}", bare_key(name), quoted(value));
    let pairs: Vec<String> = all.iter().map(pair).collect();
    match pairs.len() {
        0 => String::new(),
        1 | 2 => format!("env = {{ {} }}\n", pairs.join(", ")),
        _ => format!("\n[{above}service.{service}.env]\n{}\n", pairs.join("\n")),
    }
}

fn bare_key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// The maximum number of evidence lines above a section.
const EVIDENCE_MOST: usize = 3;

fn comments(evidence: &[Evidence]) -> String {
    evidence
        .iter()
        .take(EVIDENCE_MOST)
        .map(|evidence| format!("# {}\n", one_line(&evidence.to_string())))
        .collect()
}

/// Makes an untrusted text of the repository safe for one line of a comment.
pub(crate) fn one_line(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(160).collect();
    plain.trim().to_owned()
}

pub(crate) fn quoted(text: &str) -> String {
    let value: Value = text.into();
    value.to_string().trim().to_owned()
}

fn list(all: &[String]) -> String {
    format!("[{}]", all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(port: u16) -> Draft {
        let service = DraftService {
            name: "web".into(),
            work: DraftWork::Run { run: "npm run dev".into(), task: false },
            dir: String::new(),
            port: Some(port),
            ports: vec![],
            needs: vec![],
            ready: None,
            url: true,
            env: BTreeMap::new(),
            note: None,
            evidence: vec![],
        };
        let worker =
            DraftService { name: "worker".into(), port: None, url: false, ..service.clone() };
        Draft { name: "shop".into(), services: vec![service, worker], ..Draft::default() }
    }

    #[test]
    fn edits_are_kept_and_what_was_removed_stays_away() {
        let first = merged(None, &draft(4321), &BTreeSet::new()).unwrap();
        let edited = first.replace("4321", "4322 # mine");
        let again = merged(Some(&edited), &draft(4321), &BTreeSet::new()).unwrap();
        assert_eq!(again, edited);
        let without = edited[..edited.find("[service.worker]").unwrap()].to_owned();
        let earlier = BTreeSet::from(["service.worker".to_owned()]);
        assert!(!merged(Some(&without), &draft(1), &earlier).unwrap().contains("worker"));
        assert!(
            merged(Some(&without), &draft(1), &BTreeSet::new())
                .unwrap()
                .contains("[service.worker]")
        );
        assert!(merged(Some("a = = b"), &draft(1), &earlier).is_err());
    }

    #[test]
    fn answers_become_settings_and_questions_go() {
        let question = Question {
            id: "port-web".into(),
            text: "On which port?".into(),
            until_then: String::new(),
            key: None,
            answer: None,
            evidence: vec![],
        };
        let asked = Draft { questions: vec![question.clone()], ..draft(1) };
        let text = merged(None, &asked, &BTreeSet::new()).unwrap();
        assert!(text.contains("[question]\nport-web = \"On which port?\""), "{text}");
        let text = answered(&text, "service.web.port", "3000").unwrap();
        assert!(text.contains("port = 3000"), "{text}");
        let done = Draft {
            questions: vec![Question { answer: Some("3000".into()), ..question }],
            ..draft(1)
        };
        let text = merged(Some(&text), &done, &BTreeSet::new()).unwrap();
        assert!(!text.contains("[question]") && text.contains("port = 3000"), "{text}");
        let text = answered("", "service.api.run", "make api").unwrap();
        assert_eq!(text.trim(), "[service.api]\nrun = \"make api\"");
    }
}
