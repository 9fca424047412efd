//! A room that exhausts its resources: other rooms, the daemon and stopping the room still work.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use hothouse_testkit::{TestEnv, is_running, skip, wait_until};

use crate::room::{room_pid, rooms_with};

/// The flood continues while its files are deleted, until its folder is gone.
const CLEAN_UP: &str = "until rm -r ~/many 2>/dev/null || [ ! -e ~/many ]; do :; done";

/// Starts a flood in room `a`, whose output nobody reads.
fn flood(env: &TestEnv, repository: &Path, words: &[&str]) -> Child {
    quiet(env.command(repository, &[&["exec", "-w", "a", "--"], words].concat())).spawn().unwrap()
}

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts the neighbour before the flood, and returns the daemon, which must be the same
/// afterwards.
fn neighbour(env: &TestEnv, repository: &Path) -> u32 {
    env.ok(repository, &["fork", "b"]);
    env.ok(repository, &["up", "-w", "b"]);
    env.daemon_pid().unwrap()
}

/// Checks that during the flood another room works, a new one can be started, and the daemon is the same.
fn others_work(env: &TestEnv, repository: &Path, daemon: u32) {
    for fresh in [&[][..], &["--fresh"]] {
        let words =
            [&["exec", "-w", "b"][..], fresh, &["--", "sh", "-c", "seq 1000 | wc -l"]].concat();
        let ran = env.run(repository, &words);
        assert_eq!(ran.stdout.trim(), "1000", "{ran}");
    }
    assert_eq!(env.json(repository, &["status", "-w", "b", "--json"])["state"], "ready");
    assert_eq!(env.daemon_pid(), Some(daemon), "the daemon did not die");
}

/// Checks that the flooding room stops on request, and works again afterwards.
fn it_ends(env: &TestEnv, repository: &Path, mut flood: Child) {
    env.ok(repository, &["down", "-w", "a"]);
    flood.wait().unwrap();
    env.ok(repository, &["up", "-w", "a"]);
    let ran = env.run(repository, &["exec", "-w", "a", "--", "echo", "again"]);
    assert_eq!(ran.stdout, "again\n", "{ran}");
}

#[test]
fn a_fork_bomb_leaves_the_others_working() {
    rooms_with("[room]\npids = 200\n", |env, repository| {
        let daemon = neighbour(env, repository);
        let bomb = "touch begun; b() { b | b & }; b; sleep 100";
        let bomb = flood(env, repository, &["sh", "-c", bomb]);
        wait_until("the bomb is off", || env.root().join("acme-sandboxes/a/begun").exists());
        others_work(env, repository, daemon);
        it_ends(env, repository, bomb);
    });
}

#[test]
fn a_memory_hog_is_killed_alone() {
    rooms_with("[room]\nmemory = \"128M\"\n", |env, repository| {
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        if status["fences"]["memory"].as_str().unwrap().starts_with("off") {
            let caveats = status["caveats"].to_string();
            assert!(caveats.contains("no-memory-cgroup"), "what is not limited is said: {caveats}");
            return skip("a memory hog", "a control group for memory that this user may write");
        }
        let daemon = neighbour(env, repository);
        let hog = "x=[]\nwhile True: x.append(bytearray(1<<20))";
        let hog = flood(env, repository, &["python3", "-c", hog]).wait_with_output().unwrap();
        assert_eq!(hog.status.code(), Some(137), "it was killed");
        let in_memory = "head -c 1G /dev/zero >/dev/shm/x; head -c 1G /dev/zero >/tmp/x";
        flood(env, repository, &["sh", "-c", in_memory]).wait().unwrap();
        others_work(env, repository, daemon);
        assert!(is_running(room_pid(env)), "the room itself lives on");
    });
}

