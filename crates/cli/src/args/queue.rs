//! Queues and schedules.

use clap::Subcommand;

use super::Which;

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List jobs: those that wait, run, are delayed, or are dead
    ///
    /// Finds the queues of BullMQ, RQ, Celery, Sidekiq, Resque, Laravel, pg-boss and Graphile Worker in the
    /// sandbox's Redis and PostgreSQL, and those that hothouse.toml declares.
    #[command(
        after_help = "Examples:\n  hothouse queue list\n  hothouse queue list -w agent-a --json"
    )]
    List {
        #[command(flatten)]
        which: Which,
    },
    /// Let delayed jobs be due now, and wait until nothing waits or runs
    ///
    /// The app's own workers do the jobs. Exits with 1 at the timeout; prints what is left, dead jobs included.
    #[command(
        after_help = "Examples:\n  hothouse queue drain\n  hothouse queue drain -w agent-a --timeout 2m"
    )]
    Drain {
        /// How long to wait [default: 1m]
        #[arg(long, value_name = "DURATION")]
        timeout: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Put a dead job back into its queue
    #[command(
        after_help = "Examples:\n  hothouse queue retry 42\n  hothouse queue retry 42 -w agent-a"
    )]
    Retry {
        /// The id of the job
        id: String,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// List schedules: of hothouse.toml, crontabs, vercel.json and GitHub workflows
    #[command(after_help = "Examples:\n  hothouse cron list\n  hothouse cron list -w agent-a")]
    List {
        #[command(flatten)]
        which: Which,
    },
    /// Run a schedule once, now
    ///
    /// Exits with 1 if it fails. Of a GitHub workflow the `run` steps are run, without the actions between them.
    #[command(
        after_help = "Examples:\n  hothouse cron run nightly-settlement\n  hothouse cron run nightly-settlement -w agent-a"
    )]
    Run {
        /// The name, as `cron list` shows it
        name: String,
        #[command(flatten)]
        which: Which,
    },
}
