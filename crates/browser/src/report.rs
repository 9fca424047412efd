//! The report of a page: what was recorded while it was open, and what it showed in the end. Pure.

use std::collections::BTreeMap;

use hothouse_model::browse::{BrowseReport, Changes, Media, ShimUse, StepReport, cut};

use crate::{
    accessibility,
    capture::{Capture, URL_MOST},
    page::{Arrival, Kept, Look},
};

/// The maximum length of each list.
const MEDIA_MOST: usize = 400;
const LIST_MOST: usize = 500;

/// The parts of a report.
pub struct Found<'a> {
    pub app: &'a str,
    pub url: &'a str,
    pub arrival: Arrival,
    pub capture: &'a Capture,
    pub look: &'a Look,
    pub before: &'a Kept,
    pub steps: Vec<StepReport>,
}

/// Builds the report, except for files.
pub fn report(found: Found<'_>) -> BrowseReport {
    let Found { app, url, arrival, capture, look, before, steps } = found;
    let requests = &capture.requests;
    let documents: Vec<Option<u16>> =
        requests.documents().map(|document| document.status).collect();
    // Steps lead from page to page; without them the first answer is the page's.
    let status = if steps.is_empty() { documents.first() } else { documents.last() };
    let bad_page = documents.iter().flatten().any(|status| *status >= 400);
    let mut notes = look.notes.clone();
    notes.extend(left_out(capture));
    let (page_failed, mut hints) = judge(&arrival);
    if look.page.url == "about:blank" && !capture.downloads.is_empty() {
        hints.push("this is a download, not a page; `downloads` has it".into());
    }
    let mut page_errors = capture.page_errors.clone();
    page_errors.extend(page_failed);
    // The browser's own error page says nothing about the app.
    let is_page = !["", "about:blank"].contains(&look.page.url.as_str())
        && !look.page.url.starts_with("chrome-error:");
    let mut failed_requests = requests.failed();
    failed_requests.truncate(LIST_MOST);
    let mut report = BrowseReport {
        ok: !bad_page && page_errors.is_empty() && steps.iter().all(|step| step.ok),
        app: app.to_owned(),
        url: url.to_owned(),
        final_url: if is_page { cut(&look.page.url, URL_MOST) } else { url.to_owned() },
        // A step on a kept page may need no request.
        status: status.map_or(capture.answered, |status| *status),
        title: if is_page { cut(&look.page.title, 1000) } else { String::new() },
        text: if is_page { look.page.text.clone() } else { String::new() },
        console: capture.console.clone(),
        page_errors,
        failed_requests,
        media: media(&look.page.media),
        accessibility: accessibility::snapshot(&look.nodes),
        redirects: requests.redirects(),
        slow_requests: requests.slow(),
        traces: requests.with_traces(),
        cookies: changes(&before.cookies, &look.kept.cookies),
        storage: changes(&before.storage, &look.kept.storage),
        vitals: look.page.vitals.clone(),
        downloads: capture.downloads.clone(),
        dialogs: capture.dialogs.clone(),
        popups: capture.popups.iter().map(|(_, url)| url.clone()).collect(),
        requests: requests.count,
        steps,
        shims: shims(capture),
        notes,
        hints,
        ..BrowseReport::default()
    };
    report.slow_requests.truncate(LIST_MOST);
    report.traces.truncate(LIST_MOST);
    report.redirects.truncate(LIST_MOST);
    report
}

