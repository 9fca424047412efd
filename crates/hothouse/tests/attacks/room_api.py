"""Raw requests on the socket of the room's API. Prints one line for each: what was tried, the status."""
import json, socket, sys

SOCKET = "/run/hothouse/api.sock"


def raw(data):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(SOCKET)
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass  # answered before all was sent
    answer = b""
    while True:
        try:
            part = s.recv(65536)
        except (ConnectionResetError, socket.timeout):
            break
        if not part:
            break
        answer += part
    s.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ")[1].decode() if head.startswith(b"HTTP/1.1 ") else "closed"
    return status, body.decode("utf8", "replace")


def request(method, path, body=None, headers=()):
    text = "" if body is None else (body if isinstance(body, str) else json.dumps(body))
    lines = [f"{method} {path} HTTP/1.1", "Host: hothouse"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(text.encode())}"]
    return raw(("\r\n".join(lines) + "\r\n\r\n" + text).encode())


def told(what, answer):
    status, body = answer
    leak = any(word in body for word in sys.argv[1:])
    print(f"{what}: {status}{' LEAK ' + body[:300] if leak else ''}")


other = sys.argv[1]
for what, method, path, body in [
    ("own", "GET", "/v1/sandboxes/find?folder=/", None),
    ("name", "GET", f"/v1/sandboxes/find?sandbox={other}&folder=/", None),
    ("project and name", "GET", f"/v1/sandboxes/find?sandbox=shop/{other}&folder=/", None),
    ("two names", "GET", f"/v1/sandboxes/find?sandbox=a&sandbox={other}&folder=/", None),
    ("dots", "GET", f"/v1/sandboxes/find?sandbox=../{other}&folder=/", None),
    ("encoded path", "GET", "/v1/%73ecrets?folder=/", None),
    ("path with dots", "GET", "/v1/logs/../secrets?folder=/", None),
    ("two slashes", "GET", "//v1/secrets?folder=/", None),
    ("absolute", "GET", "http://hothouse/v1/secrets?folder=/", None),
    ("secrets", "GET", "/v1/secrets?folder=/", None),
    ("nuke", "POST", "/v1/nuke", {}),
    ("stop", "POST", "/v1/daemon/stop", {}),
    ("fork", "POST", "/v1/sandboxes", {"name": "x", "folder": "/"}),
    ("delete", "POST", "/v1/sandboxes/delete", {"sandbox": other, "folder": "/", "force": True}),
    ("allow", "POST", "/v1/egress/allow", {"folder": "/", "rules": ["evil.example"]}),
    ("answer", "POST", "/v1/asks/answer", {"id": "ask_0000000000000000", "allow": True}),
    ("mark elsewhere", "POST", "/v1/timeline/mark", {"sandbox": other, "folder": "/", "name": "m"}),
    ("mark twice named", "POST", "/v1/timeline/mark", '{"sandbox":"a","folder":"/","name":"m","sandbox":"%s"}' % other),
    ("not an object", "POST", "/v1/timeline/mark", "[]"),
    ("too large", "POST", "/v1/timeline/mark", {"folder": "/", "name": "m" * (2 << 20)}),
    ("file outside", "GET", "/v1/artifacts?folder=/&file=../../daemon.lock", None),
    ("file absolute", "GET", "/v1/artifacts?folder=/&file=/etc/passwd", None),
    ("no such", "GET", "/v1/no-such", None),
    ("method", "DELETE", "/v1/sandboxes", None),
    ("connect", "CONNECT", "hothouse:443", None),
]:
    told(what, request(method, path, body))
for name, value in [
    ("hothouse-build", "999.0.0+1"),
    ("hothouse-sandbox", other),
    ("x-hothouse-key", "1"),
    ("authorization", "Bearer root"),
    ("x-forwarded-for", "127.0.0.1"),
]:
    told(f"header {name}", request("GET", "/v1/sandboxes?folder=/", None, [(name, value)]))
for run in sys.argv[2:]:
    told("foreign run", request("GET", f"/v1/timeline?folder=/&run={run}"))
    told("foreign verify", request("GET", f"/v1/timeline/verify?run={run}"))
    told("foreign logs", request("GET", f"/v1/logs?folder=/&run={run}"))
    told("foreign summary", request("POST", "/v1/summary", {"folder": "/", "run": run}))
    told("foreign file", request("GET", f"/v1/artifacts?folder=/&run={run}&file=env.sh"))
told("pipelined", raw(b"GET /v1/sandboxes HTTP/1.1\r\nHost: a\r\n\r\nPOST /v1/nuke HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"))
told("smuggled", raw(b"POST /v1/timeline/mark HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /v1/nuke HTTP/1.1\r\n\r\n"))
told("upgrade", raw(b"GET /v1/sandboxes HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"))
told("gibberish", raw(b"\x00\x01\x02\xff\r\n\r\n"))
told("http2", raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
