//! The half of the configuration that an agent cannot change by editing a file.

use hothouse_model::config::{Config, PinnedHalf, UnapprovedService, pending_changes};

use crate::good::{DESIGN, FULL, config};

fn changes(base: &Config, worktree: &Config) -> Vec<String> {
    let changes = pending_changes(base, worktree);
    let shown = |value: &Option<serde_json::Value>| {
        value.as_ref().map_or("-".to_owned(), ToString::to_string)
    };
    changes
        .iter()
        .map(|change| {
            format!("{}: {} -> {}", change.key, shown(&change.base), shown(&change.worktree))
        })
        .collect()
}

fn edited(text: &str, from: &str, to: &str) -> Config {
    assert!(text.contains(from), "{from}");
    config(&text.replace(from, to))
}

#[test]
fn an_unchanged_config_has_nothing_pending() {
    assert_eq!(changes(&config(FULL), &config(FULL)), Vec::<String>::new());
}

#[test]
fn what_loosens_the_wall_or_the_room_is_pending() {
    for (from, to, expected) in [
        (r#"mode = "allowlist""#, r#"mode = "open""#, r#"egress.mode: "allowlist" -> "open""#),
        (r#"memory = "4G""#, r#"memory = "64G""#, r#"room.memory: "4G" -> "64G""#),
        (
            r#"class = "mock""#,
            r#"class = "test-mode""#,
            r#"integration.stripe.class: "mock" -> "test-mode""#,
        ),
        (
            r#"hosts = ["api.github.com", "github.com"]"#,
            r#"hosts = ["evil.example"]"#,
            r#"secret.GITHUB_TOKEN.hosts: ["api.github.com","github.com"] -> ["evil.example"]"#,
        ),
    ] {
        assert_eq!(changes(&config(DESIGN), &edited(DESIGN, from, to)), [expected]);
    }
}

#[test]
fn what_describes_the_stack_is_the_worktrees() {
    let base = config(DESIGN);
    let worktree = edited(DESIGN, r#"run = "npm run dev -w api""#, r#"run = "cargo run""#);
    assert_eq!(changes(&base, &worktree), Vec::<String>::new());
    let room = worktree.clone().with_pinned(&base.pinned_half()).unwrap();
    assert_eq!(room, worktree);
}

#[test]
fn a_pinned_half_wins_over_the_worktree() {
    let base = config(DESIGN);
    let worktree = edited(DESIGN, r#"mode = "allowlist""#, r#"mode = "open""#);
    assert_eq!(worktree.with_pinned(&base.pinned_half()).unwrap(), base);
}

#[test]
fn a_pinned_half_survives_being_stored() {
    let half = config(FULL).pinned_half();
    let stored = serde_json::to_string(&half).unwrap();
    assert_eq!(serde_json::from_str::<PinnedHalf>(&stored).unwrap(), half);
}

#[test]
fn every_config_is_its_own_pinned_half_and_stack() {
    for text in ["", DESIGN, FULL] {
        let config = config(text);
        assert_eq!(config.clone().with_pinned(&config.pinned_half()).unwrap(), config);
    }
}

#[test]
fn a_service_on_the_host_waits_for_approval() {
    let base = config("[service.db]\nrecipe = \"postgres\"\n");
    let pin = base.pinned_half();
    for (text, key) in [
        ("[service.db]\nrecipe = \"postgres\"\nhost = true\n", "service.db.host"),
        (
            "[service.db]\nrecipe = \"postgres\"\n[profile.e2e.service.db]\nhost = true\n",
            "profile.e2e.service.db.host",
        ),
    ] {
        let worktree = config(text);
        assert!(changes(&base, &worktree).contains(&format!("{key}: - -> true")), "{text}");
        let service = "db".parse().unwrap();
        assert_eq!(worktree.with_pinned(&pin), Err(UnapprovedService { service }));
    }
}

#[test]
fn integrations_that_no_human_saw_are_left_out() {
    let base = config("[integration.a]\nclass = \"mock\"\n");
    let worktree = config("[integration.b]\nclass = \"read-only\"\nhosts = [\"b.example\"]\n");
    let room = worktree.with_pinned(&base.pinned_half()).unwrap();
    assert_eq!(room.integrations, base.integrations);
}
