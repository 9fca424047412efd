//! Every key of `hothouse.toml`. To add one: a line here, a field in its section's type, and a line
//! in `defaults.toml` if it has a default; a test reports which of them is missing.

use crate::{shape::Key, shape::List, shape::Map, shape::Shape, shape::Table};
use hothouse_model::config::{
    AppLabel, Backend, Command, Condition, DatabaseName, DatabasePassword, EgressMode, FilePattern,
    Files, FlagKey, HostHeader, HostPath, ImageName, IntegrationClass, Line, LogPattern,
    MailFaultKind, Method, Place, Recipe, RestartPolicy, RuleTransport, SecretForm, SecretName,
    ShipShim, Signal, Stack, Template, Tree, TreePath, TreePattern, UrlPath, UrlPattern,
    VariableKind, VariableName, Vendor, Version,
    rules::{
        BYTE_SIZE, DESTINATION, DURATION, HOST_PATTERN, NAME_RULE, RESOLVER, SECRET_SOURCE,
        VALUE_SOURCE,
    },
};

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, about }
}

const NAME: Shape = Shape::Text(&NAME_RULE);
const COMMAND: Shape = Shape::Text(&Command::RULE);
const LINE: Shape = Shape::Text(&Line::RULE);
const SIZE: Shape = Shape::Text(&BYTE_SIZE);
const TIME: Shape = Shape::Text(&DURATION);
const TREE_PATH: Shape = Shape::Text(&TreePath::RULE);
const URL_PATH: Shape = Shape::Text(&UrlPath::RULE);
const PORT: Shape = Shape::Integer(1, 65535);

const fn list(item: Shape) -> List {
    List { item, single: false, append: false }
}

static NAMES: List = list(NAME);
static PORTS: List = list(PORT);
static HOST_PATHS: List = list(Shape::Text(&HostPath::RULE));
static HOSTS: List = list(Shape::Text(&HOST_PATTERN));
static TREE_PATHS: List = list(TREE_PATH);
static TREE_PATTERNS: List = list(Shape::Text(&TreePattern::RULE));
static URL_PATHS: List = list(URL_PATH);
static METHODS: List = list(Shape::Choice(Method::WORDS));
static MOUNTS: List = list(Shape::Table(&MOUNT));
static NEEDS: List = list(Shape::Table(&NEED));
static RULES: List = list(Shape::Table(&RULE));
static MASKS: List = List { append: true, ..list(Shape::Text(&FilePattern::RULE)) };
static UNMASKS: List = list(Shape::Text(&FilePattern::RULE));
static RESOLVERS: List = list(Shape::Text(&RESOLVER));
static DENY_RULES: List = List { append: true, ..list(Shape::Table(&RULE)) };
static LINES: List = List { single: true, ..list(LINE) };
static NAMES_OR_ONE: List = List { single: true, ..list(NAME) };
static EFFECTS: List = List { single: true, ..list(Shape::Table(&EFFECT)) };
static MAIL_FAULTS: List = list(Shape::Table(&MAIL_FAULT));
static ROWS: List = List { single: true, ..list(Shape::Table(&ROW)) };
static LEFT_QUEUES: List = List { single: true, ..list(Shape::Table(&LEFT_QUEUE)) };

