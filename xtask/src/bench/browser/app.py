# An app with a page of some size: a style, a script, pictures and two calls of its API.
import http.server, struct, zlib

def png(shade):
    rows = b"".join(b"\0" + bytes([shade, 90, 200]) * 64 for _ in range(64))
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")

PAGE = "<!doctype html><title>Bench</title><link rel=icon href=data:,><link rel=stylesheet href=/style.css><h1>Bench</h1><table>" + "".join(
    f"<tr><td>Row {n}</td><td><button>Buy {n}</button></td></tr>" for n in range(60)) + "</table>" + "".join(
    f"<img src=/{n}.png alt='picture {n}'>" for n in range(6)) + "<script src=/app.js></script>"
FILES = {"/": ("text/html", PAGE.encode()), "/style.css": ("text/css", b"td { padding: 4px }"), "/api": ("application/json", b"{}"),
    "/app.js": ("text/javascript", b"fetch('/api'); fetch('/api'); localStorage.seen = 1; console.log('ready')")}
FILES |= {f"/{n}.png": ("image/png", png(n * 40)) for n in range(6)}

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        kind, body = FILES.get(self.path, ("text/plain", b"nothing"))
        self.send_response(200 if self.path in FILES else 404)
        self.send_header("content-type", kind); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass

http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
