//! The environment of a run: its own folders, a repository, if possible a disk that can be filled.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{CrashSpec, processes};
use crate::{Ran, TestEnv, User, git};

/// The timeout of any command.
const PATIENCE: Duration = Duration::from_secs(90);

const LEDGER: &str = include_str!("ledger.py");

/// The size of the disk that can be filled.
const DISK_BYTES: u64 = 3 << 30;

/// The environment of one run.
pub(super) struct Ground {
    pub(super) env: TestEnv,
    pub(super) repository: PathBuf,
    disk: Option<Disk>,
    /// The binary, whose modification time an upgrade advances.
    binary: PathBuf,
    upgrades: u64,
}

/// A file system in a file.
struct Disk {
    folder: PathBuf,
    image: PathBuf,
}

/// The runtime folder of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    Usual,
    Other,
    None,
}

impl Ground {
    pub(super) fn new(spec: &CrashSpec) -> Result<Self, String> {
        let disk = Disk::mount(spec)?;
        let parent = disk.as_ref().map_or_else(std::env::temp_dir, |disk| disk.folder.clone());
        let original = spec.binary.to_str().ok_or("the path of the binary is not UTF-8")?;
        let mut env = TestEnv::below(original, &parent);
        let binary = env.root().join("hothouse");
        fs::copy(&spec.binary, &binary).map_err(|error| error.to_string())?;
        env.use_binary(&binary);
        if spec.user {
            env.become_user(User::ordinary().ok_or("there is no ordinary user to become")?);
        }
        fs::create_dir(env.root().join("other-run")).map_err(|error| error.to_string())?;
        env.give_to_user(&env.root().join("other-run"));
        set_mode(&env.root().join("other-run"), "700");
        let config =
            "[project]\nname = \"crash\"\n[service.ledger]\nrun = \"python3 ledger.py serve\"\n";
        let repository = env.repository_with(
            "crash",
            config,
            &[("ledger.py", LEDGER), (".gitignore", "rows\nrows.lock\nSECOND\n__pycache__\n")],
        );
        Ok(Self { env, repository, disk, binary, upgrades: 0 })
    }

    pub(super) fn can_fill(&self) -> bool {
        self.disk.is_some()
    }

    pub(super) fn worktree(&self, name: &str) -> PathBuf {
        self.env.root().join("crash-sandboxes").join(name)
    }

    pub(super) fn daemon(&self) -> Option<processes::Process> {
        processes::daemon(&self.env.state())
    }

    /// Makes the binary look newer than every earlier one.
    pub(super) fn upgrade(&mut self) {
        self.upgrades += 1;
        // An hour later each time, starting in the future.
        let when = format!("@{}", 4_000_000_000 + self.upgrades * 3600);
        let touched = Command::new("touch").args(["-d", &when]).arg(&self.binary).status();
        assert!(touched.is_ok_and(|status| status.success()), "touch works");
    }

    /// Removes folders, as a user who cleans up would.
    pub(super) fn remove(&self, folders: &[&str]) {
        for folder in folders {
            fs::remove_dir_all(self.env.root().join(folder)).ok();
        }
    }

    /// Fills the disk, until the guard is dropped.
    pub(super) fn fill(&self) -> Option<Filling> {
        let disk = self.disk.as_ref()?;
        let path = disk.folder.join("filling");
        File::create(&path).ok()?;
        for unit in ["64M", "1M", "64K", "4K"] {
            while Command::new("fallocate")
                .args(["-l", unit, "-o"])
                .arg(fs::metadata(&path).map_or(0, |file| file.len()).to_string())
                .arg(&path)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
            {}
        }
        Some(Filling(path))
    }

    /// Starts a command.
    pub(super) fn start(&self, words: &[String], runtime: Runtime) -> Running {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.env.command(&self.repository, &words);
        match runtime {
            Runtime::Usual => &mut command,
            Runtime::Other => command.env("XDG_RUNTIME_DIR", self.env.root().join("other-run")),
            Runtime::None => command.env_remove("XDG_RUNTIME_DIR"),
        };
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running::follow(child.expect("the binary can be started"), &words)
    }

