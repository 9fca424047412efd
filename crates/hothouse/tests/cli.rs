//! Tests of the real binary, used as a user would.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at once")]

#[path = "cli/agents.rs"]
mod agents;
#[path = "cli/applications.rs"]
mod applications;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/bite.rs"]
mod bite;
#[path = "cli/book.rs"]
mod book;
#[path = "cli/broken_output.rs"]
mod broken_output;
#[path = "cli/browse.rs"]
mod browse;
#[path = "cli/caches.rs"]
mod caches;
#[path = "cli/checkout.rs"]
mod checkout;
#[path = "cli/clients.rs"]
mod clients;
#[path = "cli/coding.rs"]
mod coding;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/crash.rs"]
mod crash;
#[path = "cli/crash_model.rs"]
mod crash_model;
#[path = "cli/daemon.rs"]
mod daemon;
#[path = "cli/dashboard.rs"]
mod dashboard;
#[path = "cli/dashboard_records.rs"]
mod dashboard_records;
#[path = "cli/dashboard_terminal.rs"]
mod dashboard_terminal;
#[path = "cli/deputy.rs"]
mod deputy;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/egress.rs"]
mod egress;
#[path = "cli/everyday.rs"]
mod everyday;
#[path = "cli/evidence.rs"]
mod evidence;
#[path = "cli/first_steps.rs"]
mod first_steps;
#[path = "cli/flood.rs"]
mod flood;
#[path = "cli/images.rs"]
mod images;
#[path = "cli/init.rs"]
mod init;
#[path = "cli/inside.rs"]
mod inside;
#[path = "cli/listed_clients.rs"]
mod listed_clients;
#[path = "cli/logins.rs"]
mod logins;
#[path = "cli/masks.rs"]
mod masks;
#[path = "cli/mocks.rs"]
mod mocks;
#[path = "cli/objects.rs"]
mod objects;
#[path = "cli/one_owner.rs"]
mod one_owner;
#[path = "cli/outbox.rs"]
mod outbox;
#[path = "cli/outputs.rs"]
mod outputs;
#[path = "cli/own_git.rs"]
mod own_git;
#[path = "cli/packages.rs"]
mod packages;
#[path = "cli/picker.rs"]
mod picker;
#[path = "cli/pool.rs"]
mod pool;
#[path = "cli/ports.rs"]
mod ports;
#[path = "cli/proof.rs"]
mod proof;
#[path = "cli/queues.rs"]
mod queues;
#[path = "cli/recordings.rs"]
mod recordings;
#[path = "cli/room.rs"]
mod room;
#[path = "cli/room_bad_input.rs"]
mod room_bad_input;
#[path = "cli/room_overlay.rs"]
mod room_overlay;
#[path = "cli/router.rs"]
mod router;
#[path = "cli/routes_told.rs"]
mod routes_told;
#[path = "cli/sandbox.rs"]
mod sandbox;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/seeds.rs"]
mod seeds;
#[path = "cli/services.rs"]
mod services;
#[path = "cli/shared_mounts.rs"]
mod shared_mounts;
#[path = "cli/side_by_side.rs"]
mod side_by_side;
#[path = "cli/sinks.rs"]
mod sinks;
#[path = "cli/sleep.rs"]
mod sleep;
#[path = "cli/snapshots.rs"]
mod snapshots;
#[path = "cli/stacks.rs"]
mod stacks;
#[path = "cli/streams.rs"]
mod streams;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/timeline.rs"]
mod timeline;
#[path = "cli/tools.rs"]
mod tools;
#[path = "cli/trash.rs"]
mod trash;
#[path = "cli/trust.rs"]
mod trust;
#[path = "cli/upgrade.rs"]
mod upgrade;
#[path = "cli/url.rs"]
mod url;
#[path = "cli/vendors.rs"]
mod vendors;
#[path = "cli/webhooks.rs"]
mod webhooks;
#[path = "cli/widgets.rs"]
mod widgets;
#[path = "cli/workspace.rs"]
mod workspace;

use hothouse_testkit::TestEnv;

fn surroundings() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_hothouse"))
}
