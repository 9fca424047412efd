//! Services against doing it by hand: initdb, ripgrep, kill and spawn.

use std::{path::Path, time::Duration};

use hothouse_host::{
    Program, files,
    usage::{Blocks, usage},
};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    median, milliseconds, print,
    room::Ground,
    timed,
};

const STARTS: usize = 5;
const SEARCHES: usize = 5;
const RESTARTS: usize = 30;

/// How many services share the gigabyte: one keeps at most 64 MB.
const SPEAKERS: usize = 18;

/// Runs all measurements.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    postgres(binary, figures)?;
    search(binary, figures)?;
    flood(binary)?;
    restart(binary, figures)?;
    acme(binary, figures)
}

fn config(ground: &Ground<'_>, text: &str) -> Result<(), String> {
    let file = ground.repository().join("hothouse.toml");
    let text = format!("[project]\nname = \"bench\"\n{text}");
    files::write(&file, text).map_err(|error| error.to_string())?;
    ground.shell("cd r && git add -A && git commit -qm config")
}

fn end(ground: &Ground<'_>) -> Result<(), String> {
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"]).map(drop)
}

/// Measures a new sandbox's PostgreSQL, against `initdb` and a start in a room, until `pg_isready`.
fn postgres(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    config(&ground, "[service.db]\nrecipe = \"postgres\"\n")?;
    ground.hothouse(&["fork", "first"])?;
    let first = timed(|| ground.hothouse(&["up", "-w", "first"]).map(drop));
    let Ok(first) = first else {
        print("postgres: SKIPPED, it needs PostgreSQL and rooms on this host");
        return end(&ground);
    };
    let by_hand = "set -e; d=/tmp/by-hand; rm -rf $d; initdb -D $d -U postgres --auth=trust >/dev/null; \
        postgres -D $d -p 6000 -k /tmp -c listen_addresses=127.0.0.1 >/dev/null 2>&1 & \
        until pg_isready -q -h 127.0.0.1 -p 6000; do sleep 0.01; done; kill -INT $!; wait $! || true";
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for round in 0..STARTS {
        let name = format!("s{round}");
        ground.hothouse(&["fork", &name])?;
        ours.push(timed(|| ground.hothouse(&["up", "-w", &name]).map(drop))?);
        ground.hothouse(&["delete", &name, "--force"])?;
        let words = ["exec", "-w", "first", "db", "--", "sh", "-c", by_hand];
        peer.push(timed(|| ground.hothouse(&words).map(drop))?);
    }
    end(&ground)?;
    let (ours, peer) = (median(ours), median(peer));
    figures.add("up with PostgreSQL, golden data", milliseconds(ours), "ms");
    print(&format!("postgres: `up` of a new sandbox until ready, median of {STARTS}, alternating"));
    print(&format!("  initdb and start by hand  {:>9.1} ms", milliseconds(peer)));
    print(&format!("  the very first up         {:>9.1} ms", milliseconds(first)));
    print(&format!("  up from golden data       {:>9.1} ms", milliseconds(ours)));
    bar("PostgreSQL from golden data, ratio", ratio(ours, peer), "", Bar::AtMost(0.2));
    Ok(())
}

const SPEAKER: &str = "import sys\n\
    words = ['alpha', 'beta', 'gamma', 'delta', 'request', 'response', 'commit', 'user']\n\
    out = []\n\
    for i in range(620000):\n\
    \x20   out.append('2026-01-01T00:00:00 INFO %s id=%d %s took %dms path=/api/v1/%s/%d tail\\n' % (words[i % 8], i, words[(i * 7) % 8], i % 997, words[(i * 3) % 8], i * 31))\n\
    \x20   if len(out) == 5000:\n\
    \x20       sys.stdout.write(''.join(out)); out = []\n\
    sys.stdout.write('needle in the haystack\\n'); sys.stdout.flush()\n";

/// Measures a search in a gigabyte of logs, against ripgrep on the same files.
fn search(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let script = ground.repository().join("speak.py");
    files::write(&script, SPEAKER).map_err(|error| error.to_string())?;
    let services = (0..SPEAKERS).map(|number| {
        format!("[service.s{number}]\nrun = \"python3 speak.py; sleep 100000\"\nready = {{ log = \"^needle\" }}\n")
    });
    config(&ground, &services.collect::<String>())?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a", "--timeout", "5m"])?;
    let logs = ground.folder.path().join("state/hothouse/logs");
    let used = usage(&logs, Blocks::AreOwn).map_err(|error| error.to_string())?;
    let size = format!("{:.2} GB", used.total as f64 / 1e9);
    if Program::new("rg").arg("--version").output().is_err() {
        print("logs --grep: SKIPPED, it needs ripgrep (rg) to compare with");
        return end(&ground);
    }
    print(&format!(
        "logs --grep: {size} of {SPEAKERS} services, median of {SEARCHES}, alternating"
    ));
    for pattern in ["needle in", "id=61999[0-9] .*took 8[0-9]+ms"] {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..SEARCHES {
            let rg = Program::new("rg")
                .args(["--no-config", "-a", "-uuu", "-g", "*.log", "-e", pattern])
                .arg(&logs);
            peer.push(timed(|| rg.output().map(drop).map_err(|error| error.to_string()))?);
            ours.push(timed(|| {
                ground.hothouse(&["logs", "-w", "a", "--grep", pattern]).map(drop)
            })?);
        }
        let (ours, peer) = (median(ours), median(peer));
        figures.add(format!("logs --grep `{pattern}`"), milliseconds(ours), "ms");
        print(&format!("  `{pattern}`"));
        print(&format!("    rg                      {:>9.1} ms", milliseconds(peer)));
        print(&format!("    hothouse logs --grep    {:>9.1} ms", milliseconds(ours)));
        bar("logs --grep, ratio", ratio(ours, peer), "", Bar::AtMost(2.0));
    }
    end(&ground)
}

