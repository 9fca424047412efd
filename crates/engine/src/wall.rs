//! What the wall provides to a room: curated variables, placeholders for secrets, a trusted CA; and
//! checks for what must not get in.

use std::{
    collections::{BTreeMap, HashMap},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use hothouse_backend::{CA_ALONE, CERTIFICATE_BUNDLES};
use hothouse_certificates::{CaError, CertificateAuthority, Purpose, java_trust_store};
use hothouse_host::{FileError, files, keyring::Keyring, random};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    caveat::Caveat,
    config::{Config, HostPattern, LiveKeys, Part, Secret, SecretName},
    live_keys::{self, Exposed, LiveKeysFound},
    masks::Masks,
    room::{RoomMount, RoomWall},
    secret,
};

use hothouse_workspace::WorktreeError;

use crate::{Engine, masks, playwright, secrets::scope, stack::Stack, trees};

/// Variables that name the complete CA bundle.
const BUNDLE_VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "DENO_CERT",
];

/// The variable of Node, which adds to its own CAs.
const NODE: &str = "NODE_EXTRA_CA_CERTS";

/// Paths of Java, if it is installed.
const JAVA: [&str; 2] = ["/usr/bin/java", "/usr/lib/jvm"];

/// The path of Java's trust store in a room, and the variable for it.
const JAVA_INSIDE: &str = "/run/hothouse/java.jks";
const JAVA_VARIABLE: (&str, &str) = ("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=");

/// The maximum size of a CA bundle.
const BUNDLE_MOST: u64 = 16 << 20;

/// The maximum size of an env file.
const ENV_FILE_MOST: u64 = 1 << 20;

/// The env files that tools read, anywhere in a worktree.
const ENV_FILES: [&str; 4] = [".env", ".env.*", ".dev.vars", ".dev.vars.*"];

/// Vendors whose keys agents themselves need, which the user's own env file may contain.
const OF_AGENTS: [&str; 2] = ["Anthropic", "OpenAI"];

/// Where the wall finds what it provides.
pub struct WallSources {
    /// The folder of the CAs, one subfolder per project.
    pub authorities: PathBuf,
    /// The folder with values that the user chose to store in files.
    pub secrets: PathBuf,
    /// The user's own env file with the keys of agents; it need not exist.
    pub agent_env: PathBuf,
    pub keyring: Arc<dyn Keyring>,
    /// The environment of the host, as of the daemon's start.
    pub environment: BTreeMap<String, String>,
}

