"""usage: client.py WAY HOST WORK COUNT, where WAY is `direct` or the port of a proxy, and WORK one of
`bytes` (seconds for COUNT megabytes), `setup` (milliseconds, median of COUNT), `idle` (COUNT
connections, held until standard input ends) and `names` (milliseconds, median of COUNT)."""
import resource
import socket
import statistics
import struct
import sys
import time

way, host, work, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def hello(name):
    entry = b"\0" + struct.pack(">H", len(name)) + name
    server_name = struct.pack(">HHH", 0, len(entry) + 2, len(entry)) + entry
    body = b"\x03\x03" + bytes(32) + b"\0\0\x02\x13\x01\x01\0" + struct.pack(">H", len(server_name)) + server_name
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def dial(target, port):
    stream = socket.create_connection((target if way == "direct" else "127.0.0.1", port if way == "direct" else int(way)))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if way != "direct":
        stream.sendall(f"CONNECT {target}:{port} HTTP/1.1\r\nHost: {target}:{port}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += stream.recv(1)
        if b" 200 " not in answer.split(b"\r\n")[0]:
            sys.exit(answer.decode())
    return stream


def open_one(target, port=443):
    stream = dial(target, port)
    stream.sendall(hello(b"good.example"))
    if stream.recv(1) != b"+":
        sys.exit("the connection was not made")
    return stream


target = socket.gethostbyname(host)
if work == "bytes":
    stream = open_one(target)
    left = count << 20
    begun = time.monotonic()
    stream.sendall(struct.pack(">Q", left))
    space = bytearray(1 << 20)
    while left > 0:
        got = stream.recv_into(space)
        if not got:
            sys.exit("it ended early")
        left -= got
    print(time.monotonic() - begun)
elif work == "setup":
    times = []
    for _ in range(count):
        begun = time.monotonic()
        stream = open_one(target)
        times.append(time.monotonic() - begun)
        stream.close()
    print(statistics.median(times) * 1000)
elif work == "idle":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = [open_one(target, 8444) for _ in range(count)]
    print("held", flush=True)
    sys.stdin.read()
elif work == "names":
    question = b"\xab\xcd\x01\x00\0\x01\0\0\0\0\0\0\x04good\x07example\0\0\x01\0\x01"
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(5)
    udp.connect(("127.0.0.1", int(way)) if way != "direct" else ("1.1.1.1", 53))
    times = []
    for _ in range(count):
        begun = time.monotonic()
        udp.send(question)
        udp.recv(4096)
        times.append(time.monotonic() - begun)
    print(statistics.median(times) * 1000)
