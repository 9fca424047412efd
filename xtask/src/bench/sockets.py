"""WebSockets by hand: `serve PORT` echoes, `ask URL COUNT` opens so many at once and has each echoed."""
import asyncio, base64, hashlib, os, ssl, struct, sys, time
from urllib.parse import urlsplit

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def frame(reader):
    first, second = await reader.readexactly(2)
    size = second & 127
    if size == 126:
        (size,) = struct.unpack("!H", await reader.readexactly(2))
    elif size == 127:
        (size,) = struct.unpack("!Q", await reader.readexactly(8))
    mask = await reader.readexactly(4) if second & 128 else b"\0\0\0\0"
    data = await reader.readexactly(size)
    return first & 15, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


async def serve_one(reader, writer):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        key = {name.lower(): value for name, value in headers.items()}.get(b"sec-websocket-key")
        if key is None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            return
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:
            kind, data = await frame(reader)
            if kind == 8:
                return
            writer.write(bytes([128 | kind, len(data)]) + data)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve(port):
    server = await asyncio.start_server(serve_one, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


async def ask(url, count):
    parts = urlsplit(url)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opened, go = asyncio.Semaphore(0), asyncio.Event()
    gate = asyncio.Semaphore(64)

    async def one(number):
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", parts.port or 443, ssl=context, server_hostname=parts.hostname)
            key = base64.b64encode(os.urandom(16))
            host = parts.netloc.encode()
            writer.write(b"GET /echo HTTP/1.1\r\nHost: " + host + b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            want = base64.b64encode(hashlib.sha1(key + GUID).digest())
            assert b" 101 " in head and want in head, head
        opened.release()
        await go.wait()
        text = b"hello %d" % number
        mask = os.urandom(4)
        writer.write(bytes([129, 128 | len(text)]) + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(text)))
        kind, data = await frame(reader)
        assert (kind, data) == (1, text), (kind, data)
        return writer

    tasks = [asyncio.ensure_future(one(number)) for number in range(count)]
    for _ in range(count):
        await asyncio.wait_for(opened.acquire(), 60)
    begun = time.monotonic()
    go.set()
    writers = await asyncio.wait_for(asyncio.gather(*tasks), 60)
    print("%d at once, all echoed in %.0f ms" % (len(writers), (time.monotonic() - begun) * 1000))


if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(ask(sys.argv[2], int(sys.argv[3])))
