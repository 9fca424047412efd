//! `init`: inspects a repository and drafts its configuration. Needs no daemon, except for `--try`.

mod report;
mod trial;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use hothouse_config::{File, Layers, MAX_BYTES};
use hothouse_discover::{Draft, HostFacts, plan, scan::Tree, write};
use hothouse_host::{Program, files};
use hothouse_model::{Explain, Failure, FailureKind};

use super::config;
use crate::{Surroundings, args::InitArgs, edited::Base, session::Session, ui::Ui};

const CONFIG_FILE: &str = "hothouse.toml";
const PLAN_FILE: &str = "hothouse-plan.md";

/// The largest existing plan that is read.
const PLAN_MOST: u64 = 4 << 20;

/// How long git may take to list files.
const GIT_PATIENCE: Duration = Duration::from_secs(10);

/// A draft, and the files it becomes.
pub(super) struct Drafted {
    root: PathBuf,
    pub(super) draft: Draft,
    config: String,
    plan: String,
    /// Whether there was a config before.
    is_merged: bool,
}

impl Drafted {
    pub(super) fn config_file(&self) -> PathBuf {
        self.root.join(CONFIG_FILE)
    }

    pub(super) fn plan_file(&self) -> PathBuf {
        self.root.join(PLAN_FILE)
    }
}

