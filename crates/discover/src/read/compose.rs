//! Compose files, with anchors, `extends`, `include` and overrides, and the kinds of their services.

mod merge;

use std::collections::BTreeMap;

use serde_json::Value;

use super::{containers, settings};
use crate::{
    finding::{BuiltService, Certainty, Evidence, Findings, ImageService, Load, Store, StoreKind},
    text,
    view::View,
};

/// Files that compose reads by default, then usual names for development.
const FILES: [&str; 10] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "docker-compose.dev.yml",
    "docker-compose.dev.yaml",
    "docker-compose.local.yml",
    "compose.dev.yaml",
    "local.yml",
    "docker-compose.development.yml",
];

/// Folders that may contain them if the root does not.
const FOLDERS: [&str; 8] =
    ["", "docker", "infra", "deploy", ".devcontainer", "dev", "docker/dev", "infrastructure"];

/// Images that only show the content of others, or are a proxy for them.
const LEFT_OUT: [&str; 16] = [
    "adminer",
    "pgadmin4",
    "pgadmin",
    "phpmyadmin",
    "redis-commander",
    "redisinsight",
    "mongo-express",
    "portainer",
    "portainer-ce",
    "traefik",
    "watchtower",
    "nginx",
    "caddy",
    "nginx-proxy",
    "kafka-ui",
    "dozzle",
];

/// Images with only a language.
const RUNTIMES: [&str; 14] = [
    "node",
    "python",
    "ruby",
    "golang",
    "rust",
    "php",
    "openjdk",
    "eclipse-temurin",
    "elixir",
    "bun",
    "deno",
    "maven",
    "gradle",
    "composer",
];

/// Images by the last part of their name, and the stores in them.
const STORES: [(&str, StoreKind); 44] = [
    ("postgres", StoreKind::Postgres),
    ("postgresql", StoreKind::Postgres),
    ("postgis", StoreKind::Postgres),
    ("pgvector", StoreKind::Postgres),
    ("timescaledb", StoreKind::Postgres),
    ("timescaledb-ha", StoreKind::Postgres),
    ("mysql", StoreKind::Mysql),
    ("mysql-server", StoreKind::Mysql),
    ("mariadb", StoreKind::Mysql),
    ("percona", StoreKind::Mysql),
    ("redis", StoreKind::Redis),
    ("valkey", StoreKind::Redis),
    ("keydb", StoreKind::Redis),
    ("redis-stack", StoreKind::Redis),
    ("redis-stack-server", StoreKind::Redis),
    ("dragonfly", StoreKind::Redis),
    ("redismod", StoreKind::Redis),
    ("mongo", StoreKind::Mongo),
    ("mongodb", StoreKind::Mongo),
    ("mongodb-community-server", StoreKind::Mongo),
    ("rabbitmq", StoreKind::Rabbitmq),
    ("nats", StoreKind::Nats),
    ("memcached", StoreKind::Memcached),
    ("elasticsearch", StoreKind::Elasticsearch),
    ("opensearch", StoreKind::Elasticsearch),
    ("meilisearch", StoreKind::Meilisearch),
    ("clickhouse-server", StoreKind::Clickhouse),
    ("clickhouse", StoreKind::Clickhouse),
    ("kafka", StoreKind::Kafka),
    ("cp-kafka", StoreKind::Kafka),
    ("redpanda", StoreKind::Kafka),
    ("mailhog", StoreKind::Mail),
    ("mailpit", StoreKind::Mail),
    ("maildev", StoreKind::Mail),
    ("mailcatcher", StoreKind::Mail),
    ("inbucket", StoreKind::Mail),
    ("smtp4dev", StoreKind::Mail),
    ("minio", StoreKind::Objects),
    ("localstack", StoreKind::Objects),
    ("s3mock", StoreKind::Objects),
    ("jaeger", StoreKind::Traces),
    ("all-in-one", StoreKind::Traces),
    ("opentelemetry-collector", StoreKind::Traces),
    ("opentelemetry-collector-contrib", StoreKind::Traces),
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let Some(file) = FOLDERS.iter().find_map(|folder| view.first(folder, &FILES)) else { return };
    let services = merge::services(view, &file);
    let values = settings::values(view, text::folder(&file));
    let active: Vec<&str> =
        values.get("COMPOSE_PROFILES").into_iter().flat_map(|names| names.split(',')).collect();
    // Services with the same image name run the image that one of them builds.
    let builds: BTreeMap<&str, &Value> = services
        .values()
        .filter(|(service, _)| !service["build"].is_null())
        .filter_map(|(service, _)| Some((service["image"].as_str()?, &service["build"])))
        .collect();
    for (name, (service, origin)) in &services {
        let mut service = service.clone();
        let same = service["image"].as_str().and_then(|image| builds.get(image));
        if let Some(build) = same.filter(|_| service["build"].is_null()) {
            service["build"] = (*build).clone();
        }
        let profiles = strings(&service["profiles"]);
        if profiles.iter().any(|profile| active.contains(&profile.as_str()) || active == ["*"]) {
            service["profiles"] = Value::Null;
        }
        one(view, origin, name, &service, found);
    }
    let awaited: Vec<String> =
        services.values().flat_map(|(service, _)| awaited(&service["depends_on"])).collect();
    for built in &mut found.built {
        built.is_task = awaited.contains(&built.name);
    }
    // What an image does once, such as `chown` in a volume, has no place in a room.
    let (once, others): (Vec<_>, Vec<_>) = std::mem::take(&mut found.images)
        .into_iter()
        .partition(|image| awaited.contains(&image.name));
    found.images = others;
    for image in once {
        let line = image.command.as_deref().unwrap_or("its own command");
        let fact = format!(
            "`{}` ({}) is left out: compose only waits for `{line}` to end. If apps need what it does, add a task",
            image.name, image.image
        );
        found.caveats.push(Evidence { fact, ..image.evidence[0].clone() });
    }
    // A worker that was written by extending the server publishes nothing itself.
    let of_servers: Vec<Vec<u16>> = found
        .built
        .iter()
        .filter(|built| built.command.is_none() && !built.ports.is_empty())
        .map(|built| built.ports.clone())
        .collect();
    for built in found.built.iter_mut().filter(|built| built.command.is_some()) {
        if of_servers.contains(&built.ports) {
            built.ports.clear();
        }
    }
}

