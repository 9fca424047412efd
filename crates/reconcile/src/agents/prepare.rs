//! Prepares a room for an agent: its task, its guard, and the tool itself.

use std::time::Duration;

use hothouse_engine::Engine;
use hothouse_model::{Failure, FailureKind, SandboxRecord, agent::AgentRecord};

use super::{AgentWish, Tool, login, tool::Launch};
use crate::in_room::{InRoom, RoomTask, TaskEnd, TaskOutput};

/// The maximum length of a prompt passed as an argument; a longer one becomes a file.
const ARGUMENT: usize = 64 << 10;

/// The maximum length of a prompt, and of a task.
pub(super) const PROMPT_LIMIT: usize = 1 << 20;

/// The prompt of an agent whose actual prompt is a file.
const READ_PROMPT: &str = "Read .hothouse/prompt.md and do what it says.";

/// The prompt of an agent that has a task but no prompt.
const READ_TASK: &str =
    "Read feature-request.md and do what it asks. Commit your work in small commits as you go.";

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the prompt of an agent.
pub(super) fn prompt(wish: &AgentWish, sandbox: &SandboxRecord) -> Result<Option<String>, Failure> {
    for (what, text) in [("prompt", &wish.prompt), ("task", &wish.task)] {
        let length = text.as_ref().map_or(0, String::len);
        if length > PROMPT_LIMIT {
            let message = format!("the {what} has {length} bytes; the most is {PROMPT_LIMIT}");
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("put it into a file of the repository, and name that file"));
        }
    }
    let has_task = wish.task.is_some() || sandbox.task.is_some();
    Ok(match &wish.prompt {
        Some(prompt) => Some(prompt.clone()),
        None if wish.resumed => None,
        None => has_task.then(|| READ_TASK.to_owned()),
    })
}

/// Runs a shell command in the room; it gets the arguments as `$1` and so on.
pub(super) async fn shell(
    inside: &InRoom,
    script: &str,
    arguments: &[&str],
    stdin: &[u8],
    timeout: Duration,
) -> Result<TaskOutput, Failure> {
    run(inside, script, arguments, stdin, (256 << 10, timeout)).await
}

/// Like [`shell`], for a command with a lot of output.
pub(super) async fn read_all(
    inside: &InRoom,
    script: &str,
    arguments: &[&str],
    most: usize,
    timeout: Duration,
) -> Result<Vec<u8>, Failure> {
    let output = run(inside, script, arguments, &[], (most, timeout)).await?;
    Ok(output.stdout.head)
}

async fn run(
    inside: &InRoom,
    script: &str,
    arguments: &[&str],
    stdin: &[u8],
    (keep, timeout): (usize, Duration),
) -> Result<TaskOutput, Failure> {
    let words = ["/bin/sh", "-c", script, "sh"];
    let argv = words.iter().chain(arguments).map(|word| (*word).to_owned());
    let task = RoomTask {
        label: "agent-step",
        argv: argv.collect(),
        folder: None,
        service: None,
        env: Vec::new(),
        stdin: stdin.to_vec(),
        timeout,
        keep,
    };
    inside.run(task).await
}

pub(super) fn is_done(output: &TaskOutput) -> bool {
    matches!(output.end, TaskEnd::Exit(0))
}

/// Fails if the room does not have the tool.
pub(super) async fn check_installed(inside: &InRoom, tool: &Tool) -> Result<(), Failure> {
    let program = tool.program().map(|(program, _)| program).or_else(|| tool.single_word());
    let Some(program) = program else { return Ok(()) };
    let found = shell(inside, "command -v -- \"$1\"", &[program], &[], TIMEOUT).await?;
    if is_done(&found) {
        return Ok(());
    }
    let message = format!("`{program}` is not installed in the room of `{}`", inside.sandbox.name);
    let failure = Failure::new(FailureKind::NotFound, message);
    let Some((_, how)) = tool.program() else {
        return Err(failure
            .hint("name a command that the room has, such as `--tool 'bash scripts/agent.sh'`"));
    };
    Err(failure
        .hint(format!("install it on the host where rooms see it, such as below /usr/local, or in the room: `hothouse exec --root -w {} -- {how}`", inside.sandbox.name))
        .hint("`room.tools` in hothouse.toml shows rooms a folder of your home, such as ~/.nvm"))
}

/// Writes the task to the file that the agent reads, which git ignores.
pub(super) async fn write_task(inside: &InRoom, wish: &AgentWish) -> Result<(), Failure> {
    if let Some(task) = &wish.task {
        let text = format!("# Request\n\n{}\n", task.trim_end());
        put(inside, "feature-request.md", text.as_bytes()).await?;
        let exclude = "file=$(git rev-parse --git-path info/exclude) && mkdir -p \"$(dirname -- \"$file\")\" && \
                       for line do grep -qxF -- \"$line\" \"$file\" 2>/dev/null || printf '%s\\n' \"$line\" >> \"$file\"; done";
        shell(inside, exclude, &["/feature-request.md", "/.hothouse/"], &[], TIMEOUT).await?;
    }
    if let Some(prompt) = wish.prompt.as_ref().filter(|prompt| prompt.len() > ARGUMENT) {
        put(inside, ".hothouse/prompt.md", prompt.as_bytes()).await?;
    }
    instruct(inside).await
}

