//! Package managers, tools and databases of real applications, in rooms of every kind.

use std::path::{Path, PathBuf};

use hothouse_testkit::TestEnv;

use crate::{room::rooms_with, surroundings};

fn agent(env: &TestEnv, repository: &Path, name: &str, script: &str) -> String {
    env.ok(repository, &["exec", "-w", name, "--", "sh", "-c", script])
}

fn user(env: &TestEnv, folder: &Path, line: &str) -> String {
    let who = ["AUTHOR", "COMMITTER"].map(|role| format!("GIT_{role}_NAME=u GIT_{role}_EMAIL=u@x"));
    let output = env.shell(folder, &format!("export {}; {line}", who.join(" ")));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn stores_are_outside_the_worktree_and_come_along_with_a_fork_of_a_sandbox() {
    rooms_with("", |env, repository| {
        let stores = "echo $CARGO_HOME $npm_config_cache $XDG_CACHE_HOME";
        let told = agent(env, repository, "a", stores);
        assert!(
            told.split_whitespace().all(|path| path.starts_with("/var/cache/hothouse")),
            "{told}"
        );
        let fill = "mkdir -p $CARGO_HOME/registry && echo crate >$CARGO_HOME/registry/x && \
                    mkdir -p $npm_config_cache && echo p >$npm_config_cache/y && git status --short --ignored";
        assert_eq!(agent(env, repository, "a", fill), "", "nothing lands in the worktree");
        env.ok(repository, &["fork", "b", "--from", "a"]);
        env.ok(repository, &["up", "b"]);
        let see = "cat $CARGO_HOME/registry/x; echo more >>$CARGO_HOME/registry/x";
        assert_eq!(agent(env, repository, "b", see), "crate\n");
        assert_eq!(
            agent(env, repository, "a", "cat $CARGO_HOME/registry/x"),
            "crate\n",
            "each has its own"
        );
        // A restore does not change them, and a fork of the commit has none.
        if !env.ok(repository, &["status", "a", "--caveats"]).contains("exist only in the room") {
            env.ok(repository, &["snapshot", "s", "-w", "a"]);
            env.ok(repository, &["restore", "s", "-w", "a"]);
            assert_eq!(agent(env, repository, "a", "cat $CARGO_HOME/registry/x"), "crate\n");
        }
        env.ok(repository, &["fork", "c"]);
        env.ok(repository, &["up", "c"]);
        assert_eq!(
            agent(env, repository, "c", "ls $CARGO_HOME/registry 2>/dev/null || echo none"),
            "none\n"
        );
    });
}

#[test]
fn what_contains_the_path_of_its_sandbox_works_in_forks_of_it() {
    rooms_with("", |env, repository| {
        let make = "mkdir -p .venv/bin && printf '#!%s/.venv/bin/python3\nprint(\"ran\")\n' \"$PWD\" >.venv/bin/tool && \
                    ln -s /usr/bin/python3 .venv/bin/python3 && chmod +x .venv/bin/tool && .venv/bin/tool";
        assert_eq!(agent(env, repository, "a", make), "ran\n");
        env.ok(repository, &["fork", "b", "--from", "a"]);
        env.ok(repository, &["fork", "c", "--from", "b"]);
        env.ok(repository, &["delete", "a", "--force", "--now"]);
        for fork in ["b", "c"] {
            env.ok(repository, &["up", fork]);
            assert_eq!(agent(env, repository, fork, ".venv/bin/tool"), "ran\n", "in {fork}");
        }
        // The path leads to the fork's own files, and so does git's pointer.
        let old = agent(env, repository, "c", "sed -n '1s/^#!//; 1s,/.venv.*,,p' .venv/bin/tool");
        let old = old.trim_end();
        let write = format!("echo own >{old}/mark && cat mark && git -C {old} status --short mark");
        assert_eq!(agent(env, repository, "c", &write), "own\n?? mark\n");
        assert_eq!(agent(env, repository, "b", "ls mark 2>/dev/null || echo none"), "none\n");
        let replaced =
            format!("echo 'gitdir: /tmp' >{old}/.git || rm -f {old}/.git || echo refused");
        assert_eq!(agent(env, repository, "c", &format!("({replaced}) 2>/dev/null")), "refused\n");
    });
}

#[test]
fn harmless_settings_come_along_and_credentials_do_not() {
    rooms_with("", |env, repository| {
        let home = env.environment().into_iter().find(|(name, _)| name == "HOME").unwrap().1;
        let npmrc = "registry=https://npm.example.com/\\n//npm.example.com/:_authToken=npm_s3cretS3cretS3cret12345678\\nfund=false\\n";
        let pip = "[global]\\nindex-url = https://u:s3cretS3cret12@pypi.example.com/simple\\ntimeout = 33\\n";
        let cargo = "[registries.own]\\nindex = \\\"https://c.example.com/index\\\"\\ntoken = \\\"s3cretS3cret12345\\\"\\n";
        user(
            env,
            repository,
            &format!(
                "mkdir -p {home}/.config/pip {home}/.cargo && printf '{npmrc}' >{home}/.npmrc && printf '{pip}' >{home}/.config/pip/pip.conf && \
             printf \"{cargo}\" >{home}/.cargo/config.toml && chmod 600 {home}/.npmrc"
            ),
        );
        env.ok(repository, &["down", "-w", "a"]);
        env.ok(repository, &["up", "a"]);
        let see = "cat $npm_config_globalconfig /etc/pip.conf /.cargo/config.toml; env";
        let seen = agent(env, repository, "a", see);
        for kept in [
            "registry=https://npm.example.com/",
            "fund=false",
            "timeout = 33",
            "https://c.example.com/index",
        ] {
            assert!(seen.contains(kept), "{kept}: {seen}");
        }
        assert!(!seen.contains("s3cret") && !seen.contains("pypi.example.com"), "{seen}");
    });
}

#[test]
fn a_tool_outside_the_room_is_named_with_the_line_that_shows_it() {
    rooms_with("", |env, repository| {
        let make = "mkdir -p .venv/bin && ln -s python3 .venv/bin/python && \
                    ln -s /home/nobody/.pyenv/versions/3/bin/python3 .venv/bin/python3";
        agent(env, repository, "a", make);
        env.ok(repository, &["down", "-w", "a"]);
        env.ok(repository, &["up", "a"]);
        let told = env.ok(repository, &["status", "a", "--caveats"]);
        assert!(
            told.contains("`.venv/bin/python` leads to") && told.contains("tools = ["),
            "{told}"
        );
    });
}

#[test]
fn settings_of_the_room_are_taken_on_without_down_and_the_user_is_not_asked_twice() {
    rooms_with("", |env, repository| {
        let run =
            |name: &str| env.json(repository, &["status", name, "--json"])["run"]["id"].clone();
        let before = run("a");
        let pending =
            "printf '[env.MODE]\\nkind = \"public\"\\nvalue = \"approved\"\\n' >hothouse.toml";
        agent(env, repository, "a", pending);
        let told = env.run(repository, &["up", "a"]);
        assert!(told.stdout.contains("Approval needed"), "{told}");
        assert_eq!(agent(env, repository, "a", "echo $MODE"), "\n");
        let approved = env.run(repository, &["config", "approve", "-w", "a", "--yes"]);
        assert!(approved.stderr.contains("Effective at the next `hothouse up"), "{approved}");
        let told = env.run(repository, &["up", "a"]);
        assert!(told.stderr.contains("the room is replaced"), "{told}");
        assert_eq!(agent(env, repository, "a", "echo $MODE"), "approved\n", "commands have it too");
        assert_eq!(run("a"), before, "a replaced room continues its run");
        // The user commits the same on the base branch; a sandbox that has it needs no approval.
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "b"]);
        let own = "printf '[env.MODE]\\nkind = \"public\"\\nvalue = \"mine\"\\n'";
        user(env, repository, &format!("{own} >hothouse.toml && git add -A && git commit -qm own"));
        agent(env, repository, "b", &format!("{own} >hothouse.toml"));
        env.ok(repository, &["up", "b"]);
        assert_eq!(agent(env, repository, "b", "echo $MODE"), "mine\n");
    });
}

