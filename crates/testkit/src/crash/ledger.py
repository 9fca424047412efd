"""A small database: rows are appended under an exclusive lock, and acknowledged when they are on the disk."""
import fcntl, os, socket, sys, time

SOCKET = "/tmp/ledger.sock"


def serve():
    lock = open("rows.lock", "a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # Somebody else writes here: this must never happen, so it is shouted.
        with open("SECOND", "a") as second:
            second.write("%d\n" % os.getpid())
        sys.exit(1)
    rows = os.open("rows", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    mend(rows)
    try:
        os.unlink(SOCKET)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    listener.listen(64)
    while True:
        client, _ = listener.accept()
        try:
            talk(client, rows)
        except OSError:
            pass
        client.close()


def mend(rows):
    """Cuts off a row that a crash or a full disk left unfinished."""
    text = os.pread(rows, os.fstat(rows).st_size, 0)
    whole = text.rfind(b"\n") + 1
    if whole != len(text):
        os.ftruncate(rows, whole)


def talk(client, rows):
    stream = client.makefile("rw")
    for line in stream:
        try:
            os.write(rows, line.encode())
            os.fsync(rows)
            answer = line
        except OSError as error:
            mend(rows)
            answer = "! %s\n" % error
        stream.write(answer)
        stream.flush()


def add(first, count):
    client = connect()
    stream = client.makefile("rw")
    for row in range(first, first + count):
        stream.write("%d\n" % row)
        stream.flush()
        answer = stream.readline()
        if answer.strip() != str(row):
            sys.exit("not acknowledged: %s" % answer)
        print(row, flush=True)


def connect():
    for _ in range(200):
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(SOCKET)
            return client
        except OSError:
            client.close()
            time.sleep(0.02)
    sys.exit("the ledger does not answer")


if sys.argv[1] == "serve":
    serve()
else:
    add(int(sys.argv[2]), int(sys.argv[3]))