    /// Runs a command; it is an error if the command does not end.
    pub(super) fn run(&self, words: &[&str]) -> Result<Ran, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        self.start(&words, Runtime::Usual).end()
    }

    /// Returns the rows of a sandbox, if they can be read from here or from its room.
    pub(super) fn rows(&self, name: &str, is_up: bool) -> Result<Option<BTreeSet<u64>>, String> {
        let text = match fs::read_to_string(self.worktree(name).join("rows")) {
            Ok(text) => text,
            Err(_) if self.worktree(name).join("README").exists() => String::new(),
            Err(_) if is_up => {
                let ran =
                    self.run(&["exec", "-w", name, "--", "sh", "-c", "cat rows 2>/dev/null || :"])?;
                if ran.code != 0 {
                    return Ok(None);
                }
                ran.stdout
            }
            Err(_) => return Ok(None),
        };
        Ok(Some(text.lines().filter_map(|line| line.parse().ok()).collect()))
    }

    /// Returns the subjects of all commits in the user's repository.
    pub(super) fn commits(&self) -> BTreeSet<String> {
        git(&self.repository, &["log", "--all", "--format=%s"]).lines().map(str::to_owned).collect()
    }

    /// Ends whatever a failed run left behind.
    pub(super) fn clear(&self) {
        self.run(&["nuke", "--yes"]).ok();
        self.run(&["daemon", "stop"]).ok();
        for _ in 0..3 {
            processes::of_run(self.env.root())
                .iter()
                .for_each(|process| processes::kill(process.pid));
            thread::sleep(Duration::from_millis(100));
        }
        for place in processes::mounts_below(self.env.root()).iter().rev() {
            Command::new("umount").arg("-l").arg(place).output().ok();
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The disk can only be unmounted once nothing below it is in use.
        self.clear();
        self.env.release();
        if let Some(disk) = self.disk.take() {
            disk.unmount();
        }
    }
}

fn set_mode(path: &Path, mode: &str) {
    Command::new("chmod").arg(mode).arg(path).output().ok();
}

/// Space that is taken up until this is dropped.
pub(super) struct Filling(PathBuf);

impl Drop for Filling {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

impl Disk {
    /// Creates the file system that a tree driver needs; `None` if that is neither possible nor needed.
    fn mount(spec: &CrashSpec) -> Result<Option<Self>, String> {
        let (kinds, needed): (&[&str], bool) = match spec.tree.as_deref() {
            Some("btrfs") => (&["btrfs"], true),
            // Both support reflinks; the first whose tools are installed.
            Some("reflink") => (&["xfs", "btrfs"], true),
            _ => (&["ext4"], false),
        };
        let mut tried = Err(String::new());
        for kind in kinds {
            tried = tried.or_else(|_| Self::try_mount(kind));
        }
        match tried {
            Ok(disk) => Ok(Some(disk)),
            Err(why) if needed => Err(format!("a disk of its own cannot be made: {why}")),
            Err(_) => Ok(None),
        }
    }

    fn try_mount(kind: &str) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("hothouse-disk-").tempdir();
        let folder = folder.map_err(|error| error.to_string())?.keep();
        let image = folder.with_extension("image");
        let disk = Self { folder, image };
        let file = File::create(&disk.image).map_err(|error| error.to_string())?;
        file.set_len(DISK_BYTES).map_err(|error| error.to_string())?;
        let (image, folder) = (disk.image.to_string_lossy(), disk.folder.to_string_lossy());
        let make: &[&str] = match kind {
            "ext4" => &["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", &image],
            "xfs" => &["mkfs.xfs", "-q", "-f", &image],
            _ => &["mkfs.btrfs", "-q", "-f", &image],
        };
        let mount = ["mount", "-o", "loop", &image, &folder];
        for words in [make, &mount, &["chmod", "755", &folder]] {
            let done = Command::new(words[0]).args(&words[1..]).output();
            let done = done.map_err(|error| format!("{}: {error}", words[0]));
            let failed = match done {
                Ok(output) if output.status.success() => continue,
                Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
                Err(why) => why,
            };
            disk.unmount();
            return Err(failed);
        }
        Ok(disk)
    }

    fn unmount(&self) {
        Command::new("umount").arg("-l").arg(&self.folder).output().ok();
        fs::remove_dir(&self.folder).ok();
        fs::remove_file(&self.image).ok();
    }
}

/// A running command.
pub(super) struct Running {
    pub(super) pid: u32,
    words: String,
    begun: Instant,
    // child --output--> whoever waits
    output_rx: mpsc::Receiver<Ran>,
}

impl Running {
    fn follow(child: Child, words: &[&str]) -> Self {
        let (output_tx, output_rx) = mpsc::channel();
        let pid = child.id();
        let text = words.join(" ");
        let owned: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        thread::spawn(move || {
            if let Ok(output) = child.wait_with_output() {
                let words: Vec<&str> = owned.iter().map(String::as_str).collect();
                output_tx.send(Ran::of(&words, output)).ok();
            }
        });
        Self { pid, words: text, begun: Instant::now(), output_rx }
    }

    /// Waits for the end; it is an error if it does not come.
    pub(super) fn end(self) -> Result<Ran, String> {
        let left = PATIENCE.saturating_sub(self.begun.elapsed());
        self.output_rx.recv_timeout(left).map_err(|_| {
            processes::kill(self.pid);
            format!("`hothouse {}` does not end within {} s", self.words, PATIENCE.as_secs())
        })
    }
}
