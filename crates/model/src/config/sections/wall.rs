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
        /// A real instance runs in the room.
        Local = "local",
        /// The real service, but only for requests that change nothing.
        ReadOnly = "read-only",
        /// The real service, with test credentials.
        TestMode = "test-mode",
        /// Fixtures answer.
        Mock = "mock",
        /// A script in the browser replaces it.
        Shim = "shim",
        /// Requests are recorded and acknowledged.
        Sink = "sink",
        /// It is switched off.
        Disable = "disable",
        /// The app has its own way to replace it.
        Seam = "seam",
    }
}

impl IntegrationClass {
    /// Returns whether the wall terminates TLS for the hosts of such an integration: all that are recorded, or answered
    /// by something else.
    pub fn is_terminated(self) -> bool {
        match self {
            Self::ReadOnly | Self::TestMode | Self::Mock | Self::Sink | Self::Disable => true,
            Self::Local | Self::Shim | Self::Seam => false,
        }
    }

    /// Returns whether the hosts of such an integration are never dialled: Hothouse answers for them, even if only with
    /// a refusal.
    pub fn is_answered_here(self) -> bool {
        match self {
            Self::Mock | Self::Sink | Self::Disable => true,
            Self::ReadOnly | Self::TestMode | Self::Local | Self::Shim | Self::Seam => false,
        }
    }
}

choice_type! {
    /// Where in a request the value of a secret goes.
    SecretForm {
        Header = "header", Basic = "basic", Query = "query", Body = "body", SigV4 = "sigv4", Git = "git",
    }
}

choice_type! {
    /// Why a variable's value is harmless.
    VariableKind { ReadOnly = "read-only", Public = "public", Fake = "fake", TestMode = "test-mode" }
}

choice_type! {
    /// The vendor whose protocol an integration uses, where its hosts do not tell.
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
    /// A deliberate fault for mail to a recipient.
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
    /// How long a slow recipient is delayed.
    #[serde(default, with = "crate::config::units::optional_duration")]
    pub after: Option<std::time::Duration>,
}

/// `[integration.NAME]`: an outside service and how it is treated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Integration {
    pub class: IntegrationClass,
    /// By default it is derived from the hosts.
    pub vendor: Option<Vendor>,
    #[serde(default)]
    pub hosts: Vec<HostPattern>,
    #[serde(default)]
    pub exceptions: Vec<Rule>,
    pub caveat: Option<Line>,
    /// The service in the room that answers for its hosts.
    pub to: Option<ServiceName>,
    pub webhook: Option<Webhook>,
    pub fixtures: Option<TreePath>,
    #[serde(default)]
    pub env: BTreeMap<VariableName, Template>,
    pub caps: Option<Caps>,
}

/// How much a run may spend on a real model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Caps {
    pub calls: Option<u64>,
    /// In dollars.
    pub cost: Option<f64>,
    /// Dollars per million tokens, for models with an unknown price.
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
    /// Hothouse's own file with mode 0600, filled by `secret set`.
    File,
    Environment(VariableName),
    /// A command from the user's own config; a project cannot set one, since it would run on the host.
    Command(String),
}

/// `[env.NAME]`: a variable that every command in the room gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Variable {
    /// Public values are checked most strictly, so that is the default.
    #[serde(default = "public")]
    pub kind: VariableKind,
    pub value: Option<Template>,
    pub from: Option<ValueSource>,
    /// The services that get it; empty means every command in the room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceName>,
}

fn public() -> VariableKind {
    VariableKind::Public
}

/// `[notify]`: how the user is told that an agent is waiting. Only the user's own file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Notify {
    pub command: Option<crate::config::Command>,
    pub desktop: bool,
    pub bell: bool,
}

/// `[live-keys]`: additional kinds of live credentials, and which may enter anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LiveKeys {
    #[serde(default, rename = "rule")]
    pub rules: BTreeMap<EntryName, LiveKeyRule>,
    /// Variables that may hold a live key, each with the reason that `status` shows.
    #[serde(default)]
    pub allow_live: BTreeMap<VariableName, Line>,
}

/// `[live-keys.rule.NAME]`: a format of live keys that only this project knows.
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

    /// Parses a source; the complaint does not repeat the text, which may be the secret itself.
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
