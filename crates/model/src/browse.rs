//! What a browser is told to do with an app, and what it found: the shapes of `browse`, which are API.

use serde::{Deserialize, Serialize};

use crate::{
    Word,
    record::{Kind, bodies::Body},
    words::word_type,
};

/// The default time limit of a page, in milliseconds.
pub const PATIENCE_MS: u64 = 30_000;

/// A request to `browse`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrowseSpec {
    /// The label of the app. Optional only with a kept page.
    pub app: String,
    /// The path and query; `/` if empty.
    pub path: String,
    /// The role to sign in as.
    pub auth: Option<String>,
    /// Whether the screenshot shows the whole page.
    pub full_page: bool,
    /// The locator of an element to screenshot.
    pub element: Option<String>,
    /// A script of steps to take on the page.
    pub script: Option<String>,
    /// The name of a device, such as `iPhone 15`.
    pub device: Option<String>,
    pub viewport: Option<Viewport>,
    /// Such as `sv-SE`.
    pub locale: Option<String>,
    /// Such as `Europe/Stockholm`.
    pub timezone: Option<String>,
    /// The time at which the page's clock starts, in RFC 3339.
    pub clock: Option<String>,
    pub reduced_motion: bool,
    /// Whether the page goes offline once it has loaded.
    pub offline: bool,
    pub har: bool,
    pub video: bool,
    /// Whether to record a trace of the browser while the page is open.
    #[serde(default)]
    pub trace: bool,
    /// The time limit for everything, in milliseconds. Without it the page and each step have their own limits.
    pub timeout_ms: Option<u64>,
    /// The name of a page to keep for the next call.
    pub session: Option<String>,
    /// One step for a kept page, split into words.
    pub step: Vec<String>,
    /// Whether to close the kept page.
    pub close: bool,
    /// Whether to return the steps of a kept page so far as a script.
    pub record: bool,
}

impl BrowseSpec {
    /// Returns a request for a page of an app with default options.
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

/// A text that is not a size such as `1280x800`.
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
    /// Whether the page answered with a status below 400, threw no exception, and completed all steps.
    pub ok: bool,
    pub app: String,
    pub url: String,
    pub final_url: String,
    /// `None` if the page request got no response.
    pub status: Option<u16>,
    pub title: String,
    /// The visible text of the page.
    pub text: String,
    pub auth: Option<String>,
    /// Paths of the images.
    pub screenshots: Vec<String>,
    pub console: Vec<ConsoleLine>,
    /// Uncaught exceptions, with their stacks.
    pub page_errors: Vec<String>,
    /// Requests without a response, or with a status of 400 or more.
    pub failed_requests: Vec<FailedRequest>,
    pub media: Vec<Media>,
    pub accessibility: Accessibility,
    /// The path of the HAR file with all requests.
    pub har: Option<String>,
    pub video: Option<String>,
    /// The path of a browser trace.
    #[serde(default)]
    pub trace_file: Option<String>,
    /// The folder with all of these files.
    pub artifacts: String,
    pub redirects: Vec<Redirect>,
    pub slow_requests: Vec<SlowRequest>,
    /// Requests whose traces match records of the server.
    pub traces: Vec<TracedRequest>,
    pub cookies: Changes,
    pub storage: Changes,
    pub vitals: Vitals,
    pub downloads: Vec<Download>,
    pub dialogs: Vec<Dialog>,
    /// Windows opened by the page.
    pub popups: Vec<String>,
    pub steps: Vec<StepReport>,
    /// Shims that replaced scripts of third parties.
    pub shims: Vec<ShimUse>,
    /// How many requests the page made.
    pub requests: u64,
    pub duration_ms: u64,
    /// Such as `Chrome/156.0`.
    pub browser: String,
    /// What could not be captured, and what was truncated.
    pub notes: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
    /// The kept page, if it is one.
    pub session: Option<String>,
    /// The steps of a kept page as a script. It holds the values that were filled in, so it is in no file and no
    /// record.
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
    /// The script and line, if known.
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
    /// What requested it, such as `image` or `fetch`.
    pub r#type: String,
}

/// An image, a video or a sound in the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Media {
    pub src: String,
    /// The natural size; 0 if it did not decode.
    pub width: u32,
    pub height: u32,
    pub ok: bool,
    /// `img`, `video`, `audio` or `background`.
    pub r#type: String,
    pub alt: Option<String>,
}

/// The page as assistive technology sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accessibility {
    /// One line for each node: role, name, and a reference such as `e12` that steps can use.
    pub snapshot: String,
    pub nodes: u64,
    /// The number of omitted lines.
    pub left_out: u64,
}

/// A request that was redirected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Redirect {
    pub from: String,
    pub to: String,
    pub status: u16,
}

/// A slow request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowRequest {
    pub url: String,
    pub duration_ms: u64,
    /// Whether it had completed when the page was left.
    pub ended: bool,
}

/// A request of the page, and the server's records of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedRequest {
    pub method: String,
    pub url: String,
    pub status: Option<u16>,
    pub trace: String,
    /// Record ids.
    pub records: Vec<String>,
}

/// Names whose values changed. The values are never shown.
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

/// A file that the page made the browser save.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Download {
    pub url: String,
    /// The name that the page suggests.
    pub name: String,
    pub bytes: u64,
    pub state: Word<DownloadState>,
    /// Its copy among the run's artifacts; `None` if it is incomplete or too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The browser's id for it.
    #[serde(skip)]
    pub guid: String,
}

word_type! {
    /// The state of a download, in the browser's words.
    DownloadState { Running = "running", Completed = "completed", Canceled = "canceled" }
}

/// A dialog that the page opened.
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
    /// The step as written.
    pub step: String,
    pub ok: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was found instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<String>,
    pub duration_ms: u64,
}

/// A third-party script that a shim replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShimUse {
    pub name: String,
    /// How many requests the shim answered.
    pub answered: u64,
    /// What the shim reported, such as `card entered`.
    pub calls: Vec<String>,
}

/// The maximum length of texts and lists in a record on the timeline.
const RECORD_TEXT: usize = 4000;
const RECORD_LIST: usize = 50;

impl BrowseReport {
    /// Returns a shortened report for the timeline; the files have everything.
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

    /// Returns a one-line summary.
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

/// Returns the path and query of a URL.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Truncates a text at a character boundary.
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
