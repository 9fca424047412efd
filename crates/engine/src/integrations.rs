//! Integrations of a sandbox: those of its worktree within what is pinned, and the targets of their
//! webhooks.

mod lockfiles;
mod report;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError},
};

use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    config::{Config, EntryName, FlagKey, Integration, MailFault},
    stack::ServiceOrder,
};
use hothouse_sinks::webhook::{Scheme, keys};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::lockfiles::KnownSdks;
pub use self::report::{IntegrationReport, Sdks, UncoveredVendor, vendor_of};
use crate::{Engine, stack::made_secret, trees};

/// What receives webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookTarget {
    /// A service of the room.
    pub service: String,
    pub path: String,
    /// The service's variable with the signing secret.
    pub secret: Option<String>,
    /// The signing secret itself, if the app has it from the vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// The destination of a webhook in a running room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookPlace {
    pub runtime: PathBuf,
    pub port: u16,
    /// The `Host` of the request.
    pub host: String,
    /// The full URL, as the app knows it.
    pub url: String,
    /// The value of the secret, as the app has it.
    pub secret: Option<String>,
}

impl Engine {
    /// Returns the integrations of a sandbox; those of the pinned config if the worktree's cannot
    /// be read.
    pub fn integrations(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<BTreeMap<EntryName, Integration>, Failure> {
        Ok(self.effective_config(sandbox)?.integrations)
    }

    /// Returns the integrations of the pinned config, which the wall enforces.
    pub fn pinned_integrations(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<BTreeMap<EntryName, Integration>, Failure> {
        let pinned = self.pinned_config(sandbox).map_err(|error| error.failure())?;
        Ok(pinned.integrations.clone())
    }

    /// Returns the feature flags in the config of a sandbox.
    pub fn flags(&self, sandbox: &SandboxRecord) -> Result<BTreeMap<FlagKey, Value>, Failure> {
        Ok(self.effective_config(sandbox)?.flags)
    }

    /// Returns the injected faults for the mail of a sandbox.
    pub fn mail_faults(&self, sandbox: &SandboxRecord) -> Vec<MailFault> {
        self.effective_config(sandbox).map(|config| config.mail.faults).unwrap_or_default()
    }

    /// Returns the config of a sandbox, or the pinned one if the worktree's cannot be read.
    pub(crate) fn effective_config(&self, sandbox: &SandboxRecord) -> Result<Config, Failure> {
        match self.worktree_config(sandbox) {
            Ok(config) => Ok(config),
            Err(_) => {
                let pinned = self.pinned_config(sandbox).map_err(|error| error.failure())?;
                Ok((*pinned).clone())
            }
        }
    }

    /// Reports the integrations of a sandbox, with the SDKs found in its worktree.
    pub fn integration_reports(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<Vec<IntegrationReport>, Failure> {
        let config = self.effective_config(sandbox)?;
        Ok(report::reports(&config, &self.sdks(sandbox)))
    }

    /// Returns the vendors with an SDK in the worktree whose hosts were requested without an
    /// integration.
    pub fn uncovered_vendors<'a>(
        &self,
        sandbox: &SandboxRecord,
        asked: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<UncoveredVendor>, Failure> {
        let config = self.effective_config(sandbox)?;
        Ok(report::uncovered(&config, &self.sdks(sandbox), asked))
    }

    /// Returns the SDKs in the worktree's lockfiles; none if the worktree cannot be read.
    pub fn sdks(&self, sandbox: &SandboxRecord) -> Arc<Sdks> {
        let Ok(worktree) = trees::open_worktree(sandbox) else { return Arc::default() };
        let stamp = lockfiles::look(&worktree);
        let known = || self.known_sdks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, found)) = known().get(&sandbox.key)
            && *seen == stamp
        {
            return found.clone();
        }
        let found = Arc::new(lockfiles::read(&worktree, &stamp));
        known().insert(sandbox.key, (stamp, found.clone()));
        found
    }

    /// Resolves an app's label, a service's name or an app's host name to a service.
    pub fn webhook_service(&self, sandbox: &SandboxRecord, word: &str) -> Result<String, Failure> {
        let stack = self.stack_of(sandbox).unwrap_or_default();
        let hosts = |app: &str| self.names(sandbox).map(|names| names.hosts(app));
        let is_meant = |service: &&ServiceOrder| {
            let app = service.app.as_deref();
            service.name() == word
                || app == Some(word)
                || app.and_then(hosts).is_some_and(|hosts| hosts.iter().any(|host| host == word))
        };
        let found = stack.services.iter().find(is_meant);
        found.map(|service| service.name().to_owned()).ok_or_else(|| {
            let names: Vec<&str> = stack.services.iter().map(ServiceOrder::name).collect();
            let message = format!("no service of `{}` is called `{word}`", sandbox.name);
            Failure::new(FailureKind::NotFound, message)
                .hint(format!("services: {}", names.join(", ")))
        })
    }

    /// Resolves the URL of an app to its service and path: by host name, or by port on the
    /// loopback.
    pub fn webhook_url(&self, sandbox: &SandboxRecord, url: &str) -> Option<(String, String)> {
        let (_, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse::<u16>().ok()),
            None => (authority, None),
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        if matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
            let stack = self.stack_of(sandbox)?;
            let listens = |service: &&ServiceOrder| port.is_some() && service.port == port;
            let service = stack.services.iter().find(listens)?;
            return Some((service.name().to_owned(), path));
        }
        Some((self.webhook_service(sandbox, host).ok()?, path))
    }

