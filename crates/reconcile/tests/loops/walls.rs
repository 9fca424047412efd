//! Walls: started by the plan, ended with their keeper, restored by the next one.

use hothouse_reconcile::Tasks;

use crate::ground::{Ground, PATIENCE, runtime, until};

#[test]
fn a_wall_is_up_with_its_room_and_restored_by_the_next_keeper() {
    let ground = Ground::new("");
    let first = runtime();
    let room = first.block_on(async {
        let daemon = ground.daemon();
        daemon.fork_and_up(&ground).await;
        assert!(ground.rooms.is_egress_taken(&daemon.room()), "the plan raised it");
        daemon.room()
    });
    drop(first);
    assert!(!ground.rooms.is_egress_taken(&room), "it fell with its keeper");
    runtime().block_on(async {
        let next = ground.daemon();
        next.walls.refresh().await;
        assert!(ground.rooms.is_egress_taken(&room), "the next one restored it");
        assert_eq!(next.walls.problem(next.sandbox().key), None);
    });
}

#[test]
fn the_loop_restores_a_wall_by_itself_and_ends_when_told() {
    let ground = Ground::new("");
    let first = runtime();
    let room = first.block_on(async {
        let daemon = ground.daemon();
        daemon.fork_and_up(&ground).await;
        daemon.room()
    });
    drop(first);
    runtime().block_on(async {
        let walls = ground.daemon().walls;
        let mut tasks = Tasks::default();
        tasks.start("walls", |stop| async move { walls.watch(stop).await });
        until("the wall", || ground.rooms.is_egress_taken(&room)).await;
        assert_eq!(tasks.end(PATIENCE).await, Vec::<&str>::new());
    });
}
