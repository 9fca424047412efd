//! What a browser is asked to do with an app, and what it found: the shapes of `browse`, which are API.

use serde::{Deserialize, Serialize};

use crate::{
    Word,
    record::{Kind, bodies::Body},
    words::word_type,
};

/// How long a page may take unless the user says otherwise, in milliseconds.
pub const PATIENCE_MS: u64 = 30_000;

/// What `browse` is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrowseSpec {
    /// The label of the app. Only a kept page may be used without one.
    pub app: String,
    /// The path and query; `/` where it is empty.
    pub path: String,
    /// The role to be signed in as.
    pub auth: Option<String>,
    /// Whether the screenshot shows the whole page.
    pub full_page: bool,
    /// A locator of what the screenshot shows.
    pub element: Option<String>,
    /// Steps to take on the page: the text of a script.
    pub script: Option<String>,
    /// The name of a device, such as `iPhone 15`.
    pub device: Option<String>,
    pub viewport: Option<Viewport>,
    /// Such as `sv-SE`.
    pub locale: Option<String>,
    /// Such as `Europe/Stockholm`.
    pub timezone: Option<String>,
    /// What the page takes for the time when it begins, in RFC 3339.
    pub clock: Option<String>,
    pub reduced_motion: bool,
    /// Whether the page is without a network once it has loaded.
    pub offline: bool,
    pub har: bool,
    pub video: bool,
    /// Whether the browser is traced while the page is open.
    #[serde(default)]
    pub trace: bool,
    /// How long all of it may take, in milliseconds. Without it the page has its time, and each step its own.
    pub timeout_ms: Option<u64>,
    /// The name of a page that is kept for the next call.
    pub session: Option<String>,
    /// One step for a kept page, as words.
    pub step: Vec<String>,
    /// Whether the kept page is let go.
    pub close: bool,
    /// Whether the steps of a kept page so far are wanted as a script.
    pub record: bool,
}

impl BrowseSpec {
    /// Asks for a page of an app, with nothing special.
    pub fn page(app: impl Into<String>, path: impl Into<String>) -> Self {
        Self { app: app.into(), path: path.into(), ..Self::default() }
    }
}

/// The size of a page's window, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewport {
    pub width: u32,
    pub height: u32,
}

/// A text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size such as 1280x720, from 50x50 to 8000x8000")]
pub struct NotASize(String);

impl std::str::FromStr for Viewport {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let side = |text: &str| text.parse().ok().filter(|side| (50..=8000).contains(side));
        let sides = text.split_once(['x', 'X', '×']);
        let found = sides.and_then(|(width, height)| {
            Some(Self { width: side(width.trim())?, height: side(height.trim())? })
        });
        found.ok_or_else(|| NotASize(text.to_owned()))
    }
}

/// What a browser found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrowseReport {
    /// Whether the page answered with a status below 400, threw nothing, and did all steps.
    pub ok: bool,
    pub app: String,
    pub url: String,
    pub final_url: String,
    /// None where the page was not answered.
    pub status: Option<u16>,
    pub title: String,
    /// What a reader sees of the page.
    pub text: String,
    pub auth: Option<String>,
    /// Paths of pictures.
    pub screenshots: Vec<String>,
    pub console: Vec<ConsoleLine>,
    /// Exceptions that nothing caught, with their stacks.
    pub page_errors: Vec<String>,
    /// Requests without an answer, or with a status of 400 or more.
    pub failed_requests: Vec<FailedRequest>,
    pub media: Vec<Media>,
    pub accessibility: Accessibility,
    /// The path of the archive of all requests.
    pub har: Option<String>,
    pub video: Option<String>,
    /// The path of a trace of the browser.
    #[serde(default)]
    pub trace_file: Option<String>,
    /// The folder with all of it.
    pub artifacts: String,
    pub redirects: Vec<Redirect>,
    pub slow_requests: Vec<SlowRequest>,
    /// Requests that records of the server belong to, by their traces.
    pub traces: Vec<TracedRequest>,
    pub cookies: Changes,
    pub storage: Changes,
    pub vitals: Vitals,
    pub downloads: Vec<Download>,
    pub dialogs: Vec<Dialog>,
    /// Windows that the page opened.
    pub popups: Vec<String>,
    pub steps: Vec<StepReport>,
    /// What stood in for scripts of third parties.
    pub shims: Vec<ShimUse>,
    /// How many requests the page made.
    pub requests: u64,
    pub duration_ms: u64,
    /// Such as `Chrome/156.0`.
    pub browser: String,
    /// What could not be captured, and what was cut.
    pub notes: Vec<String>,
    /// What to do about it.
    pub hints: Vec<String>,
    /// The kept page, if it is one.
    pub session: Option<String>,
    /// The steps of a kept page as a script. Neither files nor records have it: values that were filled in are in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

impl Body for BrowseReport {
    const KIND: Kind = Kind::Browser;
}

/// A line of the console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsoleLine {
    /// `log`, `debug`, `info`, `warning` or `error`.
    pub level: String,
    pub text: String,
    /// The script and line, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A request that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedRequest {
    pub url: String,
    pub status: Option<u16>,
    pub reason: String,
    pub method: String,
    /// What asked for it, such as `image` or `fetch`.
    pub r#type: String,
}

/// A picture, film or sound in the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Media {
    pub src: String,
    /// The natural size; 0 where it did not decode.
    pub width: u32,
    pub height: u32,
    pub ok: bool,
    /// `img`, `video`, `audio` or `background`.
    pub r#type: String,
    pub alt: Option<String>,
}

