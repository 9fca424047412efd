//! Stores: recipes if this host has the program, otherwise images or questions.

use std::collections::BTreeMap;

use crate::{
    Question,
    draft::{Draft, DraftService, DraftWork},
    finding::{Certainty, Findings, Store, StoreKind},
    host::HostFacts,
    text,
};

use super::{free, harmless, ports_of};
use crate::read::kind_of;

/// Images for stores without a recipe or program.
const IMAGES: [(StoreKind, &str); 11] = [
    (StoreKind::Postgres, "postgres:16"),
    (StoreKind::Mysql, "mariadb:11"),
    (StoreKind::Redis, "redis:7"),
    (StoreKind::Mongo, "mongo:7"),
    (StoreKind::Rabbitmq, "rabbitmq:3"),
    (StoreKind::Nats, "nats:2"),
    (StoreKind::Memcached, "memcached:1"),
    (StoreKind::Elasticsearch, "opensearchproject/opensearch:2"),
    (StoreKind::Meilisearch, "getmeili/meilisearch:v1"),
    (StoreKind::Clickhouse, "clickhouse/clickhouse-server:24"),
    (StoreKind::Kafka, "redpandadata/redpanda:v24.2.1"),
];

/// Adds a service for each store.
pub(super) fn decide(found: &mut Findings, host: &HostFacts, draft: &mut Draft) {
    mail(found);
    undecided(found);
    let mut stores = std::mem::take(&mut found.stores);
    stores.sort_by_key(|store| (store.kind, store.name.clone()));
    for store in &stores {
        let usual = store.name.clone().unwrap_or_else(|| store.kind.usual_name().to_owned());
        let name = free(&usual, |name| {
            draft.services.iter().any(|service| service.name == name)
                || found.apps.iter().any(|app| app.name == name)
        });
        match is_built_in(store.kind) || host.stores.contains_key(&store.kind) {
            true => {
                let mut service = recipe(&name, store, host, &mut draft.caveats);
                // Compose gives each container a port of its own; in a room all share one address.
                let known: Vec<u16> = draft.services.iter().flat_map(ports_of).collect();
                let is_taken = |port: u16| known.contains(&port);
                let usual = store.kind.port();
                if is_taken(usual) {
                    service.port = (usual + 1..).find(|port| !is_taken(*port));
                }
                draft.services.push(service);
            }
            false => elsewhere(&name, store, host, found, draft),
        }
    }
    found.stores = stores;
    images(found, host, draft);
}

/// Asks which database to use if only packages name several: such a project supports all of them, and usually defaults
/// to a database file.
fn undecided(found: &mut Findings) {
    let is_sql = |store: &Store| matches!(store.kind, StoreKind::Postgres | StoreKind::Mysql);
    let of_ci = |store: &Store| store.evidence.iter().all(|one| one.fact.starts_with("CI runs "));
    // Jobs of CI test with each database that is supported; what else names one tells which is used.
    if let Some(used) = found
        .stores
        .iter()
        .find(|store| is_sql(store) && store.certainty > Certainty::Likely && !of_ci(store))
        .map(|store| store.kind)
    {
        found.stores.retain(|store| !is_sql(store) || store.kind == used || !of_ci(store));
    }
    let is_guess =
        |store: &Store| is_sql(store) && (store.certainty == Certainty::Likely || of_ci(store));
    let guesses: Vec<Store> =
        found.stores.iter().filter(|store| is_guess(store)).cloned().collect();
    if guesses.len() < 2 {
        return;
    }
    found.stores.retain(|store| !is_guess(store));
    let words: Vec<_> = guesses.iter().map(|store| store.kind.word()).collect();
    found.questions.push(Question {
        id: "database".to_owned(),
        text: format!(
            "Which database does the app use here? Its packages or its CI support {}; add `[service.db]` with `recipe = \"postgres\"` or another one if it needs any.",
            words.join(" and ")
        ),
        until_then: "there is none".to_owned(),
        key: None,
        answer: None,
        evidence: guesses.into_iter().flat_map(|store| store.evidence).collect(),
    });
}

/// Whether a sink of Hothouse replaces the store.
fn is_built_in(kind: StoreKind) -> bool {
    matches!(kind, StoreKind::Mail | StoreKind::Objects | StoreKind::Traces)
}

/// Adds a mailbox if settings name a mail server.
fn mail(found: &mut Findings) {
    let is_server = |name: &str| {
        let last = super::environment::mail(name);
        last.is_some_and(|last| ["HOST", "HOSTNAME", "SERVER", "ADDRESS"].contains(&last))
    };
    let setting =
        found.settings.iter().find(|setting| is_server(&setting.name.to_ascii_uppercase()));
    if let Some(setting) = setting {
        let evidence = crate::Evidence {
            fact: format!("{} names a server for mail", setting.name),
            ..setting.evidence.clone()
        };
        found.store(Store::new(StoreKind::Mail, Certainty::Named, evidence));
    }
}