/// Whether a command only keeps a container open for those who enter it.
fn is_idle(line: &str) -> bool {
    let words = text::words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(words.as_slice(), ["sleep", ..] | ["tail", "-f" | "-F", "/dev/null"])
        || line.contains("while sleep")
        || line.contains("while true; do sleep")
}

/// Returns the services whose completion is awaited.
fn awaited(value: &Value) -> Vec<String> {
    let ends = |need: &Value| need["condition"] == "service_completed_successfully";
    let all = value.as_object().into_iter().flatten();
    all.filter(|(_, need)| ends(need)).map(|(name, _)| text::service_name(name)).collect()
}

/// Splits an image reference into its name without registry, and its tag.
pub(super) fn image_parts(image: &str) -> (String, Option<String>) {
    let bare = image.split('@').next().unwrap_or(image);
    let last = bare.rsplit('/').next().unwrap_or(bare);
    match last.split_once(':') {
        Some((name, tag)) => {
            (name.to_ascii_lowercase(), Some(tag.to_owned()).filter(|tag| !tag.is_empty()))
        }
        None => (last.to_ascii_lowercase(), None),
    }
}

/// Returns the kind of store in an image.
pub(crate) fn kind_of(image: &str) -> Option<StoreKind> {
    let (name, _) = image_parts(image);
    STORES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

fn one(view: &View<'_>, file: &str, name: &str, service: &Value, found: &mut Findings) {
    let service_name = text::service_name(name);
    let at = |needle: &str, fact: String| Evidence { fact, ..view.evidence(file, needle, "") };
    let place = || view.evidence(file, &format!("{name}:"), "").line;
    let image = service["image"].as_str().map(merge::interpolate);
    let profiles = strings(&service["profiles"]);
    let (needs, env) = (needs(&service["depends_on"]), environment(&service["environment"]));
    let ports = ports(&service["ports"]);
    let secrets = service["secrets"].as_array().map(Vec::len).unwrap_or_default();
    let is_store = image.as_deref().and_then(kind_of).is_some();
    if secrets > 0 && profiles.is_empty() && !is_store {
        let fact = format!(
            "`{name}` reads secrets of compose below `/run/secrets`, which is empty in a room: give it the values by `env`, or change where it reads them"
        );
        found.caveats.push(Evidence { file: file.to_owned(), line: place(), fact });
    }
    if !service["build"].is_null() {
        let build = &service["build"];
        let context = build.as_str().or_else(|| build["context"].as_str()).unwrap_or(".");
        if text::leaves(text::folder(file), context) {
            return view.note(
                file,
                place(),
                format!("`{name}` is built from outside the repository, and was passed over"),
            );
        }
        let context = text::join(text::folder(file), context);
        // A folder of dependencies, such as Sail's in `vendor`, is not of the repository.
        let is_ours = context.is_empty() || view.has_folder(&context);
        let context = if is_ours { context } else { text::folder(file).to_owned() };
        let dockerfile = build["dockerfile"].as_str().unwrap_or("Dockerfile");
        let base = super::containers::base(view, &text::join(&context, dockerfile));
        // An image that only adds files to a store's image is that store, and so is a server named like one.
        let based = base.as_deref().and_then(kind_of).map(|kind| (kind, base.clone()));
        let called = kind_of(name).filter(|kind| *kind == StoreKind::Mail).map(|kind| (kind, None));
        if let Some((kind, image)) = based.or(called).filter(|_| profiles.is_empty()) {
            let fact = format!("`{name}` is built on {}", image.as_deref().unwrap_or(kind.word()));
            let evidence = Evidence { file: file.to_owned(), line: place(), fact };
            let mut store = Store::new(kind, Certainty::Declared, evidence);
            store.name = Some(service_name);
            store.version = image.as_deref().and_then(|image| text::major(&image_parts(image).1?));
            account(&mut store, &env, service);
            store.image = image;
            return found.store(store);
        }
        let evidence = Evidence {
            file: file.to_owned(),
            line: place(),
            fact: format!("`{name}` is built from {}", shown(&context)),
        };
        let dockerfile = text::join(&context, dockerfile);
        let inside = Inside::of(view, file, service, (&context, &dockerfile));
        let mut env = env;
        for (name, value) in of_files(view, file, &service["env_file"]) {
            env.entry(name).or_insert(value);
        }
        inside.adapt(view, &mut env);
        found.built.push(BuiltService {
            name: service_name,
            home: inside.home(view),
            dockerfile,
            command: command(&service["command"])
                .or_else(|| command(&service["entrypoint"]))
                .filter(|line| !is_idle(line))
                .map(|line| inside.mapped(view, &line, &context)),
            context,
            ports,
            env,
            health: health(&service["healthcheck"]["test"]),
            needs,
            profiles,
            is_task: false,
            evidence: vec![evidence],
        });
        return;
    }
    let Some(image) = image.filter(|image| !image.is_empty()) else { return };
    let (short, tag) = image_parts(&image);
    // A plain language image with files of the repository is an app of the repository.
    let source = binds(&service["volumes"]).into_iter().map(|(source, _)| source).next();
    let source = source.filter(|source| {
        RUNTIMES.contains(&short.as_str()) && !text::leaves(text::folder(file), source)
    });
    if let Some(source) = source {
        let context = text::join(text::folder(file), &source);
        let fact = format!("`{name}` runs {} in {image}", shown(&context));
        let mut env = env;
        for (name, value) in of_files(view, file, &service["env_file"]) {
            env.entry(name).or_insert(value);
        }
        found.built.push(BuiltService {
            name: service_name,
            home: None,
            dockerfile: String::new(),
            context,
            command: command(&service["command"])
                .or_else(|| command(&service["entrypoint"]))
                .filter(|line| !is_idle(line)),
            ports,
            env,
            health: health(&service["healthcheck"]["test"]),
            needs,
            profiles,
            is_task: false,
            evidence: vec![at(service["image"].as_str().unwrap_or(&image), fact)],
        });
        return;
    }
    let evidence =
        at(service["image"].as_str().unwrap_or(&image), format!("`{name}` runs {image}"));
    if command(&service["command"]).is_some_and(|line| is_idle(&line)) {
        let fact = format!("`{name}` ({short}) is left out: it only stays open");
        found.caveats.push(Evidence { fact, ..evidence });
        return;
    }
    if LEFT_OUT.contains(&short.as_str()) {
        found.caveats.push(Evidence {
            fact: format!(
                "`{name}` ({short}) is left out: it only shows or forwards what others serve"
            ),
            ..evidence
        });
        return;
    }
    let kind = kind_of(&image).filter(|_| profiles.is_empty());
    let mut load = kind.map(|kind| Load {
        store: service_name.clone(),
        kind,
        files: Vec::new(),
        others: Vec::new(),
        evidence: vec![evidence.clone()],
    });
    for (source, target) in binds(&service["volumes"]) {
        let path = text::join(text::folder(file), &source);
        if let Some(load) = load.as_mut().filter(|_| target.starts_with(FIRST_START)) {
            first_start(view, &path, load);
            continue;
        }
        if !view.has(&path) && !view.has_folder(&path) {
            // A folder that only the service writes.
            continue;
        }
        found.caveats.push(Evidence {
            fact: format!("`{name}` sees `{source}` of the repository as `{target}` in compose, and does not here: load it with a task or a seed"),
            ..evidence.clone()
        });
    }
    let has_files = |load: &Load| !load.files.is_empty() || !load.others.is_empty();
    found.loads.extend(load.filter(has_files));
    if let Some(kind) = kind {
        let mut store = Store::new(kind, Certainty::Declared, evidence);
        store.name = Some(service_name);
        store.version = tag.as_deref().and_then(text::major);
        account(&mut store, &env, service);
        if let Some(extension) = extension(&short) {
            found.caveats.push(Evidence {
                fact: format!("`{name}` asks for {extension}"),
                ..store.evidence[0].clone()
            });
        }
        store.image = Some(image);
        found.store(store);
        return;
    }
    found.images.push(ImageService {
        name: service_name,
        image,
        command: command(&service["command"]),
        ports,
        env,
        needs,
        profiles,
        evidence: vec![evidence],
    });
}

/// The folder from which database images load files on first start.
const FIRST_START: &str = "/docker-entrypoint-initdb.d";

/// Adds the files of a folder, or one file, in the order in which the image loads them.
fn first_start(view: &View<'_>, path: &str, load: &mut Load) {
    let is_direct = |file: &&str| *file == path || text::folder(file) == path;
    let mut files: Vec<_> =
        view.below(path).chain(view.has(path).then_some(path)).filter(is_direct).collect();
    files.sort_unstable();
    for file in files.into_iter().take(50) {
        match file.ends_with(".sql") {
            true => load.files.push(file.to_owned()),
            false => load.others.push(file.to_owned()),
        }
    }
}

fn shown(folder: &str) -> &str {
    if folder.is_empty() { "the root" } else { folder }
}

/// Names the extension that an image adds to PostgreSQL, and its package.
fn extension(image: &str) -> Option<&'static str> {
    Some(match image {
        "postgis" => "PostGIS: install the package postgresql-NN-postgis-3",
        "pgvector" => "pgvector: install the package postgresql-NN-pgvector",
        "timescaledb" | "timescaledb-ha" => {
            "TimescaleDB, which comes from its makers' own packages"
        }
        _ => return None,
    })
}