    /// Returns the destination of a webhook.
    pub fn webhook_place(
        &self,
        sandbox: &SandboxRecord,
        target: &WebhookTarget,
    ) -> Result<WebhookPlace, Failure> {
        let stack = self.stack_of(sandbox).ok_or_else(|| {
            Failure::new(FailureKind::Conflict, format!("`{}` is not up", sandbox.name))
                .hint(format!("start it with `hothouse up -w {}`", sandbox.name))
        })?;
        let service = stack.services.iter().find(|service| service.name() == target.service);
        let service = service.ok_or_else(|| {
            let message = format!("`{}` has no service `{}`", sandbox.name, target.service);
            Failure::new(FailureKind::NotFound, message)
        })?;
        let made = target.secret.as_deref().map(|name| made_secret(sandbox.id.as_str(), name));
        place(service, target, (self.places(sandbox).runtime, made.as_deref()))
    }
}

fn place(
    service: &ServiceOrder,
    target: &WebhookTarget,
    (runtime, made): (PathBuf, Option<&str>),
) -> Result<WebhookPlace, Failure> {
    let url = service.url.as_deref();
    let authority = url.and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
    let (Some(port), Some(url), Some(host), None) =
        (service.port, url, authority, &service.database)
    else {
        let message = format!("service `{}` cannot receive webhooks", service.name());
        return Err(Failure::new(FailureKind::Config, message).hint("give it a `port`"));
    };
    Ok(WebhookPlace {
        runtime,
        port,
        host: host.to_owned(),
        url: format!("{url}{}", target.path),
        secret: target.told.clone().or_else(|| {
            let has = target.secret.as_ref().and_then(|name| service.spec.env.get(name))?;
            Some(made.filter(|made| is_public_key_of(has, made)).unwrap_or(has).to_owned())
        }),
    })
}

/// Whether a text is the public key of a secret, with which an app verifies signatures.
fn is_public_key_of(text: &str, secret: &str) -> bool {
    let mut pairs = [Scheme::Discord, Scheme::SendGrid].into_iter();
    pairs.any(|scheme| keys::public_key(&scheme, secret).as_deref() == Some(text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hothouse_model::stack::service::{Restart, RestartPolicy, ServiceSpec};

    use super::*;

    fn api() -> ServiceOrder {
        let spec = ServiceSpec {
            name: "api".into(),
            run: Vec::new(),
            build: None,
            env: BTreeMap::from([("SECRET".to_owned(), "whsec_1".to_owned())]),
            folder: "/w".into(),
            task: false,
            needs: Vec::new(),
            restart: Restart { policy: RestartPolicy::Never, max: 0 },
            stop_signal: 15,
            stop_grace: Duration::ZERO,
            pty: false,
            watch: Vec::new(),
            probe: None,
        };
        let url = Some("https://api.a.shop.localhost:8443".into());
        ServiceOrder {
            spec,
            port: Some(3000),
            app: Some("api".into()),
            url,
            database: None,
            sink: None,
        }
    }

    #[test]
    fn a_webhook_goes_to_the_address_of_the_app_with_the_secret_that_it_has() {
        let mut service = api();
        let target = WebhookTarget {
            service: "api".into(),
            path: "/hook".into(),
            secret: Some("SECRET".into()),
            told: None,
        };
        let found = place(&service, &target, ("/run/a".into(), Some("whsec_made"))).unwrap();
        assert_eq!(found.host, "api.a.shop.localhost:8443");
        assert_eq!(found.url, "https://api.a.shop.localhost:8443/hook");
        assert_eq!(found.secret.as_deref(), Some("whsec_1"));
        // An app with a public key gets signatures made with the matching private key.
        let public = keys::public_key(&Scheme::Discord, "whsec_made").unwrap();
        service.spec.env.insert("SECRET".into(), public);
        let found = place(&service, &target, ("/run/a".into(), Some("whsec_made"))).unwrap();
        assert_eq!(found.secret.as_deref(), Some("whsec_made"));
        service.port = None;
        assert!(place(&service, &target, ("/run/a".into(), None)).is_err());
    }
}
