//! The network of a room: nothing leaves, and nothing hangs.

use super::host::{hosts, ran};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn without_a_daemon_tcp_is_reset_names_fail_and_datagrams_are_refused_immediately() {
    for host in hosts() {
        let room = host.room();
        let script = "
import socket,time
def go(name,f):
    t=time.time()
    try: f(); print(name,'OPEN')
    except Exception as e: print(name,type(e).__name__, 'slow' if time.time()-t>1 else 'fast')
def tcp(family,address):
    s=socket.socket(family); s.settimeout(5); s.connect((address,443)); s.recv(1) or (_ for _ in ()).throw(ConnectionResetError())
go('v4',lambda: tcp(socket.AF_INET,'93.184.216.34'))
go('v6',lambda: tcp(socket.AF_INET6,'2606:2800::1'))
go('name',lambda: socket.getaddrinfo('example.com',80))
go('quic',lambda: socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('1.2.3.4',443)))
l=socket.socket(); l.bind(('127.0.0.1',80)); l.listen(); socket.create_connection(('localhost',80)); print('loopback works')
";
        let seen = room.python(script);
        let expected = "v4 ConnectionResetError fast\nv6 ConnectionResetError fast\nname gaierror fast\nquic PermissionError fast\nloopback works\n";
        assert_eq!(seen.out, expected, "{}: {}", host.mode, seen.err);
    }
}

#[test]
fn a_daemon_that_takes_the_traffic_sees_where_it_wanted_to_go() {
    for host in hosts() {
        let room = host.room();
        let mut daemon =
            room.roomctl("egress").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(daemon.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "2 2 2\n");
        let got = room.python("import socket; print(socket.create_connection(('93.184.216.34',443),timeout=5).recv(99).decode())");
        assert_eq!(got.out.trim(), "hello from the daemon", "{}", got.err);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "93.184.216.34:443\n");
        daemon.wait().unwrap();
        let after = room.python("import socket; print(socket.create_connection(('93.184.216.34',443),timeout=5).recv(99))");
        assert!(after.err.contains("ConnectionReset"), "{after:?}");
    }
}