pub(super) static ROOT: Table = Table::of(&[
    key("project", Shape::Table(&PROJECT), "The repository as a whole."),
    key("room", Shape::Table(&ROOM), "The isolated machine of a sandbox."),
    key("sandbox", Shape::Table(&SANDBOX), "How long a sandbox stays up."),
    key("service", Shape::Map(&SERVICES), "The programs of the stack."),
    key("profile", Shape::Map(&PROFILES), "Variants of the stack."),
    key("egress", Shape::Table(&EGRESS), "What may leave the room."),
    key("integration", Shape::Map(&INTEGRATIONS), "Outside services, and how each is treated."),
    key(
        "secret",
        Shape::Map(&SECRETS),
        "Credentials that the wall puts in and the room never sees.",
    ),
    key(
        "env",
        Shape::Map(&VARIABLES),
        "Variables for every command in the room: `NAME = \"value\"`, or a table.",
    ),
    key(
        "live-keys",
        Shape::Table(&LIVE_KEYS),
        "Live credentials: further forms of them, and exceptions by name.",
    ),
    key(
        "flags",
        Shape::Map(&FLAGS),
        "Feature flags, by key: the value that apps are told unless a sandbox pins another.",
    ),
    key("mail", Shape::Table(&MAIL), "How the mail of apps is treated."),
    key("seed", Shape::Table(&SEED), "Real data for the stack."),
    key("queue", Shape::Map(&QUEUES), "Queues that only the project's own commands know."),
    key("cron", Shape::Map(&CRONS), "What runs from time to time, and by `cron run`."),
    key("scenario", Shape::Map(&SCENARIOS), "What `smoke` and `prove` do and expect."),
    key("auth", Shape::Map(&ROLES), "How the browser is signed in, per role."),
    key(
        "shim",
        Shape::Map(&SHIMS),
        "What stands in for scripts of third parties in the browser, by URL.",
    ),
    key(
        "notify",
        Shape::Table(&NOTIFY),
        "How you are told that an agent waits for you; in your own file.",
    ),
    key("agent", Shape::Table(&AGENT), "The coding agent that runs in the room."),
    key("terminal", Shape::Table(&TERMINAL), "How commands speak to you; only in your own file."),
    key(
        "question",
        Shape::Map(&QUESTIONS),
        "What `init` could not find out, by id; each is a caveat until `init --answer`.",
    ),
]);

static NOTIFY: Table = Table::of(&[
    key(
        "command",
        COMMAND,
        "A command on the host; it has the sandbox as `$1`, what is asked as `$2`, and the id as `$3`.",
    ),
    key("desktop", Shape::Switch, "Whether the desktop shows it (`notify-send`)."),
    key("bell", Shape::Switch, "Whether a terminal that follows (`status -f`, `top`) rings."),
]);

static PROJECT: Table = Table::of(&[
    key("name", NAME, "The project's name in URLs; the folder's name by default."),
    key(
        "place",
        Shape::Choice(Place::WORDS),
        "Where worktrees go: `<repo>-sandboxes/NAME` or `.worktrees/NAME`.",
    ),
    key("setup", COMMAND, "The full install that `fork --setup` runs in the room."),
]);

static ROOM: Table = Table::of(&[
    key("stack", Shape::Text(&Stack::RULE), "What the room's system is made of."),
    key("memory", SIZE, "The most memory of the whole room."),
    key("cpus", Shape::Number(0.01, 4096.0), "The most processor time, in cores."),
    key("pids", Shape::Integer(16, 4_194_304), "The most processes and threads."),
    key("disk", SIZE, "The most disk space beyond the copy-on-write base."),
    key("tools", Shape::List(&HOST_PATHS), "Folders of the host that the room sees read-only."),
    key("mounts", Shape::List(&MOUNTS), "Further folders of the host, read-only unless `write`."),
    key(
        "mask",
        Shape::List(&MASKS),
        "Untracked files that the room must not see, besides the built-in ones.",
    ),
    key("unmask", Shape::List(&UNMASKS), "Masked files that the room may see after all."),
    key("deps", Shape::List(&TREE_PATHS), "Dependency folders that come along copy-on-write."),
    key("tree", Shape::Choice(Tree::WORDS), "The driver of copy-on-write trees."),
    key("backend", Shape::Choice(Backend::WORDS), "What runs the room."),
]);

static MOUNT: Table = Table {
    shorthand: Some("source"),
    required: &["source"],
    ..Table::of(&[
        key("source", Shape::Text(&HostPath::RULE), "The folder on the host."),
        key(
            "target",
            Shape::Text(&HostPath::RULE),
            "Where the room sees it; the same path by default.",
        ),
        key("write", Shape::Switch, "Whether the room may write there."),
    ])
};

static SANDBOX: Table = Table::of(&[
    key("ttl", TIME, "How long a sandbox may be up before it is stopped."),
    key("idle", TIME, "How long without use until it goes to sleep: its room is paused."),
    key("idle-stop", TIME, "How long asleep until its room is stopped, which frees its memory."),
]);

pub(super) static SERVICES: Map = Map::of("service", &NAME_RULE, Shape::Table(&SERVICE));

