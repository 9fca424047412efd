//! Tasks of the project itself: generated files, the book, borders, words, dependencies, benchmarks, releases, and
//! crashes.

mod bench;
mod book;
mod borders;
mod crash;
mod crates;
mod flows;
mod generate;
mod markup;
mod pure;
mod release;
mod security;
mod words;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["generate"] => generate::write(),
        ["generate", "--check"] => generate::check(),
        ["borders"] => borders::check()
            .and_then(|()| borders::check_unsafe())
            .and_then(|()| borders::check_tasks())
            .and_then(|()| pure::check()),
        ["words"] => words::check(),
        ["markup"] => markup::check(),
        ["flows"] => flows::check(),
        ["book"] => book::check().and_then(|()| security::check()),
        ["book", "--into", folder] => book::check().and_then(|()| book::assemble(folder.as_ref())),
        ["dependencies"] => crates::check_dependencies(),
        ["graph"] => crates::document().map(|text| bench::print(&text)),
        ["bench", "--binary", binary, "--against", revision, before, ref names @ ..] => {
            bench::run_against(binary.as_ref(), revision, before.as_ref(), names)
        }
        ["bench", "--binary", binary, "--write", ref names @ ..] => {
            bench::run_and_write(binary.as_ref(), names)
        }
        ["bench", "--binary", binary, "--json", ref names @ ..] => {
            bench::run_as_json(binary.as_ref(), names)
        }
        ["bench", "--binary", binary, ref names @ ..] => bench::run(binary.as_ref(), names),
        // Run in a room by the sinks benchmark.
        ["load", ref words @ ..] => bench::sinks::load::run(words),
        ["release", "--binary", binary, "--into", folder] => {
            release::run(binary.as_ref(), folder.as_ref())
        }
        ["crash", ref words @ ..] => crash::run(words),
        _ => Err("usage: xtask generate [--check] | borders | words | markup | flows | book [--into FOLDER] | dependencies | graph | bench --binary PATH [--against REV PATH | --write | --json] [NAME…] | release --binary PATH --into FOLDER | crash --binary PATH [--rounds N] [--seed S] [--tree D] [--user] [--without FAULT,…]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            bench::print(&format!("xtask: {message}"));
            ExitCode::FAILURE
        }
    }
}
