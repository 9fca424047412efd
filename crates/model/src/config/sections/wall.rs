//! Integrations, secrets and curated variables.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    ServiceName,
    config::{
        egress::Rule,
        host::{HostPattern, serde_as_text},
        path::{TreePath, UrlPath},
        problem::Complaint,
        template::Template,
        text::{EntryName, Line, SecretName, TextRule, VariableName, choice_type},
    },
};

choice_type! {
    /// How an outside service is treated.
    IntegrationClass {
        /// A real one runs in the room.
        Local = "local",
        /// The real one, but only requests that change nothing.
        ReadOnly = "read-only",
        /// The real one, with test credentials.
        TestMode = "test-mode",
        /// Fixtures answer.
        Mock = "mock",
        /// A script in the browser stands in.
        Shim = "shim",
        /// What is sent is recorded, and accepted.
        Sink = "sink",
        /// It is switched off.
        Disable = "disable",
        /// The app has its own seam for it.
        Seam = "seam",
    }
}

impl IntegrationClass {
    /// Whether the hosts of such an integration are terminated: all that are recorded, or that
    /// somebody else answers for.
    pub fn is_terminated(self) -> bool {
        match self {
            Self::ReadOnly | Self::TestMode | Self::Mock | Self::Sink | Self::Disable => true,
            Self::Local | Self::Shim | Self::Seam => false,
        }
    }

    /// Whether the hosts of such an integration are never dialled: Hothouse answers for them, if only
    /// with a refusal.
    pub fn is_answered_here(self) -> bool {
        match self {
            Self::Mock | Self::Sink | Self::Disable => true,
            Self::ReadOnly | Self::TestMode | Self::Local | Self::Shim | Self::Seam => false,
        }
    }
}

choice_type! {
    /// Where in a request a secret's value goes.
    SecretForm {
        Header = "header", Basic = "basic", Query = "query", Body = "body", SigV4 = "sigv4", Git = "git",
    }
}

choice_type! {
    /// What makes a variable's value harmless.
    VariableKind { ReadOnly = "read-only", Public = "public", Fake = "fake", TestMode = "test-mode" }
}

choice_type! {
    /// Whose protocol an integration speaks, where its hosts do not tell.
    Vendor {
        Amplitude = "amplitude", Anthropic = "anthropic", AzureBlob = "azure-blob", Bugsnag = "bugsnag",
        Clerk = "clerk", ConfigCat = "configcat", Contentful = "contentful", Discord = "discord",
        Flagsmith = "flagsmith",
        Gcs = "gcs", Gemini = "gemini", GitHub = "github", GitLab = "gitlab",
        GoogleAnalytics = "google-analytics", HCaptcha = "hcaptcha", Honeybadger = "honeybadger",
        LaunchDarkly = "launchdarkly", Mailchimp = "mailchimp", Mailgun = "mailgun",
        Mixpanel = "mixpanel", OpenAi = "openai", OpenFeature = "openfeature", Otlp = "otlp",
        Plausible = "plausible", PostHog = "posthog", Postmark = "postmark", Prismic = "prismic",
        Recaptcha = "recaptcha", Resend = "resend",
        Rollbar = "rollbar", RudderStack = "rudderstack", S3 = "s3", Sanity = "sanity", Segment = "segment",
        SendGrid = "sendgrid", Sentry = "sentry", Ses = "ses", Shippo = "shippo",
        Shopify = "shopify", Slack = "slack", Sns = "sns", Sqs = "sqs", Standard = "standard",
        Statsig = "statsig", Storyblok = "storyblok", Stripe = "stripe", Svix = "svix", TaxJar = "taxjar",
        Turnstile = "turnstile", Twilio = "twilio", Unleash = "unleash", Vonage = "vonage",
    }
}

choice_type! {
    /// What happens to mail for a recipient, on purpose.
    MailFaultKind { Reject = "reject", Defer = "defer", Greylist = "greylist", Slow = "slow" }
}

/// `[mail]`: how the mail of apps is treated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mail {
    #[serde(default)]
    pub faults: Vec<MailFault>,
}

/// A fault for some recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MailFault {
    /// An address, in which `*` stands for anything.
    pub to: Line,
    pub fault: MailFaultKind,
    /// How late a slow recipient is accepted.
    #[serde(default, with = "crate::config::units::optional_duration")]
    pub after: Option<std::time::Duration>,
}

