//! Sinks, from a room: mail against aiosmtpd, events of two vendors, objects against plain files, and memory.
//!
//! The daemon has one processor and the clients another, if there are two. Everything sent is on the timeline.

pub(crate) mod load;

use std::path::{Path, PathBuf};

use hothouse_host::files;
use serde_json::{Value, json};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    print,
    room::Ground,
};

const CONFIG: &str = "[project]\nname = \"bench\"\n[egress]\nmode = \"allowlist\"\n\
    [integration.posthog]\nclass = \"sink\"\nhosts = [\"us.i.posthog.com\"]\n\
    [service.mail]\nrecipe = \"mailbox\"\n[service.errors]\nrecipe = \"errors\"\n\
    [service.store]\nrecipe = \"objects\"\n\
    [service.files]\nrun = \"exec ./load load serve 127.0.0.1:9100 $PWD/served\"\nport = 9100\nready = { tcp = true }\n";

const PEER: &str = "[service.aiosmtpd]\n\
    run = \"PYTHONPATH=py exec python3 -m aiosmtpd -n -l 127.0.0.1:2525 -c aiosmtpd.handlers.Mailbox $PWD/mailbox\"\n\
    port = 2525\nready = { tcp = true }\n";

const ROUNDS: usize = 3;
const MAILS: usize = 2000;
const ENVELOPES: usize = 20_000;
const BATCHES: usize = 1000;
/// How many events are in one batch.
const BATCH: usize = 20;
const OBJECTS: usize = 200;
const OBJECT: usize = 1 << 20;
const RECORDS: usize = 200_000;

/// Runs all measurements.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let bench = Bench::start(&ground, binary)?;
    let measured = bench.all(figures);
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    measured
}

struct Bench<'a> {
    ground: &'a Ground<'a>,
    has_peer: bool,
    two_processors: bool,
}

impl<'a> Bench<'a> {
    fn start(ground: &'a Ground<'a>, binary: &Path) -> Result<Self, String> {
        let two_processors = std::thread::available_parallelism().is_ok_and(|all| all.get() > 1);
        let pinned = if two_processors { "taskset -c 0 " } else { "" };
        ground.shell(&format!("{pinned}{} daemon start", binary.display()))?;
        let packages = "python3 -m pip install -q --break-system-packages --target py aiosmtpd";
        let has_peer = ground.shell(packages).is_ok();
        let config = if has_peer { [CONFIG, PEER].concat() } else { CONFIG.to_owned() };
        files::write(&ground.repository().join("hothouse.toml"), config).map_err(text)?;
        ground.shell("cd r && git add -A && git commit -qm config")?;
        let worktree = PathBuf::from(ground.hothouse(&["fork", "a"])?.trim());
        let bench = Self { ground, has_peer, two_processors };
        bench.furnish(&worktree)?;
        ground.hothouse(&["up", "-w", "a"])?;
        Ok(bench)
    }

