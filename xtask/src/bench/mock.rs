//! Mocked hosts, from a room through the wall, against Mockoon's CLI with the same fixture.
//!
//! Both speak TLS, answer from a template, and log each request; `wrk` puts load on both.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use hothouse_host::{Program, files};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    print,
    room::Ground,
};

const CONFIG: &str = "[project]\nname = \"bench\"\n[egress]\nmode = \"allowlist\"\n\
    [integration.things]\nclass = \"mock\"\nhosts = [\"api.things.example\"]\n";

const FIXTURE: &str = "[request]\nmethod = \"GET\"\npath = \"/things/{id}\"\n[answer]\n\
    json = { id = \"{{path.id}}\", name = \"lamp\", price = 1290 }\n";

const MOCKOON: &str = include_str!("mock/mockoon.json");
const MOCKOON_PORT: u16 = 13_999;

const ROUNDS: usize = 3;
const SECONDS: &str = "-d5";

/// Runs all measurements.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let repository = ground.repository();
    files::write(&repository.join("hothouse.toml"), CONFIG).map_err(text)?;
    files::make_folder(&repository.join("hothouse/fixtures/things")).map_err(text)?;
    files::write(&repository.join("hothouse/fixtures/things/things.toml"), FIXTURE)
        .map_err(text)?;
    ground.shell("cd r && git add -A && git commit -qm config")?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a"])?;
    let measured = rounds(&ground, figures);
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    measured
}

fn rounds(ground: &Ground<'_>, figures: &mut Figures) -> Result<(), String> {
    let mockoon = Mockoon::start(ground);
    if let Err(why) = &mockoon {
        print(&format!("mock: Mockoon is SKIPPED ({why})"));
    }
    let ours = "https://api.things.example/things/7";
    let theirs = format!("https://127.0.0.1:{MOCKOON_PORT}/things/7");
    let (mut one, mut many, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(Load::of(&inside(ground, &["-t1", "-c1", SECONDS, "--latency", ours])?)?.median);
        many.push(Load::of(&inside(ground, &["-t1", "-c16", SECONDS, "--latency", ours])?)?.rate);
        if mockoon.is_ok() {
            peer.push(Load::of(&outside(&["-t1", "-c16", SECONDS, "--latency", &theirs])?)?.rate);
        }
    }
    let (one, many) = (middle(one), middle(many));
    figures.add("mocked request", one, "ms");
    figures.add("mocked requests", many, "/s");
    print(&format!(
        "mock: a small fixture, kept connections, {ROUNDS} rounds of 5 s, every request recorded"
    ));
    bar("a request, one connection, median", one, "ms", Bar::AtMost(1.0));
    print(&format!("  16 connections      {many:>9.0} requests/s"));
    if !peer.is_empty() {
        let peer = middle(peer);
        print(&format!("  Mockoon             {peer:>9.0} requests/s"));
        bar("requests, times Mockoon", many / peer, "", Bar::AtLeast(5.0));
    }
    Ok(())
}

fn inside(ground: &Ground<'_>, words: &[&str]) -> Result<String, String> {
    let exec = ["exec", "-w", "a", "--", "wrk"];
    ground.hothouse(&[&exec[..], words].concat())
}

fn outside(words: &[&str]) -> Result<String, String> {
    let output = Program::new("wrk").args(words.iter().copied()).output().map_err(text)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The result of `wrk`.
struct Load {
    /// In milliseconds.
    median: f64,
    /// Per second.
    rate: f64,
}

impl Load {
    fn of(printed: &str) -> Result<Self, String> {
        let after = |word: &str| {
            let line = printed.lines().find(|line| line.trim_start().starts_with(word))?;
            line.trim_start().strip_prefix(word).map(str::trim)
        };
        let wrong = || format!("wrk printed: {printed}");
        // Error responses do not count as load.
        if printed.contains("Non-2xx") {
            return Err(wrong());
        }
        let median = after("50%").and_then(milliseconds).ok_or_else(wrong)?;
        let rate = after("Requests/sec:").and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
        Ok(Self { median, rate })
    }
}

/// Parses a duration in the format of `wrk`.
fn milliseconds(text: &str) -> Option<f64> {
    let unit = |end: &str| text.strip_suffix(end).and_then(|number| number.parse::<f64>().ok());
    unit("us")
        .map(|time| time / 1000.0)
        .or_else(|| unit("ms"))
        .or_else(|| unit("s").map(|time| time * 1000.0))
}

/// Mockoon's CLI, installed next to the benchmark.
struct Mockoon(Child);

impl Mockoon {
    fn start(ground: &Ground<'_>) -> Result<Self, String> {
        let folder = ground.folder.path().join("mockoon");
        files::make_folder(&folder).map_err(text)?;
        files::write(&folder.join("package.json"), "{}").map_err(text)?;
        files::write(&folder.join("mockoon.json"), MOCKOON).map_err(text)?;
        ground.shell("cd mockoon && npm install --no-audit --no-fund --silent @mockoon/cli")?;
        let program = folder.join("node_modules/@mockoon/cli/bin/run.js");
        let data = folder.join("mockoon.json");
        let words = [program.as_os_str(), "start".as_ref(), "--data".as_ref(), data.as_os_str()];
        let started = Self(spawn(&words)?);
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", MOCKOON_PORT)).is_err() {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("it does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(started)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a peer that runs beside us, and is ended by its handle"
)]
fn spawn(words: &[&std::ffi::OsStr]) -> Result<Child, String> {
    let mut command = Command::new("node");
    command.args(words).arg("--disable-log-to-file");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(text)
}

impl Drop for Mockoon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_prints_is_read_with_its_units() {
        let printed = "Running 5s test\n  Latency Distribution\n     50%  512.00us\n     99%    2.10ms\nRequests/sec:   1834.52\n";
        let load = Load::of(printed).unwrap();
        assert_eq!((load.median, load.rate), (0.512, 1834.52));
        assert_eq!((milliseconds("2.10ms"), milliseconds("1.5s")), (Some(2.1), Some(1500.0)));
        assert!(Load::of("  Non-2xx or 3xx responses: 7").is_err());
    }
}
