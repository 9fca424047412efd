//! Jobs of queues, parsed from the output of a broker. All of it comes from the room: it is bounded, and never trusted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Word, words::word_type};

/// The maximum number of jobs listed.
pub const JOBS_LIMIT: usize = 2_000;

/// The maximum length of a job's text, in characters.
const TEXT_LIMIT: usize = 500;

word_type! {
    /// The state of a job.
    JobState {
        Waiting = "waiting",
        Active = "active",
        Delayed = "delayed",
        Paused = "paused",
        Completed = "completed",
        /// It is not retried automatically.
        Dead = "dead",
        /// A schedule that was run manually and failed.
        Failed = "failed",
    }
}

impl JobState {
    /// Returns whether it is not done yet.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Active | Self::Delayed)
    }

    /// Returns whether it failed for good.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Dead | Self::Failed)
    }
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub queue: String,
    pub id: String,
    pub name: String,
    pub state: Word<JobState>,
    pub attempts: u64,
    pub error: Option<String>,
}

impl Job {
    /// Returns whether it is not done yet.
    pub fn is_open(&self) -> bool {
        self.state.known().is_some_and(JobState::is_open)
    }
}

/// Parses a list of jobs as our scripts and projects' commands print it: an array of objects.
pub fn read_jobs(text: &str) -> Result<Vec<Job>, String> {
    let printed: Value = serde_json::from_str(text.trim()).map_err(|error| error.to_string())?;
    match printed {
        Value::Array(jobs) => Ok(jobs.iter().take(JOBS_LIMIT).map(|job| told(job, "")).collect()),
        // Lua encodes an empty table as an object.
        Value::Object(none) if none.is_empty() => Ok(Vec::new()),
        _ => Err("not a list of jobs".into()),
    }
}

fn told(job: &Value, queue: &str) -> Job {
    let named =
        |names: &[&str]| names.iter().map(|name| &job[*name]).find(|value| !value.is_null());
    let text = |names: &[&str]| named(names).map(plain).unwrap_or_default();
    let number = |names: &[&str]| named(names).and_then(as_number).unwrap_or(0);
    Job {
        queue: Some(text(&["queue"]))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| queue.to_owned()),
        id: text(&["id", "uuid", "jid"]),
        name: text(&["name", "task", "type", "class"]),
        state: Word::read(text(&["state", "status"])),
        attempts: number(&["attempts"]),
        error: Some(text(&["error", "last_error"])).filter(|text| !text.is_empty()),
    }
}

fn as_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn plain(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().filter(|c| !c.is_control() || *c == '\n').take(TEXT_LIMIT).collect()
}

/// Parses the rows of a library's job table, each as an object.
pub fn read_rows(table: &str, text: &str) -> Vec<Job> {
    let rows: Value = serde_json::from_str(text.trim()).unwrap_or_default();
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let read: fn(&Value) -> Option<Job> = match table {
        "pgboss.job" => pg_boss,
        "graphile_worker.jobs" => graphile,
        "public.jobs" => laravel,
        "public.failed_jobs" => laravel_failed,
        _ => return Vec::new(),
    };
    let job = |row: &Value| {
        let job = read(row)?;
        let is_delayed = row["_delayed"] == true && job.state == JobState::Waiting;
        Some(if is_delayed { Job { state: JobState::Delayed.into(), ..job } } else { job })
    };
    rows.iter().take(JOBS_LIMIT).filter_map(job).collect()
}

fn either<'a>(row: &'a Value, names: [&str; 2]) -> &'a Value {
    if row[names[0]].is_null() { &row[names[1]] } else { &row[names[0]] }
}

fn pg_boss(row: &Value) -> Option<Job> {
    let name = row["name"].as_str()?;
    // The library's own schedules.
    if name.starts_with("__pgboss__") {
        return None;
    }
    let state = match row["state"].as_str()? {
        "created" => JobState::Waiting.into(),
        "retry" => JobState::Delayed.into(),
        "failed" => JobState::Dead.into(),
        "cancelled" => JobState::Paused.into(),
        _ => Word::read(plain(&row["state"])),
    };
    let output = &row["output"];
    let error = output["message"]
        .as_str()
        .map(str::to_owned)
        .or_else(|| (!output.is_null()).then(|| plain(output)));
    Some(Job {
        queue: plain(&row["name"]),
        id: plain(&row["id"]),
        name: plain(&row["name"]),
        attempts: as_number(either(row, ["retry_count", "retrycount"])).unwrap_or(0),
        error: error.filter(|_| state == JobState::Dead || state == JobState::Delayed),
        state,
    })
}

