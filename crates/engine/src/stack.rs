//! The stack: translates the services in the worktree's config to orders for a room.
//!
//! Pure: facts about the host are passed in as [`Facts`]; references are resolved only here.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hothouse_model::{
    Explain, FailureKind, ServiceName,
    caveat::Caveat,
    config::{
        self, Config, Part, Probe, Ready, Reference, SERVICE_FIELDS, Service, Signal, SinkRecipe,
        Template, Work,
    },
    stack::{
        DATA_INSIDE, DataOrder, FROZEN_INSIDE, HostedOrder, ServiceOrder, StackOrder,
        service::{Need, ProbeSpec, Question, ServiceSpec},
    },
};
use hothouse_sinks::webhook::{fixture, keys};
use hothouse_workspace::content;

use hothouse_images::Image;

use crate::{
    apps::Names,
    images, managers,
    recipe::{self, Account, PreparedRecipe, Programs, RecipeContext},
};

/// Inputs besides the config.
pub(crate) struct Facts<'a> {
    pub(crate) profile: &'a str,
    /// The path of the worktree for services.
    pub(crate) worktree: &'a Path,
    /// The environment of every command in the room.
    pub(crate) environment: Vec<(String, String)>,
    /// The environment of the host, for variables that come from there.
    pub(crate) host: &'a BTreeMap<String, String>,
    /// The parent of logs, one folder per service.
    pub(crate) logs: PathBuf,
    /// The parent of the sandbox's data, one folder per service.
    pub(crate) data: PathBuf,
    /// The folder of golden data.
    pub(crate) golden: PathBuf,
    /// The programs of services with a recipe.
    pub(crate) programs: BTreeMap<ServiceName, Programs>,
    /// The images of image services.
    pub(crate) images: BTreeMap<ServiceName, Image>,
    /// The external names of its apps, if there is a router.
    pub(crate) names: Option<Names<'a>>,
    /// The sandbox, for generated webhook secrets.
    pub(crate) sandbox: &'a str,
}

/// A stack, and the data that it needs first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) order: StackOrder,
    pub(crate) data: Vec<DataOrder>,
    /// The sandbox's initial objects.
    pub(crate) objects: Option<hothouse_model::tree::TreeCopy>,
    /// Whether it runs from a tree that is frozen when it starts.
    pub(crate) frozen: bool,
    /// The curated variables that every command of the room gets.
    pub(crate) variables: BTreeMap<String, String>,
    /// Caveats for the user.
    pub(crate) caveats: Vec<Caveat>,
}

/// A service that cannot be declared to a room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    #[error("variable `{variable}` of {place} refers to `{reference}`, which has no such value")]
    Reference { place: String, variable: String, reference: String },
    #[error("service `{service}` follows a recipe whose programs were not looked for")]
    Programs { service: String },
}

impl Explain for StackError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Reference { .. } => FailureKind::Config,
            Self::Programs { .. } => FailureKind::Internal,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Reference { .. } => {
                vec!["give the service it refers to a `port`, or refer to `{name.port}`".into()]
            }
            Self::Programs { .. } => Vec::new(),
        }
    }
}

/// Resolves the services of a config for its profile.
pub(crate) fn resolve(config: &Config, facts: &Facts<'_>) -> Result<Stack, StackError> {
    let frozen = config.profiles.iter().any(|(name, profile)| {
        name.as_str() == facts.profile && profile.files == config::Files::Frozen
    });
    let mut builder = StackBuilder::open(config, facts)?;
    let (variables, caveats) = builder.variables()?;
    builder.variables = variables.clone();
    let mut stack = Stack {
        order: StackOrder {
            profile: facts.profile.to_owned(),
            logs: facts.logs.clone(),
            services: Vec::new(),
            hosted: hosted(config),
        },
        data: Vec::new(),
        objects: None,
        frozen: frozen && !config.services.is_empty(),
        variables,
        caveats,
    };
    for (name, service) in config.services.iter().filter(|(_, service)| !service.host) {
        stack.order.services.push(builder.service(name, service, stack.frozen)?);
        if let Some(prepared) = builder.prepared.get(name) {
            stack.data.push(data(name, prepared, facts));
        }
        if let Some(image) = facts.images.get(name) {
            stack.data.push(images::data(name.as_str(), image, &facts.data, &facts.golden));
        }
    }
    Ok(stack)
}

