//! Pools, from the command to the mount and back.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use hothouse_testkit::{TestEnv, User, git, is_root, kill, skip, wait_until};

use crate::surroundings;

/// Returns why pools cannot be tried here.
pub(crate) fn is_possible() -> bool {
    let made = Path::new("/usr/sbin/mkfs.btrfs").exists() || Path::new("/sbin/mkfs.btrfs").exists();
    let systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let checks = [("root", is_root()), ("mkfs.btrfs", made), ("btrfs", systems.contains("btrfs"))];
    let missing: Vec<_> =
        checks.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        skip("pools", &missing.join(" and "));
    }
    missing.is_empty()
}

fn unmount(folder: &Path) {
    let status = std::process::Command::new("umount").arg(folder).status().unwrap();
    assert!(status.success());
}

fn is_mounted(folder: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == folder.to_str())
}

#[test]
fn a_worktree_in_a_pool_takes_no_more_than_its_room_may() {
    if !is_possible() {
        return;
    }
    let env = surroundings();
    if !env.can_have_rooms("a quota") {
        return;
    }
    let repository = env.repository("acme", "[room]\ndisk = \"32M\"\n");
    env.ok(&repository, &["pool", "create", "--size", "512M"]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let write = |megabytes: &str, name: &str| {
        let command = format!("head -c {megabytes}M /dev/urandom >{name} && sync {name}");
        env.run(&repository, &["exec", "-w", "a", "--", "sh", "-c", &command])
    };
    let fits = write("8", "small");
    assert_eq!(fits.code, 0, "{fits}");
    let exceeds = write("64", "large");
    assert_ne!(exceeds.code, 0, "{exceeds}");
    assert!(exceeds.stderr.contains("quota"), "{exceeds}");
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    assert!(status["fences"]["disk"].as_str().unwrap().contains("quota in the pool"), "{status}");
    env.ok(&repository, &["nuke", "--yes"]);
}

#[test]
fn a_pool_holds_sandboxes_comes_back_after_a_restart_and_goes_with_nuke() {
    if !is_possible() {
        return;
    }
    let env = surroundings();
    let repository = env.repository("acme", "");
    assert_eq!(env.json(&repository, &["pool", "status", "--json"]), serde_json::json!([]));
    let made = env.json(&repository, &["pool", "create", "--size", "512M", "--json"]);
    let folder = PathBuf::from(made["folder"].as_str().unwrap());
    assert_eq!((made["size"].as_u64(), made["mounted"].as_bool()), (Some(512 << 20), Some(true)));
    assert!(folder.ends_with("acme-sandboxes") && is_mounted(&folder));
    let again = env.run(&repository, &["pool", "create"]);
    assert_eq!(again.code, 5, "{again}");

    let sandbox = env.json(&repository, &["fork", "a", "--json"]);
    assert_eq!(sandbox["tree_driver"], "btrfs");
    let worktree = PathBuf::from(sandbox["worktree"].as_str().unwrap());
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "");
    fs::write(worktree.join("kept"), "kept").unwrap();

    // As a restart of the host leaves it.
    env.kill_daemon();
    unmount(&folder);
    assert!(!worktree.exists());
    assert_eq!(env.json(&repository, &["pool", "status", "--json"])[0]["mounted"], true);
    assert_eq!(fs::read(worktree.join("kept")).unwrap(), b"kept");
    assert_eq!(env.json(&repository, &["doctor", "--json"])["leftovers"], serde_json::json!([]));

    env.ok(&repository, &["delete", "a", "--force"]);
    assert!(is_mounted(&folder), "a pool outlives its last sandbox");
    env.ok(&repository, &["fork", "b"]);
    env.ok(&repository, &["nuke", "--yes"]);
    assert!(!folder.exists() && !is_mounted(&folder));
    assert_eq!(env.json(&repository, &["pool", "status", "--json"]), serde_json::json!([]));
}

#[test]
fn a_pool_whose_daemon_is_killed_half_way_is_finished_by_the_next() {
    if !is_possible() {
        return;
    }
    let mut env = surroundings();
    let repository = env.repository("acme", "[project]\nplace = \"inside\"\n");
    let gate = hold_mkfs(&mut env);
    env.ok(&repository, &["daemon", "start"]);
    let first = env.daemon_pid().unwrap();
    let create = env
        .command(&repository, &["pool", "create", "--size", "300M", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("mkfs is reached", || gate.join("reached").exists());
    fs::remove_file(gate.join("hold")).unwrap();
    kill(first);
    let output = create.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(view["mounted"], true);
    let folder = PathBuf::from(view["folder"].as_str().unwrap());
    assert!(folder.ends_with("acme/.worktrees") && is_mounted(&folder));
    assert_eq!(git(&repository, &["status", "--porcelain"]), "", "git is told to ignore it");
    env.ok(&repository, &["nuke", "--yes"]);
    assert!(!folder.exists() && !is_mounted(&folder));
}

/// Puts a `mkfs.btrfs` before the real one that waits at a gate.
fn hold_mkfs(env: &mut TestEnv) -> PathBuf {
    let gate = env.root().join("gate");
    fs::create_dir(&gate).unwrap();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let real = std::env::split_paths(&path).map(|folder| folder.join("mkfs.btrfs"));
    let real = real.into_iter().find(|program| program.exists()).unwrap();
    let script = format!(
        "#!/bin/sh\n[ -e {0}/hold ] && {{ : >{0}/reached; while [ -e {0}/hold ]; do sleep 0.01; done; }}\nexec {1} \"$@\"\n",
        gate.display(),
        real.display()
    );
    fs::write(gate.join("mkfs.btrfs"), script).unwrap();
    fs::set_permissions(gate.join("mkfs.btrfs"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(gate.join("hold"), "").unwrap();
    env.set("PATH", format!("{}:{path}", gate.display()));
    gate
}

#[test]
fn a_pool_that_cannot_be_is_refused_with_the_reason() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let refused = |size: &str| env.run(&repository, &["pool", "create", "--size", size]);
    assert_eq!(refused("lots").code, 2);
    if !is_possible() {
        return;
    }
    let small = refused("1M");
    assert_eq!((small.code, small.stderr.contains("is too small")), (2, true), "{small}");
    assert_eq!(refused("900T").code, 6);
    env.ok(&repository, &["fork", "a"]);
    let hidden = refused("300M");
    assert_eq!(
        (hidden.code, hidden.stderr.contains("which a pool would hide")),
        (5, true),
        "{hidden}"
    );
    assert!(!env.root().join("acme-sandboxes/.hothouse-pool").exists());
}

#[test]
fn an_ordinary_user_is_told_that_a_pool_needs_root() {
    let mut env = surroundings();
    if is_root() {
        let Some(user) = User::ordinary() else { return };
        env.become_user(user);
    }
    let repository = env.repository("acme", "");
    let refused = env.run(&repository, &["pool", "create"]);
    assert_eq!((refused.code, refused.stderr.contains("only root can")), (6, true), "{refused}");
}
