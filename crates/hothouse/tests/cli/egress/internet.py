"""The Internet of the tests: DNS, HTTP and HTTPS on one loopback address, and a log of what came.

usage: internet.py ADDRESS CERTIFICATE KEY LOG NAMES
NAMES is a JSON object from names to lists of addresses. Prints the port of DNS once all is open.
"""
import base64
import gzip
import hashlib
import hmac
import json
import socket
import ssl
import struct
import sys
import threading

address, certificate, key, log_path, names = sys.argv[1:6]
names = json.loads(names)
lock = threading.Lock()
counts = {}


def log(line):
    with lock, open(log_path, "a") as file:
        file.write(line + "\n")


def answer(question):
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode("latin-1"))
        at += 1 + question[at]
    kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
    name = ".".join(labels).lower()
    log(f"dns {name} {kind}")
    known = names.get(name)
    head = question[:2] + (b"\x81\x80" if known is not None else b"\x81\x83")
    records = b""
    count = 0
    for text in known or []:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        if kind == (28 if ":" in text else 1):
            data = socket.inet_pton(family, text)
            records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data
            count += 1
    return head + struct.pack(">HHHH", 1, count, 0, 0) + question[12 : at + 5] + records


def serve_datagrams(udp):
    while True:
        question, asker = udp.recvfrom(4096)
        udp.sendto(answer(question), asker)


def exactly(stream, count):
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def serve_names(stream):
    length = struct.unpack(">H", exactly(stream, 2))[0]
    reply = answer(exactly(stream, length))
    stream.sendall(struct.pack(">H", len(reply)) + reply)


# What the host of the tests knows as the secret key of AWS.
AWS_KEY = "the-real-key-of-aws-0123456789abcdefghij"


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def signed_by_aws(method, target, headers, body):
    """Checks a signature as S3 does, of the head and of each piece of the body; what it was, or what is wrong."""
    fields = dict(part.strip().split("=", 1) for part in headers["authorization"].split(" ", 1)[1].split(","))
    scope = fields["Credential"].split("/", 1)[1]
    names = fields["SignedHeaders"].split(";")
    path, _, query = target.partition("?")
    pairs = sorted(pair if "=" in pair else pair + "=" for pair in query.split("&") if pair)
    kind = headers["x-amz-content-sha256"]
    canonical = "\n".join(
        [method, path, "&".join(pairs)]
        + [f"{name}:{' '.join(headers.get(name, '').split())}" for name in names]
        + ["", ";".join(names), kind]
    )
    key = ("AWS4" + AWS_KEY).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    when = headers["x-amz-date"] + "\n" + scope
    last = mac(key, f"AWS4-HMAC-SHA256\n{when}\n{sha256(canonical.encode())}").hex()
    if last != fields["Signature"]:
        return "the head is not signed"
    if not kind.startswith("STREAMING-"):
        return kind if kind == "UNSIGNED-PAYLOAD" else ("whole" if kind == sha256(body) else "the body is another")
    while True:
        line, body = body.split(b"\r\n", 1)
        size, _, rest = line.partition(b";")
        size = int(size, 16)
        if kind.startswith("STREAMING-AWS4"):
            text = f"AWS4-HMAC-SHA256-PAYLOAD\n{when}\n{last}\n{sha256(b'')}\n{sha256(body[:size])}"
            last = mac(key, text).hex()
            if rest.decode() != "chunk-signature=" + last:
                return "a piece is not signed"
        if size == 0:
            break
        body = body[size + 2 :]
    lines = [line.decode() for line in body.split(b"\r\n") if line]
    if kind == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER":
        name, value = lines.pop().split(":")
        text = f"AWS4-HMAC-SHA256-TRAILER\n{when}\n{last}\n{sha256(''.join(line + chr(10) for line in lines).encode())}"
        if name != "x-amz-trailer-signature" or value != mac(key, text).hex():
            return "the trailers are not signed"
    return kind


def chunked(file):
    body = b""
    while size := int(file.readline(65536).split(b";")[0], 16):
        body += file.read(size)
        file.readline(65536)
    file.readline(65536)
    return body