pub(super) static SERVICE: Table = Table {
    one_of: &["recipe", "run", "image"],
    ..Table::of(&[
        key(
            "recipe",
            Shape::Choice(Recipe::WORDS),
            "A built-in way to run a database or cache, or to take mail (`mailbox`), errors or traces (`otel`).",
        ),
        key("version", Shape::Text(&Version::RULE), "The major version that the recipe must use."),
        key(
            "database",
            Shape::Text(&DatabaseName::RULE),
            "The database that new data of a recipe has; `app` by default, a number for Redis.",
        ),
        key("user", Shape::Text(&DatabaseName::RULE), "The user that new data of a recipe has."),
        key(
            "password",
            Shape::Text(&DatabasePassword::RULE),
            "The user's password, where an app's own settings name one.",
        ),
        key("run", COMMAND, "The command that is the service."),
        key(
            "image",
            Shape::Text(&ImageName::RULE),
            "The image that is the service: of a registry, `oci:FOLDER` or `archive:FILE`.",
        ),
        key("command", COMMAND, "What the image runs in place of its own command."),
        key("build", COMMAND, "A command that must end well before `run`."),
        key("task", Shape::Switch, "Whether the command runs once and ends."),
        key("host", Shape::Switch, "Whether the service runs on the host, outside the room."),
        key("needs", Shape::List(&NEEDS), "The services that come first."),
        key("port", PORT, "The port it listens on in the room."),
        key("ports", Shape::List(&PORTS), "Further ports it listens on."),
        key("ready", Shape::Table(&READY), "How to tell that it is ready."),
        key("url", Shape::Text(&AppLabel::RULE), "The label of its URL: it is an app."),
        key(
            "env",
            Shape::Map(&SERVICE_ENV),
            "Its variables; `{db.url}` refers to another service.",
        ),
        key("dir", TREE_PATH, "Its working folder."),
        key("restart", Shape::Table(&RESTART), "When it is started again."),
        key("stop-signal", Shape::Choice(Signal::WORDS), "The signal that asks it to stop."),
        key("stop-grace", TIME, "How long it may take to stop."),
        key("pty", Shape::Switch, "Whether it gets a terminal."),
        key("watch", Shape::List(&TREE_PATTERNS), "Files whose change restarts it."),
        key(
            "coverage",
            COMMAND,
            "A command that prints, as LCOV, which of its lines ran; a proof runs it after a scenario.",
        ),
    ])
};

static NEED: Table = Table {
    shorthand: Some("service"),
    required: &["service"],
    ..Table::of(&[
        key("service", NAME, "The service that comes first."),
        key(
            "condition",
            Shape::Choice(Condition::WORDS),
            "How far it must be; `completed` for a task, else `ready`.",
        ),
    ])
};

static READY: Table = Table {
    whole: true,
    optional: true,
    one_of: &["http", "tcp", "exec", "log", "notify"],
    ..Table::of(&[
        key("http", URL_PATH, "A path that answers with a good status."),
        key("tcp", Shape::Yes, "A port that accepts a connection."),
        key("exec", COMMAND, "A command that ends with 0."),
        key("log", Shape::Text(&LogPattern::RULE), "A line of its output that matches."),
        key("notify", Shape::Yes, "`READY=1` on its notify socket."),
        key("port", PORT, "The port to ask; the service's own by default."),
        key(
            "host",
            Shape::Text(&HostHeader::RULE),
            "The host that `http` asks for; that of the service's URL by default, else `localhost`.",
        ),
        key("interval", TIME, "The time between two probes."),
        key("timeout", TIME, "How long one probe may take."),
        key(
            "retries",
            Shape::Integer(1, 1000),
            "How many failures in a row make a ready service unready.",
        ),
    ])
};

static RESTART: Table = Table {
    shorthand: Some("policy"),
    ..Table::of(&[
        key("policy", Shape::Choice(RestartPolicy::WORDS), "When to start it again."),
        key("max", Shape::Integer(0, 1000), "How many times in a row."),
    ])
};

static SERVICE_ENV: Map = Map::of("variable", &VariableName::RULE, Shape::Text(&Template::RULE));

static PROFILES: Map = Map { most: 32, ..Map::of("profile", &NAME_RULE, Shape::Table(&PROFILE)) };

