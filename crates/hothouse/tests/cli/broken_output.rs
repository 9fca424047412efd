//! Output that cannot be written: a reader that has gone, a full disk.

use std::{
    fs::File,
    io::Read,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use hothouse_testkit::{TestEnv, wait_until};

use crate::room::{rooms, rooms_with};

/// Longer than any of these commands takes, shorter than a hang.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Waits for a process that must end by itself.
fn ends(mut command: Command, before: impl FnOnce(&mut std::process::Child)) -> ExitStatus {
    let mut child = command.spawn().unwrap();
    before(&mut child);
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > AT_ONCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads a few bytes of the output, then closes it.
fn cut_short(mut command: Command) -> (ExitStatus, String) {
    let mut said = String::new();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut errors = None;
    let status = ends(command, |child| {
        let mut some = [0; 2];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        errors = child.stderr.take();
    });
    errors.unwrap().read_to_string(&mut said).unwrap();
    (status, said)
}

/// Writes to a disk that is full.
fn full(mut command: Command) -> (ExitStatus, String) {
    let mut said = String::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    command.stdout(full).stderr(Stdio::piped());
    let mut errors = None;
    let status = ends(command, |child| errors = child.stderr.take());
    errors.unwrap().read_to_string(&mut said).unwrap();
    (status, said)
}

fn nothing_runs(env: &TestEnv, folder: &Path, name: &str) {
    wait_until("the command has ended", || {
        let words = ["exec", "-w", "a", "--", "sh", "-c", "cat /proc/[0-9]*/comm"];
        !env.ok(folder, &words).lines().any(|line| line == name)
    });
}

#[test]
fn a_command_ends_when_its_reader_has_gone() {
    rooms(|env, repository| {
        let (status, said) = cut_short(env.command(repository, &["exec", "-w", "a", "--", "yes"]));
        assert_eq!((status.code(), &*said), (Some(141), ""));
        nothing_runs(env, repository, "yes");
        // A command that ignores the signal gets the error.
        let stubborn = "trap '' PIPE; while echo again 2>/dev/null; do :; done; exit 3";
        let words = ["exec", "-w", "a", "--", "sh", "-c", stubborn];
        let (status, said) = cut_short(env.command(repository, &words));
        assert_eq!((status.code(), &*said), (Some(3), ""));
        // The other output stays open, and the command continues.
        let talk = "yes; echo still here >&2; exit 4";
        let words = ["exec", "-w", "a", "--", "sh", "-c", talk];
        let (status, said) = cut_short(env.command(repository, &words));
        assert_eq!((status.code(), &*said), (Some(4), "still here\n"));
        // The same for standard error.
        let mut errors =
            env.command(repository, &["exec", "-w", "a", "--", "sh", "-c", "exec yes >&2"]);
        errors.stdout(Stdio::null()).stderr(Stdio::piped());
        let status = ends(errors, |child| {
            child.stderr.take().unwrap().read_exact(&mut [0; 2]).unwrap();
        });
        assert_eq!(status.code(), Some(141));
        nothing_runs(env, repository, "yes");
    });
}

#[test]
fn commands_side_by_side_end_when_their_reader_has_gone() {
    rooms(|env, repository| {
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        let words = ["exec", "-w", "a", "-w", "b", "--", "yes"];
        let (status, said) = cut_short(env.command(repository, &words));
        assert_eq!((status.code(), &*said), (Some(141), ""));
        let (status, said) = full(env.command(repository, &words));
        assert_eq!(status.code(), Some(6), "{said}");
        assert_eq!(said.matches("No space left").count(), 1, "{said}");
        nothing_runs(env, repository, "yes");
    });
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    rooms(|env, repository| {
        let endless = "echo once; exec sleep 1234";
        for line in ["echo once", "yes", endless] {
            let words = ["exec", "-w", "a", "--", "sh", "-c", line];
            let (status, said) = full(env.command(repository, &words));
            assert_eq!(status.code(), Some(6), "{line}: {said}");
            assert_eq!(said.matches("error:").count(), 1, "{line}: {said}");
            assert!(said.contains("standard output") && said.contains("No space left"), "{said}");
        }
        nothing_runs(env, repository, "sleep");
        nothing_runs(env, repository, "yes");
        let (status, said) = full(env.command(repository, &["list"]));
        assert_eq!(status.code(), Some(6), "{said}");
    });
}

#[test]
fn logs_that_are_followed_end_when_their_reader_has_gone() {
    let config = "[service.talker]\nrun = \"sh -c 'while :; do echo tick; sleep 0.05; done'\"\n";
    rooms_with(config, |env, repository| {
        let (status, said) = cut_short(env.command(repository, &["logs", "-f", "-w", "a"]));
        assert_eq!((status.code(), &*said), (Some(141), ""));
        let (status, said) = full(env.command(repository, &["logs", "-f", "-w", "a"]));
        assert_eq!(status.code(), Some(6), "{said}");
        assert!(said.contains("No space left"), "{said}");
    });
}
