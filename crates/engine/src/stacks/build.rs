//! Builds one layer of a stack in a separate room.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
};

use hothouse_backend::RoomCommand;
use hothouse_host::{files, hands, owners::Give, random, usage::Blocks};
use hothouse_model::{
    OperationId, ProjectName, SandboxName, SandboxRecord,
    id::{SandboxId, SandboxKey},
    room::{RoomMount, RoomOrder, RoomWall},
    sandbox::RepositoryPlace,
    tree::TreeMaker,
};

use super::{
    NOTE, Note, RoomStackError, StackChanges, image,
    script::{Recipe, What},
};
use crate::{
    Engine,
    images::ARCHIVE_INSIDE,
    room::{TEMPORARY, room_id},
    run::StepError,
};

/// The folder of layers in a room's storage.
pub(super) const LAYERS: &str = "layers";

/// The working folder of a build.
const WORK: &str = "work";

/// The script file in it.
const PROGRAM: &str = "build.sh";

/// The time limit of a script, in seconds.
const PATIENCE: u32 = 2 * 60 * 60;

/// How many lines of a script's output are kept, and the maximum length of each.
const LINES: usize = 40;
const LINE: usize = 400;

/// The maximum number of listed packages or programs.
const NAMED: usize = 10_000;

/// How much of a script's output is read.
const OUTPUT: u64 = 256 << 20;

/// The prefix of lines with which a script reports to us.
const TOLD: &str = "hothouse-stack ";

/// The output of a script.
#[derive(Debug, Default)]
pub(super) struct Output {
    code: Option<i32>,
    last: VecDeque<String>,
    unreachable: Vec<String>,
    changes: StackChanges,
}

impl Output {
    /// Processes a line; returns progress for the user.
    fn take(&mut self, line: &str) -> Option<String> {
        if let Some(told) = line.strip_prefix(TOLD) {
            let (word, rest) = told.split_once(' ').unwrap_or((told, ""));
            match word {
                "exit" => self.code = rest.parse().ok(),
                "unreachable" => self.unreachable.push(rest.to_owned()),
                "package" if self.changes.packages.len() < NAMED => {
                    self.changes.packages.push(rest.to_owned());
                }
                "program" if self.changes.programs.len() < NAMED => {
                    self.changes.programs.push(rest.to_owned());
                }
                "step" => return Some(rest.to_owned()),
                _ => {}
            }
            return None;
        }
        if self.last.len() == LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        None
    }

    fn said(&self) -> String {
        let skipped = self.last.len().saturating_sub(15);
        self.last.iter().skip(skipped).cloned().collect::<Vec<_>>().join("\n")
    }

    /// Returns the addresses that could not be reached: those that the script reported, else those
    /// in error messages.
    fn addresses(&self) -> Vec<String> {
        let mut all = self.unreachable.clone();
        if all.is_empty() {
            all.extend(self.last.iter().filter_map(|line| address(line)));
        }
        all.sort();
        all.dedup();
        all.truncate(5);
        all
    }
}

/// Returns the unreachable address in an error message.
fn address(line: &str) -> Option<String> {
    let failed = [
        "ailed to fetch",
        "ould not connect",
        "ould not resolve",
        "nable to connect",
        "network request",
        "dial tcp",
        "ailed to download",
        "ax retries exceeded",
        "onnection refused",
        "no such host",
        "ENOTFOUND",
        "ECONNREFUSED",
        "ECONNRESET",
    ];
    if !failed.iter().any(|words| line.contains(words)) {
        return None;
    }
    let plain = |text: &str| {
        let end = text.find(|c: char| c.is_whitespace() || "\"'`<>),;".contains(c));
        text[..end.unwrap_or(text.len())].trim_end_matches([':', '.']).to_owned()
    };
    for begin in ["https://", "http://"] {
        if let Some(at) = line.find(begin) {
            return Some(plain(&line[at..]));
        }
    }
    for before in ["host: ", "lookup ", "resolve '", "host='", "ENOTFOUND "] {
        if let Some(at) = line.find(before) {
            return Some(plain(&line[at + before.len()..])).filter(|host| host.contains('.'));
        }
    }
    None
}