#[test]
fn a_flood_of_descriptors_leaves_the_others_working() {
    rooms_with("[room]\npids = 400\n", |env, repository| {
        let daemon = neighbour(env, repository);
        // Files, pipes and sockets up to the limit of each of 20 processes, and as many connections
        // to room-init's own socket.
        let script = "
import os,socket,time
for _ in range(20):
    if os.fork()==0: break
keep=[]
def take(make):
    try:
        while len(keep)<6000: keep.append(make())
    except OSError: pass
def dial():
    s=socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect('/run/hothouse/sudo.sock'); return s
def some(): [keep.append(dial()) for _ in range(300)]
try: some()
except OSError: pass
take(os.pipe); take(lambda: socket.socketpair()); take(lambda: os.open('/dev/null',0))
del keep[-1:]; os.mkdir(f'full-{os.getpid()}')
time.sleep(100)
";
        let all = flood(env, repository, &["python3", "-c", script]);
        let worktree = env.root().join("acme-sandboxes/a");
        wait_until("most are full", || {
            let entries = fs::read_dir(&worktree).unwrap().flatten();
            entries.filter(|e| e.file_name().to_string_lossy().starts_with("full-")).count() >= 15
        });
        others_work(env, repository, daemon);
        let own = env.run(repository, &["exec", "-w", "a", "--", "echo", "still here"]);
        assert_eq!(own.stdout, "still here\n", "room-init has descriptors left: {own}");
        it_ends(env, repository, all);
    });
}

#[test]
fn a_flood_of_connections_leaves_the_others_working() {
    rooms_with("[room]\npids = 400\n", |env, repository| {
        let daemon = neighbour(env, repository);
        // They are silent, so each is kept until the wall's timeout.
        let script = "
import os,socket,time
for _ in range(9):
    if os.fork()==0: break
keep=[]
begun=False
while True:
    s=socket.socket(); s.setblocking(False); s.connect_ex(('1.2.3.4',80)); keep.append(s)
    if len(keep)<1800: continue
    if not begun: begun=True; os.mkdir(f'full-{os.getpid()}')
    keep.pop(0).close()
";
        let all = flood(env, repository, &["python3", "-c", script]);
        let worktree = env.root().join("acme-sandboxes/a");
        wait_until("all are full", || {
            let entries = fs::read_dir(&worktree).unwrap().flatten();
            entries.filter(|e| e.file_name().to_string_lossy().starts_with("full-")).count() >= 8
        });
        let ask = "
import urllib.request as u, urllib.error
try: u.urlopen('http://10.0.0.1/', timeout=20)
except urllib.error.HTTPError as error: print(error.code)
";
        for _ in 0..3 {
            let ran = env.run(repository, &["exec", "-w", "b", "--", "python3", "-c", ask]);
            assert_eq!(ran.stdout, "403\n", "the wall answers another room: {ran}");
        }
        others_work(env, repository, daemon);
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        assert!(status.to_string().contains("more open than its share"), "{status}");
        it_ends(env, repository, all);
        let lines = env.json(repository, &["egress", "log", "-w", "a", "--json"]);
        let over = lines.as_array().unwrap().iter().filter(|line| line["code"] == "over-budget");
        let over = over.count();
        assert!((1..100).contains(&over), "it is written down, and not each time: {over}");
    });
}

/// Starts to speak on every socket that a room has, and never continues: to `sudo`, to the API, to the proxy port, to
/// DNS, and to a host. Then prints how many of each are still open.
const UNFINISHED: &str = r#"
import os, socket, struct, time
held = {}
def begin(what, count, family, address, *words):
    held[what] = []
    for at in range(count):
        s = socket.socket(family); s.settimeout(10)
        try: s.connect(address); s.sendall(words[at % len(words)])
        except OSError: pass
        held[what].append(s)