/// Everything that references can refer to.
struct StackBuilder<'a> {
    config: &'a Config,
    facts: &'a Facts<'a>,
    prepared: BTreeMap<ServiceName, PreparedRecipe>,
    /// The curated variables, once known.
    variables: BTreeMap<String, String>,
}

impl<'a> StackBuilder<'a> {
    fn open(config: &'a Config, facts: &'a Facts<'a>) -> Result<Self, StackError> {
        let mut prepared = BTreeMap::new();
        for (name, service) in &config.services {
            let Work::Database(recipe) = service.work() else { continue };
            let programs = facts
                .programs
                .get(name)
                .ok_or_else(|| StackError::Programs { service: name.to_string() })?;
            let data = Path::new(DATA_INSIDE).join(name.as_str());
            let port = service.main_port().unwrap_or_default();
            let account = Account::of(service);
            let with =
                RecipeContext { service: name.as_str(), port, data: &data, programs, account };
            prepared.insert(name.clone(), recipe::prepare(recipe, &with));
        }
        Ok(Self { config, facts, prepared, variables: BTreeMap::new() })
    }

    /// Resolves the curated variables; one that is missing on the host is left out and reported.
    fn variables(&self) -> Result<(BTreeMap<String, String>, Vec<Caveat>), StackError> {
        let (mut all, mut caveats) = (BTreeMap::new(), Vec::new());
        for (name, variable) in &self.config.variables {
            let name = name.as_str();
            if !variable.services.is_empty() {
                continue;
            }
            if let Some(template) = &variable.value {
                let value =
                    self.value(None, template).map_err(|reference| StackError::Reference {
                        place: "`[env]`".into(),
                        variable: name.to_owned(),
                        reference,
                    })?;
                all.insert(name.to_owned(), value);
            } else if let Some(source) = &variable.from {
                match self.facts.host.get(source.0.as_str()) {
                    Some(value) => {
                        all.insert(name.to_owned(), value.clone());
                    }
                    None => caveats.push(Caveat::VariableMissing {
                        name: name.to_owned(),
                        source: source.0.to_string(),
                    }),
                }
            }
        }
        for (integration, one) in &self.config.integrations {
            for (name, template) in &one.env {
                let value = self.value(None, template);
                let value = value.map_err(|reference| StackError::Reference {
                    place: format!("integration `{integration}`"),
                    variable: name.as_str().to_owned(),
                    reference,
                })?;
                // The project's own setting takes precedence.
                all.entry(name.as_str().to_owned()).or_insert(value);
            }
        }
        for (name, vendor) in self.unset_webhook_secrets() {
            let secret = made_secret(self.facts.sandbox, name);
            all.entry(name.to_owned()).or_insert_with(|| verified_with(vendor.as_deref(), secret));
        }
        Ok((all, caveats))
    }

    /// Lists the variables of signing secrets that the config does not set, with their vendors.
    fn unset_webhook_secrets(&self) -> Vec<(&'a str, Option<String>)> {
        let config = self.config;
        let unset = config.integrations.values().filter_map(|one| {
            let webhook = one.webhook.as_ref()?;
            let said = one.vendor.map(|word| word.as_str().to_owned());
            let known = || crate::integrations::vendor_of(one).map(|vendor| vendor.name.clone());
            let name = webhook.secret.as_ref()?.as_str();
            let service = config.services.get(&webhook.to);
            let is_set = config.secrets.contains_key(name)
                || service.is_some_and(|service| service.env.contains_key(name));
            (!is_set).then(|| (name, said.or_else(known)))
        });
        unset.collect()
    }

