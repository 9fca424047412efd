//! Masks and the renaming of masked files; file capabilities, which cannot be set.

use super::host::{Room, hosts, is_root, ran};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

const RENAME: &str = include_str!("../../../hothouse/tests/attacks/rename.py");

/// Returns a host user other than the room's agent. In root mode the worktree has its own map, in
/// which a file with an unmapped owner cannot even be renamed.
fn stranger(mode: &str) -> u32 {
    if mode == "root" { 300_005 } else { 64_999 }
}

fn attack(room: &Room, words: &[&str]) -> String {
    let tree = room.worktree.to_str().unwrap();
    let seen = room.exec(&[&["/usr/bin/python3", "-c", RENAME, tree], words].concat());
    assert_eq!(seen.code, Some(0), "{}: the attack itself broke: {}", room.host.mode, seen.err);
    seen.out.trim_end().to_owned()
}

fn belong(path: &Path, owner: u32, mode: u32) {
    chown(path, Some(owner), None).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn what_a_mask_covers_is_guarded_by_its_rights_when_it_is_moved() {
    for host in hosts() {
        if host.mode == "own" {
            continue;
        }
        let room = host.prepare();
        // Not at the top, where the user's files cannot be renamed at all.
        room.host_shell("mkdir -p deep sub; for f in deep/.env sub/.env; do echo secret >$f; done");
        let files = ["deep/.env", "sub/.env"].map(|name| room.worktree.join(name));
        let masks = files.each_ref().map(|path| path.to_str().unwrap());
        room.start(&["--mask", masks[0], "--mask", masks[1], "--alias", "/workspace"]);
        assert_eq!(room.sh("cat deep/.env sub/.env /workspace/deep/.env").out, "", "{}", host.mode);
        let attacks = [&["read", "deep/.env"][..], &["read-parent", "sub/.env"]];
        // Control: a mount alone does not protect anything.
        for words in attacks {
            assert_eq!(attack(&room, words), r"OPEN 'secret\n'", "{} {words:?}", host.mode);
        }
        files.iter().for_each(|path| belong(path, stranger(host.mode), 0o644));
        for words in attacks {
            assert_eq!(attack(&room, words), r"OPEN 'secret\n'", "{} {words:?}", host.mode);
        }
        files.iter().for_each(|path| belong(path, stranger(host.mode), 0o600));
        for words in attacks {
            assert_eq!(attack(&room, words), "held EACCES", "{} {words:?}", host.mode);
        }
        if host.mode == "range" {
            let line = format!("cd {} && mv sub moved && cat moved/.env", room.worktree.display());
            let seen = room.root_sh(&line);
            assert!(!seen.out.contains("secret"), "{}: {seen:?}", host.mode);
        }
        // A host program that replaces the file removes the mount, but not the permissions.
        let fresh = room.worktree.join("fresh");
        std::fs::copy(&files[0], &fresh).unwrap();
        belong(&fresh, stranger(host.mode), 0o600);
        std::fs::rename(&fresh, &files[0]).unwrap();
        let seen = room.sh("cat deep/.env");
        assert!(seen.out.is_empty() && seen.err.contains("denied"), "{}: {seen:?}", host.mode);
    }
}

/// Sets file capabilities, as the current user and as root of a nested namespace.
const SET_CAPABILITY: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def give(path):
    for value in (struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0), struct.pack("<IIIIII", 0x03000001, 1 << 7, 0, 0, 0, 0)):
        if libc.setxattr(path.encode(), b"security.capability", value, len(value), 0) == 0: return "given"
    return os.strerror(ctypes.get_errno())
name = sys.argv[1]
open(name, "w").close()
print(give(name))
user, group = os.geteuid(), os.getegid()
libc.unshare(0x10000000)
for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    open(f"/proc/self/{file}", "w").write(text)
print(give(name))
"#;

#[test]
fn no_file_gets_a_capability_neither_from_root_nor_from_a_nested_one() {
    let refused = "Operation not supported\nOperation not supported\n";
    for host in hosts() {
        let room = host.room();
        let name = room.worktree.join("capable");
        let words = ["/usr/bin/python3", "-c", SET_CAPABILITY, name.to_str().unwrap()];
        let agent = room.exec(&words);
        assert_eq!(agent.out, refused, "{}: {}", host.mode, agent.err);
        if host.has_root() {
            let words = [&words[..3], &["/usr/capable"]].concat();
            let root = ran(room.roomctl("exec").args(["--root", "--"]).args(words));
            assert_eq!(root.out, refused, "{}: {}", host.mode, root.err);
        }
        // Other attributes can be set.
        let plain = room.python("import os; os.setxattr('README', 'user.a', b'x' * 21)");
        assert_eq!(plain.code, Some(0), "{}: {}", host.mode, plain.err);
        // Control: outside a room, root can set them, and so can the root of a namespace.
        let control = room.worktree.join("control");
        let outside = [&words[..3], &[control.to_str().unwrap()]].concat();
        let seen = ran(host.command(outside[0]).args(&outside[1..]));
        assert!(seen.out.ends_with("\ngiven\n"), "{}: {seen:?}", host.mode);
        let mut value = [0_u8; 64];
        let kept = rustix::fs::getxattr(&name, "security.capability", &mut value);
        assert_eq!(kept, Err(rustix::io::Errno::NODATA), "{}", host.mode);
    }
}

