//! What a user's own docker config knows about registries.

use std::path::Path;

use base64::Engine as _;
use hothouse_host::files;
use serde_json::Value;

/// Names under which the usual registry is known.
const USUAL: [&str; 4] =
    ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"];

/// The value of an `Authorization` header; it is never shown.
pub(crate) struct Basic(String);

impl Basic {
    pub(crate) fn value(&self) -> &str {
        &self.0
    }
}

/// Looks for what opens a registry.
pub(crate) fn find(home: &Path, host: &str) -> Option<Basic> {
    let bytes = files::read_capped(&home.join(".docker/config.json"), 1 << 20).ok()?;
    of(&serde_json::from_slice(&bytes).ok()?, host)
}

fn of(config: &Value, host: &str) -> Option<Basic> {
    let auths = config["auths"].as_object()?;
    let is_usual = host == "registry-1.docker.io";
    let own = [format!("https://{host}"), host.to_owned(), format!("https://{host}/v2/")];
    let names = own.iter().map(String::as_str).chain(USUAL.into_iter().filter(|_| is_usual));
    let entry = names.into_iter().find_map(|name| auths.get(name))?;
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
}
