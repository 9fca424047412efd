//! What programs of a room may request from the daemon: an explicit list. Everything else is refused.
//!
//! *To let rooms use a route:* add a line for it here; a test fails for a route without one.

use hothouse_api::route;

/// What a room may do with a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Use it, but only for its own sandbox.
    Own(Cost),
    /// Use it; the response is sent first, because the caller ends with its room.
    Last,
    /// Not use it; the user can run this command on the host.
    Human(&'static str),
}

/// The cost of a request, which determines how many of a sandbox are processed at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Reads the store or the room's state.
    Light,
    /// Reads many files, runs git, or pauses the room.
    Heavy,
    /// Waits for something to happen.
    Waits,
    /// Takes a turn among the operations on the sandbox, for which the user waits too.
    Changes,
}

use Cost::{Changes, Heavy, Light, Waits};
use May::{Human, Last, Own};

/// Method, route, and what a room may do with it. `NAME` stands for the room's own sandbox.
const RULES: &[(&str, &str, May)] = &[
    ("GET", route::SANDBOXES, Own(Light)),
    ("GET", route::SANDBOX_FIND, Own(Light)),
    ("POST", route::SANDBOX_UP, Own(Changes)),
    ("POST", route::SANDBOX_DOWN, Last),
    ("POST", route::SERVICE_ACT, Own(Changes)),
    ("GET", route::SERVICE_COMMAND, Own(Light)),
    ("GET", route::LOGS, Own(Waits)),
    ("GET", route::SANDBOX_DIFF, Own(Heavy)),
    ("GET", route::SANDBOX_LOG, Own(Heavy)),
    ("GET", route::SIZES, Own(Heavy)),
    ("GET", route::TOP, Own(Heavy)),
    ("GET", route::RUNS, Own(Heavy)),
    ("GET", route::SNAPSHOTS, Own(Light)),
    ("POST", route::SNAPSHOTS, Own(Changes)),
    ("GET", route::PORTS, Own(Light)),
    ("GET", route::EGRESS, Own(Waits)),
    ("GET", route::EGRESS_WHY, Own(Heavy)),
    ("GET", route::EGRESS_LEARN, Own(Heavy)),
    ("GET", route::CONFIG_PENDING, Own(Light)),
    ("GET", route::TIMELINE, Own(Light)),
    ("POST", route::TIMELINE_MARK, Own(Light)),
    ("POST", route::TIMELINE_EXEC, Own(Light)),
    ("POST", route::TIMELINE_TESTS, Own(Light)),
    ("GET", route::TIMELINE_WAIT, Own(Waits)),
    ("GET", route::TIMELINE_SINCE, Own(Light)),
    ("GET", route::TIMELINE_VERIFY, Own(Heavy)),
    ("GET", route::ARTIFACTS, Own(Light)),
    ("GET", route::INTEGRATIONS, Own(Heavy)),
    ("GET", route::TIMELINE_REQUEST, Own(Light)),
    ("GET", route::TIMELINE_ARCHIVE, Own(Heavy)),
    ("GET", route::SCENARIOS, Own(Light)),
    ("POST", route::SMOKE, Own(Heavy)),
    ("POST", route::SUMMARY, Own(Heavy)),
    ("POST", route::BROWSE, Own(Heavy)),
    ("GET", route::ROUTES, Own(Heavy)),
    ("GET", route::SEEDS, Own(Heavy)),
    ("POST", route::SEEDS, Own(Heavy)),
    ("GET", route::QUEUES, Own(Heavy)),
    ("POST", route::QUEUES, Own(Waits)),
    ("GET", route::CRONS, Own(Heavy)),
    ("POST", route::CRONS, Own(Waits)),
    ("GET", route::FLAGS, Own(Light)),
    ("POST", route::FLAGS, Own(Light)),
    ("POST", route::WEBHOOKS, Own(Waits)),
    ("POST", route::WEBHOOKS_LISTEN, Human("hothouse webhook listen VENDOR -w NAME")),
    ("POST", route::WEBHOOKS_FORWARD, Human("hothouse webhook listen VENDOR -w NAME")),
    ("GET", route::OPERATION, Own(Waits)),
    ("GET", route::EVENTS, Own(Waits)),
    ("GET", route::ASKS, Own(Light)),
    ("POST", route::ASKS, Own(Light)),
    ("GET", route::RECORDING, Human("hothouse integration INTEGRATION record -w NAME")),
    ("POST", route::RECORDING, Human("hothouse integration INTEGRATION record -w NAME")),
    ("POST", route::RECORDING_END, Human("hothouse integration INTEGRATION record -w NAME")),
    ("GET", route::AGENTS, Own(Light)),
    ("GET", route::AUDIT, Own(Heavy)),
    ("POST", route::AUDIT, Own(Light)),
    ("POST", route::AGENTS, Human("hothouse agent start NAME")),
    ("POST", route::AGENTS_STOP, Human("hothouse agent stop NAME")),
    ("POST", route::AGENTS_RESUME, Human("hothouse agent resume NAME")),
    ("GET", route::AGENTS_LOG, Own(Heavy)),
    ("GET", route::RACE, Human("hothouse compare NAME OTHER")),
    ("POST", route::RACE, Human("hothouse race --idea TASK --with TOOL,TOOL")),
    ("POST", route::ASKS_ANSWER, Human("hothouse asks answer ID allow")),
    ("GET", route::DAEMON, Human("hothouse daemon status")),
    ("POST", route::DAEMON_STOP, Human("hothouse daemon stop")),
    ("POST", route::SANDBOXES, Human("hothouse fork NEW")),
    // Other sandboxes start from what it stores.
    ("POST", route::SANDBOX_SETUP, Human("hothouse fork NEW --setup")),
    ("GET", route::SANDBOX_SETUP, Human("hothouse up NAME")),
    ("POST", route::SANDBOX_ADOPT, Human("hothouse adopt")),
    ("POST", route::SANDBOX_PAUSE, Human("hothouse pause NAME")),
    ("POST", route::SANDBOX_RESUME, Human("hothouse resume NAME")),
    ("POST", route::SANDBOX_DELETE, Human("hothouse delete NAME")),
    ("GET", route::TRASH, Human("hothouse undelete")),
    ("POST", route::SANDBOX_UNDELETE, Human("hothouse undelete NAME")),
    ("POST", route::SANDBOX_PROMOTE, Human("hothouse promote NAME")),
    ("GET", route::SANDBOX_PROMOTE_GRANTS, Human("hothouse promote NAME")),
    ("POST", route::CLEAN, Human("hothouse clean NAME")),
    ("POST", route::PROVE, Human("hothouse prove SCENARIO -w NAME")),
    ("POST", route::COMPARE, Human("hothouse compare NAME OTHER")),
    ("GET", route::VERIFY_FOLDER, Human("hothouse verify FOLDER")),
    ("POST", route::SNAPSHOT_RESTORE, Human("hothouse restore LABEL -w NAME")),
    ("POST", route::SNAPSHOT_FORGET, Human("hothouse snapshot --remove LABEL -w NAME")),
    ("POST", route::PORTS_RELEASE, Human("hothouse ports release")),
    ("POST", route::PORTS_EXPOSE, Human("hothouse expose PORT -w NAME")),
    ("POST", route::AUTH_LINK, Human("hothouse auth link ROLE -w NAME")),
    ("POST", route::UI_LINK, Human("hothouse ui NAME")),
    ("GET", route::CERTIFICATE_AUTHORITY, Human("hothouse trust")),
    ("POST", route::EGRESS_ALLOW, Human("hothouse egress allow HOST -w NAME")),
    ("POST", route::CONFIG_APPROVE, Human("hothouse config approve -w NAME")),
    ("GET", route::SECRETS, Human("hothouse secret list")),
    ("POST", route::SECRETS, Human("hothouse secret set SECRET")),
    ("POST", route::SECRETS_REMOVE, Human("hothouse secret rm SECRET")),
    ("POST", route::NUKE, Human("hothouse nuke")),
    ("GET", route::STACKS, Human("hothouse stack list")),
    ("POST", route::STACKS, Human("hothouse stack build")),
    ("POST", route::STACK_REMOVE, Human("hothouse stack rm")),
    ("GET", route::STACK_CHANGES, Human("hothouse stack diff")),
    ("GET", route::POOLS, Human("hothouse pool status")),
    ("POST", route::POOLS, Human("hothouse pool create")),
    ("GET", route::DOCTOR, Human("hothouse doctor")),
    ("POST", route::DOCTOR_FIX, Human("hothouse doctor --fix")),
];