#[test]
fn a_socket_that_the_room_may_not_write_does_not_answer_wherever_it_is_moved() {
    for host in hosts().into_iter().filter(|host| ["root", "range"].contains(&host.mode)) {
        let room = host.room();
        room.sh("mkdir deep");
        let path = room.worktree.join("deep/late.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || listener.incoming().count());
        // Control: with permissions for everyone it answers.
        belong(&path, stranger(host.mode), 0o777);
        assert_eq!(
            attack(&room, &["connect", "deep/late.sock"]),
            "OPEN 'answered'",
            "{}",
            host.mode
        );
        // Created as programs do it, after the room was started.
        belong(&path, stranger(host.mode), 0o755);
        assert_eq!(attack(&room, &["connect", "deep/late.sock"]), "held EACCES", "{}", host.mode);
    }
}

/// A host file that is removed on drop.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        hothouse_host::files::remove_file(&self.0).unwrap();
    }
}

#[test]
fn what_the_hosts_root_makes_private_later_is_out_of_reach() {
    if !is_root() {
        return hothouse_testkit::skip("files made private later", "root");
    }
    for host in hosts() {
        let first = host.room();
        let name = format!("hh-private-{}-{}", host.mode, std::process::id());
        let planted = Planted(Path::new("/usr/local/share").join(name));
        hothouse_host::files::write(&planted.0, "topsecret").unwrap();
        let look = format!("cat {}", planted.0.display());
        let room = host.room();
        let seen = |line: &str| {
            let as_root = |room: &Room| match host.has_root() {
                true => room.root_sh(line).out,
                false => String::new(),
            };
            [&first, &room].map(|room| room.sh(line).out + &as_root(room)).concat()
        };
        // Control: a world-readable file is visible.
        std::fs::set_permissions(&planted.0, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(seen(&look).contains("topsecret"), "{}", host.mode);
        for mode in [0o600, 0o640, 0o000] {
            std::fs::set_permissions(&planted.0, PermissionsExt::from_mode(mode)).unwrap();
            let tries = format!(
                "{look}; cp {0} /tmp/x && cat /tmp/x; chmod 644 {0} && {look}; ln {0} /usr/local/y && cat /usr/local/y; mv {0} {0}-z && cat {0}-z",
                planted.0.display()
            );
            assert_eq!(seen(&tries), "", "{} {mode:o}", host.mode);
        }
    }
}

#[test]
fn what_is_masked_in_a_tool_folder_is_not_in_the_room_whatever_the_host_does() {
    for host in hosts() {
        let room = host.prepare();
        let tool = room.worktree.with_extension("tool");
        let line = "mkdir -p TOOL/bin TOOL/deep/er; cd TOOL; chmod 755 . bin deep deep/er; \
                    echo tool >bin/tool; ln -s bin/tool link; \
                    for f in credentials deep/er/key deep/plain; do echo $f-text >$f; done; chmod -R a+r .";
        room.host_shell(&line.replace("TOOL", tool.to_str().unwrap()));
        let [credentials, key] = ["credentials", "deep/er/key"].map(|name| tool.join(name));
        let masks = [&credentials, &key].map(|path| path.to_str().unwrap());
        room.start(&["--tool", tool.to_str().unwrap(), "--mask", masks[0], "--mask", masks[1]]);
        let all = format!("cd {} && find . | sort && cat link deep/plain", tool.display());
        let expected = ".\n./bin\n./bin/tool\n./deep\n./deep/er\n./deep/plain\n./link\ntool\ndeep/plain-text\n";
        assert_eq!(room.sh(&all).out, expected, "{}", host.mode);
        // A host program replaces the files, as editors do.
        room.host_shell(&format!(
            "cd {} && for f in credentials deep/er/key; do echo newer >n; chmod 644 n; mv n $f; done",
            tool.display()
        ));
        assert_eq!(room.sh(&all).out, expected, "{}", host.mode);
        let line = format!("cd {} && echo x >bin/tool", tool.display());
        assert_ne!(room.sh(&line).code, Some(0), "{}", host.mode);
        room.stop();
        ran(host.command("rm").arg("-rf").arg(&tool));
    }
}
