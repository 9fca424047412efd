//! Snapshots, restores, and forks of sandboxes that are up.

use super::*;

#[test]
fn a_snapshot_that_died_at_any_point_is_whole_or_never_was_and_the_room_continues() {
    let points = die_everywhere(
        "",
        |ground| drop(ground.busy_sandbox()),
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
        },
        |ground, engine, _| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            let begun = engine.operation(&operation("op_snapshot")).unwrap().is_some();
            assert_eq!(engine.snapshots(&sandbox).unwrap().len(), usize::from(begun));
            let kept = ground.sandboxes().join(".hothouse/snapshots/a/one");
            assert_eq!(kept.join("tree/dirt").exists(), begun);
            assert_eq!(kept.join("data/db/rows").exists(), begun);
            assert!(!ground.is_frozen(engine, "a"));
        },
    );
    assert_eq!(points, 11, "begin, three ticks and the end, each before and after");
}

#[test]
fn a_restore_that_died_at_any_point_is_finished_once_acknowledged() {
    die_everywhere(
        "",
        |ground| {
            let sandbox = ground.busy_sandbox();
            let engine = ground.engine(usize::MAX);
            engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
            engine.down(&sandbox, operation("op_0000down")).unwrap();
            std::fs::write(ground.sandboxes().join("a/dirt"), "two").unwrap();
            std::fs::write(ground.data("a").join("rows"), "two").unwrap();
            std::fs::create_dir_all(ground.data("a").with_file_name("later")).unwrap();
        },
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.restore(&sandbox, "one", operation("op_0restore")).unwrap();
        },
        |ground, engine, _| {
            let begun = engine.operation(&operation("op_0restore")).unwrap().is_some();
            let text = if begun { "one" } else { "two" }.to_owned();
            assert_eq!(ground.texts("a"), (text.clone(), text));
            assert_eq!(ground.data("a").with_file_name("later").exists(), !begun);
            assert_eq!(git(&ground.sandboxes().join("a"), &["status", "--porcelain"]), "?? dirt");
        },
    );
}

#[test]
fn a_restore_whose_last_step_fails_leaves_everything_as_it_was() {
    let ground = Ground::new("");
    let sandbox = ground.busy_sandbox();
    let engine = ground.engine(usize::MAX);
    engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
    engine.down(&sandbox, operation("op_0000down")).unwrap();
    std::fs::write(ground.sandboxes().join("a/dirt"), "two").unwrap();
    std::fs::write(ground.data("a").join("rows"), "two").unwrap();
    let before = ground.world();
    // Another git process holds the branch.
    let lock = ground.repository().join(".git/refs/heads/a.lock");
    std::fs::write(&lock, "").unwrap();
    let sandbox = engine.sandboxes().unwrap().remove(0);
    let failure = engine.restore(&sandbox, "one", operation("op_0restore")).unwrap_err();
    assert!(format!("{failure:?}").contains("a.lock"), "{failure:?}");
    std::fs::remove_file(lock).unwrap();
    assert_eq!(ground.texts("a"), ("two".into(), "two".into()));
    assert_eq!(ground.world(), before);
    engine.restore(&sandbox, "one", operation("op_1restore")).unwrap();
    assert_eq!(ground.texts("a"), ("one".into(), "one".into()));
}

#[test]
fn a_fork_of_a_live_sandbox_that_died_at_any_point_is_finished_or_never_was() {
    die_everywhere(
        "",
        |ground| drop(ground.busy_sandbox()),
        |ground, engine| {
            let spec = ForkSpec { from: Some("a".parse().unwrap()), ..ground.spec("b") };
            engine.fork(&spec, operation("op_00000002")).unwrap();
        },
        |ground, engine, before| {
            assert!(!ground.is_frozen(engine, "a"));
            assert_eq!(ground.texts("a"), ("one".into(), "one".into()));
            match engine.operation(&operation("op_00000002")).unwrap() {
                None => assert_eq!(&ground.world(), before),
                Some(_) => {
                    assert_eq!(ground.texts("b"), ("one".into(), "one".into()));
                    assert_eq!(
                        git(&ground.sandboxes().join("b"), &["status", "--porcelain"]),
                        "?? dirt"
                    );
                }
            }
        },
    );
}

/// Returns a sandbox whose engine died during a restore to `one`, and a copy of the database at that time.
fn with_an_interrupted_restore() -> (Ground, PathBuf) {
    let ground = Ground::new("");
    let sandbox = ground.busy_sandbox();
    let engine = ground.engine(usize::MAX);
    engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
    engine.down(&sandbox, operation("op_0000down")).unwrap();
    drop(engine);
    let engine = ground.engine(2);
    let sandbox = engine.sandboxes().unwrap().remove(0);
    let restore = || engine.restore(&sandbox, "one", operation("op_0restore"));
    assert!(catch_unwind(AssertUnwindSafe(restore)).is_err(), "it dies after it has begun");
    drop(engine);
    let copy = ground.folder.path().join("copy.db");
    std::fs::copy(ground.folder.path().join("state.db"), &copy).unwrap();
    (ground, copy)
}

#[test]
fn a_database_that_went_back_in_time_carries_nothing_out() {
    let (ground, copy) = with_an_interrupted_restore();
    let engine = ground.engine(usize::MAX);
    engine.recover().unwrap();
    let sandbox = engine.sandboxes().unwrap().remove(0);
    std::fs::write(ground.sandboxes().join("a/dirt"), "precious").unwrap();
    engine.snapshot(&sandbox, Some("two"), operation("op_00second")).unwrap();
    drop(engine);
    std::fs::copy(copy, ground.folder.path().join("state.db")).unwrap();
    let engine = ground.engine(usize::MAX);
    let recovered = engine.recover().unwrap();
    let message = &recovered[0].failure.as_ref().unwrap().message;
    assert!(message.contains("out of date"), "{message}");
    assert_eq!(ground.texts("a").0, "precious");
    assert!(engine.unfinished().unwrap().is_empty(), "it is closed for good");
}

#[test]
fn a_later_operation_takes_the_place_of_one_that_was_left_open() {
    let (ground, _) = with_an_interrupted_restore();
    let engine = ground.engine(usize::MAX);
    let sandbox = engine.sandboxes().unwrap().remove(0);
    std::fs::write(ground.sandboxes().join("a/dirt"), "precious").unwrap();
    engine.snapshot(&sandbox, Some("two"), operation("op_00second")).unwrap();
    assert_eq!(engine.recover().unwrap().len(), 0, "nothing is left to be carried out");
    assert_eq!(ground.texts("a").0, "precious");
    let outcome = engine.operation(&operation("op_0restore")).unwrap().unwrap().outcome;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
}
