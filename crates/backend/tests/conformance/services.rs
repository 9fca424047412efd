//! Services of a room, and their logs.

use std::{collections::BTreeMap, time::Duration};

use hothouse_backend::RoomError;
use hothouse_host::logs;
use hothouse_model::{
    room::Capability,
    stack::{
        ServiceAction, ServiceOrder, StackOrder,
        service::{Restart, RestartPolicy, ServiceSpec, ServiceState},
    },
};

use crate::{
    Case,
    ground::{Ground, Room, until},
};

pub(crate) const CASES: &[Case] = &[
    ("services_start_and_are_told_of", services_start_and_are_told_of),
    ("a_service_that_is_not_there_is_not_found", a_service_that_is_not_there_is_not_found),
    ("what_a_service_says_is_in_its_log", what_a_service_says_is_in_its_log),
];

fn service(room: &Room<'_>, name: &str, script: &str) -> ServiceOrder {
    let spec = ServiceSpec {
        name: name.into(),
        run: ["sh", "-c", script].map(str::to_owned).to_vec(),
        build: None,
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        folder: room.order.worktree.clone(),
        task: false,
        needs: Vec::new(),
        restart: Restart { policy: RestartPolicy::Never, max: 0 },
        stop_signal: 15,
        stop_grace: Duration::from_secs(5),
        pty: false,
        watch: Vec::new(),
        probe: None,
    };
    ServiceOrder { spec, port: None, app: None, url: None, database: None, sink: None }
}

fn supervise(room: &Room<'_>, script: &str) -> StackOrder {
    let ground = room.ground;
    let stack = StackOrder {
        profile: "dev".into(),
        logs: ground.logs(),
        services: vec![service(room, "web", script)],
        hosted: Vec::new(),
    };
    ground.rooms.supervise(room.runtime(), &stack).unwrap();
    stack
}

fn services_start_and_are_told_of(ground: &Ground) {
    if !ground.has(Capability::Services) {
        return;
    }
    let room = ground.room("a");
    assert_eq!(ground.rooms.stack(room.runtime()), None);
    let stack = supervise(&room, "sleep 600");
    assert_eq!(ground.rooms.stack(room.runtime()), Some(stack));
    let patience = Duration::from_secs(1);
    until("the service is ready", || {
        let report = ground.rooms.services(room.runtime(), None, patience).unwrap();
        report
            .statuses()
            .any(|service| service.name == "web" && service.state == ServiceState::Ready)
    });
    ground.rooms.stop(room.runtime(), room.order.claim.as_deref()).unwrap();
    assert_eq!(ground.rooms.stack(room.runtime()), None, "they end with the room");
}

fn a_service_that_is_not_there_is_not_found(ground: &Ground) {
    if !ground.has(Capability::Services) {
        return;
    }
    let room = ground.room("a");
    supervise(&room, "sleep 600");
    let act = |name: &str| ground.rooms.act(room.runtime(), Some(name), ServiceAction::Restart);
    act("web").unwrap();
    assert!(matches!(act("other"), Err(RoomError::NoService { .. })));
}

fn what_a_service_says_is_in_its_log(ground: &Ground) {
    if !ground.has(Capability::Logs) {
        return;
    }
    let room = ground.room("a");
    supervise(&room, "echo one; echo two >&2; sleep 600");
    let stream = logs::Stream { service: "web".into(), folder: ground.logs().join("web") };
    let wanted = || logs::Wanted { limit: 1 << 16, ..logs::Wanted::default() };
    until("both lines", || {
        let page = logs::read(std::slice::from_ref(&stream), &wanted());
        let lines: Vec<_> = page.lines.into_iter().map(|line| line.text).collect();
        ["one", "two"].iter().all(|said| lines.iter().any(|line| line == said))
    });
}