/// Reads database, user and password from the variables of a database image.
pub(super) fn account(store: &mut Store, env: &BTreeMap<String, String>, service: &Value) {
    let get = |names: &[&str]| {
        names.iter().find_map(|name| env.get(*name)).filter(|value| !value.is_empty()).cloned()
    };
    match store.kind {
        StoreKind::Postgres => {
            store.user = get(&["POSTGRES_USER", "POSTGRESQL_USERNAME"]);
            store.password = get(&["POSTGRES_PASSWORD", "POSTGRESQL_PASSWORD"]);
            store.database =
                get(&["POSTGRES_DB", "POSTGRESQL_DATABASE"]).or_else(|| store.user.clone());
        }
        StoreKind::Mysql => {
            store.user = get(&["MYSQL_USER", "MARIADB_USER"]);
            store.password = get(&["MYSQL_PASSWORD", "MARIADB_PASSWORD"]);
            store.database = get(&["MYSQL_DATABASE", "MARIADB_DATABASE"]);
            if store.user.is_none() {
                let root = get(&["MYSQL_ROOT_PASSWORD", "MARIADB_ROOT_PASSWORD"]);
                store.user = root.is_some().then(|| "root".to_owned());
                store.password = root;
            }
        }
        StoreKind::Redis => {
            let line = command(&service["command"]).unwrap_or_default();
            let words = text::words(&line);
            let at = words.iter().position(|word| word == "--requirepass");
            store.password = at.and_then(|at| words.get(at + 1)).cloned();
        }
        _ => {}
    }
}

