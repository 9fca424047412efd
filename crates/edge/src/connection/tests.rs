mod covered;
mod mail;

use std::{pin::Pin, sync::atomic::AtomicUsize};

use super::*;
use crate::{
    Settle,
    fixture::{policy, wall_of},
};

const EGRESS: &str = "mode = \"web\"\nallow = [\"@toolchain\"]\n";

/// Tools that take a moment to report a registry, and count how often they are asked.
struct Tools(Arc<AtomicUsize>);

impl Settle for Tools {
    fn settle(&self) -> Pin<Box<dyn Future<Output = Option<Arc<Policy>>> + Send + '_>> {
        Box::pin(async {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Some(policy(EGRESS, &["registry.example", "files.example:8443"]).into())
        })
    }
}

fn facts(name: Option<&str>, address: &str, port: u16) -> Facts {
    let claim = name.map_or(Claim::None, |name| Claim::of(name.as_bytes()));
    Facts {
        answered: claim.name().cloned().into_iter().collect(),
        claim,
        address: Some(address.parse().unwrap()),
        port,
        protocol: Protocol::Tls,
        hidden: false,
        passed: false,
        terminated: false,
        covered: None,
    }
}

#[tokio::test]
async fn a_registry_that_no_list_has_yet_is_asked_for_before_it_is_denied() {
    const LIST: &str = "mode = \"allowlist\"\nallow = [\"@toolchain\"]\n";
    let folder = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let tools = Box::new(Tools(asked.clone()));
    let edge = wall_of(policy(LIST, &[]), folder.path(), Vec::new(), Some(tools));
    let is_allowed = async |name| {
        settled(&edge, &facts(Some(name), "1.2.3.4", 443), &Sniffed::Other).await.allowed
    };
    assert!(is_allowed("registry.example").await);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_registry_that_nobody_knew_yet_is_asked_for_before_it_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let tools = Box::new(Tools(asked.clone()));
    let edge = wall_of(policy(EGRESS, &[]), folder.path(), Vec::new(), Some(tools));
    let is_allowed = async |name, address, port| {
        settled(&edge, &facts(name, address, port), &Sniffed::Other).await.allowed
    };
    // What cannot be a registry is denied immediately.
    assert!(!is_allowed(Some("x.example"), "169.254.169.254", 443).await);
    assert!(!is_allowed(None, "10.0.0.5", 443).await);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert!(is_allowed(Some("registry.example"), "10.0.0.5", 443).await);
    assert!(is_allowed(Some("files.example"), "1.2.3.4", 8443).await);
    assert!(!is_allowed(Some("other.example"), "10.0.0.5", 443).await);
    assert!(!is_allowed(Some("other.example"), "1.2.3.4", 8443).await);
    assert_eq!(asked.load(Ordering::Relaxed), 1, "and they are asked once");
}
