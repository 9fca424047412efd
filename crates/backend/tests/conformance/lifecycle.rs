//! Rooms start, pause and stop.

use std::{
    collections::BTreeMap,
    io::Read,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use hothouse_backend::{CallError, RoomError};
use hothouse_host::files;
use hothouse_model::room::{Capability, RoomOrder, RoomWall};

use crate::{
    Case,
    ground::{Ground, until},
};

pub(crate) const CASES: &[Case] = &[
    ("a_room_is_found_until_it_ends", a_room_is_found_until_it_ends),
    ("the_next_room_at_a_place_is_another", the_next_room_at_a_place_is_another),
    ("a_room_keeps_others_from_its_files", a_room_keeps_others_from_its_files),
    ("a_connection_ends_with_its_room", a_connection_ends_with_its_room),
    ("the_next_daemon_finds_rooms", the_next_daemon_finds_rooms),
    ("a_frozen_room_stands_still", a_frozen_room_stands_still),
    ("what_was_given_to_a_room_is_known", what_was_given_to_a_room_is_known),
    ("layers_outlive_a_room_until_they_are_removed", layers_outlive_a_room_until_they_are_removed),
];

fn a_room_is_found_until_it_ends(ground: &Ground) {
    let order = ground.order("a");
    let rooms = &ground.rooms;
    assert!(rooms.look(&order.runtime).is_none());
    rooms.start(&order).unwrap();
    assert!(!rooms.look(&order.runtime).unwrap().frozen);
    assert!(rooms.instance(&order.runtime).unwrap().is_alive());
    let listed = rooms.list(&ground.runs()).unwrap();
    assert_eq!(listed, std::slice::from_ref(&order.runtime));
    rooms.stop(&order.runtime, order.claim.as_deref()).unwrap();
    assert!(rooms.look(&order.runtime).is_none());
    assert!(rooms.list(&ground.runs()).unwrap().is_empty());
    rooms.stop(&order.runtime, order.claim.as_deref()).expect("one that is gone is fine");
    assert!(matches!(rooms.freeze(&order.runtime), Err(RoomError::Gone { .. })));
}

fn the_next_room_at_a_place_is_another(ground: &Ground) {
    let order = ground.order("a");
    let start = || {
        ground.rooms.start(&order).unwrap();
        ground.rooms.instance(&order.runtime).unwrap()
    };
    let first = start();
    assert_eq!(first.id(), ground.rooms.instance(&order.runtime).unwrap().id());
    ground.rooms.kill(&order.runtime).unwrap();
    let second = start();
    assert_ne!(first.id(), second.id());
    assert!(!first.is_alive() && second.is_alive());
}

fn a_room_keeps_others_from_its_files(ground: &Ground) {
    let order = ground.order("a");
    let claim = order.claim.as_deref().unwrap();
    let take = || ground.rooms.claim(claim).map(drop);
    take().expect("nobody has them yet");
    ground.rooms.start(&order).unwrap();
    assert!(matches!(take(), Err(RoomError::InUse { .. })));
    ground.rooms.stop(&order.runtime, Some(claim)).unwrap();
    take().expect("the room has ended");
}

fn a_connection_ends_with_its_room(ground: &Ground) {
    let room = ground.room("a");
    assert!(!room.connection.is_closed());
    ground.rooms.kill(room.runtime()).unwrap();
    until("the connection is closed", || room.connection.is_closed());
    let asked = ground.wait(room.connection.exec(room.spec("late", &["true"])));
    assert!(matches!(asked, Err(CallError::Lost(_))), "{asked:?}");
    assert!(ground.wait(ground.rooms.connect(room.runtime())).is_err());
}

fn the_next_daemon_finds_rooms(ground: &Ground) {
    if !ground.has(Capability::Adoption) {
        return;
    }
    let order = ground.order("a");
    ground.rooms.start(&order).unwrap();
    let next = &ground.found_again;
    assert!(next.look(&order.runtime).is_some());
    let id = |rooms: &dyn hothouse_backend::Rooms| rooms.instance(&order.runtime).unwrap().id();
    assert_eq!(id(&**next), id(&*ground.rooms));
    let connection = ground.wait(next.connect(&order.runtime)).unwrap();
    assert!(ground.wait(connection.execs()).unwrap().is_empty());
    next.stop(&order.runtime, order.claim.as_deref()).unwrap();
    assert!(ground.rooms.look(&order.runtime).is_none());
}

fn a_frozen_room_stands_still(ground: &Ground) {
    if !ground.has(Capability::Freeze) {
        return;
    }
    let room = ground.room("a");
    let mut ticks = room.shell("ticks", "while echo tick; do sleep 0.01; done").stdout;
    let heard = AtomicUsize::new(0);
    let count = || heard.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 64];
            while let Ok(length @ 1..) = ticks.read(&mut bytes) {
                heard.fetch_add(length, Ordering::SeqCst);
            }
        });
        until("the first tick", || count() > 0);
        ground.rooms.freeze(room.runtime()).unwrap();
        assert!(ground.rooms.look(room.runtime()).unwrap().frozen);
        // Let pending output arrive first.
        std::thread::sleep(Duration::from_millis(100));
        let before = count();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(count(), before, "it ticks on");
        ground.rooms.thaw(room.runtime()).unwrap();
        assert!(!ground.rooms.look(room.runtime()).unwrap().frozen);
        until("the next tick", || count() > before);
        ground.rooms.kill(room.runtime()).unwrap();
    });
}

fn what_was_given_to_a_room_is_known(ground: &Ground) {
    let environment = BTreeMap::from([("TOKEN".to_owned(), "placeholder".to_owned())]);
    let wall = RoomWall { environment, ..RoomWall::default() };
    let order = RoomOrder { wall: wall.clone(), ..ground.order("a") };
    ground.rooms.start(&order).unwrap();
    assert_eq!(ground.rooms.wall(&order.runtime), wall);
    assert_eq!(ground.rooms.storage(&order.runtime), Some(order.storage.clone()));
    assert_eq!(ground.rooms.tools(&order.runtime), order.tools);
}

fn layers_outlive_a_room_until_they_are_removed(ground: &Ground) {
    let order = ground.order("a");
    ground.rooms.start(&order).unwrap();
    ground.rooms.stop(&order.runtime, order.claim.as_deref()).unwrap();
    ground.rooms.start(&order).expect("the same layers serve again");
    ground.rooms.stop(&order.runtime, order.claim.as_deref()).unwrap();
    ground.rooms.remove_storage(&order.storage).unwrap();
    assert!(!files::exists(&order.storage));
    ground.rooms.remove_storage(&order.storage).expect("what is gone is fine");
}
