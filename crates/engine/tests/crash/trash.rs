//! Deletions into the trash, and restoring from it.

use super::*;

/// Creates a stopped sandbox with a commit, a snapshot, data and uncommitted work.
fn full_sandbox(ground: &Ground) -> SandboxRecord {
    let sandbox = ground.busy_sandbox();
    let engine = ground.engine(usize::MAX);
    engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
    engine.down(&sandbox, operation("op_0000down")).unwrap();
    // As after an import: the index no longer belongs to the user.
    let repository = ground.repository();
    let commit = git(&repository, &["commit-tree", "a^{tree}", "-p", "a", "-m", "work"]);
    git(&repository, &["update-ref", "refs/heads/a", &commit]);
    engine.sandboxes().unwrap().remove(0)
}

fn undelete(ground: &Ground, name: Option<&str>) -> UndeleteSpec {
    UndeleteSpec {
        which: "a".into(),
        folder: ground.repository(),
        name: name.map(|name| name.parse().unwrap()),
        branch: None,
    }
}

/// Returns everything that a user sees of a sandbox.
fn seen(ground: &Ground, engine: &Engine, name: &str) -> Vec<String> {
    let all = engine.sandboxes().unwrap();
    let sandbox = all.iter().find(|sandbox| sandbox.name.as_str() == name).unwrap();
    let labels = engine.snapshots(sandbox).unwrap().into_iter().map(|snapshot| snapshot.label);
    let runs = engine.runs().unwrap().into_iter();
    let runs = runs.filter(|run| run.sandbox_id.as_deref() == Some(sandbox.id.as_str()));
    let (dirt, rows) = ground.texts(name);
    let kept = ground.sandboxes().join(".hothouse/snapshots").join(name).join("one/tree/dirt");
    [dirt, rows, std::fs::read_to_string(kept).unwrap_or_default()]
        .into_iter()
        .chain(labels)
        .chain(runs.map(|run| run.id))
        .chain([git(&sandbox.worktree, &["status", "--porcelain"])])
        .chain([git(&sandbox.worktree, &["log", "--format=%s"])])
        .collect()
}

#[test]
fn a_sandbox_comes_back_as_it_was_wherever_its_return_died() {
    let points = die_everywhere(
        "",
        |ground| {
            let sandbox = full_sandbox(ground);
            let engine = ground.engine(usize::MAX);
            engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
        },
        |ground, engine| {
            drop(engine.undelete(&undelete(ground, None), operation("op_0000back")).unwrap())
        },
        |ground, engine, before| {
            let begun = engine.operation(&operation("op_0000back")).unwrap().is_some();
            assert_eq!(engine.deleted().unwrap().len(), usize::from(!begun));
            if !begun {
                assert_eq!(&ground.world(), before);
                assert_eq!(engine.sandboxes().unwrap(), []);
                return;
            }
            let seen = seen(ground, engine, "a");
            assert_eq!(seen[..4], ["one", "one", "one", "one"]);
            assert!(seen[4].starts_with("run_"), "{seen:?}");
            assert_eq!(seen[5..], ["?? dirt", "work\nbase"]);
            // It can be started and deleted like any other.
            let sandbox = engine.sandboxes().unwrap().remove(0);
            assert_eq!(sandbox.state(None), SandboxState::Stopped);
            engine.up(&sandbox, &UpSpec::default(), operation("op_00000up2")).unwrap();
            engine.expire_deleted().unwrap();
            assert_eq!(ground.texts("a"), ("one".into(), "one".into()));
            engine.delete(&sandbox, Losses::Accepted, operation("op_1111gone")).unwrap();
            assert_eq!(engine.deleted().unwrap().len(), 1);
        },
    );
    assert_eq!(points, 7, "begin, one tick and the end, each before and after");
}

#[test]
fn a_deletion_that_died_at_any_point_keeps_everything_in_the_trash() {
    die_everywhere(
        "",
        |ground| drop(full_sandbox(ground)),
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
        },
        |ground, engine, _| {
            let begun = engine.operation(&operation("op_0000gone")).unwrap().is_some();
            assert_eq!(engine.deleted().unwrap().len(), usize::from(begun));
            assert_eq!(engine.sandboxes().unwrap().len(), usize::from(!begun));
            if begun {
                engine.undelete(&undelete(ground, None), operation("op_0000back")).unwrap();
            }
            let seen = seen(ground, engine, "a");
            assert_eq!(seen[..4], ["one", "one", "one", "one"]);
            assert_eq!(seen[5..], ["?? dirt", "work\nbase"]);
        },
    );
}