    fn service(
        &self,
        name: &ServiceName,
        service: &Service,
        frozen: bool,
    ) -> Result<ServiceOrder, StackError> {
        let prepared = self.prepared.get(name);
        let root = if frozen { Path::new(FROZEN_INSIDE) } else { self.facts.worktree };
        let shell = |command: &config::Command| {
            let line = self.command((name, service), command.as_str());
            vec!["/bin/sh".to_owned(), "-c".to_owned(), line]
        };
        let run = match (service.work(), prepared) {
            (Work::Command(command), _) => shell(command),
            (_, Some(prepared)) => prepared.run.clone(),
            _ => match self.facts.images.get(name) {
                Some(image) => images::run(name.as_str(), image, service.command.as_ref()),
                None => Vec::new(),
            },
        };
        let spec = ServiceSpec {
            name: name.to_string(),
            run,
            build: service.build.as_ref().map(shell),
            env: self.environment(name, service, prepared)?,
            folder: match self.facts.images.contains_key(name) {
                true => PathBuf::from("/"),
                false => joined(root, service.dir.as_str()),
            },
            task: service.task,
            needs: self.needs(service),
            restart: service.restart,
            stop_signal: match prepared {
                Some(prepared) if service.stop_signal == Signal::Term => prepared.stop_signal,
                None if service.stop_signal == Signal::Term => {
                    let image = self.facts.images.get(name);
                    image.map_or(signal_number(Signal::Term), images::stop_signal)
                }
                _ => signal_number(service.stop_signal),
            },
            stop_grace: service.stop_grace,
            pty: service.pty,
            watch: match frozen {
                true => Vec::new(),
                false => service.watch.iter().map(|p| joined(root, p.as_str())).collect(),
            },
            probe: probe(
                service,
                prepared,
                self.port(name, service),
                self.hostname(service),
                &shell,
            ),
        };
        Ok(ServiceOrder {
            spec,
            port: self.port(name, service),
            app: service.url.as_ref().map(|label| label.as_str().to_owned()),
            url: self.url(name, service),
            database: prepared.map(|prepared| prepared.database.clone()),
            sink: sink(service),
        })
    }

    /// Returns the needs of a service, without services on the host: those are not waited for.
    fn needs(&self, service: &Service) -> Vec<Need> {
        let ours = service.needs.iter().filter(|need| {
            self.config.services.get(&need.service).is_some_and(|other| !other.host)
        });
        let needs =
            ours.map(|need| Need { service: need.service.to_string(), condition: need.condition });
        needs.collect()
    }

    fn environment(
        &self,
        name: &ServiceName,
        service: &Service,
        prepared: Option<&PreparedRecipe>,
    ) -> Result<BTreeMap<String, String>, StackError> {
        let mut env: BTreeMap<String, String> = match self.facts.images.get(name) {
            // The room's own environment does not apply in another root.
            Some(image) => return self.environment_of_image(name, service, image),
            None => self.facts.environment.iter().cloned().collect(),
        };
        let (name_of_cache, cache) = managers::NODE_COMPILE_CACHE;
        env.insert(name_of_cache.to_owned(), cache.to_owned());
        env.extend(self.variables.clone());
        if let Some(port) = service.main_port() {
            env.insert("PORT".to_owned(), port.to_string());
        }
        env.insert("HOTHOUSE_SERVICE".to_owned(), name.to_string());
        if let Some(prepared) = prepared {
            env.extend(prepared.env.iter().cloned());
            if let Some(path) = env.get_mut("PATH") {
                *path = prepared.path.iter().chain([&*path]).cloned().collect::<Vec<_>>().join(":");
            }
        }
        for (variable, value) in self.scoped(name)? {
            env.insert(variable, value);
        }
        env.extend(self.own_variables(name, service)?);
        Ok(env)
    }

    /// Returns the port of a service; by default the image's own.
    fn port(&self, name: &ServiceName, service: &Service) -> Option<u16> {
        let of_image = || self.facts.images.get(name)?.settings.ports.first().copied();
        service.main_port().or_else(of_image)
    }

    fn environment_of_image(
        &self,
        name: &ServiceName,
        service: &Service,
        image: &Image,
    ) -> Result<BTreeMap<String, String>, StackError> {
        let mut env = images::environment(image);
        env.extend(self.scoped(name)?);
        env.extend(self.own_variables(name, service)?);
        Ok(env)
    }

    fn own_variables(
        &self,
        name: &ServiceName,
        service: &Service,
    ) -> Result<Vec<(String, String)>, StackError> {
        let one = |(variable, template): (&config::VariableName, &Template)| {
            let value = self.value(Some((name, service)), template);
            let value = value.map_err(|reference| StackError::Reference {
                place: format!("service `{name}`"),
                variable: variable.as_str().to_owned(),
                reference,
            })?;
            Ok((variable.as_str().to_owned(), value))
        };
        service.env.iter().map(one).collect()
    }

