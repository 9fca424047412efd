//! Benchmarks: ratios against named peers, measured in parallel in one run.

mod egress;
mod fork;
mod room;
mod router;
mod services;
mod timeline;

use std::{
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use hothouse_host::Program;

const ROUNDS: usize = 200;

const BENCHMARKS: [&str; 7] = ["cli", "egress", "fork", "room", "router", "services", "timeline"];

/// Runs the benchmarks that are named, or all.
pub(crate) fn run(binary: &Path, names: &[&str]) -> Result<(), String> {
    let all = names.is_empty();
    if let Some(unknown) = names.iter().find(|name| !BENCHMARKS.contains(name)) {
        return Err(format!(
            "there is no benchmark `{unknown}`; there are {}",
            BENCHMARKS.join(", ")
        ));
    }
    if all || names.contains(&"cli") {
        cli(binary)?;
    }
    if all || names.contains(&"fork") {
        fork::run(binary)?;
    }
    if all || names.contains(&"egress") {
        egress::run(binary)?;
    }
    if all || names.contains(&"room") {
        room::run(binary)?;
    }
    if all || names.contains(&"router") {
        router::run(binary)?;
    }
    if all || names.contains(&"services") {
        services::run(binary)?;
    }
    if all || names.contains(&"timeline") {
        timeline::run()?;
    }
    Ok(())
}

/// Prints a line of the report.
pub(crate) fn print(line: &str) {
    writeln!(std::io::stdout(), "{line}").ok();
}

/// `hothouse list` with a running daemon, against starting `/bin/true` in the same way.
fn cli(binary: &Path) -> Result<(), String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let hothouse = |words: &[&str]| {
        let program = Program::new(binary).args(words);
        program.env("XDG_STATE_HOME", home.path().join("state")).env("XDG_RUNTIME_DIR", home.path())
    };
    let done = |program: Program| program.output().map(|_| ()).map_err(|error| error.to_string());
    done(hothouse(&["daemon", "start"]))?;
    let (mut peer, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        peer.push(timed(|| done(Program::new("/bin/true")))?);
        ours.push(timed(|| done(hothouse(&["list"])))?);
    }
    done(hothouse(&["daemon", "stop"]))?;
    let (peer, ours) = (median(peer), median(ours));
    print("cli: start to end, median of 200, alternating");
    print(&format!("  /bin/true       {:>8.2} ms", milliseconds(peer)));
    print(&format!("  hothouse list   {:>8.2} ms", milliseconds(ours)));
    print(&format!(
        "  ratio           {:>8.2} (bar: at most 5)",
        ours.as_secs_f64() / peer.as_secs_f64()
    ));
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
