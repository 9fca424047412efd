//! Coverage of services: prepares the room of a proof so that services report which of their code
//! ran.
//!
//! Node.js and Python load a small module, which counts and writes on request. A program built with
//! instrumentation, such as with `-C instrument-coverage`, gets its output path from the
//! environment.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, files};
use hothouse_model::{
    SandboxRecord,
    room::{RoomMount, RoomOrder},
    stack::{FROZEN_INSIDE, StackOrder},
};

use crate::{Engine, managers, room, trees};

/// The paths in the room of the modules, and of the output.
const TOOLS_INSIDE: &str = "/srv/coverage";
pub const COVERAGE_FOLDER: &str = "/tmp/hothouse-coverage";

/// The variables that enable coverage; nothing else in the room has them.
pub const COVERAGE_VARIABLES: [&str; 3] =
    ["HOTHOUSE_COVERAGE", "NODE_V8_COVERAGE", "LLVM_PROFILE_FILE"];

/// The script that makes services write, and the program that prints the results of Node.js.
pub const FLUSH: &str = include_str!("coverage/flush.sh");
pub const COLLECT: &str = include_str!("coverage/collect.cjs");

const NODE: &str = include_str!("coverage/node.cjs");
const PYTHON: &str = include_str!("coverage/sitecustomize.py");

/// The maximum size of a text file, and of all of them.
const TEXT_MOST: u64 = 4 << 20;
const TEXTS_MOST: u64 = 64 << 20;

/// A command that prints the executed lines of a service as LCOV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcovCommand {
    pub service: String,
    pub run: String,
}

impl Engine {
    /// Prepares a room for coverage.
    pub(crate) fn measure(
        &self,
        sandbox: &SandboxRecord,
        order: &mut RoomOrder,
        stack: &mut StackOrder,
    ) -> Result<(), FileError> {
        let tools = self.with.runs.with_file_name("coverage");
        write_tools(&tools)?;
        let target = TOOLS_INSIDE.into();
        order.mounts.push(RoomMount { source: tools, target, writable: false, own: true });
        let roots = self.roots_inside(sandbox);
        for service in &mut stack.services {
            if service.database.is_none() && service.sink.is_none() {
                instrument(&mut service.spec.env, &roots);
            }
        }
        Ok(())
    }

    /// Returns the commands that report the executed lines of services.
    pub fn lcov_commands(&self, sandbox: &SandboxRecord) -> Vec<LcovCommand> {
        let config = self.worktree_config(sandbox).ok();
        let services = config.iter().flat_map(|config| &config.services);
        let commands = services.filter_map(|(name, service)| {
            let run = service.coverage.as_ref()?.to_string();
            Some(LcovCommand { service: name.to_string(), run })
        });
        commands.collect()
    }

    /// Reads text files of the worktree; `None` for one that is binary, missing or too large.
    pub fn texts_of<'p>(
        &self,
        sandbox: &SandboxRecord,
        paths: impl Iterator<Item = &'p str>,
    ) -> Vec<Option<String>> {
        let folder = trees::open_worktree(sandbox).ok();
        let mut left = TEXTS_MOST;
        let read = |path: &str| {
            let most = TEXT_MOST.min(left);
            let bytes = folder.as_ref()?.read_capped(Path::new(path), most).ok()?;
            left = left.saturating_sub(bytes.len() as u64);
            String::from_utf8(bytes).ok()
        };
        paths.map(read).collect()
    }

    /// Returns the paths of the worktree in the room.
    pub fn roots_inside(&self, sandbox: &SandboxRecord) -> Vec<String> {
        let frozen = PathBuf::from(FROZEN_INSIDE);
        let all = room::aliases(sandbox).into_iter().chain([sandbox.worktree.clone(), frozen]);
        all.map(|path| path.display().to_string()).collect()
    }
}

fn write_tools(folder: &Path) -> Result<(), FileError> {
    files::make_folder(&folder.join("python"))?;
    files::replace(&folder.join("node.cjs"), NODE.as_bytes(), 0o644)?;
    files::replace(&folder.join("python/sitecustomize.py"), PYTHON.as_bytes(), 0o644)
}

/// Sets the variables of one service; its own settings take precedence.
fn instrument(env: &mut std::collections::BTreeMap<String, String>, roots: &[String]) {
    // Functions from the cache are counted less precisely.
    env.remove(managers::NODE_COMPILE_CACHE.0);
    let mut set = |name: &str, value: String| {
        env.entry(name.to_owned()).or_insert(value);
    };
    set("HOTHOUSE_COVERAGE", COVERAGE_FOLDER.to_owned());
    set("HOTHOUSE_COVERAGE_ROOTS", roots.join(":"));
    set("NODE_V8_COVERAGE", format!("{COVERAGE_FOLDER}/node"));
    set("LLVM_PROFILE_FILE", format!("{COVERAGE_FOLDER}/llvm/%p-%m.profraw"));
    let options = env.entry("NODE_OPTIONS".to_owned()).or_default();
    *options = format!("{options} --require={TOOLS_INSIDE}/node.cjs").trim_start().to_owned();
    let path = env.entry("PYTHONPATH".to_owned()).or_default();
    let own = format!("{TOOLS_INSIDE}/python");
    *path = if path.is_empty() { own } else { format!("{own}:{path}") };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_a_service_sets_itself_stays() {
        let mut env: BTreeMap<String, String> = [
            ("NODE_OPTIONS", "--max-old-space-size=512"),
            ("PYTHONPATH", "lib"),
            ("NODE_V8_COVERAGE", "/tmp/own"),
            (managers::NODE_COMPILE_CACHE.0, "/x"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        instrument(&mut env, &["/w".to_owned(), "/workspace".to_owned()]);
        assert_eq!(
            env["NODE_OPTIONS"],
            "--max-old-space-size=512 --require=/srv/coverage/node.cjs"
        );
        assert_eq!(env["PYTHONPATH"], "/srv/coverage/python:lib");
        assert_eq!(env["NODE_V8_COVERAGE"], "/tmp/own");
        assert_eq!(env["HOTHOUSE_COVERAGE_ROOTS"], "/w:/workspace");
        assert!(!env.contains_key(managers::NODE_COMPILE_CACHE.0));
    }
}
