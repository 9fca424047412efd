//! Races several agents on one task, from the same commit or snapshot, with the same limit and
//! checks.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use hothouse_engine::{ForkSpec, FromRef, UpSpec};
use hothouse_host::random;
use hothouse_model::{
    Failure, FailureKind, OperationId, SandboxName, SandboxRecord, SandboxRef,
    agent::{AgentRecord, AgentState, RaceCheck, RaceDiff, RaceEgress, RaceSide, RaceView},
    query::Query,
    record::Kind,
};
use hothouse_timeline::{Direction, Selection};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    AgentWish, prepare,
    races::{self, KeptRace},
};
use crate::{
    Keepers,
    in_room::InRoom,
    proofs::{self, Asker, Judge, ProveWish},
    timelines::RunPlace,
};

/// The maximum number of sides.
const SIDES: usize = 8;

/// The default time limit of a side, in seconds.
const LIMIT: u64 = 3600;

/// How often the memory of a side is measured.
const SAMPLE: Duration = Duration::from_secs(2);

/// The time limit of the check command.
const CHECK: Duration = Duration::from_secs(900);

/// A request for a race.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RaceWish {
    /// `NAME` or `PROJECT/NAME`.
    pub sandbox: Option<String>,
    pub folder: PathBuf,
    pub task: String,
    pub with: Vec<String>,
    pub times: u32,
    pub seconds: Option<u64>,
    pub scenarios: Vec<String>,
    pub check: Option<String>,
    /// The caller's `HOTHOUSE_*` variables.
    pub variables: Vec<(String, String)>,
}

/// A finished side before it is judged.
struct Ran {
    sandbox: SandboxRecord,
    tool: String,
    agent: Result<AgentRecord, Failure>,
    seconds: f64,
    cpu: Option<f64>,
    memory: Option<u64>,
}

/// Runs a race to its end. Repeating the same operation returns the same race.
pub async fn race(
    keepers: &Keepers,
    wish: RaceWish,
    operation: OperationId,
) -> Result<RaceView, Failure> {
    check(&wish, &tools(&wish))?;
    races::once(keepers, wish, operation).await
}

/// Returns the tool of each side.
fn tools(wish: &RaceWish) -> Vec<String> {
    let each = |tool: &String| std::iter::repeat_n(tool.clone(), wish.times.max(1) as usize);
    wish.with.iter().flat_map(each).collect()
}

/// Runs the remaining parts of a race.
pub(super) async fn run_all(
    keepers: &Keepers,
    kept: &mut KeptRace,
    asker: &Asker,
) -> Result<RaceView, Failure> {
    let (race, wish) = (kept.name.clone(), kept.wish.clone());
    let tools = tools(&wish);
    let from = starting_point(keepers, kept).await?;
    let mut sides = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        let name = format!("{race}-{}", number + 1);
        asker.say(keepers, format!("make {name}"));
        sides.push((made(keepers, &wish, &from, &name).await?, tool.clone()));
    }
    let mut running = JoinSet::new();
    for (number, (sandbox, tool)) in sides.into_iter().enumerate() {
        let (keepers, wish, asker) = (keepers.clone(), wish.clone(), asker.clone());
        running.spawn(async move {
            asker.say(&keepers, format!("run {tool} in {}", sandbox.name));
            (number, run(&keepers, &wish, sandbox, tool).await)
        });
    }
    let mut ran = Vec::new();
    while let Some(done) = running.join_next().await {
        ran.push(done.map_err(|error| Failure::of(FailureKind::Internal, &error))?);
    }
    ran.sort_by_key(|(number, _)| *number);
    let mut judged = Vec::new();
    for (_, side) in ran {
        asker.say(keepers, format!("judge {}", side.sandbox.name));
        judged.push(judge(keepers, &wish, side, asker).await?);
    }
    let base = from.base.clone();
    Ok(view(race, base, judged))
}

fn check(wish: &RaceWish, tools: &[String]) -> Result<(), Failure> {
    if !(2..=SIDES).contains(&tools.len()) {
        let message = format!("a race has 2 to {SIDES} sides, not {}", tools.len());
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("such as `--with claude,codex`, or `--with claude --times 2`"));
    }
    if wish.task.trim().is_empty() {
        return Err(
            Failure::new(FailureKind::Usage, "a race needs a task").hint("pass it with `--idea`")
        );
    }
    Ok(())
}

