//! Seeds, and the roles that they provide.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    ServiceName,
    config::{
        egress::Method,
        path::{TreePath, UrlPath},
        text::{AppLabel, Command, EntryName, Line, UrlPattern, choice_type},
        units::duration,
    },
};

choice_type! {
    /// The size of a seed.
    Radius { Z = "z", S = "s", M = "m", L = "l", Xl = "xl" }
}

/// `[seed]`: real data for the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Seed {
    #[serde(default, rename = "bundle")]
    pub bundles: BTreeMap<EntryName, Bundle>,
    /// The bundles and smaller radii of each declared radius.
    #[serde(default, rename = "radius")]
    pub radii: BTreeMap<Radius, Vec<EntryName>>,
}

/// `[seed.bundle.NAME]`: a named piece of data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Bundle {
    pub run: Option<Command>,
    /// A file to load into a database.
    pub sql: Option<TreePath>,
    /// A call to a service.
    pub http: Option<BundleCall>,
    #[serde(default)]
    pub needs: Vec<EntryName>,
    pub service: Option<ServiceName>,
    pub dir: TreePath,
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Whether its data may come from a snapshot, and be kept in one.
    pub snapshot: bool,
}

/// What a bundle does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleWork<'a> {
    Command(&'a Command),
    Sql(&'a TreePath),
    Call(&'a BundleCall),
}

impl Bundle {
    /// Returns what the bundle does; `None` if the bundle was not validated.
    pub fn work(&self) -> Option<BundleWork<'_>> {
        match (&self.run, &self.sql, &self.http) {
            (Some(command), ..) => Some(BundleWork::Command(command)),
            (None, Some(file), _) => Some(BundleWork::Sql(file)),
            (None, None, call) => call.as_ref().map(BundleWork::Call),
        }
    }
}

/// A request that makes the app create its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BundleCall {
    pub path: UrlPath,
    pub method: Option<Method>,
    /// Sent as JSON if it is valid JSON.
    pub body: Option<Line>,
}

/// `[queue.NAME]`: a queue that is accessed through the project's own commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Queue {
    /// Prints its jobs as JSON.
    pub list: Command,
    /// Makes delayed jobs due.
    pub drain: Option<Command>,
    /// Puts the job in `HOTHOUSE_JOB` back into the queue.
    pub retry: Option<Command>,
    pub service: Option<ServiceName>,
    pub dir: TreePath,
}

/// `[cron.NAME]`: a schedule, which can also be run manually.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cron {
    pub schedule: Option<Line>,
    pub run: Option<Command>,
    /// A path of the service to call.
    pub http: Option<UrlPath>,
    pub service: Option<ServiceName>,
    pub dir: TreePath,
    #[serde(with = "duration")]
    pub timeout: Duration,
}

/// `[auth.ROLE]`: how the browser is signed in as a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Role {
    pub script: Option<TreePath>,
    pub run: Option<Command>,
    pub state: Option<TreePath>,
    pub app: Option<AppLabel>,
    /// A path that succeeds only for a signed-in user.
    pub probe: Option<UrlPath>,
    #[serde(default)]
    pub needs: Vec<EntryName>,
}

choice_type! {
    /// A shim that is included in Hothouse.
    ShipShim {
        Stripe = "stripe",
        Turnstile = "turnstile",
        Recaptcha = "recaptcha",
        Hcaptcha = "hcaptcha",
        GoogleMaps = "google-maps",
        Mapbox = "mapbox",
        MetaPixel = "meta-pixel",
        LinkedIn = "linkedin",
        Intercom = "intercom",
        Crisp = "crisp",
        Zendesk = "zendesk",
        HubSpot = "hubspot",
    }
}

/// `[shim.NAME]`: replaces a third-party script in the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shim {
    pub r#use: Option<ShipShim>,
    pub url: Option<UrlPattern>,
    pub script: Option<TreePath>,
    pub body: Option<Command>,
    pub r#type: Option<Line>,
}
