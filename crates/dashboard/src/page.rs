//! The pages. Their markup is in `templates/`, which escape everything.

use std::collections::BTreeMap;

use askama::Template;
use hothouse_ingress::html::{self, Markup};
use hothouse_model::{Failure, record::Record};
use jiff::Timestamp;

use crate::{
    Section,
    detail::{self, Detail, is_followed},
    list::{self, Cell, Look, Row},
    place::{Part, Place, Subject},
    text::{age, counted, encoded, inline},
    tree,
    waterfall::{self, Bar},
};

/// The header of every page about a sandbox or a run.
#[derive(Clone, Debug)]
pub struct Head {
    pub subject: Subject,
    pub project: String,
    pub name: String,
    /// The run whose records are shown, if any.
    pub run: Option<String>,
    /// The number of records of each kind.
    pub counts: BTreeMap<String, u64>,
    /// The token for the session's forms.
    pub token: String,
    /// The id of the sandbox, while it exists.
    pub sandbox: Option<String>,
    /// What the last action led to.
    pub note: Option<Note>,
}

/// What an action led to.
#[derive(Clone, Debug)]
pub struct Note {
    pub text: String,
    pub hints: Vec<String>,
    pub progress: Progress,
}

/// How far an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Running,
    Done,
    Failed,
}

impl Progress {
    fn class(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failure",
        }
    }
}

impl Note {
    pub fn running() -> Self {
        Self::of(Progress::Running, "Working on it…".to_owned())
    }

    pub fn success(text: String) -> Self {
        Self::of(Progress::Done, text)
    }

    pub fn failure(failure: &Failure) -> Self {
        let hints = failure.hints.clone();
        Self { hints, ..Self::of(Progress::Failed, failure.in_a_line()) }
    }

    fn of(progress: Progress, text: String) -> Self {
        Self { text, hints: Vec::new(), progress }
    }

    pub fn class(&self) -> &'static str {
        self.progress.class()
    }
}

/// An entry of the navigation.
pub(crate) struct Entry {
    pub(crate) to: String,
    pub(crate) title: &'static str,
    pub(crate) count: Option<u64>,
    pub(crate) is_here: bool,
    pub(crate) is_bad: bool,
}

impl Head {
    /// Returns the URL of a page about the same subject.
    pub fn to(&self, part: Part) -> String {
        Place::Of(self.subject.clone(), part).path()
    }

    /// Returns the URL of a file of the run.
    fn file(&self, file: &str) -> String {
        self.to(Part::File(file.to_owned()))
    }

    pub(crate) fn entries(&self, here: Option<Part>) -> Vec<Entry> {
        let is_run = matches!(self.subject, Subject::Run(_));
        let wanted = |section: &Section| !(is_run && section.needs_sandbox());
        let sections = Section::ALL.into_iter().filter(wanted).map(|section| {
            let count = match section {
                Section::Timeline => Some(self.counts.values().sum()),
                _ => {
                    section.kind().map(|kind| self.counts.get(kind.as_str()).copied().unwrap_or(0))
                }
            };
            Entry {
                to: self.to(Part::Section(section)),
                title: section.title(),
                is_bad: section == Section::Errors && count.is_some_and(|count| count > 0),
                count,
                is_here: here.as_ref() == Some(&Part::Section(section)),
            }
        });
        let more = OTHERS.into_iter().filter(|(_, part)| !(is_run && part.needs_sandbox()));
        let more = more.map(|(title, part)| Entry {
            is_here: here.as_ref().is_some_and(|here| here.is_like(&part)),
            to: self.to(part),
            title,
            count: None,
            is_bad: false,
        });
        sections.chain(more).collect()
    }
}

/// The pages about a sandbox that do not show records.
const OTHERS: [(&str, Part); 4] = [
    ("Changes", Part::Changes),
    ("Data", Part::Data),
    ("Summary", Part::Summary),
    ("Terminal", Part::Terminal(None)),
];

/// A flag that can be switched.
#[derive(Clone, Debug)]
pub struct Switch {
    pub key: String,
    pub value: serde_json::Value,
    pub default: serde_json::Value,
    pub pinned: bool,
}

