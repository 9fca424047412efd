//! Commands in a room.

use std::io::{Read, Write};

use hothouse_backend::{
    CallError, RoomCommand,
    connection::{
        Attached, CallRefusalKind, ExecId, ExecSpec, ExecStreams, Exit, RoomUser, Stdio, WindowSize,
    },
};
use hothouse_model::room::Capability;

use crate::{
    Case,
    ground::{Ground, Pipes, pipes},
};

pub(crate) const CASES: &[Case] = &[
    ("three_streams_and_an_end", three_streams_and_an_end),
    ("environment_and_folder_are_what_was_asked", environment_and_folder_are_what_was_asked),
    ("what_is_no_program_is_told", what_is_no_program_is_told),
    ("a_signal_reaches_the_whole_group", a_signal_reaches_the_whole_group),
    ("an_output_that_nobody_reads_ends_its_writer", an_output_that_nobody_reads_ends_its_writer),
    ("each_command_has_its_own_name", each_command_has_its_own_name),
    ("a_terminal_has_a_size", a_terminal_has_a_size),
    ("root_is_root_of_the_room", root_is_root_of_the_room),
    ("who_joins_sees_what_was_said", who_joins_sees_what_was_said),
    ("commands_of_our_own", commands_of_our_own),
];

const TERMINATE: i32 = 15;
const BROKEN_PIPE: i32 = 13;

fn three_streams_and_an_end(ground: &Ground) {
    let room = ground.room("a");
    let Pipes { mut stdin, mut stdout, mut stderr } =
        room.shell("cat", "cat; echo talk >&2; exit 7");
    stdin.write_all(b"a\0b\n").unwrap();
    drop(stdin);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    stdout.read_to_end(&mut out).unwrap();
    stderr.read_to_end(&mut err).unwrap();
    assert_eq!((&*out, &*err), (&b"a\0b\n"[..], &b"talk\n"[..]));
    assert_eq!(room.end_of("cat"), Exit::Code(7));
}

fn environment_and_folder_are_what_was_asked(ground: &Ground) {
    let room = ground.room("a");
    let (said, _) = room.say("env", "echo $GREETING; pwd; echo made >made");
    assert_eq!(said, format!("hello\n{}\n", room.order.worktree.display()));
    let made = hothouse_host::files::read_text(&room.order.worktree.join("made"));
    assert_eq!(made.unwrap(), "made\n", "the worktree is at the same path inside");
}

fn what_is_no_program_is_told(ground: &Ground) {
    let room = ground.room("a");
    ground.wait(room.connection.exec(room.spec("none", &["no-such-program"]))).unwrap();
    let end = room.end_of("none");
    assert!(matches!(end, Exit::NotStarted { code: 127, .. }), "{end:?}");
}

fn a_signal_reaches_the_whole_group(ground: &Ground) {
    let room = ground.room("a");
    // A shell that waits for a child, which also holds the pipe.
    let mut started = room.shell("sleep", "echo here; sleep 600; true");
    let mut here = [0; 5];
    started.stdout.read_exact(&mut here).unwrap();
    ground.wait(room.connection.signal(ExecId("sleep".into()), TERMINATE)).unwrap();
    assert_eq!(room.end_of("sleep"), Exit::Signal(TERMINATE));
    let mut rest = Vec::new();
    started.stdout.read_to_end(&mut rest).expect("nobody has the pipe any more");
}

fn an_output_that_nobody_reads_ends_its_writer(ground: &Ground) {
    let room = ground.room("a");
    let started = ground.wait(room.connection.exec(room.spec("yes", &["yes"])));
    let Pipes { stdin: _stdin, mut stdout, stderr: _stderr } = pipes(started.unwrap());
    let mut some = [0; 4];
    stdout.read_exact(&mut some).unwrap();
    assert_eq!(&some, b"y\ny\n");
    drop(stdout);
    ground.wait(room.connection.close_output(ExecId("yes".into()), 0)).unwrap();
    assert_eq!(room.end_of("yes"), Exit::Signal(BROKEN_PIPE));
}

