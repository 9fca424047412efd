//! Decides which values may be copied from examples, and what replaces the others.

use std::collections::BTreeMap;

use hothouse_model::{config::LiveKeys, live_keys};

/// The maximum length of a copied value.
const VALUE_MOST: usize = 200;

/// Whether a text can be the name of a database or of its user.
pub(super) fn is_database_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether a text can be a development password for a database: short, and not random.
pub(super) fn is_password(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    (1..=32).contains(&text.len()) && text.bytes().all(plain) && !looks_random(text)
}

/// Words in names of variables with secrets.
const SECRET_WORDS: [&str; 18] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "APIKEY",
    "KEY",
    "KEYS",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "SALT",
    "SIGNING",
    "CERT",
    "PASSPHRASE",
    "PWD",
    "AUTH",
    "HASH",
];

/// Whether the name of a variable suggests a secret value.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_word = |part: &str| SECRET_WORDS.contains(&part);
    // `DISABLE_PASSWORD_SIGNIN` switches something.
    if upper.split('_').any(|part| SWITCHES.contains(&part)) {
        return false;
    }
    // The lifetime of a token, or a list of allowed origins, is not secret.
    if upper.rsplit('_').next().is_some_and(|last| HARMLESS_ENDINGS.contains(&last)) {
        return false;
    }
    upper.split('_').any(is_word)
        || upper.contains("SECRET")
        || upper.contains("TOKEN")
        || upper.contains("PASSWORD")
        || upper.contains("APIKEY")
        || upper.ends_with("_PRIVATE")
}

/// Words in names of variables that switch something on or off.
const SWITCHES: [&str; 9] =
    ["DISABLE", "DISABLED", "ENABLE", "ALLOW", "SKIP", "USE", "REQUIRE", "HIDE", "SHOW"];

/// Last words of names for quantities, places and choices.
const HARMLESS_ENDINGS: [&str; 37] = [
    "MINUTES",
    "HOURS",
    "DAYS",
    "SECONDS",
    "MS",
    "TTL",
    "TIMEOUT",
    "EXPIRATION",
    "EXPIRY",
    "EXPIRES",
    "LIFETIME",
    "LENGTH",
    "ROUNDS",
    "AGE",
    "CORS",
    "ORIGIN",
    "ORIGINS",
    "DOMAIN",
    "DOMAINS",
    "ISSUER",
    "AUDIENCE",
    "ALGORITHM",
    "HEADER",
    "PROVIDER",
    "ENABLED",
    "PATH",
    "FILE",
    "DIR",
    "HOST",
    "PORT",
    "REGION",
    "ENDPOINT",
    "BUCKET",
    "PREFIX",
    "LEVEL",
    "URL",
    "URI",
];

/// Whether a value has no content: it is empty, masked as in `****`, or a placeholder word.
pub(super) fn is_blank(value: &str) -> bool {
    is_masked(value) || is_placeholder(value) && !value.contains("://")
}

fn is_masked(value: &str) -> bool {
    value.trim().chars().all(|c| "*.…-_#?".contains(c))
}