impl Engine {
    /// Builds one layer on top of others, which are given uppermost first. Returns its folder.
    pub(super) fn build(
        &self,
        recipe: &Recipe,
        digest: &str,
        below: &[PathBuf],
        operation: Option<&OperationId>,
    ) -> Result<PathBuf, RoomStackError> {
        let around = self.stacks_folder();
        let nonce = u64::from_ne_bytes(random::bytes());
        let short: String = digest.chars().take(16).collect();
        let folder = around.join(format!("{}.{short}.{nonce:016x}", recipe.slug()));
        for left in files::list(&around)? {
            let name = left.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&format!("{}.", recipe.slug())) && name.ends_with(".new") {
                hands::remove_tree(&left)?;
            }
        }
        let new = folder.with_added_extension("new");
        files::make_private_folder(&new.join(WORK))?;
        hands::give_tree(&new.join(WORK), &Give::whole())?;
        self.note(operation, format!("building stack `{}`, which takes minutes", recipe.name));
        let built = self.fill_stack(recipe, &new, below, nonce, operation);
        let changes = match built {
            Ok(changes) => changes,
            Err(error) => {
                hands::remove_tree(&new).ok();
                return Err(error);
            }
        };
        hands::remove_tree(&new.join(WORK))?;
        let name_of =
            |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let note = Note {
            name: recipe.name.clone(),
            source: recipe.source(),
            digest: digest.to_owned(),
            built: self.with.clock.now(),
            bytes: hands::measure(&new, Blocks::AreOwn)?.total,
            below: below.iter().map(name_of).collect(),
            changes,
        };
        let text = serde_json::to_vec_pretty(&note).expect("texts and numbers are plain text");
        files::replace(&new.join(NOTE), &text, 0o600)?;
        // An incomplete stack under its final name would be worse than none.
        files::sync_file_system(&around)?;
        files::rename(&new, &folder)?;
        Ok(folder)
    }

    fn fill_stack(
        &self,
        recipe: &Recipe,
        new: &Path,
        below: &[PathBuf],
        nonce: u64,
        operation: Option<&OperationId>,
    ) -> Result<StackChanges, RoomStackError> {
        let runtime = self.with.runtime.join(format!("stack{TEMPORARY}{nonce:016x}"));
        let mut room = build_room(new, &runtime, nonce);
        room.wall.stack = below.iter().map(|folder| folder.join(LAYERS)).collect();
        let program = match &recipe.what {
            What::Script { .. } => recipe.program(),
            What::Image { reference, .. } => {
                let image =
                    self.image_store().ensure(reference, &|text| self.note(operation, text));
                let named = |source| RoomStackError::Image { name: recipe.name.clone(), source };
                let image = image.map_err(named)?;
                let target = PathBuf::from(ARCHIVE_INSIDE);
                let source = image.root;
                room.mounts.push(RoomMount { source, target, writable: false, own: false });
                // Unpacking an image needs no network.
                room.sandbox = None;
                room.ephemeral = true;
                image::UNPACK.to_owned()
            }
        };
        self.give_settings(&mut room)?;
        let program = with_environment(&program, &room.wall);
        hands::write(&new.join(WORK), Path::new(PROGRAM), program.as_bytes(), 0o644)?;
        let record = self.builder(recipe, new, &runtime, nonce);
        let ledger = self.logs_of(&record);
        if room.sandbox.is_some() {
            room.sandbox = Some(record.key);
            self.builders.add(record.clone());
        }
        self.temporary.begin(&runtime);
        let output = self.run_script(&room, operation);
        let killed = self.with.rooms.kill(&runtime);
        self.temporary.end(&runtime);
        self.builders.remove(record.key);
        files::remove_tree(&ledger).ok();
        let output = output?;
        killed.map_err(StepError::from)?;
        if output.code != Some(0) {
            return Err(failed(&recipe.name, &output));
        }
        if let What::Image { .. } = recipe.what {
            hands::rename(&new.join(WORK).join(LAYERS), &new.join(LAYERS))?;
        }
        Ok(output.changes)
    }

    fn run_script(
        &self,
        room: &RoomOrder,
        operation: Option<&OperationId>,
    ) -> Result<Output, RoomStackError> {
        self.start_walled(room)?;
        let line = format!("exec sudo timeout {PATIENCE} /bin/sh {PROGRAM} 2>&1");
        let words = ["/bin/sh", "-c", &line].map(OsString::from).to_vec();
        let command = RoomCommand { words, folder: room.worktree.clone() };
        let pipes = self.with.rooms.converse(&room.runtime, &command).map_err(StepError::from)?;
        let mut output = Output::default();
        let reader = std::fs::File::from(pipes.from).take(OUTPUT);
        each_line(reader, |line| {
            if let (Some(step), Some(operation)) = (output.take(line), operation) {
                self.note_waiting(operation, &step);
            }
        });
        // The script ends with its input.
        drop(pipes.to);
        Ok(output)
    }

    /// Returns a sandbox record for a build room, which only has its config.
    fn builder(&self, recipe: &Recipe, new: &Path, runtime: &Path, nonce: u64) -> SandboxRecord {
        let name: SandboxName = "stack".parse().expect("a plain name");
        let project = ProjectName::from_folder("hothouse-stacks");
        let worktree = new.join(WORK);
        let hosts =
            recipe.hosts().into_iter().map(|host| format!(", \"{host}\"")).collect::<String>();
        let config = format!(
            "[egress]\nmode = \"allowlist\"\nallow = [\"@toolchain\", \"@common\"{hosts}]\n"
        );
        // Keys in the database are positive.
        let key = SandboxKey(-1 - i64::try_from(nonce >> 2).unwrap_or(0));
        SandboxRecord {
            key,
            id: SandboxId::derive(&project, &name, runtime, &worktree, ""),
            name,
            label: project.to_string(),
            project,
            repository: RepositoryPlace { common_dir: new.to_owned(), root: new.to_owned() },
            sandboxes: new.to_owned(),
            worktree,
            branch: String::new(),
            base: String::new(),
            base_commit: String::new(),
            tree_driver: TreeMaker::Foreign,
            task: None,
            created: self.with.clock.now(),
            pinned_config: Some(config),
            imported: None,
            agent_branch: None,
            deleting: false,
            room: None,
            stack: None,
            former_paths: Vec::new(),
        }
    }
}