fn recipe(name: &str, store: &Store, host: &HostFacts, caveats: &mut Vec<String>) -> DraftService {
    let installed = host.stores.get(&store.kind).cloned().unwrap_or_default();
    let is_any = installed.iter().all(String::is_empty);
    let version = store.version.clone().filter(|_| !is_any);
    let fits = |wanted: &String| {
        installed.iter().any(|have| have == wanted || have.starts_with(&format!("{wanted}.")))
    };
    if let Some(wanted) = version.as_ref().filter(|wanted| !fits(wanted)) {
        caveats.push(format!(
            "`{name}`: {} asks for {} {wanted}; this host has {}, which is used instead",
            store.evidence[0].file,
            store.kind.word(),
            installed.join(", ")
        ));
    }
    let text =
        |value: &Option<String>, fits: fn(&str) -> bool| value.clone().filter(|value| fits(value));
    let is_sql = matches!(store.kind, StoreKind::Postgres | StoreKind::Mysql);
    DraftService {
        work: DraftWork::Recipe {
            kind: store.kind,
            version: version.filter(fits),
            database: text(&store.database, harmless::is_database_name).filter(|_| is_sql),
            user: text(&store.user, harmless::is_database_name).filter(|_| is_sql),
            password: text(&store.password, harmless::is_password),
        },
        ..service(name, store)
    }
}

fn service(name: &str, store: &Store) -> DraftService {
    DraftService {
        name: name.to_owned(),
        work: DraftWork::Run { run: String::new(), task: false },
        dir: String::new(),
        port: None,
        ports: Vec::new(),
        needs: Vec::new(),
        ready: None,
        url: false,
        env: BTreeMap::new(),
        note: None,
        evidence: store.evidence.clone(),
    }
}

/// Runs the image of a store, or asks.
fn elsewhere(name: &str, store: &Store, host: &HostFacts, found: &mut Findings, draft: &mut Draft) {
    let usual =
        IMAGES.iter().find(|(kind, _)| *kind == store.kind).map(|(_, image)| (*image).to_owned());
    let image = store.image.clone().or(usual).unwrap_or_else(|| store.kind.word().to_owned());
    let word = store.kind.word();
    if host.images && store.certainty > Certainty::Likely {
        let env = of_image(store);
        let mut service = service(name, store);
        service.work = DraftWork::Image { image, command: None };
        (service.env, service.port) = (env, Some(store.kind.port()));
        service.note = Some(format!("{word} is not installed here, so its image is used"));
        draft.services.push(service);
        return;
    }
    found.questions.push(Question {
        id: format!("store-{name}"),
        text: format!("What runs {word}? It is not installed here; `image = \"{image}\"` would run its image, a command of your own does as well."),
        until_then: format!("`{name}` is left out, and what needs {word} does not find it"),
        key: Some(format!("service.{name}.image")),
        answer: None,
        evidence: store.evidence.clone(),
    });
}

/// Returns the variables that the image of a store needs.
fn of_image(store: &Store) -> BTreeMap<String, String> {
    let user = store.user.clone().filter(|user| harmless::is_database_name(user));
    let password = store.password.clone().filter(|word| harmless::is_password(word));
    let database = store.database.clone().filter(|name| harmless::is_database_name(name));
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            env.insert(name.to_owned(), value);
        }
    };
    match store.kind {
        StoreKind::Postgres => {
            set("POSTGRES_USER", user);
            set("POSTGRES_PASSWORD", password.or(Some("postgres".to_owned())));
            set("POSTGRES_DB", database);
        }
        StoreKind::Mysql => {
            set("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", Some("1".to_owned()));
            set("MARIADB_USER", user.filter(|user| user != "root"));
            set("MARIADB_PASSWORD", password);
            set("MARIADB_DATABASE", database);
        }
        _ => {}
    }
    env
}

/// Adds images from compose that are not a known store.
fn images(found: &mut Findings, host: &HostFacts, draft: &mut Draft) {
    for image in std::mem::take(&mut found.images) {
        let name = free(&image.name, |name| {
            draft.services.iter().any(|service| service.name == name)
                || draft.profiled.iter().any(|(_, service)| service.name == name)
                || found.apps.iter().any(|app| app.name == name)
        });
        // A profile's own database is the one that is here already.
        let is_here = |kind: StoreKind| found.stores.iter().find(|store| store.kind == kind);
        if let Some(store) =
            kind_of(&image.image).filter(|_| !image.profiles.is_empty()).and_then(is_here)
        {
            draft.caveats.push(format!(
                "`{name}` ({}) of compose's profile {} is left out: {} is here without a profile",
                image.image,
                image.profiles.join(", "),
                store.kind.word()
            ));
            continue;
        }
        if !host.images {
            found.questions.push(Question {
                id: format!("image-{name}"),
                text: format!(
                    "What stands in for {}, which compose runs as `{name}`?",
                    image.image
                ),
                until_then: "it is left out".to_owned(),
                key: Some(format!("service.{name}.run")),
                answer: None,
                evidence: image.evidence.clone(),
            });
            continue;
        }
        let known: Vec<u16> = draft.services.iter().flat_map(ports_of).collect();
        let ports: Vec<u16> =
            image.ports.iter().copied().filter(|port| !known.contains(port)).collect();
        let service = DraftService {
            name,
            work: DraftWork::Image { image: image.image, command: image.command },
            dir: String::new(),
            port: ports.first().copied(),
            ports: ports.iter().skip(1).copied().collect(),
            needs: Vec::new(),
            ready: None,
            url: false,
            env: harmless::settings(&image.env),
            note: None,
            evidence: image.evidence,
        };
        // A service of a compose profile belongs to the same profile here: `up --profile NAME`.
        match image.profiles.first() {
            Some(profile) => draft.profiled.push((text::service_name(profile), service)),
            None => draft.services.push(service),
        }
    }
}
