//! What the credentials of common vendors look like.
//!
//! Only formats that tell production from test, or that have no test mode at all. To add one: a line in the right
//! table, and one in `tests.rs`.

/// What follows a prefix.
pub(super) struct Form {
    pub(super) alphabet: fn(char) -> bool,
    /// The minimum number of characters.
    pub(super) least: usize,
}

/// A credential with its own prefix.
pub(super) struct Vendor {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) prefix: &'static str,
    pub(super) form: Form,
}

/// A credential that is recognizable only by the name of its variable.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The end of the variable's name.
    pub(super) variable: &'static str,
    pub(super) length: usize,
    pub(super) alphabet: fn(char) -> bool,
    pub(super) certain: bool,
}

const fn vendor(
    name: &'static str,
    what: &'static str,
    prefix: &'static str,
    alphabet: fn(char) -> bool,
    least: usize,
) -> Vendor {
    Vendor { name, what, prefix, form: Form { alphabet, least } }
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn word_dash(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn upper(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit()
}

fn hex(c: char) -> bool {
    c.is_ascii_hexdigit()
}

fn base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=-_.".contains(c)
}

pub(super) static VENDORS: &[Vendor] = &[
    vendor("Stripe", "secret key", "sk_live_", word_dash, 10),
    vendor("Stripe", "restricted key", "rk_live_", word_dash, 10),
    vendor("Stripe", "publishable key", "pk_live_", word_dash, 10),
    vendor("Razorpay", "key", "rzp_live_", word, 10),
    vendor("Mollie", "key", "live_", word, 28),
    vendor("Flutterwave", "secret key", "FLWSECK-", word, 16),
    vendor("Square", "access token", "sq0atp-", word_dash, 20),
    vendor("Square", "application secret", "sq0csp-", word_dash, 30),
    vendor("Braintree", "access token", "access_token$production$", base64, 10),
    vendor("Plaid", "access token", "access-production-", word_dash, 30),
    vendor("AWS", "access key", "AKIA", upper, 16),
    vendor("AWS", "temporary access key", "ASIA", upper, 16),
    vendor("GitHub", "token", "ghp_", word, 30),
    vendor("GitHub", "OAuth token", "gho_", word, 30),
    vendor("GitHub", "user token", "ghu_", word, 30),
    vendor("GitHub", "server token", "ghs_", word, 30),
    vendor("GitHub", "refresh token", "ghr_", word, 30),
    vendor("GitHub", "token", "github_pat_", word_dash, 30),
    vendor("GitLab", "token", "glpat-", word_dash, 20),
    vendor("Anthropic", "key", "sk-ant-", word_dash, 20),
    vendor("OpenAI", "project key", "sk-proj-", word_dash, 20),
    vendor("OpenAI", "service key", "sk-svcacct-", word_dash, 20),
    vendor("OpenAI", "admin key", "sk-admin-", word_dash, 20),
    vendor("OpenAI", "key", "sk-", word, 40),
    vendor("Google", "API key", "AIza", word_dash, 35),
    vendor("Google", "OAuth secret", "GOCSPX-", word_dash, 20),
    vendor("Google", "access token", "ya29.", word_dash, 20),
    vendor("Slack", "bot token", "xoxb-", word_dash, 20),
    vendor("Slack", "user token", "xoxp-", word_dash, 20),
    vendor("Slack", "token", "xoxa-", word_dash, 20),
    vendor("Slack", "refresh token", "xoxr-", word_dash, 20),
    vendor("Slack", "app token", "xapp-", word_dash, 20),
    vendor("Slack", "webhook", "hooks.slack.com/services/T", base64, 20),
    vendor("SendGrid", "key", "SG.", base64, 60),
    vendor("Twilio", "API key", "SK", hex, 32),
    vendor("Mailgun", "key", "key-", hex, 32),
    vendor("Resend", "key", "re_", word_dash, 30),
    vendor("Shopify", "access token", "shpat_", hex, 32),
    vendor("Shopify", "app secret", "shpss_", hex, 32),
    vendor("Shopify", "custom app token", "shpca_", hex, 32),
    vendor("npm", "token", "npm_", word, 36),
    vendor("PyPI", "token", "pypi-AgEI", word_dash, 40),
    vendor("DigitalOcean", "token", "dop_v1_", hex, 64),
    vendor("Heroku", "key", "HRKU-", word_dash, 30),
    vendor("Hugging Face", "token", "hf_", word, 30),
    vendor("Databricks", "token", "dapi", hex, 32),
    vendor("Doppler", "token", "dp.pt.", word, 40),
    vendor("Vault", "token", "hvs.", word_dash, 20),
    vendor("Linear", "key", "lin_api_", word, 32),
    vendor("Notion", "token", "ntn_", word, 40),
    vendor("Supabase", "access token", "sbp_", hex, 40),
    vendor("Supabase", "secret key", "sb_secret_", word_dash, 20),
    vendor("PlanetScale", "password", "pscale_pw_", word_dash, 30),
    vendor("PlanetScale", "token", "pscale_tkn_", word_dash, 30),
    vendor("Figma", "token", "figd_", word_dash, 30),
    vendor("New Relic", "key", "NRAK-", word, 20),
    vendor("Sentry", "organisation token", "sntrys_", base64, 40),
    vendor("Sentry", "user token", "sntryu_", hex, 40),
    vendor("Fly.io", "token", "fm2_", base64, 60),
    vendor("Terraform Cloud", "token", "atlasv1.", word_dash, 40),
    vendor("PostHog", "personal key", "phx_", word, 30),
    vendor("age", "secret key", "AGE-SECRET-KEY-1", upper, 40),
];

pub(super) static NAMED: &[Named] = &[
    Named {
        name: "AWS",
        what: "secret access key",
        variable: "SECRET_ACCESS_KEY",
        length: 40,
        alphabet: base64,
        certain: true,
    },
    Named {
        name: "Twilio",
        what: "auth token",
        variable: "TWILIO_AUTH_TOKEN",
        length: 32,
        alphabet: hex,
        certain: false,
    },
    Named {
        name: "Datadog",
        what: "application key",
        variable: "DD_APP_KEY",
        length: 40,
        alphabet: hex,
        certain: true,
    },
    Named {
        name: "Cloudflare",
        what: "API token",
        variable: "CLOUDFLARE_API_TOKEN",
        length: 40,
        alphabet: word_dash,
        certain: true,
    },
];

/// Parent domains of managed databases.
pub(super) static MANAGED: &[(&str, &str)] = &[
    ("rds.amazonaws.com", "Amazon RDS"),
    ("cache.amazonaws.com", "Amazon ElastiCache"),
    ("redshift.amazonaws.com", "Amazon Redshift"),
    ("docdb.amazonaws.com", "Amazon DocumentDB"),
    ("compute-1.amazonaws.com", "Heroku Postgres"),
    ("database.azure.com", "Azure"),
    ("database.windows.net", "Azure SQL"),
    ("documents.azure.com", "Azure Cosmos DB"),
    ("redis.cache.windows.net", "Azure Cache"),
    ("neon.tech", "Neon"),
    ("supabase.co", "Supabase"),
    ("supabase.com", "Supabase"),
    ("psdb.cloud", "PlanetScale"),
    ("mongodb.net", "MongoDB Atlas"),
    ("cockroachlabs.cloud", "CockroachDB"),
    ("db.ondigitalocean.com", "DigitalOcean"),
    ("render.com", "Render"),
    ("rlwy.net", "Railway"),
    ("railway.app", "Railway"),
    ("aivencloud.com", "Aiven"),
    ("upstash.io", "Upstash"),
    ("redislabs.com", "Redis Cloud"),
    ("redis-cloud.com", "Redis Cloud"),
    ("db.elephantsql.com", "ElephantSQL"),
    ("tsdb.cloud.timescale.com", "Timescale"),
    ("db.postgresbridge.com", "Crunchy Bridge"),
    ("clickhouse.cloud", "ClickHouse Cloud"),
    ("snowflakecomputing.com", "Snowflake"),
    ("turso.io", "Turso"),
];