    /// Resolves the variables of `[env]` that only some services get.
    fn scoped(&self, service: &ServiceName) -> Result<Vec<(String, String)>, StackError> {
        let all = self.config.variables.iter();
        let mut found = Vec::new();
        for (name, variable) in all.filter(|(_, one)| one.services.contains(service)) {
            let from = variable.from.as_ref().and_then(|from| self.facts.host.get(from.0.as_str()));
            let value = match &variable.value {
                Some(template) => {
                    let value = self.value(None, template);
                    Some(value.map_err(|reference| StackError::Reference {
                        place: "`[env]`".into(),
                        variable: name.to_string(),
                        reference,
                    })?)
                }
                None => from.cloned(),
            };
            found.extend(value.map(|value| (name.to_string(), value)));
        }
        Ok(found)
    }

    /// Resolves references such as `{db.url}` in a command. Braces of the shell and of other
    /// programs are kept.
    fn command(&self, own: (&ServiceName, &Service), line: &str) -> String {
        let (mut text, mut rest) = (String::new(), line);
        while let Some(at) = rest.find('{') {
            let (before, brace) = rest.split_at(at);
            text.push_str(before);
            let inner = brace[1..].split_once('}').map(|(inner, _)| inner);
            let is_shell = before.ends_with('$');
            let found = inner.filter(|_| !is_shell).and_then(|inner| {
                let (service, field) = match inner.split_once('.') {
                    Some((service, field)) => (Some(service), field),
                    // The service's own port.
                    None => (None, inner),
                };
                let known = match service {
                    Some(_) => SERVICE_FIELDS.contains(&field),
                    None => field == "port",
                };
                let to = Reference { service: service.map(str::to_owned), field: field.to_owned() };
                known.then(|| self.follow(Some(own), &to)).flatten()
            });
            match (found, inner) {
                (Some(value), Some(inner)) => {
                    text.push_str(&value);
                    rest = &brace[inner.len() + 2..];
                }
                _ => {
                    text.push('{');
                    rest = &brace[1..];
                }
            }
        }
        text.push_str(rest);
        text
    }

    fn value(
        &self,
        own: Option<(&ServiceName, &Service)>,
        template: &Template,
    ) -> Result<String, String> {
        let mut value = String::new();
        for part in template.parts() {
            match part {
                Part::Text(text) => value.push_str(&text),
                Part::Reference(reference) => {
                    let found = self.follow(own, &reference);
                    value.push_str(&found.ok_or_else(|| shown(&reference))?);
                }
            }
        }
        Ok(value)
    }

    fn follow(&self, own: Option<(&ServiceName, &Service)>, to: &Reference) -> Option<String> {
        let (name, service) = match &to.service {
            None => own?,
            Some(name) => {
                self.config.services.iter().find(|(known, _)| known.as_str() == name.as_str())?
            }
        };
        match to.field.as_str() {
            "port" => self.port(name, service).map(|port| port.to_string()),
            "host" => Some("127.0.0.1".to_owned()),
            "local" => self.local(name, service),
            "url" => self.url(name, service),
            field @ ("database" | "user" | "password") => {
                let account = &self.prepared.get(name)?.account;
                account.iter().find(|(known, _)| *known == field).map(|(_, value)| value.clone())
            }
            "hostname" => Some(self.hostname(service).unwrap_or_else(|| "localhost".to_owned())),
            _ => None,
        }
    }

    fn url(&self, name: &ServiceName, service: &Service) -> Option<String> {
        let label = service.url.as_ref().filter(|_| !service.host);
        let routed = label.zip(self.facts.names).map(|(label, names)| names.of(label.as_str()));
        routed.or_else(|| self.local(name, service))
    }

    /// Returns the host name of an app for requests from outside.
    fn hostname(&self, service: &Service) -> Option<String> {
        let label = service.url.as_ref().filter(|_| !service.host)?;
        let [own, _] = self.facts.names?.hosts(label.as_str());
        Some(own)
    }

    fn local(&self, name: &ServiceName, service: &Service) -> Option<String> {
        let scheme = sink(service).map_or("http", SinkRecipe::scheme);
        match self.prepared.get(name) {
            Some(prepared) => Some(prepared.url.clone()),
            None => self.port(name, service).map(|port| format!("{scheme}://127.0.0.1:{port}")),
        }
    }
}

/// Returns the sink of a service, if Hothouse itself answers on its port.
fn sink(service: &Service) -> Option<SinkRecipe> {
    match service.work() {
        Work::Sink(recipe) => Some(recipe),
        Work::Database(_) | Work::Command(_) | Work::Image(_) | Work::OnHost => None,
    }
}

