//! Schedules that a project declares: in its config, crontabs, `vercel.json`, GitHub workflows. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A scheduled command or call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub name: String,
    /// As written, such as `0 3 * * *`.
    pub schedule: String,
    /// The file and line, or `config`.
    pub source: String,
    pub work: ScheduledWork,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduledWork {
    /// A shell command.
    Command(String),
    /// A path of the app to call.
    Call(String),
}

/// The maximum number of schedules read from one file.
const MOST: usize = 200;

/// Reads the schedules of a file, whose name tells its format; none for other files.
pub fn read_file(path: &str, text: &str) -> Vec<Schedule> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_workflow = path.starts_with(".github/workflows/")
        && (name.ends_with(".yml") || name.ends_with(".yaml"));
    let mut all = match name {
        "vercel.json" => vercel(path, text),
        _ if is_workflow => github(path, text),
        _ if is_crontab(path) => crontab(path, text),
        _ => Vec::new(),
    };
    all.truncate(MOST);
    all
}

/// Returns whether a file may have schedules.
pub fn is_schedule_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "vercel.json" || path.starts_with(".github/workflows/") || is_crontab(path)
}

fn is_crontab(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "crontab"
        || name.ends_with(".crontab")
        || name.ends_with(".cron")
        || path.contains("cron.d/")
}

/// Makes a name out of a text: lower-case letters and digits, with a dash for anything else.
fn name_of(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(60).collect()
}

fn crontab(path: &str, text: &str) -> Vec<Schedule> {
    let has_user = path.contains("cron.d/");
    let mut all: Vec<Schedule> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty()
            || line.starts_with('#')
            || line.split(['=', ' ']).next().is_some_and(|w| line.starts_with(&format!("{w}=")))
        {
            continue;
        }
        let fields = if line.starts_with('@') { 1 } else { 5 };
        let words: Vec<&str> = line.split_whitespace().collect();
        let skipped = fields + usize::from(has_user);
        if words.len() <= skipped {
            continue;
        }
        let command = words[skipped..].join(" ");
        let program = words[skipped..]
            .iter()
            .find(|word| word.contains(['/', '.']) && !word.starts_with('-'));
        let told = program.map_or(command.as_str(), |word| word.rsplit('/').next().unwrap_or(word));
        let told = told.split('.').next().unwrap_or(told);
        all.push(Schedule {
            name: unique(&name_of(told), &all),
            schedule: words[..fields].join(" "),
            source: format!("{path}:{}", number + 1),
            work: ScheduledWork::Command(command),
        });
    }
    all
}

fn unique(name: &str, known: &[Schedule]) -> String {
    let taken = |name: &str| known.iter().any(|one| one.name == name);
    match taken(name) {
        false => name.to_owned(),
        true => (2..).map(|n| format!("{name}-{n}")).find(|name| !taken(name)).unwrap_or_default(),
    }
}

fn vercel(path: &str, text: &str) -> Vec<Schedule> {
    let tree: Value = serde_json::from_str(text).unwrap_or_default();
    let mut all: Vec<Schedule> = Vec::new();
    for cron in tree["crons"].as_array().into_iter().flatten() {
        let (Some(called), Some(schedule)) = (cron["path"].as_str(), cron["schedule"].as_str())
        else {
            continue;
        };
        if !called.starts_with('/') || called.chars().any(char::is_whitespace) {
            continue;
        }
        let last = called
            .split(['?', '#'])
            .next()
            .unwrap_or(called)
            .rsplit('/')
            .next()
            .unwrap_or_default();
        all.push(Schedule {
            name: unique(&name_of(last), &all),
            schedule: schedule.to_owned(),
            source: path.to_owned(),
            work: ScheduledWork::Call(called.to_owned()),
        });
    }
    all
}

