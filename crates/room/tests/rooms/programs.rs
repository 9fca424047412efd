//! Programs that developers run, as agent and as the room's root.

use super::host::{hosts, program, ran};
use hothouse_testkit::skip;
use std::path::Path;

pub(crate) fn have(name: &str) -> bool {
    let found = ["/usr/bin", "/usr/local/bin", "/usr/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists());
    if !found {
        skip("a program in a room", name);
    }
    found
}

#[test]
fn postgres_initialises_starts_and_answers() {
    if !have("initdb") || !have("psql") {
        return;
    }
    for host in hosts() {
        let room = host.room();
        let line = "export PGDATA=$HOME/pg; initdb -A trust >/dev/null && pg_ctl -w -o '-k /tmp -c fsync=off' start >/dev/null \
            && psql -h /tmp -U agent -Atc 'select 6*7' postgres; psql -h 127.0.0.1 -U agent -Atc 'select 1' postgres; pg_ctl -m fast stop >/dev/null";
        let seen = room.sh(line);
        assert_eq!(seen.out, "42\n1\n", "{}: {}", host.mode, seen.err);
    }
}

#[test]
fn chromium_takes_a_picture_of_a_page() {
    if !have("chromium") {
        return;
    }
    for host in hosts() {
        let room = host.room();
        let line = "timeout 60 chromium --headless --disable-gpu --no-first-run --hide-scrollbars --window-size=40,30 \
            --screenshot=$PWD/shot.png 'data:text/html,<body style=background:%2300ff00>' >chromium.log 2>&1; echo $?";
        let mut seen = room.sh(line);
        if seen.out != "0\n" {
            // The room already is a sandbox.
            skip("Chromium's own sandbox in a room", "a kernel that lets a room nest namespaces");
            seen = room.sh(&line.replace("--headless", "--headless --no-sandbox"));
        }
        assert_eq!(seen.out, "0\n", "{}: {}", host.mode, room.sh("tail -5 chromium.log").out);
        let green = "import struct,zlib
data=open('shot.png','rb').read(); at=8; body=b''
while at<len(data):
    n,kind=struct.unpack('>I4s',data[at:at+8]); chunk=data[at+8:at+8+n]; at+=12+n
    if kind==b'IHDR': w,h,depth,colour=struct.unpack('>IIBB',chunk[:10])
    if kind==b'IDAT': body+=chunk
rows=zlib.decompress(body); step=4 if colour==6 else 3
first=rows[1:1+step][:3]
print(w,h,tuple(first))";
        assert_eq!(room.python(green).out, "40 30 (0, 255, 0)\n", "{}", host.mode);
    }
}

#[test]
fn a_granted_toolchain_builds_as_agent() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let toolchains = home.join(".rustup/toolchains");
    let found = std::fs::read_dir(&toolchains).into_iter().flatten().flatten();
    let Some(toolchain) =
        found.map(|entry| entry.path()).find(|path| path.join("bin/cargo").exists())
    else {
        return skip("a granted toolchain", "one below ~/.rustup/toolchains");
    };
    for host in hosts() {
        let room = host.prepare();
        let granted = room.worktree.with_extension("toolchain");
        // An ordinary user cannot be granted what is in root's home, but can have hard links to it.
        let linked = ran(program("cp").arg("-al").arg(&toolchain).arg(&granted));
        if linked.code != Some(0) {
            skip("a granted toolchain", "a file system shared with the rooms of the test");
            continue;
        }
        room.start(&["--tool", granted.to_str().unwrap()]);
        let line = format!(
            "export PATH={}/bin:$PATH CARGO_HOME=$HOME/.cargo; cargo new --quiet --vcs none hello 2>/dev/null && cd hello && cargo run --quiet --offline",
            granted.display()
        );
        let seen = room.sh(&line);
        assert!(program("rm").arg("-rf").arg(&granted).status().unwrap().success());
        assert_eq!(seen.out, "Hello, world!\n", "{}: {}", host.mode, seen.err);
    }
}

#[test]
fn common_tools_work_as_agent() {
    for host in hosts() {
        let room = host.room();
        if have("gcc") {
            let built = room.sh("printf '#include <stdio.h>\\nint main(){puts(\"built\");}' > a.c && gcc a.c -o a && ./a");
            assert_eq!(built.out, "built\n", "{}: {}", host.mode, built.err);
        }
        if have("node") {
            let served = room.sh("node -e 'require(\"http\").createServer((q,s)=>s.end(\"ok\")).listen(80,()=>require(\"http\").get(\"http://localhost:80\",r=>r.on(\"data\",d=>{console.log(String(d));process.exit()})))'");
            assert_eq!(served.out, "ok\n", "{}: {}", host.mode, served.err);
        }
        if have("git") {
            let made = room.sh("git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s");
            assert_eq!(made.out, "x\n", "{}: {}", host.mode, made.err);
        }
        if have("redis-server") {
            let asked = room.sh("redis-server --port 6400 --save '' --daemonize yes >/dev/null; for i in 1 2 3 4 5 6 7 8 9; do redis-cli -p 6400 ping 2>/dev/null && break; sleep 0.2; done; redis-cli -p 6400 shutdown nosave");
            assert_eq!(asked.out, "PONG\n", "{}: {}", host.mode, asked.err);
        }
        assert_eq!(
            room.sh("/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'print(1)'").out,
            "1\n"
        );
        if have("bwrap") {
            assert_eq!(
                room.sh("bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all id -u").out,
                "1000\n",
                "{}",
                host.mode
            );
        }
    }
}
