//! Filters the settings of the user's package managers for a room: where packages come from and how
//! they are fetched, never a credential.
//!
//! Pure. Only listed keys are passed on, and only if their value has the required form. A value
//! that could contain a credential anywhere is dropped completely: registries accept tokens as
//! users, passwords, queries, parts of paths and even of host names.

use toml::{Table, Value};

/// The required form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// URLs, separated by white space or commas.
    Addresses,
    /// Host names, with or without ports.
    Hosts,
    /// Names of packages, numbers, booleans.
    Words,
    /// A system folder, which rooms have too.
    System,
}

const NPM: [(&str, Form); 20] = [
    ("registry", Form::Addresses),
    ("audit", Form::Words),
    ("auto-install-peers", Form::Words),
    ("engine-strict", Form::Words),
    ("fetch-retries", Form::Words),
    ("fetch-timeout", Form::Words),
    ("fund", Form::Words),
    ("ignore-scripts", Form::Words),
    ("legacy-peer-deps", Form::Words),
    ("maxsockets", Form::Words),
    ("min-release-age", Form::Words),
    ("node-linker", Form::Words),
    // The headers of Node: without it, packages with native parts download them.
    ("nodedir", Form::System),
    ("omit", Form::Words),
    ("package-lock", Form::Words),
    ("prefer-offline", Form::Words),
    ("save-exact", Form::Words),
    ("save-prefix", Form::Words),
    ("shamefully-hoist", Form::Words),
    ("strict-peer-dependencies", Form::Words),
];

const PIP: [(&str, Form); 11] = [
    ("index-url", Form::Addresses),
    ("extra-index-url", Form::Addresses),
    ("trusted-host", Form::Hosts),
    ("timeout", Form::Words),
    ("retries", Form::Words),
    ("prefer-binary", Form::Words),
    ("only-binary", Form::Words),
    ("no-binary", Form::Words),
    ("pre", Form::Words),
    ("disable-pip-version-check", Form::Words),
    ("progress-bar", Form::Words),
];

const UV: [(&str, Form); 8] = [
    ("index-url", Form::Addresses),
    ("extra-index-url", Form::Addresses),
    ("index-strategy", Form::Words),
    ("allow-insecure-host", Form::Hosts),
    ("prerelease", Form::Words),
    ("resolution", Form::Words),
    ("exclude-newer", Form::Words),
    ("python-preference", Form::Words),
];

/// A key in cargo's config by its path; `*` is any name.
const CARGO: [(&[&str], Form); 12] = [
    (&["registries", "*", "index"], Form::Addresses),
    (&["registry", "default"], Form::Words),
    (&["source", "*", "registry"], Form::Addresses),
    (&["source", "*", "replace-with"], Form::Words),
    (&["net", "retry"], Form::Words),
    (&["net", "git-fetch-with-cli"], Form::Words),
    (&["http", "timeout"], Form::Words),
    (&["http", "multiplexing"], Form::Words),
    (&["http", "low-speed-limit"], Form::Words),
    (&["build", "jobs"], Form::Words),
    (&["build", "incremental"], Form::Words),
    (&["term", "color"], Form::Words),
];

/// Variables for the same settings.
const VARIABLES: [(&str, Form); 15] = [
    ("NPM_CONFIG_REGISTRY", Form::Addresses),
    ("npm_config_registry", Form::Addresses),
    ("YARN_NPM_REGISTRY_SERVER", Form::Addresses),
    ("PIP_INDEX_URL", Form::Addresses),
    ("PIP_EXTRA_INDEX_URL", Form::Addresses),
    ("PIP_TRUSTED_HOST", Form::Hosts),
    ("PIP_DEFAULT_TIMEOUT", Form::Words),
    ("PIP_DISABLE_PIP_VERSION_CHECK", Form::Words),
    ("UV_INDEX_URL", Form::Addresses),
    ("UV_EXTRA_INDEX_URL", Form::Addresses),
    ("UV_DEFAULT_INDEX", Form::Addresses),
    ("CARGO_REGISTRIES_CRATES_IO_PROTOCOL", Form::Words),
    ("GOPROXY", Form::Addresses),
    ("GONOSUMDB", Form::Hosts),
    ("GOPRIVATE", Form::Hosts),
];

/// Returns the harmless lines of an `.npmrc`.
pub(super) fn npmrc(text: &str) -> String {
    let kept = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let (key, value) = (key.trim(), unquoted(value));
        let scope = key.strip_suffix(":registry").and_then(|scope| scope.strip_prefix('@'));
        let form = match scope {
            Some(scope) if is_word(scope) && !is_like_token(scope) => Form::Addresses,
            Some(_) => return None,
            None => form_of(&NPM, key)?,
        };
        form.fits(value).then(|| format!("{key}={value}\n"))
    };
    text.lines().filter_map(kept).collect()
}

