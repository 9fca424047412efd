//! Outside services, and how each is handled.

use hothouse_model::{config::HostPattern, integration::Wiring};

use crate::{
    draft::{Draft, DraftIntegration},
    finding::Findings,
};

/// Adds an integration for each vendor whose SDK is used.
pub(super) fn integrations(found: &Findings, draft: &mut Draft) {
    for integration in &found.integrations {
        let vendor = integration.vendor;
        let hosts: Vec<String> = vendor
            .hosts
            .iter()
            .filter(|host| host.parse::<HostPattern>().is_ok())
            .cloned()
            .collect();
        if hosts.is_empty() {
            continue;
        }
        draft.integrations.push(DraftIntegration {
            name: vendor.name.clone(),
            title: vendor.title.clone(),
            class: vendor.class,
            hosts,
            wiring: if vendor.env.is_empty() { Wiring::Wall } else { Wiring::Both },
            caveat: vendor.caveat.clone(),
            evidence: integration.evidence.clone(),
        });
    }
}