async fn put(inside: &InRoom, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    let script = "mkdir -p \"$(dirname -- \"$1\")\" && cat > \"$1\"";
    let done = shell(inside, script, &[path], bytes, TIMEOUT).await?;
    match is_done(&done) {
        true => Ok(()),
        false => Err(Failure::new(
            FailureKind::Backend,
            format!("`{path}` could not be written in the room: {}", done.last_lines(3).join(" ")),
        )),
    }
}

/// The files with instructions for all projects, in the room's home: tools read them in addition to
/// the repository's own.
const HOMES: [&str; 5] = [
    ".claude/CLAUDE.md",
    ".codex/AGENTS.md",
    ".gemini/GEMINI.md",
    ".copilot/copilot-instructions.md",
    ".config/opencode/AGENTS.md",
];

/// Tells every tool where its task is, outside of the worktree.
async fn instruct(inside: &InRoom) -> Result<(), Failure> {
    let text = hothouse_engine::task_instructions();
    let script = "for file do mkdir -p \"$HOME/$(dirname -- \"$file\")\"; done; \
                  text=$(cat); for file do printf '%s\\n' \"$text\" > \"$HOME/$file\"; done";
    shell(inside, script, &HOMES, text.as_bytes(), TIMEOUT).await.map(drop)
}

/// opencode requests its plugin package from the registry before it loads a plugin, and waits for
/// minutes if that is unreachable. The guard's plugin needs no package, so the folder is marked as
/// complete unless it has content.
const COMPLETE: &str = "cd \"$HOME/.config/opencode\" && if ! test -e node_modules && ! test -e package.json; then \
    mkdir node_modules && printf '%s' '{\"packages\":{\"\":{\"dependencies\":{\"@opencode-ai/plugin\":\"*\"}}}}' > package-lock.json; fi";

/// Whether the tool needs an option to run hooks that the user has not reviewed.
pub(super) async fn needs_unseen_hooks(inside: &InRoom, tool: &Tool) -> Result<bool, Failure> {
    let Some((option, ask)) = tool.unseen_hooks() else { return Ok(false) };
    let script = format!("({ask}) 2>/dev/null | grep -q -- \"$1\"");
    Ok(is_done(&shell(inside, &script, &[option], &[], TIMEOUT).await?))
}

/// Installs the guard's hook in the home of the room.
pub(super) async fn install_guard(inside: &InRoom, tool: &Tool) -> Result<(), Failure> {
    let Some(name) = tool.guarded() else { return Ok(()) };
    let mut script = "hothouse guard install --user --for \"$1\"".to_owned();
    if *tool == Tool::OpenCode {
        script = format!("{script} && {COMPLETE}");
    }
    let script = script.as_str();
    let done = shell(inside, script, &[name], &[], TIMEOUT).await?;
    match is_done(&done) {
        true => Ok(()),
        false => Err(Failure::new(
            FailureKind::Backend,
            format!(
                "the guard could not be installed for `{name}`: {}",
                done.last_lines(3).join(" ")
            ),
        )
        .hint("`--no-guard` starts the agent without it; the room is the fence either way")),
    }
}

/// Returns the command of a round.
pub(super) fn task(
    inside: &InRoom,
    tool: &Tool,
    wish: &AgentWish,
    record: &AgentRecord,
    engine: &Engine,
) -> Result<RoomTask, Failure> {
    let prompt =
        wish.prompt.as_deref().map(|text| if text.len() > ARGUMENT { READ_PROMPT } else { text });
    let launch = Launch {
        prompt,
        model: wish.model.as_deref(),
        unattended: wish.unattended || wish.rounds.is_some(),
        resumed: wish.resumed,
        unseen_hooks: wish.unseen_hooks,
    };
    let worktree = inside.sandbox.worktree.display().to_string();
    let mode = if launch.unattended { "deny" } else { "ask" };
    let mut env = vec![
        ("TERM".to_owned(), "xterm-256color".to_owned()),
        ("SANDBOX_DIR".to_owned(), worktree),
        ("HOTHOUSE_AGENT".to_owned(), record.id.clone()),
        ("HOTHOUSE_AGENT_ROUND".to_owned(), record.round.to_string()),
        ("HOTHOUSE_GUARD_MODE".to_owned(), mode.to_owned()),
    ];
    env.extend(prompt.map(|prompt| ("HOTHOUSE_AGENT_PROMPT".to_owned(), prompt.to_owned())));
    let needed = tool.variables().iter().map(|(name, value)| (*name, *value));
    let login = login::variables(inside, tool);
    let needed = needed.chain(login).filter(|(name, _)| !inside.has_variable(name));
    env.extend(needed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // A variable of the project overrides the user's variable for all agents.
    let own = engine.agent_variables()?.into_iter().filter(|(name, _)| !inside.has_variable(name));
    env.extend(own);
    Ok(RoomTask {
        label: "agent",
        argv: tool.argv(&launch),
        folder: None,
        service: None,
        env,
        stdin: Vec::new(),
        timeout: Duration::MAX,
        keep: 0,
    })
}