fn strings(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(merge::interpolate(text)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Array(all) => all.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// Returns the command as one line of shell.
fn command(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(merge::interpolate(text)),
        Value::Array(all) => {
            let words: Vec<_> =
                all.iter().filter_map(Value::as_str).map(merge::interpolate).collect();
            match words.as_slice() {
                [shell, flag, line] if shell.ends_with("sh") && flag.starts_with('-') => {
                    Some(line.clone())
                }
                words => Some(
                    words.iter().map(|word| text::shell_word(word)).collect::<Vec<_>>().join(" "),
                ),
            }
        }
        _ => None,
    }
    .map(|line| line.trim().to_owned())
    .filter(|line| !line.is_empty())
}

/// Returns variables, from a list or a map.
pub(super) fn environment(value: &Value) -> BTreeMap<String, String> {
    let of_scalar = |value: &Value| match value {
        Value::String(text) => merge::interpolate(text),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match value {
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.clone(), of_scalar(value))).collect()
        }
        Value::Array(all) => {
            let pairs = all.iter().filter_map(Value::as_str);
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (name.trim().to_owned(), merge::interpolate(value))
                })
                .collect()
        }
        _ => BTreeMap::new(),
    }
}

/// Returns the repository files mounted into a service, and their targets. Named volumes are part of its data anyway.
fn binds(value: &Value) -> Vec<(String, String)> {
    let Value::Array(all) = value else { return Vec::new() };
    let one = |value: &Value| match value {
        Value::String(text) => {
            let text = merge::interpolate(text);
            let (source, rest) = text.split_once(':')?;
            Some((source.to_owned(), rest.split(':').next()?.to_owned()))
        }
        Value::Object(map) if map.get("type").and_then(Value::as_str) == Some("bind") => {
            let get = |key: &str| Some(merge::interpolate(map.get(key)?.as_str()?));
            Some((get("source")?, get("target")?))
        }
        _ => None,
    };
    all.iter().filter_map(one).filter(|(source, _)| source.starts_with('.')).take(16).collect()
}