head = b'POST /v1/exec HTTP/1.1\r\nHost: hothouse\r\nContent-Length: 1000\r\n'
hello = b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'
begin('sudo', 60, socket.AF_UNIX, '/run/hothouse/sudo.sock', b'\x10', struct.pack('<I', 1000), struct.pack('<IB', 1 << 20, 1), struct.pack('<IB', 100, 0) + b'{"Run":')
begin('api', 60, socket.AF_UNIX, '/run/hothouse/api.sock', b'G', head, head + b'\r\n{', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0')
begin('proxy', 60, socket.AF_INET, ('127.0.0.1', 15080), b'\x05', b'\x05\x01\0', b'\x05\x01\0\x05\x01\0\x03\xff', b'CONNECT a.exa', b'GET http://a.example/ HTTP/1.1\r\nHost')
begin('names', 60, socket.AF_INET, ('192.0.2.1', 53), b'\0', b'\x01\0', b'\0\x20' + bytes(31))
begin('hosts', 60, socket.AF_INET, ('192.0.2.1', 80), b'G', b'GET / HTTP/1.1\r\nHost: a', hello, b'SSH', b'\0')
open('begun', 'w').close()
def ended(s):
    try: return not s.recv(1000) or not s.recv(1000)
    except (BlockingIOError, TimeoutError): return False
    except OSError: return True
for what, all in held.items():
    for s in all: s.setblocking(False)
deadline = time.monotonic() + 45
while time.monotonic() < deadline:
    for what, all in held.items(): held[what] = [s for s in all if not ended(s)]
    if not any(held[what] for what in ['api', 'proxy', 'names', 'hosts']): break
    time.sleep(0.2)
print({what: len(all) for what, all in held.items() if what != 'sudo'})
"#;

#[test]
fn words_that_never_end_on_the_sockets_of_a_room_hold_nobody_up() {
    rooms_with("[egress]\nmode = \"open\"\n", |env, repository| {
        let daemon = neighbour(env, repository);
        let mut child = env
            .command(repository, &["exec", "-w", "a", "--", "python3", "-c", UNFINISHED])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let begun = env.root().join("acme-sandboxes/a/begun");
        wait_until("all have begun", || begun.exists() || child.try_wait().unwrap().is_some());
        others_work(env, repository, daemon);
        let since = std::time::Instant::now();
        let own = env.run(repository, &["exec", "-w", "a", "--", "echo", "still here"]);
        assert_eq!(own.stdout, "still here\n", "{own}");
        if !env.has_single_uid() {
            let root = env.run(repository, &["exec", "-w", "a", "--", "sudo", "id", "-u"]);
            assert_eq!(root.stdout, "0\n", "{root}");
        }
        // More calls than the API serves at once wait for the earlier ones.
        let inside = env.run(repository, &["exec", "-w", "a", "--", "hothouse", "status", "-q"]);
        assert_eq!(inside.code, 0, "{inside}");
        assert!(since.elapsed().as_secs() < 45, "{:?}", since.elapsed());
        let output = child.wait_with_output().unwrap();
        let left = String::from_utf8_lossy(&output.stdout).into_owned();
        // room-init waits for as long as the room likes, in bounded memory.
        assert_eq!(left, "{'api': 0, 'proxy': 0, 'names': 0, 'hosts': 0}\n");
        others_work(env, repository, daemon);
    });
}

#[test]
fn a_flood_of_inodes_ends_at_a_limit_and_pauses_the_room() {
    rooms_with("[room]\ndisk = \"32M\"\n", |env, repository| {
        let daemon = neighbour(env, repository);
        let in_memory = "
import errno,os
n=0
try:
    while n<400000: open(f'/tmp/{n}','w').close(); n+=1
except OSError as e: print(errno.errorcode[e.errno], n>1000)
";
        let ran = env.run(repository, &["exec", "-w", "a", "--", "python3", "-c", in_memory]);
        assert_eq!(ran.stdout, "ENOSPC True\n", "{ran}");
        others_work(env, repository, daemon);
        // On disk, too many files are as bad as files that are too large.
        let on_disk = "
import os,time
os.mkdir(os.path.expanduser('~/many'))
for n in range(12000): open(os.path.expanduser(f'~/many/{n}'),'w').close()
time.sleep(100)
";
        let mut all = flood(env, repository, &["python3", "-c", on_disk]);
        wait_until("the room is paused", || {
            env.json(repository, &["status", "-w", "a", "--json"])["state"] == "paused"
        });
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        let caveats = status["caveats"].as_array().unwrap();
        let why = caveats.iter().find(|caveat| caveat["area"] == "disk").expect("it says why");
        assert!(why["text"].as_str().unwrap().contains("of 32 MiB"), "{why}");
        assert!(status["fences"]["disk"].as_str().unwrap().starts_with("watched: "), "{status}");
        others_work(env, repository, daemon);
        // A way out: after a resume, there is some time in which files can be deleted.
        env.ok(repository, &["resume", "-w", "a"]);
        let clean = env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", CLEAN_UP]);
        assert_eq!(clean.code, 0, "{clean}");
        env.ok(repository, &["down", "-w", "a"]);
        all.wait().unwrap();
    });
}

/// Returns the helpers of a daemon that have a room's own files open.
fn walkers(daemon: u32, root: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_below = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|link| link.starts_with(root) && link.iter().any(|name| name == "layers"))
    };
    let own = fs::read_link(format!("/proc/{daemon}/exe")).unwrap();
    let is_own = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == own);
    pids.filter(|pid| *pid != daemon && is_own(pid) && is_below(pid)).collect()
}