/// A snapshot that can be restored.
#[derive(Clone, Debug)]
pub struct Kept {
    pub label: String,
    pub tip: String,
    pub age: String,
}

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Story {
    pub name: String,
    pub about: String,
    pub checks: usize,
    /// Its last result; `None` if it has not run.
    pub last: Option<Ran>,
}

/// The result of a scenario.
#[derive(Clone, Debug)]
pub enum Ran {
    Running,
    Failed(String),
    /// Whether it passed, the results of its checks, and its run.
    Done {
        ok: bool,
        checks: Vec<(bool, String)>,
        run: String,
    },
}

/// The part of a section above its records.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    pub switches: Vec<Switch>,
    pub snapshots: Option<Vec<Kept>>,
    pub stories: Option<Vec<Story>>,
    /// Objects by folder.
    pub tree: Vec<tree::Line>,
}

/// Records of a section.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub records: Vec<Record>,
    /// Whether there are older records.
    pub more: bool,
    /// The text of the filter.
    pub filter: String,
    /// Why the filter is not valid.
    pub problem: Option<String>,
}

#[derive(Template)]
#[template(path = "section.html")]
struct SectionPage<'a> {
    head: &'a Head,
    here: Option<Part>,
    section: Section,
    extras: &'a Extras,
    columns: &'static [&'static str],
    rows: Vec<Row>,
    found: &'a Found,
    has_actions: bool,
}

/// A summary of a run, in a frame.
#[derive(Template)]
#[template(path = "summary.html")]
pub struct SummaryPage<'a> {
    pub head: &'a Head,
    pub here: Option<Part>,
    /// The file that the frame shows, below the run's folder.
    pub file: Option<String>,
    pub problem: Option<String>,
}

/// Renders a section.
pub fn section(head: &Head, section: Section, extras: &Extras, found: &Found) -> Markup {
    let rows = list::rows(section, &found.records);
    let has_actions = head.sandbox.is_some()
        && (section == Section::Webhooks || rows.iter().any(|row| row.denied.is_some()));
    html::render(&SectionPage {
        head,
        here: Some(Part::Section(section)),
        section,
        extras,
        columns: list::columns(section),
        rows,
        found,
        has_actions,
    })
}

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage<'a> {
    head: &'a Head,
    here: Option<Part>,
    section: Section,
    detail: Detail,
    bars: Vec<Bar>,
    trace: Option<String>,
    stub: Option<&'a Stub>,
    /// The id of the record, or of the trace.
    id_of: &'a str,
}

/// A fixture for a request that no fixture matched.
#[derive(Clone, Debug)]
pub struct Stub {
    pub file: String,
    pub text: String,
}

/// Renders one record, and the others of the same trace.
pub fn record(
    head: &Head,
    section: Section,
    record: &Record,
    related: &[Record],
    folder: &str,
    stub: Option<&Stub>,
) -> Markup {
    let bars = if related.len() > 1 { waterfall::bars(related) } else { Vec::new() };
    html::render(&RecordPage {
        head,
        here: Some(Part::Section(section)),
        section,
        detail: detail::detail(record, folder),
        bars,
        trace: record.trace.as_deref().map(encoded),
        stub,
        id_of: &record.id,
    })
}

/// Renders a trace: all records with its id.
pub fn trace(head: &Head, id: &str, records: &[Record]) -> Markup {
    let detail = Detail {
        title: format!("Trace {id}"),
        facts: vec![("records", records.len().to_string())],
        parts: Vec::new(),
    };
    html::render(&RecordPage {
        head,
        here: Some(Part::Section(Section::Traces)),
        section: Section::Traces,
        detail,
        bars: waterfall::bars(records),
        trace: None,
        stub: None,
        id_of: id,
    })
}

/// A terminal that can be shown.
#[derive(Clone, Debug)]
pub struct Shell {
    pub title: String,
    pub exec: String,
    pub is_agent: bool,
    /// Whether a page opened it.
    pub is_own: bool,
}

