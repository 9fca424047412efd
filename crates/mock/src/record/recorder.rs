//! Collects calls, and makes fixtures from them.
//!
//! Calls with the same request make one fixture, with its answers in the recorded order.

use super::{FixtureFiles, Response, body, headers, quoted, request_lines, table};
use crate::{request::Request, stub};

/// The first line of every recording, which distinguishes it from handwritten files.
pub const FIRST_LINE: &str = "# Recorded.";

/// How many different calls are kept, how many answers of each, and how many bytes of answers in total.
const CALLS: usize = 500;
const ANSWERS: usize = 50;
const BYTES: usize = 32 << 20;

/// What was recorded so far, redacted.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    calls: Vec<RecordedCall>,
    bytes: usize,
}

/// A call that is not kept, because there are too many already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

#[derive(Clone, Debug)]
struct RecordedCall {
    stem: String,
    request: Vec<String>,
    answers: Vec<RecordedAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedAnswer {
    status: u16,
    headers: Vec<String>,
    /// The extension of its file, and its bytes.
    body: Option<(&'static str, Vec<u8>)>,
}

impl RecordedAnswer {
    fn of(response: &Response<'_>, redact: &dyn Fn(&str) -> String) -> Self {
        Self {
            status: response.status,
            headers: headers(response, redact),
            body: body(response, redact),
        }
    }

    fn len(&self) -> usize {
        self.body.as_ref().map_or(0, |(_, bytes)| bytes.len())
    }

    fn lines(&self, file: Option<&str>, key: &str) -> Vec<String> {
        let status = format!("status = {}", self.status);
        let file = file.map(|file| format!("file = {}", quoted(file)));
        let headers = table(&format!("{key}.headers"), self.headers.clone());
        std::iter::once(status).chain(file).chain(headers).collect()
    }
}

impl Recorder {
    /// Adds a call. `redact` replaces anything else that must not be kept.
    pub fn add(
        &mut self,
        request: &Request<'_>,
        response: &Response<'_>,
        redact: &dyn Fn(&str) -> String,
    ) -> Result<(), TooMuch> {
        let (asked, answer) =
            (request_lines(request, redact), RecordedAnswer::of(response, redact));
        if self.bytes + answer.len() > BYTES {
            return Err(TooMuch);
        }
        let bytes = answer.len();
        let is_full = self.calls.len() >= CALLS;
        match self.calls.iter_mut().find(|call| call.request == asked) {
            // The last answer is repeated forever, so the same one again adds nothing.
            Some(call) if call.answers.last() == Some(&answer) => return Ok(()),
            Some(call) if call.answers.len() < ANSWERS => call.answers.push(answer),
            None if !is_full => {
                let named = Request { path: &redact(request.path), ..*request };
                let stem = stub::file_name(&named).trim_end_matches(".toml").to_owned();
                let stem = if stem.is_empty() { "call".to_owned() } else { stem };
                self.calls.push(RecordedCall { stem, request: asked, answers: vec![answer] });
            }
            _ => return Err(TooMuch),
        }
        self.bytes += bytes;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Formats the fixtures, avoiding names that are `taken` by handwritten ones.
    pub fn files(&self, taken: &dyn Fn(&str) -> bool) -> Vec<FixtureFiles> {
        let mut names: Vec<String> = Vec::new();
        let each = self.calls.iter().map(|call| {
            let free = |stem: &String| {
                let name = format!("{stem}.toml");
                !names.contains(stem) && !taken(&name)
            };
            let numbered = (2..).map(|number| format!("{}-{number}", call.stem));
            let stem = std::iter::once(call.stem.clone()).chain(numbered).find(free);
            let stem = stem.unwrap_or_default();
            names.push(stem.clone());
            call.files(&stem)
        });
        each.collect()
    }
}

impl RecordedCall {
    fn files(&self, stem: &str) -> FixtureFiles {
        let mut lines = vec![FIRST_LINE.to_owned()];
        lines.extend(self.request.iter().cloned());
        let mut bodies = Vec::new();
        for (at, answer) in self.answers.iter().enumerate() {
            let (heading, key, number) = match at {
                0 => ("[answer]", "answer", String::new()),
                _ => ("[[then]]", "then", format!(".{}", at + 1)),
            };
            let file = answer.body.as_ref().map(|(ending, bytes)| {
                let name = format!("{stem}{number}.body.{ending}");
                bodies.push((name.clone(), bytes.clone()));
                name
            });
            lines.extend([String::new(), heading.to_owned()]);
            lines.extend(answer.lines(file.as_deref(), key));
        }
        FixtureFiles { name: format!("{stem}.toml"), text: lines.join("\n") + "\n", bodies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(recorder: &mut Recorder, path: &str, answer: &str) {
        let headers = [("content-type".to_owned(), b"application/json".to_vec())];
        let request =
            Request { method: "GET", host: "h", path, query: "", headers: &[], body: b"" };
        let response = Response { status: 200, headers: &headers, body: answer.as_bytes() };
        recorder.add(&request, &response, &str::to_owned).unwrap();
    }

    #[test]
    fn the_same_call_again_makes_a_sequence_and_no_name_is_taken_from_anybody() {
        let mut recorder = Recorder::default();
        for answer in ["{\"n\":1}", "{\"n\":1}", "{\"n\":2}"] {
            add(&mut recorder, "/jobs/7", answer);
        }
        add(&mut recorder, "/jobs/8", "{}");
        let files = recorder.files(&|name| name == "get-jobs-id.toml");
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["get-jobs-id-2.toml", "get-jobs-id-3.toml"]);
        assert_eq!(files[0].text.matches("[[then]]").count(), 1, "{}", files[0].text);
        assert_eq!(files[0].bodies.len(), 2);
        assert!(files.iter().all(|file| file.text.starts_with(FIRST_LINE)));
    }

    #[test]
    fn a_recording_has_an_end() {
        let mut recorder = Recorder::default();
        for number in 0..CALLS {
            add(&mut recorder, &format!("/x{number}"), "{}");
        }
        let request =
            Request { method: "GET", host: "h", path: "/more", query: "", headers: &[], body: b"" };
        let response = Response { status: 200, headers: &[], body: b"" };
        assert_eq!(recorder.add(&request, &response, &str::to_owned), Err(TooMuch));
    }
}