static PROFILE: Table = Table::of(&[
    key("files", Shape::Choice(Files::WORDS), "`live` files, or a tree `frozen` at `up`."),
    key("seed", Shape::List(&NAMES_OR_ONE), "The radius or bundles that `up` seeds."),
    key("service", Shape::Map(&SERVICES), "Services to add, or keys of services to change."),
]);

static EGRESS: Table = Table::of(&[
    key("mode", Shape::Choice(EgressMode::WORDS), "What a room may reach without a rule."),
    key("allow", Shape::List(&RULES), "What it may reach besides, or in `allowlist` mode at all."),
    key("deny", Shape::List(&DENY_RULES), "What it may never reach; this wins over `allow`."),
    key(
        "resolvers",
        Shape::List(&RESOLVERS),
        "The resolvers that are asked instead of the host's; only in the user's own file.",
    ),
]);

pub(super) static RULE: Table = Table {
    shorthand: Some("host"),
    required: &["host"],
    ..Table::of(&[
        key("host", Shape::Text(&DESTINATION), "The hosts."),
        key("port", PORT, "The port."),
        key(
            "transport",
            Shape::Choice(RuleTransport::WORDS),
            "What carries it: `tcp` unless it is named; `udp` needs a port, `icmp` is `ping`.",
        ),
        key("methods", Shape::List(&METHODS), "The methods, on a terminated host."),
        key("paths", Shape::List(&URL_PATHS), "The paths, on a terminated host."),
    ])
};

static INTEGRATIONS: Map = Map::of("integration", &NAME_RULE, Shape::Table(&INTEGRATION));

static INTEGRATION: Table = Table {
    any_of: &["class", "to"],
    ..Table::of(&[
        key("class", Shape::Choice(IntegrationClass::WORDS), "How it is treated."),
        key(
            "vendor",
            Shape::Choice(Vendor::WORDS),
            "Whose protocol it speaks, where its hosts do not tell.",
        ),
        key("hosts", Shape::List(&HOSTS), "The hosts by which it is reached."),
        key(
            "exceptions",
            Shape::List(&RULES),
            "Requests that pass although the class denies them.",
        ),
        key("caveat", LINE, "What this treatment does not cover."),
        key(
            "to",
            NAME,
            "The service of the room that answers for its hosts, in place of fixtures; its class is `mock` by default.",
        ),
        key("webhook", Shape::Table(&WEBHOOK), "Where its webhooks go."),
        key("fixtures", TREE_PATH, "The folder of its recorded answers."),
        key("env", Shape::Map(&SERVICE_ENV), "Variables that its SDK reads."),
        key(
            "caps",
            Shape::Table(&CAPS),
            "How much a run may spend at a real model (`class = \"test-mode\"`).",
        ),
    ])
};

static CAPS: Table = Table {
    optional: true,
    ..Table::of(&[
        key("calls", Shape::Integer(0, 1_000_000), "How many calls; 100 by default."),
        key("cost", Shape::Number(0.0, 10_000.0), "What they may cost, in dollars; 1 by default."),
        key(
            "input-price",
            Shape::Number(0.0, 10_000.0),
            "Dollars for a million tokens of input, where the price of a model is not known.",
        ),
        key(
            "output-price",
            Shape::Number(0.0, 10_000.0),
            "Dollars for a million tokens of output.",
        ),
    ])
};

static WEBHOOK: Table = Table {
    whole: true,
    optional: true,
    required: &["to", "path"],
    ..Table::of(&[
        key("to", NAME, "The service that receives them."),
        key("path", URL_PATH, "The path that receives them."),
        key(
            "secret",
            Shape::Text(&SecretName::RULE),
            "The variable that holds the signing secret.",
        ),
    ])
};

static SECRETS: Map = Map::of("secret", &SecretName::RULE, Shape::Table(&SECRET));

static SECRET: Table = Table {
    required: &["hosts"],
    ..Table::of(&[
        key("hosts", Shape::List(&HOSTS), "The only hosts that ever get the value."),
        key("form", Shape::Choice(SecretForm::WORDS), "Where in a request the value stands."),
        key("from", Shape::Text(&SECRET_SOURCE), "Where the value comes from."),
        key(
            "placeholder",
            LINE,
            "What the room sees instead; made up in the value's shape by default.",
        ),
    ])
};

