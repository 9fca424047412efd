use proptest::prelude::*;

use hothouse_config::parse;
use hothouse_model::live_keys::*;
use hothouse_model::{
    Explain,
    config::{LiveKeys, VariableKind},
};

fn settings(text: &str) -> LiveKeys {
    parse("hothouse.toml", text).expect("the text is valid").config.live_keys
}

fn found(variable: &str, text: &str) -> Option<String> {
    find(variable, text, &LiveKeys::default()).map(|key| format!("{} {}", key.vendor, key.what))
}

/// Keys are assembled here, so that none of our files seems to contain one.
fn key(prefix: &str, tail: &str, length: usize) -> String {
    format!("{prefix}{}", tail.chars().cycle().take(length).collect::<String>())
}

#[test]
fn live_keys_of_vendors_are_known_wherever_they_stand() {
    const MIXED: &str = "aB3dE5gH7jK9";
    const HEX: &str = "0123456789abcdef";
    let cases = [
        (key("sk_live_", MIXED, 24), "Stripe secret key"),
        (key("pk_live_", MIXED, 24), "Stripe publishable key"),
        (key("AKIA", "QWERTY23", 16), "AWS access key"),
        (key("ghp_", MIXED, 36), "GitHub token"),
        (key("github_pat_", MIXED, 60), "GitHub token"),
        (key("sk-ant-api03-", MIXED, 80), "Anthropic key"),
        (key("sk-proj-", MIXED, 60), "OpenAI project key"),
        (key("sk-", MIXED, 48), "OpenAI key"),
        (key("xoxb-", MIXED, 40), "Slack bot token"),
        (key("SG.", MIXED, 66), "SendGrid key"),
        (key("SK", HEX, 32), "Twilio API key"),
        (key("shpat_", HEX, 32), "Shopify access token"),
        (key("live_", MIXED, 30), "Mollie key"),
    ];
    for (text, expected) in cases {
        for text in [text.clone(), format!("KEY={text}"), format!("use \"{text}\" here")] {
            assert_eq!(found("X", &text).as_deref(), Some(expected), "{expected}");
        }
    }
}

#[test]
fn keys_of_test_modes_and_words_are_left_alone() {
    for text in [
        "sk_test_51abcdefghijklmnopqrstuvwx",
        "pk_test_51abcdefghijklmnopqrstuvwx",
        "sk_live_",
        "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAIOSFODNN7EXAMPLE",
        "task-manager-with-a-long-name-that-goes-on-and-on-for-a-while",
        "relive_abcdefghijklmnopqrstuvwxyz012345",
        "postgres://postgres:postgres@127.0.0.1:5432/app",
        "postgres://reader@db.neon.tech/app",
        "https://user:pw@example.com/",
        "-----BEGIN CERTIFICATE-----",
        "",
    ] {
        assert_eq!(found("X", text), None, "{text}");
    }
}

#[test]
fn shapes_names_and_addresses_give_keys_away() {
    let account = r#"{"type": "service_account", "private_key": "x"}"#;
    assert_eq!(found("X", account).as_deref(), Some("Google service account"));
    let pem = format!("-----BEGIN RSA {} KEY-----\nabc", "PRIVATE");
    assert_eq!(found("X", &pem).as_deref(), Some("private key (PEM)"));
    let aws = key("", "wJalrXUtnFEMI/K7MDENG+bPx", 40);
    assert_eq!(found("AWS_SECRET_ACCESS_KEY", &aws).as_deref(), Some("AWS secret access key"));
    assert_eq!(found("OTHER", &aws), None);
    for (url, vendor) in [
        ("postgres://u:p@ep-a-1.eu-central-1.aws.neon.tech/db?sslmode=require", "Neon"),
        ("mysql://u:p@x.rds.amazonaws.com:3306/db", "Amazon RDS"),
        ("mongodb://u:p@a.example.com,b.mongodb.net:27017/db", "MongoDB Atlas"),
        ("rediss://default:p@x.upstash.io:6379", "Upstash"),
    ] {
        let expected = format!("{vendor} database URL with a password");
        assert_eq!(found("X", url).as_deref(), Some(expected.as_str()), "{url}");
    }
}

fn exposed(value: &str, declared: Option<VariableKind>) -> Exposed {
    Exposed { variable: "KEY".into(), place: "service `api`".into(), value: value.into(), declared }
}

#[test]
fn a_finding_names_everything_but_the_value() {
    let value = key("sk_live_", "51abcdefgh", 26);
    let judgement = judge([exposed(&value, None)], &LiveKeys::default());
    let error = LiveKeysFound { findings: judgement.refused };
    let failure = error.failure();
    let said = format!("{failure:?} {error} {:?}", exposed(&value, None));
    assert!(said.contains("Stripe") && said.contains("KEY") && said.contains("`api`"), "{said}");
    assert!(!said.contains("51abc"), "{said}");
    assert_eq!(failure.kind, hothouse_model::FailureKind::Config);
}

#[test]
fn a_declaration_overrules_what_is_only_likely() {
    let url = "postgres://u:p@x.neon.tech/db";
    let live = key("sk_live_", "51abcdefgh", 26);
    let refused = |value: &str, declared| {
        !judge([exposed(value, declared)], &LiveKeys::default()).refused.is_empty()
    };
    assert!(refused(url, None));
    assert!(refused(url, Some(VariableKind::Public)));
    assert!(!refused(url, Some(VariableKind::TestMode)));
    assert!(refused(&live, Some(VariableKind::TestMode)), "a live key is no key of a test mode");
}

#[test]
fn exceptions_are_by_name_and_keep_their_reason() {
    let live = key("sk_live_", "51abcdefgh", 26);
    let with = settings("[live-keys.allow-live]\nKEY = \"read-only, agreed with Ann\"");
    let judgement = judge([exposed(&live, None)], &with);
    assert!(judgement.refused.is_empty());
    assert_eq!(judgement.allowed[0].1, "read-only, agreed with Ann");
    let other = settings("[live-keys.allow-live]\nOTHER = \"x\"");
    assert_eq!(judge([exposed(&live, None)], &other).refused.len(), 1);
}

#[test]
fn a_project_has_rules_of_its_own() {
    let with = settings("[live-keys.rule.acme]\nprefix = \"acme_prod_\"\nvendor = \"Acme\"");
    let found = find("X", "acme_prod_0123456789", &with).unwrap();
    assert_eq!((found.vendor.as_str(), found.shown.as_str()), ("Acme", "acme_pro"));
    assert_eq!(find("X", "acme_test_0123456789", &with), None);
}

#[test]
fn env_files_are_read_as_shells_and_tools_write_them() {
    let text = "# a comment\nA=1\nexport B = \"two words\" # c\nC='x#y'\n D=4 # four\n\nno entry\n1X=2\nE=\"line\nnext\"\nF=\n";
    let entries = env_file_entries(text);
    let shown: Vec<_> = entries.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let expected =
        [("A", "1"), ("B", "two words"), ("C", "x#y"), ("D", "4"), ("E", "line\nnext"), ("F", "")];
    assert_eq!(shown, expected);
}

proptest! {
    #[test]
    fn no_text_breaks_the_search(variable in "\\PC{0,12}", text in "\\PC{0,200}") {
        find(&variable, &text, &LiveKeys::default());
        env_file_entries(&text);
    }
}
