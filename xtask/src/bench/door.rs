//! The room API: a tool call against the same call of the API, and `status` in the room against outside.

use std::{path::Path, time::Duration};

use hothouse_host::{Program, files};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    median, milliseconds, print,
    room::Ground,
    timed,
};

const CALLS: usize = 300;
const LOOKS: usize = 20;
const ROUNDS: usize = 7;

const SCRIPT: &str = include_str!("door.py");

/// Measures both.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let config = "[project]\nname = \"bench\"\n[service.web]\nrun = \"sleep 100000\"\n";
    files::write(&ground.repository().join("hothouse.toml"), config).map_err(|e| e.to_string())?;
    ground.shell("cd r && git add -A && git commit -qm config")?;
    ground.hothouse(&["fork", "a"])?;
    if ground.hothouse(&["up", "-w", "a"]).is_err() {
        print("door: SKIPPED, it needs rooms on this host");
        return ground.hothouse(&["daemon", "stop"]).map(drop);
    }
    let measured = tool_calls(&ground, binary, figures).and_then(|()| looks(&ground, figures));
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    measured
}

fn tool_calls(ground: &Ground<'_>, binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let script = ground.folder.path().join("door.py");
    files::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let state = ground.folder.path().join("state");
    let program = Program::new("python3").arg(&script).arg(binary).arg(&state);
    let program = program.arg(CALLS.to_string()).folder(&ground.repository());
    let output = ground.prepare(program).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [api, tool] = numbers.as_slice() else { return Err(format!("no figures in `{text}`")) };
    figures.add("a tool call over the API call", tool - api, "ms");
    print(&format!(
        "door: `status` as a tool on a warm connection, median of {CALLS}, alternating"
    ));
    print(&format!("  the same call of the API  {api:>9.2} ms"));
    print(&format!("  the tool                  {tool:>9.2} ms"));
    bar("a tool call over the API call", tool - api, "ms", Bar::AtMost(2.0));
    Ok(())
}

/// Measures the same shell loop, in the room and outside.
fn looks(ground: &Ground<'_>, figures: &mut Figures) -> Result<(), String> {
    let lines = |program: &str| {
        format!(
            "i=0; while [ $i -lt {LOOKS} ]; do {program} status --json -w a >/dev/null || exit 1; i=$((i+1)); done"
        )
    };
    let inside = lines("hothouse");
    let outside = lines(&format!("'{}'", ground.binary().display()));
    let (mut own, mut host): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(timed(|| {
            ground.hothouse(&["exec", "-w", "a", "--", "sh", "-c", &inside]).map(drop)
        })?);
        host.push(timed(|| ground.shell(&format!("cd r && {outside}")))?);
    }
    let each = |times| milliseconds(median(times)) / LOOKS as f64;
    let (own, host) = (each(own), each(host));
    figures.add("status in the room", own, "ms");
    print(&format!("door: `hothouse status`, a loop of {LOOKS}, median of {ROUNDS}, alternating"));
    print(&format!("  outside                   {host:>9.2} ms"));
    print(&format!("  in the room               {own:>9.2} ms"));
    bar("status in the room, ratio", own / host, "", Bar::AtMost(1.5));
    Ok(())
}
