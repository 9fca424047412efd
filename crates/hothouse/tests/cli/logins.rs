//! Expiring logins of coding agents: renewed on the host at a fake vendor, used by a room that
//! never has them, and sent only to the vendor's own hosts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hothouse_testkit::{TestEnv, is_root, skip, wait_until};
use serde_json::{Value, json};

use crate::{
    egress::internet::{Internet, VENDORS},
    surroundings,
    tools::{CLAUDE, CODEX},
};

/// A host on which the names of vendors resolve to the fake vendor.
struct Host {
    env: TestEnv,
    internet: Internet,
    repository: PathBuf,
}

impl Host {
    fn open(what: &str, tools: &[PathBuf]) -> Option<Self> {
        if !is_root() {
            skip(what, "root");
            return None;
        }
        let internet = Internet::start()?;
        let mut env = surroundings();
        if !env.can_have_rooms(what) {
            return None;
        }
        let config = env.root().join("config/hothouse");
        fs::create_dir_all(&config).unwrap();
        let settings = format!("[egress]\nresolvers = [\"127.0.0.1:{}\"]\n", internet.dns);
        fs::write(config.join("hothouse.toml"), settings).unwrap();
        let roots = env.root().join("roots.pem");
        fs::copy(internet.certificate(), &roots).unwrap();
        env.set("SSL_CERT_FILE", roots.to_str().unwrap());
        let hosts = VENDORS.map(|host| format!("{} {host}\n", internet.address)).concat();
        fs::write(env.root().join("hosts"), format!("127.0.0.1 localhost\n{hosts}")).unwrap();
        let project = format!(
            "[project]\nname = \"acme\"\n[room]\ntools = {tools:?}\n[egress]\nmode = \"allowlist\"\n\
             allow = [\"good.example\", \"api.anthropic.com\", \"chatgpt.com\", \"cloudcode-pa.googleapis.com\", \"www.googleapis.com\", \"{}\"]\n",
            internet.address
        );
        let repository = env.repository("acme", &project);
        let host = Self { env, internet, repository };
        // The daemon resolves these names too, and so do the programs that it runs.
        let started = host.named(&["daemon", "start"]);
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(host)
    }

    /// Runs a command with the names of vendors resolving to the fake vendor.
    fn named(&self, words: &[&str]) -> Output {
        let own = self.env.command(&self.repository, words);
        let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(self.env.root().join("hosts"));
        command.arg(own.get_program()).args(own.get_args()).current_dir(&self.repository);
        command.env_clear().envs(self.env.environment());
        command.output().unwrap()
    }

    fn home(&self) -> PathBuf {
        let environment = self.env.environment();
        environment.into_iter().find(|(name, _)| name == "HOME").unwrap().1.into()
    }

    fn write(&self, file: &str, value: &Value) {
        let path = self.home().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }

    fn read(&self, file: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.home().join(file)).unwrap()).unwrap()
    }

    fn up(&self) {
        self.env.ok(&self.repository, &["fork", "a"]);
        self.env.ok(&self.repository, &["up", "-w", "a"]);
    }

    fn exec(&self, script: &str) -> String {
        self.env.ok(&self.repository, &["exec", "-w", "a", "--", "sh", "-c", script])
    }
}

fn token(claims: &Value) -> String {
    format!(
        "eyJhbGciOiJub25lIn0.{}.of-the-host-0123456789",
        URL_SAFE_NO_PAD.encode(claims.to_string())
    )
}

fn chatgpt(expires: u64, refresh: &str) -> Value {
    json!({
        "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": "2026-01-01T00:00:00Z",
        "tokens": { "id_token": token(&json!({ "aud": ["app_of_codex"] })), "access_token": token(&json!({ "exp": expires })),
                    "refresh_token": refresh, "account_id": "account-of-the-host-1" },
    })
}