static VARIABLES: Map = Map::of("variable", &VariableName::RULE, Shape::Table(&VARIABLE));

static VARIABLE: Table = Table {
    shorthand: Some("value"),
    one_of: &["value", "from"],
    ..Table::of(&[
        key(
            "kind",
            Shape::Choice(VariableKind::WORDS),
            "What makes the value harmless; `from` needs it, `value` is `public` without it.",
        ),
        key("value", Shape::Text(&Template::RULE), "The value itself."),
        key(
            "from",
            Shape::Text(&VALUE_SOURCE),
            "The variable of the host that holds the value, as `env:NAME`.",
        ),
        key(
            "services",
            Shape::List(&NAMES_OR_ONE),
            "The services that get it; without this, every command in the room.",
        ),
    ])
};

static LIVE_KEYS: Table = Table::of(&[
    key("rule", Shape::Map(&LIVE_KEY_RULES), "Forms of live keys besides the known ones."),
    key(
        "allow-live",
        Shape::Map(&LIVE_KEYS_ALLOWED),
        "Variables that may hold a live key, each with the reason; shown as a caveat.",
    ),
]);

static LIVE_KEY_RULES: Map = Map::of("rule", &NAME_RULE, Shape::Table(&LIVE_KEY_RULE));

static LIVE_KEY_RULE: Table = Table {
    required: &["prefix"],
    ..Table::of(&[
        key("prefix", LINE, "What every live key begins with."),
        key("vendor", LINE, "Whose keys they are, for messages."),
    ])
};

static LIVE_KEYS_ALLOWED: Map = Map::of("variable", &VariableName::RULE, LINE);

static FLAGS: Map = Map { most: 1000, ..Map::of("flag", &FlagKey::RULE, Shape::Scalar) };

static MAIL: Table = Table::of(&[key(
    "faults",
    Shape::List(&MAIL_FAULTS),
    "What breaks on purpose; the first that fits a recipient counts.",
)]);

static MAIL_FAULT: Table = Table {
    required: &["to", "fault"],
    ..Table::of(&[
        key("to", LINE, "The recipient; `*` stands for anything, as in `*@example.com`."),
        key(
            "fault",
            Shape::Choice(MailFaultKind::WORDS),
            "Refused for good, for now, the first time, or accepted late.",
        ),
        key("after", TIME, "How late a slow recipient is accepted; 5s by default."),
    ])
};

static SEED: Table = Table::of(&[
    key("bundle", Shape::Map(&BUNDLES), "Named pieces of data."),
    key("radius", Shape::Table(&RADIUS), "Sizes, each a list of bundles and smaller sizes."),
]);

static BUNDLES: Map = Map::of("bundle", &NAME_RULE, Shape::Table(&BUNDLE));

static BUNDLE: Table = Table {
    one_of: &["run", "sql", "http"],
    ..Table::of(&[
        key("run", COMMAND, "The command that puts the data in, again and again without harm."),
        key("sql", TREE_PATH, "The file that is fed to the database `service`."),
        key("http", Shape::Table(&BUNDLE_CALL), "The call to `service` that puts the data in."),
        key("needs", Shape::List(&NAMES), "The bundles that come first."),
        key(
            "service",
            NAME,
            "The service whose environment the command gets, whose database the file is for, or that is called.",
        ),
        key("dir", TREE_PATH, "Its working folder."),
        key("timeout", TIME, "How long it may take."),
        key(
            "snapshot",
            Shape::Switch,
            "Whether its data may come from a snapshot; `false` for data that names its sandbox.",
        ),
    ])
};

static BUNDLE_CALL: Table = Table {
    shorthand: Some("path"),
    whole: true,
    required: &["path"],
    ..Table::of(&[
        key("path", URL_PATH, "The path, with its query."),
        key("method", Shape::Choice(Method::WORDS), "The method; POST where none is given."),
        key("body", LINE, "The body, such as `{\"size\": \"m\"}`."),
    ])
};

static QUEUES: Map = Map::of("queue", &NAME_RULE, Shape::Table(&QUEUE));

