//! Tool calls: this program, run again.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use clap::Command;
use hothouse_api::Build;
use hothouse_host::{Folders, inside::OwnRun, process};
use hothouse_mcp::{budget, resource::kind_of, tool::CallResult};
use hothouse_model::{Failure, FailureKind};
use serde_json::{Map, Value};

use crate::{
    DaemonEnd, Surroundings,
    args::{Arguments, parse::Noun},
    commands,
    describe::{self, Description, Risk},
    session::Session,
    tools,
    ui::{self, Ui},
};

/// How many calls run at a time; others wait.
const AT_ONCE: usize = 8;

/// How much of a call's output is read.
const OUTPUT: u64 = 32 << 20;

/// How often a caller is notified that its call is still running.
const PULSE: Duration = Duration::from_secs(5);

/// The maximum length of a command's message that is passed on.
const LINE: usize = 2000;

/// A call that may be cancelled.
#[derive(Default)]
pub(super) struct Cancel {
    cancelled: AtomicBool,
    run: Mutex<Option<OwnRun>>,
}

impl Cancel {
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        if let Some(run) = &*self.run.lock().unwrap_or_else(PoisonError::into_inner) {
            run.interrupt();
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }
}

/// What calls need.
pub(super) struct Calls {
    program: PathBuf,
    tree: Command,
    sandbox: Option<String>,
    folders: Folders,
    build: Build,
    folder: PathBuf,
    inside: bool,
    ui: Ui,
    places: (Mutex<usize>, Condvar),
}

/// Something that a running command printed.
enum Said {
    Line(String),
    Ended(Vec<u8>),
}

/// The result of a command.
struct Left {
    code: Option<i32>,
    stdout: Vec<u8>,
    talk: String,
}

impl Calls {
    pub(super) fn new(session: &Session, ui: Ui, sandbox: Option<String>) -> Result<Self, Failure> {
        let program = process::executable().ok_or_else(|| {
            Failure::new(FailureKind::Host, "the file of this program is gone")
                .hint("start `hothouse mcp` again")
        })?;
        Ok(Self {
            program,
            tree: crate::command(),
            sandbox,
            folders: session.folders.clone(),
            build: session.build,
            folder: session.folder.clone(),
            inside: session.is_inside(),
            ui,
            places: (Mutex::new(AT_ONCE), Condvar::new()),
        })
    }

    /// Returns a separate session for requests to the daemon.
    pub(super) fn session(&self) -> Result<Session, Failure> {
        let (folders, folder) = (self.folders.clone(), self.folder.clone());
        Session::new(folders, self.build, folder, self.inside, &self.ui)
    }

    pub(super) fn sandbox(&self) -> Option<String> {
        self.sandbox.clone()
    }

    /// Runs the command that a call names, and returns its result.
    pub(super) fn call(
        &self,
        tool: &str,
        arguments: &Value,
        cancel: &Arc<Cancel>,
        tell: &dyn Fn(u64, &str),
    ) -> CallResult {
        let empty = Map::new();
        let Some(given) = arguments.as_object().or(arguments.is_null().then_some(&empty)) else {
            return CallResult::failed("the arguments are not an object");
        };
        let Some(known) = describe::all().find(|known| tools::name_of(known.path) == tool) else {
            return CallResult::failed("there is no such tool");
        };
        let words = tools::command_line(
            &self.tree,
            known.path,
            given,
            self.sandbox.as_deref(),
            self.inside,
        );
        let words = match words {
            Ok(words) => words,
            Err(why) => return CallResult::failed(why),
        };
        if let Some(left) = self.read_here(known, &words) {
            return result(known, given.get("cursor").and_then(Value::as_str), left);
        }
        match self.run(&words, cancel, tell) {
            Ok(left) => result(known, given.get("cursor").and_then(Value::as_str), left),
            Err(error) => CallResult::failed(format!("the command did not start: {error}")),
        }
    }

