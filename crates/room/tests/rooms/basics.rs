//! Features of every room, in every mode.

use super::host::{Host, hosts};

fn in_every_mode(test: impl Fn(&Host)) {
    for host in hosts() {
        eprintln!("mode {}", host.mode);
        test(&host);
    }
}

#[test]
fn the_agent_is_uid_1000_at_home_in_the_worktree() {
    in_every_mode(|host| {
        let room = host.room();
        assert_eq!(room.sh("id -u; id -g; whoami; echo ~; pwd").out, {
            format!("1000\n1000\nagent\n/home/agent\n{}\n", room.worktree.display())
        });
        assert_eq!(room.sh("cat README; hostname").out, "hello\nroom\n");
    });
}

#[test]
fn the_worktree_is_shared_both_ways_and_the_agents_files_are_not_the_users() {
    in_every_mode(|host| {
        let room = host.room();
        assert_eq!(
            room.sh("echo room > made; mkdir d; echo x > d/y; stat -c %u made").out,
            "1000\n"
        );
        let owner = room.host_shell("stat -c %u . made d/y | uniq").out;
        // With a single uid there is no other owner.
        let owners = if host.has_root() { 2 } else { 1 };
        assert_eq!(owner.lines().count(), owners, "{owner}");
        assert_eq!(room.host_shell("cat made").out, "room\n");
        room.host_shell("echo host > made");
        assert_eq!(room.sh("cat made").out, "host\n");
    });
}

#[test]
fn exit_codes_and_signals_are_passed_on() {
    in_every_mode(|host| {
        let room = host.room();
        assert_eq!(room.sh("exit 7").code, Some(7));
        let missing = room.exec(&["no-such-command"]);
        assert_eq!(
            (missing.code, missing.err.contains("no-such-command: command not found")),
            (Some(127), true)
        );
        let denied = room.exec(&["/etc/passwd"]);
        assert_eq!((denied.code, denied.err.contains("permission denied")), (Some(126), true));
        assert_eq!(room.sh("kill -TERM $$").code, Some(128 + 15));
        assert_eq!(room.sh("kill -KILL $$").code, Some(128 + 9));
        room.sh("echo 'echo ran $1' > script; chmod +x script");
        assert_eq!(room.exec(&["./script", "twice"]).out, "ran twice\n");
    });
}

#[test]
fn a_command_line_that_no_kernel_runs_is_refused_cleanly() {
    in_every_mode(|host| {
        let room = host.room();
        // Eleven megabytes do not fit on our own command line either, so a program generates them.
        let script = "import os,sys\ntry: os.execv('/bin/true', ['true'] + ['x'*100000]*110)\nexcept OSError as e: sys.exit(e.errno)";
        assert_eq!(room.python(script).code, Some(7));
        assert_eq!(room.sh("true").code, Some(0));
    });
}

#[test]
fn host_files_and_processes_are_out_of_sight() {
    in_every_mode(|host| {
        let room = host.prepare();
        room.host_shell("echo topsecret > ../host-secret");
        room.start(&[]);
        let secret = room.worktree.parent().unwrap().join("host-secret");
        assert_ne!(room.exec(&["cat", secret.to_str().unwrap()]).code, Some(0));
        assert_eq!(
            room.sh("ls ..").out.trim(),
            room.worktree.file_name().unwrap().to_str().unwrap()
        );
        let count: u32 = room.sh("ls /proc | grep -c '^[0-9]'").out.trim().parse().unwrap();
        assert!(count < 12, "{count} processes");
        assert_eq!(room.sh("ls -A /root /mnt /srv 2>/dev/null | grep -v :").out.trim(), "");
        assert_eq!(room.sh("grep -c ^hh-test /etc/passwd").out, "0\n");
    });
}

#[test]
fn files_that_only_root_may_read_are_not_in_the_room() {
    in_every_mode(|host| {
        let room = host.room();
        let shadow = if host.has_root() {
            room.root_sh("cat /etc/shadow")
        } else {
            room.sh("cat /etc/shadow")
        };
        assert!(
            shadow.out.lines().all(|line| line.split(':').nth(1) == Some("*")),
            "{}",
            shadow.out
        );
        assert_eq!(room.sh("ls /etc/ssh/ssh_host_*_key 2>/dev/null").out, "");
    });
}