static QUEUE: Table = Table {
    required: &["list"],
    ..Table::of(&[
        key("list", COMMAND, "The command that prints its jobs as a JSON array."),
        key("drain", COMMAND, "The command that lets delayed jobs be due."),
        key("retry", COMMAND, "The command that puts the job HOTHOUSE_JOB back."),
        key("service", NAME, "The service whose environment the commands get."),
        key("dir", TREE_PATH, "Their working folder."),
    ])
};

static CRONS: Map = Map::of("cron", &NAME_RULE, Shape::Table(&CRON));

static CRON: Table = Table {
    one_of: &["run", "http"],
    ..Table::of(&[
        key("schedule", LINE, "When it runs elsewhere, such as `0 3 * * *`; here it runs by hand."),
        key("run", COMMAND, "The command."),
        key("http", URL_PATH, "The path of `service` that is called."),
        key("service", NAME, "The service whose environment the command gets, or that is called."),
        key("dir", TREE_PATH, "Its working folder."),
        key("timeout", TIME, "How long it may take."),
    ])
};

static RADIUS: Table = Table::of(&[
    key("z", Shape::List(&NAMES), "What the app needs to boot."),
    key("s", Shape::List(&NAMES), "Common users and roles."),
    key("m", Shape::List(&NAMES), "What most work needs."),
    key("l", Shape::List(&NAMES), "Checkout, content, queues and the like."),
    key("xl", Shape::List(&NAMES), "Broad and expensive data."),
]);

static SCENARIOS: Map = Map::of("scenario", &NAME_RULE, Shape::Table(&SCENARIO));

static SCENARIO: Table = Table::of(&[
    key("about", LINE, "What the scenario shows."),
    key("seed", Shape::List(&NAMES_OR_ONE), "The radius or bundles it needs."),
    key("app", Shape::Text(&AppLabel::RULE), "The app it opens."),
    key("path", URL_PATH, "The path it opens."),
    key("auth", NAME, "The role it is signed in as."),
    key("script", TREE_PATH, "The browser steps it takes."),
    key("flags", Shape::Map(&FLAGS), "Feature flags that are pinned while it runs."),
    key("within", TIME, "How long an effect may take, where it does not say so itself."),
    key("expect", Shape::Table(&EXPECT), "What must have happened afterwards."),
]);

static EXPECT: Table = Table {
    whole: true,
    ..Table::of(&[
        key("page", Shape::List(&LINES), "Texts that the page shows."),
        key("no-page", Shape::List(&LINES), "Texts that the page does not show."),
        key("row", Shape::List(&ROWS), "Queries with their answers."),
        key("queue", Shape::List(&LEFT_QUEUES), "Queues, and how many jobs of each may be left."),
        key("mail", Shape::List(&EFFECTS), "Mails that were sent."),
        key("no-mail", Shape::List(&LINES), "Mails that were not sent."),
        key("event", Shape::List(&EFFECTS), "Analytics events that were captured."),
        key("no-event", Shape::List(&LINES), "Analytics events that were not captured."),
        key("error", Shape::List(&EFFECTS), "Errors that must be recorded."),
        key("no-error", Shape::List(&LINES), "Errors that must not be recorded."),
        key("request", Shape::List(&EFFECTS), "Calls to the outside."),
        key("no-request", Shape::List(&LINES), "Calls to the outside that were not made."),
        key("webhook", Shape::List(&EFFECTS), "Webhooks that were delivered."),
        key("no-webhook", Shape::List(&LINES), "Webhooks that were not delivered."),
        key("object", Shape::List(&EFFECTS), "Objects that were stored."),
        key("no-object", Shape::List(&LINES), "Objects that were not stored."),
        key("job", Shape::List(&EFFECTS), "Jobs that were done."),
        key("no-job", Shape::List(&LINES), "Jobs that were not done."),
        key("llm", Shape::List(&EFFECTS), "Calls of language models."),
        key("no-llm", Shape::List(&LINES), "Calls of language models that were not made."),
        key("log", Shape::List(&EFFECTS), "Lines that were logged."),
        key("no-log", Shape::List(&LINES), "Lines that were not logged."),
        key("cookie", Shape::List(&LINES), "Cookies that the page sets, by name."),
        key("no-cookie", Shape::List(&LINES), "Cookies that the page does not set."),
        key("service", Shape::List(&NAMES_OR_ONE), "Services that are ready and did not restart."),
        key("status", Shape::Integer(100, 599), "The page's status; by default any but an error."),
        key("errors", Shape::Integer(0, 100_000), "How many errors may be recorded."),
        key("unmatched", Shape::Integer(0, 100_000), "How many calls may be without a fixture."),
        key(
            "queries",
            Shape::Integer(0, 1_000_000),
            "How many queries of a database one request may make, as traces tell.",
        ),
        key("slowest-query", TIME, "How long a query of a database may take, as traces tell."),
        key(
            "console",
            Shape::Integer(0, 100_000),
            "How many errors the page may log; 0 by default.",
        ),
        key(
            "failed",
            Shape::Integer(0, 100_000),
            "How many of its requests may fail; 0 by default.",
        ),
        key("broken", Shape::Integer(0, 100_000), "How many pictures may be broken; 0 by default."),
    ])
};

