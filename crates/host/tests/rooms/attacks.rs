//! Real code in the room that tries to get out. A fence that is open fails the test by name.

use super::host::{Host, Room, host, hosts, program, ran};
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Stdio};

const SCRIPT: &str = include_str!("attack.py");

/// What the host exposes for the room to find.
struct Bait {
    facts: String,
    lonely: Child,
}

impl Drop for Bait {
    fn drop(&mut self) {
        self.lonely.kill().unwrap();
        self.lonely.wait().unwrap();
    }
}

fn bait(room: &Room, host: &Host) -> Bait {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            // A peer that is gone already is fine.
            let _ = peer.write_all(b"host service");
        }
    });
    let name = format!("hothouse-{}", room.worktree.display());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    std::thread::spawn(move || hidden.incoming().count());
    let lonely = program("sleep")
        .arg("1000")
        .env("SECRET_IN_ENV", "1")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let facts = serde_json::json!({
        "secret": room.worktree.parent().unwrap().join("host-secret"),
        "pid": lonely.id(),
        "comm": "sleep",
        "port": port,
        "abstract": name,
        "socket": room.worktree.join("host.sock"),
        "worktree": room.worktree,
        "mask": room.worktree.join(".env"),
        "single": host.mode == "single",
    });
    Bait { facts: facts.to_string(), lonely }
}

/// A room with bait in it, and a live socket of the host in its worktree.
fn tempting(host: &Host) -> (Room, UnixListener) {
    let room = host.prepare();
    room.host_shell(
        "echo topsecret > ../host-secret; chmod 644 ../host-secret; echo SECRET=1 > .env",
    );
    let path = room.worktree.join("host.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mask = room.worktree.join(".env").display().to_string();
    room.start(&["--mask", &mask]);
    (room, listener)
}

fn assault(user: &[&str], least: usize) {
    for host in hosts() {
        if user.contains(&"--root") && !host.has_root() {
            continue;
        }
        let (room, _listener) = tempting(&host);
        let bait = bait(&room, &host);
        let mut attack = room.roomctl("exec");
        attack.args(user).arg("--cwd").arg(&room.worktree).args([
            "--",
            "/usr/bin/python3",
            "-c",
            SCRIPT,
            &bait.facts,
        ]);
        let seen = ran(&mut attack);
        assert_eq!(seen.code, Some(0), "{}: the attack itself broke: {}", host.mode, seen.err);
        let open: Vec<&str> = seen.out.lines().filter(|line| line.starts_with("OPEN")).collect();
        let held = seen.out.lines().filter(|line| line.starts_with("held")).count();
        assert!(open.is_empty(), "{} {user:?}: {open:#?}", host.mode);
        assert!(held >= least, "{}: only {held} attempts", host.mode);
        assert_eq!(room.sh("echo alive").out, "alive\n");
    }
}

#[test]
fn no_attack_of_the_agent_gets_out() {
    assault(&[], 110);
}

#[test]
fn no_attack_of_the_rooms_root_gets_out() {
    assault(&["--root"], 110);
}

#[test]
fn the_bait_can_be_had_outside_a_room() {
    // The attacks above must be able to fail: without a room some of them succeed.
    let Some(host) = host("root") else { return };
    let (room, _listener) = tempting(&host);
    let bait = bait(&room, &host);
    let script = SCRIPT.split("# --- the kernel's knobs").next().unwrap();
    let script = script.split("# --- PID 1").next().unwrap().to_owned()
        + "\n# --- sockets"
        + script
            .split("# --- sockets")
            .nth(1)
            .unwrap()
            .split("@attempt(\"flush packet")
            .next()
            .unwrap();
    let seen = ran(program("/usr/bin/python3")
        .arg("-c")
        .arg(script)
        .arg(&bait.facts)
        .current_dir(&room.worktree));
    for name in ["host secret by path", "host loopback", "host abstract socket", "host path socket"]
    {
        assert!(
            seen.out.lines().any(|line| line.starts_with(&format!("OPEN {name}"))),
            "{name}: {seen:?}"
        );
    }
}

#[test]
fn rooms_do_not_see_each_other() {
    for host in hosts() {
        let (one, two) = (host.room(), host.room());
        let serve = "import socket\ns=socket.socket(); s.bind(('127.0.0.1',4000)); s.listen()\na=socket.socket(socket.AF_UNIX); a.bind('\\0other'); a.listen(); open('up','w')\nimport time; time.sleep(60)";
        ran(one
            .roomctl("exec")
            .args(["--detach", "--id", "s", "--cwd"])
            .arg(&one.worktree)
            .args(["--", "/usr/bin/python3", "-c", serve]));
        while one.host_shell("test -e up").code != Some(0) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let reach = "import socket\nfor f,a in ((socket.AF_INET,('127.0.0.1',4000)),(socket.AF_UNIX,'\\0other')):\n  try: socket.socket(f).connect(a); print('OPEN')\n  except ConnectionRefusedError: print('held')";
        assert_eq!(two.python(reach).out, "held\nheld\n");
        assert_eq!(one.python(reach).out, "OPEN\nOPEN\n");
        assert_ne!(two.exec(&["ls", one.worktree.to_str().unwrap()]).code, Some(0));
    }
}
