//! The wire contract: requests to the daemon, its answers, and a client.
//!
//! HTTP/1.1 with JSON over a unix socket. Shapes here are API: `schema/openapi.json` is generated
//! from them and checked in.

pub mod ask;
pub mod browse;
pub mod client;
pub mod daemon;
pub mod doctor;
pub mod egress;
pub mod error;
pub mod exec;
pub mod flag;
pub mod handshake;
pub mod integration;
pub mod log;
pub mod operation;
pub mod pool;
pub mod port;
pub mod proof;
pub mod routes;
pub mod sandbox;
pub mod secret;
pub mod seed;
pub mod service;
pub mod timeline;
pub mod ui;
pub mod webhook;
pub mod workspace;

pub use client::{Client, ClientError};
pub use daemon::{DaemonView, RoomsView};
pub use error::ErrorBody;
pub use handshake::Build;
pub use operation::OperationView;
pub use pool::PoolView;
pub use sandbox::SandboxView;

/// The routes, one constant each, so that daemon and client cannot disagree.
pub mod route {
    pub const DAEMON: &str = "/v1/daemon";
    pub const DAEMON_STOP: &str = "/v1/daemon/stop";
    pub const SANDBOXES: &str = "/v1/sandboxes";
    pub const SANDBOX_FIND: &str = "/v1/sandboxes/find";
    pub const SANDBOX_UP: &str = "/v1/sandboxes/up";
    pub const SANDBOX_DOWN: &str = "/v1/sandboxes/down";
    pub const SANDBOX_PAUSE: &str = "/v1/sandboxes/pause";
    pub const SANDBOX_RESUME: &str = "/v1/sandboxes/resume";
    pub const SANDBOX_DELETE: &str = "/v1/sandboxes/delete";
    pub const SERVICE_ACT: &str = "/v1/services/act";
    pub const SERVICE_COMMAND: &str = "/v1/services/command";
    pub const ASKS: &str = "/v1/asks";
    pub const ASKS_ANSWER: &str = "/v1/asks/answer";
    pub const LOGS: &str = "/v1/logs";
    pub const SANDBOX_ADOPT: &str = "/v1/sandboxes/adopt";
    pub const SANDBOX_DIFF: &str = "/v1/sandboxes/diff";
    pub const SANDBOX_LOG: &str = "/v1/sandboxes/log";
    pub const SANDBOX_PROMOTE: &str = "/v1/sandboxes/promote";
    pub const SANDBOX_PROMOTE_GRANTS: &str = "/v1/sandboxes/promote/grants";
    pub const SIZES: &str = "/v1/sizes";
    pub const CLEAN: &str = "/v1/clean";
    pub const RUNS: &str = "/v1/runs";
    pub const SNAPSHOTS: &str = "/v1/snapshots";
    pub const SNAPSHOT_RESTORE: &str = "/v1/snapshots/restore";
    pub const SNAPSHOT_FORGET: &str = "/v1/snapshots/forget";
    pub const PORTS: &str = "/v1/ports";
    pub const PORTS_RELEASE: &str = "/v1/ports/release";
    pub const PORTS_EXPOSE: &str = "/v1/ports/expose";
    pub const CERTIFICATE_AUTHORITY: &str = "/v1/authority";
    pub const UI_LINK: &str = "/v1/ui";
    pub const EGRESS: &str = "/v1/egress";
    pub const EGRESS_WHY: &str = "/v1/egress/why";
    pub const EGRESS_LEARN: &str = "/v1/egress/learn";
    pub const EGRESS_ALLOW: &str = "/v1/egress/allow";
    pub const CONFIG_PENDING: &str = "/v1/config/pending";
    pub const CONFIG_APPROVE: &str = "/v1/config/approve";
    pub const SECRETS: &str = "/v1/secrets";
    pub const SECRETS_REMOVE: &str = "/v1/secrets/remove";
    pub const TIMELINE: &str = "/v1/timeline";
    pub const TIMELINE_MARK: &str = "/v1/timeline/mark";
    pub const TIMELINE_WAIT: &str = "/v1/timeline/wait";
    pub const TIMELINE_SINCE: &str = "/v1/timeline/since";
    pub const TIMELINE_VERIFY: &str = "/v1/timeline/verify";
    pub const VERIFY_FOLDER: &str = "/v1/verify";
    pub const SCENARIOS: &str = "/v1/scenarios";
    pub const SMOKE: &str = "/v1/smoke";
    pub const PROVE: &str = "/v1/prove";
    pub const COMPARE: &str = "/v1/compare";
    pub const SUMMARY: &str = "/v1/summary";
    pub const ARTIFACTS: &str = "/v1/artifacts";
    pub const INTEGRATIONS: &str = "/v1/integrations";
    pub const TIMELINE_REQUEST: &str = "/v1/timeline/request";
    pub const TIMELINE_ARCHIVE: &str = "/v1/timeline/archive";
    pub const FLAGS: &str = "/v1/flags";
    pub const BROWSE: &str = "/v1/browse";
    pub const AUTH_LINK: &str = "/v1/auth/link";
    pub const WEBHOOKS: &str = "/v1/webhooks";
    pub const ROUTES: &str = "/v1/routes";
    pub const SEEDS: &str = "/v1/seeds";
    pub const NUKE: &str = "/v1/nuke";
    pub const POOLS: &str = "/v1/pools";
    pub const OPERATION: &str = "/v1/operations/{id}";
    pub const EVENTS: &str = "/v1/events";
    pub const DOCTOR: &str = "/v1/doctor";
    pub const DOCTOR_FIX: &str = "/v1/doctor/fix";
}
