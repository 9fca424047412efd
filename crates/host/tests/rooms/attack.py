"""Tries every way out of a room that we know of. Prints one line per attempt: `held` or `OPEN`.

Facts about the host come in as JSON in argv[1]."""
import array, ctypes, errno, fcntl, json, os, socket, stat, struct, subprocess, sys, time

facts = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
am_root = os.geteuid() == 0


def attempt(name):
    def decorate(function):
        try:
            result = function()
        except (OSError, PermissionError) as error:
            print(f"held {name}: {errno.errorcode.get(error.errno, error)}")
            return function
        except (subprocess.SubprocessError, ValueError) as error:
            print(f"held {name}: {error}")
            return function
        print(f"OPEN {name}: {result!r}" if result else f"held {name}: nothing")
        return function
    return decorate


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result or True


def shell(line):
    """True when the line succeeds."""
    return subprocess.run(["sh", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20).returncode == 0


# --- files of the host
@attempt("host secret by path")
def _(): return open(facts["secret"]).read()

@attempt("host secret through a link in the worktree")
def _():
    os.symlink(facts["secret"], "link-out")
    try: return open("link-out").read()
    finally: os.unlink("link-out")

@attempt("hard link out of the worktree")
def _(): os.link("/etc/passwd", "hard-link"); return True

for pid in ("1", "self", "thread-self"):
    for name in ("root", "cwd"):
        @attempt(f"/proc/{pid}/{name} to the host")
        def _(): return os.path.exists(f"/proc/{pid}/{name}{facts['secret']}") and "reached"

@attempt("climb with .. from the root")
def _(): return os.path.exists("/" + "../" * 40 + facts["secret"].lstrip("/")) and "reached"

@attempt("inherited descriptors")
def _():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try: found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError: pass
    return [f for f in found if not f.startswith(("pipe:", "/dev/null", "/proc")) and "/fd" not in f]

@attempt("open_by_handle_at")
def _(): return call(304, 3, b"\0" * 64, 0)

@attempt("device node of the disk")
def _(): os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)); return True

@attempt("setuid file in the worktree")
def _():
    open("su", "w").close()
    try: os.chmod("su", 0o4755); return True
    finally: os.unlink("su")

@attempt("setuid file by open")
def _():
    fd = os.open("su2", os.O_CREAT | os.O_WRONLY, 0o4755)
    mode = os.fstat(fd).st_mode; os.close(fd); os.unlink("su2")
    return mode & 0o6000

# --- PID 1 and other processes
for name in ("environ", "mem", "maps", "fd/3", "exe", "auxv", "stack"):
    @attempt(f"/proc/1/{name}")
    def _():
        path = f"/proc/1/{name}"
        return os.readlink(path) if name == "exe" else open(path, "rb").read(16)

@attempt("argv of PID 1")
def _(): return open("/proc/1/cmdline").read().strip("\0") != "room-init"

@attempt("kill PID 1")
def _():
    os.kill(1, 9); time.sleep(0.2); return not os.path.exists("/proc/1")

@attempt("ptrace PID 1")
def _(): return call(101, 16, 1, 0, 0)

@attempt("pidfd_getfd of PID 1")
def _(): return call(438, call(434, 1, 0), 4, 0)

@attempt("process_vm_readv of PID 1")
def _():
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8); remote = struct.pack("QQ", 0x400000, 8)
    return call(310, 1, local, 1, remote, 1, 0)

@attempt("limit PID 1")
def _(): return call(302, 1, 7, struct.pack("QQ", 4, 4), 0)

if not facts["single"]:
    @attempt("renice PID 1")
    def _(): os.setpriority(os.PRIO_PROCESS, 1, 19); return True

    @attempt("pin PID 1")
    def _(): os.sched_setaffinity(1, {0}); return True

@attempt("host process visible")
def _(): return os.path.exists(f"/proc/{facts['pid']}/comm") and open(f"/proc/{facts['pid']}/comm").read().strip() == facts["comm"]

for kind in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
    @attempt(f"setns to the {kind} of PID 1")
    def _():
        fd = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY); return call(308, fd, 0)

# --- sockets of the host
@attempt("host loopback")
def _():
    s = socket.create_connection(("127.0.0.1", facts["port"]), timeout=3); return s.recv(99) or False

@attempt("host abstract socket")
def _():
    s = socket.socket(socket.AF_UNIX); s.connect("\0" + facts["abstract"]); return True

@attempt("host path socket in the worktree")
def _():
    s = socket.socket(socket.AF_UNIX); s.connect(facts["socket"]); return True

for path in ("/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"):
    @attempt(path)
    def _():
        s = socket.socket(socket.AF_UNIX); s.connect(path); return True

for name, family, kind, protocol in (("packet", 17, 3, 3), ("raw", 2, 3, 1), ("raw v6", 10, 3, 58), ("vsock", 40, 1, 0), ("alg", 38, 5, 0),
                                     ("bluetooth", 31, 3, 0), ("xdp", 44, 3, 0), ("can", 29, 3, 1), ("key", 15, 3, 2), ("tipc", 30, 1, 0)):
    @attempt(f"{name} socket")
    def _(): socket.socket(family, kind, protocol); return True

@attempt("SO_MARK")
def _(): socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1); return True

@attempt("IP_TRANSPARENT")
def _(): socket.socket().setsockopt(socket.SOL_IP, 19, 1); return True

@attempt("listen on the egress port instead")
def _():
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 15001)); s.listen(); return True

@attempt("answer DNS instead")
def _():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 15053)); return True

