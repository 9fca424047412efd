//! A worktree that is an overlay, as for root: agent and the host's root take turns working in it.

use super::host::{Room, host, program};
use hothouse_host::mount::{Overlay, mount_overlay, unmount_tree};
use hothouse_host::owners::{self, Owner, Settling};
use std::path::{Path, PathBuf};

const AGENT: Owner = Owner { user: 301_000, group: 301_000 };

/// A mounted worktree with a repository, unmounted on drop.
struct Mounted {
    room: Room,
    beside: PathBuf,
}

impl Mounted {
    fn new() -> Option<Self> {
        let room = host("root")?.prepare();
        let beside = room.worktree.with_extension("beside");
        let mounted = Self { room, beside };
        let at = |name: &str| mounted.beside.join(name);
        assert!(program("mkdir").arg(&mounted.beside).status().unwrap().success());
        for name in ["lower", "upper", "work"] {
            assert!(program("mkdir").arg(at(name)).status().unwrap().success());
        }
        let make = "cd lower && git init -q --separate-git-dir=../git . && mkdir src \
                    && echo 1 > src/one && echo 2 > two && git add src two \
                    && git -c user.name=t -c user.email=t@t commit -qm first";
        mounted.beside_shell(make);
        owners::give(&at("upper"), Owner { user: 0, group: AGENT.group }, 0o775).unwrap();
        let overlay = Overlay {
            lowers: &[&at("lower")],
            owner: Some(AGENT),
            upper: &at("upper"),
            work: &at("work"),
        };
        mount_overlay(&overlay, &mounted.room.worktree).unwrap();
        // As in a real worktree, it is rewritten after the tree was created, and so belongs to
        // root.
        mounted.room.host_shell("cp .git pointer && mv pointer .git");
        Some(mounted)
    }

    fn beside_shell(&self, line: &str) {
        let status = program("sh").args(["-ec", line]).current_dir(&self.beside).status();
        assert!(status.unwrap().success(), "{line}");
    }

    fn settle(&self) -> u64 {
        let (upper, merged) = (&self.beside.join("upper"), &self.room.worktree);
        owners::settle(&Settling { upper, merged, owner: AGENT, skip: &[] }).unwrap()
    }

    fn status(&self) -> String {
        let ran = self.room.host_shell("git -c core.trustctime=false status --porcelain");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if Path::new(&self.room.state).join("room.json").exists() {
            let _ = self.room.roomctl("stop").output();
        }
        let _ = unmount_tree(&self.room.worktree);
        let _ = program("rm").arg("-rf").arg(&self.beside).status();
    }
}

#[test]
fn agent_and_the_hosts_root_work_in_an_overlay_by_turns() {
    let Some(mounted) = Mounted::new() else { return };
    let room = &mounted.room;
    room.start(&["--alias", "/workspace"]);
    assert_eq!(mounted.status(), "", "clean, and of no doubtful owner");
    let line = "echo more >> src/one && rm two && mkdir new && echo n > new/file && mv src moved \
                && stat -c %u new moved/one && cat /workspace/new/file";
    let ran = room.sh(line);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "1000\n1000\nn\n"), "{ran:?}");
    assert_eq!(mounted.status(), " D src/one\n D two\n?? moved/\n?? new/\n");
    room.host_shell("mkdir roots && echo r > roots/file && git checkout -q -- two");
    assert_ne!(room.sh("echo x >> roots/file").code, Some(0), "it is root's until it is settled");
    assert_eq!(mounted.settle(), 3);
    let ran = room.sh("echo x >> roots/file && echo 3 > two && rm -r new roots && ls");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "moved\ntwo\n"), "{ran:?}");
    assert_eq!(room.host_shell("stat -c %u:%g . .git").out, "0:301000\n0:0\n");
    assert_ne!(room.sh("chmod u+s two").code, Some(0));
    let by_root = room.worktree.join("by-root");
    let ran = room.root_sh(&format!("mkdir {0} && touch {0}/file && id -G", by_root.display()));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "0 1000\n"), "{ran:?}");
}

#[test]
fn git_in_a_room_works_where_the_hosts_root_owns_the_top() {
    let Some(mounted) = Mounted::new() else { return };
    let room = &mounted.room;
    let git = mounted.beside.join("git");
    room.start(&["--mount", &format!("{0}:{0}", git.display())]);
    let ran = room.sh("git status --porcelain && git -c user.name=a -c user.email=a@a commit -qam '' --allow-empty --allow-empty-message");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn an_overlay_that_is_not_agents_is_given_to_it() {
    let Some(mounted) = Mounted::new() else { return };
    let room = &mounted.room;
    room.host_shell("chgrp 0 . && echo root > by-root");
    room.start(&[]);
    assert_eq!(room.sh("echo agent > by-root && cat by-root").out, "agent\n");
    assert_eq!(room.host_shell("stat -c %u:%g . by-root").out, "0:301000\n301000:301000\n");
}
