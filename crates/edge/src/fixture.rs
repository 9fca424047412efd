//! Walls for tests, without a room.

use std::{net::SocketAddr, path::Path, sync::Arc};

use hothouse_host::shares::Shares;
use hothouse_model::{
    ledger::RoomProcess,
    policy::{NamedLists, OwnAddresses, Policy, Transport},
};

use crate::{About, Processes, RoomEdge, RoomSpec, Settle, ledger::Ledger, resolver::Servers};

struct Nobody;

impl Processes for Nobody {
    fn owner(&self, _: SocketAddr, _: SocketAddr) -> Option<RoomProcess> {
        None
    }

    fn datagram_owner(&self, _: Transport, _: u16) -> Option<RoomProcess> {
        None
    }
}

/// Returns the policy of an `[egress]` section, if the host's tools use these registries.
pub(crate) fn policy(text: &str, registries: &[&str]) -> Policy {
    let egress = hothouse_config::parse("t", &format!("[egress]\n{text}")).unwrap().config.egress;
    let toolchain = registries.iter().map(|target| target.parse().unwrap()).collect();
    let lists = NamedLists { toolchain, ..NamedLists::default() };
    Policy::new(&egress, &[], &lists, OwnAddresses(|_| false))
}

pub(crate) fn wall_of(
    policy: Policy,
    ledger: &Path,
    servers: Vec<SocketAddr>,
    settle: Option<Box<dyn Settle>>,
) -> Arc<RoomEdge> {
    RoomEdge::new(RoomSpec {
        about: About { sandbox: "p/a".into(), run: "run_1".into() },
        policy: policy.into(),
        ledger: Arc::new(Ledger::open(ledger).unwrap()),
        servers: Arc::new(Servers::new(servers)),
        processes: Arc::new(Nobody),
        own_names: vec!["db".into()],
        terminate: None,
        share: Shares::new(1 << 20).of("p/a"),
        settle,
        redact: None,
    })
}
