//! The jobs that are left in queues.

use hothouse_model::{
    config::QueueExpectation,
    queue::{Job, JobState},
};
use serde::{Deserialize, Serialize};

use super::{Check, Observed, at_most, cut};

/// Stands for all queues.
const ALL: &str = "*";

/// The state of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSeen {
    pub name: String,
    /// Jobs that are waiting, delayed or running.
    pub open: u64,
    /// Jobs that failed for good, and the reason of the first one.
    pub dead: u64,
    pub error: Option<String>,
}

impl QueueSeen {
    /// Counts the jobs of each queue, sorted by name.
    pub fn of(jobs: &[Job]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for job in jobs {
            let at = all.iter().position(|queue| queue.name == job.queue).unwrap_or_else(|| {
                all.push(Self { name: job.queue.clone(), ..Self::default() });
                all.len() - 1
            });
            let queue = &mut all[at];
            queue.open += u64::from(job.is_open());
            if job.state == JobState::Dead {
                queue.dead += 1;
                queue.error = queue.error.take().or_else(|| job.error.clone());
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

pub(super) fn check(wanted: &QueueExpectation, observed: &Observed<'_>) -> Check {
    let name = wanted.name.as_str();
    let own = observed.queues.iter().filter(|queue| name == ALL || queue.name == name);
    let own: Vec<&QueueSeen> = own.collect();
    let sum = |of: fn(&QueueSeen) -> u64| own.iter().map(|queue| of(queue)).sum::<u64>();
    let (open, dead) = (sum(|queue| queue.open), sum(|queue| queue.dead));
    let (most_open, most_dead) = (wanted.open.unwrap_or(0), wanted.dead.unwrap_or(0));
    let ok = open <= u64::from(most_open) && dead <= u64::from(most_dead);
    let error = own.iter().find_map(|queue| queue.error.as_deref());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    Check {
        kind: "queue".into(),
        query: name.to_owned(),
        wanted: format!("{} open, {} dead", at_most(most_open), at_most(most_dead)),
        ok,
        found: open + dead,
        seen: cut(&match (open, dead) {
            (0, 0) => "nothing is left".to_owned(),
            _ => format!("{open} open, {dead} dead{error}"),
        }),
        more: (!ok).then(|| "hothouse queue list".to_owned()),
        ..Check::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(queue: &str, state: JobState) -> Job {
        let error = (state == JobState::Dead).then(|| "no such user".to_owned());
        Job { queue: queue.into(), state: state.into(), error, ..Job::default() }
    }

    #[test]
    fn a_queue_may_have_so_much_left() {
        let seen = QueueSeen::of(&[
            job("mail", JobState::Completed),
            job("mail", JobState::Dead),
            job("bills", JobState::Waiting),
            job("bills", JobState::Delayed),
        ]);
        for (wanted, ok, told) in [
            (serde_json::json!({ "name": "mail" }), false, "0 open, 1 dead: no such user"),
            (
                serde_json::json!({ "name": "mail", "dead": 1 }),
                true,
                "0 open, 1 dead: no such user",
            ),
            (serde_json::json!({ "name": "bills", "open": 1 }), false, "2 open, 0 dead"),
            (serde_json::json!({ "name": "other" }), true, "nothing is left"),
            (serde_json::json!({ "name": "*", "open": 9 }), false, "2 open, 1 dead: no such user"),
        ] {
            let wanted: QueueExpectation = serde_json::from_value(wanted).unwrap();
            let observed = Observed {
                records: &[],
                page: None,
                rows: &[],
                queues: &seen,
                services: &[],
                run: "run_1",
                mark: 0,
            };
            let check = check(&wanted, &observed);
            assert_eq!((check.ok, check.seen.as_str()), (ok, told), "{wanted:?}");
        }
    }
}
