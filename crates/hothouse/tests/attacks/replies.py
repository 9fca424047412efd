# A terminal that answers what a program asks it, a moment later as over a network, and then shows what is left for
# the shell: `replies.py [leave|end] COMMAND…`.
import fcntl, os, pty, select, struct, subprocess, sys, termios, time

how, command = sys.argv[1], sys.argv[2:]
terminal, shell = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

def own():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)

child = subprocess.Popen(command, stdin=shell, stdout=shell, stderr=shell, preexec_fn=own)
# What a program asks, what a terminal answers, and when it does.
KNOWN = {b"\x1b[21t": b"\x1b]lecho pwned\x1b\\\r", b"\x1b[5n": b"\x1b[0n", b"\x1b[6n": b"\x1b[1;1R"}
seen, due, left = b"", [], False
deadline = time.monotonic() + 60
while child.poll() is None and time.monotonic() < deadline:
    now = time.monotonic()
    while due and due[0][0] <= now:
        os.write(terminal, due.pop(0)[1])
    if not select.select([terminal], [], [], 0.005)[0]:
        continue
    new = os.read(terminal, 65536)
    before, seen = len(seen), seen + new
    asked = []
    for question, answer in KNOWN.items():
        at = seen.find(question, max(0, before - 8))
        while at >= 0:
            if at + len(question) > before:
                asked.append((at, answer))
            at = seen.find(question, at + 1)
    due += [(now + 0.1, answer) for _, answer in sorted(asked)]
    if how == "leave" and b"\x1b[21t" in seen and not left:
        left = True
        os.write(terminal, b"\x1dd")
for _, answer in due:
    os.write(terminal, answer)
settings = termios.tcgetattr(shell)
settings[3] &= ~(termios.ICANON | termios.ECHO)
termios.tcsetattr(shell, termios.TCSANOW, settings)
typed = b""
while select.select([shell], [], [], 0.2)[0]:
    typed += os.read(shell, 65536)
print("left:", typed, "exit:", child.wait(), "asked:", seen.count(b"\x1b[21t"))
