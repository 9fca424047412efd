//! Rooms against bubblewrap, a plain pipe and, where an engine runs, Docker.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use hothouse_host::{Program, command::Talker, files, relay::Pipes};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    median, milliseconds, print, timed,
};

const ROUNDS: usize = 50;
const CROWD: usize = 100;
/// How many sandboxes with a service start at once.
const SERVED: usize = 50;

/// A repository with a state of its own.
pub(super) struct Ground<'a> {
    binary: &'a Path,
    pub(super) folder: tempfile::TempDir,
}

impl<'a> Ground<'a> {
    pub(super) fn new(binary: &'a Path) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let ground = Self { binary, folder };
        files::make_private_folder(&ground.folder.path().join("run")).map_err(|e| e.to_string())?;
        ground.shell("git init -q -b main r && cd r && git config user.name b && git config user.email b@example.com && git commit -q --allow-empty -m base")?;
        Ok(ground)
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.folder.path().join("r")
    }

    pub(super) fn binary(&self) -> &Path {
        self.binary
    }

    pub(super) fn prepare(&self, program: Program) -> Program {
        let at = |name: &str| self.folder.path().join(name);
        let world = at("world.pem");
        let program = match files::exists(&world) {
            true => program.env("SSL_CERT_FILE", world),
            false => program,
        };
        program
            .env("XDG_STATE_HOME", at("state"))
            .env("XDG_RUNTIME_DIR", at("run"))
            .env("XDG_CACHE_HOME", at("cache"))
            .env("XDG_CONFIG_HOME", at("config"))
    }

    /// Starts a command of the binary, to talk to it.
    pub(super) fn converse(&self, words: &[&str]) -> Result<(Talker, Pipes), String> {
        let program =
            self.prepare(Program::new(self.binary).args(words).folder(&self.repository()));
        program.converse().map_err(|error| error.to_string())
    }

    pub(super) fn hothouse(&self, words: &[&str]) -> Result<String, String> {
        self.hothouse_in(&self.repository(), words)
    }

