# Opens the dashboard: LINK PID PAGES SECONDS. Prints the median and the worst milliseconds of the overview, and the
# percent of a core that the process takes while so many pages are open and nothing happens.
import http.client, os, re, socket, ssl, sys, threading, time

link, pid, pages, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
host, port, path = re.match(r"https://([^/:]+)(?::(\d+))?(/.*)", link).groups()
context = ssl._create_unverified_context()


class Loopback(http.client.HTTPSConnection):
    def connect(self):
        plain = socket.create_connection(("127.0.0.1", int(port or 443)))
        self.sock = context.wrap_socket(plain, server_hostname=host)


def ask(connection, path, cookie=None):
    connection.request("GET", path, headers={"host": f"{host}:{port}" if port else host, **({"cookie": cookie} if cookie else {})})
    return connection.getresponse()


connection = Loopback(host)
entered = ask(connection, path)
entered.read()
cookie = entered.headers["set-cookie"].split(";")[0]
times = []
for turn in range(14):
    time.sleep(1)  # A page is shown as it was rendered for less than that.
    begun = time.perf_counter()
    answer = ask(connection, "/", cookie)
    body = answer.read()
    times.append((time.perf_counter() - begun) * 1000)
    assert answer.status == 200 and body.count(b"class=\"row ") >= 50, (answer.status, len(body))
times = sorted(times[2:])


def watch():
    live = ask(Loopback(host), "/live?at=%2F", cookie)
    while live.read1(65536):
        pass


for _ in range(pages):
    threading.Thread(target=watch, daemon=True).start()


def used():
    words = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


time.sleep(15)  # Until pages are looked at rarely.
before, begun = used(), time.perf_counter()
time.sleep(seconds)
share = (used() - before) / (time.perf_counter() - begun) * 100
print(times[len(times) // 2], times[-1], share)