#[test]
fn a_database_has_the_names_that_the_config_says() {
    let config = "[service.db]\nrecipe = \"postgres\"\ndatabase = \"shop\"\nuser = \"ann\"\npassword = \"pw\"\n\
                  [service.once]\nrun = \"echo {db.url} >out.txt\"\ntask = true\nneeds = [\"db\"]\n\
                  [env.URL]\nkind = \"public\"\nvalue = \"{db.url}\"\nservices = [\"once\"]\n";
    rooms_with(config, |env, repository| {
        let ask = "select current_user || ' ' || current_database()";
        let told = env.ok(repository, &["exec", "db", "-w", "a", "--", "psql", "-tAc", ask]);
        assert_eq!(told, "ann shop\n");
        let url = "postgres://ann:pw@127.0.0.1:5432/shop";
        assert_eq!(agent(env, repository, "a", "cat out.txt; echo $URL"), format!("{url}\n\n"));
        let scoped =
            env.ok(repository, &["exec", "once", "-w", "a", "--", "sh", "-c", "echo $URL"]);
        assert_eq!(scoped.trim(), url);
    });
}

const STUB: &str = "import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_POST(s):\n        \
    b = s.rfile.read(int(s.headers['content-length']))\n        r = (s.headers['host'] + ' ' + s.path + ' ').encode() + b\n        \
    s.send_response(201)\n        s.send_header('content-length', str(len(r)))\n        s.end_headers()\n        s.wfile.write(r)\n\
    http.server.ThreadingHTTPServer(('127.0.0.1', 9000), H).serve_forever()\n";

