//! A room that exhausts its resources does not affect others.

use super::host::{Room, host, hosts};

/// Asserts that a neighbour still works, and so does the room itself.
fn others_work(neighbour: &Room) {
    assert_eq!(neighbour.sh("seq 3 | wc -l").out, "3\n");
}

#[test]
fn a_fork_bomb_ends_at_its_limit() {
    for host in hosts() {
        let (room, neighbour) = (host.room_with(&["--pids", "64"]), host.room());
        let script = "
import os,time
n=0
try:
    while n<400:
        if os.fork()==0: time.sleep(30); os._exit(0)
        n+=1
except OSError as e: print('stopped', e.errno)
print(n, flush=True)
";
        let seen = room.python(script);
        assert!(seen.out.starts_with("stopped 11\n"), "{}: {seen:?}", host.mode);
        let forks: u32 = seen.out.lines().nth(1).unwrap().parse().unwrap();
        assert!((40..=64).contains(&forks), "{}: {forks}", host.mode);
        others_work(&neighbour);
    }
}

#[test]
fn a_memory_hog_is_killed_alone_where_memory_can_be_limited() {
    for host in hosts() {
        let started = host.prepare();
        let text = started.start(&["--memory", "100000000"]);
        if host.mode != "root" {
            assert!(text.contains("unlimited"), "a limit that is not kept is a caveat: {text}");
            hothouse_testkit::skip(
                "a memory hog",
                "a control group for memory that this user may write",
            );
            continue;
        }
        let neighbour = host.room();
        assert_eq!(started.python("x = bytearray(400 << 20); print(len(x))").code, Some(137));
        let shm = started.sh("head -c 300000000 /dev/zero > /dev/shm/x; ls -l /dev/shm");
        assert!(!shm.out.contains("300000000"), "{shm:?}");
        others_work(&neighbour);
        assert_eq!(started.sh("rm -f /dev/shm/x; echo alive").out, "alive\n");
    }
}

#[test]
fn half_a_core_is_half_a_core() {
    let Some(host) = host("root") else { return };
    let room = host.room_with(&["--cpus", "0.5"]);
    let script = "import time\nw=time.time(); c=time.process_time()\nwhile time.time()-w<2: pass\nprint((time.process_time()-c)/(time.time()-w))";
    let share: f64 = room.python(script).out.trim().parse().unwrap();
    assert!(share < 0.6, "{share}");
}

#[test]
fn floods_of_descriptors_inodes_and_output_stay_in_the_room() {
    for host in hosts() {
        let (room, neighbour) = (host.room(), host.room());
        let script = "
import os,socket
fds=[]
try:
    while len(fds)<200000: fds.append(os.open('/dev/null',os.O_RDONLY))
except OSError as e: print('descriptors', e.errno, flush=True)
for fd in fds: os.close(fd)
";
        assert_eq!(room.python(script).out, "descriptors 24\n");
        let inodes = "
import os
os.mkdir('/run/user') if os.access('/run',os.W_OK) else None
n=0
try:
    while n<40000: open(f'/tmp/{n}','w').close(); n+=1
except OSError: pass
print('made', n>1000)
";
        assert_eq!(room.python(inodes).out, "made True\n");
        let flood = room.sh("yes | head -c 200000000 | tail -c 10");
        assert_eq!(flood.out, "y\ny\ny\ny\ny\n");
        others_work(&neighbour);
        others_work(&room);
    }
}