/// Describes what kept the page from loading, as an error of the page, with hints.
fn judge(arrival: &Arrival) -> (Option<String>, Vec<String>) {
    match arrival {
        Arrival::Loaded | Arrival::Busy => (None, Vec::new()),
        Arrival::Failed(why) => {
            let hint = match why.as_str() {
                "net::ERR_TOO_MANY_REDIRECTS" => {
                    "the page sends its visitors in a circle; `redirects` lists it"
                }
                "net::ERR_CONNECTION_REFUSED" => {
                    "the app is not listening; see `hothouse logs` and `hothouse status`"
                }
                _ => "see `hothouse logs` for what the app says",
            };
            (Some(format!("the page did not load: {why}")), vec![hint.to_owned()])
        }
        Arrival::Silent(Some(url)) => {
            (Some(format!("the page loads again and does not end: {url}")), Vec::new())
        }
        Arrival::Silent(None) => {
            (Some("the page does not answer: its script does not end".into()), Vec::new())
        }
        Arrival::Crashed(why) => {
            let hint = "give the room more memory with `memory` under `[room]`, or look for a leak in the page";
            (Some(why.clone()), vec![hint.to_owned()])
        }
        Arrival::Late(pending) => {
            let waits = match pending.as_slice() {
                [] => "its script does not end".to_owned(),
                [one] => format!("it waits for {one}"),
                [one, rest @ ..] => format!("it waits for {one} and {} more", rest.len()),
            };
            let error = format!("the page did not load in time: {waits}");
            (Some(error), vec!["pass a longer `--timeout`".to_owned()])
        }
    }
}

fn left_out(capture: &Capture) -> Option<String> {
    let count = capture.left_out + capture.requests.left_out;
    (count > 0).then(|| format!("{count} events of the page were left out of this report"))
}

fn media(told: &[Media]) -> Vec<Media> {
    let bounded = told.iter().take(MEDIA_MOST).map(|one| Media {
        src: cut(&one.src, URL_MOST),
        r#type: cut(&one.r#type, 20),
        alt: one.alt.as_deref().map(|alt| cut(alt, 200)),
        ..one.clone()
    });
    bounded.collect()
}

fn shims(capture: &Capture) -> Vec<ShimUse> {
    let used = capture.shim_uses.iter().map(|(name, (answered, calls))| ShimUse {
        name: name.clone(),
        answered: *answered,
        calls: calls.clone(),
    });
    let mut used: Vec<ShimUse> = used.collect();
    used.sort_by(|a, b| a.name.cmp(&b.name));
    used
}

/// Names the differences; values are left out.
fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Changes {
    // Our own marker for a storage that was filled.
    let is_own = |name: &str| name == "session __hothouse_state";
    let names = |all: Vec<&String>| -> Vec<String> {
        let kept = all.into_iter().filter(|name| !is_own(name)).take(LIST_MOST);
        kept.map(|name| cut(name, 300)).collect()
    };
    Changes {
        added: names(after.keys().filter(|name| !before.contains_key(*name)).collect()),
        changed: names(
            after
                .iter()
                .filter(|(name, value)| before.get(*name).is_some_and(|old| old != *value))
                .map(|(name, _)| name)
                .collect(),
        ),
        removed: names(before.keys().filter(|name| !after.contains_key(*name)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_and_values_are_not() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let told = changes(
            &of(&[("a", "1"), ("b", "1"), ("c", "1")]),
            &of(&[("b", "2"), ("c", "1"), ("d", "secret"), ("session __hothouse_state", "1")]),
        );
        assert_eq!(
            (told.added, told.changed, told.removed),
            (vec!["d".into()], vec!["b".into()], vec!["a".to_owned()])
        );
    }

    #[test]
    fn a_page_that_does_not_load_says_what_it_waits_for() {
        let (error, hints) = judge(&Arrival::Late(Vec::new()));
        assert!(
            error.unwrap().contains("its script does not end") && hints[0].contains("--timeout")
        );
        let (error, _) = judge(&Arrival::Late(vec!["https://a/hang".into(), "https://a/b".into()]));
        assert!(error.unwrap().contains("it waits for https://a/hang and 1 more"));
        let (error, _) = judge(&Arrival::Failed("net::ERR_TOO_MANY_REDIRECTS".into()));
        assert!(error.unwrap().contains("TOO_MANY_REDIRECTS"));
        assert_eq!(judge(&Arrival::Busy).0, None);
    }
}
