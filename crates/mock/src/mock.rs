//! Loading, choosing what answers, answering.

mod load;

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Match},
    fixture::shelf::{Seen, Shelf},
    miss,
    openapi::OpenApiMock,
    request::{Call, Request},
    state::{Draft, State},
    stripe,
    template::Context,
    vendor::{Code, Package},
};

/// The parameters of a mock.
#[derive(Clone, Debug, Default)]
pub struct MockSpec {
    pub integrations: Vec<Integration>,
    /// The fixtures of the worktree; the caller has read them.
    pub files: Vec<FixtureFile>,
    /// The value of `seed` in templates.
    pub seed: Value,
    /// The seed of ids: two runs with the same seed generate the same ids.
    pub id_seed: u64,
}

/// An integration of class `mock`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integration {
    pub name: String,
    /// Host names in lower case; `*` matches any text.
    pub hosts: Vec<String>,
    /// The package to use, regardless of the hosts.
    pub vendor: Option<String>,
}

/// A file below the fixtures folder of an integration.
#[derive(Clone, Debug)]
pub struct FixtureFile {
    pub integration: String,
    /// The path below the integration's folder.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Answers for all mocked hosts of one sandbox.
#[derive(Debug)]
pub struct Mock {
    integrations: Vec<Mocked>,
    packages: BTreeMap<String, Package>,
    hosts: HashMap<String, Host>,
    /// Hosts with `*`, in the order of the config.
    patterns: Vec<(String, Host)>,
    seed: Value,
    id_seed: u64,
    state: State,
}

/// What answers for a host.
#[derive(Clone, Debug)]
struct Host {
    integration: usize,
    package: Option<String>,
}

/// The fixtures and descriptions that the worktree has for one integration.
#[derive(Debug)]
struct Mocked {
    name: String,
    hosts: Vec<String>,
    vendor: Option<String>,
    shelf: Shelf,
    descriptions: Vec<OpenApiMock>,
}

impl Mock {
    /// Returns the state, with its revision.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the state, so that its changes can be taken.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Continues from a stored state.
    #[must_use]
    pub fn with_state(self, state: State) -> Self {
        Self { state, ..self }
    }

    /// Replaces the value of `seed` in templates.
    pub fn set_seed(&mut self, seed: Value) {
        self.seed = seed;
    }

    /// Returns the integration that answers for a host.
    pub fn integration_of(&self, host: &str) -> Option<&str> {
        self.host(host).map(|host| self.integrations[host.integration].name.as_str())
    }

    fn host(&self, name: &str) -> Option<Host> {
        let name = name.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let fits = |pattern: &str| hothouse_model::glob::fits(pattern.as_bytes(), name.as_bytes());
        if let Some(host) = self.hosts.get(&name) {
            return Some(host.clone());
        }
        let found = self.patterns.iter().find(|(pattern, _)| fits(pattern));
        let (_, host) = found?;
        let vendor = self.integrations[host.integration].vendor.as_deref();
        let package = crate::vendor::choose(&name, vendor).map(str::to_owned);
        Some(Host { package, ..host.clone() })
    }

    /// Answers a request. The state is updated when this returns.
    pub fn answer(&mut self, request: &Request<'_>, now: Timestamp) -> Answer {
        let call = Call::read(*request);
        let Some(host) = self.host(request.host) else {
            return miss::unmatched(&call, "no integration", Vec::new());
        };
        let Self { integrations, packages, state, seed, id_seed, .. } = self;
        let mocked = &integrations[host.integration];
        let package = host.package.as_ref().and_then(|name| packages.get(name));
        let mut draft = Draft::new(state, &mocked.name, *id_seed);
        let mut scene = Scene { call: &call, mocked, package, seed, now };
        let answer = scene.answer(&mut draft);
        // A call that did not match, or whose template failed, changes no state.
        if matches!(answer.matched, Match::Unmatched { .. }) {
            return answer;
        }
        match draft.commit() {
            Ok(()) => answer,
            Err(_) => full(&answer.matched),
        }
    }
}

/// One call, and what may answer it.
struct Scene<'a> {
    call: &'a Call<'a>,
    mocked: &'a Mocked,
    package: Option<&'a Package>,
    seed: &'a Value,
    now: Timestamp,
}

impl Scene<'_> {
    /// Tries the worktree's fixtures, then the vendor's package, then descriptions.
    fn answer(&mut self, draft: &mut Draft<'_>) -> Answer {
        if let Some(answer) = self.shelf_answer(&self.mocked.shelf, draft) {
            return answer;
        }
        if let Some(package) = self.package {
            if let Some(mut answer) = self.shelf_answer(&package.shelf, draft) {
                if let Match::Fixture(name) = answer.matched {
                    answer.matched = Match::Vendor(name);
                }
                return answer;
            }
            if package.code == Some(Code::Stripe) {
                let hosts = &self.mocked.hosts;
                let found = stripe::answer(self.call, draft, self.now, &self.mocked.name, hosts);
                if let Some(answer) = found {
                    return answer;
                }
            }
        }
        for description in &self.mocked.descriptions {
            if let Some(answer) = description.answer(self.call) {
                return answer;
            }
        }
        miss::unmatched(self.call, &self.mocked.name, self.near(draft))
    }

    fn shelf_answer(&self, shelf: &Shelf, draft: &mut Draft<'_>) -> Option<Answer> {
        let mut seen = Seen { seed: self.seed, now: self.now, draft };
        let (fixture, parameters) = shelf.find(self.call, &mut seen)?;
        let mut context = Context::new(self.call, &parameters, self.seed, self.now, draft);
        let answer = fixture.answer(&mut context, &self.mocked.name);
        let failed = |error| miss::unfilled(self.call, &fixture.name, format!("{error}"));
        Some(answer.unwrap_or_else(failed))
    }

    fn near(&self, draft: &mut Draft<'_>) -> Vec<miss::Scored> {
        let mut seen = Seen { seed: self.seed, now: self.now, draft };
        let mut near = miss::near(&self.mocked.shelf, self.call, &mut seen);
        if let Some(package) = self.package {
            near.extend(miss::near(&package.shelf, self.call, &mut seen));
            if package.code == Some(Code::Stripe) {
                near.extend(miss::near_routes("stripe", stripe::routes(), self.call));
            }
        }
        for description in &self.mocked.descriptions {
            near.extend(miss::near_routes(description.name(), description.routes(), self.call));
        }
        near
    }
}

/// Builds the answer for when no more state can be stored.
fn full(matched: &Match) -> Answer {
    let message = "the mock cannot remember more; reset the sandbox's mocks";
    let told = json!({ "error": { "type": "mock_state_full", "message": message } });
    Answer::json(507, &told, matched.clone())
}

#[cfg(test)]
mod tests;