#[test]
fn one_room_cannot_take_all_inotify_instances() {
    for host in hosts() {
        let (room, neighbour) = (host.room(), host.room());
        let take = "
import ctypes,sys,time
libc=ctypes.CDLL(None); n=0
while libc.inotify_init()>=0: n+=1
print(n,flush=True)
if len(sys.argv)>1: open('taken','w').close(); time.sleep(60)
";
        let hog = room
            .roomctl("exec")
            .args(["--detach", "--id", "hog", "--cwd"])
            .arg(&room.worktree)
            .args(["--", "/usr/bin/python3", "-c", take, "stay"])
            .status()
            .unwrap();
        assert!(hog.success());
        super::lifecycle::until("all are taken", || {
            room.host_shell("test -e taken").code == Some(0)
        });
        let left: u32 = neighbour.python(take).out.trim().parse().unwrap();
        assert!(left >= 16, "{}: {left} left", host.mode);
    }
}

#[test]
fn one_room_cannot_take_what_all_rooms_of_a_user_share() {
    let watches = std::path::Path::new("/proc/sys/user/max_inotify_watches");
    let watches = hothouse_host::files::read_text(watches).unwrap();
    let watches: u32 = watches.trim().parse().unwrap();
    let watch_errors = if watches / 4 < 60_000 { &["ENOSPC"][..] } else { &["ERANGE"] };
    for host in hosts() {
        let room = host.room();
        let take = "
import ctypes, errno, os, resource
libc = ctypes.CDLL(None, use_errno=True)
NEWUSER, NEWUTS = 0x10000000, 0x04000000
def until_refused(what, most, make):
    n, made = 0, []
    while n < most:
        try: made.append(make())
        except OSError as e: print(what, n, errno.errorcode[e.errno], flush=True); return made
        n += 1
    print(what, n, 'NEVER', flush=True)
    return made
def called(result):
    if result < 0: raise OSError(ctypes.get_errno(), 'refused')
    return result
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 9000), hard))
for fd in until_refused('terminals', 2000, lambda: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)): os.close(fd)
def timer():
    held = ctypes.c_void_p()
    return called(libc.timer_create(1, None, ctypes.byref(held)))
if os.fork() == 0:
    until_refused('timers', 20000, timer); os._exit(0)
os.wait()
os.makedirs('watched', exist_ok=True)
for n in range(4000): open(f'watched/{n}', 'w').close()
instances = [called(libc.inotify_init1(0)) for _ in range(15)]
watches = ((i, n) for n in range(4000) for i in instances)
def watch():
    i, n = next(watches, (None, None))
    if n is None: raise OSError(errno.ERANGE, 'too few files')
    return called(libc.inotify_add_watch(i, f'watched/{n}'.encode(), 2))
until_refused('watches', 1000000, watch)
for i in instances: os.close(i)
for fd in until_refused('fanotify', 500, lambda: called(libc.syscall(300, 0x200, 0))): os.close(fd)
class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ('flags', 'most', 'size', 'now', 'a', 'b', 'c', 'd')]
def queue(n=iter(range(1000))):
    attributes = Attributes(0, 10, 8192)
    return called(libc.syscall(240, f'q{next(n)}'.encode(), 0o102, 0o600, ctypes.byref(attributes)))
until_refused('queues', 100, queue)
import mmap
def locked():
    page = mmap.mmap(-1, 1 << 20)
    called(libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))), 1 << 20))
    return page
until_refused('locked', 200, locked)
context = ctypes.c_ulong(0)
until_refused('requests', 1, lambda: called(libc.syscall(206, 8, ctypes.byref(context))))
def user():
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        done = libc.unshare(NEWUSER)
        os.write(theirs, bytes([0 if done == 0 else ctypes.get_errno()]))
        os.close(theirs); signal_me = os.pipe(); os.read(signal_me[0], 1); os._exit(0)
    code = os.read(ours, 1)[0]; os.close(ours); os.close(theirs)
    if code: os.kill(pid, 9); os.waitpid(pid, 0); raise OSError(code, 'refused')
    return pid
for pid in until_refused('user', 1000, user): os.kill(pid, 9); os.waitpid(pid, 0)
called(libc.unshare(NEWUSER))
def uts():
    called(libc.unshare(NEWUTS)); return os.open('/proc/self/ns/uts', os.O_RDONLY)
