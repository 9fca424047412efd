//! Trust in the CA of URLs, in stores of the test itself.

use std::{fs, process::Command};

use hothouse_testkit::{TestEnv, User, is_root, skip};

use crate::{
    surroundings,
    url::{apps, has},
};

/// Returns whether this host can change what it trusts, so that a copy of it can be changed.
pub(crate) fn can_trust() -> bool {
    is_root()
        && (has("certutil") || fs::metadata("/usr/bin/certutil").is_ok())
        && fs::metadata("/usr/sbin/update-ca-certificates").is_ok()
}

/// Returns a command that runs its arguments with the test's own copy of the system's certificates. All such commands
/// of a test see the same copy.
pub(crate) fn apart(env: &TestEnv) -> Command {
    let copy = env.root().join("certificates");
    let prepared = format!(
        "mount --make-rprivate / && mkdir -p {0}/usr && {{ [ -d {0}/etc ] || cp -a /etc/ssl/certs {0}/etc; }} && mount --bind {0}/etc /etc/ssl/certs && mount --bind {0}/usr /usr/local/share/ca-certificates && exec \"$@\"",
        copy.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &prepared, "sh"]).env_clear().envs(env.environment());
    command
}

/// Runs a shell line in the same way.
fn line_apart(env: &TestEnv, line: &str) -> Option<String> {
    let output = apart(env).args(["sh", "-c", line]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success() || !told.contains("unshare")).then_some(format!("{said}{told}"))
}

#[test]
fn trust_is_installed_and_removed_where_it_was_asked_for() {
    if !can_trust() {
        return skip("trust", "root, certutil or update-ca-certificates");
    }
    let Some((env, repository)) = apps() else { return };
    let url = crate::url::app(&env, &repository, "a")["url"].as_str().unwrap().to_owned();
    let binary = env!("CARGO_BIN_EXE_hothouse");
    let line = format!(
        "c() {{ curl -s --noproxy '*' -m 20 {url}/x | head -1; echo; }}; echo before; c; {binary} trust --yes; echo between; c; {binary} trust --yes; {binary} trust --remove --yes; echo after; c; {binary} trust --remove --yes"
    );
    let Some(said) = line_apart(&env, &line) else { return skip("trust", "a mount namespace") };
    let part = |from: &str, to: &str| {
        said.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned()
    };
    assert!(!part("before\n", "done").contains("i am a"), "nobody trusts it by itself: {said}");
    assert!(part("between\n", "after\n").contains("i am a"), "curl trusts it: {said}");
    assert!(part("between\n", "after\n").matches("already").count() >= 2, "twice is once: {said}");
    assert!(!said.split_once("after\n").unwrap().1.contains("i am a"), "{said}");
    let store = format!("sql:{}", env.root().join("home/.pki/nssdb").display());
    let listed = Command::new("certutil").args(["-d", &store, "-L"]).output().unwrap();
    assert!(
        listed.status.success() && !String::from_utf8_lossy(&listed.stdout).contains("hothouse")
    );
}

#[test]
fn nobody_is_trusted_without_a_question_and_what_takes_root_is_told() {
    let env = surroundings();
    let asked = env.run(env.root(), &["trust"]);
    assert!(asked.code == 2 && asked.stderr.contains("not a terminal"), "{asked}");
    let Some(user) = User::ordinary() else { return };
    let mut env = surroundings();
    env.become_user(user);
    fs::create_dir(env.root().join("home")).unwrap();
    std::os::unix::fs::chown(env.root().join("home"), Some(65534), Some(65534)).unwrap();
    let told = env.json(env.root(), &["trust", "--yes", "--json"]);
    let system = &told["places"][0];
    assert_eq!(system["outcome"], "by-hand", "{told}");
    assert!(
        system["commands"]
            .as_array()
            .is_none_or(|c| c[0].as_str().unwrap().starts_with("sudo cp ")),
        "{told}"
    );
}

#[test]
fn a_key_that_others_can_read_is_refused_with_the_reason() {
    use std::os::unix::fs::PermissionsExt;
    let env = surroundings();
    env.ok(env.root(), &["ui"]);
    let key = env.state().join("ca/ca-key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    env.ok(env.root(), &["daemon", "stop"]);
    let refused = env.run(env.root(), &["ui"]);
    assert!(refused.code == 6 && refused.stderr.contains("can be read by others"), "{refused}");
}