    /// Runs a command of the binary in a folder other than the repository's.
    pub(super) fn hothouse_in(&self, folder: &Path, words: &[&str]) -> Result<String, String> {
        let program = self.prepare(Program::new(self.binary).args(words).folder(folder));
        let output = program.output().map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    pub(super) fn shell(&self, line: &str) -> Result<(), String> {
        let program =
            self.prepare(Program::new("sh").args(["-c", line]).folder(self.folder.path()));
        program.output().map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Runs all measurements.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let bwrap = || {
        let program =
            Program::new("bwrap").args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        program
            .args(["--unshare-all", "true"])
            .output()
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    if bwrap().is_err() {
        return Err("bubblewrap is needed as the peer: apt-get install bubblewrap".into());
    }
    let ground = Ground::new(binary)?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a"])?;
    let (mut peer, mut exec, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    ground.hothouse(&["exec", "-w", "a", "--fresh", "--", "true"])?;
    for _ in 0..ROUNDS {
        peer.push(timed(bwrap)?);
        exec.push(timed(|| ground.hothouse(&["exec", "-w", "a", "--", "true"]).map(|_| ()))?);
        fresh.push(timed(|| {
            ground.hothouse(&["exec", "-w", "a", "--fresh", "--", "true"]).map(|_| ())
        })?);
    }
    let (peer, exec, fresh) = (median(peer), median(exec), median(fresh));
    figures.add("exec", milliseconds(exec), "ms");
    figures.add("exec --fresh", milliseconds(fresh), "ms");
    print("room: start to end, median of 50, alternating");
    print(&format!("  bwrap --unshare-all true      {:>8.2} ms", milliseconds(peer)));
    print(&format!("  hothouse exec -- true         {:>8.2} ms", milliseconds(exec)));
    print(&format!("  hothouse exec --fresh -- true {:>8.2} ms", milliseconds(fresh)));
    bar("exec, of bwrap", ratio(exec, peer), "", Bar::AtMost(0.7));
    bar("exec --fresh, of bwrap", ratio(fresh, peer), "", Bar::AtMost(1.6));
    docker(fresh);
    pipes(&ground, figures)?;
    crowd(&ground, bwrap, figures)?;
    crowd_of_services(&ground, figures)?;
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    Ok(())
}

fn ratio(ours: Duration, peer: Duration) -> f64 {
    ours.as_secs_f64() / peer.as_secs_f64()
}

/// Compares with Docker, if it is running and has an image.
fn docker(fresh: Duration) {
    let images = Program::new("docker").args(["images", "-q"]).run_within(Duration::from_secs(2));
    let image = images
        .ok()
        .and_then(|run| String::from_utf8(run.stdout).ok()?.lines().next().map(str::to_owned));
    let Some(image) = image else {
        return print("  docker run --rm               SKIPPED: no engine with an image");
    };
    let once = timed(|| {
        let run = Program::new("docker").args(["run", "--rm", &image, "true"]).output();
        run.map(|_| ()).map_err(|error| error.to_string())
    });
    if let Ok(once) = once {
        print(&format!("  docker run --rm               {:>8.2} ms", milliseconds(once)));
        bar("exec --fresh, of docker run", ratio(fresh, once), "", Bar::AtMost(0.1));
    }
}

/// Measures a gigabyte through a room and back, against the same through a plain `cat`.
fn pipes(ground: &Ground<'_>, figures: &mut Figures) -> Result<(), String> {
    let through = |what: &str| {
        timed(|| ground.shell(&format!("head -c 1G /dev/zero | {what} | cat >/dev/null")))
    };
    let ours = format!("(cd r && {} exec -w a -- cat)", ground.binary.display());
    let (mut plain, mut room) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        plain.push(through("cat")?);
        room.push(through(&ours)?);
    }
    let (plain, room) = (median(plain), median(room));
    figures.add("1 GB through exec cat", milliseconds(room), "ms");
    let share = 100.0 * plain.as_secs_f64() / room.as_secs_f64();
    print(&format!("  1 GB through cat              {:>8.0} ms", milliseconds(plain)));
    print(&format!("  1 GB through exec cat         {:>8.0} ms", milliseconds(room)));
    bar("speed of a pipe", share, "%", Bar::AtLeast(60.0));
    Ok(())
}

/// Runs `each` for all names at the same time, and returns the total time.
fn at_once(
    names: &[String],
    each: impl Fn(&str) -> Result<(), String> + Sync,
) -> Result<Duration, String> {
    timed(|| {
        thread::scope(|scope| {
            let starts: Vec<_> = names.iter().map(|name| scope.spawn(|| each(name))).collect();
            starts
                .into_iter()
                .try_for_each(|start| start.join().map_err(|_| "a start panicked".to_owned())?)
        })
    })
}

/// Measures a hundred rooms at once against a hundred of the peer's, twice, and their cost while idle.
fn crowd(
    ground: &Ground<'_>,
    peer: impl Fn() -> Result<(), String> + Sync,
    figures: &mut Figures,
) -> Result<(), String> {
    let names: Vec<_> = (0..CROWD).map(|n| format!("c{n}")).collect();
    for name in &names {
        ground.hothouse(&["fork", name])?;
    }
    let up = |name: &str| ground.hothouse(&["up", "-w", name]).map(drop);
    let (mut peers, mut ours) = (Vec::new(), Vec::new());
    for turn in 0..2 {
        peers.push(at_once(&names, |_| peer())?);
        ours.push(at_once(&names, up)?);
        if turn == 0 {
            at_once(&names, |name| ground.hothouse(&["down", "-w", name]).map(drop))?;
        }
    }
    for (word, peer, ours) in [("first", peers[0], ours[0]), ("again", peers[1], ours[1])] {
        print(&format!("  {CROWD} bwraps at once, {word}     {:>8.0} ms", milliseconds(peer)));
        print(&format!("  {CROWD} rooms at once, {word}      {:>8.0} ms", milliseconds(ours)));
        figures.add(format!("{CROWD} rooms at once, {word}"), milliseconds(ours), "ms");
        bar(&format!("crowd, {word}, of bwrap's"), ratio(ours, peer), "", Bar::AtMost(3.0));
    }
    let daemon = ground.hothouse(&["daemon", "status", "--json"])?;
    let daemon: serde_json::Value =
        serde_json::from_str(&daemon).map_err(|error| error.to_string())?;
    let daemon = memory(&daemon["pid"].to_string());
    let rooms = files::list(&ground.folder.path().join("state/hothouse/run/rooms"))
        .map_err(|error| error.to_string())?;
    let pids = rooms.iter().filter_map(|room| {
        let text = files::read_text(&room.join("room.json")).ok()?;
        let room: serde_json::Value = serde_json::from_str(&text).ok()?;
        Some(room["identity"]["pid"].to_string())
    });
    let shares: Vec<f64> = pids.map(|pid| memory(&pid)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a hundred rooms")]
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    figures.add("memory of an idle room", mean, "MB");
    figures.add(format!("memory of the daemon, {CROWD} rooms"), daemon, "MB");
    bar("memory of an idle room", mean, "MB", Bar::AtMost(3.0));
    bar("memory of the daemon, 100 rooms", daemon, "MB", Bar::AtMost(40.0));
    Ok(())
}

/// Measures fifty sandboxes with a service, started at once, against one.
fn crowd_of_services(ground: &Ground<'_>, figures: &mut Figures) -> Result<(), String> {
    let config = "[project]\nname = \"r\"\n[service.web]\nrun = \"echo begun; exec sleep 100000\"\nready = { log = \"begun\" }\n";
    files::write(&ground.repository().join("hothouse.toml"), config).map_err(|e| e.to_string())?;
    ground.shell("cd r && git add -A && git commit -qm config")?;
    let names: Vec<_> = (0..SERVED).map(|n| format!("s{n}")).collect();
    for name in names.iter().map(String::as_str).chain(["alone"]) {
        ground.hothouse(&["fork", name])?;
    }
    let up = |name: &str| ground.hothouse(&["up", "-w", name]).map(drop);
    let one = timed(|| up("alone"))?;
    let all = at_once(&names, up)?;
    figures.add(format!("{SERVED} ups with a service at once"), milliseconds(all), "ms");
    print(&format!("  up with a service             {:>8.0} ms", milliseconds(one)));
    print(&format!("  {SERVED} of them at once            {:>8.0} ms", milliseconds(all)));
    bar("50 ups with a service, times one", ratio(all, one), "", Bar::AtMost(50.0));
    Ok(())
}

/// Returns the proportional share of memory of a process, in megabytes.
fn memory(pid: &str) -> f64 {
    let text =
        files::read_text(&Path::new("/proc").join(pid).join("smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
    kilobytes / 1024.0
}
