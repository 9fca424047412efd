//! The content of an address.

use std::sync::Arc;

use hothouse_dashboard::{
    Section,
    page::{self as pages, RunLine, Runs},
    place::{Part, Place, Subject},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_ingress::html::{self, Markup};
use serde::Serialize;

use super::{Dashboard, changes, compared, data, inbox, page, query_value, records, terminal};
use crate::Daemon;

/// How many runs are listed.
const RUNS: usize = 200;

/// The part of a page that changes.
pub(super) struct Content {
    pub(super) title: String,
    pub(super) main: Markup,
    /// Whether it is updated live.
    pub(super) is_live: bool,
    /// How many decisions wait for the user, in all sandboxes.
    pub(super) waiting: usize,
}

/// A page that the command palette can open.
#[derive(Serialize)]
pub(super) struct PageLink {
    title: String,
    to: String,
}

/// Renders the content of an address; `None` if there is none.
pub(super) async fn make(
    dashboard: &Arc<Dashboard>,
    place: Place,
    query: &str,
    token: String,
) -> Option<Content> {
    let daemon = &dashboard.daemon;
    let (title, main, is_live) = match place {
        Place::Inbox => {
            let note = dashboard.note_of(inbox::KEY);
            ("Inbox".to_owned(), inbox::make(daemon, token, note).await, true)
        }
        Place::Of(subject, Part::Record(section, id)) => {
            let head = on_thread(dashboard, move |known| records::head(known, &subject, token));
            let head = head.await?;
            let title = format!("{} · {}", section.title(), head.name);
            (title, records::record(daemon, &head, section, id).await?, false)
        }
        Place::Of(subject, Part::Terminal(exec)) => {
            let head = on_thread(dashboard, move |known| records::head(known, &subject, token));
            let head = head.await?;
            let title = format!("Terminal · {}", head.name);
            (title, terminal::page(daemon, &head, exec).await?, false)
        }
        Place::Of(subject, Part::Data) => {
            let head = on_thread(dashboard, move |known| records::head(known, &subject, token));
            let head = head.await?;
            (format!("Data · {}", head.name), data::page(daemon, &head, query).await?, false)
        }
        Place::Compare => ("Compare".to_owned(), compared::compare(daemon, query).await?, false),
        place => {
            let filter = query_value(query, "q").unwrap_or_default();
            on_thread(dashboard, move |known| quiet(known, place, &filter, token)).await?
        }
    };
    let waiting = on_thread(dashboard, |known| Some(inbox::count(&known.daemon))).await?;
    Some(Content { title, main, is_live, waiting })
}

async fn on_thread<T: Send + 'static>(
    dashboard: &Arc<Dashboard>,
    work: impl FnOnce(&Dashboard) -> Option<T> + Send + 'static,
) -> Option<T> {
    let dashboard = dashboard.clone();
    tokio::task::spawn_blocking(move || work(&dashboard)).await.ok()?
}

/// Renders a page that needs only the store and files.
fn quiet(
    dashboard: &Dashboard,
    place: Place,
    filter: &str,
    token: String,
) -> Option<(String, Markup, bool)> {
    let daemon = &dashboard.daemon;
    match place {
        Place::Overview => {
            let notes = dashboard.notes();
            Some((String::new(), page::overview_of(dashboard, &token, notes)?, true))
        }
        Place::Races => Some(("Races".to_owned(), compared::races(daemon), true)),
        Place::Runs => Some(("Runs".to_owned(), runs(daemon), true)),
        Place::Of(Subject::Sandbox(id), Part::Start) => {
            let head = records::head(dashboard, &Subject::Sandbox(id.clone()), token.clone())?;
            let navigation = pages::head(&head, None);
            let main = page::single_of(dashboard, &id, &token, navigation)?;
            Some((head.name, main, true))
        }
        Place::Of(Subject::Sandbox(id), Part::Changes) => {
            let head = records::head(dashboard, &Subject::Sandbox(id.clone()), token)?;
            let navigation = pages::head(&head, Some(Part::Changes));
            let changes = changes::find(daemon, &id, navigation)?;
            Some((format!("Changes · {}", head.name), html::render(&changes), false))
        }
        Place::Of(Subject::Sandbox(id), Part::Log(service)) => {
            let head = records::head(dashboard, &Subject::Sandbox(id.clone()), token)?;
            let main = page::log_of(daemon, &id, service.clone(), pages::head(&head, None))?;
            Some((format!("{service} · {}", head.name), main, true))
        }
        Place::Of(subject, Part::Summary) => {
            let head = records::head(dashboard, &subject, token)?;
            Some((format!("Summary · {}", head.name), records::summary(daemon, &head), false))
        }
        Place::Of(subject, Part::Start) => {
            let part = Part::Section(Section::Timeline);
            quiet(dashboard, Place::Of(subject, part), filter, token)
        }
        Place::Of(subject, Part::Section(section)) => {
            let head = records::head(dashboard, &subject, token)?;
            let main = records::section(dashboard, &head, section, filter)?;
            Some((format!("{} · {}", section.title(), head.name), main, true))
        }
        _ => None,
    }
}

fn runs(daemon: &Daemon) -> Markup {
    let mut all = daemon.engine.runs().unwrap_or_default();
    all.sort_by_key(|run| std::cmp::Reverse(run.started));
    let runs = all.into_iter().take(RUNS).map(|run| RunLine {
        project: run.project.unwrap_or_default(),
        sandbox: run.sandbox.unwrap_or_default(),
        started: run.started,
        is_over: run.ended.is_some(),
        scenario: run.scenario,
        ok: run.ok,
        records: run.records,
        is_gone: run.sandbox_id.is_none(),
        id: run.id,
    });
    pages::render(&Runs { runs: runs.collect(), now: HostClock.now() })
}

/// Lists every page that can be opened by name.
pub(super) fn destinations(daemon: &Daemon) -> Vec<PageLink> {
    let to = |title: String, place: Place| PageLink { title, to: place.path() };
    let mut all = vec![
        to("All sandboxes".to_owned(), Place::Overview),
        to("Inbox".to_owned(), Place::Inbox),
        to("Runs".to_owned(), Place::Runs),
        to("Compare runs".to_owned(), Place::Compare),
        to("Races".to_owned(), Place::Races),
    ];
    for sandbox in daemon.engine.sandboxes().unwrap_or_default() {
        let of = |part| Place::Of(Subject::Sandbox(sandbox.id.to_string()), part);
        let name = format!("{} / {}", sandbox.project, sandbox.name);
        all.push(to(name.clone(), of(Part::Start)));
        all.push(to(format!("{name}: Changes"), of(Part::Changes)));
        all.push(to(format!("{name}: Data"), of(Part::Data)));
        all.push(to(format!("{name}: Summary"), of(Part::Summary)));
        all.push(to(format!("{name}: Terminal"), of(Part::Terminal(None))));
        let sections = Section::ALL.into_iter();
        all.extend(
            sections.map(|section| {
                to(format!("{name}: {}", section.title()), of(Part::Section(section)))
            }),
        );
    }
    all
}