/// Whether a text is a placeholder to be filled in.
pub(super) fn is_placeholder(value: &str) -> bool {
    if is_masked(value) {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    let words = [
        "your",
        "changeme",
        "change-me",
        "change_me",
        "replace",
        "todo",
        "xxx",
        "insert",
        "example.com",
        "...",
        "<",
        "secret",
        "placeholder",
        "enter-",
    ];
    words.iter().any(|word| lower.contains(word))
}

/// Whether a text looks random rather than written by a person.
pub(super) fn looks_random(text: &str) -> bool {
    if text.len() < 16 {
        return false;
    }
    let part = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .max_by_key(|part| part.len())
        .unwrap_or_default();
    if part.len() < 16 {
        return false;
    }
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    let upper = part.bytes().filter(u8::is_ascii_uppercase).count();
    let lower = part.bytes().filter(u8::is_ascii_lowercase).count();
    let hex = part.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits > 2;
    hex || [digits, upper, lower].iter().filter(|count| **count >= 2).count() >= 3
}

/// Whether a value is a choice or a duration, and so not a secret whatever its name: `AUTH_STRICT=false`,
/// `TOKEN_EXPIRES_IN=15m`.
fn is_choice(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &lower[digits.len()..];
    let is_span = (1..=4).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && ["ms", "s", "m", "h", "d", "w", "y"].contains(&unit);
    is_span || ["true", "false", "yes", "no", "on", "off"].contains(&lower.as_str())
}

/// Whether a value is the address of something built in: `MAILER_DSN=null://null`.
fn is_without_account(name: &str, value: &str) -> bool {
    let rest = value.split_once("://").map(|(_, rest)| rest.split('?').next().unwrap_or_default());
    name.to_ascii_uppercase().ends_with("DSN")
        && rest.is_some_and(|rest| ["null", "default", "localhost"].contains(&rest))
}

/// Returns whether a value may be copied unchanged.
pub(super) fn is_plain(name: &str, value: &str) -> bool {
    let url_with_account = value.split_once("://").is_some_and(|(_, rest)| {
        rest.split('/').next().is_some_and(|authority| authority.contains('@'))
    });
    !value.is_empty()
        && value.len() <= VALUE_MOST
        && !value.contains(['\n', '\0'])
        && (!is_secret_name(name) || is_choice(value) || is_without_account(name, value))
        && !is_placeholder(value)
        // A reference to another variable that could not be resolved.
        && !value.contains("${")
        && !looks_random(value)
        && !url_with_account
        && live_keys::find(name, value, &LiveKeys::default()).is_none()
}

/// An address of Sentry that leads nowhere.
const SENTRY: &str = "https://0123456789abcdef0123456789abcdef@o0.ingest.sentry.io/1";

/// Returns a placeholder for a secret: a value of the right shape that grants no access.
pub(super) fn stand_in(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().all(|word| upper.contains(word));
    const SHAPES: [(&[&str], &str); 20] = [
        (&["STRIPE", "WEBHOOK"], "whsec_room_only"),
        (&["STRIPE", "PUBLISHABLE"], "pk_test_room_only"),
        (&["STRIPE", "PUBLIC"], "pk_test_room_only"),
        (&["STRIPE"], "sk_test_room_only"),
        (&["SENTRY", "DSN"], SENTRY),
        (&["OPENAI"], "sk-room-only"),
        (&["ANTHROPIC"], "sk-ant-room-only"),
        (&["SENDGRID"], "SG.room-only"),
        (&["RESEND"], "re_room_only"),
        (&["POSTHOG"], "phc_room_only"),
        (&["TWILIO", "SID"], "AC00000000000000000000000000000000"),
        (&["SLACK", "SIGNING"], "room-only-signing-secret"),
        (&["SLACK"], "xoxb-room-only"),
        (&["GITHUB"], "ghp_room_only"),
        (&["CLERK", "PUBLISHABLE"], "pk_test_cm9vbS1vbmx5LmNsZXJrLmFjY291bnRzLmRldiQ"),
        (&["CLERK"], "sk_test_room_only"),
        (&["SUPABASE"], "room-only-key"),
        (&["AWS", "ACCESS", "ID"], "room-only-access-key"),
        (&["MAPBOX"], "pk.room-only"),
        (&["FERNET"], "cm9vbS1vbmx5LWtleS1vZi1leGFjdGx5LTMyLWJ5dGU="),
    ];
    match upper.as_str() {
        "DSN" => return SENTRY.to_owned(),
        "APP_KEY" => return "base64:aG90aG91c2Utcm9vbS1vbmx5LWtleS0zMi1ieXRlcyE=".to_owned(),
        _ => {}
    }
    let known = SHAPES.iter().find(|(words, _)| has(words)).map(|(_, value)| (*value).to_owned());
    // Long enough for frameworks that reject short keys.
    known.unwrap_or_else(|| {
        let word = name.to_ascii_lowercase().replace('_', "-");
        let text = format!("room-only-{word}-");
        text.chars().chain("not-a-secret-".chars().cycle()).take(72).collect()
    })
}

/// Returns the variables of a compose service that may be copied, with placeholders for secrets.
pub(super) fn settings(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let one = |(name, value): (&String, &String)| {
        if !is_variable(name) {
            return None;
        }
        let simple = is_secret_name(name) && is_password(value);
        let value = match is_plain(name, value) || simple {
            true => value.clone(),
            false if value.is_empty() => return None,
            false => stand_in(name),
        };
        Some((name.clone(), escaped(&value)))
    };
    env.iter().filter_map(one).collect()
}

/// Whether a text is a valid name of a variable.
pub(super) fn is_variable(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    !name.is_empty() && plain && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Escapes a text so that it is a template without references.
pub(super) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_copied() {
        let key = format!("sk_{}_4eC39HqLyjWDarjtT1zdp7dc", "live");
        for (name, value) in [
            ("STRIPE_SECRET_KEY", key.as_str()),
            ("ANALYTICS", key.as_str()),
            ("JWT_SECRET", "abc"),
            ("DB_PASSWORD", "x"),
            ("API_TOKEN", "1234"),
            ("X", "9f86d081884c7d659a2feaa0c55ad015"),
            ("URL", "https://user:pw@host/x"),
            ("AUTH_ORIGIN", "https://user:pw@host/x"),
            ("HOST", "your-host-here"),
            ("EMPTY", ""),
            ("MASKED", "****"),
            ("LEFT_OUT", "..."),
            ("MAIL_FROM_NAME", "${JWT_SECRET}"),
            ("MESSENGER_DSN", "doctrine://u:p@h"),
            ("JWT_PRIVATE", "abc"),
        ] {
            assert!(!is_plain(name, value), "{name}");
        }
        for (name, value) in [
            ("LOG_LEVEL", "debug"),
            ("NODE_ENV", "development"),
            ("API_URL", "http://localhost:3000"),
            ("LIMIT", "10"),
            ("KEYBOARD", "de"),
            ("JWT_RESET_PASSWORD_EXPIRATION_MINUTES", "10"),
            ("TOKEN_TTL", "15m"),
            ("AUTH_JWT_TOKEN_EXPIRES_IN", "30d"),
            ("AUTH_UNIFORM_ERRORS", "false"),
            ("AUTH_CORS", "http://localhost:5173,https://docs.medusajs.com"),
            ("JWT_SECRET_ALGORITHM", "HS256"),
            ("NEXT_PRIVATE_SMTP_TRANSPORT", "smtp-auth"),
            ("PUBLIC_DISABLE_PASSWORD_SIGNIN", "maybe"),
            ("SSL_KEY_PATH", "./certs/dev.key"),
            ("MAILER_DSN", "null://null"),
            ("MESSENGER_TRANSPORT_DSN", "doctrine://default?auto_setup=0"),
        ] {
            assert!(is_plain(name, value), "{name}");
        }
    }

    #[test]
    fn what_stands_in_opens_nothing() {
        for name in [
            "STRIPE_SECRET_KEY",
            "SENTRY_DSN",
            "OPENAI_API_KEY",
            "JWT_SECRET",
            "AWS_ACCESS_KEY_ID",
            "GITHUB_TOKEN",
            "SLACK_BOT_TOKEN",
            "SENDGRID_API_KEY",
        ] {
            let value = stand_in(name);
            let found = live_keys::find(name, &value, &LiveKeys::default());
            assert!(found.is_none(), "{name}={value}: {found:?}");
        }
        assert!(stand_in("SECRET_KEY_BASE").len() >= 64);
    }

    #[test]
    fn chance_is_told_from_words() {
        for (text, expected) in [
            ("shop", false),
            ("postgres_password_for_dev", false),
            ("9f86d081884c7d659a2f", true),
            ("aB3dE5fG7hI9jK1lM", true),
            ("correct-horse-battery", false),
        ] {
            assert_eq!(looks_random(text), expected, "{text}");
        }
    }
}