    /// Runs a command that only reads and does not wait in this process, which saves starting another one.
    fn read_here(&self, known: Description, words: &[String]) -> Option<Left> {
        if known.risk != Risk::Read || known.path == "wait" {
            return None;
        }
        let words = std::iter::once("hothouse").chain(words.iter().map(String::as_str));
        let arguments: Vec<OsString> = words.map(OsString::from).collect();
        // For invalid arguments, the command itself reports the error.
        let parsed = Arguments::parse(&arguments, |_| Noun::Unknown).ok()?;
        let session = self.session().ok()?;
        let ui = Ui::new(&parsed.global, true, true, false);
        let surroundings = self.surroundings(arguments);
        let (code, kept) =
            ui::keep(|| match commands::run(parsed.command, &session, &ui, &surroundings) {
                Ok(code) => i32::from(code != ExitCode::SUCCESS),
                Err(failure) => {
                    ui.fail(&failure);
                    failure.kind.exit_code().into()
                }
            });
        Some(Left { code: Some(code), stdout: kept.data, talk: kept.talk })
    }

    fn surroundings(&self, arguments: Vec<OsString>) -> Surroundings {
        Surroundings {
            arguments,
            variables: Vec::new(),
            credentials: Vec::new(),
            search_path: OsString::new(),
            named_folder: None,
            folder: Ok(self.folder.clone()),
            no_color: true,
            dumb_terminal: true,
            terminal: "dumb".into(),
            editor: None,
            build: self.build,
            folders: Ok(self.folders.clone()),
            variable: |_| None,
            inside: self.inside,
            serve: Box::new(|_, _, _| DaemonEnd::Ended),
        }
    }

    /// Runs a command and returns the JSON that it prints; `None` if it fails.
    pub(super) fn json(&self, words: &[&str]) -> Option<Value> {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.push("--json".into());
        words.extend(self.sandbox.iter().map(|name| format!("--sandbox={name}")));
        let left = self.run(&words, &Arc::default(), &|_, _| {}).ok()?;
        serde_json::from_slice(&left.stdout).ok().filter(|_| left.code == Some(0))
    }

    fn run(
        &self,
        words: &[String],
        cancel: &Arc<Cancel>,
        tell: &dyn Fn(u64, &str),
    ) -> std::io::Result<Left> {
        let _place = self.place();
        if cancel.is_cancelled() {
            return Err(std::io::Error::other("the call was cancelled"));
        }
        let mut run = OwnRun::start(&self.program, words, &self.folder)?;
        let (stdout, stderr) = run.outputs();
        *cancel.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        if cancel.is_cancelled() {
            cancel.cancel();
        }
        let (said_tx, said_rx) = mpsc::channel();
        let line_tx = said_tx.clone();
        let talk = thread::spawn(move || {
            let Some(stderr) = stderr else { return };
            for line in BufReader::new(stderr.take(OUTPUT)).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                line_tx.send(Said::Line(budget::cut_text(&line, LINE))).ok();
            }
        });
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stdout) = stdout {
                stdout.take(OUTPUT).read_to_end(&mut bytes).ok();
            }
            talk.join().ok();
            said_tx.send(Said::Ended(bytes)).ok();
        });
        let (stdout, talk) = listen(&said_rx, tell);
        let mut run = cancel.run.lock().unwrap_or_else(PoisonError::into_inner);
        let code = run.as_mut().and_then(OwnRun::end);
        *run = None;
        Ok(Left { code, stdout, talk })
    }

    /// Waits for a free slot among the running calls.
    fn place(&self) -> Place<'_> {
        let (free, changed) = &self.places;
        let free = free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = changed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(&self.places)
    }
}

struct Place<'a>(&'a (Mutex<usize>, Condvar));

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.1.notify_one();
    }
}

/// Passes messages on until the command has ended; returns its data and all messages.
fn listen(said_rx: &mpsc::Receiver<Said>, tell: &dyn Fn(u64, &str)) -> (Vec<u8>, String) {
    let (mut step, mut talk) = (0, String::new());
    loop {
        step += 1;
        match said_rx.recv_timeout(PULSE) {
            Ok(Said::Ended(stdout)) => return (stdout, talk),
            Ok(Said::Line(line)) => {
                tell(step, &line);
                if talk.len() < budget::RESULT {
                    talk.push_str(&line);
                    talk.push('\n');
                }
            }
            Err(RecvTimeoutError::Timeout) => tell(step, "running"),
            Err(RecvTimeoutError::Disconnected) => return (Vec::new(), talk),
        }
    }
}