/// When a room of a proof may make a request that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InProof {
    Always,
    /// Until the scenario begins: bundles of seeds may need it. Later it would make the app do what it does not do by
    /// itself, or hide what it did.
    BeforeScenario,
    /// It would change what judges the app.
    Never,
}

/// Returns when a room of a proof may use a route, other than to read.
pub(super) fn in_proof(of: &str) -> InProof {
    match of {
        route::TIMELINE_MARK
        | route::TIMELINE_EXEC
        | route::TIMELINE_TESTS
        | route::AUDIT
        | route::ASKS => InProof::Always,
        route::SERVICE_ACT | route::FLAGS | route::QUEUES | route::CRONS | route::WEBHOOKS => {
            InProof::BeforeScenario
        }
        _ => InProof::Never,
    }
}

/// A route that matches a request: its constant, and the id in the path, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matched<'a> {
    pub(super) route: &'static str,
    pub(super) id: Option<&'a str>,
    pub(super) may: May,
}

/// Finds what a room may do with a request. Paths are compared byte by byte, without decoding.
pub(super) fn find<'a>(method: &str, path: &'a str) -> Option<Matched<'a>> {
    RULES.iter().filter(|(of, ..)| *of == method).find_map(|&(_, route, may)| {
        let id = match route.strip_suffix("{id}") {
            Some(before) => Some(path.strip_prefix(before).filter(|id| is_plain(id))?),
            None if route == path => None,
            None => return None,
        };
        Some(Matched { route, id, may })
    })
}

fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Returns every method and route of the router, read from its source.
    fn served() -> BTreeSet<(String, String)> {
        let constants: BTreeMap<&str, &str> = include_str!("../../../api/src/lib.rs")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub const ")?.split_once(": &str = \""))
            .map(|(name, rest)| (name, rest.trim_end_matches("\";")))
            .collect();
        let source: String = include_str!("../routes.rs").split_whitespace().collect();
        let mut served = BTreeSet::new();
        for part in source.split(".route(route::").skip(1) {
            let (name, rest) = part.split_once(',').unwrap();
            let rest = rest.split(".fallback(").next().unwrap();
            for method in ["get", "post", "put", "delete", "patch"] {
                if rest.starts_with(&format!("{method}(")) || rest.contains(&format!(".{method}("))
                {
                    served.insert((method.to_uppercase(), constants[name].to_owned()));
                }
            }
        }
        served
    }

    #[test]
    fn every_route_has_a_decision_and_only_those() {
        let served = served();
        assert!(served.len() > 50, "{served:?}");
        let ruled: BTreeSet<_> =
            RULES.iter().map(|(m, r, _)| ((*m).to_owned(), (*r).to_owned())).collect();
        assert_eq!(ruled.len(), RULES.len(), "a route has two decisions");
        let missing: Vec<_> = served.difference(&ruled).collect();
        assert!(missing.is_empty(), "decide in `scope.rs` what rooms may do with: {missing:?}");
        let gone: Vec<_> = ruled.difference(&served).collect();
        assert!(gone.is_empty(), "no longer served: {gone:?}");
    }

    #[test]
    fn only_the_very_path_matches() {
        assert_eq!(find("GET", "/v1/logs").unwrap().may, Own(Waits));
        assert!(matches!(find("POST", "/v1/nuke").unwrap().may, Human(_)));
        let operation = find("GET", "/v1/operations/op_12345678").unwrap();
        assert_eq!(operation.id, Some("op_12345678"));
        for (method, path) in [
            ("GET", "/v1/logs/"),
            ("GET", "//v1/logs"),
            ("GET", "/v1/logs/../nuke"),
            ("GET", "/v1/%6cogs"),
            ("GET", "/v1/operations/"),
            ("GET", "/v1/operations/a/b"),
            ("GET", "/v1/operations/{id}"),
            ("DELETE", "/v1/sandboxes"),
            ("get", "/v1/logs"),
            ("CONNECT", "/v1/logs"),
            ("GET", ""),
        ] {
            assert_eq!(find(method, path), None, "{method} {path}");
        }
    }
}