#[test]
fn root_in_the_room_writes_its_own_system_and_finds_it_again() {
    in_every_mode(|host| {
        if !host.has_root() {
            return;
        }
        let room = host.room();
        assert_eq!(
            room.root_sh(
                "id -u; echo mine > /usr/hothouse-check; echo x > /opt/y; rm /usr/bin/yes"
            )
            .out,
            "0\n"
        );
        assert_eq!(room.sh("cat /usr/hothouse-check").out, "mine\n");
        assert!(!std::path::Path::new("/usr/hothouse-check").exists());
        assert!(std::path::Path::new("/usr/bin/yes").exists());
        room.sh("echo kept > ~/note");
        room.stop();
        room.start(&[]);
        assert_eq!(room.sh("cat /usr/hothouse-check ~/note; ls /usr/bin/yes").out, "mine\nkept\n");
    });
}

#[test]
fn sudo_asks_room_init_and_passes_all_on() {
    in_every_mode(|host| {
        let room = host.room();
        let sudo = room.sh("echo in | sudo -n sh -c 'id -u; cat; echo err >&2; exit 9'");
        match host.has_root() {
            true => assert_eq!(
                (sudo.code, sudo.out.as_str(), sudo.err.as_str()),
                (Some(9), "0\nin\n", "err\n")
            ),
            false => assert_eq!((sudo.code, sudo.err.contains("single uid")), (Some(1), true)),
        }
        if host.has_root() {
            let other = room.sh("sudo -u games sh -c 'id -un; echo $HOME' && sudo -u nosuch id");
            assert_eq!(other.out, "games\n/usr/games\n", "{}: {other:?}", host.mode);
            assert!(other.err.contains("unknown user `nosuch`"), "{}: {other:?}", host.mode);
        }
    });
}

#[test]
fn a_terminal_is_a_terminal() {
    in_every_mode(|host| {
        let room = host.room();
        let mut shell = room.roomctl("shell");
        shell.args([
            "--",
            "sh",
            "-c",
            "tty; stty size; test -w $(tty) && echo writable; echo $((6*7)) > /dev/tty; exit 3",
        ]);
        let ran = super::host::ran(&mut shell);
        assert_eq!(
            (ran.code, ran.out.replace('\r', "").as_str()),
            (Some(3), "/dev/pts/0\n24 80\nwritable\n42\n")
        );
    });
}

#[test]
fn aliases_show_the_worktree_and_masks_hold_on_each() {
    in_every_mode(|host| {
        let room = host.prepare();
        room.host_shell("echo SECRET=1 > .env; mkdir -p keys; echo k > keys/k; echo 'gitdir: /x' > .git; echo pointer > ../pointer");
        let at = |name: &str| room.worktree.join(name).display().to_string();
        let pointer = room.worktree.parent().unwrap().join("pointer");
        let on = |target: String| format!("{}:{target}", pointer.display());
        let (env, keys, here, there) =
            (at(".env"), at("keys"), on(at(".git")), on("/workspace/.git".into()));
        room.start(&[
            "--alias",
            "/workspace",
            "--mask",
            &env,
            "--mask",
            &keys,
            "--readonly",
            &here,
            "--readonly",
            &there,
        ]);
        for view in [room.worktree.to_str().unwrap(), "/workspace"] {
            let seen = room.sh(&format!("cd {view}; cat README .git; cat .env; ls keys; echo x > .env; echo x > .git; rm -f .env; mv .git g; rm -rf keys; cat .env .git"));
            assert_eq!(seen.out, "hello\npointer\npointer\n", "{view}: {}", seen.err);
        }
        assert_eq!(
            room.host_shell("cat .env keys/k .git; cat ../pointer").out,
            "SECRET=1\nk\ngitdir: /x\npointer\n"
        );
        if host.has_root() {
            let undone = room.root_sh(&format!("umount {env}; umount -l {env}; mount -o remount,rw,bind {env}; mount --move {env} /mnt; cat {env}; umount /workspace/.git; echo x > /workspace/.git"));
            assert_eq!(undone.out, "", "{}", undone.err);
        }
    });
}

#[test]
fn a_worktree_that_other_users_reach_is_refused_to_root() {
    let Some(host) = super::host::host("root") else { return };
    let room = host.prepare();
    let open = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let worktree = open.path().join("w");
    assert!(super::host::program("mkdir").arg(&worktree).status().unwrap().success());
    let refused =
        super::host::ran(room.host.roomctl().arg("start").arg(&room.state).arg(&worktree));
    assert!(refused.err.contains("0700"), "{}", refused.err);
    assert_eq!(refused.code, Some(125));
}

#[test]
fn a_spec_without_sense_is_refused_with_its_reason() {
    in_every_mode(|host| {
        let room = host.prepare();
        let refused = room.try_start(&["--memory", "4096"]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("below 16 MiB"));
        let gone = room.try_start(&["--tool", "/no/such/folder"]);
        let text = String::from_utf8_lossy(&gone.stderr).into_owned();
        assert!(text.contains("open for the room `/no/such/folder`: No such file"), "{text}");
    });
}
