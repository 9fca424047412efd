"""Tries every way out of a room that we know of, and says how each was refused.

Facts about the host come in as JSON in argv[1]. One line per attempt:

    held NAME: REASON    refused, and for the reason that we expect
    ODD NAME: REASON     refused for another one: perhaps it was not tried at all
    OPEN NAME: RESULT    it worked

The same code runs outside a room too (`control` in the facts), as root in a scratch namespace. There the attempts
marked with `control=True` must be OPEN: what never works proves nothing."""
import array, ctypes, errno, fcntl, json, os, signal, socket, stat, struct, subprocess, sys, time

facts = json.loads(sys.argv[1])
control_run = facts.get("control", False)
libc = ctypes.CDLL(None, use_errno=True)
am_root = os.geteuid() == 0
BY_OWNER = ("EINVAL", "EPERM") if am_root else ("EPERM",)
NOTHING = "nothing"
# In a room PID 1 is room-init; outside, some process stands in for it.
first = facts["pid"] if control_run else 1


def attempt(name, *expected, control=False):
    def decorate(function):
        if control_run and not control:
            return function
        try:
            result = function()
        except OSError as error:
            reason = errno.errorcode.get(error.errno, str(error))
        except ValueError as error:
            reason = str(error)
        else:
            if result:
                print(f"OPEN {name}: {result!r}")
                return function
            reason = NOTHING
        print(f"{'held' if reason in expected else 'ODD'} {name}: {reason}", flush=True)
        return function
    return decorate


def call(number, *arguments):
    whole = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *whole)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result or True


def mount(source, target, kind, flags=0, options=None):
    encode = lambda text: text and text.encode()
    return call(165, encode(source), encode(target), encode(kind), flags, encode(options))


def umount(target, flags=0): return call(166, target.encode(), flags)