#[test]
fn a_service_of_the_room_answers_for_a_vendor_s_host_and_is_recorded() {
    let config = "[service.stub]\nrun = \"/usr/bin/python3 stub.py\"\nport = 9000\nready = { tcp = true }\n\
                  [integration.stripe]\nto = \"stub\"\nhosts = [\"api.stripe.com\"]\n";
    let env = surroundings();
    if !env.can_have_rooms("a service that answers for a vendor") {
        return;
    }
    let repository = env.repository_with("acme", config, &[("stub.py", STUB)]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "a"]);
    let call = "curl -sS -d amount=5 'https://api.stripe.com/v1/charges?x=1'";
    assert_eq!(agent(&env, &repository, "a", call), "api.stripe.com /v1/charges?x=1 amount=5");
    let seen = env.json(&repository, &["requests", "-w", "a", "--json"]);
    assert_eq!((&seen[0]["status"], &seen[0]["integration"]), (&201.into(), &"stripe".into()));
    env.ok(&repository, &["stop", "stub", "-w", "a"]);
    let told = agent(&env, &repository, "a", call);
    assert!(told.contains("could not be asked"), "{told}");
}

#[test]
fn what_is_denied_is_refused_in_the_protocol_s_own_words() {
    rooms_with("", |env, repository| {
        // A documentation address: nothing answers there, and nothing is dialled.
        let ask = |port: u16, first: &str| {
            let script = format!(
                "import socket\ns = socket.create_connection(('192.0.2.1', {port}), 20)\ns.sendall({first})\nprint(s.recv(900))"
            );
            env.ok(repository, &["exec", "-w", "a", "--", "/usr/bin/python3", "-c", &script])
        };
        for (port, first, words) in [
            (25, "b''", "b'554 5.7.1 Hothouse denied"),
            (21, "b''", "b'421 Hothouse denied"),
            (6379, r"b'*1\r\n$4\r\nPING\r\n'", "b'-ERR Hothouse denied"),
            (5432, r"b'\0\0\0\x08\x04\xd2\x16\x2f'", "b'N'"),
            (5432, r"b'\0\0\0\x09\0\x03\0\0\0'", "FATAL"),
            (2222, r"b'SSH-2.0-x\r\n'", "SSH-2.0-Hothouse"),
        ] {
            let told = ask(port, first);
            assert!(told.contains(words), "{port} {first}: {told}");
        }
        let failed = [
            "exec",
            "--explain",
            "-w",
            "a",
            "--",
            "sh",
            "-c",
            "curl -sm 9 telnet://192.0.2.1:25; false",
        ];
        let failed = env.run(repository, &failed);
        assert!(
            failed.stderr.contains("1 connection was denied: `hothouse egress why 192.0.2.1`"),
            "{failed}"
        );
    });
}

#[test]
fn a_branch_that_the_room_began_with_is_not_imported_when_the_user_continues() {
    rooms_with("", |env, repository| {
        user(env, repository, "git commit -q --allow-empty -m users");
        let commit = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m agents";
        agent(env, repository, "a", commit);
        assert_eq!(user(env, repository, "git branch --format='%(refname:short)'"), "a\nmain");
        // A branch is deleted with its sandbox only if its base has all of its commits.
        env.ok(repository, &["delete", "a", "--force", "--branch"]);
        assert_eq!(user(env, repository, "git branch --format='%(refname:short)'"), "a\nmain");
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["delete", "b", "--branch"]);
        assert_eq!(user(env, repository, "git branch --format='%(refname:short)'"), "a\nmain");
    });
}