/// The page as assistive technology has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accessibility {
    /// One line for each node: role, name, and a ref such as `e12` that steps can use.
    pub snapshot: String,
    pub nodes: u64,
    /// How many lines were left out.
    pub left_out: u64,
}

/// A request that was sent elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Redirect {
    pub from: String,
    pub to: String,
    pub status: u16,
}

/// A request that took long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowRequest {
    pub url: String,
    pub duration_ms: u64,
    /// Whether it had ended when the page was left.
    pub ended: bool,
}

/// A request of the page, and what the server recorded for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedRequest {
    pub method: String,
    pub url: String,
    pub status: Option<u16>,
    pub trace: String,
    /// Ids of records.
    pub records: Vec<String>,
}

/// Names whose values changed. The values are never told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

/// How fast the page loaded, in milliseconds, and how much its layout shifted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vitals {
    /// Time to first byte.
    pub ttfb_ms: Option<f64>,
    /// First contentful paint.
    pub fcp_ms: Option<f64>,
    /// Largest contentful paint.
    pub lcp_ms: Option<f64>,
    /// Cumulative layout shift.
    pub cls: Option<f64>,
    pub dom_content_loaded_ms: Option<f64>,
    pub load_ms: Option<f64>,
}

/// A file that the page had the browser save.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Download {
    pub url: String,
    /// As the page suggests it.
    pub name: String,
    pub bytes: u64,
    pub state: Word<DownloadState>,
    /// Its copy among the artifacts of the run; none where it is not complete, or too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What the browser calls it.
    #[serde(skip)]
    pub guid: String,
}

word_type! {
    /// How far a download is, in the words of the browser.
    DownloadState { Running = "running", Completed = "completed", Canceled = "canceled" }
}

/// A question that the page asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dialog {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub r#type: String,
    pub message: String,
    /// `accepted` or `dismissed`.
    pub answer: String,
}

/// The outcome of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepReport {
    /// The step in words.
    pub step: String,
    pub ok: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was there instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<String>,
    pub duration_ms: u64,
}

/// A script of a third party that a shim stood in for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShimUse {
    pub name: String,
    /// How many requests it answered.
    pub answered: u64,
    /// What its script reported, such as `card entered`.
    pub calls: Vec<String>,
}

/// How much of long texts and lists a record on the timeline has.
const RECORD_TEXT: usize = 4000;
const RECORD_LIST: usize = 50;

impl BrowseReport {
    /// Returns what the timeline has of it: shortened, because records are; the files have all.
    pub fn for_record(&self) -> Self {
        let mut short = self.clone();
        short.text = cut(&short.text, RECORD_TEXT);
        short.title = cut(&short.title, RECORD_TEXT);
        short.accessibility.snapshot = String::new();
        short.console.truncate(RECORD_LIST);
        short.console.iter_mut().for_each(|line| line.text = cut(&line.text, RECORD_TEXT));
        short.page_errors.truncate(RECORD_LIST);
        short.page_errors.iter_mut().for_each(|error| *error = cut(error, RECORD_TEXT));
        short.failed_requests.truncate(RECORD_LIST);
        short.media.truncate(RECORD_LIST);
        short.redirects.truncate(RECORD_LIST);
        short.slow_requests.truncate(RECORD_LIST);
        short.traces.truncate(RECORD_LIST);
        short.downloads.truncate(RECORD_LIST);
        short.dialogs.truncate(RECORD_LIST);
        short.dialogs.iter_mut().for_each(|dialog| dialog.message = cut(&dialog.message, 500));
        short.popups.truncate(RECORD_LIST);
        short.steps.truncate(RECORD_LIST);
        short.script = None;
        short
    }

    /// Returns one line about it.
    pub fn summary(&self) -> String {
        let status = self.status.map_or("no answer".to_owned(), |status| status.to_string());
        let mut line = format!("{} {}: {status}", self.app, path_of(&self.url));
        if !self.title.is_empty() {
            line.push_str(&format!(", \"{}\"", cut(&self.title, 80)));
        }
        for (count, one, more) in [
            (self.page_errors.len(), "page error", "page errors"),
            (self.failed_requests.len(), "failed request", "failed requests"),
            (self.steps.iter().filter(|step| !step.ok).count(), "failed step", "failed steps"),
        ] {
            match count {
                0 => {}
                1 => line.push_str(&format!(", 1 {one}")),
                count => line.push_str(&format!(", {count} {more}")),
            }
        }
        line
    }
}

/// Returns the path of a URL, with its query.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Cuts a text at a character.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_bounded() {
        for (text, expected) in [
            ("1280x720", Some((1280, 720))),
            ("390X844", Some((390, 844))),
            ("1280", None),
            ("0x0", None),
            ("99999x10", None),
            ("axb", None),
        ] {
            let found = text.parse::<Viewport>().ok().map(|it| (it.width, it.height));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_record_is_short_and_its_summary_says_what_is_wrong() {
        let report = BrowseReport {
            app: "web".into(),
            url: "https://web.a.shop.localhost:8443/cart?x=1".into(),
            status: Some(500),
            title: "Shop".into(),
            text: "ü".repeat(10_000),
            page_errors: vec!["boom".into(); 3],
            console: vec![ConsoleLine::default(); 1000],
            ..BrowseReport::default()
        };
        assert_eq!(report.summary(), "web /cart?x=1: 500, \"Shop\", 3 page errors");
        let record = report.for_record();
        assert!(record.text.len() < RECORD_TEXT + 8 && record.console.len() == RECORD_LIST);
        assert_eq!(cut("aüb", 2), "a…");
    }
}
