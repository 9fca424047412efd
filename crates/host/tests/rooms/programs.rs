//! Programs that developers run, as agent and as the room's root.

use super::host::{hosts, program, ran};
use std::path::Path;

fn have(name: &str) -> bool {
    let found = ["/usr/bin", "/usr/local/bin", "/usr/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists());
    if !found {
        eprintln!("SKIPPED: {name} is not installed");
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

/// Makes a package that owns `path`, outside any room.
fn package(folder: &Path, name: &str, version: &str, path: &str, content: &str) -> String {
    let tree = folder.join(format!("{name}-{version}"));
    let script = format!(
        "set -e; mkdir -p {t}/DEBIAN {t}$(dirname {path}); printf '{content}' > {t}{path}; \
         printf 'Package: {name}\\nVersion: {version}\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n' > {t}/DEBIAN/control; \
         printf '#!/bin/sh\\nset -e\\ngroupadd -f hh-demo\\nchown root:hh-demo {path}\\n' > {t}/DEBIAN/postinst; chmod 755 {t}/DEBIAN/postinst; \
         dpkg-deb --root-owner-group -b {t} {t}.deb >/dev/null; rm -r {t}; chmod 644 {t}.deb",
        t = tree.display()
    );
    let made = ran(program("sh").arg("-c").arg(script));
    assert_eq!(made.code, Some(0), "{}", made.err);
    format!("{}.deb", tree.display())
}

#[test]
fn packages_install_replace_the_hosts_own_and_go_away_again() {
    if !have("dpkg-deb") {
        return;
    }
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let new = package(&room.worktree, "hh-demo", "1.0", "/usr/share/hh-demo/file", "one");
        let installed = room.root_sh(&format!("dpkg -i {new} >/dev/null && stat -c %G /usr/share/hh-demo/file && cat /usr/share/hh-demo/file"));
        assert_eq!(installed.out, "hh-demo\none", "{}: {}", host.mode, installed.err);
        // A package of the host, which the room replaces, file by file, with a newer one.
        let replaced = room.root_sh("dpkg-query -W -f '${Version}' hostname");
        assert_eq!(replaced.code, Some(0));
        let newer = package(&room.worktree, "hostname", "99.0", "/usr/bin/hostname", "replaced");
        let upgraded = room.root_sh(&format!("dpkg --force-depends -i {newer} >/dev/null && cat /usr/bin/hostname && dpkg-query -W -f '${{Version}}' hostname"));
        assert_eq!(upgraded.out, "replaced99.0", "{}: {}", host.mode, upgraded.err);
        let removed = room.root_sh("dpkg -r hh-demo >/dev/null && dpkg --force-all -r hostname >/dev/null 2>&1; ls /usr/share/hh-demo /usr/bin/hostname 2>&1 | grep -c 'No such'");
        assert_eq!(removed.out, "2\n", "{}: {}", host.mode, removed.err);
        assert!(Path::new("/usr/bin/hostname").exists() || Path::new("/bin/hostname").exists());
    }
}

#[test]
fn apt_runs_as_the_rooms_root() {
    if !have("apt-get") {
        return;
    }
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let deb = package(&room.worktree, "hh-apt", "1.0", "/usr/share/hh-apt/file", "apt");
        let seen = room.root_sh(&format!("apt-get --version >/dev/null && cp {deb} /tmp/x.deb && apt-get -y -qq install /tmp/x.deb >/dev/null && cat /usr/share/hh-apt/file"));
        assert_eq!(seen.out, "apt", "{}: {}", host.mode, seen.err);
    }
}
