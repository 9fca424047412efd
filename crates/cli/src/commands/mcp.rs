//! `mcp`: the commands as tools, on standard input and output or over HTTP.
//!
//! A call runs the corresponding command with its command line: in a thread if it only reads, otherwise as a
//! separate process of this program, which can be stopped. So a tool does what its command does.

mod calls;
mod http;
mod install;
mod resources;

use std::{
    collections::HashMap,
    io::{self, BufRead, Read, Write},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use hothouse_mcp::{
    Reaction, Server,
    era::Era,
    message::{self, Code, RequestId},
    prompt::Prompt,
};
use hothouse_model::{Failure, FailureKind, visible};
use serde_json::Value;

use self::calls::{Calls, Cancel};
use super::timeline::checked;
use crate::{
    args::{McpArgs, McpCommand, ToolProfile},
    describe::Profile,
    session::Session,
    skills,
    tools::{self, Offer},
    ui::Ui,
};

/// The server's instructions for a model.
const INSTRUCTIONS: &str = "Hothouse gives a coding agent its own sandbox of a repository: files, services, \
     URLs and a record of every side effect. `status` shows where you are. After a change: `up` or `exec`, then \
     `since` a mark or `wait` for a record to see what happened. `ask` your user for what you may not do.";

/// Serves MCP, or installs it.
pub(crate) fn run(session: &Session, ui: &Ui, args: McpArgs) -> Result<ExitCode, Failure> {
    if let Some(McpCommand::Install(args)) = args.command {
        return install::run(session, ui, &args);
    }
    let sandbox = checked(args.which)?;
    let profile = match args.profile {
        ToolProfile::Daily => Profile::Daily,
        ToolProfile::Full => Profile::Full,
    };
    let offer = Offer { profile, inside: session.is_inside() };
    let server = server(session, offer);
    let calls = Arc::new(Calls::new(session, *ui, sandbox)?);
    match args.http {
        true => http::serve(ui, server, calls, args.port),
        false => Ok(serve(&server, &calls)),
    }
}

fn server(session: &Session, offer: Offer) -> Server {
    let tree = crate::command();
    let prompts = skills::all(&tree, offer.inside).into_iter();
    Server {
        version: session.build.version(),
        instructions: INSTRUCTIONS.into(),
        tools: tools::tools(&tree, offer),
        templates: resources::TEMPLATES.to_vec(),
        prompts: prompts.map(|skill| Prompt::new(skill.name, skill.about, &skill.text)).collect(),
    }
}

/// Writes answers to standard output, one per line.
#[derive(Clone, Default)]
struct Out(Arc<Mutex<()>>);

impl Out {
    fn send(&self, message: &Value) {
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = message.to_string();
        let mut out = io::stdout().lock();
        // A client that has disconnected is noticed by the end of its messages.
        writeln!(out, "{}", visible::json(&text)).and_then(|()| out.flush()).ok();
    }
}

type Running = Arc<Mutex<HashMap<RequestId, Arc<Cancel>>>>;

/// Answers messages until there are no more.
fn serve(server: &Server, calls: &Arc<Calls>) -> ExitCode {
    let (out, running) = (Out::default(), Running::default());
    let mut input = io::stdin().lock();
    std::thread::scope(|scope| {
        while let Some(line) = next_line(&mut input) {
            if line.trim().is_empty() {
                continue;
            }
            match server.receive(&line) {
                Reaction::Nothing => {}
                Reaction::Answer(answer) => out.send(&answer),
                Reaction::Cancel { id } => {
                    let running = running.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(cancel) = running.get(&id) {
                        cancel.cancel();
                    }
                }
                Reaction::ListResources { id, era } => {
                    let (out, calls) = (out.clone(), calls.clone());
                    scope.spawn(move || out.send(&id.answer(era.listed(calls.list_resources()))));
                }
                Reaction::ReadResource { id, era, uri } => {
                    let (out, calls) = (out.clone(), calls.clone());
                    scope.spawn(move || out.send(&read(&calls, &id, era, &uri)));
                }
                Reaction::Call { id, era, tool, arguments, progress } => {
                    let cancel = Arc::new(Cancel::default());
                    let mut all = running.lock().unwrap_or_else(PoisonError::into_inner);
                    all.insert(id.clone(), cancel.clone());
                    drop(all);
                    let (out, calls, running) = (out.clone(), calls.clone(), running.clone());
                    scope.spawn(move || {
                        let tell = |step, message: &str| {
                            if let Some(token) = &progress {
                                out.send(&hothouse_mcp::progress(token, step, message));
                            }
                        };
                        let result = calls.call(&tool, &arguments, &cancel, &tell);
                        running.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                        // A cancelled request gets no answer.
                        if !cancel.is_cancelled() {
                            out.send(&id.answer(era.complete(result.shown())));
                        }
                    });
                }
            }
        }
        // There is no client left to read the results of running calls.
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.values().for_each(|cancel| cancel.cancel());
    });
    ExitCode::SUCCESS
}

fn read(calls: &Calls, id: &RequestId, era: Era, uri: &str) -> Value {
    match calls.read_resource(uri) {
        Ok(content) => id.answer(era.listed(content)),
        Err(failure) if failure.kind == FailureKind::NotFound && era == Era::Stateless => {
            id.refused(Code::BadParams, &failure.message)
        }
        Err(failure) if failure.kind == FailureKind::NotFound => {
            id.refused(Code::NoResource, &failure.message)
        }
        Err(failure) => id.refused(Code::Internal, &failure.message),
    }
}

/// Reads one line, up to the size of a message. A longer one is read to its end and refused because it is not JSON.
fn next_line(input: &mut impl BufRead) -> Option<String> {
    let limit = u64::try_from(message::LIMIT).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = input.by_ref().take(limit).read_until(b'\n', &mut bytes).ok()?;
    if read == 0 {
        return None;
    }
    if bytes.last() != Some(&b'\n') && bytes.len() >= message::LIMIT {
        loop {
            let part = input.fill_buf().ok()?;
            let (used, is_end) = match part.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (part.len(), part.is_empty()),
            };
            input.consume(used);
            if is_end {
                return Some("{".into());
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
