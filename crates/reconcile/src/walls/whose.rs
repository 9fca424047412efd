//! Finds the process of a room behind a connection, and its service.
//!
//! Every process of a service is below its keeper, even an orphan. The keeper is found in `/proc`;
//! its service is in the room's own report, which is requested again if a keeper is unknown.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_backend::{
    RoomInstance, Rooms,
    connection::{Owner, Top},
};
use hothouse_edge::Processes;
use hothouse_model::{ledger::RoomProcess, policy::Transport};

/// The time limit for a room's report, which is requested once per start of a service.
const PATIENCE: Duration = Duration::from_millis(800);

/// The processes of a room, for the ledger.
pub(super) struct RoomProcesses {
    pub(super) instance: Arc<dyn RoomInstance>,
    pub(super) rooms: Arc<dyn Rooms>,
    pub(super) runtime: PathBuf,
    /// The services of keepers.
    pub(super) kept: Mutex<HashMap<Top, String>>,
}

impl Processes for RoomProcesses {
    fn owner(&self, client: SocketAddr, target: SocketAddr) -> Option<RoomProcess> {
        Some(self.with_service(self.instance.stream_owner(client, target)?))
    }

    fn datagram_owner(&self, transport: Transport, port: u16) -> Option<RoomProcess> {
        Some(self.with_service(self.instance.datagram_owner(transport, port)?))
    }
}

impl RoomProcesses {
    fn with_service(&self, Owner { process, top }: Owner) -> RoomProcess {
        let service = top.filter(|top| top.is_keeper).and_then(|top| self.service_of(&top));
        RoomProcess { service, ..process }
    }

    fn service_of(&self, keeper: &Top) -> Option<String> {
        let known = || {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get(keeper).cloned()
        };
        known().or_else(|| {
            self.ask();
            known()
        })
    }

    /// Requests the room's services, and finds their keepers.
    fn ask(&self) {
        let Ok(report) = self.rooms.services(&self.runtime, None, PATIENCE) else { return };
        let keepers = report.services.into_iter().filter_map(|service| {
            Some((self.instance.top_of(service.room_pid()?)?, service.status.name))
        });
        let keepers: HashMap<Top, String> = keepers.collect();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A service whose first process has ended may have others, below its former keeper.
        if kept.len() > keepers.len() + REMEMBERED {
            kept.clear();
        }
        kept.extend(keepers);
    }
}

/// How many keepers of ended services are remembered.
const REMEMBERED: usize = 256;
