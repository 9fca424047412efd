//! The browser of a room against playwright-core and a bare Chromium in the same room; seeded stacks against seeding.

use std::{path::Path, time::Duration};

use hothouse_host::files;

use super::{
    bars::{Bar, bar},
    figures::Figures,
    median, milliseconds, print,
    room::Ground,
    timed,
};

const PAGES: usize = 21;
const STARTS: usize = 5;
const SEEDINGS: usize = 3;

/// How many pages are opened before the first one that counts.
const WARM: usize = 3;

const APP: &str = include_str!("browser/app.py");
const PEER: &str = include_str!("browser/peer.mjs");

const CONFIG: &str = "[project]\nname = \"bench\"\n\
    [service.web]\nrun = \"python3 app.py\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";

/// A stack with a database, whose seed takes as long as real ones do: several hundred thousand rows, in several
/// bundles.
const SEEDED: &str = "[project]\nname = \"bench\"\n[service.db]\nrecipe = \"postgres\"\n\
    [seed.bundle.schema]\nsql = \"schema.sql\"\n\
    [seed.bundle.people]\nsql = \"people.sql\"\nneeds = [\"schema\"]\n\
    [seed.bundle.orders]\nsql = \"orders.sql\"\nneeds = [\"people\"]\n\
    [seed.radius]\nm = [\"orders\"]\n";

const SCHEMA: &str = "create table if not exists people (id int primary key, name text, mail text unique);\n\
    create table if not exists orders (id int primary key, person int references people, what text, cents int);\n\
    create index if not exists orders_person on orders (person); create index if not exists orders_what on orders (what);\n";
const PEOPLE: &str = "insert into people select n, md5(n::text), md5(n::text) || '@example.com' \
    from generate_series(1, 60000) n on conflict do nothing;\n";
const ORDERS: &str = "insert into orders select n, 1 + n % 60000, repeat(md5(n::text), 4), n % 9000 \
    from generate_series(1, 500000) n on conflict do nothing;\n";

/// Runs all measurements.
pub(super) fn measure(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    pages(binary, figures)?;
    seeds(binary, figures)
}

fn repository(ground: &Ground<'_>, all: &[(&str, &str)]) -> Result<(), String> {
    for (name, text) in all {
        files::write(&ground.repository().join(name), text).map_err(|error| error.to_string())?;
    }
    ground.shell("cd r && git add -A && git commit -qm config")
}

fn end(ground: &Ground<'_>) -> Result<(), String> {
    ground.hothouse(&["nuke", "--yes"])?;
    ground.hothouse(&["daemon", "stop"]).map(drop)
}

/// Measures pages with a warm browser, and with none.
fn pages(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    repository(&ground, &[("hothouse.toml", CONFIG), ("app.py", APP), (".gitignore", "peer\n")])?;
    ground.hothouse(&["fork", "a"])?;
    ground.hothouse(&["up", "-w", "a"])?;
    let browse = || ground.hothouse(&["browse", "web", "/", "-w", "a", "--json"]).map(drop);
    if browse().is_err() {
        print("browser: SKIPPED, it needs rooms and Chromium on this host");
        return end(&ground);
    }
    let url = ground.hothouse(&["url", "web", "-w", "a"])?;
    let url = url.split_whitespace().next().unwrap_or_default().to_owned();
    warm(&ground, &url, browse, figures)?;
    cold(&ground, &url, browse, figures)?;
    end(&ground)
}

fn warm(
    ground: &Ground<'_>,
    url: &str,
    browse: impl Fn() -> Result<(), String>,
    figures: &mut Figures,
) -> Result<(), String> {
    let install = "mkdir -p r-sandboxes/a/peer && cd r-sandboxes/a/peer && npm install --no-audit --no-fund playwright-core >/dev/null 2>&1";
    if ground.shell(install).is_err() {
        print("browse, warm: SKIPPED, it needs npm and playwright-core from a registry");
        return Ok(());
    }
    let script = ground.folder.path().join("r-sandboxes/a/peer/peer.mjs");
    files::write(&script, PEER).map_err(|error| error.to_string())?;
    // In turns of a few pages each, so that other load on the machine affects both.
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        for _ in 0..WARM {
            browse()?;
        }
        for _ in 0..PAGES / 3 {
            ours.push(timed(&browse)?);
        }
        let rounds = (WARM + PAGES / 3).to_string();
        let words = ["exec", "-w", "a", "--", "node", "peer/peer.mjs", url, &rounds];
        let printed = ground.hothouse(&words)?;
        let times = printed.lines().filter_map(|line| line.parse::<f64>().ok()).skip(WARM);
        peer.extend(times.map(|ms| Duration::from_secs_f64(ms / 1000.0)));
    }
    if peer.is_empty() {
        return Err("playwright-core opened no page".into());
    }
    let (ours, peer) = (median(ours), median(peer));
    figures.add("browse, warm", milliseconds(ours), "ms");
    print(&format!("browse, warm: the same captures of one page, median of {PAGES}, in turns"));
    print(&format!("  playwright-core           {:>9.1} ms", milliseconds(peer)));
    print(&format!("  hothouse browse           {:>9.1} ms", milliseconds(ours)));
    bar("browse, warm, ratio", ratio(ours, peer), "", Bar::AtMost(1.2));
    Ok(())
}