/// The first steps of a newcomer: nothing is committed after `init`, and `.gitignore` does not name the folder.
#[test]
fn what_setup_installed_is_kept_with_a_config_that_is_not_committed() {
    let config =
        "[project]\nname = \"acme\"\nsetup = \"sh install.sh\"\n[room]\ndeps = [\"app/.venv\"]\n";
    let env = surroundings();
    if !env.can_have_rooms("an install that is kept") {
        return;
    }
    let install = "mkdir -p app/.venv && head -c 8 /dev/urandom | base64 >app/.venv/when\n";
    let files = [("app/requirements.txt", ""), ("install.sh", install)];
    let repository = env.repository_with("acme", config, &files);
    user(&env, &repository, "git rm -q --cached hothouse.toml && git commit -qm without-config");
    let fork = |name: &str| {
        let ran = env.run(&repository, &["fork", name, "--setup"]);
        assert_eq!(ran.code, 0, "{ran}");
        let made = std::path::PathBuf::from(ran.stdout.trim()).join("app/.venv/when");
        (std::fs::read_to_string(made).unwrap(), ran.stderr)
    };
    let (first, told) = fork("a");
    assert!(told.contains("Kept for the next"), "{told}");
    let (second, told) = fork("b");
    assert!(told.contains("Dependencies came along") && second == first, "{told}");
    // An install that changes the config is another matter.
    user(&env, &repository, "echo 'echo >>hothouse.toml' >>install.sh && git commit -qam more");
    let (_, told) = fork("c");
    assert!(
        told.contains("Not kept for the next fork") && told.contains("hothouse.toml"),
        "{told}"
    );
}

#[test]
fn what_setup_installed_is_kept_for_equal_inputs_and_never_from_an_agent_s_commit() {
    let config = "[project]\nname = \"acme\"\nsetup = \"sh install.sh\"\n";
    let env = surroundings();
    if !env.can_have_rooms("an install that is kept") {
        return;
    }
    let install = "mkdir -p node_modules && head -c 8 /dev/urandom | base64 >node_modules/when";
    let files = [
        ("package-lock.json", "{}"),
        (".gitignore", "node_modules\n"),
        ("install.sh", "sh part.sh\n"),
        ("part.sh", install),
    ];
    let repository = env.repository_with("acme", config, &files);
    let fork = |name: &str, more: &[&str]| {
        let ran = env.run(&repository, &[&["fork", name, "--setup"], more].concat());
        assert_eq!(ran.code, 0, "{ran}");
        let made = std::path::PathBuf::from(ran.stdout.trim()).join("node_modules/when");
        (std::fs::read_to_string(made).unwrap(), ran.stderr)
    };
    let (first, told) = fork("a", &[]);
    assert!(told.contains("Kept for the next"), "{told}");
    let (second, told) = fork("b", &[]);
    assert!(told.contains("Dependencies came along") && second == first, "{told}");
    // A commit that is not the user's may use the cache, but does not fill it.
    env.ok(&repository, &["up", "b"]);
    let poison = "echo 'mkdir -p node_modules; echo bad >node_modules/when' >part.sh && echo '{ }' >package-lock.json && \
                  git add -A && git -c user.name=x -c user.email=x@y commit -qm x";
    agent(&env, &repository, "b", poison);
    let (agents, told) = fork("c", &["--base", "b"]);
    assert!(
        agents == "bad\n" && told.contains("Not kept for the next fork: its commit is not on"),
        "{told}"
    );
    user(&env, &repository, "echo '{ }' >package-lock.json && git commit -qam same-lock-file");
    let (own, told) = fork("d", &[]);
    assert!(own != "bad\n" && own != first && told.contains("Kept for the next"), "{told}");
    // Other files that an install creates are not lost silently.
    user(
        &env,
        &repository,
        "echo 'touch generated.txt' >>install.sh && echo generated.txt >>.gitignore && git commit -qam more",
    );
    let (_, told) = fork("e", &[]);
    assert!(
        told.contains("it made more than dependency folders") && told.contains("generated.txt"),
        "{told}"
    );
}

/// A config with a task that does what the setup command does, as `init` writes it.
const INSTALLS: &str = "[project]\nname = \"acme\"\nsetup = \"sh install.sh\"\n[service.install]\ntask = true\nrun = \"sh install.sh\"\n";

/// A repository whose install makes something else each time.
fn installed_by_a_task(env: &TestEnv, install: &str) -> PathBuf {
    let files =
        [("package-lock.json", "{}"), (".gitignore", "node_modules\n"), ("install.sh", install)];
    env.repository_with("acme", INSTALLS, &files)
}

const INSTALL: &str = "test -e node_modules/when && exit; mkdir -p node_modules && head -c 8 /dev/urandom | base64 >node_modules/when";

fn when(env: &TestEnv, repository: &Path, name: &str) -> String {
    env.ok(repository, &["exec", "-w", name, "--", "cat", "node_modules/when"])
}