/// Lists the services of the host that a room may reach. Only those of the base commit are in the
/// config.
fn hosted(config: &Config) -> Vec<HostedOrder> {
    let on_host = config.services.iter().filter(|(_, service)| service.host);
    let ports = on_host.flat_map(|(name, service)| {
        let all = service.port.iter().chain(&service.ports);
        all.map(|port| HostedOrder { service: name.to_string(), port: *port }).collect::<Vec<_>>()
    });
    ports.collect()
}

fn shown(reference: &Reference) -> String {
    match &reference.service {
        Some(service) => format!("{{{service}.{}}}", reference.field),
        None => format!("{{{}}}", reference.field),
    }
}

fn joined(root: &Path, part: &str) -> PathBuf {
    match part {
        "." | "" => root.to_owned(),
        part => root.join(part.trim_start_matches("./")),
    }
}

fn probe(
    service: &Service,
    prepared: Option<&PreparedRecipe>,
    port: Option<u16>,
    routed: Option<String>,
    shell: &dyn Fn(&config::Command) -> Vec<String>,
) -> Option<ProbeSpec> {
    let timing = |question: Question, ready: Option<&Ready>| {
        use std::time::Duration;
        let or = |of: fn(&Ready) -> Duration, other| ready.map_or(other, of);
        ProbeSpec {
            question,
            interval: or(|ready| ready.interval, Duration::from_millis(250)),
            timeout: or(|ready| ready.timeout, Duration::from_secs(2)),
            retries: ready.map_or(3, |ready| ready.retries),
        }
    };
    let Some(ready) = &service.ready else {
        // An app that is not reachable yet is not ready.
        let is_image = matches!(service.work(), Work::Image(_));
        let known = service.url.is_some() || sink(service).is_some() || is_image;
        let app = port.filter(|_| known).map(|port| Question::Tcp { port });
        let question = prepared.map(|prepared| prepared.question.clone()).or(app);
        return question.map(|question| timing(question, None));
    };
    let port = ready.port.or(port);
    let question = match &ready.probe {
        Probe::Http(path) => {
            let (port, path) = (port?, path.as_str().to_owned());
            // An app may answer only under the host names of its URLs.
            let host = ready.host.as_ref().map(|host| host.as_str().to_owned()).or(routed);
            match host {
                Some(host) => Question::HttpAs { port, path, host },
                None => Question::Http { port, path },
            }
        }
        Probe::Tcp => Question::Tcp { port: port? },
        Probe::Exec(command) => Question::Exec { words: shell(command) },
        Probe::Log(pattern) => Question::Log { pattern: pattern.as_str().to_owned() },
        Probe::Notify => Question::Notify,
    };
    Some(timing(question, Some(ready)))
}

fn data(name: &ServiceName, prepared: &PreparedRecipe, facts: &Facts<'_>) -> DataOrder {
    let settings = content::key(&[prepared.script.as_bytes()]);
    let key = format!("{}-{settings}", prepared.kind.replace(' ', "-"));
    DataOrder {
        service: name.to_string(),
        kind: prepared.kind.clone(),
        folder: facts.data.join(name.as_str()),
        golden: facts.golden.join(key),
        script: prepared.script.clone(),
        settle: prepared.settle.clone(),
        archive: None,
        stack: Vec::new(),
    }
}

/// Returns the Linux number of a signal.
fn signal_number(signal: Signal) -> i32 {
    match signal {
        Signal::HangUp => 1,
        Signal::Interrupt => 2,
        Signal::Quit => 3,
        Signal::Kill => 9,
        Signal::User1 => 10,
        Signal::User2 => 12,
        Signal::Term => 15,
        Signal::WindowChange => 28,
    }
}

/// Generates the signing secret of webhooks that have none configured; constant while the sandbox
/// exists.
pub(crate) fn made_secret(sandbox: &str, variable: &str) -> String {
    format!("whsec_{}", content::key(&[sandbox.as_bytes(), variable.as_bytes()]))
}

/// Returns what an app verifies webhooks with: the secret, or the public key for vendors that sign
/// with a private one.
fn verified_with(vendor: Option<&str>, secret: String) -> String {
    let scheme = vendor.and_then(fixture::scheme);
    scheme.and_then(|scheme| keys::public_key(&scheme, &secret)).unwrap_or(secret)
}

#[cfg(test)]
mod tests;
