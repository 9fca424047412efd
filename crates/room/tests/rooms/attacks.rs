//! Real code in the room that tries to get out. An open fence fails the test by name, and so does
//! an attempt that was refused for a reason other than the expected one.

use super::host::{Host, Room, host, hosts, is_root, program, ran};
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Stdio};

const SCRIPT: &str = include_str!("attack.py");

/// What the host exposes for the room to find.
struct Bait {
    facts: serde_json::Value,
    lonely: Child,
    socket: std::path::PathBuf,
}

impl Drop for Bait {
    fn drop(&mut self) {
        self.lonely.kill().unwrap();
        self.lonely.wait().unwrap();
        hothouse_host::files::remove_file(&self.socket).unwrap();
    }
}

fn bait(room: &Room, host: &Host) -> Bait {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            // The peer may already have disconnected.
            let _ = peer.write_all(b"host service");
        }
    });
    let name = format!("hothouse-{}", room.worktree.display());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    std::thread::spawn(move || hidden.incoming().count());
    let socket = host_socket(room);
    let service = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || service.incoming().count());
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
        "sockets": [host_socket(room)],
        "control": false,
        "worktree": room.worktree,
        "mask": room.worktree.join(".env"),
        "single": host.mode == "single",
    });
    Bait { facts, lonely, socket }
}

/// Returns a socket where host services have theirs; the room's own `/run` hides it.
fn host_socket(room: &Room) -> std::path::PathBuf {
    let name = room.state.file_name().unwrap().to_str().unwrap();
    let folder = if is_root() { "/run" } else { "/tmp" };
    std::path::Path::new(folder).join(format!("hothouse-{}-{name}.sock", room.host.mode))
}

/// Creates a room with bait, and a live host socket in its worktree.
fn tempting(host: &Host) -> (Room, Option<UnixListener>) {
    let room = host.prepare();
    room.host_shell(
        "echo topsecret > ../host-secret; chmod 644 ../host-secret; echo SECRET=1 > .env",
    );
    let path = room.worktree.join("host.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let owner = std::fs::metadata(&room.worktree).unwrap().uid();
    std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mask = room.worktree.join(".env").display().to_string();
    if host.mode == "single" {
        let refused = room.try_start(&["--mask", &mask]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && said.contains("a program of the host listens"),
            "{said}"
        );
        // Its file remains, but nothing listens on it.
        drop(listener);
        room.start(&["--mask", &mask]);
        return (room, None);
    }
    room.start(&["--mask", &mask]);
    let mode = std::fs::metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o777, 0o700, "{}: it is closed to others", host.mode);
    (room, Some(listener))
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
            &bait.facts.to_string(),
        ]);
        let seen = ran(&mut attack);
        assert_eq!(seen.code, Some(0), "{}: the attack itself broke: {}", host.mode, seen.err);
        let open: Vec<&str> = seen.out.lines().filter(|line| !line.starts_with("held ")).collect();
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
fn the_same_attempts_succeed_outside_a_room() {
    // As root in temporary namespaces, so that nothing on the host is changed.
    let Some(host) = host("root") else { return };
    let (room, _listener) = tempting(&host);
    let mut bait = bait(&room, &host);
    bait.facts["control"] = true.into();
    let mut outside = program("unshare");
    outside.args(["--mount", "--net", "--uts", "--ipc", "--", "/usr/bin/python3", "-c", SCRIPT]);
    outside.arg(bait.facts.to_string()).env("SECRET_IN_ENV", "1").current_dir(&room.worktree);
    let seen = ran(&mut outside);
    assert_eq!(seen.code, Some(0), "the control itself broke: {}", seen.err);
    let shut: Vec<&str> = seen.out.lines().filter(|line| !line.starts_with("OPEN ")).collect();
    assert!(shut.is_empty(), "these prove nothing: {shut:#?}");
    assert!(seen.out.lines().count() >= 55, "{}", seen.out.lines().count());
}

#[test]
fn the_hosts_loopback_and_abstract_sockets_answer_outside_a_room() {
    let Some(host) = host("root") else { return };
    let (room, _listener) = tempting(&host);
    let bait = bait(&room, &host);
    let reach = "
import json,socket,sys
facts=json.loads(sys.argv[1])
print(socket.create_connection(('127.0.0.1',facts['port'])).recv(99).decode())
s=socket.socket(socket.AF_UNIX); s.connect('\\0'+facts['abstract']); print('abstract')
";
    let mut outside = program("/usr/bin/python3");
    let seen = ran(outside.arg("-c").arg(reach).arg(bait.facts.to_string()));
    assert_eq!(seen.out, "host service\nabstract\n", "{}", seen.err);
}

#[test]
fn what_its_caller_had_open_is_closed_in_a_room() {
    for host in hosts() {
        let room = host.prepare();
        let secret = room.worktree.parent().unwrap().join("host-secret");
        room.host_shell("echo topsecret > ../host-secret");
        let (roomctl, state, worktree) =
            (room.host.roomctl_path(), room.state.display(), room.worktree.display());
        let held = format!("exec 7<{}", secret.display());
        let started = room.host_shell(&format!("{held}; {roomctl} start {state} {worktree}"));
        assert_eq!(started.code, Some(0), "{}", started.err);
        let look = "import os; print([os.readlink(f'/proc/{p}/fd/{f}') for p in os.listdir('/proc') if p.isdigit() and p!='1' for f in os.listdir(f'/proc/{p}/fd') if os.path.exists(f'/proc/{p}/fd/{f}')])";
        let seen = room.host_shell(&format!(
            "{held}; cat <&7; {roomctl} exec {state} -- /usr/bin/python3 -c \"{look}\""
        ));
        assert!(seen.out.starts_with("topsecret\n["), "it was open outside: {seen:?}");
        assert!(!seen.out.contains("host-secret"), "{}: {}", host.mode, seen.out);
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
