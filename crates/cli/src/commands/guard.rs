//! `guard`: judges a tool call of a coding agent before it happens.

mod install;

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use hothouse_api::{
    agent::{AuditBody, AuditCall},
    route,
};
use hothouse_guard::{
    Call, Decision, Files, Link, Mode, Scene, Vendor, contract::INPUT_LIMIT, decide, redacted,
    unreadable,
};
use hothouse_host::files;
use hothouse_model::{Failure, id::hex};

use crate::{
    Surroundings,
    args::{GuardArgs, GuardCommand, GuardMode, GuardTool},
    session::Session,
    ui::Ui,
};

/// How long the daemon may take to record a call.
const PATIENCE: Duration = Duration::from_millis(800);

/// The real file system.
struct Host;

impl Files for Host {
    fn look(&self, path: &Path) -> Link {
        match files::read_link(path) {
            Ok(target) => Link::To(target),
            Err(_) if files::exists(path) => Link::Plain,
            Err(_) => Link::Missing,
        }
    }
}

/// Answers a hook, or installs it. A hook always gets a decision, with exit code 0.
pub(crate) fn run(
    session: Option<&Session>,
    ui: &Ui,
    args: &GuardArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    match (&args.command, session) {
        (Some(GuardCommand::Install(args)), Some(session)) => {
            return install::run(session, ui, args, false);
        }
        (Some(GuardCommand::Uninstall(args)), Some(session)) => {
            return install::run(session, ui, args, true);
        }
        _ => {}
    }
    let vendor = args.tool.map(vendor_of);
    let (call, decision) = match input().and_then(|bytes| Call::read(&bytes, vendor)) {
        Ok(call) => {
            let decision = judged(&call, session, args, surroundings);
            (Some(call), decision)
        }
        Err(why) => (None, unreadable(&why)),
    };
    let speaker = call.as_ref().map(|call| call.vendor).or(vendor).unwrap_or(Vendor::Claude);
    ui.print(&speaker.answer(&decision).stdout);
    if let Some(session) = session {
        report(session, surroundings, speaker, call.as_ref(), &decision);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the hook's input, up to a limit.
fn input() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(INPUT_LIMIT).unwrap_or(u64::MAX) + 1;
    io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(bytes)
}

fn vendor_of(tool: GuardTool) -> Vendor {
    match tool {
        GuardTool::Claude => Vendor::Claude,
        GuardTool::Codex => Vendor::Codex,
        GuardTool::Gemini => Vendor::Gemini,
        GuardTool::Copilot => Vendor::Copilot,
        GuardTool::Cursor => Vendor::Cursor,
        GuardTool::OpenCode => Vendor::OpenCode,
    }
}

/// Returns the sandbox: the named one, otherwise the tool's project, otherwise the folder that the
/// hook runs in.
fn root(session: Option<&Session>, surroundings: &Surroundings) -> Option<PathBuf> {
    let named = ["SANDBOX_DIR", "HOTHOUSE_WORKSPACE", "CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"];
    let named = named.iter().find_map(|name| (surroundings.variable)(name)).map(PathBuf::from);
    let own = session.map(|session| session.folder.clone());
    named.filter(|path| path.is_absolute()).or(own)
}

fn judged(
    call: &Call,
    session: Option<&Session>,
    args: &GuardArgs,
    surroundings: &Surroundings,
) -> Decision {
    let variable = |name: &str| (surroundings.variable)(name);
    let Some(root) = root(session, surroundings) else {
        return unreadable("the folder that it runs in is gone, and SANDBOX_DIR is not set");
    };
    let mode = match (args.mode, variable("HOTHOUSE_GUARD_MODE").as_deref()) {
        (Some(GuardMode::Deny), _) | (None, Some("deny")) => Mode::Deny,
        _ => Mode::Ask,
    };
    let temporary = variable("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let also = temporary.into_iter().chain([PathBuf::from("/tmp"), PathBuf::from("/var/tmp")]);
    let home = variable("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let scene = Scene {
        folder: root.clone(),
        root,
        also: also.collect(),
        home,
        mode,
        in_room: surroundings.inside,
        variable: &variable,
        files: &Host,
    };
    decide(call, &scene)
}

/// Reports the call to the daemon for the audit, if a daemon is running.
fn report(
    session: &Session,
    surroundings: &Surroundings,
    vendor: Vendor,
    call: Option<&Call>,
    decision: &Decision,
) -> Option<()> {
    let folder = root(Some(session), surroundings)?.to_str()?.to_owned();
    let input = call.map(|call| call.input.to_string()).unwrap_or_default();
    let target = call.map(|call| redacted(&call.target)).unwrap_or_default();
    let call = AuditCall {
        agent: vendor.word().to_owned(),
        tool: call.map_or("unreadable".to_owned(), |call| call.tool.clone()),
        target,
        decision: decision.verdict,
        severity: decision.severity,
        confidence: decision.confidence,
        reason: redacted(&decision.reason),
        input: digest(input.as_bytes()),
        session: call.and_then(|call| call.session.clone()),
    };
    let body = AuditBody { sandbox: None, folder, calls: vec![call] };
    session.post_if_running::<serde_json::Value>(route::AUDIT, &body, PATIENCE).map(drop)
}

fn digest(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    format!("sha256:{}", hex(digest.as_ref()))
}