/// Builds the result of a call from that of the command.
fn result(known: Description, cursor: Option<&str>, left: Left) -> CallResult {
    let Left { code, stdout, talk } = left;
    let talk = talk.trim();
    let noted = |text: String| match talk.is_empty() {
        true => text,
        false => format!("{text}\n\n{talk}"),
    };
    let structured = match serde_json::from_slice::<Value>(&stdout) {
        Ok(Value::Object(fields)) if fields.contains_key("error") && code != Some(0) => {
            return CallResult::failed(noted(told(&fields["error"])));
        }
        Ok(Value::Object(fields)) => budget::object(fields, budget::RESULT),
        Ok(Value::Array(items)) => budget::page(&items, cursor, budget::RESULT),
        Ok(other) => Map::from_iter([("value".to_owned(), other)]),
        Err(_) => {
            let text = budget::cut_text(&String::from_utf8_lossy(&stdout), budget::RESULT);
            let is_error = code != Some(0);
            return CallResult { text: noted(text), is_error, ..CallResult::default() };
        }
    };
    let text = Value::Object(structured.clone()).to_string();
    // A non-zero exit code is reported: a check of the command failed. `exec` has it among its data.
    let text = match code {
        Some(0) => text,
        Some(_) if known.path == "exec" => text,
        code => {
            format!("{text}\nexit code {}", code.map_or("none".into(), |code| code.to_string()))
        }
    };
    let links = links(&structured);
    CallResult { text: noted(text), structured: Some(structured), links, is_error: false }
}

fn told(error: &Value) -> String {
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |name: &str, before: &str| {
        let items = error.get(name).and_then(Value::as_array).into_iter().flatten();
        let items = items.filter_map(Value::as_str).map(|item| format!("\n{before}: {item}"));
        items.collect::<String>()
    };
    let (causes, hints) = (list("causes", "caused by"), list("hints", "hint"));
    format!("{} ({}){causes}{hints}", text("message"), text("code"))
}

/// Returns the screenshots in a result as files that can be read.
fn links(structured: &Map<String, Value>) -> Vec<(String, String, &'static str)> {
    let files = structured.get("screenshots").and_then(Value::as_array).into_iter().flatten();
    let files = files.filter_map(Value::as_str).take(16);
    let link = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or(file).to_owned();
        (format!("{}{file}", super::resources::ARTIFACTS), name, kind_of(file))
    };
    files.map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, code: i32, stdout: &str, talk: &str) -> CallResult {
        let left = Left { code: Some(code), stdout: stdout.into(), talk: talk.into() };
        result(describe::find(path).unwrap(), None, left)
    }

    #[test]
    fn results_are_objects_errors_are_errors_and_exit_codes_are_told() {
        let ok = of("status", 0, r#"{"name":"a"}"#, "");
        assert_eq!(ok.structured.unwrap()["name"], "a");
        let list = of("emails", 0, r#"[{"id":"1"}]"#, "More: continue with `--since 7`.");
        assert_eq!(list.structured.as_ref().unwrap()["items"][0]["id"], "1");
        assert!(list.text.contains("--since 7"));
        let error =
            r#"{"error":{"code":"not-found","message":"no `b`","causes":["x"],"hints":["`y`"]}}"#;
        let failed = of("status", 4, error, "");
        assert!(failed.is_error && failed.structured.is_none());
        assert_eq!(failed.text, "no `b` (not-found)\ncaused by: x\nhint: `y`");
        let exec = of("exec", 3, r#"{"code":3,"stdout":""}"#, "");
        assert!(!exec.is_error && !exec.text.contains("exit code"));
        assert!(of("analytics", 1, "[]", "").text.contains("exit code 1"));
        assert!(of("url", 70, "gibberish", "").is_error);
    }

    #[test]
    fn screenshots_can_be_read() {
        let browse = of("browse", 0, r#"{"screenshots":["/runs/a/shots/1.png"]}"#, "");
        let uri = "hothouse://artifacts//runs/a/shots/1.png".to_owned();
        assert_eq!(browse.links, [(uri, "1.png".to_owned(), "image/png")]);
    }
}