fn graphile(row: &Value) -> Option<Job> {
    let (attempts, most) = (as_number(&row["attempts"])?, as_number(&row["max_attempts"])?);
    let state = match () {
        () if !row["locked_at"].is_null() => JobState::Active,
        () if attempts >= most => JobState::Dead,
        () if attempts > 0 => JobState::Delayed,
        () => JobState::Waiting,
    };
    let error = row["last_error"].as_str().map(|text| plain(&Value::String(text.into())));
    Some(Job {
        queue: row["queue_name"].as_str().unwrap_or("default").to_owned(),
        id: plain(&row["id"]),
        name: plain(&row["task_identifier"]),
        state: state.into(),
        attempts,
        error,
    })
}

fn laravel(row: &Value) -> Option<Job> {
    let payload: Value = serde_json::from_str(row["payload"].as_str()?).ok()?;
    let state = if row["reserved_at"].is_null() { JobState::Waiting } else { JobState::Active };
    Some(Job {
        queue: plain(&row["queue"]),
        id: plain(&row["id"]),
        name: plain(&payload["displayName"]),
        state: state.into(),
        attempts: as_number(&row["attempts"]).unwrap_or(0),
        error: None,
    })
}

fn laravel_failed(row: &Value) -> Option<Job> {
    let payload: Value = serde_json::from_str(row["payload"].as_str()?).ok()?;
    let error = row["exception"].as_str().and_then(|text| text.lines().next()).map(str::to_owned);
    Some(Job {
        queue: plain(&row["queue"]),
        id: plain(either(row, ["uuid", "id"])),
        name: plain(&payload["displayName"]),
        state: JobState::Dead.into(),
        attempts: 1,
        error,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_are_read_from_lists_of_scripts_and_projects() {
        let text = r#"[{"queue":"mail","id":7,"name":"send","state":"dead","attempts":"3","error":"a\u001b[31mb"},
            {"type":"x","status":"waiting"},{"id":"2","state":"snoozed"}]"#;
        let jobs = read_jobs(text).unwrap();
        assert_eq!(
            (jobs[0].id.as_str(), jobs[0].attempts, jobs[0].error.as_deref()),
            ("7", 3, Some("a[31mb"))
        );
        assert_eq!((jobs[1].name.as_str(), jobs[1].is_open()), ("x", true));
        // A state that only the project knows.
        assert_eq!((jobs[2].state.as_str(), jobs[2].is_open()), ("snoozed", false));
        assert!(read_jobs("{}").unwrap().is_empty());
        assert!(read_jobs("oops").is_err() && read_jobs("3").is_err());
        let many = json!(vec![json!({ "id": 1 }); 5_000]).to_string();
        assert_eq!(read_jobs(&many).unwrap().len(), JOBS_LIMIT);
    }

    #[test]
    fn rows_of_libraries_become_jobs_whatever_their_columns_are_called() {
        let rows = json!([
            { "id": "a", "name": "mail", "state": "failed", "retry_count": 2, "output": { "message": "boom" } },
            { "id": "b", "name": "mail", "state": "created", "retrycount": 0, "output": null },
            { "id": "c", "name": "__pgboss__maintenance", "state": "created" },
        ]);
        let jobs = read_rows("pgboss.job", &rows.to_string());
        let shown: Vec<_> = jobs
            .iter()
            .map(|job| (job.id.as_str(), job.state.as_str(), job.attempts, job.error.as_deref()))
            .collect();
        assert_eq!(shown, [("a", "dead", 2, Some("boom")), ("b", "waiting", 0, None)]);
        let rows = json!([{ "id": 1, "task_identifier": "t", "attempts": 25, "max_attempts": 25, "last_error": "e", "locked_at": null }]);
        assert_eq!(read_rows("graphile_worker.jobs", &rows.to_string())[0].state, JobState::Dead);
        let rows = json!([{ "id": 1, "queue": "default", "payload": "{\"displayName\":\"App\\\\Jobs\\\\Mail\"}", "attempts": 0, "reserved_at": null }]);
        assert_eq!(read_rows("public.jobs", &rows.to_string())[0].name, "App\\Jobs\\Mail");
        assert!(read_rows("other", "[]").is_empty());
    }
}