const FLOOD: &str = "import sys, time\n\
    begun = time.monotonic()\n\
    for second in range(100):\n\
    \x20   sys.stdout.write(''.join('line %d of the flood, as long as lines are\\n' % (second * 2500 + i) for i in range(2500)))\n\
    \x20   sys.stdout.flush()\n\
    \x20   time.sleep(max(0, begun + (second + 1) / 20 - time.monotonic()))\n\
    print('over after %.2f' % (time.monotonic() - begun), flush=True)\n";

/// Writes 50,000 lines a second for five seconds, none of which may be lost.
fn flood(binary: &Path) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let script = ground.repository().join("flood.py");
    files::write(&script, FLOOD).map_err(|error| error.to_string())?;
    config(
        &ground,
        "[service.flood]\nrun = \"python3 flood.py; sleep 100000\"\nready = { log = \"^over\" }\n",
    )?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a"])?;
    let log = ground.hothouse(&["logs", "flood", "-w", "a"])?;
    let kept = log.lines().filter(|line| line.starts_with("line ")).count();
    let told = log.lines().last().unwrap_or_default().to_owned();
    end(&ground)?;
    print(&format!("flood: 50,000 lines a second for five seconds, {told} s"));
    bar("lines kept, of 250,000", kept as f64, "", Bar::AtLeast(250_000.0));
    Ok(())
}

/// Measures `hothouse restart`, against a kill and a spawn until the first line.
fn restart(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    config(
        &ground,
        "[service.app]\nrun = \"echo begun; exec sleep 100000\"\nready = { log = \"begun\" }\n",
    )?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a"])?;
    let bare = "import subprocess,time\nspawn=lambda: subprocess.Popen(['sh','-c','echo begun; exec sleep 100000'],stdout=subprocess.PIPE)\n\
        p=spawn(); p.stdout.readline(); times=[]\n\
        for _ in range(30):\n b=time.monotonic(); p.terminate(); p.wait(); p=spawn(); p.stdout.readline(); times.append(time.monotonic()-b)\n\
        p.kill(); print(sorted(times)[15])";
    let bare = Program::new("python3").args(["-c", bare]).output().map_err(|e| e.to_string())?;
    let bare = String::from_utf8_lossy(&bare).trim().parse().unwrap_or(0.0);
    let bare = Duration::from_secs_f64(bare);
    let mut ours = Vec::new();
    for _ in 0..RESTARTS {
        ours.push(timed(|| ground.hothouse(&["restart", "app", "-w", "a"]).map(drop))?);
    }
    end(&ground)?;
    let ours = median(ours);
    figures.add("restart", milliseconds(ours), "ms");
    print(&format!("restart: of one service, median of {RESTARTS}"));
    print(&format!("  kill and spawn            {:>9.1} ms", milliseconds(bare)));
    print(&format!("  hothouse restart          {:>9.1} ms", milliseconds(ours)));
    let over = milliseconds(ours) - milliseconds(bare);
    bar("restart, overhead", over, "ms", Bar::AtMost(20.0));
    Ok(())
}

/// Measures the example shop, from scratch and again.
fn acme(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/acme");
    let ground = Ground::new(binary)?;
    let copied = format!(
        "cp -r {}/. r/ && cd r && npm ci --no-audit --no-fund >/dev/null 2>&1 && git add -A && git commit -qm acme",
        example.display()
    );
    if ground.shell(&copied).is_err() {
        print("acme: SKIPPED, it needs npm and its packages");
        return Ok(());
    }
    ground.hothouse(&["fork", "a"])?;
    let first = timed(|| ground.hothouse(&["up", "-w", "a"]).map(drop));
    let Ok(first) = first else {
        print("acme: SKIPPED, it needs PostgreSQL, Redis and rooms on this host");
        return end(&ground);
    };
    ground.hothouse(&["down", "-w", "a"])?;
    let second = timed(|| ground.hothouse(&["up", "-w", "a"]).map(drop))?;
    end(&ground)?;
    figures.add("acme, first up", milliseconds(first), "ms");
    figures.add("acme, second up", milliseconds(second), "ms");
    print("acme: the whole shop until ready");
    print(&format!("  the first up              {:>9.1} ms", milliseconds(first)));
    print(&format!("  the second up             {:>9.1} ms", milliseconds(second)));
    bar("second up of acme, ratio", ratio(second, first), "", Bar::AtMost(0.33));
    Ok(())
}

fn ratio(ours: Duration, peer: Duration) -> f64 {
    ours.as_secs_f64() / peer.as_secs_f64()
}
