//! What is done to the project itself: generated files and benchmarks.

mod bench;
mod generate;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["generate"] => generate::write(),
        ["generate", "--check"] => generate::check(),
        ["bench", "--binary", binary, ref names @ ..] => bench::run(binary.as_ref(), names),
        _ => {
            Err("usage: xtask generate [--check] | bench --binary PATH [cli] [fork] [room]".into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            bench::print(&format!("xtask: {message}"));
            ExitCode::FAILURE
        }
    }
}
