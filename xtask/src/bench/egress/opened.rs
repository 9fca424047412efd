//! Terminated hosts: what terminating TLS adds to a small request, and the memory of an idle
//! connection.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Child,
};

use hothouse_host::{Program, files};

use super::{ADDRESS, IDLE, PYTHON, end, memory, middle, spawn, text};
use crate::bench::{
    bars::{Bar, bar},
    figures::Figures,
    print,
    room::Ground,
};

const SCRIPT: &str = include_str!("opened.py");
const REQUESTS: &str = "2000";
const ROUNDS: usize = 5;

/// The project's config for the host.
pub(super) const CONFIG: &str = "[secret.TOKEN]\nhosts = [\"opened.example\"]\n";

/// A host whose TLS is terminated.
pub(super) struct Opened(Option<Child>);

impl Opened {
    /// Starts the host, before any daemon starts: a daemon must trust the host's certificate.
    pub(super) fn start(ground: &Ground<'_>) -> Result<Self, String> {
        let folder = ground.folder.path();
        files::write(&folder.join("opened.py"), SCRIPT).map_err(text)?;
        files::write(&ground.repository().join("opened.py"), SCRIPT).map_err(text)?;
        // By default the certificate would be a CA's, which clients do not accept from a host.
        ground.shell(
            "printf '[req]\\ndistinguished_name = d\\n[d]\\n' >settings && openssl req -x509 -config settings -newkey ec \
             -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bench -addext basicConstraints=critical,CA:FALSE \
             -addext subjectAltName=DNS:opened.example -keyout key.pem -out world.pem",
        )?;
        let at = |name: &str| folder.join(name).display().to_string();
        let words = [&at("opened.py"), "serve", ADDRESS, &at("world.pem"), &at("key.pem")];
        let mut child = spawn(PYTHON, &words)?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("it has no output")?;
        BufReader::new(output).read_line(&mut line).map_err(text)?;
        Ok(Self(Some(child)))
    }

    /// Gives the secret a value, which a room needs when it starts.
    pub(super) fn prepare(ground: &Ground<'_>) -> Result<(), String> {
        let source = "command:echo bench-token-0123456789abcdef";
        ground.hothouse(&["secret", "set", "TOKEN", "--from", source]).map(drop)
    }

    pub(super) fn measure(
        &self,
        ground: &Ground<'_>,
        daemon: u64,
        figures: &mut Figures,
    ) -> Result<(), String> {
        let (mut direct, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            direct.push(outside(ground.folder.path())?);
            let words = ["exec", "-w", "a", "--", PYTHON, "opened.py", "ask", "opened.example"];
            ours.push(pair(&ground.hothouse(&[&words[..], &[REQUESTS]].concat())?)?);
        }
        let of = |all: &[(f64, f64)], part: fn(&(f64, f64)) -> f64| {
            middle(all.iter().map(part).collect())
        };
        let (median, tail) = (|pair: &(f64, f64)| pair.0, |pair: &(f64, f64)| pair.1);
        figures.add("request, terminated host", of(&ours, median), "ms");
        figures.add("request, terminated host, p99", of(&ours, tail), "ms");
        print(&format!(
            "egress: a small request on a terminated host, kept connection, {REQUESTS} requests, {ROUNDS} rounds"
        ));
        print(&format!(
            "  direct      median {:>7.3} ms   p99 {:>7.3} ms",
            of(&direct, median),
            of(&direct, tail)
        ));
        print(&format!(
            "  hothouse    median {:>7.3} ms   p99 {:>7.3} ms",
            of(&ours, median),
            of(&ours, tail)
        ));
        let added = |part| of(&ours, part) - of(&direct, part);
        bar("a request adds, median", added(median), "ms", Bar::AtMost(1.0));
        bar("a request adds, p99", added(tail), "ms", Bar::AtMost(3.0));
        idle(ground, daemon, figures)
    }

    pub(super) fn end(self) {
        end(self.0);
    }
}

fn outside(folder: &Path) -> Result<(f64, f64), String> {
    let world = folder.join("world.pem").display().to_string();
    let script = folder.join("opened.py").display().to_string();
    let words = [&script, "ask", ADDRESS, REQUESTS, &world];
    let output = Program::new(PYTHON).args(words).output().map_err(text)?;
    pair(&String::from_utf8_lossy(&output))
}

fn pair(line: &str) -> Result<(f64, f64), String> {
    let (median, tail) =
        line.trim().split_once(' ').ok_or_else(|| format!("no figures: {line}"))?;
    Ok((median.parse().map_err(text)?, tail.parse().map_err(text)?))
}

fn idle(ground: &Ground<'_>, daemon: u64, figures: &mut Figures) -> Result<(), String> {
    let before = memory(daemon);
    let words = ["exec", "-w", "a", "--", PYTHON, "opened.py", "idle", "opened.example"];
    let (talker, pipes) = ground.converse(&[&words[..], &[&IDLE.to_string()]].concat())?;
    let mut line = String::new();
    BufReader::new(std::fs::File::from(pipes.from)).read_line(&mut line).map_err(text)?;
    let after = memory(daemon);
    drop(pipes.to);
    talker.end();
    if line.trim() != "held" {
        return Err(format!("the idle connections were not made: {line}"));
    }
    let each = after.saturating_sub(before) as f64 / 1024.0 / IDLE as f64;
    figures.add("memory of an idle terminated connection", each, "KB");
    print(&format!("egress: {IDLE} idle connections to a terminated host, each after one request"));
    bar("memory of each, terminated", each, "KB", Bar::AtMost(20.0));
    Ok(())
}
