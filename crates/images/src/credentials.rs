//! Logins for registries, from the user's own docker config.

use std::{io::Write, path::Path, time::Duration};

use base64::Engine as _;
use hothouse_host::{Program, files, programs};
use serde_json::Value;

/// The names of the default registry in configs.
const USUAL: [&str; 4] =
    ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"];

/// The value of an `Authorization` header; it is never shown.
pub(crate) struct Basic(String);

impl Basic {
    pub(crate) fn value(&self) -> &str {
        &self.0
    }
}

/// The time limit of a credential helper.
const PATIENCE: Duration = Duration::from_secs(30);

/// The user's own docker config, and where to find the helpers that it names.
#[derive(Clone, Debug)]
pub(crate) struct Logins<'a> {
    pub(crate) home: &'a Path,
    pub(crate) search_path: &'a str,
}

impl Logins<'_> {
    /// Finds the login for a registry: from the helper that the config names for it, otherwise from the config itself.
    pub(crate) fn find(&self, host: &str) -> Option<Basic> {
        let bytes = files::read_capped(&self.home.join(".docker/config.json"), 1 << 20).ok()?;
        let config = serde_json::from_slice(&bytes).ok()?;
        let by_helper = helper(&config, host).and_then(|(helper, name)| self.ask(&helper, &name));
        by_helper.or_else(|| of(&config, host))
    }

    /// Runs a credential helper of the user, as docker does.
    fn ask(&self, helper: &str, name: &str) -> Option<Basic> {
        let program = programs::look_up(helper, self.search_path)?;
        let (reader, mut writer) = std::io::pipe().ok()?;
        writer.write_all(name.as_bytes()).ok()?;
        drop(writer);
        let asked = Program::new(program).arg("get").stdin(reader.into());
        let asked = asked.env("HOME", self.home).env("PATH", self.search_path);
        let said = asked.output_within(PATIENCE).ok()?;
        let said: Value = serde_json::from_slice(&said).ok()?;
        let (user, secret) = (said["Username"].as_str()?, said["Secret"].as_str()?);
        // `<token>` marks an identity token, which is not a password.
        let is_password = !user.is_empty() && user != "<token>";
        is_password.then(|| basic(user, secret))
    }
}

fn basic(user: &str, secret: &str) -> Basic {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{secret}"));
    Basic(format!("Basic {pair}"))
}

/// Returns the names that a registry may have in a config, in order of preference.
fn names(host: &str) -> Vec<String> {
    let is_usual = host == "registry-1.docker.io";
    let usual = USUAL.into_iter().filter(|_| is_usual).map(str::to_owned);
    let own = [format!("https://{host}"), host.to_owned(), format!("https://{host}/v2/")];
    usual.chain(own).collect()
}

/// Returns the helper for a registry, and the name under which the helper knows it.
fn helper(config: &Value, host: &str) -> Option<(String, String)> {
    let names = names(host);
    let own = names.iter().find_map(|name| Some((config["credHelpers"].get(name)?, name)));
    let (word, name) = match own {
        Some((word, name)) => (word.as_str()?, name),
        None => (config["credsStore"].as_str()?, names.first()?),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain = !word.is_empty() && word.chars().all(is_plain);
    plain.then(|| (format!("docker-credential-{word}"), name.clone()))
}

fn of(config: &Value, host: &str) -> Option<Basic> {
    let auths = config["auths"].as_object()?;
    let entry = names(host).iter().find_map(|name| auths.get(name))?;
    let auth = match entry["auth"].as_str().filter(|auth| !auth.is_empty()) {
        Some(auth) => auth.to_owned(),
        None => {
            let pair = format!("{}:{}", entry["username"].as_str()?, entry["password"].as_str()?);
            base64::engine::general_purpose::STANDARD.encode(pair)
        }
    };
    let is_plain = auth.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    is_plain.then(|| Basic(format!("Basic {auth}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_registry_gets_its_own() {
        let config = serde_json::json!({ "auths": {
            "https://index.docker.io/v1/": { "auth": "YTpi" },
            "ghcr.io": { "username": "u", "password": "p" },
            "broken": { "auth": "a\nb" },
        }});
        let value = |host: &str| of(&config, host).map(|basic| basic.0);
        assert_eq!(value("registry-1.docker.io").as_deref(), Some("Basic YTpi"));
        assert_eq!(value("ghcr.io").as_deref(), Some("Basic dTpw"));
        assert_eq!(value("broken"), None);
        assert_eq!(value("other.example"), None);
    }

    #[test]
    fn a_helper_of_the_users_own_is_asked_by_the_name_that_the_config_has() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let config = serde_json::json!({
            "credHelpers": { "ghcr.io": "mine", "evil.example": "../../bin/sh" },
            "auths": { "ghcr.io": { "auth": "YTpi" }, "plain.example": { "auth": "YTpi" } },
        });
        files::make_folder(&home.path().join(".docker")).unwrap();
        files::write(&home.path().join(".docker/config.json"), config.to_string().as_bytes())
            .unwrap();
        let helper = home.path().join("docker-credential-mine");
        let script =
            "#!/bin/sh\nread -r host\nprintf '{\"Username\":\"%s\",\"Secret\":\"s\"}' \"$host\"\n";
        files::write(&helper, script).unwrap();
        std::fs::set_permissions(&helper, PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", home.path().display());
        let logins = Logins { home: home.path(), search_path: &path };
        let value = |host: &str| logins.find(host).map(|basic| basic.0);
        assert_eq!(value("ghcr.io"), Some(basic("ghcr.io", "s").0));
        assert_eq!(value("plain.example").as_deref(), Some("Basic YTpi"));
        assert_eq!(value("evil.example"), None);
        // Without the helper, the logins in the config itself still count.
        let none = Logins { home: home.path(), search_path: "/nowhere" };
        assert_eq!(none.find("ghcr.io").map(|basic| basic.0).as_deref(), Some("Basic YTpi"));
    }
}
