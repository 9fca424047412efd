# Asks the same thing of the API and of a tool of MCP, in turns: BINARY STATE ROUNDS. Prints both medians in milliseconds.
import glob, http.client, json, os, socket, subprocess, sys, time

binary, state, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


version = subprocess.run([binary, "version", "--json"], capture_output=True, text=True).stdout
version = json.loads(version)
build = f"{version['version']}+{int(os.stat(binary).st_mtime)}"
path = next(p for p in glob.glob(f"{state}/hothouse/**/*.sock", recursive=True) if "api" in p or "daemon" in p)
api = Unix(path)
query = f"/v1/sandboxes/find?sandbox=a&folder={os.getcwd()}"


def ask_api():
    api.request("GET", query, headers={"hothouse-build": build})
    answer = api.getresponse()
    body = answer.read()
    assert answer.status == 200, (answer.status, body[:300])


server = subprocess.Popen([binary, "mcp", "-w", "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
number = 0


def say(method, params):
    global number
    number += 1
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert answer["id"] == number and "result" in answer, answer
    return answer["result"]


def ask_tool():
    result = say("tools/call", {"name": "status", "arguments": {}})
    assert not result.get("isError"), result


say("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}})
times = {ask_api: [], ask_tool: []}
for turn in range(rounds + 20):
    for ask in times:
        begun = time.perf_counter()
        ask()
        if turn >= 20:
            times[ask].append((time.perf_counter() - begun) * 1000)
server.stdin.close()
server.wait()
median = lambda all: sorted(all)[len(all) // 2]
print(median(times[ask_api]), median(times[ask_tool]))