/// The common start of all sides: a snapshot of a sandbox, or a commit.
struct Start {
    from: Option<FromRef>,
    base: String,
}

async fn starting_point(keepers: &Keepers, kept: &mut KeptRace) -> Result<Start, Failure> {
    let Some(wanted) = kept.wish.sandbox.clone() else {
        return Ok(Start { from: None, base: "HEAD".to_owned() });
    };
    let wanted: SandboxRef =
        wanted.parse().map_err(|error| Failure::of(FailureKind::Usage, &error))?;
    let from = FromRef { sandbox: wanted.clone(), snapshot: Some(kept.name.clone()) };
    if let Some(base) = kept.base.clone() {
        return Ok(Start { from: Some(from), base });
    }
    let (engine, folder) = (keepers.engine.clone(), kept.wish.folder.clone());
    let label = kept.name.clone();
    let taken = proofs::off_thread(move || {
        let sandbox = engine.find(Some(&wanted), &folder)?;
        match engine.snapshot(&sandbox, Some(&label), operation()) {
            // An earlier daemon took it, but ended before that was recorded.
            Err(failure) if failure.kind == FailureKind::Conflict => {}
            taken => drop(taken?),
        }
        Ok(sandbox)
    });
    let base = taken.await?.known_tip().to_owned();
    kept.base = Some(base.clone());
    keepers.agents.keep_race(kept)?;
    Ok(Start { from: Some(from), base })
}

fn operation() -> OperationId {
    OperationId::from_random(random::bytes())
}

