//! Ports of a room, and its outgoing traffic.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
};

use hothouse_backend::CallError;
use hothouse_model::room::Capability;

use crate::{Case, ground::Ground};

pub(crate) const CASES: &[Case] = &[
    ("a_port_inside_is_listened_on_and_dialled", a_port_inside_is_listened_on_and_dialled),
    ("a_port_without_a_listener_is_refused", a_port_without_a_listener_is_refused),
    ("what_leaves_a_room_is_handed_over", what_leaves_a_room_is_handed_over),
    ("without_a_taker_nothing_leaves", without_a_taker_nothing_leaves),
    ("the_process_behind_a_connection_is_known", the_process_behind_a_connection_is_known),
];

/// Connects to a documentation address (RFC 5737), and prints what comes back.
const CALL_OUT: &str = "exec 3<>/dev/tcp/192.0.2.1/80 && echo connected && cat <&3";

fn a_port_inside_is_listened_on_and_dialled(ground: &Ground) {
    if !(ground.has(Capability::Listen) && ground.has(Capability::Dial)) {
        return;
    }
    let room = ground.room("a");
    let listener = ground.wait(room.connection.listen((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut dialled = ground.wait(room.connection.dial(port)).unwrap();
    listener.set_nonblocking(false).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(false).unwrap();
    dialled.set_nonblocking(false).unwrap();
    dialled.write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    accepted.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
}

fn a_port_without_a_listener_is_refused(ground: &Ground) {
    if !ground.has(Capability::Dial) {
        return;
    }
    let room = ground.room("a");
    let listener = ground.wait(room.connection.listen((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let dialled = ground.wait(room.connection.dial(port));
    assert!(matches!(dialled, Err(CallError::Refused(_))), "{dialled:?}");
}

fn what_leaves_a_room_is_handed_over(ground: &Ground) {
    if !ground.has(Capability::Egress) {
        return;
    }
    let room = ground.room("a");
    let taken = ground.wait(room.connection.take_egress()).unwrap();
    assert!(!taken.dns_datagram.is_empty() && !taken.dns_stream.is_empty());
    assert_eq!(ground.has(Capability::Datagrams), !taken.datagrams.is_empty());
    let mut called = room.shell("call", &format!("exec bash -c '{CALL_OUT}'"));
    let listener = TcpListener::from(taken.tcp.into_iter().next().expect("one for TCP"));
    listener.set_nonblocking(false).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(false).unwrap();
    accepted.write_all(b"from the host\n").unwrap();
    drop(accepted);
    let mut said = String::new();
    called.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "connected\nfrom the host\n");
}

fn without_a_taker_nothing_leaves(ground: &Ground) {
    if !ground.has(Capability::Egress) {
        return;
    }
    let room = ground.room("a");
    let fails = |id: &str| {
        let script = format!("timeout 10 bash -c '{CALL_OUT}' 2>&1; true");
        let (said, _) = room.say(id, &script);
        assert!(!said.contains("from the host"), "{id}: {said}");
    };
    fails("before");
    let wall = ground.connect(room.runtime());
    drop(ground.wait(wall.take_egress()).unwrap());
    drop(wall);
    fails("after");
}

fn the_process_behind_a_connection_is_known(ground: &Ground) {
    if !(ground.has(Capability::Egress) && ground.has(Capability::Processes)) {
        return;
    }
    let room = ground.room("a");
    let taken = ground.wait(room.connection.take_egress()).unwrap();
    let _called = room.shell("call", &format!("exec bash -c '{CALL_OUT}'"));
    let listener = TcpListener::from(taken.tcp.into_iter().next().expect("one for TCP"));
    listener.set_nonblocking(false).unwrap();
    let (_accepted, client) = listener.accept().unwrap();
    let instance = ground.rooms.instance(room.runtime()).unwrap();
    let owner = instance.stream_owner(client, (Ipv4Addr::new(192, 0, 2, 1), 80).into());
    // The shell opens it, and passes it to the program that reads from it.
    let owner = owner.expect("its owner");
    assert!(owner.top.is_some_and(|top| !top.is_keeper), "it is below a command");
    let owner = owner.process.name;
    assert!(["bash", "cat"].contains(&owner.as_str()), "{owner}");
}
