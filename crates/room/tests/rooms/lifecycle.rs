//! Rooms outlive their clients.

use super::host::{hosts, ran};
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_continues_when_its_client_is_killed_and_the_next_client_learns_its_end() {
    for host in hosts() {
        let room = host.room();
        let mut client = room
            .roomctl("exec")
            .args(["--id", "long", "--cwd"])
            .arg(&room.worktree)
            .args([
                "--",
                "sh",
                "-c",
                "echo begun; until [ -e go ]; do sleep 0.02; done; echo ended; exit 42",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("the command", || ran(&mut room.roomctl("list")).out.contains("long"));
        // runuser does not forward SIGKILL, so the client's children are killed too. (In root mode
        // there are none, and this finds nothing.)
        ran(super::host::program("pkill").args(["-KILL", "-P", &client.id().to_string()]));
        client.kill().unwrap();
        client.wait().unwrap();
        room.sh("touch go");
        assert_eq!(ran(room.roomctl("wait").arg("long")).code, Some(42));
        let attached = ran(room.roomctl("attach").arg("long"));
        assert_eq!(
            (attached.code, attached.out.as_str()),
            (Some(42), "begun\nended\n"),
            "{}",
            attached.err
        );
    }
}

#[test]
fn attach_gives_the_last_megabyte_and_then_what_follows() {
    for host in hosts() {
        let room = host.room();
        let script = "import sys,os,time\nsys.stdout.write('A'*2000000+'B'*1000)\nsys.stdout.flush()\nopen('written','w')\n\
            while not os.path.exists('go'): time.sleep(0.02)\nprint('END')";
        let started = ran(room
            .roomctl("exec")
            .args(["--detach", "--id", "big", "--cwd"])
            .arg(&room.worktree)
            .args(["--", "/usr/bin/python3", "-c", script]));
        assert_eq!(started.code, Some(0), "{}", started.err);
        until("the output", || room.sh("test -e written").code == Some(0));
        let attached = room
            .roomctl("attach")
            .arg("big")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        room.sh("touch go");
        let output = attached.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.ends_with("BEND\n"));
        assert!((1 << 20..(1 << 20) + 200_000).contains(&text.len()), "{} bytes", text.len());
    }
}

#[test]
fn a_flood_arrives_whole_through_every_pipe() {
    for host in hosts() {
        let room = host.room();
        let roomctl = room.host.roomctl_path();
        let counted = room.host_shell(&format!(
            "head -c 50000000 /dev/urandom > ../flood; md5sum < ../flood; cat ../flood | {roomctl} exec {} -- cat | md5sum; rm ../flood",
            room.state.display()
        ));
        let sums: Vec<&str> = counted.out.lines().collect();
        assert!(sums.len() == 2 && sums[0] == sums[1], "{counted:?}");
    }
}

#[test]
fn a_paused_room_stands_still_and_continues() {
    for host in hosts() {
        let room = host.room();
        let (pause, go_on) =
            if host.mode == "root" { ("freeze", "thaw") } else { ("suspend", "resume") };
        ran(room
            .roomctl("exec")
            .args(["--detach", "--id", "tick", "--cwd"])
            .arg(&room.worktree)
            .args(["--", "sh", "-c", "while :; do echo x >> ticks; sleep 0.01; done"]));
        let ticks = || room.host_shell("wc -l < ticks").out.trim().parse::<u32>().unwrap_or(0);
        until("ticks", || ticks() > 3);
        assert_eq!(ran(&mut room.roomctl(pause)).code, Some(0));
        let before = ticks();
        std::thread::sleep(Duration::from_millis(300));
        assert!(ticks() <= before + 1);
        assert_eq!(
            ran(&mut room.roomctl("status")).code,
            Some(0),
            "room-init answers while paused"
        );
        assert_eq!(ran(&mut room.roomctl(go_on)).code, Some(0));
        until("more ticks", || ticks() > before + 3);
    }
}

#[test]
fn a_room_that_ends_leaves_nothing_behind() {
    for host in hosts() {
        let room = host.room();
        ran(room.roomctl("exec").args([
            "--detach",
            "--id",
            "deaf",
            "--",
            "sh",
            "-c",
            "trap '' TERM; while :; do sleep 1; done",
        ]));
        assert_eq!(ran(&mut room.roomctl("identity")).code, Some(0));
        let started = Instant::now();
        room.stop();
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(ran(&mut room.roomctl("identity")).code, Some(1));
        assert!(!room.state.join("runtime/control.sock").exists());
        assert_eq!(ran(&mut room.roomctl("remove")).code, Some(0));
        assert!(!room.state.join("storage").exists());
        let state: serde_json::Value = serde_json::from_str(
            &room.host_shell(&format!("cat {}/room.json", room.state.display())).out,
        )
        .unwrap();
        for folder in state["groups"]["folders"].as_array().unwrap() {
            assert!(!std::path::Path::new(folder.as_str().unwrap()).exists(), "{folder}");
        }
    }
}

/// Leaves a process behind that splices from a silent socket into the command's output. It thereby
/// holds the lock of the pipe that room-init reads when the command has ended.
const HOLD: &str = "
import ctypes,os,socket,time
a,b=socket.socketpair()
child=os.fork()
if child==0:
    os.setsid()
    ctypes.CDLL(None).splice(a.fileno(),None,1,None,4096,0)
    os._exit(0)
SPLICE='275 '
while not open(f'/proc/{child}/syscall').read().startswith(SPLICE): time.sleep(0.01)
open('holding','w').close()
";

#[test]
fn a_command_that_holds_its_own_output_does_not_hold_the_room() {
    for host in hosts() {
        let room = host.room();
        let hold = room
            .roomctl("exec")
            .args(["--detach", "--id", "hold", "--cwd"])
            .arg(&room.worktree)
            .args(["--", "/usr/bin/python3", "-c", HOLD])
            .status();
        assert!(hold.unwrap().success());
        until("the pipe is held", || room.host_shell("test -e holding").code == Some(0));
        // A request for the exit makes room-init read the pipe.
        let mut waits = room.roomctl("wait").arg("hold").spawn().unwrap();
        until("room-init is free again", || waits.try_wait().unwrap().is_some());
        assert_eq!(room.sh("echo alive").out, "alive\n", "{}", host.mode);
        let mut stuck = room.roomctl("wait").arg("hold").spawn().unwrap();
        let begun = Instant::now();
        room.stop();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(ran(&mut room.roomctl("identity")).code, Some(1));
        stuck.wait().unwrap();
    }
}

#[test]
fn shutdown_is_polite_first() {
    for host in hosts() {
        let room = host.room();
        ran(room
            .roomctl("exec")
            .args(["--detach", "--id", "kind", "--cwd"])
            .arg(&room.worktree)
            .args([
                "--",
                "sh",
                "-c",
                "trap 'echo bye > farewell; exit 0' TERM; touch up; while :; do sleep 0.05; done",
            ]));
        until("the command", || room.host_shell("test -e up").code == Some(0));
        assert_eq!(ran(&mut room.roomctl("shutdown")).code, Some(0));
        assert_eq!(room.host_shell("cat farewell").out, "bye\n");
        until("the end", || ran(&mut room.roomctl("identity")).code == Some(1));
    }
}

#[test]
fn a_stranger_without_the_token_is_turned_away() {
    for host in hosts() {
        let room = host.room();
        let script = format!(
            "import socket,os\nd={:?}\ns=socket.socket(socket.AF_UNIX); s.connect(d+'/control.sock'); s.sendall(b'\\x24\\0\\0\\0\\0\\x01\\0\\x01\\x20'+b'x'*32)\n\
             r=s.recv(100); r2=s.recv(100); print(b'wrong token' in r, r2==b'')\n\
             s=socket.socket(socket.AF_UNIX); s.connect(d+'/control.sock'); s.sendall(os.urandom(4096)); print(len(s.recv(100)) < 100)",
            room.state.join("runtime")
        );
        let seen = ran(host.command("/usr/bin/python3").arg("-c").arg(&script));
        assert!(seen.out.starts_with("True True\n"), "{seen:?}");
        assert_eq!(room.sh("echo still").out, "still\n");
    }
}