#[test]
fn the_daemon_reaches_services_inside_and_opens_sockets_there() {
    for host in hosts() {
        let room = host.room();
        let serve = "import socket\nfor f,a in ((socket.AF_INET6,'::1'),):\n s=socket.socket(f); s.bind((a,3000)); s.listen(); open('up','w'); c,_=s.accept(); c.sendall(b'from inside'); c.close()";
        ran(room
            .roomctl("exec")
            .args(["--detach", "--id", "srv", "--cwd"])
            .arg(&room.worktree)
            .args(["--", "/usr/bin/python3", "-c", serve]));
        while room.host_shell("test -e up").code != Some(0) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(ran(room.roomctl("connect").arg("3000")).out, "from inside");
        assert_eq!(ran(room.roomctl("connect").arg("3001")).code, Some(125));
        let mut daemon = room
            .roomctl("listen")
            .arg("8025")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(daemon.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        room.python(
            "import socket; socket.create_connection(('127.0.0.1',8025)).sendall(b'to the daemon')",
        );
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!((line.as_str(), rest.as_str()), ("8025\n", "to the daemon"));
        daemon.wait().unwrap();
    }
}

#[test]
fn a_daemon_that_opens_a_port_to_datagrams_learns_where_each_wanted_to_go() {
    for host in hosts() {
        let room = host.room();
        // From one socket to several destinations, two of which differ only in a port that another
        // socket has already used, and with the maximum size of a datagram.
        let script = "
import socket
def go(family, address, port, size, udp=None):
    udp = udp or socket.socket(family, socket.SOCK_DGRAM)
    udp.settimeout(5)
    try:
        udp.sendto(b'x' * size, (address, port))
        text, sender = udp.recvfrom(999)
        print(text.decode(), sender[:2] == (address, port))
    except OSError as error: print(type(error).__name__)
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
go(socket.AF_INET, '1.2.3.4', 4433, 10, one)
go(socket.AF_INET, '1.2.3.5', 4433, 65507, one)
go(socket.AF_INET6, '2001:db8::7', 4433, 65507)
go(socket.AF_INET, '1.2.3.4', 4434, 10, one)
";
        let mut daemon = room
            .roomctl("datagrams")
            .args(["4433", "3"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(daemon.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "open\n", "{}", host.mode);
        let seen = room.python(script);
        let expected = "1.2.3.4:4433 10 True\n1.2.3.5:4433 65507 True\n\
                        [2001:db8::7]:4433 65507 True\nPermissionError\n";
        assert_eq!(seen.out, expected, "{}: {}", host.mode, seen.err);
        assert!(daemon.wait().unwrap().success());
    }
}

#[test]
fn datagrams_are_refused_immediately_when_their_daemon_is_gone() {
    for host in hosts() {
        let room = host.room();
        let mut daemon = room
            .roomctl("datagrams")
            .args(["4433", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(daemon.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        room.python(
            "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('1.2.3.4', 4433))",
        );
        daemon.wait().unwrap();
        let script = "
import socket, time
for family, address in [(socket.AF_INET, '1.2.3.4'), (socket.AF_INET6, '2001:db8::7')]:
    # Until PID 1 has noticed.
    begun = time.monotonic()
    while True:
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.connect((address, 4433))
        udp.settimeout(1)
        try: udp.send(b'x'); print('ANSWER', udp.recv(9)); break
        except TimeoutError: continue
        except ConnectionRefusedError: print('refused', time.monotonic() - begun < 10); break
";
        let seen = room.python(script);
        assert_eq!(seen.out, "refused True\nrefused True\n", "{}: {}", host.mode, seen.err);
        // The next one continues as if nothing had happened.
        let mut daemon = room
            .roomctl("datagrams")
            .args(["4433", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(daemon.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let seen = room.python("import socket; udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.settimeout(5); udp.sendto(b'again', ('1.2.3.4', 4433)); print(udp.recv(99).decode())");
        assert_eq!(seen.out, "1.2.3.4:4433 5\n", "{}: {}", host.mode, seen.err);
        daemon.wait().unwrap();
    }
}

/// Prints the interfaces that a program sees, and what works on the one that is not loopback.
const LINK: &str = "
import fcntl, socket, struct
names = [name for _, name in socket.if_nameindex()]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(call, name): return fcntl.ioctl(udp, call, struct.pack('256s', name.encode()))
UP, LOOPBACK, RUNNING = 1, 8, 64
flags = struct.unpack('16xH', ask(0x8913, 'eth0')[:18])[0]
print(names, flags & (UP | LOOPBACK | RUNNING) == UP | RUNNING, socket.inet_ntoa(ask(0x8915, 'eth0')[20:24]))
print([line.split()[:2] for line in open('/proc/net/route').readlines()[1:] if line.split()[1] == '00000000'])
# Programs that look for the room's own address meet each other there.
l = socket.socket(); l.bind(('0.0.0.0', 3000)); l.listen()
socket.create_connection(('198.51.100.2', 3000), timeout=5); print('own address works')
def tcp(address, bound=None):
    s = socket.socket(); s.settimeout(3)
    if bound: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bound)
    s.connect(address); return s.recv(99).decode().strip()
def go(name, f):
    try: print(name, f())
    except OSError as error: print(name, type(error).__name__)
go('caught', lambda: tcp(('93.184.216.34', 443)))
go('neighbour', lambda: tcp(('192.0.2.1', 443)))
go('bound', lambda: tcp(('93.184.216.34', 3000), b'eth0'))
go('bound to a neighbour', lambda: tcp(('192.0.2.1', 3000), b'eth0'))
def send(address, bound=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if bound: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bound)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b'x', address)
for address in ('192.0.2.1', '192.0.2.255', '224.0.0.251', '255.255.255.255'):
    go(address, lambda: send((address, 443))); go(address, lambda: send((address, 443), b'eth0'))
";

#[test]
fn a_room_looks_online_and_its_link_is_no_way_around_the_wall() {
    for host in hosts() {
        let room = host.room();
        let mut daemon =
            room.roomctl("egress").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(daemon.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let seen = room.python(LINK);
        let refused: String = ["192.0.2.1", "192.0.2.255", "224.0.0.251", "255.255.255.255"]
            .map(|address| format!("{address} PermissionError\n").repeat(2))
            .concat();
        let expected = format!(
            "['lo', 'eth0'] True 198.51.100.2\n[['eth0', '00000000']]\nown address works\n\
             caught hello from the daemon\nneighbour ConnectionResetError\nbound TimeoutError\n\
             bound to a neighbour TimeoutError\n{refused}"
        );
        assert_eq!(seen.out, expected, "{}: {}", host.mode, seen.err);
        daemon.wait().unwrap();
    }
}
