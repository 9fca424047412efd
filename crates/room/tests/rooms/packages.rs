//! Debian packages in a room: installed, replaced and removed by its root.

use super::host::{hosts, program, ran};
use super::programs::have;
use hothouse_testkit::skip;
use std::path::Path;

/// Builds a package with the file `path`, outside any room.
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
        // A package of the host, which the room replaces with a newer version, file by file.
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
fn a_file_of_the_hosts_that_is_diverted_is_replaced_where_it_lies() {
    if !have("dpkg-deb") {
        return;
    }
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let newer = package(&room.worktree, "hostname", "99.0", "/usr/bin/hostname", "newer");
        let divert =
            "dpkg-divert --package other --no-rename --divert /usr/bin/yes --add /usr/bin/hostname";
        let line = "dpkg --force-depends -i";
        // Twice, because only the files of known packages are checked beforehand.
        let seen = room.root_sh(&format!(
            "{line} {newer} >/dev/null && {divert} >/dev/null && {line} {newer} >/dev/null && cat /usr/bin/yes"
        ));
        assert_eq!(seen.out, "newer", "{}: {}", host.mode, seen.err);
    }
}

#[test]
fn a_package_with_setuid_files_installs_without_the_bits() {
    if !have("dpkg-deb") {
        return;
    }
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let script = "set -e; mkdir -p t/DEBIAN t/usr/bin t/var/lib/hh-mail; cp /bin/true t/usr/bin/hh-suid; \
             printf 'Package: hh-suid\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' > t/DEBIAN/control; \
             chmod 4755 t/usr/bin/hh-suid; chmod 2775 t/var/lib/hh-mail; chmod 755 t/DEBIAN; \
             dpkg-deb --root-owner-group -b t x.deb >/dev/null; dpkg-deb -c x.deb | grep -c rws; rm -r t; chmod 644 x.deb";
        let made = room.host_shell(script);
        assert_eq!((made.code, made.out.as_str()), (Some(0), "2\n"), "{}", made.err);
        let deb = room.worktree.join("x.deb");
        let seen = room.root_sh(&format!(
            "cp {} /tmp/x.deb && apt-get -y -qq install /tmp/x.deb >/dev/null && \
             stat -c %a /usr/bin/hh-suid /var/lib/hh-mail && hh-suid && dpkg -V hh-suid && \
             dpkg-deb --field /tmp/x.deb Package && apt-get -y -qq remove hh-suid >/dev/null && ls /usr/bin/hh-suid",
            deb.display()
        ));
        assert_eq!(seen.out, "755\n775\nhh-suid\n", "{}: {}", host.mode, seen.err);
        assert!(seen.err.contains("No such file"), "{}: {}", host.mode, seen.err);
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

/// A maintainer script that sets modes itself.
const SPECIAL_SCRIPT: &str = "#!/bin/sh
set -e
test \"$1\" = configure
chmod 2755 /usr/bin/hh-modes
chmod u+s,g=rxs /usr/bin/hh-modes
install -d -m 2775 -o games -g games /var/lib/hh-modes
chmod 2770 /var/lib/hh-modes
dpkg-statoverride --list /usr/bin/hh-modes >/dev/null || dpkg-statoverride --update --add root games 4754 /usr/bin/hh-modes
";

#[test]
fn scripts_of_packages_that_ask_for_special_modes_continue_without_them() {
    if !have("dpkg-deb") {
        return;
    }
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let script = "set -e; mkdir -p t/DEBIAN t/usr/bin; cp /bin/true t/usr/bin/hh-modes; \
             printf 'Package: hh-modes\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' > t/DEBIAN/control; \
             cat > t/DEBIAN/postinst; chmod 755 t/DEBIAN t/DEBIAN/postinst; \
             dpkg-deb --root-owner-group -b t x.deb >/dev/null; chmod 644 x.deb";
        let made = room.host_shell(&format!("cat <<'END' | ({script})\n{SPECIAL_SCRIPT}END"));
        assert_eq!(made.code, Some(0), "{}", made.err);
        let look = "stat -c '%a %U' /usr/bin/hh-modes /var/lib/hh-modes";
        let deb = room.worktree.join("x.deb");
        let seen = room.root_sh(&format!(
            "dpkg -i {0} >/dev/null && {look} && dpkg -i {0} >/dev/null && {look} && hh-modes && \
             chmod u+s /usr/bin/hh-modes && {look} && dpkg --purge hh-modes >/dev/null",
            deb.display()
        ));
        let expected = ["754", "755", "755"].map(|mode| format!("{mode} root\n770 games\n"));
        assert_eq!(seen.out, expected.concat(), "{}: {}", host.mode, seen.err);
        assert_eq!(seen.code, Some(0), "{}: {}", host.mode, seen.err);
        let refused = room.sh("touch mine && chmod u+s mine");
        assert!(refused.err.contains("not permitted"), "{}: {refused:?}", host.mode);
        let direct = room.root_sh("python3 -c 'import os; os.chmod(\"/usr/bin/env\", 0o4755)'");
        assert!(direct.err.contains("PermissionError"), "{}: {direct:?}", host.mode);
    }
}

