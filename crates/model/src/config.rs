//! The configuration as values: the validated content of `hothouse.toml`.
//!
//! Reading one (text, layers, checks, the JSON Schema) is the job of the crate `hothouse-config`; code here needs only
//! the values.

mod egress;
mod halves;
mod host;
mod near;
mod path;
mod problem;
mod sections;
mod template;
mod text;
mod units;

pub(crate) use self::host::ascii_form;
pub use self::{
    egress::{
        Destination, Egress, EgressMode, Hosts, Method, NamedHosts, Rule, RuleTransport, Server,
    },
    halves::{
        PendingChange, PinnedHalf, PinnedProfile, Services, UnapprovedService, pending_changes,
        pinned_leaves,
    },
    host::{HostName, HostPattern, Network},
    path::{FilePattern, HostHeader, HostPath, TreePath, TreePattern, UrlPath},
    problem::{Complaint, MAX_PROBLEMS, Problem},
    sections::{
        Agent, Backend, Bundle, BundleCall, BundleWork, Caps, Condition, Config, Cron,
        DEFAULT_PROFILE, DatabaseRecipe, Effect, Expectation, Files, Integration, IntegrationClass,
        Lifetime, LiveKeyRule, LiveKeys, Mail, MailFault, MailFaultKind, Mount, Need, Notify,
        Place, Probe, Profile, Project, Queue, QueueExpectation, Radius, Ready, Recipe, Restart,
        RestartPolicy, Role, Room, RowExpectation, Scenario, Secret, SecretForm, SecretSource,
        Seed, Service, Shim, ShipShim, Signal, SinkRecipe, Terminal, Tree, UnknownProfile,
        ValueSource, Variable, VariableKind, Vendor, Webhook, Work,
    },
    template::{OWN_FIELDS, Part, Reference, SERVICE_FIELDS, Template},
    text::{
        AppLabel, Command, DatabaseName, DatabasePassword, EntryName, FlagKey, ImageName, Line,
        LogPattern, SecretName, Stack, UrlPattern, VariableName, Version,
    },
    units::{ByteSize, format_duration, parse_duration},
};

/// What the reader shares with the values: text formats, and the wording of problems.
pub mod rules {
    pub use super::{
        egress::{DESTINATION, RESOLVER, check_port},
        host::HOST_PATTERN,
        near::{among, difference, nearest},
        problem::{join_key, settle, shown},
        sections::{SECRET_SOURCE, VALUE_SOURCE},
        template::parse_template,
        text::{NAME_RULE, TextRule},
        units::{BYTE_SIZE, DURATION},
    };
}