/// The terminals of a room.
#[derive(Template)]
#[template(path = "terminal.html")]
pub struct TerminalPage<'a> {
    pub head: &'a Head,
    pub here: Option<Part>,
    pub shells: Vec<Shell>,
    /// The command whose terminal is shown.
    pub shown: Option<String>,
    /// Why no terminal is shown.
    pub problem: Option<String>,
    /// The name of the next shell.
    pub new: String,
    /// The path of the terminal's style sheet.
    pub style: &'static str,
    /// The path of its script.
    pub script: &'static str,
}

impl TerminalPage<'_> {
    fn start(&self) -> String {
        self.head.to(Part::Terminal(None))
    }

    fn at(&self, exec: &str) -> String {
        self.head.to(Part::Terminal(Some(exec.to_owned())))
    }
}

fn is_shown(shown: &Option<String>, shell: &Shell) -> bool {
    shown.as_ref() == Some(&shell.exec)
}

fn can_close(shells: &[Shell], shown: &Option<String>) -> bool {
    shells.iter().any(|shell| shell.is_own && is_shown(shown, shell))
}

/// The navigation of a sandbox, for a page that is rendered elsewhere.
#[derive(Template)]
#[template(path = "head.html")]
struct HeadPart<'a> {
    head: &'a Head,
    here: Option<Part>,
}

/// Renders only the navigation.
pub fn head(head: &Head, here: Option<Part>) -> Markup {
    html::render(&HeadPart { head, here })
}

/// A request of an agent.
#[derive(Clone, Debug)]
pub struct Asked {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    pub text: String,
    /// The page of its sandbox.
    pub to: String,
    /// The request, such as `host api.example.com`.
    pub wanted: Option<String>,
    pub age: String,
}

/// A change of a config's pinned half that waits for approval.
#[derive(Clone, Debug)]
pub struct Pending {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    /// The page of its sandbox.
    pub to: String,
    pub changes: Vec<(String, serde_json::Value, serde_json::Value)>,
    /// The text to approve: the approval of any other text is refused.
    pub text: String,
}

/// A host that was denied to a sandbox.
#[derive(Clone, Debug)]
pub struct Denied {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    /// The page of its connections.
    pub to: String,
    pub rule: String,
    pub attempts: usize,
    pub processes: String,
}

/// What waits for the user.
#[derive(Template, Clone, Debug)]
#[template(path = "inbox.html")]
pub struct Inbox {
    pub asked: Vec<Asked>,
    pub pending: Vec<Pending>,
    pub denied: Vec<Denied>,
    pub token: String,
    pub note: Option<Note>,
}

/// A run in the list of all runs.
#[derive(Clone, Debug)]
pub struct RunLine {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    pub started: Timestamp,
    pub is_over: bool,
    pub scenario: Option<String>,
    pub ok: Option<bool>,
    pub records: u64,
    /// Whether its sandbox is gone.
    pub is_gone: bool,
}

/// All runs.
#[derive(Template, Clone, Debug)]
#[template(path = "runs.html")]
pub struct Runs {
    pub runs: Vec<RunLine>,
    pub now: Timestamp,
}

/// Renders a standalone page.
pub fn render(page: &impl Template) -> Markup {
    html::render(page)
}

/// Returns whether a column contains numbers, so that its heading is aligned with them.
fn is_number(rows: &[Row], column: impl std::borrow::Borrow<usize>) -> bool {
    let cell = rows.first().and_then(|row| row.cells.get(*column.borrow()));
    cell.is_some_and(|cell| cell.look == Look::Number)
}

fn class(cell: &Cell) -> &'static str {
    match cell.look {
        Look::Plain => "",
        Look::Name => "name",
        Look::Faint | Look::Time => "faint",
        Look::Number => "number",
        Look::Pill(_) => "",
    }
}

fn tone(cell: &Cell) -> Option<&'static str> {
    match cell.look {
        Look::Pill(tone) => Some(tone.class()),
        _ => None,
    }
}

/// Returns the value that a switch sets a flag to: the opposite, if it is a boolean.
fn other(switch: &Switch) -> Option<&'static str> {
    match switch.value {
        serde_json::Value::Bool(true) => Some("false"),
        serde_json::Value::Bool(false) => Some("true"),
        _ => None,
    }
}