#[test]
fn what_is_in_the_trash_is_in_nobodys_place() {
    let ground = Ground::new("");
    let sandbox = full_sandbox(&ground);
    let engine = ground.engine(usize::MAX);
    engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
    // Name and branch are free: the branch is ahead of its base, so it is requested by name.
    let again = ForkSpec { branch: Some("a".into()), ..ground.spec("a") };
    engine.fork(&again, operation("op_000again")).unwrap();
    let refused = engine.undelete(&undelete(&ground, None), operation("op_0000back")).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Conflict);
    assert!(refused.hints[0].contains("--as OTHER"), "{refused:?}");
    let other = engine.undelete(&undelete(&ground, Some("b")), operation("op_1111back")).unwrap();
    assert_eq!((other.name.as_str(), other.branch.as_str()), ("b", "b"));
    let seen = seen(&ground, &engine, "b");
    assert_eq!(seen[..4], ["one", "one", "one", "one"]);
    assert_eq!(seen[5..], ["?? dirt", "work\nbase"]);
    assert_eq!(ground.texts("a").0, "", "the new one has its own files");
    engine.up(&other, &UpSpec::default(), operation("op_00000up2")).unwrap();
}

#[test]
fn a_branch_that_was_removed_comes_back_where_it_was() {
    let ground = Ground::new("");
    let sandbox = full_sandbox(&ground);
    let engine = ground.engine(usize::MAX);
    engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
    let tip = git(&ground.repository(), &["rev-parse", "a"]);
    git(&ground.repository(), &["branch", "-D", "a"]);
    engine.undelete(&undelete(&ground, None), operation("op_0000back")).unwrap();
    assert_eq!(git(&ground.repository(), &["rev-parse", "a"]), tip);
}

#[test]
fn what_is_deleted_for_good_is_gone_and_so_is_what_expired() {
    let ground = Ground::new("");
    let engine = ground.engine(usize::MAX);
    let trash = ground.sandboxes().join(".hothouse/trash");
    let left = || std::fs::read_dir(&trash).unwrap().count();
    ground.fork(&engine, "a", "op_00000001");
    let sandbox = engine.sandboxes().unwrap().remove(0);
    engine.delete_now(&sandbox, Losses::Refused, operation("op_0000gone")).unwrap();
    assert_eq!((engine.deleted().unwrap().len(), left()), (0, 1));
    ground.fork(&engine, "b", "op_00000002");
    let sandbox = engine.sandboxes().unwrap().remove(0);
    engine.delete(&sandbox, Losses::Refused, operation("op_1111gone")).unwrap();
    engine.expire_deleted().unwrap();
    assert_eq!(engine.deleted().unwrap().len(), 1, "its day is not over");
    let later = ground.engine_at(usize::MAX, Arc::new(Tomorrow));
    later.expire_deleted().unwrap();
    assert_eq!((later.deleted().unwrap().len(), left()), (0, 0));
}

#[test]
fn nuke_and_clean_empty_the_trash() {
    for clean in [true, false] {
        let ground = Ground::new("");
        let sandbox = full_sandbox(&ground);
        let engine = ground.engine(usize::MAX);
        engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
        if clean {
            let dry = engine.clean(CleanWish::All, Doing::Dry, &operation("op_00000dry")).unwrap();
            let line = dry.iter().find(|line| line.what == "r/a").unwrap();
            assert!(line.goes && line.bytes > Some(0), "{line:?}");
            engine.clean(CleanWish::All, Doing::Now, &operation("op_000clean")).unwrap();
        } else {
            engine.nuke(operation("op_0000nuke")).unwrap();
            assert!(!ground.sandboxes().exists());
        }
        assert_eq!(engine.deleted().unwrap(), []);
        assert!(engine.undelete(&undelete(&ground, None), operation("op_0000back")).is_err());
    }
}

/// A clock two days ahead.
struct Tomorrow;

impl hothouse_host::Clock for Tomorrow {
    fn now(&self) -> Timestamp {
        Timestamp::now() + jiff::SignedDuration::from_hours(25)
    }
}
