//! The features that this host lacks, found with `hothouse doctor` before a test begins.
//!
//! `up` exits with 6 for any room that does not start. So a test asks here first whether this host
//! can have rooms; from then on a room that does not start is a failure.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{TestEnv, skip};

/// The features, by their ids in `doctor --json`, without which no room starts.
const ROOMS: [&str; 3] = ["user-namespaces", "packet-rules", "seccomp"];

impl TestEnv {
    /// Returns whether the user of this environment can have rooms on this host; otherwise skips
    /// `what`.
    pub fn can_have_rooms(&self, what: &str) -> bool {
        self.can_have(what, &ROOMS)
    }

    /// Like [`can_have_rooms`](Self::can_have_rooms), for worktrees that are overlays mounted by an
    /// ordinary user.
    pub fn can_have_overlays(&self, what: &str) -> bool {
        self.can_have(what, &[&ROOMS[..], &["overlay"]].concat())
    }

    /// Returns whether its user has a single uid, so that its rooms have no root.
    pub fn has_single_uid(&self) -> bool {
        match self.user {
            Some(user) => user.is_single,
            None if self.knows_to_work(&["uid-ranges"]) => false,
            None => state_of(&self.probe(), "uid-ranges") != "works",
        }
    }

    fn can_have(&self, what: &str, features: &[&str]) -> bool {
        if self.knows_to_work(features) {
            return true;
        }
        let findings = self.probe();
        // A feature that could not be tested is not known to be missing.
        let lacks = |id: &&&str| state_of(&findings, id) == "missing";
        match features.iter().find(lacks).and_then(|id| finding(&findings, id)) {
            Some(lacking) => {
                let text = |name: &str| lacking[name].as_str().unwrap_or_default();
                skip(what, &format!("{} ({})", text("title"), text("detail")));
                false
            }
            None => true,
        }
    }

    fn knows_to_work(&self, features: &[&str]) -> bool {
        let works = fs::read_to_string(self.works_file()).unwrap_or_default();
        features.iter().all(|feature| works.lines().any(|line| line == *feature))
    }

    /// Returns the file that names what works for this user and build. Missing features are not
    /// stored, so that they are checked again.
    fn works_file(&self) -> PathBuf {
        Path::new(&self.cache()).join("doctor-works")
    }

    /// Runs `doctor` with its own daemon, so that the test still finds none.
    fn probe(&self) -> Vec<Value> {
        let folder = self.root().join("doctor");
        let run = folder.join("run");
        fs::create_dir_all(&run).unwrap();
        fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
        self.give_to_user(&folder);
        self.give_to_user(&run);
        let hothouse = |words: &[&str]| {
            let mut command = self.command(self.root(), words);
            command.env("XDG_STATE_HOME", folder.join("state")).env("XDG_RUNTIME_DIR", &run);
            command.output().unwrap()
        };
        let output = hothouse(&["doctor", "--json"]);
        hothouse(&["daemon", "stop"]);
        fs::remove_dir_all(&folder).unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("the report of `doctor`: {error}: {output:?}"));
        let findings = report["host"].as_array().expect("`doctor` reports on the host").clone();
        keep_what_works(&self.works_file(), &findings);
        findings
    }
}

fn finding<'a>(findings: &'a [Value], id: &str) -> Option<&'a Value> {
    findings.iter().find(|finding| finding["id"] == id)
}

fn state_of<'a>(findings: &'a [Value], id: &str) -> &'a str {
    let found = finding(findings, id).unwrap_or_else(|| panic!("`doctor` does not look at {id}"));
    found["state"].as_str().expect("a finding has a state")
}

/// Replaces the file atomically, because another test may read it.
fn keep_what_works(file: &Path, findings: &[Value]) {
    let works = findings.iter().filter(|finding| finding["state"] == "works");
    let ids: Vec<_> = works.filter_map(|finding| finding["id"].as_str()).collect();
    let new = file.with_extension(std::process::id().to_string());
    fs::write(&new, ids.join("\n")).unwrap();
    fs::rename(new, file).unwrap();
}
