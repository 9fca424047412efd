"""A host with real TLS that answers small requests, and a client that keeps its connection.

usage: opened.py serve ADDRESS CERTIFICATE KEY
       opened.py ask HOST COUNT [AUTHORITY]    milliseconds: median and 99th percentile of COUNT requests
       opened.py idle HOST COUNT               COUNT connections after one request each, held until
                                               standard input ends
"""
import os
import resource
import socket
import ssl
import sys
import threading
import time

PORT = 8445
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def one(stream, context):
    try:
        stream = context.wrap_socket(stream, server_side=True)
        seen = b""
        while True:
            part = stream.recv(65536)
            if not part:
                return
            seen += part
            while b"\r\n\r\n" in seen:
                seen = seen.split(b"\r\n\r\n", 1)[1]
                stream.sendall(ANSWER)
    except (OSError, ssl.SSLError):
        pass


def serve(address, certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    threading.stack_size(128 << 10)
    listener = socket.create_server((address, PORT), backlog=4096)
    print("serving", flush=True)
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=one, args=(stream, context), daemon=True).start()


def dial(host, context):
    stream = socket.create_connection((host, PORT))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(stream, server_hostname="opened.example")


def ask(stream):
    token = os.environ.get("TOKEN", "none")
    head = f"GET / HTTP/1.1\r\nHost: opened.example:{PORT}\r\nAuthorization: Bearer {token}\r\n\r\n"
    stream.sendall(head.encode())
    seen = b""
    while not seen.endswith(b"\r\n\r\nok"):
        part = stream.recv(65536)
        if not part:
            sys.exit(seen.decode())
        seen += part


def main(work, host, *rest):
    if work == "serve":
        return serve(host, *rest)
    count, context = int(rest[0]), ssl.create_default_context(cafile=rest[1] if len(rest) > 1 else None)
    if work == "ask":
        stream, times = dial(host, context), []
        for _ in range(count):
            begun = time.monotonic()
            ask(stream)
            times.append((time.monotonic() - begun) * 1000)
        times.sort()
        print(times[count // 2], times[count * 99 // 100])
    else:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        held = []
        for _ in range(count):
            held.append(dial(host, context))
            ask(held[-1])
        # What was kept for a next request is closed by then.
        time.sleep(6)
        print("held", flush=True)
        sys.stdin.read()


main(*sys.argv[1:])
