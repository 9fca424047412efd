//! Credentials in texts and files.

use std::path::Path;

/// Prefixes of secret values, the minimum length of the rest, and their kind.
const VALUES: [(&str, usize, &str); 18] = [
    ("sk-ant-", 20, "a key of Anthropic"),
    ("sk-proj-", 20, "a key of OpenAI"),
    ("sk_live_", 16, "a live key of Stripe"),
    ("rk_live_", 16, "a live key of Stripe"),
    ("ghp_", 30, "a token of GitHub"),
    ("gho_", 30, "a token of GitHub"),
    ("ghs_", 30, "a token of GitHub"),
    ("github_pat_", 30, "a token of GitHub"),
    ("glpat-", 16, "a token of GitLab"),
    ("AKIA", 16, "a key of AWS"),
    ("ASIA", 16, "a key of AWS"),
    ("AIza", 30, "a key of Google"),
    ("xoxb-", 20, "a token of Slack"),
    ("xoxp-", 20, "a token of Slack"),
    ("npm_", 30, "a token of npm"),
    ("hf_", 30, "a token of Hugging Face"),
    ("SG.", 30, "a key of SendGrid"),
    ("eyJhbGciOi", 40, "a signed token"),
];

/// Names the kind of the first secret in a text.
pub(crate) fn value(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN") && text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    VALUES.iter().find(|(prefix, least, _)| found(text, prefix, *least).is_some()).map(|it| it.2)
}

/// Returns the start and end of a value.
fn found(text: &str, prefix: &str, least: usize) -> Option<(usize, usize)> {
    text.match_indices(prefix).find_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let from = at + prefix.len();
        let length = text[from..].bytes().take_while(|byte| is_value(*byte)).count();
        (length >= least).then_some((at, from + length))
    })
}

fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+=".contains(&byte)
}

/// Replaces secret values in a text with asterisks.
pub fn redacted(text: &str) -> String {
    let mut out = text.to_owned();
    for (prefix, least, _) in VALUES {
        // Each replacement is shorter than the value, so this terminates.
        while let Some((from, to)) = found(&out, prefix, least) {
            out.replace_range(from..to, "***");
        }
    }
    if let (Some(from), Some(to)) = (out.find("-----BEGIN"), out.rfind("PRIVATE KEY-----"))
        && from < to
    {
        out.replace_range(from..to + "PRIVATE KEY-----".len(), "***");
    }
    out
}

/// Paths below the home folder that contain secrets, and their kind.
const HOME: [(&str, &str); 33] = [
    (".vault-token", "a token of Vault"),
    (".pgpass", "passwords of databases"),
    (".my.cnf", "passwords of databases"),
    (".terraform.d/credentials.tfrc.json", "tokens of Terraform"),
    (".copilot/config.json", "the login of Copilot"),
    (".mozilla", "passwords and cookies of a browser"),
    (".config/google-chrome", "passwords and cookies of a browser"),
    (".config/chromium", "passwords and cookies of a browser"),
    (".gem/credentials", "tokens of RubyGems"),
    (".ssh", "keys for SSH"),
    (".gnupg", "keys of GnuPG"),
    (".aws", "credentials of AWS"),
    (".azure", "credentials of Azure"),
    (".config/gcloud", "credentials of Google Cloud"),
    (".kube/config", "credentials of Kubernetes"),
    (".docker/config.json", "credentials of registries"),
    (".netrc", "passwords"),
    (".git-credentials", "passwords of git"),
    (".config/git/credentials", "passwords of git"),
    (".config/gh", "the login of GitHub"),
    (".npmrc", "tokens of npm"),
    (".pypirc", "tokens of PyPI"),
    (".cargo/credentials.toml", "tokens of crates.io"),
    (".cargo/credentials", "tokens of crates.io"),
    (".claude/.credentials.json", "the login of Claude"),
    (".codex/auth.json", "the login of Codex"),
    (".gemini/oauth_creds.json", "the login of Gemini"),
    (".config/github-copilot", "the login of Copilot"),
    (".local/share/opencode/auth.json", "the login of opencode"),
    (".config/op", "passwords"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords"),
    (".bash_history", "a history of commands"),
];

/// Names the kind of secret in a file, if it contains one.
pub(crate) fn file(path: &Path, home: &Path) -> Option<&'static str> {
    if let Ok(below) = path.strip_prefix(home)
        && let Some((_, what)) = HOME.iter().find(|(name, _)| below.starts_with(name))
    {
        return Some(what);
    }
    let text = path.to_str()?;
    let system = [
        ("/etc/shadow", "password hashes"),
        ("/etc/gshadow", "password hashes"),
        ("/etc/sudoers", "rules of sudo"),
        ("/etc/ssl/private", "private keys"),
        ("/root/.ssh", "keys for SSH"),
    ];
    if let Some((_, what)) = system.iter().find(|(name, _)| path.starts_with(name)) {
        return Some(what);
    }
    if text.starts_with("/etc/ssh/") && text.ends_with("_key") {
        return Some("private keys");
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if matches!(name, "id_rsa" | "id_ed25519" | "id_ecdsa" | "id_dsa") {
        return Some("a private key");
    }
    let of_process = text.strip_prefix("/proc/").and_then(|rest| rest.split_once('/'));
    match of_process {
        Some((process, "environ" | "mem")) if process != "self" => {
            Some("the memory of another process")
        }
        _ => None,
    }
}

/// Whether projects keep secrets in a file with this name.
pub(crate) fn is_env_file(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let example =
        [".example", ".sample", ".template", ".dist"].iter().any(|end| name.ends_with(end));
    (name == ".env" || name.starts_with(".env.")) && !example
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_replaced() {
        let key = format!("sk-ant-{}", "a1".repeat(20));
        assert_eq!(value(&format!("curl -H 'x-api-key: {key}'")), Some("a key of Anthropic"));
        assert_eq!(redacted(&format!("x {key} y")), "x *** y");
        for plain in ["sk-ant-", "task-ant-hill", "AKIA", "the npm_config variable", "hf_hub"] {
            assert_eq!(value(plain), None, "{plain}");
            assert_eq!(redacted(plain), plain);
        }
    }

    #[test]
    fn files_of_secrets_are_known() {
        let home = Path::new("/home/u");
        for path in [
            "/home/u/.ssh/id_rsa",
            "/home/u/.ssh",
            "/etc/shadow",
            "/proc/1/environ",
            "/etc/ssh/ssh_host_ed25519_key",
        ] {
            assert!(file(Path::new(path), home).is_some(), "{path}");
        }
        for path in [
            "/home/u/.sshx",
            "/home/u/a/.ssh",
            "/etc/passwd",
            "/proc/self/environ",
            "/proc/cpuinfo",
        ] {
            assert!(file(Path::new(path), home).is_none(), "{path}");
        }
    }
}