def in_child(action):
    """Runs the action in a process of its own; its error is ours."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try: code = 0 if action() else 254
        except OSError as error: code = error.errno or 255
        os._exit(code)
    os.close(ours); os.close(theirs)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0: raise OSError(0, f"died by signal {-code}")
    if code not in (0, 254): raise OSError(code, os.strerror(code))
    return code == 0


NEWUSER, NEWNS, NEWCGROUP, NEWNET, NEWPID = 0x10000000, 0x20000, 0x02000000, 0x40000000, 0x20000000

def nested(action, more=0):
    """Runs the action as root of a user namespace below the room, with mounts of its own."""
    def go():
        call(272, NEWUSER | NEWNS | more)
        return action()
    return in_child(go)


MS_BIND, MS_REMOUNT, MS_MOVE, MS_REC, MNT_DETACH = 4096, 32, 8192, 16384, 2
work, mask = facts["worktree"], facts["mask"]

# --- files of the host
@attempt("host secret by path", "ENOENT", control=True)
def _(): return open(facts["secret"]).read()

@attempt("host secret through a link in the worktree", "ENOENT", control=True)
def _():
    os.symlink(facts["secret"], "link-out")
    try: return open("link-out").read()
    finally: os.unlink("link-out")

@attempt("host secret through a link in a folder link", "ENOENT", control=True)
def _():
    os.symlink(os.path.dirname(facts["secret"]), "folder-out")
    try: return open("folder-out/" + os.path.basename(facts["secret"])).read()
    finally: os.unlink("folder-out")

@attempt("hard link to a masked file", "EXDEV", control=True)
def _():
    os.link(mask, "hard-link")
    try: return open("hard-link").read()
    finally: os.unlink("hard-link")

@attempt("rename a masked file", "EBUSY", "EPERM", control=True)
def _():
    os.rename(mask, mask + "-moved")
    try: return open(mask + "-moved").read()
    finally: os.rename(mask + "-moved", mask)

@attempt("exchange a masked file", "EBUSY", "EPERM", control=True)
def _():
    open("other", "w").close()
    try:
        call(316, -100, mask.encode(), -100, b"other", 2)
        text = open("other").read(); call(316, -100, mask.encode(), -100, b"other", 2); return text
    finally: os.unlink("other")

@attempt("read a masked file", NOTHING, control=True)
def _(): return open(mask).read()

for pid in ("1", "self", "thread-self"):
    for name in ("root", "cwd"):
        @attempt(f"/proc/{pid}/{name} to the host", NOTHING)
        def _(): return os.path.exists(f"/proc/{pid}/{name}{facts['secret']}") and "reached"

@attempt("climb with .. from the root", NOTHING, control=True)
def _(): return os.path.exists("/" + "../" * 40 + facts["secret"].lstrip("/")) and "reached"

@attempt("chroot and climb", "ENOENT" if am_root else "EPERM")
def _():
    def climb():
        here = os.open("/", os.O_RDONLY); os.makedirs("/tmp/jail", exist_ok=True); os.chroot("/tmp/jail"); os.fchdir(here)
        for _ in range(40): os.chdir("..")
        return open(facts["secret"].lstrip("/")).read()
    return in_child(climb)

@attempt("inherited descriptors", NOTHING, control=True)
def _():
    found = []
    if control_run: os.open("/etc/passwd", os.O_RDONLY)
    for fd in os.listdir("/proc/self/fd"):
        try: found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError: pass
    return [f for f in found if not f.startswith(("pipe:", "/dev/null", "/proc")) and "/fd" not in f]

@attempt("open_by_handle_at", "EPERM", control=True)
def _():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 120, 0) + b"\0" * 120); mount_id = ctypes.c_int()
    call(303, -100, facts["worktree"].encode(), handle, ctypes.byref(mount_id), 0)
    return call(304, os.open(facts["worktree"], os.O_RDONLY), handle, os.O_RDONLY)

for kind, number, name in ((stat.S_IFBLK, os.makedev(254, 0), "disk"), (stat.S_IFCHR, os.makedev(1, 1), "memory"), (stat.S_IFCHR, os.makedev(10, 229), "fuse")):
    @attempt(f"device node of the {name}", "EPERM", control=True)
    def _():
        os.mknod("/tmp/node", kind | 0o600, number); os.unlink("/tmp/node"); return True

    if am_root and not control_run:
        @attempt(f"device node of the {name}, nested", "EPERM")
        def _(): return nested(lambda: os.mknod("/tmp/node", kind | 0o600, number) is None)

# --- setuid
@attempt("setuid file in the worktree", "EPERM", control=True)
def _():
    open("su", "w").close()
    try: os.chmod("su", 0o4755); return os.stat("su").st_mode & 0o6000
    finally: os.unlink("su")

@attempt("setgid file by fchmod", "EPERM", control=True)
def _():
    fd = os.open("su", os.O_CREAT | os.O_RDWR, 0o755)
    try: os.fchmod(fd, 0o2755); return os.fstat(fd).st_mode & 0o6000
    finally: os.close(fd); os.unlink("su")

@attempt("setuid file by open", "EPERM", control=True)
def _():
    fd = os.open("su2", os.O_CREAT | os.O_WRONLY, 0o4755)
    mode = os.fstat(fd).st_mode; os.close(fd); os.unlink("su2")
    return mode & 0o6000

@attempt("a setuid program of the host gives root", NOTHING)
def _(): return [line for line in open("/proc/self/status") if line.startswith("NoNewPrivs:\t0")]

# --- PID 1 and other processes
for name in ("environ", "mem", "maps", "fd/3", "exe", "auxv", "stack", "cwd", "root"):
    @attempt(f"/proc/1/{name}", "EACCES", control=name in ("environ", "mem", "maps", "exe", "cwd", "root"))
    def _():
        path = f"/proc/{first}/{name}"
        if name in ("exe", "cwd", "root"): return os.readlink(path)
        if name == "mem": return bool(open(path, "rb")) or True
        return open(path, "rb").read(16)

# The kernel asks for no more than the right to write these files.
for name, text in (("oom_score_adj", "1000"), ("oom_adj", "15"), ("coredump_filter", "0"), ("clear_refs", "1"), ("autogroup", "19"), ("loginuid", "0"), ("timerslack_ns", "1")):
    @attempt(f"write /proc/1/{name}", "EACCES", "EPERM", "ENOENT", control=name == "oom_score_adj")
    def _():
        with open(f"/proc/{first}/{name}", "w") as file: return bool(file.write(text))

# A command that room-init starts is a copy of it until it has entered the room.
if am_root and not control_run:
    @attempt("the memory of a command that enters the room", NOTHING)
    def _():
        found = set()
        for _ in range(40):
            command = subprocess.Popen(["sudo", "true"])
            while command.poll() is None:
                for pid in (name for name in os.listdir("/proc") if name.isdigit() and name != "1"):
                    try:
                        with open(f"/proc/{pid}/mem", "rb"):
                            # What is named so afterwards was no program of the room's yet when it was opened.
                            if open(f"/proc/{pid}/comm").read() == "room-init\n": found.add(pid)
                    except OSError: pass
            if command.returncode: raise ValueError("sudo failed")
        return found

@attempt("lease", "EPERM", control=True)
def _():
    fd = os.open("lease", os.O_CREAT | os.O_RDONLY, 0o600); os.unlink("lease")
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return "leased"

@attempt("argv of PID 1", NOTHING)
def _(): return open("/proc/1/cmdline").read().strip("\0") != "room-init"

for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGTERM):
    @attempt(f"signal {number} to PID 1", NOTHING if facts["single"] else "EPERM")
    def _():
        os.kill(1, number)
        state = [line for line in open("/proc/1/status") if line.startswith("State:")][0]
        return "sleeping" not in state and "running" not in state

# The number of a host process means nobody here, or somebody of the room: never that process.
@attempt("environment of a host process", "ENOENT", control=True)
def _(): return b"SECRET_IN_ENV" in open(f"/proc/{facts['pid']}/environ", "rb").read()

@attempt("argv of a host process", "ENOENT", control=True)
def _(): return open(f"/proc/{facts['pid']}/cmdline", "rb").read()

@attempt("root of a host process", NOTHING, control=True)
def _(): return os.path.exists(f"/proc/{facts['pid']}/root{facts['secret']}")

@attempt("memory of a host process", "ENOENT", control=True)
def _(): return bool(open(f"/proc/{facts['pid']}/mem", "rb"))

@attempt("signal to a host process", "ESRCH", control=True)
def _(): os.kill(facts["pid"], 0); return True

@attempt("ptrace a host process", "ESRCH", control=True)
def _(): return call(101, 0x4206, facts["pid"], 0, 0)

@attempt("ptrace PID 1", "EPERM")
def _(): return call(101, 0x4206, 1, 0, 0)

@attempt("pidfd_getfd of PID 1", "EPERM", control=True)
def _(): return call(438, call(434, first, 0), 0, 0)

@attempt("process_vm_readv of PID 1", "EPERM")
def _():
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8); remote = struct.pack("QQ", 0x400000, 8)
    return call(310, 1, local, 1, remote, 1, 0)

@attempt("limit PID 1", "EPERM")
def _(): return call(302, 1, 7, struct.pack("QQ", 4, 4), 0)

if not facts["single"]:
    @attempt("renice PID 1", "EPERM")
    def _(): os.setpriority(os.PRIO_PROCESS, 1, 19); return True

    @attempt("pin PID 1", "EPERM")
    def _(): os.sched_setaffinity(1, {0}); return True

for kind in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
    @attempt(f"setns to the {kind} of PID 1", "EACCES", control=kind in ("net", "ipc", "uts"))
    def _():
        fd = os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY); return in_child(lambda: call(308, fd, 0))

# --- sockets of the host
@attempt("host loopback", "ECONNREFUSED")
def _():
    s = socket.create_connection(("127.0.0.1", facts["port"]), timeout=3); return s.recv(99) or False

@attempt("host abstract socket", "ECONNREFUSED")
def _():
    s = socket.socket(socket.AF_UNIX); s.connect("\0" + facts["abstract"]); return True

@attempt("host path socket in the worktree", "EACCES", "ECONNREFUSED", control=True)
def _():
    s = socket.socket(socket.AF_UNIX); s.connect(facts["socket"]); return True

@attempt("host path socket by a link", "EACCES", "ECONNREFUSED", control=True)
def _():
    os.symlink(facts["socket"], "socket-link")
    try: s = socket.socket(socket.AF_UNIX); s.connect("socket-link"); return True
    finally: os.unlink("socket-link")

for path in facts["sockets"]:
    @attempt(f"{path} of the host", "ENOENT", control=True)
    def _():
        s = socket.socket(socket.AF_UNIX); s.connect(path); return True

for name, family, kind, protocol, reason, control in (
        ("packet", 17, 3, 3, "EAFNOSUPPORT", True), ("raw", 2, 3, 1, "EPERM", True), ("raw v6", 10, 3, 58, "EPERM", True),
        ("vsock", 40, 1, 0, "EAFNOSUPPORT", False), ("alg", 38, 5, 0, "EAFNOSUPPORT", False), ("bluetooth", 31, 3, 0, "EAFNOSUPPORT", False),
        ("xdp", 44, 3, 0, "EAFNOSUPPORT", False), ("can", 29, 3, 1, "EAFNOSUPPORT", False), ("key", 15, 3, 2, "EAFNOSUPPORT", False),
        ("tipc", 30, 1, 0, "EAFNOSUPPORT", False)):
    @attempt(f"{name} socket", reason, control=control)
    def _(): socket.socket(family, kind, protocol); return True

@attempt("raw socket, nested with a network of its own", NOTHING, "EPERM")
def _():
    # It may have one there: what counts is that nothing leaves.
    def go():
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); s.sendto(b"\x08\0\xf7\xff\0\0\0\0", ("192.0.2.1", 0)); return True
    try: return nested(go, NEWNET)
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH): return False
        raise

@attempt("SO_MARK", "EPERM", control=True)
def _(): socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1); return True

@attempt("IP_TRANSPARENT", "EPERM", control=True)
def _(): socket.socket().setsockopt(socket.SOL_IP, 19, 1); return True

# The room's link may be bound to: what is sent by it must end there. `network.rs` has the rest.
def by_every_link(kind, send):
    for _, name in socket.if_nameindex():
        if name == "lo": continue
        s = socket.socket(socket.AF_INET, kind); s.settimeout(2)
        s.setsockopt(socket.SOL_SOCKET, 25, name.encode() + b"\0"); send(s)
        return name

@attempt("SO_BINDTODEVICE and connect", "timed out", "EPERM", "ENODEV", NOTHING, control=False)
def _(): return by_every_link(socket.SOCK_STREAM, lambda s: s.connect(("93.184.216.34", 443)))

@attempt("SO_BINDTODEVICE and send", "EPERM", "ENODEV", NOTHING, control=False)
def _(): return by_every_link(socket.SOCK_DGRAM, lambda s: s.sendto(b"x", ("93.184.216.34", 443)))

@attempt("listen on the egress port instead", "EADDRINUSE", control=True)
def _():
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 15001)); s.listen(); return True

@attempt("answer DNS instead", "EADDRINUSE", control=True)
def _():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 15053)); return True

def netlink(family, message):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family); s.bind((0, 0)); s.settimeout(5)
    s.send(message)
    code = struct.unpack_from("i", s.recv(4096), 16)[0]
    if code: raise OSError(-code, "netlink")
    return True

def header(kind, flags, body): return struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body

def nft(kind, body):
    begin = header(16, 1, struct.pack("BBH", 0, 0, 0x0A00)); end = header(17, 1, struct.pack("BBH", 0, 0, 0x0A00))
    return netlink(12, begin + header(0x0A00 | kind, 5, body) + end)

TABLE = struct.pack("BBH", 2, 0, 0) + struct.pack("HH", 8, 1) + b"ours"[:3] + b"\0"

@attempt("new packet table by netlink", "EPERM", control=True)
def _(): return nft(0, TABLE)

@attempt("flush packet rules by netlink", "EPERM", control=True)
def _(): return nft(2, struct.pack("BBH", 2, 0, 0))

LO_UP = header(16, 5, struct.pack("BxHiII", 0, 0, 1, 1, 1))
LO_DOWN = header(16, 5, struct.pack("BxHiII", 0, 0, 1, 0, 1))
ROUTE = bytes([2, 0, 0, 0, 255, 3, 254, 2, 0, 0, 0, 0]) + struct.pack("HHI", 8, 4, 1)

@attempt("take loopback down and up", "EPERM", control=True)
def _(): return netlink(0, LO_DOWN) and netlink(0, LO_UP)

@attempt("make a local route", "EPERM", control=True)
def _(): return netlink(0, header(24, 0x405, ROUTE))

@attempt("remove the local route", "EPERM", control=True)
def _(): return netlink(0, header(25, 5, ROUTE))

@attempt("make a link into the wall", "EPERM", "EOPNOTSUPP")
def _():
    kind = struct.pack("HH", 10, 1) + b"dummy\0" + b"\0\0"
    return netlink(0, header(16, 0x605, struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH", 4 + len(kind), 18) + kind))

# --- the kernel's knobs: opened for writing, never written
for path in ("kernel/core_pattern", "vm/overcommit_memory", "net/ipv4/ip_forward", "kernel/randomize_va_space", "fs/suid_dumpable",
             "kernel/hostname", "net/ipv4/ip_unprivileged_port_start"):
    @attempt(f"sysctl {path}", "EACCES", control=True)
    def _(): return bool(open(f"/proc/sys/{path}", "r+"))

    if am_root and not control_run:
        @attempt(f"sysctl {path} on a /proc of one's own", "EACCES", "EPERM")
        def _():
            def go():
                pid = os.fork()
                if pid == 0:
                    try: mount("proc", "/mnt", "proc"); os._exit(0 if open(f"/mnt/sys/{path}", "r+") else 1)
                    except OSError as error: os._exit(error.errno)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if code: raise OSError(code, "nested")
                return True
            return nested(go, NEWPID)

for path, reasons in (("/proc/kmsg", ("EACCES", "EPERM")), ("/proc/self/oom_score_adj", (NOTHING, "EACCES")), ("/sys/kernel/uevent_helper", ("EROFS", "ENOENT", "EACCES")),
                      ("/sys/power/state", ("EROFS", "ENOENT", "EACCES")), ("/sys/kernel/mm/transparent_hugepage/enabled", ("EROFS", "ENOENT", "EACCES"))):
    @attempt(path, *reasons, control=path == "/sys/kernel/mm/transparent_hugepage/enabled" and os.path.exists(path))
    def _():
        if path.endswith("kmsg"): return open(path, "rb").read(1)
        if path.endswith("oom_score_adj"):
            open(path, "w").write("-1000"); return open(path).read().strip() == "-1000"
        return bool(open(path, "r+"))

for name, number, arguments, reason, control in (
        ("io_uring", 425, (8, b"\0" * 120), "EPERM", True), ("keyctl", 250, (0, -3, 0), "EPERM", True), ("add_key", 248, (b"user", b"hothouse-test", b"v", 1, -1), "EPERM", True),
        ("request_key", 249, (b"user", b"k", 0, -3), "EPERM", False), ("bpf", 321, (5, b"\0" * 120, 120), "EPERM", False),
        ("perf_event_open", 298, (struct.pack("IIQQQQ", 1, 128, 0, 0, 0, 0) + b"\0" * 88, 0, -1, -1, 0), "EPERM", True), ("userfaultfd", 323, (1,), "EPERM", True),
        ("kexec_load", 246, (0, 0, 0, 0), "EPERM", False), ("init_module", 175, (0, 0, b""), "EPERM", False), ("finit_module", 313, (0, b"", 0), "EPERM", False),
        ("delete_module", 176, (b"x", 0), "EPERM", False), ("reboot", 169, (0, 0, 0, 0), "EPERM", False), ("swapon", 167, (b"/x", 0), "EPERM", False),
        ("syslog", 103, (10, 0, 0), "EPERM", True), ("settimeofday", 164, (struct.pack("qq", -1, -1), 0), "EPERM", False),
        ("clock_settime", 227, (0, struct.pack("qq", -1, -1)), "EPERM", False), ("acct", 163, (0,), "EPERM", False), ("iopl", 172, (3,), "EPERM", False),
        ("x32 getpid", 0x40000000 + 39, (), "ENOSYS", False), ("openat2", 437, (-100, b"/etc/passwd", struct.pack("QQQ", 0, 0, 0), 24), "ENOSYS", True)):
    @attempt(f"syscall {name}", reason, control=control)
    def _(): return call(number, *arguments)

# Newer calls, and older ones that look into other processes or change mounts.
for name, number, arguments, reasons, control in (
        ("kcmp with PID 1", 312, (1, os.getpid(), 0, 0, 0), ("EPERM",), False),
        ("process_vm_writev to PID 1", 311, (1, struct.pack("QQ", 0, 8), 1, struct.pack("QQ", 0x400000, 8), 1, 0), ("EPERM",), False),
        ("process_madvise of PID 1", 440, (call(434, first, 0), struct.pack("QQ", 0x400000, 4096), 1, 21, 0), ("EPERM", "EACCES"), False),
        ("get_robust_list of PID 1", 274, (1, ctypes.byref(ctypes.c_long()), ctypes.byref(ctypes.c_long())), ("EPERM",), False),
        ("migrate_pages of PID 1", 256, (1, 64, struct.pack("Q", 1), struct.pack("Q", 1)), ("EPERM", "ENOSYS"), False),
        ("move_pages of PID 1", 279, (1, 1, struct.pack("Q", 0x400000), 0, struct.pack("i", 0), 0), ("EPERM", "ENOSYS"), False),
        ("mount_setattr of the worktree, for devices and setuid", 442, (-100, work.encode(), 0, struct.pack("QQQQ", 0, 6, 0, 0), 32), ("EPERM",), False),
        ("mount_setattr of the mask, to write it", 442, (-100, mask.encode(), 0, struct.pack("QQQQ", 0, 1, 0, 0), 32), ("EPERM",), False),
        ("open_tree_attr of the worktree", 467, (-100, work.encode(), 1, struct.pack("QQQQ", 0, 6, 0, 0), 32), ("EPERM", "EINVAL", "ENOSYS"), False),
        ("fanotify on a whole file system", 301, (0, 0x100, 0x20, -100, b"/"), ("EPERM", "EBADF", "EINVAL"), False),
        ("name_to_handle_at and back", 304, (-100, struct.pack("Ii", 8, 1) + b"\0" * 8, 0), ("EPERM",), False),
        ("quotactl_fd", 443, (0, 0, 0, 0), ("EPERM",), False),
        ("lsm_set_self_attr", 460, (100, b"\0" * 64, 64, 0), ("EPERM", "EINVAL", "EOPNOTSUPP", "ENOSYS"), False),
        ("setns by pidfd to PID 1", 308, (call(434, first, 0), 0x20000), ("EPERM", "EINVAL"), False),
        ("clock_adjtime", 305, (0, struct.pack("I", 2) + b"\0" * 204), ("EPERM",), False),
        ("pidfd_send_signal to PID 1", 424, (call(434, first, 0), 9, 0, 0), (() if facts["single"] else ("EPERM",)), False),
        ("sethostname", 170, (b"x", 1), ("EPERM",) if not am_root else (), False),
        ("vhangup", 153, (), ("EPERM",), False)):
    if control_run or not reasons: continue
    @attempt(name, *reasons, control=control)
    def _(): return call(number, *arguments)

# The room's root may begin to configure a file system, and must not get to the end of it.
def configured(fd, command): return call(431, fd, command, 0, 0, 0)

@attempt("reconfigure the file system of the worktree", "EPERM")
def _(): return configured(call(433, -100, work.encode(), 0), 7)

@attempt("make a file system of a disk's kind", "EPERM", "ENODEV")
def _(): return configured(call(430, b"ext4", 0), 6)

@attempt("make a file system of a disk's kind, nested", "EPERM", "ENODEV")
def _(): return nested(lambda: configured(call(430, b"ext4", 0), 6))

@attempt("what statmount and listmount name", NOTHING, "ENOSYS")
def _():
    buffer = ctypes.create_string_buffer(1 << 16)
    # Those of namespaces that are named by number, as the host's first ones are.
    for number in [*range(1, 32), *range(0xefffffe0, 0xf0000000)]:
        try: return f"{call(458, struct.pack('IIQQQ', 32, 0, 0xffffffffffffffff, 0, number), buffer, 512, 0)} mounts of {number}"
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EPERM, errno.EINVAL): raise

for family, name in ((6, "xfrm"), (9, "audit"), (11, "connector"), (15, "uevents"), (18, "crypto")):
    @attempt(f"netlink: {name}", "EPERM", "EPROTONOSUPPORT", "ECONNREFUSED", "EACCES", NOTHING, "timed out")
    def _():
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family); s.settimeout(0.3)
        # To be in a group of the kernel's is to hear what the host does.
        s.bind((0, 1))
        if family == 9: s.send(header(1000, 5, b"")); return s.recv(4096)[16:20] == b"\0" * 4 and "audit answers"
        return s.recv(4096)

@attempt("process accounting of the host by taskstats", NOTHING, "EPERM", "ENOENT", "timed out", "EACCES")
def _():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16); s.settimeout(1); s.bind((0, 0))
    s.send(header(16, 1, struct.pack("BBH", 3, 1, 0) + struct.pack("HH", 4 + 10, 2) + b"TASKSTATS\0\0\0"))
    answer = s.recv(4096)
    if struct.unpack_from("H", answer, 4)[0] == 2: raise OSError(-struct.unpack_from("i", answer, 16)[0], "taskstats")
    kind = struct.unpack_from("H", answer, answer.index(struct.pack("HH", 6, 1)) + 4)[0]
    s.send(header(kind, 1, struct.pack("BBH", 1, 1, 0) + struct.pack("HHI", 8, 1, facts["pid"])))
    answer = s.recv(4096)
    if struct.unpack_from("H", answer, 4)[0] == 2: raise OSError(-struct.unpack_from("i", answer, 16)[0], "taskstats")
    return "the host's process is counted"

for path in ("/sys/fs/cgroup", "/sys/kernel/security", "/sys/kernel/debug", "/sys/fs/bpf"):
    @attempt(f"write below {path}", NOTHING, "EROFS", "EACCES", "EPERM")
    def _():
        for folder, names, files in os.walk(path):
            del names[20:]
            for name in files[:200]:
                whole = os.path.join(folder, name)
                if os.access(whole, os.W_OK):
                    try: open(whole, "r+").close(); return whole
                    except OSError: pass
        return False

@attempt("TIOCSTI", "EPERM")
def _():
    import pty
    master, slave = pty.openpty(); fcntl.ioctl(slave, 0x5412, b"x"); return True

@attempt("core dumps", "not allowed to raise maximum limit")
def _():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)); return True

# --- control groups
def group_file(name):
    def go():
        os.makedirs("/tmp/cg", exist_ok=True); mount("none", "/tmp/cg", "cgroup", 0, "memory")
        try: return bool(open(f"/tmp/cg/{name}", "r+"))
        finally: umount("/tmp/cg")
    return go

for name in ("release_agent", "notify_on_release", "memory.limit_in_bytes", "tasks"):
    @attempt(f"cgroup {name}", "EPERM", "EACCES", control=name != "release_agent")
    def _(): return in_child(group_file(name))

    @attempt(f"cgroup {name}, nested", "EPERM", "EACCES", "ENOENT")
    def _(): return nested(group_file(name), NEWCGROUP)

# --- mounts
@attempt("mounts of one's own, nested, can be had", NOTHING)
def _():
    # Not an attack: it shows that those below fail for the reason that is theirs.
    return not nested(lambda: mount("none", "/mnt", "tmpfs"))

for what, path in (("worktree", work), ("/proc", "/proc"), ("/dev/null", "/dev/null"), ("masked file", mask)):
    for how, flags in (("", 0), (" lazily", MNT_DETACH)):
        @attempt(f"unmount the {what}{how}", *BY_OWNER)
        def _(): return umount(path, flags)

        @attempt(f"unmount the {what}{how}, nested", "EINVAL")
        def _(): return nested(lambda: umount(path, flags))

    @attempt(f"move the {what}", *BY_OWNER)
    def _(): return mount(path, "/mnt", None, MS_MOVE)

@attempt("remount the worktree with devices and setuid", "EPERM")
def _(): return mount(None, work, None, MS_REMOUNT | MS_BIND)

@attempt("remount the mask writable", "EPERM")
def _(): return mount(None, mask, None, MS_REMOUNT | MS_BIND)

@attempt("remount /sys writable", "EPERM", *(() if os.path.exists("/sys/kernel") else ("EINVAL",)))
def _(): return mount(None, "/sys", None, MS_REMOUNT)

@attempt("bind the worktree without its masks", *BY_OWNER)
def _(): return in_child(lambda: mount(work, "/mnt", None, MS_BIND) and open("/mnt/.env").read())

@attempt("bind the worktree without its masks, nested", "EINVAL")
def _(): return nested(lambda: mount(work, "/mnt", None, MS_BIND) and open("/mnt/.env").read())

@attempt("bind the worktree with its masks, nested", NOTHING)
def _(): return nested(lambda: mount(work, "/mnt", None, MS_BIND | MS_REC) and open("/mnt/.env").read())

@attempt("clone the tree without its masks", "EINVAL" if am_root else "EPERM")
def _(): return call(428, -100, work.encode(), 1)

@attempt("pivot_root, nested", "EINVAL", "EBUSY")
def _(): return nested(lambda: call(155, b"/", b"/mnt"))

for kind in ("debugfs", "tracefs", "devtmpfs", "securityfs", "configfs"):
    @attempt(f"mount {kind}", "EPERM", "ENODEV", control=kind in ("tracefs", "devtmpfs"))
    def _(): return in_child(lambda: mount("none", "/mnt", kind))

    @attempt(f"mount {kind}, nested", "EPERM", "ENODEV")
    def _(): return nested(lambda: mount("none", "/mnt", kind))

@attempt("mount the disk", "EPERM", "ENOENT", "EACCES")
def _(): return mount("/dev/vda", "/mnt", "ext4", 1)

@attempt("mask by another name", NOTHING, control=True)
def _():
    for folder, _, names in os.walk(work):
        for name in names:
            try:
                if "SECRET" in open(os.path.join(folder, name), errors="replace").read(99): return os.path.join(folder, name)
            except OSError: pass

@attempt("environment of the host", NOTHING, control=True)
def _(): return [name for name in os.environ if "HOTHOUSE" in name or name == "SECRET_IN_ENV"]