#[test]
fn a_login_by_chatgpt_is_renewed_on_the_host_and_never_in_the_room() {
    let codex = CODEX.installed();
    let Some(host) = Host::open("a login by ChatGPT", codex.as_slice()) else { return };
    host.write(".codex/auth.json", &chatgpt(1000, "r-first"));
    let login = host.named(&["agent", "login", "codex", "--yes", "--json"]);
    let told: Value = serde_json::from_slice(&login.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&login.stderr)));
    assert_eq!(
        (&told["secret"], &told["hosts"]),
        (&json!("CODEX_CHATGPT_TOKEN"), &json!(["chatgpt.com"]))
    );
    let log = host.internet.log();
    assert!(log.contains("renew auth.openai.com True") && log.contains("r-first"), "{log}");
    assert!(log.contains("app_of_codex"), "{log}");
    let renewed = host.read(".codex/auth.json");
    let token = renewed["tokens"]["access_token"].as_str().unwrap().to_owned();
    assert!(token.contains("renewed-"), "{renewed}");
    assert_ne!(renewed["last_refresh"], "2026-01-01T00:00:00Z");
    host.up();
    let seen = host.exec("env; cat ~/.codex/* 2>/dev/null; true");
    assert!(
        seen.contains("CODEX_CHATGPT_TOKEN=") && seen.contains("CODEX_CHATGPT_ACCOUNT="),
        "{seen}"
    );
    let ask = |name: &str| {
        host.exec(&format!(
            "curl -sSk -H \"Authorization: Bearer $CODEX_CHATGPT_TOKEN\" -H \"ChatGPT-Account-ID: $CODEX_CHATGPT_ACCOUNT\" https://{name}/echo; true"
        ))
    };
    let answer = ask("chatgpt.com");
    assert!(!answer.contains(&token), "what comes back has the placeholder: {answer}");
    ask("good.example");
    let log = host.internet.log();
    assert!(log.contains(&format!("echo chatgpt.com Bearer {token}")), "{log}");
    assert!(!log.contains(&format!("good.example Bearer {token}")), "{log}");
    if codex.is_some() {
        // The real tool accepts its file of placeholders, and the vendor sees the login.
        host.env.ok(
            &host.repository,
            &["agent", "start", "a", "--tool", "codex", "--unattended", "--prompt", "hello"],
        );
        let file = host.exec("cat ~/.codex/auth.json");
        assert!(
            !file.contains(&token) && !file.contains("account-of-the-host") && !file.contains("r-"),
            "{file}"
        );
        wait_until("Codex has asked the vendor", || {
            let log = host.internet.log();
            let asked = log
                .lines()
                .any(|line| line.contains("/backend-api/") && line.ends_with("chatgpt.com"));
            asked && log.contains(&format!("https authorization chatgpt.com Bearer {token}"))
        });
        let listed = host.env.json(&host.repository, &["agent", "list", "--json"]);
        assert_eq!(listed[0]["login"], "wall");
        host.env.run(&host.repository, &["agent", "stop", "a"]);
    }
    nothing_leaks(&host, &token);
    // It expires, and the vendor no longer renews it.
    host.write(".codex/auth.json", &chatgpt(1000, "dead"));
    let expired = host.named(&["agent", "login", "codex", "--yes"]);
    let told = String::from_utf8_lossy(&expired.stderr).into_owned();
    assert_eq!(expired.status.code(), Some(5), "{told}");
    assert!(
        told.contains("expired at") && told.contains("invalid_grant") && told.contains("hint:"),
        "{told}"
    );
    if codex.is_some() {
        let start = host
            .env
            .run(&host.repository, &["agent", "start", "a", "--tool", "codex", "--prompt", "x"]);
        assert_eq!(start.code, 5, "{start}");
        assert!(
            start.stderr.contains("no value now") && start.stderr.contains("agent login codex"),
            "{start}"
        );
    }
}

/// Checks that neither the daemon's files nor the room's contain the value.
fn nothing_leaks(host: &Host, value: &str) {
    let state = host.env.state();
    let found = Command::new("grep").args(["-rlF", "--", value]).arg(&state).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "files with the login");
    let inside = host.exec("grep -rlF -- renewed- ~ /tmp /run 2>/dev/null; true");
    assert_eq!(inside, "");
}

#[test]
fn a_login_by_google_is_renewed_with_the_client_of_the_installed_tool() {
    let Some(mut host) = Host::open("a login by Google", &[]) else { return };
    // The installed tool, as far as its own client is concerned.
    let package = host.env.root().join("gemini-cli/bundle");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("gemini.js"), "#!/usr/bin/env node\n").unwrap();
    let client = "var OAUTH_CLIENT_ID = \"client-of-the-tool\";\nvar OAUTH_CLIENT_SECRET = \"word-of-the-tool\";\n";
    fs::write(package.join("chunk.js"), client).unwrap();
    let bin = host.env.root().join("own-bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(package.join("gemini.js"), bin.join("gemini")).unwrap();
    let path = host.env.environment().into_iter().find(|(name, _)| name == "PATH").unwrap().1;
    host.env.ok(&host.repository, &["daemon", "stop"]);
    host.env.set("PATH", format!("{}:{path}", bin.display()));
    assert!(host.named(&["daemon", "start"]).status.success());
    let stored = json!({ "access_token": "ya29.of-the-host-0123456789", "refresh_token": "1//first", "expiry_date": 1000 });
    host.write(".gemini/oauth_creds.json", &stored);
    let login = host.named(&["agent", "login", "gemini", "--yes"]);
    let told = String::from_utf8_lossy(&login.stderr).into_owned();
    assert!(login.status.success() && told.contains("cloudcode-pa.googleapis.com"), "{told}");
    assert!(told.contains("act as you") && told.contains("renewed on this host"), "{told}");
    let log = host.internet.log();
    assert!(log.contains("renew oauth2.googleapis.com True"), "{log}");
    assert!(log.contains("client_id=client-of-the-tool&client_secret=word-of-the-tool"), "{log}");
    let token = host.read(".gemini/oauth_creds.json")["access_token"].as_str().unwrap().to_owned();
    host.up();
    host.exec("curl -sS -H \"Authorization: Bearer $GOOGLE_CLOUD_ACCESS_TOKEN\" https://cloudcode-pa.googleapis.com/echo");
    let log = host.internet.log();
    assert!(log.contains(&format!("echo cloudcode-pa.googleapis.com Bearer {token}")), "{log}");
    // It expires while the room is running: the next request renews it on the host.
    let expired =
        json!({ "access_token": token, "refresh_token": "1//second", "expiry_date": 1000 });
    host.write(".gemini/oauth_creds.json", &expired);
    wait_until("a request has the next token", || {
        host.exec("curl -sS -H \"Authorization: Bearer $GOOGLE_CLOUD_ACCESS_TOKEN\" https://cloudcode-pa.googleapis.com/echo");
        let next =
            host.read(".gemini/oauth_creds.json")["access_token"].as_str().unwrap().to_owned();
        next != token
            && host.internet.log().contains(&format!("cloudcode-pa.googleapis.com Bearer {next}"))
    });
    nothing_leaks(&host, "1//second");
}

