//! The certificate authority (CA) of local URLs. It can only sign names below `.localhost`, since
//! browsers are asked to trust it.

use std::{io, path::Path, sync::Arc};

use hothouse_certificates::Purpose;
use hothouse_model::OWN_LABEL;
use jiff::Timestamp;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

pub use hothouse_certificates::{CERTIFICATE_FILE, CaError, CertificateAuthority};

use crate::names::{ZONE, parse};

const PURPOSE: Purpose<'_> = Purpose { name: "Hothouse, local URLs", zone: Some(ZONE) };

/// Opens the CA in a folder, creating it if there is none.
pub fn open(folder: &Path, now: Timestamp) -> Result<CertificateAuthority, CaError> {
    CertificateAuthority::open(folder, PURPOSE, now)
}

/// Answers a ClientHello with the leaf certificate of its server name.
#[derive(Debug)]
struct Leaves(Arc<CertificateAuthority>);

impl ResolvesServerCert for Leaves {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let own = format!("{OWN_LABEL}.{ZONE}");
        // A client without SNI gets the certificate of Hothouse's own host.
        let host = match hello.server_name() {
            None => own,
            Some(name) => parse(name).ok()?.to_string(),
        };
        self.0.leaf(&host, now())
    }
}

fn now() -> Timestamp {
    use hothouse_host::{Clock, clock::HostClock};
    HostClock.now()
}

/// Creates the TLS settings of the router.
pub(crate) fn server_config(ca: Arc<CertificateAuthority>) -> io::Result<rustls::ServerConfig> {
    hothouse_certificates::server_config(Arc::new(Leaves(ca)))
}