@attempt("flush packet rules by netlink")
def _():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12); s.bind((0, 0))
    message = lambda kind, flags, body: struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body
    begin = message(16, 1, struct.pack("BBH", 0, 0, 0x0A00)); end = message(17, 1, struct.pack("BBH", 0, 0, 0x0A00))
    s.send(begin + message(0x0A02, 5, struct.pack("BBH", 1, 0, 0)) + end)
    code = struct.unpack_from("i", s.recv(4096), 16)[0]
    if code: raise OSError(-code, "nft")
    return True

@attempt("remove the local route by netlink")
def _():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("IHHII", 28, 25, 5, 1, 0) + bytes([2, 0, 0, 0, 255, 3, 254, 2, 0, 0, 0, 0]))
    code = struct.unpack_from("i", s.recv(4096), 16)[0]
    if code: raise OSError(-code, "route")
    return True

for line in ("nft flush ruleset", "ip link set lo down", "ip link add v0 type veth peer name v1 netns 1", "ip route flush table local"):
    @attempt(line)
    def _(): return shell(line)

# --- the kernel's knobs
for path, value in (("kernel/core_pattern", "|/tmp/x"), ("kernel/hostname", "x"), ("vm/overcommit_memory", "1"), ("net/ipv4/ip_forward", "1"),
                    ("net/ipv4/ip_unprivileged_port_start", "1024"), ("kernel/modprobe", "/tmp/x"), ("fs/suid_dumpable", "2"),
                    ("kernel/randomize_va_space", "0"), ("kernel/yama/ptrace_scope", "0")):
    @attempt(f"sysctl {path}")
    def _():
        before = open(f"/proc/sys/{path}").read()
        with open(f"/proc/sys/{path}", "w") as f: f.write(value)
        return open(f"/proc/sys/{path}").read() != before

for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/sys/kernel/uevent_helper", "/sys/power/state", "/proc/self/oom_score_adj-"):
    @attempt(path)
    def _():
        if path.endswith(("kcore", "kmsg")): return open(path, "rb").read(1)
        with open(path, "w") as f: f.write("h")
        return True

for name, number, arguments in (
        ("io_uring", 425, (8, b"\0" * 120)), ("keyctl", 250, (0, -3, 0)), ("add_key", 248, (b"user", b"k", b"v", 1, -3)), ("request_key", 249, (b"user", b"k", 0, -3)),
        ("bpf", 321, (5, b"\0" * 120, 120)), ("perf_event_open", 298, (b"\0" * 128, 0, -1, -1, 0)), ("userfaultfd", 323, (0,)), ("kexec_load", 246, (0, 0, 0, 0)),
        ("init_module", 175, (0, 0, b"")), ("finit_module", 313, (0, b"", 0)), ("delete_module", 176, (b"x", 0)), ("reboot", 169, (0, 0, 0, 0)),
        ("swapon", 167, (b"/x", 0)), ("syslog", 103, (3, ctypes.create_string_buffer(64), 64)), ("settimeofday", 164, (struct.pack("qq", 0, 0), 0)),
        ("x32 getpid", 0x40000000 + 39, ()), ("openat2", 437, (-100, b"/etc/passwd", struct.pack("QQQ", 0, 0, 0), 24))):
    @attempt(f"syscall {name}")
    def _(): return call(number, *arguments)

@attempt("TIOCSTI")
def _():
    import pty
    master, slave = pty.openpty(); fcntl.ioctl(slave, 0x5412, b"x"); return True

@attempt("core dumps")
def _():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)); return True

@attempt("cgroup release_agent")
def _():
    return shell("unshare -UrmC sh -c 'mkdir /tmp/cg && mount -t cgroup -o memory none /tmp/cg && (echo 1 > /tmp/cg/notify_on_release || echo /x > /tmp/cg/release_agent || mkdir /tmp/cg/x)'")

# --- mounts
for line in (f"umount {facts['worktree']}", f"umount -l {facts['worktree']}", f"mount -o remount,bind,suid,dev {facts['worktree']}", "umount /proc", "umount -l /sys",
             "mount -o remount,rw /sys", "mount -t sysfs none /mnt && echo x > /mnt/kernel/uevent_helper", f"mount --bind {facts['worktree']} /mnt && umount {facts['worktree']}",
             f"unshare -Urm sh -c 'umount {facts['mask']} || umount -l {facts['mask']} || mount --bind {facts['worktree']} /mnt && test -s /mnt/.env'",
             f"umount {facts['mask']} || umount -l {facts['mask']} || mount --move {facts['mask']} /mnt",
             f"mount --bind {facts['worktree']} /mnt && test -s /mnt/.env",
             "unshare -Urm --propagation=unchanged pivot_root / /mnt", "mount -t debugfs none /mnt", "mount -t tracefs none /mnt", "mount -t bpf none /mnt && ls /mnt/x",
             "mount -t devtmpfs none /mnt", "mount /dev/vda /mnt", "mknod /tmp/null2 c 1 3 && echo > /tmp/null2", "modprobe dummy", "dmesg", "chroot /proc/1/root true"):
    @attempt(line)
    def _(): return shell(line)

@attempt("mask by another name")
def _():
    for folder, _, names in os.walk(facts["worktree"]):
        for name in names:
            try:
                if "SECRET" in open(os.path.join(folder, name), errors="replace").read(99): return os.path.join(folder, name)
            except OSError: pass

@attempt("environment of the host")
def _(): return [name for name in os.environ if "HOTHOUSE" in name or name == "SECRET_IN_ENV"]