static EFFECT: Table = Table {
    shorthand: Some("query"),
    required: &["query"],
    ..Table::of(&[
        key("query", LINE, "Terms that must all hold for a record."),
        key("count", Shape::Integer(0, 100_000), "Exactly so many; without this, at least one."),
        key("at-least", Shape::Integer(0, 100_000), "At least so many."),
        key("at-most", Shape::Integer(0, 100_000), "At most so many."),
        key("within", TIME, "How long it may take."),
    ])
};

static ROW: Table = Table {
    required: &["service", "query"],
    ..Table::of(&[
        key("service", NAME, "The database."),
        key("query", COMMAND, "The query."),
        key("equals", LINE, "Its answer; without this, at least one row."),
        key("within", TIME, "How long it may take."),
    ])
};

static LEFT_QUEUE: Table = Table {
    shorthand: Some("name"),
    required: &["name"],
    ..Table::of(&[
        key("name", LINE, "The queue; `*` for all."),
        key(
            "open",
            Shape::Integer(0, 1_000_000),
            "How many jobs may still wait or run; 0 by default.",
        ),
        key(
            "dead",
            Shape::Integer(0, 1_000_000),
            "How many may have failed for good; 0 by default.",
        ),
        key("within", TIME, "How long it may take."),
    ])
};

static ROLES: Map = Map::of("role", &NAME_RULE, Shape::Table(&ROLE));

static ROLE: Table = Table {
    one_of: &["run", "state", "script"],
    ..Table::of(&[
        key("script", TREE_PATH, "Browser steps that sign in through the app's own login."),
        key("run", COMMAND, "A command in the room that prints the browser's storage state."),
        key("state", TREE_PATH, "A file with the browser's storage state."),
        key(
            "app",
            Shape::Text(&AppLabel::RULE),
            "The app that the role signs in to; `web` or the only one by default.",
        ),
        key("probe", URL_PATH, "A path that answers well only for somebody who is signed in."),
        key("needs", Shape::List(&NAMES), "The bundles that make the user."),
    ])
};

static SHIMS: Map = Map { most: 100, ..Map::of("shim", &NAME_RULE, Shape::Table(&SHIM)) };

static SHIM: Table = Table {
    one_of: &["use", "script", "body"],
    ..Table::of(&[
        key("use", Shape::Choice(ShipShim::WORDS), "A shim that comes with Hothouse."),
        key("url", Shape::Text(&UrlPattern::RULE), "The URLs that it answers; `*` is any text."),
        key("script", TREE_PATH, "The file that is answered with."),
        key("body", Shape::Text(&Command::RULE), "The text that is answered with."),
        key("type", LINE, "The content type; by default that of the file's ending, or JavaScript."),
    ])
};

static TERMINAL: Table = Table::of(&[key(
    "hints",
    Shape::Switch,
    "Whether commands on a terminal say what may come next.",
)]);
static QUESTIONS: Map = Map { most: 100, ..Map::of("question", &NAME_RULE, LINE) };

static AGENT: Table = Table::of(&[key(
    "command",
    COMMAND,
    "The command that `agent start` runs in the room by default.",
)]);
