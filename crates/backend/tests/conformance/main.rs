//! One suite for all backends, written only against the traits. A backend must refuse what it does
//! not declare. *To add a backend:* add a line to [`BACKENDS`].
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops at once, a harness prints"
)]

mod commands;
mod ground;
mod lifecycle;
mod network;
mod services;

use std::{env, panic::catch_unwind, process::ExitCode};

use hothouse_room::{LAUNCHER_ARGUMENT, room_launcher_main};

use self::ground::Ground;

/// A case: its name and what it does.
type Case = (&'static str, fn(&Ground));

/// Creates rooms of a backend, or returns why that is not possible here.
type Making = fn() -> Result<Ground, String>;

const BACKENDS: [(&str, Making); 2] = [("fake", || Ok(Ground::fake())), ("native", Ground::native)];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == LAUNCHER_ARGUMENT) {
        return room_launcher_main();
    }
    let has = |word: &str| words.iter().any(|known| known == word);
    if has("--list") {
        // nextest requests ignored tests; there are none.
        all().filter(|_| !has("--ignored")).for_each(|(name, ..)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| {
        let fits = |filter: &&String| {
            if has("--exact") { name == **filter } else { name.contains(filter.as_str()) }
        };
        filters.is_empty() || filters.iter().any(fits)
    };
    let mut code = ExitCode::SUCCESS;
    for (name, make, case) in all().filter(|(name, ..)| wanted(name)) {
        let passed = catch_unwind(|| run(&name, make, case)).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn all() -> impl Iterator<Item = (String, Making, fn(&Ground))> {
    let cases = [lifecycle::CASES, commands::CASES, network::CASES, services::CASES];
    let cases = cases.into_iter().flatten();
    cases.flat_map(|(case, run)| {
        BACKENDS.map(|(backend, make)| (format!("{backend}::{case}"), make, *run))
    })
}

fn run(name: &str, make: Making, case: fn(&Ground)) {
    match make() {
        Ok(ground) => case(&ground),
        Err(missing) => hothouse_testkit::skip(name, &missing),
    }
}