#[test]
fn no_special_bit_reaches_the_hosts_disk_through_a_room() {
    for host in hosts() {
        let room = host.room();
        let seen = room.sh("find /usr /etc /var /opt -perm /6000 2>/dev/null");
        assert_eq!(seen.out, "", "{}: what can be seen can be copied up", host.mode);
        if host.has_root() {
            // Changing a host file copies the whole file to the room's own layer.
            let line = "mv /usr/bin/passwd /usr/bin/other && touch /usr/bin/su && touch /usr/bin/mount && su -c true";
            let touched = room.root_sh(line);
            assert_eq!(touched.code, Some(0), "{}: {}", host.mode, touched.err);
        }
        let found = ran(program("find").arg(&room.state).args(["-perm", "/6000"]));
        assert_eq!((found.code, found.out.as_str()), (Some(0), ""), "{}", host.mode);
    }
}

#[test]
fn programs_that_stand_in_for_the_hosts_survive_an_upgrade() {
    if !have("dpkg-deb") {
        return;
    }
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let is_old = room.root_sh("grep -qx /bin/chmod /var/lib/dpkg/info/coreutils.list").code;
        let path = if is_old == Some(0) { "/bin/chmod" } else { "/usr/bin/chmod" };
        let newer = package(&room.worktree, "hh-newer", "1.0", path, "newer");
        let seen = room.root_sh(&format!(
            "dpkg --force-overwrite -i {newer} >/dev/null 2>&1; cat /usr/lib/hothouse/chmod; \
             cmp /usr/bin/chmod /usr/local/bin/sudo && echo ' stands in'"
        ));
        assert_eq!(seen.out, "newer stands in\n", "{}: {}", host.mode, seen.err);
    }
}

#[test]
fn a_package_puts_files_where_the_host_has_a_private_folder() {
    let private = ["/usr/share/polkit-1/rules.d", "/usr/lib/ssl/private", "/usr/lib/cups/backend"];
    let is_private = |path: &&&str| {
        std::fs::metadata(path).is_ok_and(|it| std::os::unix::fs::MetadataExt::mode(&it) & 5 == 0)
    };
    let Some(folder) = private.iter().find(is_private) else {
        return skip("a package beside a private folder", "a private folder below /usr");
    };
    for host in hosts().into_iter().filter(super::host::Host::has_root) {
        let room = host.room();
        let file = format!("{folder}/hh-private");
        let deb = package(&room.worktree, "hh-private", "1.0", &file, "there");
        let seen = room.root_sh(&format!("dpkg -i {deb} >/dev/null && cat {file}"));
        assert_eq!(seen.out, "there", "{}: {}", host.mode, seen.err);
    }
}

#[test]
fn services_of_the_hosts_packages_find_their_folders_and_nothing_in_them() {
    let list = |more: &str| format!("find /var/log /etc/ssl {more} 2>/dev/null | sort");
    let folders =
        "-type d -not -path '/var/log/apt*' -not -path '/etc/ssl/certs*' -printf '%p %m\\n'";
    for host in hosts() {
        let room = host.room();
        // As `nobody`, so that folders which not everyone may read are not searched.
        let outside =
            ran(program("runuser").args(["-u", "nobody", "--", "sh", "-c", &list(folders)]));
        if outside.code != Some(0) {
            return skip("folders as nobody sees them", "runuser");
        }
        let plain = |text: &str| {
            let mode = |line: &str| match line.rsplit_once(' ') {
                Some((path, mode)) => format!("{path} {}", &mode[mode.len() - 3..]),
                None => line.to_owned(),
            };
            text.lines().map(mode).collect::<Vec<_>>()
        };
        let inside = room.sh(&list(folders));
        assert_eq!(plain(&inside.out), plain(&outside.out), "{}", host.mode);
        let files = "find /var/log /etc/ssl/private -type f -not -path '/var/log/apt*'";
        let found = if host.has_root() { room.root_sh(files) } else { room.sh(files) };
        assert_eq!(found.out, "", "{}: {}", host.mode, found.err);
        assert_eq!(room.sh("stat -c %a /run/lock; touch /var/lock/mine").out, "1777\n");
    }
}
