//! The rounds of a loop: what each one changed, and whether another follows.

use std::{sync::Arc, time::Duration};

use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    SandboxRecord,
    agent::{LoopSpec, RoundRecord},
    id::fnv1a,
};

use super::{Agents, Kept, follow::Ended, prepare};
use crate::in_room::InRoom;

/// How many similar rounds in a row mean that the agent is stuck.
pub(super) const ALIKE: usize = 3;

/// The first delay after a rate limit, in seconds.
const PAUSE: u64 = 30;

/// The maximum delay.
const LONGEST: u64 = 15 * 60;

/// The time limit of a loop's check.
const CHECK: Duration = Duration::from_secs(15 * 60);

const STEP: Duration = Duration::from_secs(120);

const GREEN: &str = "the check holds";
const DONE: &str = "the file that says so is there";

/// What follows a round.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Stop, with a reason if there is one besides the exit.
    End(Option<String>),
    Round {
        wait: Duration,
        /// Digests of what this round changed and how it failed.
        trace: (String, String),
    },
}

/// Whether a loop that ended for this reason succeeded.
pub(super) fn is_success(reason: &str) -> bool {
    reason == GREEN || reason == DONE
}

/// The inputs of the decision after a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) round: u32,
    pub(super) seconds: u64,
    pub(super) cost: Option<f64>,
    pub(super) green: Option<bool>,
    pub(super) done: bool,
    pub(super) limited: bool,
    /// How many rate limits in a row came before.
    pub(super) limits: u32,
    pub(super) late: bool,
    pub(super) trace: (String, String),
    pub(super) traces: Vec<(String, String)>,
    pub(super) failed: bool,
}

/// Decides whether another round follows. Pure.
pub(super) fn decide(spec: &LoopSpec, facts: &Facts) -> Next {
    let end = |why: &str| Next::End(Some(why.to_owned()));
    if facts.green == Some(true) {
        return end(GREEN);
    }
    if facts.done {
        return end(DONE);
    }
    if facts.late || spec.seconds.is_some_and(|most| facts.seconds >= most) {
        return end("its time was up");
    }
    if facts.round >= spec.rounds.max(1) {
        return end(&match facts.round {
            1 => "the only round is done".to_owned(),
            rounds => format!("{rounds} rounds are done"),
        });
    }
    if let (Some(most), Some(cost)) = (spec.cost, facts.cost)
        && cost >= most
    {
        return end(&format!("it has cost ${cost:.2} of ${most:.2}"));
    }
    if facts.limited {
        let first = spec.pause.unwrap_or(PAUSE);
        let wait = first.saturating_mul(1 << facts.limits.min(16)).min(LONGEST);
        return Next::Round { wait: Duration::from_secs(wait), trace: facts.trace.clone() };
    }
    let alike = facts.traces.iter().rev().take(ALIKE - 1);
    let before: Vec<_> = alike.collect();
    let same_change = before.iter().all(|one| one.0 == facts.trace.0);
    let same_error = facts.failed && before.iter().all(|one| one.1 == facts.trace.1);
    if before.len() == ALIKE - 1 && (same_change || same_error) {
        let what = match facts.trace.0.is_empty() {
            _ if same_error => "failed in the same way",
            true => "changed nothing",
            false => "made the same change",
        };
        return end(&format!("it is stuck: {ALIKE} rounds {what}"));
    }
    Next::Round { wait: Duration::ZERO, trace: facts.trace.clone() }
}

/// Commits what a round changed, checks it, and decides what follows.
pub(super) async fn after(
    agents: &Arc<Agents>,
    sandbox: &SandboxRecord,
    kept: &Kept,
    spec: &LoopSpec,
    ended: &Ended,
) -> Next {
    let inside = match InRoom::of(&agents.with.engine, &agents.with.connections, sandbox).await {
        Ok(inside) => inside,
        Err(failure) => return Next::End(Some(failure.message)),
    };
    let record = &kept.record;
    let change = commit(&inside, record.round, &record.tool).await;
    let green = match &spec.check {
        Some(check) => Some(holds(&inside, check).await),
        None => None,
    };
    let done = match &spec.done_file {
        Some(file) => ran(&inside, "test -e \"$1\"", &[file.as_str()]).await.is_some(),
        None => false,
    };
    let begun = record.rounds.iter().map(|round| round.seconds).sum::<f64>();
    let all = HostClock.now().duration_since(record.started).as_secs_f64();
    let seconds = (all - begun).max(0.0);
    let round = RoundRecord {
        round: record.round,
        started: HostClock.now()
            - jiff::SignedDuration::try_from_secs_f64(seconds).unwrap_or_default(),
        seconds,
        exit: ended.code,
        commit: change.commit.clone(),
        files: change.files,
        added: change.added,
        removed: change.removed,
        green,
    };
    let limits = if ended.told.limited { kept.limited + 1 } else { 0 };
    let changed = agents.change(sandbox, |kept| {
        kept.count_cost(round.round, ended.told.cost);
        kept.record.rounds.push(round);
        kept.limited = limits;
        kept.record.model = ended.told.model.clone().or_else(|| kept.record.model.clone());
    });
    let facts = Facts {
        round: record.round,
        seconds: u64::try_from(HostClock.now().duration_since(record.started).as_secs())
            .unwrap_or_default(),
        cost: changed.and_then(|kept| kept.record.cost),
        green,
        done,
        limited: ended.told.limited,
        limits: kept.limited,
        late: ended.late,
        trace: (change.digest, digest(&ended.told.last.join("\n"))),
        traces: kept.traces.clone(),
        failed: ended.code != 0,
    };
    decide(spec, &facts)
}