fn failed(name: &str, output: &Output) -> RoomStackError {
    let (name, said) = (name.to_owned(), output.said());
    let addresses = output.addresses();
    if !addresses.is_empty() {
        return RoomStackError::Unreachable { name, addresses, said };
    }
    let code = output.code.map_or("a signal".to_owned(), |code| format!("exit {code}"));
    RoomStackError::Script { name, code, said }
}

/// Prepends variables to a script: those with which the user's own tools find their registries.
fn with_environment(program: &str, wall: &RoomWall) -> String {
    let quoted = |value: &str| value.replace('\'', r"'\''");
    let lines =
        wall.environment.iter().map(|(name, value)| format!("export {name}='{}'\n", quoted(value)));
    lines.chain([program.to_owned()]).collect()
}

/// Passes on the lines of a text, without terminal control characters.
fn each_line(mut from: impl Read, mut take: impl FnMut(&str)) {
    let (mut buffer, mut line) = ([0_u8; 8192], Vec::new());
    let mut pass = |line: &mut Vec<u8>| {
        let text: String =
            String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(LINE).collect();
        if !text.is_empty() {
            take(&text);
        }
        line.clear();
    };
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        for byte in &buffer[..count] {
            match byte {
                b'\n' | b'\r' => pass(&mut line),
                _ if line.len() < LINE * 4 => line.push(*byte),
                _ => {}
            }
        }
    }
    pass(&mut line);
}

fn build_room(new: &Path, runtime: &Path, nonce: u64) -> RoomOrder {
    RoomOrder {
        id: format!("{}-{nonce:016x}", room_id("stack", runtime)),
        // The actual sandbox is set later.
        sandbox: Some(SandboxKey(-1)),
        hostname: "stack".into(),
        names: Vec::new(),
        worktree: new.join(WORK),
        aliases: Vec::new(),
        storage: new.to_owned(),
        runtime: runtime.to_owned(),
        tools: Vec::new(),
        mounts: Vec::new(),
        masks: Vec::new(),
        git: None,
        memory: None,
        cpus: None,
        pids: None,
        disk: None,
        ephemeral: false,
        wall: RoomWall::default(),
        claim: None,
        layers: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_was_not_reached_is_found_in_what_programs_say() {
        for (line, found) in [
            (
                "E: Failed to fetch http://deb.example.com/x.deb  403  Forbidden",
                Some("http://deb.example.com/x.deb"),
            ),
            ("curl: (6) Could not resolve host: builds.example.com", Some("builds.example.com")),
            (
                "npm ERR! network request to https://npm.example.com/eslint failed, reason:",
                Some("https://npm.example.com/eslint"),
            ),
            (
                "go: x@latest: dial tcp: lookup proxy.example.org on 127.0.0.1:53: no such host",
                Some("proxy.example.org"),
            ),
            (
                "Get \"https://proxy.example.org/x/@v/list\": dial tcp: connection refused",
                Some("https://proxy.example.org/x/@v/list"),
            ),
            ("error: see https://docs.example.com for more", None),
            ("Setting up x (1.0)", None),
        ] {
            assert_eq!(address(line).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn what_a_script_reports_is_read_and_the_rest_is_bounded() {
        let mut output = Output::default();
        let mut text = String::from("hothouse-stack step packages\n\u{1b}[31mred\n");
        text.push_str(&"x".repeat(10_000));
        (0..100).for_each(|n| text.push_str(&format!("\nline {n}")));
        text.push_str("\nhothouse-stack package jq 1.6\nhothouse-stack unreachable https://a.example.com/\nhothouse-stack exit 69");
        let mut steps = Vec::new();
        each_line(text.as_bytes(), |line| steps.extend(output.take(line)));
        assert_eq!(steps, ["packages"]);
        assert_eq!((output.code, output.last.len()), (Some(69), LINES));
        assert_eq!(output.changes.packages, ["jq 1.6"]);
        let error = failed("go", &output);
        assert_eq!(
            error.to_string(),
            "could not build stack `go`: cannot reach https://a.example.com/"
        );
        let other = Output { code: Some(2), ..Output::default() };
        assert_eq!(
            failed("x", &other).to_string(),
            "could not build stack `x`: its script ended with exit 2"
        );
    }

    #[test]
    fn variables_cannot_end_their_quotes() {
        let mut wall = RoomWall::default();
        wall.environment.insert("A".into(), "it's".into());
        assert_eq!(with_environment("true\n", &wall), "export A='it'\\''s'\ntrue\n");
    }
}
