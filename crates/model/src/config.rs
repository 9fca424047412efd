//! The configuration, `hothouse.toml`: from text to a proved value.
//!
//! ```text
//! text --source--> spanned tree --walk--> Node --layers--> merged Node --check--> Config
//! ```
//!
//! One table of keys (`keys.rs`) drives the walk, the merge and the JSON Schema. Every problem is
//! reported at once, with its place, the near miss and what is allowed. Pure on purpose: files
//! and variables come in as values.

mod check;
mod egress;
mod grants;
mod halves;
mod host;
mod keys;
mod layers;
mod near;
mod path;
mod problem;
mod schema;
mod sections;
mod settle;
mod shape;
mod source;
mod template;
mod text;
mod tree;
mod units;
mod walk;

pub(crate) use self::host::ascii_form;
pub use self::{
    egress::{Egress, EgressMode, Hosts, Method, NamedHosts, Rule, RuleTransport, Server, Target},
    grants::{RoomSettings, in_words},
    halves::{
        PendingChange, PinnedHalf, PinnedProfile, Services, UnapprovedService, pending_changes,
    },
    host::{HostName, HostPattern, Network},
    layers::{
        ENVIRONMENT, EnvironmentVariable, File, Layers, Resolved, Shown, USER_KEYS, parse,
        parse_bytes, resolve,
    },
    path::{FilePattern, HostPath, TreePath, TreePattern, UrlPath},
    problem::{Complaint, MAX_PROBLEMS, Problem},
    schema::json_schema,
    sections::{
        Agent, Backend, Bundle, Condition, Config, DEFAULT_PROFILE, Expectation, Files,
        Integration, IntegrationClass, Lifetime, LiveKeyRule, LiveKeys, Mount, Need, Place, Probe,
        Profile, Project, Radius, Ready, Recipe, Restart, RestartPolicy, Role, Room,
        RowExpectation, Scenario, Secret, SecretForm, SecretSource, Seed, Service, Signal, Tree,
        UnknownProfile, ValueSource, Variable, VariableKind, Webhook, Work,
    },
    source::MAX_BYTES,
    template::{OWN_FIELDS, Part, Reference, SERVICE_FIELDS, Template},
    text::{
        AppLabel, Command, EntryName, Line, LogPattern, SecretName, Stack, VariableName, Version,
    },
    units::{ByteSize, format_duration, parse_duration},
};
