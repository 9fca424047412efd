//! Image services without a container engine: from a registry, from files, two at once, and with
//! their data.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use hothouse_testkit::{TestEnv, skip, wait_until};

use crate::room::each_mode;

/// Returns whether the programs for building test images are installed.
pub(crate) fn can_make(what: &str) -> bool {
    let missing = ["busybox", "docker-registry", "skopeo"].into_iter().find(|name| {
        // A dynamically linked busybox would not find its libraries in an image.
        let is_whole = "test $0 != busybox || ! ldd \"$(command -v $0)\"";
        let found = Command::new("sh")
            .args(["-c", &format!("command -v $0 && {is_whole}"), name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        !found.is_ok_and(|status| status.success())
    });
    if let Some(missing) = missing {
        skip(what, &format!("the program {missing}"));
    }
    missing.is_none()
}

/// Builds a `docker save` file: a busybox web server with its own page and port.
pub(crate) fn image(folder: &Path, page: &str, port: u16) -> PathBuf {
    let script = format!(
        "set -e; rm -rf i && mkdir -p i/root/bin i/root/etc i/root/www i/top/www i/out && cd i
        cp $(command -v busybox) root/bin/busybox && for p in sh httpd id cat; do ln -s busybox root/bin/$p; done
        echo 'web:x:33:33::/:/bin/sh' > root/etc/passwd; echo gone > root/www/old; echo old > root/www/index.html
        printf '#!/bin/sh\\necho started as $(id -u) with $GREETING\\nexec httpd -f -p {port} -h /www\\n' > root/bin/serve; chmod 755 root/bin/serve
        mkdir -p root/data; ln -s /data root/link
        tar --owner=0 --group=0 -C root -cf out/base.tar .
        printf '{page}' > top/www/index.html; touch top/www/.wh.old
        tar --owner=0 --group=0 -C top -cf out/top.tar .
        b=$(sha256sum out/base.tar | cut -d' ' -f1); t=$(sha256sum out/top.tar | cut -d' ' -f1)
        printf '{{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{{\"Entrypoint\":[\"/bin/serve\"],\"Env\":[\"PATH=/bin\",\"GREETING=hello\"],\"ExposedPorts\":{{\"{port}/tcp\":{{}}}},\"WorkingDir\":\"/data\"}},\"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}}}' $(dpkg --print-architecture 2>/dev/null || echo amd64) $b $t > out/config.json
        printf '[{{\"Config\":\"config.json\",\"RepoTags\":[\"web:{port}\"],\"Layers\":[\"base.tar\",\"top.tar\"]}}]' > out/manifest.json
        tar -C out -cf ../image-{port}.tar manifest.json config.json base.tar top.tar"
    );
    let made = Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder.join(format!("image-{port}.tar"))
}

/// A registry on loopback.
struct Registry {
    child: Child,
    port: u16,
}

impl Registry {
    fn start(folder: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let storage = folder.join("registry");
        let text = format!(
            "version: 0.1\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: 127.0.0.1:{port} }}\n",
            storage.display()
        );
        let file = folder.join("registry.yml");
        fs::write(&file, text).unwrap();
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the registry listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { child, port }
    }

    fn push(&self, archive: &Path, tag: &str) -> String {
        let name = format!("127.0.0.1:{}/web:{tag}", self.port);
        let pushed = Command::new("skopeo")
            .args(["copy", "--quiet", "--dest-tls-verify=false"])
            .arg(format!("docker-archive:{}", archive.display()))
            .arg(format!("docker://{name}"))
            .output()
            .unwrap();
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        name
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn config(old: &str, new: &str) -> String {
    format!(
        "[service.old]\nimage = \"{old}\"\nport = 8101\n\n[service.new]\nimage = \"{new}\"\nenv = {{ GREETING = \"hi {{old.port}}\" }}\n\n\
         [service.web]\nrun = \"exec python3 -m http.server 3000\"\nport = 3000\nurl = \"web\"\nneeds = [\"old\", \"new\"]\n"
    )
}

fn page(env: &TestEnv, repository: &Path, sandbox: &str, port: u16) -> String {
    let script = format!(
        "import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/').read().decode())"
    );
    env.ok(repository, &["exec", "-w", sandbox, "--", "python3", "-c", &script]).trim().to_owned()
}

#[test]
fn two_tags_run_at_once_with_their_own_roots_and_data() {
    if !can_make("images of a registry") {
        return;
    }
    each_mode(|env, is_single| {
        let registry = Registry::start(env.root());
        let [old, new] = [("first", 8101), ("second", 8102)]
            .map(|(text, port)| registry.push(&image(env.root(), text, port), text));
        let repository = env.repository("shop", &config(&old, &new));
        env.ok(&repository, &["fork", "a"]);
        let up = env.run(&repository, &["up", "a"]);
        if is_single {
            assert_ne!(up.code, 0, "{up}");
            assert!(up.stderr.contains("/etc/subuid"), "{up}");
            return;
        }
        assert_eq!(up.code, 0, "{up}");
        assert_eq!(page(env, &repository, "a", 8101), "first");
        assert_eq!(page(env, &repository, "a", 8102), "second");
        let logs = env.ok(&repository, &["logs", "new", "-w", "a"]);
        assert!(logs.contains("started as 0 with hi 8101"), "{logs}");
        // What the upper layer hides is gone, and an absolute link resolves inside the image.
        let look = "ls /var/lib/hothouse/old/www; readlink /var/lib/hothouse/old/link";
        let seen = env.ok(&repository, &["exec", "-w", "a", "--root", "--", "sh", "-c", look]);
        assert_eq!(seen, "index.html\n/data\n");
        // Its data is included in snapshots and forks.
        let write = "echo changed >/var/lib/hothouse/old/www/index.html";
        env.ok(&repository, &["exec", "-w", "a", "--root", "--", "sh", "-c", write]);
        env.ok(&repository, &["snapshot", "one", "-w", "a"]);
        env.ok(&repository, &["fork", "b", "--from", "a@one"]);
        env.ok(&repository, &["up", "b"]);
        assert_eq!(page(env, &repository, "b", 8101), "changed");
        env.ok(&repository, &["fork", "c"]);
        env.ok(&repository, &["up", "c"]);
        assert_eq!(
            page(env, &repository, "c", 8101),
            "first",
            "a new sandbox begins with the image"
        );
        drop(registry);
        env.ok(&repository, &["nuke", "--yes"]);
        assert!(!env.state().join("images").exists());
    });
}

#[test]
fn images_of_files_run_and_agents_cannot_pull() {
    if !can_make("images of files") {
        return;
    }
    each_mode(|env, is_single| {
        if is_single {
            return;
        }
        let archive = image(env.root(), "of a file", 8103);
        env.give_to_user(&archive);
        let text = format!("[service.file]\nimage = \"archive:{}\"\n", archive.display());
        let repository = env.repository("shop", &text);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "a"]);
        assert_eq!(page(env, &repository, "a", 8103), "of a file");
        let asked = "sed -i 's/archive:.*\"/127.0.0.1:1\\/evil:1\"/' hothouse.toml";
        env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", asked]);
        let refused = env.run(&repository, &["up", "a"]);
        assert_eq!(refused.code, 3, "{refused}");
        assert!(refused.stderr.contains("not approved"), "{refused}");
    });
}

#[test]
fn what_is_not_available_is_reported() {
    let env = crate::surroundings();
    if !env.can_have_rooms("images that cannot be had") {
        return;
    }
    for (image, code, told) in [
        ("127.0.0.1:1/db:1", 6, "reach the registry 127.0.0.1:1"),
        ("archive:/nowhere.tar", 4, "/nowhere.tar"),
        ("UPPER CASE", 3, "image"),
        ("a@sha256:12", 3, "digest"),
    ] {
        let name = format!("r{}", image.len());
        let repository =
            env.repository(&name, &format!("[service.db]\nimage = \"{image}\"\nport = 1\n"));
        let forked = env.run(&repository, &["fork", "a"]);
        let up = if forked.code == 0 { env.run(&repository, &["up", "-w", "a"]) } else { forked };
        assert_eq!(up.code, code, "{image}: {up}");
        assert!(up.stderr.contains(told), "{image}: {up}");
    }
}
