//! The authority of local URLs: it can vouch for names below `.localhost` and nothing else, since
//! browsers are asked to trust it.

use std::{io, path::Path, sync::Arc};

use hothouse_certificates::Purpose;
use hothouse_model::OWN_LABEL;
use jiff::Timestamp;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

pub use hothouse_certificates::{Authority, AuthorityError, CERTIFICATE_FILE};

use crate::names::{ZONE, parse};

const PURPOSE: Purpose<'_> = Purpose { name: "Hothouse, local URLs", zone: Some(ZONE) };

/// Opens the authority of a folder, making it when there is none.
pub fn open(folder: &Path, now: Timestamp) -> Result<Authority, AuthorityError> {
    Authority::open(folder, PURPOSE, now)
}

/// Answers a TLS greeting with the leaf of the name in it.
#[derive(Debug)]
struct Leaves(Arc<Authority>);

impl ResolvesServerCert for Leaves {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let own = format!("{OWN_LABEL}.{ZONE}");
        // Without a name the request that follows is told that it went astray.
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

/// Makes the settings of the router's TLS.
pub(crate) fn server_config(authority: Arc<Authority>) -> io::Result<rustls::ServerConfig> {
    hothouse_certificates::server_config(Arc::new(Leaves(authority)))
}