/// Returns the harmless part of a `pip.conf`. A value may continue on indented lines.
pub(super) fn pip_conf(text: &str) -> String {
    let mut entries: Vec<(String, String, String)> = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_owned();
        } else if line.starts_with([' ', '\t']) && !entries.is_empty() {
            let last = entries.last_mut().map(|(_, _, value)| value);
            last.into_iter().for_each(|value| {
                value.push(' ');
                value.push_str(trimmed);
            });
        } else if let Some((key, value)) = trimmed.split_once(['=', ':']) {
            let key = key.trim().to_ascii_lowercase().replace('_', "-");
            entries.push((section.clone(), key, value.trim().to_owned()));
        } else {
            entries.push((section.clone(), String::new(), String::new()));
        }
    }
    let mut kept = String::new();
    let mut within = String::new();
    for (section, key, value) in entries {
        let fits = form_of(&PIP, &key).is_some_and(|form| form.fits(&value));
        if !fits || !is_word(&section) {
            continue;
        }
        if within != section {
            kept.push_str(&format!("[{section}]\n"));
            within = section;
        }
        kept.push_str(&format!("{key} = {value}\n"));
    }
    kept
}

/// Returns the harmless part of cargo's `config.toml`.
pub(super) fn cargo(text: &str) -> String {
    let Ok(table) = text.parse::<Table>() else { return String::new() };
    written(&kept_of_cargo(&table, &mut Vec::new()))
}

fn kept_of_cargo(table: &Table, above: &mut Vec<String>) -> Table {
    let mut kept = Table::new();
    for (name, value) in table {
        above.push(name.clone());
        let fits = |(path, _): &&(&[&str], Form)| {
            path.len() == above.len()
                && path.iter().zip(above.iter()).all(|(want, own)| *want == "*" || want == own)
        };
        // The name of a registry is part of the variable with its token; it is not a token itself.
        let is_plain = is_word(name) && !is_like_token(name);
        match (value, CARGO.iter().find(fits)) {
            (Value::Table(inner), None) if is_plain && above.len() < 3 => {
                let inner = kept_of_cargo(inner, above);
                if !inner.is_empty() {
                    kept.insert(name.clone(), Value::Table(inner));
                }
            }
            (value, Some((_, form))) if is_plain && fits_value(*form, value) => {
                kept.insert(name.clone(), value.clone());
            }
            _ => {}
        }
        above.pop();
    }
    kept
}

/// Returns the harmless part of a `uv.toml`.
pub(super) fn uv(text: &str) -> String {
    let Ok(table) = text.parse::<Table>() else { return String::new() };
    let mut kept = of_list(&table, &UV);
    if let Some(Value::Table(pip)) = table.get("pip") {
        let pip = of_list(pip, &UV);
        if !pip.is_empty() {
            kept.insert("pip".into(), Value::Table(pip));
        }
    }
    if let Some(Value::Array(all)) = table.get("index") {
        let index: Vec<_> = all.iter().filter_map(uv_index).collect();
        if !index.is_empty() {
            kept.insert("index".into(), Value::Array(index));
        }
    }
    written(&kept)
}

/// Returns an index if all of it is harmless: without its URL it would mean another one.
fn uv_index(value: &Value) -> Option<Value> {
    const KEYS: [(&str, Form); 4] = [
        ("name", Form::Words),
        ("url", Form::Addresses),
        ("default", Form::Words),
        ("explicit", Form::Words),
    ];
    let table = value.as_table()?;
    let kept = of_list(table, &KEYS);
    (kept.contains_key("url") && kept.len() == table.len()).then_some(Value::Table(kept))
}

/// Whether a variable is harmless.
pub(super) fn variable(name: &str, value: &str) -> bool {
    form_of(&VARIABLES, name).is_some_and(|form| form.fits(value))
}

