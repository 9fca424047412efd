//! The terms that currently apply to the requests of a room: its secrets and its gate.
//!
//! Connections outlive configs. Every request follows the current terms, even on a connection that was opened under
//! earlier ones, and long-lived requests (upgrades, streams) end when the terms no longer admit them.

use std::{
    future::pending,
    sync::{Arc, PoisonError, RwLock},
};

use hothouse_model::{
    config::HostName,
    policy::{Answerer, RequestLine},
};

use crate::{
    gate::{Asked, Changes, Gate, Refusal},
    secrets::{NoVault, SecretUse, Secrets, Vault},
};

/// The terms of a room. Its terminators share them, and each new one replaces them.
#[derive(Clone)]
pub struct RoomTerms(Arc<RwLock<Arc<Terms>>>);

pub(crate) struct Terms {
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) gate: Arc<dyn Gate>,
}

impl Default for RoomTerms {
    fn default() -> Self {
        let secrets = Arc::new(Secrets::new(Vec::new(), Arc::new(NoVault)));
        Self(Arc::new(RwLock::new(Arc::new(Terms { secrets, gate: Arc::new(Closed) }))))
    }
}

impl RoomTerms {
    /// Replaces the terms.
    pub(crate) fn set(&self, uses: Vec<SecretUse>, vault: Arc<dyn Vault>, gate: Arc<dyn Gate>) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let secrets = Arc::new(Secrets::after(&now.secrets, uses, vault));
        *now = Arc::new(Terms { secrets, gate });
    }

    /// Withdraws all secrets: no host is terminated any more, but connections may still be open.
    pub fn withdraw(&self) {
        let gate = self.now().gate.clone();
        self.set(Vec::new(), Arc::new(NoVault), gate);
    }

    pub(crate) fn now(&self) -> Arc<Terms> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The gate of a room that has no terminator yet.
struct Closed;

impl Gate for Closed {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        Err(Refusal {
            rule: "always".into(),
            reason: format!("nobody decides about {} yet", asked.host),
            hint: "try again".into(),
        })
    }
}

/// An admitted request, for as long as it lasts.
pub(crate) struct Admitted {
    room: RoomTerms,
    place: Place,
    method: String,
    path: String,
    upgrades: bool,
    /// The secrets of its host when it began: its response is scanned for these.
    secrets: Vec<SecretUse>,
    changes: Option<Changes>,
}

/// The destination of a request, and who answers it.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) host: HostName,
    pub(crate) port: u16,
    pub(crate) by: Answerer,
}

impl Admitted {
    /// Admits a request, or refuses it.
    pub(crate) fn of(
        room: &RoomTerms,
        terms: &Terms,
        place: Place,
        line: &RequestLine<'_>,
    ) -> Result<Self, Refusal> {
        let admitted = Self {
            room: room.clone(),
            secrets: terms.secrets.uses_for(&place.host),
            place,
            method: line.method.to_owned(),
            path: line.path.to_owned(),
            upgrades: line.upgrades,
            // Before the decision, so that no change is missed.
            changes: terms.gate.changes(),
        };
        terms.gate.decide(&admitted.asked())?;
        Ok(admitted)
    }

    fn asked(&self) -> Asked<'_> {
        let Place { host, port, by } = &self.place;
        let (method, path) = (self.method.as_str(), self.path.as_str());
        Asked { host, port: *port, method, path, upgrades: self.upgrades, by: *by }
    }

    /// Waits until the request is no longer admitted, and returns why.
    pub(crate) async fn revoked(&mut self) -> Refusal {
        loop {
            match &mut self.changes {
                Some(changes) => changes.await,
                None => pending().await,
            }
            let now = self.room.now();
            self.changes = now.gate.changes();
            if let Err(refusal) = now.gate.decide(&self.asked()) {
                return refusal;
            }
            if now.secrets.uses_for(&self.place.host) != self.secrets {
                return Refusal {
                    rule: "secret".into(),
                    reason: format!("the secrets of {} have changed", self.place.host),
                    hint: "send the request again".into(),
                };
            }
        }
    }
}
