//! What bites whoever takes an agent's work is named: in `diff`, `status` and `promote`.

use hothouse_testkit::skip;

use super::*;

#[test]
fn what_can_bite_is_named_before_it_is_taken() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "git init -q sub; git -C sub -c user.name=a -c user.email=b commit -q --allow-empty -m sub; \
             git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub; \
             ln -s ../../outside away; ln -s README near; git add away near; git commit -qm bites; \
             git init -q nest; git -C nest -c user.name=a -c user.email=b commit -q --allow-empty -m nest; \
             ln -s /etc/passwd \"$(printf 'esc\\033ape')\"; mkfifo pipe",
        );
        let diff = env.json(repository, &["diff", "-w", "a", "--json"]);
        let found = |view: &serde_json::Value| {
            let all = view["look_closely"].as_array().unwrap().iter();
            all.map(|one| {
                format!("{} {}", one["kind"].as_str().unwrap(), one["path"].as_str().unwrap())
            })
            .collect::<Vec<_>>()
        };
        let all = found(&diff);
        for expected in [
            "gitlink sub",
            "link-out away",
            "link-out esc\\u{1b}ape",
            "repository nest/",
            "special pipe",
        ] {
            assert!(all.contains(&expected.to_owned()), "{expected}: {all:?}");
        }
        assert!(!all.iter().any(|one| one.ends_with(" near")), "{all:?}");
        let shown = env.run(repository, &["diff", "-w", "a", "--stat"]);
        assert!(shown.stderr.contains("Look closely:"), "{shown}");
        assert!(!shown.stderr.contains('\u{1b}'), "{shown}");
        let status = status(env, repository, "a");
        let caveats = status["caveats"].as_array().unwrap().iter();
        let mut told = caveats.filter(|caveat| caveat["class"] == "look-closely");
        let text = told.next().unwrap()["text"].as_str().unwrap();
        assert!(text.contains("`sub` is a submodule") && text.contains("`away`"), "{text}");
        let promoted = env.json(repository, &["promote", "a", "--merge", "--json"]);
        assert_eq!(found(&promoted), ["gitlink sub", "link-out away"]);
    });
}

/// `cap_net_raw`, permitted and effective, as the kernel stores it.
const CAPABILITY: &str = "0x0100000200200000000000000000000000000000";

#[test]
fn files_that_no_room_can_make_are_named_all_the_same() {
    if !hothouse_testkit::is_root() {
        return skip("special files in a worktree", "root");
    }
    rooms(|env, repository| {
        // Something else than a room may have made them, such as a copy of root's.
        let tree = worktree(env, "a");
        for name in ["set-user", "set-group", "powerful"] {
            fs::write(tree.join(name), "#!/bin/sh\n").unwrap();
        }
        for (name, mode) in [("set-user", 0o4755), ("set-group", 0o2755), ("powerful", 0o755)] {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let ran = |program: &str, words: &[&str]| {
            let mut command = std::process::Command::new(program);
            assert!(
                command.args(words).current_dir(&tree).status().unwrap().success(),
                "{program}"
            );
        };
        ran("setfattr", &["-n", "security.capability", "-v", CAPABILITY, "powerful"]);
        ran("mknod", &["device", "c", "1", "3"]);
        let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
        let diff = env.json(repository, &["diff", "-w", "a", "--json"]);
        let found: Vec<_> = diff["look_closely"].as_array().unwrap().iter().collect();
        for (kind, path) in [
            ("set-id", "set-user"),
            ("set-id", "set-group"),
            ("capability", "powerful"),
            ("special", "device"),
            ("special", "socket"),
        ] {
            let is_it = |one: &&&serde_json::Value| one["kind"] == kind && one["path"] == path;
            assert!(found.iter().any(|one| is_it(&one)), "{kind} {path}: {found:?}");
        }
    });
}