/// Returns the sandbox of a side, forking it if necessary.
async fn made(
    keepers: &Keepers,
    wish: &RaceWish,
    from: &Start,
    name: &str,
) -> Result<SandboxRecord, Failure> {
    let own: SandboxName =
        name.parse().map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    let (engine, folder) = (keepers.engine.clone(), wish.folder.clone());
    let known = proofs::off_thread(move || {
        let wanted = SandboxRef { project: None, name: own };
        match engine.find(Some(&wanted), &folder) {
            Err(failure) if failure.kind == FailureKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    });
    match known.await? {
        Some(sandbox) => Ok(sandbox),
        None => fork(keepers, wish, from, name).await,
    }
}

async fn fork(
    keepers: &Keepers,
    wish: &RaceWish,
    from: &Start,
    name: &str,
) -> Result<SandboxRecord, Failure> {
    let name: SandboxName =
        name.parse().map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    let spec = ForkSpec {
        name,
        folder: wish.folder.clone(),
        base: None,
        branch: None,
        task: Some(wish.task.clone()),
        context: None,
        from: from.from.clone(),
        repository: None,
        tree: None,
        stack: None,
        setup: false,
        variables: wish.variables.clone(),
    };
    let engine = keepers.engine.clone();
    proofs::off_thread(move || engine.fork(&spec, operation())).await
}

/// Starts the sandbox of a side, runs its agent, and measures.
async fn run(keepers: &Keepers, wish: &RaceWish, sandbox: SandboxRecord, tool: String) -> Ran {
    let begun = Instant::now();
    let started = start(keepers, wish, &sandbox, &tool).await;
    let engine = keepers.engine.clone();
    let key = sandbox.key;
    let now =
        proofs::off_thread(move || engine.sandbox(key)).await.ok().flatten().unwrap_or(sandbox);
    let mut ran = Ran { sandbox: now, tool, agent: started, seconds: 0.0, cpu: None, memory: None };
    let mut last = Instant::now() - SAMPLE;
    while let Ok(agent) = &ran.agent {
        if !agent.state.is_active() {
            break;
        }
        if last.elapsed() >= SAMPLE {
            last = Instant::now();
            measure(keepers, &mut ran).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let all = keepers.agents.list(vec![ran.sandbox.clone()]).await;
        match all.into_iter().next() {
            Some(agent) => ran.agent = Ok(agent),
            None => break,
        }
    }
    if let Ok(AgentRecord { started, ended: Some(ended), .. }) = &ran.agent {
        ran.seconds = ended.duration_since(*started).as_secs_f64();
    } else {
        ran.seconds = begun.elapsed().as_secs_f64();
    }
    measure(keepers, &mut ran).await;
    ran
}

async fn start(
    keepers: &Keepers,
    wish: &RaceWish,
    sandbox: &SandboxRecord,
    tool: &str,
) -> Result<AgentRecord, Failure> {
    if let Some(kept) = keepers.agents.kept(sandbox) {
        // An earlier daemon started it.
        let listed = keepers.agents.list(vec![sandbox.clone()]).await;
        return Ok(listed.into_iter().next().unwrap_or(kept.record));
    }
    let (engine, of, activities) =
        (keepers.engine.clone(), sandbox.clone(), keepers.activities.clone());
    let up = proofs::off_thread(move || {
        let _starting = activities.of(of.key).begin_starting();
        let id = operation();
        engine.up(&of, &UpSpec::default(), id.clone())?;
        let now = engine.sandbox(of.key)?.unwrap_or(of);
        engine.await_services(&now, Duration::from_secs(300), &id)?;
        Ok(now)
    });
    let now = up.await?;
    keepers.refresh_urls_of(&now).await;
    let agent = AgentWish {
        tool: Some(tool.to_owned()),
        unattended: true,
        seconds: Some(wish.seconds.unwrap_or(LIMIT)),
        ..AgentWish::default()
    };
    keepers.agents.start(&now, agent).await
}

/// Queries the resource usage of the room's processes: CPU time including ended ones, and current
/// memory.
async fn measure(keepers: &Keepers, ran: &mut Ran) {
    const SCRIPT: &str = "getconf CLK_TCK; getconf PAGESIZE; cat /proc/1/stat; cat /proc/[0-9]*/statm 2>/dev/null | awk '{s+=$2} END {print \"rss\", s}'";
    let inside = InRoom::of(&keepers.engine, &keepers.connections, &ran.sandbox).await;
    let Ok(inside) = inside else { return };
    let Ok(output) = prepare::shell(&inside, SCRIPT, &[], &[], Duration::from_secs(10)).await
    else {
        return;
    };
    let (cpu, memory) = read_usage(&output.stdout.text());
    ran.cpu = cpu.or(ran.cpu);
    ran.memory = memory.max(ran.memory);
}

/// Parses the script's output, which is not trusted.
fn read_usage(text: &str) -> (Option<f64>, Option<u64>) {
    let mut lines = text.lines();
    let ticks =
        lines.next().and_then(|line| line.trim().parse::<f64>().ok()).filter(|ticks| *ticks > 0.0);
    let page = lines.next().and_then(|line| line.trim().parse::<u64>().ok());
    // A process name may contain anything, so fields are counted from the last parenthesis.
    let numbers: Vec<u64> = lines
        .next()
        .and_then(|line| line.rsplit_once(')'))
        .map(|(_, rest)| {
            rest.split_whitespace()
                .skip(1)
                .map(|number| number.parse().unwrap_or_default())
                .collect()
        })
        .unwrap_or_default();
    let used: u64 = numbers.get(10..14).map(|all| all.iter().sum()).unwrap_or_default();
    let cpu = ticks.filter(|_| !numbers.is_empty()).map(|ticks| (used as f64) / ticks);
    let pages = lines
        .next()
        .and_then(|line| line.strip_prefix("rss "))
        .and_then(|number| number.trim().parse::<u64>().ok());
    (cpu, pages.zip(page).map(|(pages, page)| pages.saturating_mul(page)))
}

/// Judges a side by the base's checks.
async fn judge(
    keepers: &Keepers,
    wish: &RaceWish,
    ran: Ran,
    asker: &Asker,
) -> Result<RaceSide, Failure> {
    let (engine, of) = (keepers.engine.clone(), ran.sandbox.clone());
    let looked = proofs::off_thread(move || {
        engine.import_if_possible(&of);
        let now = engine.sandbox(of.key)?.unwrap_or(of);
        let (_, difference) = engine.difference(&now, None)?;
        Ok((now, difference.files))
    });
    let (sandbox, files) = looked.await?;
    let mut checks = Vec::new();
    let mut changed_checks: BTreeSet<String> = BTreeSet::new();
    if !wish.scenarios.is_empty() {
        let prove = ProveWish {
            sandbox: Some(SandboxRef {
                project: Some(sandbox.project.clone()),
                name: sandbox.name.clone(),
            }),
            folder: wish.folder.clone(),
            scenarios: wish.scenarios.clone(),
            judge: Judge::Base,
            ..ProveWish::default()
        };
        match proofs::prove(keepers, prove, asker).await {
            Ok(proved) => {
                for proof in proved {
                    let failed = proof.outcome.checks.iter().filter(|check| !check.ok).count();
                    let failed = match failed {
                        0 => None,
                        1 => Some("1 check failed".to_owned()),
                        failed => Some(format!("{failed} checks failed")),
                    };
                    let detail = proof.outcome.failure.clone().or(failed);
                    checks.push(RaceCheck {
                        name: proof.outcome.scenario.clone(),
                        ok: proof.outcome.ok,
                        detail,
                    });
                    changed_checks.extend(
                        proof
                            .summary
                            .changed_checks
                            .iter()
                            .map(|changed| format!("{}: {}", changed.name, changed.how)),
                    );
                }
            }
            Err(failure) => checks.extend(wish.scenarios.iter().map(|name| RaceCheck {
                name: name.clone(),
                ok: false,
                detail: Some(failure.in_a_line()),
            })),
        }
    }
    if let Some(check) = &wish.check {
        checks.push(
            by_base(
                keepers,
                &sandbox,
                check,
                &files.iter().map(|file| file.path.clone()).collect::<Vec<_>>(),
                &mut changed_checks,
            )
            .await,
        );
    }
    let egress = egress(keepers, &sandbox);
    let AgentEnd { state, exit, cost } = AgentEnd::of(&ran.agent);
    if let Err(failure) = &ran.agent {
        checks.push(RaceCheck {
            name: "start".to_owned(),
            ok: false,
            detail: Some(failure.in_a_line()),
        });
    }
    Ok(RaceSide {
        name: sandbox.name.to_string(),
        tool: ran.tool,
        commit: Some(sandbox.known_tip().to_owned()),
        state,
        exit,
        diff: RaceDiff {
            files: files.len() as u64,
            added: files.iter().filter_map(|file| file.added).sum(),
            removed: files.iter().filter_map(|file| file.removed).sum(),
            names: files.iter().take(200).map(|file| file.path.clone()).collect(),
        },
        checks,
        changed_checks: changed_checks.into_iter().collect(),
        seconds: (ran.seconds * 1000.0).round() / 1000.0,
        cpu_seconds: ran.cpu,
        memory: ran.memory,
        egress,
        cost,
        run: sandbox.room.as_ref().map(|room| room.run.id.clone()),
    })
}

struct AgentEnd {
    state: AgentState,
    exit: Option<i32>,
    cost: Option<f64>,
}

impl AgentEnd {
    fn of(agent: &Result<AgentRecord, Failure>) -> Self {
        match agent {
            Ok(agent) => Self { state: agent.state, exit: agent.exit, cost: agent.cost },
            Err(_) => Self { state: AgentState::Failed, exit: None, cost: None },
        }
    }
}

/// Runs the check command on the side's files, with the base's tests in place of its own.
async fn by_base(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    check: &str,
    files: &[String],
    changed: &mut BTreeSet<String>,
) -> RaceCheck {
    let tests: Vec<String> = files.iter().filter(|file| is_test(file)).cloned().collect();
    changed.extend(tests.iter().cloned());
    let outcome =
        |ok: bool, detail: Option<String>| RaceCheck { name: check.to_owned(), ok, detail };
    let inside = match InRoom::of(&keepers.engine, &keepers.connections, sandbox).await {
        Ok(inside) => inside,
        Err(failure) => return outcome(false, Some(failure.in_a_line())),
    };
    // On a copy, so that the side stays as its agent left it.
    const SCRIPT: &str = "set -e; check=$1 base=$2; shift 2; copy=$(mktemp -d); trap 'rm -rf \"$copy\"' EXIT; \
        git archive HEAD | tar -x -C \"$copy\"; \
        for file do rm -rf \"$copy/$file\"; if git cat-file -e \"$base:$file\" 2>/dev/null; then \
        mkdir -p \"$(dirname -- \"$copy/$file\")\"; git show \"$base:$file\" > \"$copy/$file\"; \
        git ls-tree \"$base\" -- \"$file\" | grep -q ^100755 && chmod +x \"$copy/$file\"; fi; done; \
        if test -d node_modules && ! test -e \"$copy/node_modules\"; then ln -s \"$PWD/node_modules\" \"$copy/node_modules\"; fi; \
        cd \"$copy\" && exec sh -c \"$check\"";
    let mut arguments = vec![check, sandbox.base_commit.as_str()];
    arguments.extend(tests.iter().map(String::as_str));
    match prepare::shell(&inside, SCRIPT, &arguments, &[], CHECK).await {
        Ok(done) if prepare::is_done(&done) => outcome(true, None),
        Ok(done) => outcome(
            false,
            Some(match done.last_lines(3).join(" ") {
                last if last.trim().is_empty() => done.end.to_string(),
                last => format!("{}: {last}", done.end),
            }),
        ),
        Err(failure) => outcome(false, Some(failure.in_a_line())),
    }
}

/// Whether a file is a test.
fn is_test(path: &str) -> bool {
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    lower.split('/').any(|part| {
        matches!(part, "test" | "tests" | "__tests__" | "spec" | "specs" | "e2e" | "fixtures")
    }) || name.contains(".test.")
        || name.contains(".spec.")
        || name.starts_with("test_")
        || name.contains("_test.")
        || matches!(
            name,
            "conftest.py" | "hothouse.toml" | "jest.config.js" | "vitest.config.ts" | "pytest.ini"
        )
}

/// Summarizes the egress attempts of a side.
fn egress(keepers: &Keepers, sandbox: &SandboxRecord) -> RaceEgress {
    let Some(room) = &sandbox.room else { return RaceEgress::default() };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    let query = Query::parse("", Some(Kind::Connection)).expect("nothing is a query");
    let now = keepers.engine.now();
    let selection =
        Selection { query, since: None, now, limit: 10_000, direction: Direction::OldestFirst };
    let Ok(reader) = keepers.timelines.reader(&place) else { return RaceEgress::default() };
    let records = reader.records(&selection).unwrap_or_default();
    let mut found = RaceEgress::default();
    let mut hosts = BTreeSet::new();
    let mut counted = BTreeSet::new();
    for record in records {
        if !counted.insert(record.id.clone()) {
            continue;
        }
        match record.body["allowed"].as_bool() == Some(false) {
            true => found.denied += 1,
            false => found.allowed += 1,
        }
        hosts.extend(record.body["host"].as_str().map(str::to_owned));
    }
    found.hosts = hosts.into_iter().take(50).collect();
    found
}

/// Builds the comparison of the sides.
fn view(race: String, base: String, sides: Vec<RaceSide>) -> RaceView {
    let mut differences = Vec::new();
    if let Some((first, rest)) = sides.split_first() {
        for other in rest {
            let mut tell = |what: &str, left: serde_json::Value, right: serde_json::Value| {
                if left != right {
                    differences.push(json!({ "kind": "race", "what": format!("{what} ({} and {})", first.name, other.name), "left": left, "right": right }));
                }
            };
            tell("files", json!(first.diff.names), json!(other.diff.names));
            let held = |side: &RaceSide| {
                json!(
                    side.checks
                        .iter()
                        .map(|check| (check.name.clone(), check.ok))
                        .collect::<Vec<_>>()
                )
            };
            tell("checks", held(first), held(other));
            tell("changed checks", json!(first.changed_checks), json!(other.changed_checks));
            tell("hosts", json!(first.egress.hosts), json!(other.egress.hosts));
        }
    }
    RaceView { race, base, sides, differences, same: json!({}) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_judge_are_known() {
        for path in [
            "tests/a.rs",
            "src/a.test.ts",
            "test_a.py",
            "a_test.go",
            "web/__tests__/x.js",
            "hothouse.toml",
            "spec/a.rb",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in ["src/a.rs", "contest.py", "latest/x", "src/testing.rs"] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn usage_is_read_and_nonsense_is_none() {
        let stat = "1 (a) b) S 0 1 1 0 -1 0 0 0 0 0 100 50 200 150 20 0";
        let (cpu, memory) = read_usage(&format!("100\n4096\n{stat}\nrss 10\n"));
        assert_eq!((cpu, memory), (Some(5.0), Some(40960)));
        assert_eq!(read_usage("nonsense"), (None, None));
        assert_eq!(read_usage(""), (None, None));
    }
}
