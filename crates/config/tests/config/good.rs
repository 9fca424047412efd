//! Valid files, and what they mean.

use std::time::Duration;

use hothouse_config::parse;
use hothouse_model::config::{
    Condition, Config, EgressMode, Files, Place, Probe, RestartPolicy, SecretForm, SecretSource,
    Tree, VariableKind, Work,
};

pub(crate) const FULL: &str = include_str!("full.toml");
pub(crate) const DESIGN: &str = include_str!("design.toml");

#[track_caller]
pub(crate) fn config(text: &str) -> Config {
    match parse("hothouse.toml", text) {
        Ok(resolved) => resolved.config,
        Err(problems) => panic!("{problems:#?}"),
    }
}

#[test]
fn an_empty_file_is_all_defaults() {
    let config = config("");
    assert_eq!(config.project.place, Place::Sibling);
    assert_eq!(config.room.tree, Tree::Auto);
    assert_eq!(config.egress.mode, EgressMode::Web);
    assert!(config.room.mask.iter().any(|mask| mask.as_str() == ".env"));
    assert!(config.services.is_empty());
}

#[test]
fn the_example_of_the_design_is_accepted() {
    let config = config(DESIGN);
    let api = config.service("api").unwrap();
    assert_eq!(api.main_port(), Some(3000));
    assert_eq!(api.needs[0].condition, Condition::Ready);
    assert!(
        matches!(&api.ready.as_ref().unwrap().probe, Probe::Http(path) if path.as_str() == "/health")
    );
    assert_eq!(config.service("db").unwrap().main_port(), Some(5432));
    let secret = &config.secrets["GITHUB_TOKEN"];
    assert_eq!((secret.form, &secret.from), (SecretForm::Header, &SecretSource::Keyring));
}

#[test]
fn the_configs_of_the_checks_are_accepted() {
    for text in [
        "[project]\nname = \"stack\"\n[service.bad]\nrun = \"sh -c \\\"echo kaboom-line; exit 3\\\"\"\nport = 4000\nready = { tcp = true }\n",
        "[project]\nname = \"w\"\n[egress]\nmode = \"allowlist\"\nallow = [\"*\"]\n",
        "[project]\nname = \"k\"\n[service.x]\nrun = \"sleep 100\"\nenv = { STRIPE_SECRET_KEY = \"sk_live_51abc\" }\n",
    ] {
        config(text);
    }
}

#[test]
fn every_key_becomes_a_typed_value() {
    let config = config(FULL);
    let api = config.service("api").unwrap();
    assert_eq!(
        api.needs[0].condition,
        Condition::Completed,
        "a task is waited for until it has completed"
    );
    assert_eq!(api.needs[1].condition, Condition::Started);
    assert_eq!(api.stop_grace, Duration::from_secs(3));
    assert_eq!(config.service("migrate").unwrap().restart.policy, RestartPolicy::Never);
    assert_eq!(config.service("ldap").unwrap().work(), Work::OnHost);
    assert_eq!(config.egress.allow[3].host.port, Some(8443));
    assert_eq!(config.room.mounts[0].target, None);
    assert_eq!(config.sandbox.ttl, Some(Duration::from_hours(8)));
}

#[test]
fn a_variable_may_be_its_value_alone() {
    let config = config(
        "[project]\nname = \"w\"\n[env]\nTZ = \"UTC\"\nKEY = { kind = \"fake\", value = \"k\" }\n",
    );
    let zone = &config.variables["TZ"];
    assert_eq!(zone.value.as_ref().unwrap().as_str(), "UTC");
    assert_eq!(zone.kind, VariableKind::Public);
    assert_eq!(config.variables["KEY"].kind, VariableKind::Fake);
}

#[test]
fn a_config_survives_being_stored() {
    let config = config(FULL);
    let stored = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Config>(&stored).unwrap(), config);
}

#[test]
fn a_profile_overrides_keys_and_adds_services() {
    let config = config(FULL);
    let e2e = config.for_profile(Some("e2e")).unwrap();
    let api = e2e.service("api").unwrap();
    assert_eq!(api.run.as_ref().unwrap().as_str(), "npm start -w api");
    assert_eq!(api.build.as_ref().unwrap().as_str(), "npm run build -w api");
    assert_eq!(api.ready.as_ref().unwrap().probe, Probe::Tcp, "a probe is replaced as a whole");
    assert_eq!(api.env.len(), 6, "variables are added to");
    assert!(e2e.service("extra").is_some());
    assert!(config.service("extra").is_none());
    assert_eq!(config.profiles["e2e"].files, Files::Frozen);
    assert_eq!(config.for_profile(None).unwrap().services, config.services);
}

#[test]
fn a_profile_may_swap_a_recipe_for_a_command() {
    let config = config(
        "[service.db]\nrecipe = \"postgres\"\n[profile.slim.service.db]\nrun = \"sqlite-server\"\n",
    );
    let slim = config.for_profile(Some("slim")).unwrap();
    assert!(matches!(slim.service("db").unwrap().work(), Work::Command(_)));
}

#[test]
fn an_unknown_profile_gets_its_near_miss() {
    let error = config("").for_profile(Some("e2")).unwrap_err();
    assert_eq!(error.to_string(), "there is no profile `e2`");
    assert_eq!(error.suggestion.as_deref(), Some("e2e"));
    assert_eq!(error.known, ["dev", "e2e"]);
}