fn cold(
    ground: &Ground<'_>,
    url: &str,
    browse: impl Fn() -> Result<(), String>,
    figures: &mut Figures,
) -> Result<(), String> {
    let bare = format!(
        "d=$(mktemp -d); \"$PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH\" --headless --disable-gpu --no-first-run --user-data-dir=$d --dump-dom '{url}' 2>/dev/null | grep -q 'Row 7'"
    );
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        // A freshly started room has no browser.
        ground.hothouse(&["down", "-w", "a"])?;
        ground.hothouse(&["up", "-w", "a"])?;
        peer.push(timed(|| {
            ground.hothouse(&["exec", "-w", "a", "--", "sh", "-c", &bare]).map(drop)
        })?);
        ours.push(timed(&browse)?);
    }
    let (ours, peer) = (median(ours), median(peer));
    figures.add("browse, cold", milliseconds(ours), "ms");
    print(&format!("browse, cold: the first page of a room, median of {STARTS}, alternating"));
    print(&format!("  chromium --dump-dom       {:>9.1} ms", milliseconds(peer)));
    print(&format!("  hothouse browse           {:>9.1} ms", milliseconds(ours)));
    bar("browse, cold, ratio", ratio(ours, peer), "", Bar::AtMost(1.5));
    Ok(())
}

/// Measures `up --seed m` from a snapshot, against seeding and against an `up` without a seed.
fn seeds(binary: &Path, figures: &mut Figures) -> Result<(), String> {
    let ground = Ground::new(binary)?;
    let files = [
        ("hothouse.toml", SEEDED),
        ("schema.sql", SCHEMA),
        ("people.sql", PEOPLE),
        ("orders.sql", ORDERS),
    ];
    repository(&ground, &files)?;
    ground.hothouse(&["fork", "first"])?;
    if ground.hothouse(&["up", "-w", "first"]).is_err() {
        print("up --seed: SKIPPED, it needs PostgreSQL and rooms on this host");
        return end(&ground);
    }
    let (mut seeding, mut snapshot, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..SEEDINGS {
        // A changed file invalidates the cached data.
        repository(&ground, &[("README", &format!("round {round}\n"))])?;
        let up = |name: &str, words: &[&str]| {
            let name = format!("{name}{round}");
            ground.hothouse(&["fork", &name])?;
            let all: Vec<&str> =
                ["up", "-w", &name].into_iter().chain(words.iter().copied()).collect();
            let took = timed(|| ground.hothouse(&all).map(drop))?;
            ground.hothouse(&["delete", &name, "--force"])?;
            Ok::<_, String>(took)
        };
        bare.push(up("bare", &[])?);
        seeding.push(up("seeds", &["--seed", "m"])?);
        snapshot.push(up("kept", &["--seed", "m"])?);
    }
    end(&ground)?;
    let (seeding, snapshot, bare) = (median(seeding), median(snapshot), median(bare));
    figures.add("up --seed m, from a snapshot", milliseconds(snapshot), "ms");
    print(&format!("up --seed m: 560,000 rows in PostgreSQL, median of {SEEDINGS}, in turns"));
    print(&format!("  up, seeding               {:>9.1} ms", milliseconds(seeding)));
    print(&format!("  up, no seed               {:>9.1} ms", milliseconds(bare)));
    print(&format!("  up, from a snapshot       {:>9.1} ms", milliseconds(snapshot)));
    let (of_seeding, of_bare) = (ratio(snapshot, seeding), ratio(snapshot, bare));
    bar("snapshot, of seeding", of_seeding, "", Bar::AtMost(0.1));
    bar("snapshot, of no seed", of_bare, "", Bar::AtMost(1.3));
    Ok(())
}

fn ratio(ours: Duration, peer: Duration) -> f64 {
    ours.as_secs_f64() / peer.as_secs_f64()
}
