//! The dashboard: the overview of many sandboxes, and what open pages cost while nothing happens.

use std::path::Path;

use hothouse_host::{Program, files};

use super::{
    bars::{Bar, bar},
    figures::Figures,
    print,
    room::Ground,
};

const SANDBOXES: usize = 50;
/// How many of the sandboxes have a room.
const UP: usize = 3;
const PAGES: usize = 50;
const SECONDS: usize = 40;

const SCRIPT: &str = include_str!("dashboard.py");

/// Measures both.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let config = "[project]\nname = \"bench\"\n[service.web]\nrun = \"python3 -m http.server 3000\"\nport = 3000\n\
                  ready = { tcp = true }\nurl = \"web\"\n";
    files::write(&ground.repository().join("hothouse.toml"), config).map_err(|e| e.to_string())?;
    ground.shell("cd r && git add -A && git commit -qm config")?;
    for number in 0..SANDBOXES {
        ground.hothouse(&[
            "fork",
            &format!("agent-{number}"),
            "--idea",
            "Make the checkout quick",
        ])?;
    }
    for number in 0..UP {
        if ground.hothouse(&["up", "-w", &format!("agent-{number}")]).is_err() {
            print("dashboard: no rooms on this host, so all sandboxes are down");
            break;
        }
    }
    let measured = pages(&ground, figures);
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"])?;
    measured
}

fn pages(ground: &Ground<'_>, figures: &mut Figures) -> Result<(), String> {
    let script = ground.folder.path().join("dashboard.py");
    files::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let link = ground.hothouse(&["ui"])?;
    let about = ground.hothouse(&["daemon", "status", "--json"])?;
    let about: serde_json::Value = serde_json::from_str(&about).map_err(|e| e.to_string())?;
    let pid = about["pid"].as_u64().ok_or("the daemon does not say its pid")?;
    let program = Program::new("python3").arg(&script).arg(link.trim()).arg(pid.to_string());
    let program = program.arg(PAGES.to_string()).arg(SECONDS.to_string());
    let output = ground.prepare(program).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [median, worst, share] = numbers.as_slice() else {
        return Err(format!("no figures in `{text}`"));
    };
    figures.add("overview of 50 sandboxes", *median, "ms");
    figures.add("50 open pages", *share, "%");
    print(&format!("dashboard: {SANDBOXES} sandboxes, {UP} of them up"));
    bar("overview, rendered again, median", *median, "ms", Bar::AtMost(100.0));
    print(&format!("  the worst of 12                 {worst:>8.1} ms"));
    bar("50 idle open pages, share of a core", *share, "%", Bar::AtMost(5.0));
    Ok(())
}