    /// Puts the load generator and its data into the worktree.
    fn furnish(&self, worktree: &Path) -> Result<(), String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let to = worktree.display();
        self.ground.shell(&format!("install -m 755 {} {to}/load", own.display()))?;
        if self.has_peer {
            self.ground.shell(&format!("cp -r py {to}/py && chmod -R a+rX {to}/py"))?;
        }
        for (name, bytes) in [("envelope", envelope()), ("batch", batch())] {
            files::write(&worktree.join(name), bytes).map_err(text)?;
        }
        Ok(())
    }

    fn all(&self, figures: &mut Figures) -> Result<(), String> {
        print(&format!("sinks: from a room, {ROUNDS} rounds, alternating"));
        self.mail(figures)?;
        let sentry = ["127.0.0.1:8969", "/api/42/envelope/", "envelope"];
        self.events("Sentry envelopes", sentry, (ENVELOPES, 1, "error"), figures)?;
        let posthog = ["us.i.posthog.com:80", "/batch/", "batch"];
        self.events("PostHog batches", posthog, (BATCHES, BATCH, "event"), figures)?;
        self.objects(figures)?;
        self.memory(figures)
    }

    /// Runs the load in the room; returns the operations per second.
    fn load(&self, words: &[&str]) -> Result<f64, String> {
        let pinned: &[&str] = if self.two_processors { &["taskset", "-c", "1"] } else { &["env"] };
        let words = [&["exec", "-w", "a", "--"], pinned, &["./load", "load"], words].concat();
        let printed = self.ground.hothouse(&words)?;
        printed.trim().parse().map_err(|_| format!("the load said: {printed}"))
    }

    fn mail(&self, figures: &mut Figures) -> Result<(), String> {
        let count = MAILS.to_string();
        let of = |port: &str| self.load(&["smtp", &format!("127.0.0.1:{port}"), &count, "8"]);
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(of("1025")?);
            if self.has_peer {
                peer.push(of("2525")?);
            }
        }
        let ours = middle(ours);
        figures.add("mails", ours, "/s");
        print(&format!("  mails               {ours:>9.0} /s, each synced to the disk"));
        match peer.is_empty() {
            true => print("  aiosmtpd            SKIPPED (pip could not install it)"),
            false => {
                let peer = middle(peer);
                print(&format!("  aiosmtpd, a maildir {peer:>9.0} /s"));
                bar("mails, times aiosmtpd", ours / peer, "", Bar::AtLeast(5.0));
            }
        }
        Ok(())
    }

    fn events(
        &self,
        name: &str,
        [address, path, body]: [&str; 3],
        (count, each, kind): (usize, usize, &str),
        figures: &mut Figures,
    ) -> Result<(), String> {
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            let mark = format!("{kind}-{round}");
            self.ground.hothouse(&["mark", &mark, "-w", "a"])?;
            rates.push(self.load(&["post", address, path, body, &count.to_string(), "16"])?);
            let since = self.ground.hothouse(&["since", &mark, "-w", "a", "--json"])?;
            let since: Value = serde_json::from_str(&since).map_err(|error| error.to_string())?;
            let found = since["counts"][kind].as_u64();
            if found != Some((count * each) as u64) {
                return Err(format!("{name}: {found:?} of {} are on the timeline", count * each));
            }
        }
        let each = u32::try_from(each).map_err(|error| error.to_string())?;
        let rate = middle(rates) * f64::from(each);
        figures.add(name, rate, "events/s");
        bar(name, rate, "/s", Bar::AtLeast(5000.0));
        Ok(())
    }

    fn objects(&self, figures: &mut Figures) -> Result<(), String> {
        let (count, size) = (OBJECTS.to_string(), OBJECT.to_string());
        let put =
            |port: &str| self.load(&["put", &format!("127.0.0.1:{port}"), &size, &count, "4"]);
        let get = |port: &str| self.load(&["get", &format!("127.0.0.1:{port}"), &count, "4"]);
        for (name, of) in [
            ("put", &put as &dyn Fn(&str) -> Result<f64, String>),
            ("get", &get as &dyn Fn(&str) -> Result<f64, String>),
        ] {
            let (mut ours, mut plain) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(of("9000")?);
                plain.push(of("9100")?);
            }
            let (ours, plain) = (middle(ours), middle(plain));
            figures.add(format!("{name} of 1 MiB"), ours, "/s");
            print(&format!("  {name} of 1 MiB        {ours:>9.0} /s"));
            print(&format!("  a plain file        {plain:>9.0} /s"));
            bar(&format!("{name} of objects, ratio"), ours / plain, "", Bar::AtLeast(0.7));
        }
        Ok(())
    }

    fn memory(&self, figures: &mut Figures) -> Result<(), String> {
        let send = |records: usize| {
            let count = (records / BATCH).to_string();
            self.load(&["post", "us.i.posthog.com:80", "/batch/", "batch", &count, "16"])
        };
        // The bytes of records in a run are limited; the next run starts over.
        for command in ["down", "up"] {
            self.ground.hothouse(&[command, "-w", "a"])?;
        }
        send(RECORDS / 10)?;
        let first = self.resident()?;
        send(RECORDS - RECORDS / 10)?;
        let last = self.resident()?;
        figures.add("memory after 200,000 records", last, "MB");
        print(&format!(
            "  memory of the daemon {first:>8.1} MB after {} more records",
            RECORDS / 10
        ));
        print(&format!("                       {last:>8.1} MB after {RECORDS}"));
        bar("memory, ratio", last / first, "", Bar::AtMost(1.2));
        Ok(())
    }

    /// Returns the memory of the daemon in megabytes.
    fn resident(&self) -> Result<f64, String> {
        let status = self.ground.hothouse(&["daemon", "status", "--json"])?;
        let status: Value = serde_json::from_str(&status).map_err(|error| error.to_string())?;
        let file = format!("/proc/{}/status", status["pid"]);
        let printed = files::read_text(Path::new(&file)).map_err(text)?;
        let line = printed.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u32>().ok());
        kilobytes.map(|count| f64::from(count) / 1024.0).ok_or_else(|| "no VmRSS".to_owned())
    }
}

fn text(error: files::FileError) -> String {
    error.to_string()
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Builds an error report as an SDK sends it.
fn envelope() -> Vec<u8> {
    let frame = |number: u32| {
        json!({ "filename": format!("/app/src/file{number}.js"), "function": format!("step{number}"),
                "lineno": number, "colno": 7, "in_app": true })
    };
    let event = json!({
        "event_id": "0123456789abcdef0123456789abcdef", "platform": "node", "level": "error", "environment": "dev",
        "release": "1.0", "tags": { "area": "checkout" }, "timestamp": 1_790_000_000,
        "exception": { "values": [{ "type": "TypeError", "value": "coupon is not defined",
            "stacktrace": { "frames": (1..12).map(frame).collect::<Vec<_>>() } }] },
        "breadcrumbs": (0..5).map(|n| json!({ "category": "http", "message": format!("GET /{n}") })).collect::<Vec<_>>(),
    });
    let item = event.to_string();
    let head = json!({ "event_id": "0123456789abcdef0123456789abcdef", "sent_at": "2026-11-17T08:00:00Z" });
    let about = json!({ "type": "event", "length": item.len() });
    format!("{head}\n{about}\n{item}\n").into_bytes()
}

fn batch() -> Vec<u8> {
    let event = |number: usize| {
        json!({ "event": "order paid", "distinct_id": format!("user-{number}"), "timestamp": "2026-11-17T08:00:00Z",
                "properties": { "plan": "pro", "total": number, "currency": "usd", "$lib": "posthog-node" } })
    };
    json!({ "api_key": "phc_bench", "batch": (0..BATCH).map(event).collect::<Vec<_>>() })
        .to_string()
        .into_bytes()
}