/// Drafts a configuration and writes it.
pub(crate) fn run(
    session: &Session,
    ui: &Ui,
    args: &InitArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let drafted = draft(session, ui, args, surroundings)?;
    if args.dry_run {
        match ui.json {
            true => ui.print_json(&report::json(&drafted, None)),
            false => ui.print(drafted.config.trim_end()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    save(&drafted)?;
    let trial = match args.try_it {
        true => Some(trial::run(session, ui, surroundings)?),
        false => None,
    };
    if ui.json {
        ui.print_json(&report::json(&drafted, trial.as_ref()));
    } else {
        report::tell(ui, &drafted, trial.as_ref());
    }
    let is_good = trial.is_none_or(|trial| trial.ok);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Offers to draft a configuration before `up`, if the repository has none. Only prints a note if it cannot ask.
pub(crate) fn before_up(
    session: &Session,
    ui: &Ui,
    surroundings: &Surroundings,
) -> Result<(), Failure> {
    let root = root(&session.folder);
    // Outside a repository the sandbox belongs to another folder, which has its own config.
    let is_repository = files::exists(&root.join(".git"));
    if session.is_inside() || !is_repository || files::exists(&root.join(CONFIG_FILE)) {
        return Ok(());
    }
    let question = format!("{} has no hothouse.toml. Draft one now?", root.display());
    match ui.ask(&question) {
        Some(true) => {}
        Some(false) => return Ok(()),
        None => {
            ui.say("Note: there is no hothouse.toml here; `hothouse init` drafts one.");
            return Ok(());
        }
    }
    let drafted = draft(session, ui, &InitArgs::default(), surroundings)?;
    save(&drafted)?;
    report::tell(ui, &drafted, None);
    Ok(())
}

fn draft(
    session: &Session,
    ui: &Ui,
    args: &InitArgs,
    surroundings: &Surroundings,
) -> Result<Drafted, Failure> {
    let root = root(&session.folder);
    let tree = Tree::open(&root).map_err(|error| error.failure())?;
    let mut view = tree.view();
    view.committed = committed(&root);
    let host = HostFacts::look(&session.folders.home, &surroundings.search_path.to_string_lossy());
    let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut draft = hothouse_discover::discover(&view, &host, &name);
    let base = Base::Project(root.clone());
    let existing = base.file(CONFIG_FILE).read_capped(MAX_BYTES as u64)?;
    let earlier = base.file(PLAN_FILE).read_capped(PLAN_MOST)?;
    let earlier = earlier.map(|text| plan::Earlier::read(&text));
    let earlier = earlier.unwrap_or_default();
    let mut answers = given(&args.answer, &draft, &earlier)?;
    if !args.yes && !args.dry_run && ui.can_ask() {
        ask(ui, &draft, existing.as_deref(), &earlier, &mut answers);
    }
    let mut text = merge(existing.as_deref(), &draft, &earlier)?;
    for question in &mut draft.questions {
        let new = answers.get(&question.id).filter(|answer| !answer.is_empty());
        if let (Some(answer), Some(key)) = (new, &question.key) {
            text = write::answered(&text, key, answer).map_err(|error| unmerged(&error))?;
        }
        let by_config = question
            .key
            .as_ref()
            .is_some_and(|key| write::has_key(&text, key) && !key.ends_with(".class"));
        question.answer = new.or_else(|| earlier.answers.get(&question.id)).cloned();
        if question.answer.is_none() && by_config {
            question.answer = Some("see hothouse.toml".to_owned());
        }
    }
    let config = merge(Some(&text), &draft, &earlier)?;
    check(session, surroundings, &config)?;
    let plan = plan::text(&draft, &earlier);
    Ok(Drafted { root, draft, config, plan, is_merged: existing.is_some() })
}

/// Returns the answers from the command line. An id without a question is an error.
fn given(
    all: &[String],
    draft: &Draft,
    earlier: &plan::Earlier,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut answers = BTreeMap::new();
    for text in all {
        let (id, answer) = text.split_once('=').ok_or_else(|| {
            Failure::new(FailureKind::Usage, format!("`{text}` is not an answer"))
                .hint("write `--answer ID=TEXT`, such as `--answer port-web=3000`")
        })?;
        let is_known = draft.questions.iter().any(|question| question.id == id);
        if !is_known && !earlier.answers.contains_key(id) {
            let known: Vec<_> =
                draft.questions.iter().map(|question| question.id.as_str()).collect();
            let message = format!("no question has the id `{id}`");
            let hint = match known.is_empty() {
                true => "no question is open".to_owned(),
                false => format!("the questions are: {}", known.join(", ")),
            };
            return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
        }
        answers.insert(id.to_owned(), answer.trim().to_owned());
    }
    Ok(answers)
}

/// Asks the open questions. An empty answer leaves a question open.
fn ask(
    ui: &Ui,
    draft: &Draft,
    existing: Option<&str>,
    earlier: &plan::Earlier,
    answers: &mut BTreeMap<String, String>,
) {
    for question in &draft.questions {
        let is_settled = question
            .key
            .as_ref()
            .is_some_and(|key| existing.is_some_and(|text| write::has_key(text, key)));
        if is_settled
            || answers.contains_key(&question.id)
            || earlier.answers.contains_key(&question.id)
        {
            continue;
        }
        let Some(answer) = ui.ask_text(&format!("{} (Enter leaves it open)", question.text)) else {
            return;
        };
        if !answer.is_empty() {
            answers.insert(question.id.clone(), answer);
        }
    }
}

fn merge(
    existing: Option<&str>,
    draft: &Draft,
    earlier: &plan::Earlier,
) -> Result<String, Failure> {
    write::merged(existing, draft, &earlier.proposed).map_err(|error| unmerged(&error))
}

fn unmerged(error: &write::NotToml) -> Failure {
    let failure = Failure::new(FailureKind::Config, "hothouse.toml cannot be added to");
    Failure { causes: vec![error.0.clone()], ..failure }
        .hint("fix the file first; `hothouse config check` shows where it is broken")
}

/// Checks that what is about to be written is valid.
fn check(session: &Session, surroundings: &Surroundings, text: &str) -> Result<(), Failure> {
    let user_file = session.folders.user_config();
    let user = files::read_capped(&user_file, MAX_BYTES as u64).ok();
    let user_name = user_file.display().to_string();
    let layers = Layers {
        user: user.as_deref().map(|bytes| File { name: &user_name, bytes }),
        project: Some(File { name: CONFIG_FILE, bytes: text.as_bytes() }),
        environment: &surroundings.variables,
    };
    hothouse_config::resolve(&layers).map(|_| ()).map_err(|problems| config::broken(&problems))
}

fn save(drafted: &Drafted) -> Result<(), Failure> {
    let base = Base::Project(drafted.root.clone());
    let put = |name: &str, text: &str| {
        let file = base.file(name);
        match file.read_capped(PLAN_MOST) {
            Ok(Some(known)) if known == text => Ok(()),
            _ => file.write(text),
        }
    };
    put(CONFIG_FILE, &drafted.config)?;
    put(PLAN_FILE, &drafted.plan)
}

/// Returns the tracked files with settings. Empty without git or outside a repository.
fn committed(root: &Path) -> BTreeSet<String> {
    let named = [".env*", "**/.env*", "*.env"];
    let list = ["-c", "core.fsmonitor=false", "ls-files", "-z", "--"].into_iter().chain(named);
    let output = Program::new("git").args(list).folder(root).output_within(GIT_PATIENCE);
    let names = output.unwrap_or_default();
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).take(1000);
    names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect()
}

/// Returns the root of the repository around a folder, or the folder itself.
fn root(folder: &Path) -> PathBuf {
    let around = folder.ancestors().find(|folder| files::exists(&folder.join(".git")));
    around.unwrap_or(folder).to_owned()
}