/// Returns the harmless variables of a `go env -w` file.
pub(super) fn go_env(text: &str) -> Vec<(String, String)> {
    let entries = text.lines().filter_map(|line| line.trim().split_once('='));
    let kept = entries.filter(|(name, value)| name.starts_with("GO") && variable(name, value));
    kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn form_of(list: &[(&str, Form)], key: &str) -> Option<Form> {
    list.iter().find(|(known, _)| *known == key).map(|(_, form)| *form)
}

fn of_list(table: &Table, list: &[(&str, Form)]) -> Table {
    let fits = |(key, value): &(&String, &Value)| {
        form_of(list, key).is_some_and(|form| fits_value(form, value))
    };
    let kept = table.iter().filter(fits);
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn fits_value(form: Form, value: &Value) -> bool {
    match value {
        Value::String(text) => form.fits(text),
        Value::Array(all) => all.iter().all(|one| one.as_str().is_some_and(|one| form.fits(one))),
        Value::Integer(_) | Value::Boolean(_) => form == Form::Words,
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => false,
    }
}

fn written(table: &Table) -> String {
    toml::to_string(table).unwrap_or_default()
}

impl Form {
    fn fits(self, value: &str) -> bool {
        let mut parts = value.split([' ', '\t', ',', '|']).filter(|part| !part.is_empty());
        let each = match self {
            Self::Addresses => is_plain_address,
            Self::Hosts => is_plain_host,
            Self::Words => |word: &str| is_word(word) && !is_like_token(word),
            Self::System => is_system_folder,
        };
        parts.all(each)
    }
}

/// Whether a path is `/usr` or below it, without `..`.
fn is_system_folder(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/usr") else { return false };
    let parts = rest.split('/').skip(1);
    (rest.is_empty() || rest.starts_with('/'))
        && parts
            .into_iter()
            .all(|part| part.is_empty() || is_word(part) && part != ".." && !is_like_token(part))
}

/// Whether a URL contains only a scheme, a host, a port and a path without a token.
fn is_plain_address(address: &str) -> bool {
    // Keywords for Go's proxies.
    if ["direct", "off"].contains(&address) {
        return true;
    }
    let address = address.strip_prefix("sparse+").unwrap_or(address);
    let Some(rest) = ["https://", "http://"].iter().find_map(|s| address.strip_prefix(s)) else {
        return false;
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_clear = |part: &str| {
        let plain = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~+".contains(&b));
        plain && !is_like_token(part)
    };
    is_plain_host(host) && path.split('/').all(is_clear)
}

fn is_plain_host(host: &str) -> bool {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-.*_".contains(&b);
    !name.is_empty()
        && name.bytes().all(is_name)
        && port.bytes().all(|b| b.is_ascii_digit())
        && !name.split('.').any(is_like_token)
}

/// Whether a text is one short word without anything that a tool would expand.
fn is_word(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~^*:".contains(&b);
    text.len() <= 64 && text.bytes().all(plain)
}

/// Whether a part of a value could be a credential: a long run of letters and digits that is not a
/// word.
fn is_like_token(part: &str) -> bool {
    const LONGEST_RUN: usize = 15;
    const LONGEST: usize = 40;
    // Token prefixes: `npm_…`, `ghp_…`, `pypi-…`.
    const MARKS: [&str; 9] =
        ["npm_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "pypi-", "AKIA", "tok_"];
    let runs = part.split(|c: char| !c.is_ascii_alphanumeric());
    let is_mixed = |run: &str| {
        run.len() > LONGEST_RUN
            && run.bytes().any(|b| b.is_ascii_digit())
            && run.bytes().any(|b| b.is_ascii_alphabetic())
    };
    let is_cased = |run: &str| {
        run.len() > LONGEST_RUN
            && run.bytes().any(|b| b.is_ascii_uppercase())
            && run.bytes().any(|b| b.is_ascii_lowercase())
    };
    let hex = part.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_identifier = part.len() == 36 && hex == 32;
    part.len() > LONGEST
        || is_identifier
        || MARKS.iter().any(|mark| part.starts_with(mark) && part.len() > mark.len() + 8)
        || runs.into_iter().any(|run| is_mixed(run) || is_cased(run))
}

/// Removes the quotes from a value of an `.npmrc`.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [&str; 6] = [
        "npm_a8Xk20dkwo20dkwoLqPz81msYQ2b3c4d5e6f",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "eyJhbGciOiJIUzI1NiJ9eyJzdWIi",
        "s3cretS3cretS3cret",
        "AKIAIOSFODNN7EXAMPLE",
    ];

    /// Returns URLs with a token in every possible place.
    fn addresses(token: &str) -> Vec<String> {
        vec![
            format!("https://{token}@registry.example.com/simple"),
            format!("https://user:{token}@registry.example.com/simple"),
            format!("https://{token}:x@registry.example.com/"),
            format!("https://registry.example.com/{token}/simple"),
            format!("https://registry.example.com/basic/{token}"),
            format!("https://registry.example.com/simple?token={token}"),
            format!("https://registry.example.com/simple#{token}"),
            format!("https://{token}.example.com/simple"),
            format!("https://registry.example.com/simple;{token}"),
            format!("https://registry.example.com/%{token}"),
        ]
    }

    #[test]
    fn only_folders_of_the_system_come_along() {
        for (line, kept) in [
            ("nodedir=/usr", true),
            ("nodedir=/usr/local", true),
            ("nodedir=/usr/../root/x", false),
            ("nodedir=/home/ann/node", false),
            ("nodedir=/usrx", false),
        ] {
            assert_eq!(!npmrc(line).is_empty(), kept, "{line}");
        }
    }

    #[test]
    fn no_token_comes_along_wherever_it_is() {
        for token in TOKENS {
            for address in addresses(token) {
                let texts = [
                    npmrc(&format!("registry={address}\n@a:registry={address}\n")),
                    pip_conf(&format!(
                        "[global]\nindex-url = {address}\nextra-index-url =\n  {address}\n"
                    )),
                    cargo(&format!(
                        "[registries.x]\nindex = \"sparse+{address}\"\n[source.y]\nregistry = \"{address}\""
                    )),
                    uv(&format!(
                        "index-url = \"{address}\"\n[[index]]\nname = \"x\"\nurl = \"{address}\"\n"
                    )),
                ];
                for text in texts {
                    assert!(!text.contains(token) && !text.contains("example.com"), "{text}");
                }
                assert!(!variable("PIP_INDEX_URL", &address), "{address}");
                assert!(!variable("GOPROXY", &format!("{address},direct")), "{address}");
            }
            for line in [
                format!("//registry.example.com/:_authToken={token}"),
                format!("_auth={token}"),
                format!("//registry.example.com/:_password=\"{token}\""),
                format!("@{token}:registry=https://registry.example.com/"),
                format!("save-prefix={token}"),
                format!("proxy=http://u:{token}@proxy:80"),
                format!("email={token}@example.com"),
                format!("cafile=/home/u/{token}"),
            ] {
                let kept = npmrc(&line);
                assert!(!kept.contains(token), "{line}: {kept}");
            }
            let with_token = format!(
                "[registries.x]\nindex = \"https://h/i\"\ntoken = \"{token}\"\n[registry]\ntoken = \"{token}\"\ndefault = \"{token}\"\n\
                 [http]\nproxy = \"u:{token}@h\"\n[env]\nA = \"{token}\"\n[build]\nrustc-wrapper = \"{token}\"\n"
            );
            assert_eq!(cargo(&with_token), "[registries.x]\nindex = \"https://h/i\"\n");
        }
    }

    #[test]
    fn a_reference_to_a_variable_or_a_program_stays_behind() {
        for line in [
            "registry=https://${USER}@h/",
            "registry=${REGISTRY}",
            "script-shell=/bin/zsh",
            "node-options=--require /x.js",
            "prefix=~/.npm",
            "init-module=/x.js",
        ] {
            assert_eq!(npmrc(line), "", "{line}");
        }
        assert_eq!(pip_conf("[global]\nclient-cert = /k.pem\nkeyring-provider = subprocess\n"), "");
        assert_eq!(cargo("[target.x]\nrunner = \"x\"\n[alias]\nb = \"build\"\n"), "");
        assert_eq!(cargo("not toml ["), "");
    }

    #[test]
    fn registries_and_plain_settings_come_along() {
        let text = "; mine\nregistry = \"https://npm.example.com/repository/npm-group/\"\n@acme:registry=https://h:8443/npm\n\
                    fund=false\nsave-exact=true\n//npm.example.com/:_authToken=abc\n";
        assert_eq!(
            npmrc(text),
            "registry=https://npm.example.com/repository/npm-group/\n@acme:registry=https://h:8443/npm\nfund=false\nsave-exact=true\n"
        );
        let text = "[global]\nindex-url: https://pypi.example.com/simple\nextra-index-url =\n    https://a/simple\n    https://b/simple\n\
                    trusted-host = pypi.example.com:8080\nproxy = http://p\n[install]\nprefer_binary = true\n";
        assert_eq!(
            pip_conf(text),
            "[global]\nindex-url = https://pypi.example.com/simple\nextra-index-url =  https://a/simple https://b/simple\n\
             trusted-host = pypi.example.com:8080\n[install]\nprefer-binary = true\n"
        );
        let text = "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://c.example.com/index/\"\n[net]\nretry = 3\noffline = true\n";
        let kept: Table = cargo(text).parse().unwrap();
        assert_eq!(kept["source"]["crates-io"]["replace-with"].as_str(), Some("mirror"));
        assert_eq!(
            kept["source"]["mirror"]["registry"].as_str(),
            Some("sparse+https://c.example.com/index/")
        );
        assert!(kept["net"].get("offline").is_none());
        let text = "[[index]]\nurl = \"https://p/simple\"\ndefault = true\n[[index]]\nurl = \"https://q/simple\"\nusername = \"u\"\n";
        assert_eq!(uv(text), "[[index]]\ndefault = true\nurl = \"https://p/simple\"\n");
        assert_eq!(
            go_env(
                "GOPROXY=https://g.example.com,direct\nGOFLAGS=-x\nGONOSUMDB=*.corp.example.com\n"
            ),
            [
                ("GOPROXY".to_owned(), "https://g.example.com,direct".to_owned()),
                ("GONOSUMDB".to_owned(), "*.corp.example.com".to_owned())
            ]
        );
    }
}
