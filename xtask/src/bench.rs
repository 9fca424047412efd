//! Benchmarks: ratios against named peers, measured in parallel in one run.

mod bars;
mod browser;
mod dashboard;
mod door;
mod egress;
mod figures;
mod fork;
mod mock;
mod proof;
mod room;
mod router;
mod services;
pub(crate) mod sinks;
mod timeline;
pub(crate) mod written;

use std::{
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use hothouse_host::Program;
use serde_json::json;

use self::{
    bars::{Bar, bar},
    figures::Figures,
};

const ROUNDS: usize = 200;

/// How often commands are measured with few and with many sandboxes.
const LOOKS: usize = 11;
const FEW: u32 = 10;
const MANY: u32 = 200;

/// Whether standard output is only for one JSON document.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// How often each of two binaries is measured.
const TURNS: usize = 3;

/// A benchmark.
struct Benchmark {
    name: &'static str,
    /// Measures a binary.
    measure: fn(&Path, &mut Figures) -> Result<(), String>,
    /// Measures our own code in this process, whatever the binary is.
    within: Option<fn() -> Result<(), String>>,
}

static BENCHMARKS: [Benchmark; 13] = [
    Benchmark { name: "browser", measure: browser::measure, within: None },
    Benchmark { name: "cli", measure: cli, within: None },
    Benchmark { name: "dashboard", measure: dashboard::measure, within: None },
    Benchmark { name: "door", measure: door::measure, within: None },
    Benchmark { name: "fork", measure: fork::measure, within: Some(fork::within) },
    Benchmark { name: "egress", measure: egress::measure, within: None },
    Benchmark { name: "mock", measure: mock::measure, within: None },
    Benchmark { name: "proof", measure: proof::measure, within: Some(proof::run) },
    Benchmark { name: "room", measure: room::measure, within: None },
    Benchmark { name: "router", measure: router::measure, within: Some(router::within) },
    Benchmark { name: "services", measure: services::measure, within: None },
    Benchmark { name: "sinks", measure: sinks::measure, within: None },
    Benchmark { name: "timeline", measure: |_, _| Ok(()), within: Some(timeline::run) },
];

/// Runs the named benchmarks, or all.
pub(crate) fn run(binary: &Path, names: &[&str]) -> Result<(), String> {
    for benchmark in wanted(names)? {
        print(&format!("-- {}, on {}", benchmark.name, written::machine()));
        (benchmark.measure)(binary, &mut Figures::default())?;
        benchmark.within.map_or(Ok(()), |within| within())?;
    }
    Ok(())
}

/// Runs the named benchmarks, or all, and prints one document: the figures that have a bar.
///
/// The report itself goes to standard error.
pub(crate) fn run_as_json(binary: &Path, names: &[&str]) -> Result<(), String> {
    AS_JSON.store(true, Ordering::Relaxed);
    let machine = written::machine();
    let mut benchmarks = serde_json::Map::new();
    for benchmark in wanted(names)? {
        run(binary, &[benchmark.name])?;
        benchmarks.insert(benchmark.name.to_owned(), bars::take().into());
    }
    let commit = written::commit()?;
    let all = json!({ "commit": commit, "machine": machine, "benchmarks": benchmarks });
    writeln!(std::io::stdout(), "{all:#}").map_err(|error| error.to_string())
}

/// Runs the named benchmarks, or all, and writes their reports into `docs/bench`.
pub(crate) fn run_and_write(binary: &Path, names: &[&str]) -> Result<(), String> {
    for benchmark in wanted(names)? {
        written::record(benchmark.name, || run(binary, &[benchmark.name]))?;
    }
    crate::generate::write()
}

/// Runs the named benchmarks, or all, alternating between two binaries, and compares them.
///
/// So other load on the machine, and its temperature, affect both alike.
pub(crate) fn run_against(
    binary: &Path,
    revision: &str,
    before: &Path,
    names: &[&str],
) -> Result<(), String> {
    let wanted = wanted(names)?;
    let (mut of_now, mut of_before) = (Figures::default(), Figures::default());
    for benchmark in wanted {
        for turn in 1..=TURNS {
            let sides = [("now", binary, &mut of_now), (revision, before, &mut of_before)];
            for (side, binary, figures) in sides {
                print(&format!("-- {}, turn {turn} of {TURNS}: {side}", benchmark.name));
                (benchmark.measure)(binary, figures)?;
            }
        }
    }
    print(&format!("-- medians of {TURNS} turns; the ratio is now against {revision}"));
    figures::compare(&of_now, &of_before, revision);
    Ok(())
}

fn wanted(names: &[&str]) -> Result<Vec<&'static Benchmark>, String> {
    let known = |name: &str| BENCHMARKS.iter().any(|benchmark| benchmark.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all = BENCHMARKS.each_ref().map(|benchmark| benchmark.name).join(", ");
        return Err(format!("there is no benchmark `{unknown}`; there are {all}"));
    }
    let is_wanted = |benchmark: &&Benchmark| names.is_empty() || names.contains(&benchmark.name);
    Ok(BENCHMARKS.iter().filter(is_wanted).collect())
}

/// Prints a line of the report.
pub(crate) fn print(line: &str) {
    written::keep(line);
    if AS_JSON.load(Ordering::Relaxed) {
        writeln!(std::io::stderr(), "{line}").ok();
    } else {
        writeln!(std::io::stdout(), "{line}").ok();
    }
}

/// Measures `hothouse list` with a running daemon, against starting `/bin/true` in the same way.
fn cli(binary: &Path, figures: &mut Figures) -> Result<(), String> {
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
    figures.add("list", milliseconds(ours), "ms");
    print("cli: start to end, median of 200, alternating");
    print(&format!("  /bin/true       {:>8.2} ms", milliseconds(peer)));
    print(&format!("  hothouse list   {:>8.2} ms", milliseconds(ours)));
    bar("list, ratio", ours.as_secs_f64() / peer.as_secs_f64(), "", Bar::AtMost(5.0));
    many(binary, figures)
}

/// Measures `list` and `clean --dry-run` with many sandboxes, against few.
fn many(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = room::Ground::new(binary)?;
    let commands: [&[&str]; 2] = [&["list"], &["clean", "--merged", "--dry-run"]];
    let mut times = Vec::new();
    let mut made = 0;
    for count in [FEW, MANY] {
        for number in made..count {
            ground.hothouse(&["fork", &format!("s{number}")])?;
        }
        made = count;
        for words in commands {
            let rounds = (0..LOOKS).map(|_| timed(|| ground.hothouse(words).map(drop)));
            times.push(median(rounds.collect::<Result<_, _>>()?));
        }
    }
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    for (number, words) in commands.iter().enumerate() {
        let (few, many) = (milliseconds(times[number]), milliseconds(times[number + 2]));
        let name = words.join(" ");
        figures.add(format!("{name} of {MANY}"), many, "ms");
        print(&format!("  {name} of {FEW}: {few:.1} ms, of {MANY}: {many:.1} ms"));
        bar(
            &format!("{name}, more per sandbox"),
            (many - few) / f64::from(MANY - FEW),
            "ms",
            Bar::AtMost(0.25),
        );
    }
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