/// Builds a login by a Claude account, as Claude Code keeps it.
fn claude(expires: u64, refresh: &str) -> Value {
    json!({ "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-of-the-host-0123456789", "refreshToken": refresh, "expiresAt": expires,
        "scopes": ["user:inference", "user:profile"], "subscriptionType": "pro",
    } })
}

#[test]
fn a_login_by_a_claude_account_is_renewed_on_the_host_and_used_by_the_real_tool() {
    let package = CLAUDE.installed();
    let Some(host) = Host::open("a login by a Claude account", package.as_slice()) else { return };
    host.write(".claude/.credentials.json", &claude(1000, "c-first"));
    let login = host.named(&["agent", "login", "claude", "--yes", "--json"]);
    let told: Value = serde_json::from_slice(&login.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&login.stderr)));
    assert_eq!(
        (&told["secret"], &told["hosts"]),
        (&json!("CLAUDE_CODE_OAUTH_TOKEN"), &json!(["api.anthropic.com"]))
    );
    let log = host.internet.log();
    assert!(log.contains("renew platform.claude.com True") && log.contains("c-first"), "{log}");
    let renewed = host.read(".claude/.credentials.json");
    let account = &renewed["claudeAiOauth"];
    let token = account["accessToken"].as_str().unwrap().to_owned();
    assert!(token.contains("renewed-") && account["expiresAt"].as_u64() > Some(1000), "{renewed}");
    assert_eq!(account["subscriptionType"], "pro", "what else the tool keeps stays: {renewed}");
    host.up();
    let ask = |name: &str| {
        host.exec(&format!("curl -sSk -H \"Authorization: Bearer $CLAUDE_CODE_OAUTH_TOKEN\" https://{name}/echo; true"))
    };
    let answer = ask("api.anthropic.com");
    assert!(!answer.contains(&token), "what comes back has the placeholder: {answer}");
    ask("good.example");
    let log = host.internet.log();
    assert!(log.contains(&format!("echo api.anthropic.com Bearer {token}")), "{log}");
    assert!(!log.contains(&format!("good.example Bearer {token}")), "{log}");
    if package.is_some() {
        let words =
            ["agent", "start", "a", "--tool", "claude", "--unattended", "--prompt", "hello"];
        host.env.ok(&host.repository, &words);
        wait_until("Claude Code has asked the vendor with the login", || {
            let log = host.internet.log();
            log.lines().any(|line| line.contains("POST /v1/messages"))
                && log.contains(&format!("https authorization api.anthropic.com Bearer {token}"))
        });
        let listed = host.env.json(&host.repository, &["agent", "list", "--json"]);
        assert_eq!(listed[0]["login"], "wall", "{listed}");
        host.env.run(&host.repository, &["agent", "stop", "a"]);
    }
    nothing_leaks(&host, &token);
    // It expires, and the vendor no longer renews it.
    host.write(".claude/.credentials.json", &claude(1000, "dead"));
    let expired = host.named(&["agent", "login", "claude", "--yes"]);
    let told = String::from_utf8_lossy(&expired.stderr).into_owned();
    assert_eq!(expired.status.code(), Some(5), "{told}");
    assert!(told.contains("invalid_grant") && told.contains("hint:"), "{told}");
}

#[test]
fn what_is_written_for_a_tool_is_taken_back_whole() {
    let env = surroundings();
    let home = env.environment().into_iter().find(|(name, _)| name == "HOME").unwrap().1;
    let repository = env.repository("acme", "");
    let file = Path::new(&home).join(".codex/auth.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, chatgpt(4_102_444_800, "r").to_string()).unwrap();
    let config = env.root().join("config/hothouse/hothouse.toml");
    env.ok(&repository, &["agent", "login", "codex", "--yes"]);
    let with = fs::read_to_string(&config).unwrap();
    assert!(
        with.contains("[secret.CODEX_CHATGPT_TOKEN]")
            && with.contains("[secret.CODEX_CHATGPT_ACCOUNT]"),
        "{with}"
    );
    assert!(!with.contains("of-the-host"), "{with}");
    env.ok(&repository, &["agent", "login", "codex", "--remove"]);
    assert!(!fs::read_to_string(&config).unwrap().contains("CODEX"), "all of it is gone");
}
