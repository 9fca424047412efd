//! Dangerous parts of an agent's work are reported: in `diff`, `status` and `promote`.

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

#[test]
fn attributes_do_not_hide_what_changed() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "printf '*.py -diff\n*.sh binary\nREADME -diff\nlink -diff\n' >.gitattributes; \
             echo 'evil()' >new.py; git add -A; git commit -qm hidden; \
             echo 'worse()' >>README; echo 'rm -rf' >\"$(printf 'a\\033b.sh')\"; ln -s new.py link; \
             printf 'x\\0y' >real.sh",
        );
        let diff = env.json(repository, &["diff", "-w", "a", "--json"]);
        let text = diff["diff"].as_str().unwrap();
        for line in ["+evil()", "+worse()", "+rm -rf", "+new.py"] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
        let found = diff["look_closely"].as_array().unwrap().iter();
        let hidden = found.filter(|one| one["kind"] == "hidden-text");
        let hidden: Vec<_> = hidden.map(|one| one["path"].as_str().unwrap()).collect();
        assert_eq!(hidden, ["README", "a\\u{1b}b.sh", "new.py"], "{diff:#}");
        let shown = env.run(repository, &["diff", "-w", "a", "--stat"]);
        assert!(shown.stderr.contains("`new.py` is text"), "{shown}");
    });
}

/// `cap_net_raw`, permitted and effective, as the kernel stores it.
const CAPABILITY: &str = "0x0100000200200000000000000000000000000000";

#[test]
fn files_that_no_room_can_make_are_still_named() {
    if !hothouse_testkit::is_root() {
        return skip("special files in a worktree", "root");
    }
    rooms(|env, repository| {
        // They may come from something other than a room, such as a copy made by root.
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

#[test]
fn what_an_agent_wrote_cannot_turn_letters_around_or_move_the_cursor() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "name=$(printf 'a\\342\\200\\256txt.exe'); echo >\"$name\"; git add -A; \
             git commit -qm \"$(printf 'harmless \\342\\200\\256gnp\\342\\200\\213\\033[2J')\"",
        );
        for words in [
            &["log", "-w", "a"][..],
            &["log", "-w", "a", "--json"],
            &["diff", "-w", "a", "--stat"],
            &["diff", "-w", "a", "--json"],
            &["status", "-w", "a"],
            &["list"],
        ] {
            let ran = env.run(repository, words);
            assert_eq!(ran.code, 0, "{ran}");
            let both = format!("{}{}", ran.stdout, ran.stderr);
            let found = both.chars().find(
                |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}'..='\u{200f}' | '\u{1b}'),
            );
            assert_eq!(found, None, "{words:?}: {both}");
        }
        assert!(env.ok(repository, &["log", "-w", "a"]).contains("harmless \\u{202e}gnp\\u{200b}"));
        let log = env.json(repository, &["log", "-w", "a", "--json"]);
        let subject = log["commits"][0]["subject"].as_str().unwrap();
        assert!(subject.starts_with("harmless \u{202e}gnp"), "the value is exact: {subject:?}");
    });
}

#[test]
fn a_subject_without_end_hides_no_commit() {
    rooms(|env, repository| {
        // Longer than the part of git's output that is kept.
        agent(
            env,
            repository,
            "git commit -q --allow-empty -m hidden; \
             head -c 70000000 /dev/zero | tr '\\0' a | git commit -q --allow-empty -F -",
        );
        let log = env.json(repository, &["log", "-w", "a", "--json"]);
        let subjects: Vec<_> =
            log["commits"].as_array().unwrap().iter().map(|one| &one["subject"]).collect();
        assert_eq!(subjects.len(), 2, "{}", subjects.len());
        assert_eq!(subjects[1], "hidden");
        let long = subjects[0].as_str().unwrap();
        assert!(long.starts_with("aaa") && long.len() < 1000, "{}", long.len());
    });
}

#[test]
fn no_date_and_no_encoding_of_a_commit_hides_it() {
    rooms(|env, repository| {
        let script = "
for at in 99999999999999 253402300800 5; do
    GIT_AUTHOR_DATE=\"@$at +0000\" git commit -q --allow-empty -m at-$at
done
for encoding in UTF-16 UCS-2 IBM037 nonsense; do
    git -c i18n.commitEncoding=$encoding commit -q --allow-empty -m in-$encoding
done";
        agent(env, repository, script);
        let log = env.json(repository, &["log", "-w", "a", "--json"]);
        assert_eq!(log["commits"].as_array().unwrap().len(), 7, "{log}");
        let words = ["timeline", "-w", "a", "--kind", "commit", "--json"];
        let told = env.ok(repository, &words);
        let shown = env.ok(repository, &["log", "-w", "a"]);
        for commit in log["commits"].as_array().unwrap() {
            let id = &commit["id"].as_str().unwrap()[..10];
            assert!(shown.contains(id) && told.contains(id), "{id}: {shown} {told}");
        }
        for subject in ["at-99999999999999", "at-253402300800", "at-5", "in-nonsense"] {
            assert!(shown.contains(subject), "{subject}: {shown}");
        }
    });
}

#[test]
fn a_tree_deeper_than_any_path_is_measured_and_can_be_deleted() {
    rooms(|env, repository| {
        agent(env, repository, "true");
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        let nest = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nopen('big', 'wb').write(bytes(1 << 24))";
        let script = format!("(cd ~; python3 -c \"{nest}\"); python3 -c \"{nest}\"");
        agent(env, repository, &script);
        let size = env.json(repository, &["size", "-w", "a", "--json"]);
        assert!(size[0]["parts"]["worktree"].as_u64().unwrap() >= 1 << 24, "{size}");
        assert_eq!(status(env, repository, "b")["state"], "ready");
        let refused = env.run(repository, &["snapshot", "one", "-w", "a"]);
        assert!(
            refused.code == 0 || refused.stderr.contains("folders lie within each other"),
            "{refused}"
        );
        env.ok(repository, &["delete", "a", "--force"]);
        assert!(!worktree(env, "a").exists());
        env.ok(repository, &["exec", "-w", "b", "--", "true"]);
    });
}