/// Reads a GitHub workflow with a schedule: the commands of its `run` steps; steps with `uses` are left out.
fn github(path: &str, text: &str) -> Vec<Schedule> {
    let lines: Vec<&str> = text.lines().collect();
    let crons = lines.iter().filter_map(|line| line.trim().strip_prefix("- cron:"));
    let crons: Vec<&str> = crons.map(plain).filter(|cron| !cron.is_empty()).collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let indent = line.len() - line.trim_start().len();
        let step = line.trim().trim_start_matches("- ");
        at += 1;
        let Some(run) = step.strip_prefix("run:") else { continue };
        match run.trim() {
            "|" | ">" | "|-" | ">-" => {
                // The first line sets the indentation; what the others have beyond it is their own, as in here-documents.
                let mut margin = None;
                while at < lines.len() {
                    let inner = lines[at].trim_end();
                    let depth = inner.len() - inner.trim_start().len();
                    if !inner.is_empty() && depth <= indent {
                        break;
                    }
                    let margin = *margin.get_or_insert(depth);
                    commands.push(inner.get(margin..).unwrap_or(inner.trim_start()).to_owned());
                    at += 1;
                }
            }
            run => commands.push(run.to_owned()),
        }
    }
    let file = path.rsplit('/').next().unwrap_or(path);
    let command =
        commands.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    if command.is_empty() {
        return Vec::new();
    }
    let name = name_of(file.split('.').next().unwrap_or(file));
    let mut all: Vec<Schedule> = Vec::new();
    for cron in crons {
        all.push(Schedule {
            name: unique(&name, &all),
            schedule: cron.to_owned(),
            source: path.to_owned(),
            work: ScheduledWork::Command(format!("set -e\n{command}")),
        });
    }
    all
}

/// Returns a scalar of YAML without its quotes, or without the comment after it.
fn plain(text: &str) -> &str {
    let text = text.trim();
    let quoted =
        ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.split(quote).next());
    quoted.unwrap_or_else(|| text.split(" #").next().unwrap_or(text)).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_found_in_files_of_several_kinds() {
        let text = "# nightly\nMAILTO=x@example.com\n0 3 * * * node scripts/settle.mjs --all\n@daily /usr/bin/true\nbroken line\n0 4 * * * node scripts/settle.mjs\n";
        let found = read_file("ops/crontab", text);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.schedule.as_str(), one.source.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("settle", "0 3 * * *", "ops/crontab:3"),
                ("true", "@daily", "ops/crontab:4"),
                ("settle-2", "0 4 * * *", "ops/crontab:6")
            ]
        );
        assert_eq!(found[0].work, ScheduledWork::Command("node scripts/settle.mjs --all".into()));
        let vercel = r#"{"crons": [{"path": "/api/cron/nightly?x=1", "schedule": "0 5 * * *"}, {"path": "no"}]}"#;
        let found = read_file("apps/web/vercel.json", vercel);
        assert_eq!((found[0].name.as_str(), found.len()), ("nightly", 1));
        assert_eq!(found[0].work, ScheduledWork::Call("/api/cron/nightly?x=1".into()));
        let workflow = "on:\n  schedule:\n    - cron: '0 6 * * 1' # Mondays\n    - cron: 0 7 1 * * # monthly\njobs:\n  a:\n    steps:\n      - uses: actions/checkout@v4\n      - run: npm ci\n      - name: x\n        run: |\n          cat <<E > f\n            two  \n          E\n          node b.js\n      - uses: x/y@v1\n";
        let found = read_file(".github/workflows/weekly-report.yml", workflow);
        assert_eq!(
            found[0].work,
            ScheduledWork::Command("set -e\nnpm ci\ncat <<E > f\n  two\nE\nnode b.js".into())
        );
        assert_eq!(
            (found[0].name.as_str(), found[0].schedule.as_str()),
            ("weekly-report", "0 6 * * 1")
        );
        assert_eq!(
            (found[1].name.as_str(), found[1].schedule.as_str()),
            ("weekly-report-2", "0 7 1 * *")
        );
        assert!(
            read_file("README.md", text).is_empty() && read_file("vercel.json", "oops").is_empty()
        );
    }
}