/// `[integration.NAME]`: an outside service and how it is treated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Integration {
    pub class: IntegrationClass,
    /// By default it follows from the hosts.
    pub vendor: Option<Vendor>,
    #[serde(default)]
    pub hosts: Vec<HostPattern>,
    #[serde(default)]
    pub exceptions: Vec<Rule>,
    pub caveat: Option<Line>,
    /// The service of the room that answers for its hosts.
    pub to: Option<ServiceName>,
    pub webhook: Option<Webhook>,
    pub fixtures: Option<TreePath>,
    #[serde(default)]
    pub env: BTreeMap<VariableName, Template>,
    pub caps: Option<Caps>,
}

/// How much a run may spend at a real model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Caps {
    pub calls: Option<u64>,
    /// In dollars.
    pub cost: Option<f64>,
    /// Dollars per million tokens, for models whose price is not known here.
    pub input_price: Option<f64>,
    pub output_price: Option<f64>,
}

/// Where the webhooks of an integration go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Webhook {
    pub to: ServiceName,
    pub path: UrlPath,
    pub secret: Option<SecretName>,
}

/// `[secret.NAME]`: a credential that the room never sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Secret {
    pub hosts: Vec<HostPattern>,
    pub form: SecretForm,
    pub from: SecretSource,
    pub placeholder: Option<Line>,
}

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The user's keyring, filled by `secret set`.
    Keyring,
    /// Hothouse's own file of mode 0600, filled by `secret set`.
    File,
    Environment(VariableName),
    /// A command of the user's own config; a project cannot name one, since it would run on the host.
    Command(String),
}

/// `[env.NAME]`: a variable that every command in the room gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Variable {
    /// Public values are checked the most strictly, so that is what a value is unless the user says more of it.
    #[serde(default = "public")]
    pub kind: VariableKind,
    pub value: Option<Template>,
    pub from: Option<ValueSource>,
    /// The services that get it; none means every command in the room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceName>,
}

fn public() -> VariableKind {
    VariableKind::Public
}

/// `[notify]`: how the user is told that an agent waits. Only the user's own file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Notify {
    pub command: Option<crate::config::Command>,
    pub desktop: bool,
    pub bell: bool,
}

/// `[live-keys]`: what counts as a live credential in addition to the known ones, and what may enter anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LiveKeys {
    #[serde(default, rename = "rule")]
    pub rules: BTreeMap<EntryName, LiveKeyRule>,
    /// Variables that may hold a live key, each with the reason that `status` shows.
    #[serde(default)]
    pub allow_live: BTreeMap<VariableName, Line>,
}

/// `[live-keys.rule.NAME]`: a form of live keys that only this project knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LiveKeyRule {
    pub prefix: Line,
    pub vendor: Option<Line>,
}

/// A variable of the host's environment that holds a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSource(pub VariableName);

pub const SECRET_SOURCE: TextRule = TextRule {
    what: "`keyring`, `file`, `env:NAME` or `command:…`",
    pattern: Some("^(keyring|file|env:[A-Za-z_][A-Za-z0-9_]*|command:.+)$"),
    check: |text| text.parse::<SecretSource>().map(|_| ()),
};

pub const VALUE_SOURCE: TextRule = TextRule {
    what: "`env:NAME`",
    pattern: Some("^env:[A-Za-z_][A-Za-z0-9_]*$"),
    check: |text| text.parse::<ValueSource>().map(|_| ()),
};

impl FromStr for SecretSource {
    type Err = Complaint;

    /// Reads a source; the text is not repeated in the complaint, since it may be the secret itself.
    fn from_str(text: &str) -> Result<Self, Complaint> {
        let wrong = || Complaint::new(format!("must be {}", SECRET_SOURCE.what));
        match text.split_once(':') {
            None if text == "keyring" => Ok(Self::Keyring),
            None if text == "file" => Ok(Self::File),
            Some(("env", name)) => name.parse().map(Self::Environment).map_err(|_| wrong()),
            Some(("command", command)) if !command.trim().is_empty() => {
                Ok(Self::Command(command.to_owned()))
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring => f.write_str("keyring"),
            Self::File => f.write_str("file"),
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::Command(command) => write!(f, "command:{command}"),
        }
    }
}

impl FromStr for ValueSource {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let name = text.strip_prefix("env:").and_then(|name| name.parse().ok());
        name.map(Self).ok_or_else(|| Complaint::new(format!("must be {}", VALUE_SOURCE.what)))
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "env:{}", self.0)
    }
}

serde_as_text!(SecretSource, ValueSource);