#[test]
fn what_up_installs_is_kept_for_forks_without_setup() {
    let env = surroundings();
    if !env.can_have_rooms("an install that is kept") {
        return;
    }
    let repository = installed_by_a_task(&env, INSTALL);
    let start = |name: &str| {
        let forked = env.run(&repository, &["fork", name]);
        assert_eq!(forked.code, 0, "{forked}");
        let up = env.run(&repository, &["up", name]);
        assert_eq!(up.code, 0, "{up}");
        (when(&env, &repository, name), format!("{}{}", forked.stderr, up.stderr))
    };
    let (first, told) = start("a");
    if told.contains("exist only in the room") {
        return;
    }
    assert!(told.contains("Kept for the next fork"), "{told}");
    let (second, told) = start("b");
    assert!(told.contains("Dependencies came along") && second == first, "{told}");
    assert!(!told.contains("Installing in a room"), "{told}");
    // The second `up` of a sandbox installs nothing either.
    env.ok(&repository, &["down", "b"]);
    let again = env.run(&repository, &["up", "b"]);
    assert!(again.code == 0 && !again.stderr.contains("Installing in a room"), "{again}");
    // Other lock files: another install.
    user(&env, &repository, "echo '{ }' >package-lock.json && git commit -qam other");
    let (third, told) = start("c");
    assert!(told.contains("Kept for the next fork") && third != first, "{told}");
    // What the user has installed in the checkout comes first.
    user(&env, &repository, "mkdir node_modules && echo mine >node_modules/when");
    let (own, told) = start("d");
    assert!(own == "mine\n" && !told.contains("Dependencies came along"), "{told}");
}

const PLANT: &str = "mkdir -p node_modules && echo bad >node_modules/when";

/// Starts a sandbox whose install is an agent's; another one must not get it.
fn keeps_none_of(env: &TestEnv, repository: &Path, name: &str, prepare: impl FnOnce()) {
    let up = env.run(repository, &["up", name]);
    assert_eq!(up.code, 0, "{up}");
    assert!(!up.stderr.contains("Kept for the next fork"), "{up}");
    assert_eq!(when(env, repository, name), "bad\n");
    prepare();
    env.ok(repository, &["fork", "next"]);
    env.ok(repository, &["up", "next"]);
    assert_ne!(when(env, repository, "next"), "bad\n");
}

#[test]
fn up_keeps_no_install_of_files_that_a_command_had_before() {
    let env = surroundings();
    if !env.can_have_rooms("an install that is kept") {
        return;
    }
    let repository = installed_by_a_task(&env, INSTALL);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["exec", "-w", "a", "--fresh", "--", "sh", "-c", PLANT]);
    keeps_none_of(&env, &repository, "a", || ());
}

#[test]
fn up_keeps_no_install_of_a_commit_that_is_not_the_users() {
    let env = surroundings();
    if !env.can_have_rooms("an install that is kept") {
        return;
    }
    let repository = installed_by_a_task(&env, INSTALL);
    env.ok(&repository, &["fork", "agent"]);
    env.ok(&repository, &["up", "agent"]);
    let commit = format!(
        "echo '{PLANT}' >install.sh && echo '{{  }}' >package-lock.json && git add -A && \
         git -c user.name=x -c user.email=x@y commit -qm x"
    );
    agent(&env, &repository, "agent", &commit);
    env.ok(&repository, &["fork", "theirs", "--base", "agent"]);
    keeps_none_of(&env, &repository, "theirs", || {
        user(&env, &repository, "echo '{  }' >package-lock.json && git commit -qam same-lock-file");
    });
}

/// The install of a fork waits until another command has had its files.
#[test]
fn an_install_is_not_kept_if_another_command_ran_beside_it() {
    let env = surroundings();
    if !env.can_have_rooms("an install that is kept") {
        return;
    }
    let wait = "while [ ! -e node_modules/planted ]; do sleep 0.05; done\n";
    let repository = installed_by_a_task(&env, wait);
    let plant = "mkdir -p node_modules && touch node_modules/planted";
    let told = std::thread::scope(|scope| {
        let forked = scope.spawn(|| env.run(&repository, &["fork", "a", "--setup"]));
        let beside =
            || env.run(&repository, &["exec", "-w", "a", "--fresh", "--", "sh", "-c", plant]);
        while !forked.is_finished() && beside().code != 0 {}
        forked.join().unwrap()
    });
    assert_eq!(told.code, 0, "{told}");
    assert!(!told.stderr.contains("Kept for the next fork"), "{told}");
    assert!(told.stderr.contains("Not kept for the next fork: "), "{told}");
}