/// Whether a command in the room exits with 0.
async fn holds(inside: &InRoom, check: &str) -> bool {
    let done = prepare::shell(inside, check, &[], &[], CHECK).await;
    done.is_ok_and(|done| prepare::is_done(&done))
}

/// Returns the output of a command, if it succeeded.
async fn ran(inside: &InRoom, script: &str, arguments: &[&str]) -> Option<String> {
    let done = prepare::shell(inside, script, arguments, &[], STEP).await.ok()?;
    prepare::is_done(&done).then(|| done.stdout.text())
}

/// What a round changed.
#[derive(Debug, Default)]
struct Changed {
    commit: Option<String>,
    files: u64,
    added: u64,
    removed: u64,
    digest: String,
}

/// Commits the uncommitted changes of a round, with the room's git, as the agent.
async fn commit(inside: &InRoom, round: u32, tool: &str) -> Changed {
    const SCRIPT: &str = "before=$(git rev-parse -q --verify refs/hothouse/round || git rev-parse HEAD); \
        git add -A && { git diff --cached --quiet || git commit -q --no-verify -m \"$1\"; }; \
        git update-ref refs/hothouse/round HEAD; \
        if test \"$before\" != \"$(git rev-parse HEAD)\"; then git rev-parse HEAD; git diff --numstat \"$before\" HEAD; \
        echo; git diff \"$before\" HEAD | git hash-object --stdin; fi";
    let name: String = tool.split_whitespace().next().unwrap_or("agent").chars().take(40).collect();
    let message = format!("{name}: round {round}");
    let Some(text) = ran(inside, SCRIPT, &[message.as_str()]).await else {
        return Changed::default();
    };
    read_change(&text)
}

/// Parses the script's output: the commit, lines of numbers, an empty line, a digest.
fn read_change(text: &str) -> Changed {
    let mut lines = text.lines();
    let Some(commit) = lines.next().filter(|line| line.len() >= 40) else {
        return Changed::default();
    };
    let mut changed =
        Changed { commit: Some(commit.chars().take(64).collect()), ..Changed::default() };
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let mut numbers = line.split('\t').map(|number| number.parse::<u64>().unwrap_or_default());
        changed.files += 1;
        changed.added += numbers.next().unwrap_or_default();
        changed.removed += numbers.next().unwrap_or_default();
    }
    changed.digest = lines.next().unwrap_or_default().chars().take(64).collect();
    changed
}

fn digest(text: &str) -> String {
    format!("{:016x}", fnv1a(&[text.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { round: 1, trace: ("a".into(), "x".into()), ..Facts::default() }
    }

    #[test]
    fn a_loop_ends_for_each_of_its_reasons() {
        let spec =
            LoopSpec { rounds: 5, seconds: Some(60), cost: Some(1.0), ..LoopSpec::default() };
        let cases = [
            (Facts { green: Some(true), ..facts() }, GREEN),
            (Facts { done: true, ..facts() }, DONE),
            (Facts { seconds: 60, ..facts() }, "its time was up"),
            (Facts { late: true, ..facts() }, "its time was up"),
            (Facts { round: 5, ..facts() }, "5 rounds are done"),
            (Facts { cost: Some(1.5), ..facts() }, "it has cost $1.50 of $1.00"),
            (
                Facts {
                    traces: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
                    ..facts()
                },
                "it is stuck: 3 rounds made the same change",
            ),
            (
                Facts {
                    trace: (String::new(), "x".into()),
                    traces: vec![(String::new(), "1".into()), (String::new(), "2".into())],
                    ..facts()
                },
                "it is stuck: 3 rounds changed nothing",
            ),
            (
                Facts {
                    failed: true,
                    traces: vec![("b".into(), "x".into()), ("c".into(), "x".into())],
                    ..facts()
                },
                "it is stuck: 3 rounds failed in the same way",
            ),
        ];
        for (facts, why) in cases {
            assert_eq!(decide(&spec, &facts), Next::End(Some(why.to_owned())));
        }
        for why in [GREEN, DONE] {
            assert!(is_success(why));
        }
    }

    #[test]
    fn a_rate_limit_is_waited_for_twice_as_long_each_time() {
        let spec = LoopSpec { rounds: 99, ..LoopSpec::default() };
        for (limits, want) in [(0, 30), (1, 60), (2, 120), (40, LONGEST)] {
            let facts = Facts { limited: true, limits, ..facts() };
            let Next::Round { wait, .. } = decide(&spec, &facts) else { panic!("it goes on") };
            assert_eq!(wait.as_secs(), want);
        }
    }

    #[test]
    fn a_round_that_did_something_new_is_followed_by_another() {
        let spec = LoopSpec { rounds: 99, ..LoopSpec::default() };
        let facts =
            Facts { traces: vec![("b".into(), "x".into()), ("a".into(), "x".into())], ..facts() };
        assert!(matches!(decide(&spec, &facts), Next::Round { wait: Duration::ZERO, .. }));
    }

    #[test]
    fn what_a_round_changed_is_read() {
        let text = format!("{}\n3\t1\ta.rs\n-\t-\tb.png\n\nabc\n", "f".repeat(40));
        let changed = read_change(&text);
        assert_eq!(
            (changed.files, changed.added, changed.removed, changed.digest.as_str()),
            (2, 3, 1, "abc")
        );
        assert_eq!(read_change("").commit, None);
    }
}