#[test]
fn nobody_in_a_room_makes_control_groups() {
    // A user without a cgroup has none to check, and cannot create one either.
    let seen = std::cell::Cell::new(0);
    // The first room of a host: its helper has just created the base layer, with its own umask.
    rooms_with("", |env, repository| {
        let pid = room_pid(env);
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let own = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controller, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
            let top = Path::new("/sys/fs/cgroup").join(controller.trim_start_matches("name="));
            path.contains("hothouse/").then(|| top.join(path))
        });
        let own: Vec<_> = own.filter(|folder| folder.exists()).collect();
        seen.set(seen.get() + own.len());
        for folder in own {
            let mode = fs::metadata(&folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o022, 0, "{}: {mode:o}", folder.display());
        }
        let make =
            "for group in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $group/mine && echo made; done";
        let ran = env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", make]);
        assert!(!ran.stdout.contains("made"), "{ran}");
    });
    if seen.get() == 0 {
        skip("modes of control groups", "a control group that a user of the tests may write");
    }
}

#[test]
fn a_walk_over_a_room_ends_with_its_daemon() {
    rooms_with("[room]\ndisk = \"2G\"\n", |env, repository| {
        let daemon = neighbour(env, repository);
        // The home grows constantly, so that it is measured repeatedly.
        let grow = "
import os
home = os.path.expanduser('~/many')
os.mkdir(home)
for n in range(400):
    os.mkdir(f'{home}/{n}')
    for m in range(100): open(f'{home}/{n}/{m}', 'w').write('x' * 20000)
";
        let mut all = flood(env, repository, &["python3", "-c", grow]);
        let mut walker = None;
        wait_until("a helper measures the room", || {
            walker = walkers(daemon, env.root()).first().copied();
            let stop = |pid: u32| Command::new("kill").args(["-STOP", &pid.to_string()]).status();
            // If stopped here, it would stay forever unless something ends it.
            walker.is_some_and(|pid| stop(pid).unwrap().success())
        });
        env.kill_daemon();
        let walker = walker.unwrap();
        wait_until("the helper is gone", || !is_running(walker));
        env.ok(repository, &["down", "-w", "a"]);
        all.wait().unwrap();
    });
}

#[test]
fn a_flood_of_output_leaves_the_others_working_and_no_trace_in_memory() {
    rooms_with("", |env, repository| {
        let daemon = neighbour(env, repository);
        // One reader that reads, one that sleeps, one that is gone.
        let read = flood(env, repository, &["sh", "-c", "yes all the time"]);
        let mut unread = env.command(repository, &["exec", "-w", "a", "--", "yes", "unread"]);
        let mut unread = unread.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut gone = flood(env, repository, &["sh", "-c", "touch begun; yes gone"]);
        let begun = env.root().join("acme-sandboxes/a/begun");
        wait_until("it flows", || begun.exists());
        gone.kill().unwrap();
        gone.wait().unwrap();
        others_work(env, repository, daemon);
        let own = env.run(repository, &["exec", "-w", "a", "--", "echo", "between"]);
        assert_eq!(own.stdout, "between\n", "{own}");
        let kilobytes = memory_of(room_pid(env));
        assert!(kilobytes < 32 << 10, "room-init has {kilobytes} kB");
        it_ends(env, repository, read);
        unread.kill().unwrap();
        unread.wait().unwrap();
    });
}

/// Returns the resident memory of a process in kilobytes.
fn memory_of(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
