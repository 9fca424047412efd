//! What a browser saw of a page, reduced to what checks and summaries need.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// Chromium's console message for a failed request, which is counted as a request.
const LOAD_FAILED: &str = "Failed to load resource";

/// Requested by Chromium on its own.
const FAVICON: &str = "/favicon.ico";

/// A page that was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageSeen {
    /// The record on the timeline.
    pub record: Option<String>,
    pub url: String,
    pub final_url: String,
    pub status: Option<u16>,
    pub title: String,
    pub text: String,
    pub console: Vec<ConsoleLine>,
    /// Uncaught exceptions.
    pub page_errors: Vec<String>,
    pub failed_requests: Vec<FailedRequest>,
    pub media: Vec<Media>,
    /// `None` if the browser does not report them.
    pub cookies: Option<Vec<Cookie>>,
    /// Paths below the run's folder.
    pub screenshots: Vec<String>,
    pub duration_ms: u64,
    /// The steps taken, up to the first one that failed.
    pub steps: Vec<StepSeen>,
    /// Why the page did not open, or a step failed.
    pub failure: Option<String>,
}

/// A step on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepSeen {
    pub step: String,
    pub ok: bool,
    /// Why it failed.
    pub error: Option<String>,
    /// What was found instead.
    pub near: Vec<String>,
    pub duration_ms: u64,
}

/// A line in the console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsoleLine {
    pub level: String,
    pub text: String,
}

/// A failed request of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedRequest {
    pub url: String,
    pub status: Option<u16>,
    pub reason: String,
}

/// An image or a video on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Media {
    pub src: String,
    pub width: u64,
    pub height: u64,
    pub ok: bool,
}

/// A cookie set by the page. Only the browser knows its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cookie {
    pub name: String,
}

impl PageSeen {
    /// Returns the errors of the page's own code.
    pub fn console_errors(&self) -> Vec<String> {
        let lines = self
            .console
            .iter()
            .filter(|line| line.level == "error" && !line.text.starts_with(LOAD_FAILED));
        lines.map(|line| line.text.clone()).chain(self.page_errors.iter().cloned()).collect()
    }

    /// Returns failed requests, except for the page itself and media, which have checks of their own.
    pub fn failures(&self) -> Vec<String> {
        let pictures: HashSet<&str> = self.media.iter().map(|media| media.src.as_str()).collect();
        let own = [self.url.as_str(), self.final_url.as_str()];
        let others = self.failed_requests.iter().filter(|request| {
            let url = request.url.as_str();
            !own.contains(&url) && !pictures.contains(url) && !is_favicon(url)
        });
        others.map(FailedRequest::told).collect()
    }

    /// Returns images that could not be displayed.
    pub fn broken(&self) -> Vec<String> {
        self.media.iter().filter(|media| !media.ok).map(|media| media.src.clone()).collect()
    }
}

impl FailedRequest {
    fn told(&self) -> String {
        match self.status {
            Some(status) => format!("{status} {}", self.url),
            None => format!("{} {}", self.reason, self.url),
        }
    }
}

fn is_favicon(url: &str) -> bool {
    url.split(['?', '#']).next().is_some_and(|url| url.ends_with(FAVICON))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_once() {
        let line = |level: &str, text: &str| ConsoleLine { level: level.into(), text: text.into() };
        let failed = |url: &str| FailedRequest {
            url: url.into(),
            status: Some(404),
            reason: "Not Found".into(),
        };
        let page = PageSeen {
            url: "https://web/".into(),
            final_url: "https://web/done".into(),
            console: vec![
                line("error", "Failed to load resource: the server responded with 404"),
                line("error", "x is not a function"),
                line("warning", "slow"),
            ],
            page_errors: vec!["TypeError: y".into()],
            failed_requests: [
                "https://web/a.png",
                "https://web/favicon.ico?v=1",
                "https://web/api",
            ]
            .map(failed)
            .to_vec(),
            media: vec![
                Media { src: "https://web/a.png".into(), ..Media::default() },
                Media { src: "https://web/b.png".into(), ok: true, ..Media::default() },
            ],
            ..PageSeen::default()
        };
        assert_eq!(page.console_errors(), ["x is not a function", "TypeError: y"]);
        assert_eq!(page.failures(), ["404 https://web/api"]);
        assert_eq!(page.broken(), ["https://web/a.png"]);
    }
}