/// Returns the variables in a service's env files that are committed or examples: others contain this user's values.
fn of_files(view: &View<'_>, file: &str, value: &Value) -> BTreeMap<String, String> {
    let all = match value {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let named = |value: &Value| {
        let path = value.as_str().or_else(|| value["path"].as_str()).map(merge::interpolate)?;
        (!text::leaves(text::folder(file), &path)).then(|| text::join(text::folder(file), &path))
    };
    let is_open =
        |path: &String| view.committed.contains(path) || settings::is_example(text::name(path));
    let mut env = BTreeMap::new();
    for path in all.iter().filter_map(named).filter(is_open).take(10) {
        env.extend(settings::variables(view, &path));
    }
    env
}

/// The repository's files in a built image.
struct Inside {
    /// The path there, and the path here: mounted files, then copied ones.
    places: Vec<(String, String)>,
    /// The paths of named volumes.
    volumes: Vec<String>,
    /// The working folder there.
    folder: String,
}

impl Inside {
    fn of(view: &View<'_>, file: &str, service: &Value, image: (&str, &str)) -> Self {
        let (context, dockerfile) = image;
        let stage = containers::stage(view, dockerfile);
        let own = |(source, target): (String, String)| {
            let is_ours = !text::leaves(text::folder(file), &source);
            is_ours.then(|| (target, text::join(text::folder(file), &source)))
        };
        let mut places: Vec<_> = binds(&service["volumes"]).into_iter().filter_map(own).collect();
        places.extend(containers::places(&stage, context));
        let folder = service["working_dir"].as_str().map(merge::interpolate);
        let folder = folder.unwrap_or(stage.folder);
        Self { places, volumes: named_volumes(&service["volumes"]), folder }
    }

    /// Returns the folder of the repository that the service runs in, if it is not the build context.
    fn home(&self, view: &View<'_>) -> Option<String> {
        let here = containers::located(view, &self.places, &self.folder);
        // With `./src/app` mounted at `/code/app`, `/code` corresponds to `src`.
        let around = || {
            let parts = self.places.iter().find_map(|(target, source)| {
                let last = target.trim_end_matches('/').strip_prefix(&self.folder)?;
                let last = last.strip_prefix('/').filter(|last| !last.contains('/'))?;
                (text::name(source) == last).then(|| text::folder(source).to_owned())
            });
            parts.filter(|_| !self.folder.is_empty())
        };
        here.or_else(around).filter(|home| home.is_empty() || view.has_folder(home))
    }

    /// Maps paths in variables to the repository; those in volumes are left to the app.
    fn adapt(&self, view: &View<'_>, env: &mut BTreeMap<String, String>) {
        let is_below = |folder: &String, path: &str| {
            path.strip_prefix(folder.trim_end_matches('/'))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        env.retain(|_, value| {
            if value.starts_with('/') {
                let here = containers::located(view, &self.places, value);
                match here.filter(|path| !path.is_empty()) {
                    Some(path) => *value = format!("{}{path}", containers::OF_ROOT),
                    None => return !self.volumes.iter().any(|folder| is_below(folder, value)),
                }
            }
            true
        });
    }

    /// Maps paths in a command to the repository, relative to the build context.
    fn mapped(&self, view: &View<'_>, line: &str, context: &str) -> String {
        let own = |word: &str| {
            let path = containers::located(view, &self.places, word)
                .filter(|path| word.starts_with('/') && !path.is_empty())?;
            match context {
                "" => Some(path),
                context => path.strip_prefix(&format!("{context}/")).map(str::to_owned),
            }
        };
        // Only plain words: quoted ones and shell syntax are left alone.
        let words = line.split(' ').map(|word| own(word).unwrap_or_else(|| word.to_owned()));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the paths of named volumes.
fn named_volumes(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(text) => {
            let text = merge::interpolate(text);
            let (source, rest) = text.split_once(':')?;
            (!source.starts_with(['.', '/', '~']))
                .then(|| rest.split(':').next().map(str::to_owned))?
        }
        Value::Object(map) if map.get("type").and_then(Value::as_str) == Some("volume") => {
            map.get("target")?.as_str().map(str::to_owned)
        }
        _ => None,
    };
    value.as_array().into_iter().flatten().filter_map(one).take(16).collect()
}

fn needs(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map.keys().map(|name| text::service_name(name)).collect(),
        other => strings(other).iter().map(|name| text::service_name(name)).collect(),
    }
}

/// Returns the ports inside the container.
fn ports(value: &Value) -> Vec<u16> {
    let Value::Array(all) = value else { return Vec::new() };
    let one = |value: &Value| match value {
        Value::Number(number) => number.as_u64().and_then(|port| port.try_into().ok()),
        Value::Object(map) => {
            map.get("target").and_then(Value::as_u64).and_then(|port| port.try_into().ok())
        }
        Value::String(text) => {
            let text = merge::interpolate(text);
            let bare = text.split('/').next().unwrap_or_default();
            bare.rsplit(':').next()?.split('-').next()?.trim().parse().ok()
        }
        _ => None,
    };
    all.iter().filter_map(one).filter(|port| *port > 0).collect()
}

/// Returns the path that a health check requests.
fn health(test: &Value) -> Option<String> {
    let line = strings(test).join(" ");
    let (_, rest) =
        line.split_once("http://localhost").or_else(|| line.split_once("http://127.0.0.1"))?;
    let path = &rest[rest.find('/')?..];
    let end = path.find(|c: char| c.is_whitespace() || "\"';|&)".contains(c)).unwrap_or(path.len());
    Some(path[..end].to_owned()).filter(|path| path.len() > 1)
}