/// A room that the wall cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum WallError {
    #[error(transparent)]
    Live(#[from] LiveKeysFound),
    #[error("open the CA of the project")]
    Ca(#[source] CaError),
    #[error("your env file can be read by others: {}", .path.display())]
    OpenEnvFile { path: PathBuf },
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    File(#[from] FileError),
}

hothouse_model::explain! {
    WallError passes on Live, Ca, Worktree, File;
    kind {
        Self::OpenEnvFile { .. } => FailureKind::Host,
    }
    hints {
        Self::OpenEnvFile { path } => vec![format!("`chmod 600 {}`", path.display())],
    }
}

/// The open CAs by their folders: certificates are created once for all rooms of a project.
pub(crate) type ProjectCas = Mutex<HashMap<PathBuf, Arc<CertificateAuthority>>>;

/// A secret, as the wall uses it for one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomSecret {
    pub name: SecretName,
    pub declared: Secret,
    pub hosts: Vec<HostPattern>,
    pub placeholder: String,
}

/// How the connections of one room to terminated hosts are served.
pub struct Termination {
    pub ca: Arc<CertificateAuthority>,
    /// Every host that is terminated.
    pub hosts: Vec<HostPattern>,
    pub secrets: Vec<RoomSecret>,
    /// The pinned configuration.
    pub config: Arc<Config>,
}

impl Engine {
    /// Computes what the wall provides to a starting room.
    pub(crate) fn wall_for(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Result<(RoomWall, Vec<RoomMount>), WallError> {
        let project = &sandbox.repository.common_dir;
        let (mut wall, mut mounts) = (RoomWall::default(), Vec::new());
        for (name, declared) in &config.secrets {
            let seed = random::bytes();
            let placeholder =
                match (self.secret_value(project, name, declared), &declared.placeholder) {
                    (Ok(_), Some(own)) => own.as_str().to_owned(),
                    (Ok(value), None) => secret::placeholder(&value, seed),
                    (Err(error), own) => {
                        let hint = error.hints().into_iter().next().unwrap_or_default();
                        let problem = error.to_string();
                        wall.caveats.push(Caveat::SecretMissing { problem, hint });
                        own.as_ref().map_or_else(
                            || secret::unshaped_placeholder(seed),
                            |own| own.as_str().to_owned(),
                        )
                    }
                };
            if self.secret_hosts(project, name, declared) != declared.hosts {
                wall.caveats.push(Caveat::SecretNarrowed { name: name.to_string() });
            }
            wall.environment.insert(name.to_string(), placeholder.clone());
            wall.placeholders.insert(name.to_string(), placeholder);
        }
        if !config.terminated_hosts().is_empty() {
            let ca = self.ca_of(project).map_err(WallError::Ca)?;
            wall.ca = Some(ca.pem().to_owned());
            if JAVA.iter().any(|path| files::exists(Path::new(path))) {
                let source = self.java_trust(project, &ca)?;
                let (name, value) = JAVA_VARIABLE;
                wall.environment.insert(name.to_owned(), format!("{value}{JAVA_INSIDE}"));
                mounts.push(RoomMount {
                    source,
                    target: JAVA_INSIDE.into(),
                    writable: false,
                    own: true,
                });
            }
        }
        // Routed URLs also work inside; their CA can only sign names below `.localhost`.
        let has_apps = config.services.values().any(|service| service.url.is_some());
        if let Some(router) = self.router.get().filter(|_| has_apps) {
            wall.ca.get_or_insert_default().push_str(&router.ca);
        }
        if wall.ca.is_some() {
            wall.environment.extend(trust_variables());
        }
        let (name, value) = playwright::VARIABLE;
        wall.environment.insert(name.to_owned(), value.to_owned());
        mounts.push(self.playwright_mount()?);
        Ok((wall, mounts))
    }

    /// Returns the file of Java's trust store for rooms of a project, after updating it.
    fn java_trust(&self, project: &Path, ca: &CertificateAuthority) -> Result<PathBuf, FileError> {
        let path = self.with.wall.authorities.join(scope(Some(project))).join("java.jks");
        let mut bundle = ca.pem().as_bytes().to_vec();
        bundle.extend(host_bundle(None));
        let store = java_trust_store(&bundle);
        if files::read_capped(&path, BUNDLE_MOST).ok().as_ref() != Some(&store) {
            files::replace(&path, &store, 0o644)?;
        }
        Ok(path)
    }

    /// Returns a variable of the host, as of the daemon's start.
    pub fn host_variable(&self, name: &str) -> Option<&str> {
        self.with.wall.environment.get(name).map(String::as_str)
    }

    /// Returns what the wall provided to the room at a runtime folder.
    pub fn wall_of(&self, runtime: &Path) -> RoomWall {
        self.with.rooms.wall(runtime)
    }

    /// Returns how connections of the room at a runtime folder to terminated hosts are served;
    /// `None` if there are none.
    pub fn termination(
        &self,
        sandbox: &SandboxRecord,
        runtime: &Path,
        recorded: Option<&str>,
    ) -> Result<Option<Termination>, Failure> {
        let config = self.pinned_config(sandbox).map_err(|error| error.failure())?;
        let config = crate::egress::recording(config, recorded);
        let hosts = config.terminated_hosts();
        if hosts.is_empty() {
            return Ok(None);
        }
        let project = &sandbox.repository.common_dir;
        let ca = self.ca_of(project).map_err(|error| error.failure())?;
        let wall = self.wall_of(runtime);
        let secrets = config.secrets.iter().filter_map(|(name, declared)| {
            Some(RoomSecret {
                name: name.clone(),
                declared: declared.clone(),
                hosts: self.secret_hosts(project, name, declared),
                placeholder: wall.placeholders.get(name.as_str())?.clone(),
            })
        });
        let secrets = secrets.collect();
        Ok(Some(Termination { ca, hosts, secrets, config }))
    }

    /// Returns the CA of a project, creating it on first use.
    fn ca_of(&self, project: &Path) -> Result<Arc<CertificateAuthority>, CaError> {
        let folder = self.with.wall.authorities.join(scope(Some(project)));
        let mut open = self.project_cas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ca) = open.get(&folder) {
            return Ok(ca.clone());
        }
        let purpose = Purpose { name: "Hothouse, terminated hosts of a project", zone: None };
        let ca = Arc::new(CertificateAuthority::open(&folder, purpose, self.with.clock.now())?);
        open.insert(folder, ca.clone());
        Ok(ca)
    }

    /// Refuses a stack with live credentials, before anything of it starts; returns the allowed
    /// ones.
    pub(crate) fn refuse_live_keys(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
        stack: &Stack,
    ) -> Result<Vec<Caveat>, WallError> {
        let mut exposed = exposed_by_config(config, stack);
        exposed.extend(self.exposed_by_files(sandbox, config)?);
        let mut judgement = live_keys::judge(exposed, &config.live_keys);
        let of_agents = live_keys::judge(self.agent_variables_exposed()?, &config.live_keys);
        let own = |vendor: &str| OF_AGENTS.contains(&vendor);
        judgement.refused.extend(of_agents.refused.into_iter().filter(|f| !own(&f.key.vendor)));
        if !judgement.refused.is_empty() {
            return Err(LiveKeysFound { findings: judgement.refused }.into());
        }
        let allowed = judgement.allowed.into_iter().chain(of_agents.allowed);
        Ok(allowed
            .map(|(finding, why)| Caveat::LiveKey { finding: finding.to_string(), why })
            .collect())
    }

    /// Returns the curated variables that refer to no service, for a room without services.
    pub(crate) fn variables_without_services(
        &self,
        config: &Config,
    ) -> Result<BTreeMap<String, String>, WallError> {
        let mut all = BTreeMap::new();
        let of_commands = config.variables.iter().filter(|(_, one)| one.services.is_empty());
        for (name, variable) in of_commands {
            let text = |part: &Part| match part {
                Part::Text(text) => Some(text.clone()),
                Part::Reference(_) => None,
            };
            let own = variable.value.as_ref();
            let own =
                own.and_then(|value| value.parts().iter().map(text).collect::<Option<String>>());
            let from = variable.from.as_ref();
            let from =
                from.and_then(|from| self.with.wall.environment.get(from.0.as_str()).cloned());
            all.extend(own.or(from).map(|value| (name.to_string(), value)));
        }
        for (name, template) in config.integrations.values().flat_map(|one| &one.env) {
            let plain = |part: &Part| match part {
                Part::Text(text) => Some(text.clone()),
                Part::Reference(_) => None,
            };
            if let Some(value) = template.parts().iter().map(plain).collect::<Option<String>>() {
                all.entry(name.to_string()).or_insert(value);
            }
        }
        let exposed = all.iter().map(|(name, value)| Exposed {
            variable: name.clone(),
            place: "`[env]`".into(),
            value: value.clone(),
            declared: config.variables.get(name.as_str()).map(|variable| variable.kind),
        });
        let judgement = live_keys::judge(exposed, &config.live_keys);
        match judgement.refused.is_empty() {
            true => Ok(all),
            false => Err(LiveKeysFound { findings: judgement.refused }.into()),
        }
    }

    /// Returns the variables of the user's own env file, for commands of agents. Live credentials
    /// other than those of agents are left out.
    pub fn agent_variables(&self) -> Result<Vec<(String, String)>, Failure> {
        let exposed = self.agent_variables_exposed().map_err(|error| error.failure())?;
        let harmless = |one: &Exposed| {
            let found = live_keys::find(&one.variable, &one.value, &LiveKeys::default());
            found.is_none_or(|key| OF_AGENTS.contains(&key.vendor.as_str()))
        };
        let kept = exposed.into_iter().filter(harmless);
        Ok(kept.map(|one| (one.variable, one.value)).collect())
    }

    fn agent_variables_exposed(&self) -> Result<Vec<Exposed>, WallError> {
        let path = &self.with.wall.agent_env;
        let Ok(found) = std::fs::metadata(path) else { return Ok(Vec::new()) };
        if found.permissions().mode() & 0o077 != 0 {
            return Err(WallError::OpenEnvFile { path: path.clone() });
        }
        let text = files::read_capped(path, ENV_FILE_MOST)?;
        Ok(entries(&text, "your env file"))
    }

    /// Returns the entries of env files in the worktree that the room will see.
    fn exposed_by_files(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Result<Vec<Exposed>, WallError> {
        let worktree = trees::open_worktree(sandbox)?;
        let found = masks::find(&worktree, &Masks::named(&ENV_FILES, &config.room))?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let masked = self.secrets_of(sandbox, config)?;
        let mut exposed = Vec::new();
        for file in found.iter().filter(|file| !masked.contains(file)) {
            let Ok(text) = worktree.read_capped(&file.path, ENV_FILE_MOST) else { continue };
            exposed.extend(entries(&text, &format!("the file `{}`", file.path.display())));
        }
        Ok(exposed)
    }
}

/// Reads the certificates that this host trusts, from a named file or the usual ones; without any,
/// no host is trusted.
pub fn host_bundle(named: Option<&str>) -> Vec<u8> {
    let usual = CERTIFICATE_BUNDLES.iter().map(|file| Path::new("/etc").join(file));
    let mut bundles = named.map(PathBuf::from).into_iter().chain(usual);
    bundles.find_map(|path| files::read_capped(&path, BUNDLE_MOST).ok()).unwrap_or_default()
}

/// Returns the path of the CA bundle in a room.
pub(crate) fn bundle_inside() -> PathBuf {
    let etc = |file: &str| Path::new("/etc").join(file);
    let bundle = CERTIFICATE_BUNDLES.map(etc).into_iter().find(|path| files::exists(path));
    bundle.unwrap_or_else(|| etc(CERTIFICATE_BUNDLES[0]))
}

/// Returns the variables that make programs trust the room's bundle.
fn trust_variables() -> BTreeMap<String, String> {
    let etc = |file: &str| Path::new("/etc").join(file);
    let bundle = bundle_inside();
    let bundles = BUNDLE_VARIABLES.into_iter().map(|name| (name, bundle.clone()));
    let all = bundles.chain([(NODE, etc(CA_ALONE))]);
    all.map(|(name, path)| (name.to_owned(), path.display().to_string())).collect()
}

fn entries(text: &[u8], place: &str) -> Vec<Exposed> {
    let entries = live_keys::env_file_entries(&String::from_utf8_lossy(text));
    let exposed =
        |(variable, value)| Exposed { variable, place: place.to_owned(), value, declared: None };
    entries.into_iter().map(exposed).collect()
}

/// Lists every text of the config that is visible to commands in the room.
fn exposed_by_config(config: &Config, stack: &Stack) -> Vec<Exposed> {
    let one = |variable: &str, place: &str, value: &str| Exposed {
        variable: variable.to_owned(),
        place: place.to_owned(),
        value: value.to_owned(),
        declared: None,
    };
    let mut all = Vec::new();
    for (name, value) in &stack.variables {
        let declared = config.variables.get(name.as_str()).map(|variable| variable.kind);
        all.push(Exposed { declared, ..one(name, "`[env]`", value) });
    }
    for service in &stack.order.services {
        let place = format!("service `{}`", service.name());
        let own = config.services.iter().find(|(name, _)| name.as_str() == service.name());
        let own = own.map(|(_, own)| &own.env);
        for (name, value) in &service.spec.env {
            // Only its own settings: the rest comes from the wall, or was checked above.
            let scoped =
                config.variables.get(name.as_str()).is_some_and(|v| !v.services.is_empty());
            if scoped || own.is_some_and(|own| own.contains_key(name.as_str())) {
                all.push(one(name, &place, value));
            }
        }
        let words = service.spec.run.iter().chain(service.spec.build.iter().flatten());
        all.push(one("the command", &place, &words.cloned().collect::<Vec<_>>().join(" ")));
    }
    for (name, integration) in &config.integrations {
        let place = format!("integration `{name}`");
        all.extend(integration.env.iter().map(|(n, v)| one(n.as_str(), &place, v.as_str())));
    }
    for (name, bundle) in &config.seed.bundles {
        let place = format!("seed bundle `{name}`");
        all.extend(bundle.run.iter().map(|run| one("the command", &place, run.as_str())));
        let body = bundle.http.as_ref().and_then(|call| call.body.as_ref());
        all.extend(body.map(|body| one("the body", &place, body.as_str())));
    }
    all
}