fn each_command_has_its_own_name(ground: &Ground) {
    let room = ground.room("a");
    let _running = room.shell("one", "sleep 600");
    let second = ground.wait(room.connection.exec(room.spec("one", &["true"])));
    assert_eq!(refusal(second), CallRefusalKind::BadExec);
    let unknown = ground.wait(room.connection.wait(ExecId("two".into())));
    assert_eq!(refusal(unknown), CallRefusalKind::UnknownExec);
    let all = ground.wait(room.connection.execs()).unwrap();
    let all: Vec<_> = all.iter().map(|exec| (exec.id.0.as_str(), exec.exit.is_none())).collect();
    assert_eq!(all, [("one", true)]);
}

fn a_terminal_has_a_size(ground: &Ground) {
    let room = ground.room("a");
    let size = |rows, cols| WindowSize { rows, cols };
    let script = "stty size; read line; stty size";
    let spec = room.spec("terminal", &["sh", "-c", script]);
    let started =
        ground.wait(room.connection.exec(ExecSpec { stdio: Stdio::Pty(size(30, 100)), ..spec }));
    if !ground.has(Capability::Terminals) {
        refusal(started);
        return;
    }
    let ExecStreams::Terminal { input, output } = started.unwrap() else { panic!("no terminal") };
    let (mut input, mut output) = (std::fs::File::from(input), std::fs::File::from(output));
    let mut first = [0; 8];
    output.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"30 100\r\n");
    let id = || ExecId("terminal".into());
    assert_eq!(ground.wait(room.connection.size(id())).unwrap(), Some(size(30, 100)));
    ground.wait(room.connection.resize(id(), size(24, 80))).unwrap();
    // A client that connects later, such as the next daemon, sees the size too.
    let later = ground.wait(ground.found_again.connect(room.runtime())).unwrap();
    assert_eq!(ground.wait(later.size(id())).unwrap(), Some(size(24, 80)));
    input.write_all(b"\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).ok();
    assert!(rest.contains("24 80"), "{rest:?}");
}

fn root_is_root_of_the_room(ground: &Ground) {
    let room = ground.room("a");
    let spec = ExecSpec { user: RoomUser::Root, ..room.spec("id", &["id", "-u"]) };
    let started = ground.wait(room.connection.exec(spec));
    if !ground.has(Capability::Root) {
        assert_eq!(refusal(started), CallRefusalKind::NoRoot);
        return;
    }
    let mut said = String::new();
    pipes(started.unwrap()).stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "0\n");
}

fn who_joins_sees_what_was_said(ground: &Ground) {
    let room = ground.room("a");
    let mut first = room.shell("talk", "echo kept; sleep 600");
    let mut said = [0; 5];
    first.stdout.read_exact(&mut said).unwrap();
    let joined = ground.wait(room.connection.attach(ExecId("talk".into())));
    if !ground.has(Capability::Attach) {
        refusal(joined);
        return;
    }
    let Attached::Pipes { stdout, .. } = joined.unwrap() else { panic!("no pipes") };
    let mut again = [0; 5];
    std::fs::File::from(stdout).read_exact(&mut again).unwrap();
    assert_eq!((&said, &again), (b"kept\n", b"kept\n"));
}

fn commands_of_our_own(ground: &Ground) {
    let room = ground.room("a");
    let command = |words: &[&str]| RoomCommand {
        words: words.iter().map(Into::into).collect(),
        folder: room.order.worktree.clone(),
    };
    let ran =
        ground.rooms.run(room.runtime(), &command(&["sh", "-c", "echo done; exit 3"])).unwrap();
    assert_eq!((ran.code, &*ran.stdout), (Some(3), &b"done\n"[..]));
    let talk = ground.rooms.converse(room.runtime(), &command(&["cat"])).unwrap();
    let (mut to, mut from) = (std::fs::File::from(talk.to), std::fs::File::from(talk.from));
    to.write_all(b"word").unwrap();
    drop(to);
    let mut heard = String::new();
    from.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "word");
}

#[track_caller]
fn refusal<T>(asked: Result<T, CallError>) -> CallRefusalKind {
    match asked {
        Err(CallError::Refused(refusal)) => refusal.kind,
        Err(other) => panic!("lost: {other:?}"),
        Ok(_) => panic!("what the backend does not declare was done"),
    }
}