def serve_requests(stream, scheme):
    file = stream.makefile("rb")
    while True:
        line = file.readline(65536)
        if not line:
            return
        headers = {}
        while True:
            header = file.readline(65536).strip()
            if not header:
                break
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            body = chunked(file)
        else:
            body = file.read(int(headers.get("content-length", 0)))
        host = headers.get("host", "-")
        log(f"{scheme} {line.decode('latin-1').strip()} {host}")
        if "authorization" in headers:
            log(f"{scheme} authorization {host} {headers['authorization']}")
        words = line.split()
        if len(words) != 3:
            return
        path = words[1].decode("latin-1")
        if headers.get("authorization", "").startswith("AWS4-HMAC-SHA256"):
            log(f"aws {path.partition('?')[0]} {signed_by_aws(words[0].decode(), path, headers, body)}")
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"0\"\r\n\r\n")
            continue
        if path in ("/oauth/token", "/token", "/v1/oauth/token"):
            # A vendor that renews logins; each token that renews is taken once.
            text = body.decode()
            with lock:
                counts[text] = counts.get(text, 0) + 1
                nth = len(counts)
                is_good = "dead" not in text and counts[text] == 1
            log(f"renew {host} {is_good} {text}")
            claims = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800, "nth": nth}).encode()).decode().rstrip("=")
            good = {"access_token": f"eyJhbGciOiJub25lIn0.{claims}.renewed-{nth}-0123456789", "refresh_token": f"r-{nth}", "expires_in": 3600}
            text = json.dumps(good if is_good else {"error": "invalid_grant"}).encode()
            status = b"200 OK" if is_good else b"400 Bad Request"
            stream.sendall(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(text)) + text)
            continue
        if path in ("/v1/chat/completions", "/v1/fine_tuning/jobs"):
            # A vendor of models.
            log(f"model {headers.get('authorization', '-')}")
            if b"stall" in body:
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
                file.read(1)
                return
            usage = {"prompt_tokens": 1000, "completion_tokens": 500}
            kind, text = "application/json", json.dumps({"choices": [], "usage": usage})
            if json.loads(body).get("stream"):
                kind = "text/event-stream"
                text = "".join(f"data: {piece}\n\n" for piece in ['{"choices":[]}', json.dumps({"usage": usage}), "[DONE]"])
            text = text.encode()
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind.encode(), len(text)) + text)
            continue
        if path == "/slow":
            # One line now; the connection then stays open without a byte.
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst\n")
            file.read(1)
            return
        if path == "/echo":
            said = headers.get("authorization", "-")
            log(f"echo {host} {said}")
            text = said.encode() + b"\n"
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            continue
        if path.startswith("/say"):
            # What was sent, a byte at a time: nobody can tell where the host paused.
            text = b"\n".join([path.encode(), headers.get("x-guess", "").encode(), body])
            text += headers.get("authorization", "").encode()
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Said: %s\r\n\r\n" % (len(text), body))
            for byte in text:
                stream.sendall(bytes([byte]))
            continue
        if path.startswith("/json/"):
            # A thing with a number that grows, and what it was asked with.
            with lock:
                counts[path] = counts.get(path, 0) + 1
                said = headers.get("authorization", "-").split(" ")[-1]
                told = {"id": path.split("?")[0].split("/")[2], "nth": counts[path], "said": said, "asked": len(body)}
            text = json.dumps(told).encode()
            stream.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text
            )
            continue
        if path == "/broken":
            said = headers.get("authorization", "-").encode()
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-Said: " + said + b"\r\n\r\n" + said)
            return
        if path == "/gzip-echo":
            # Compressed although it was asked not to be.
            text = gzip.compress((headers.get("authorization", "-") + "\n").encode() * 2000)
            stream.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(text) + text
            )
            continue
        if path == "/ws":
            # One frame, and then whatever comes is sent back as it came.
            key = headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key).digest())
            stream.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n\x81\x05hello"
            )
            while True:
                # One at a time: `read` would wait for all it was asked for.
                part = file.read1(4096)
                if not part:
                    log(f"ws of {host} ended")
                    return
                stream.sendall(part)
        if path == "/redirect":
            stream.sendall(
                b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"
            )
            continue
        text = f"hello {host} {len(body)}\n".encode()
        stream.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: text/plain\r\n\r\n" % len(text) + text
        )
        if headers.get("connection") == "close":
            return


def listen(port, serve, wrap=None):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(64)

    def one(stream):
        try:
            serve(wrap(stream) if wrap else stream)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            stream.close()

    def accept():
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=one, args=(stream,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
try:
    listen(80, lambda stream: serve_requests(stream, "http"))
    listen(443, lambda stream: serve_requests(stream, "https"), lambda s: context.wrap_socket(s, server_side=True))
    listen(8443, lambda stream: serve_requests(stream, "https8443"), lambda s: context.wrap_socket(s, server_side=True))
except PermissionError:
    print("refused", flush=True)
    sys.exit(0)
while True:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        tcp.bind(("127.0.0.1", udp.getsockname()[1]))
        break
    except OSError:
        # A port that is free for datagrams need not be free for connections.
        udp.close()
        tcp.close()
threading.Thread(target=serve_datagrams, args=(udp,), daemon=True).start()
tcp.listen(16)


def accept_names():
    while True:
        stream, _ = tcp.accept()
        try:
            serve_names(stream)
        except (OSError, EOFError):
            pass
        stream.close()


threading.Thread(target=accept_names, daemon=True).start()
print(udp.getsockname()[1], flush=True)
threading.Event().wait()