until_refused('uts', 2000, uts)
";
        let ran = room.python(take);
        let found: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split(' ').collect()).collect();
        for (what, least, most, errors) in [
            ("terminals", 100, 256, &["ENOSPC", "EIO"][..]),
            ("timers", 1000, 8192, &["EAGAIN"]),
            // A quarter of the host's limit; the test creates 60,000.
            ("watches", 1000, (watches / 4).max(4096), watch_errors),
            ("fanotify", 8, 64, &["EMFILE"]),
            ("queues", 1, 5, &["EMFILE", "ENOMEM"]),
            ("locked", 1, 64, &["ENOMEM", "EAGAIN"]),
            ("requests", 0, 0, &["ENOSYS"]),
            ("user", 64, 512, &["ENOSPC"]),
            ("uts", 64, 512, &["ENOSPC"]),
        ] {
            let line = found.iter().find(|line| line[0] == what);
            let line = line.unwrap_or_else(|| panic!("{}: {what} in {ran:?}", host.mode));
            let count: u32 = line[1].parse().unwrap();
            assert!((least..=most).contains(&count), "{}: {line:?}", host.mode);
            assert!(errors.contains(&line[2]), "{}: {line:?}", host.mode);
        }
    }
}

#[test]
fn descriptors_that_one_room_has_in_flight_do_not_keep_others_from_passing_theirs() {
    for host in hosts() {
        let (room, neighbour) = (host.room(), host.room());
        // Sent and never received: the kernel counts them for all processes of a uid.
        let send = "
import array, errno, os, resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
some, held = array.array('i', [os.open('/dev/null', 0)] * 250), []
while True:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); held.append(pair)
    pair[0].setblocking(False)
    try:
        while True: pair[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])
    except OSError as error:
        if error.errno != errno.EAGAIN:
            open('full', 'w').write(errno.errorcode[error.errno]); break
time.sleep(600)
";
        let hog = room
            .roomctl("exec")
            .args(["--detach", "--id", "hog", "--cwd"])
            .arg(&room.worktree)
            .args(["--", "/usr/bin/python3", "-c", send])
            .status()
            .unwrap();
        assert!(hog.success());
        super::lifecycle::until("no more can be sent", || {
            room.host_shell("grep -q ETOOMANYREFS full").code == Some(0)
        });
        others_work(&neighbour);
        others_work(&room);
    }
}

#[test]
fn unfinished_requests_for_root_do_not_fill_the_memory_of_pid_1() {
    for host in hosts() {
        let room = host.room_with(&["--memory", "200000000"]);
        let send = "
import socket, struct
held = []
for _ in range(128):
    s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect('/run/hothouse/sudo.sock'); held.append(s)
    for length in (16 << 20, 2 << 20):
        try: s.sendall(struct.pack('<IB', length, 0) + bytes(length - 1))
        except OSError: pass
text = open('/proc/1/status').read()
print(int(text.split('VmRSS:')[1].split()[0]) < 64 << 10)
";
        let ran = room.python(send);
        assert_eq!(ran.out, "True\n", "{}: {ran:?}", host.mode);
        others_work(&room);
    }
}

#[test]
fn a_room_with_uids_of_its_own_sees_no_key_of_the_host() {
    for host in hosts() {
        let plant = "
import ctypes
libc=ctypes.CDLL(None); data=b'x'
print(libc.syscall(248, b'user', b'hothouse-test-key', data, 1, -4))
print('hothouse-test-key' in open('/proc/keys').read())
";
        let ran = super::host::ran(host.command("python3").args(["-c", plant]));
        let is_seen = host.room().sh("cat /proc/keys").out.contains("hothouse-test-key");
        // With a single uid the names are visible, as SECURITY.md says.
        let planted = ran.out.trim_end().ends_with("True");
        assert_eq!(is_seen, planted && !host.has_root(), "{}: {ran:?}", host.mode);
    }
}
