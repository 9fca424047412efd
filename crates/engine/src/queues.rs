//! Queues and schedules, declared in the config and the files of a worktree.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hothouse_host::beneath::{EntryKind, Folder};
use hothouse_model::{
    Explain, Failure, SandboxRecord,
    cron::{self, Schedule, ScheduledWork},
};

use crate::{Engine, trees};

/// The limits for files with schedules: depth, number of names, size.
const DEPTH: usize = 3;
const NAMES_MOST: usize = 10_000;
const FILE_LIMIT: u64 = 256 << 10;

/// The time limit of a schedule from a file.
const PATIENCE: Duration = Duration::from_secs(600);

/// A queue that is accessed with the project's own commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    pub name: String,
    pub list: Option<String>,
    pub drain: Option<String>,
    pub retry: Option<String>,
    pub service: Option<String>,
    pub folder: String,
}

/// A schedule, and how to run it manually.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronEntry {
    pub schedule: Schedule,
    pub service: Option<String>,
    pub folder: String,
    pub timeout: Duration,
}

impl Engine {
    /// Returns the queues that the config of a sandbox declares.
    pub fn queue_config(&self, sandbox: &SandboxRecord) -> Result<Vec<QueueConfig>, Failure> {
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let queues = config.queues.into_iter().map(|(name, queue)| QueueConfig {
            name: name.to_string(),
            list: Some(queue.list.as_str().to_owned()),
            drain: queue.drain.map(|command| command.as_str().to_owned()),
            retry: queue.retry.map(|command| command.as_str().to_owned()),
            service: queue.service.map(|service| service.to_string()),
            folder: queue.dir.as_str().to_owned(),
        });
        Ok(queues.collect())
    }

    /// Returns the schedules of a sandbox: those of its config, then those of its files with new
    /// names.
    pub fn crons(&self, sandbox: &SandboxRecord) -> Result<Vec<CronEntry>, Failure> {
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let mut all: Vec<CronEntry> = Vec::new();
        for (name, entry) in config.crons {
            let work = match (entry.run, entry.http) {
                (Some(run), _) => ScheduledWork::Command(run.as_str().to_owned()),
                (None, Some(path)) => ScheduledWork::Call(path.as_str().to_owned()),
                (None, None) => continue,
            };
            all.push(CronEntry {
                schedule: Schedule {
                    name: name.to_string(),
                    schedule: entry
                        .schedule
                        .map(|line| line.as_str().to_owned())
                        .unwrap_or_default(),
                    source: "config".into(),
                    work,
                },
                service: entry.service.map(|service| service.to_string()),
                folder: entry.dir.as_str().to_owned(),
                timeout: entry.timeout,
            });
        }
        let worktree = trees::open_worktree(sandbox).map_err(|error| error.failure())?;
        for (path, text) in schedule_files(&worktree) {
            for schedule in cron::read_file(&path, &text) {
                if all.iter().any(|known| known.schedule.name == schedule.name) {
                    continue;
                }
                all.push(CronEntry {
                    schedule,
                    service: None,
                    folder: ".".into(),
                    timeout: PATIENCE,
                });
            }
        }
        Ok(all)
    }
}

/// Reads files that may have schedules: beneath the worktree, with limits, without following links.
fn schedule_files(worktree: &Folder) -> Vec<(String, String)> {
    let (mut found, mut left) = (Vec::new(), NAMES_MOST);
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((below, depth)) = open.pop() {
        let here = if below.as_os_str().is_empty() { Path::new(".") } else { &below };
        for entry in worktree.list(here).unwrap_or_default() {
            match left.checked_sub(1) {
                Some(less) => left = less,
                None => return found,
            }
            let Some(name) = entry.name.to_str() else { continue };
            let path = below.join(name);
            let Some(shown) = path.to_str() else { continue };
            let is_own =
                !matches!(name, "node_modules" | "vendor" | "target" | ".git" | ".hothouse");
            match entry.kind {
                EntryKind::Folder if depth < DEPTH && is_own => {
                    open.push((path.clone(), depth + 1))
                }
                EntryKind::File if cron::is_schedule_file(shown) => {
                    let Ok(bytes) = worktree.read_capped(&path, FILE_LIMIT) else { continue };
                    found.push((shown.to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}
