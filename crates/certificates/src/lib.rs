//! Certificate authorities (CAs), each for one purpose, and leaf certificates made on demand.
//!
//! The key of a CA is in a file that only its owner can read. Leaves are kept in memory and renewed
//! before they expire. Callers decide for which names a leaf is made.

mod java;

use std::{
    collections::HashMap,
    fmt, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use hothouse_host::{FileError, files};
use hothouse_model::{Explain, FailureKind};
use jiff::{Timestamp, ToSpan};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, SanType,
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::ResolvesServerCert,
    sign::CertifiedKey,
};

pub use java::java_trust_store;

/// The file of the CA certificate in its folder.
pub const CERTIFICATE_FILE: &str = "ca.pem";
const KEY_FILE: &str = "ca-key.pem";

/// How long a leaf is valid; browsers refuse more than 398 days.
const LEAF_DAYS: i64 = 90;
/// How long before it expires a leaf is renewed.
const RENEW_DAYS: i64 = 7;
/// How many leaves are kept; honest clients use far fewer names.
const LEAF_LIMIT: usize = 10_000;

/// The purpose of a CA, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose<'a> {
    /// Its name, as shown in trust stores.
    pub name: &'a str,
    /// The only zone it can sign names of (a name constraint), if any.
    pub zone: Option<&'a str>,
}

/// A CA that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("the key {} can be read by others", .path.display())]
    OpenKey { path: PathBuf },
    #[error("make the CA certificate")]
    Make(#[source] rcgen::Error),
    #[error("read the CA in {}", .folder.display())]
    Read {
        folder: PathBuf,
        #[source]
        source: rcgen::Error,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for CaError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::OpenKey { path } => vec![
                format!("if nobody else has read it: `chmod 600 {}`", path.display()),
                "otherwise run `hothouse trust --remove` if it was trusted, and delete it; a new one is made".into(),
            ],
            Self::Make(_) => Vec::new(),
            Self::Read { folder, .. } => {
                vec![format!("delete {}; a new one is made", folder.display())]
            }
            Self::File(error) => error.hints(),
        }
    }
}

/// A CA, and the leaves it has signed.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    leaves: Mutex<HashMap<String, Leaf>>,
}

#[derive(Clone)]
struct Leaf {
    key: Arc<CertifiedKey>,
    renew: Timestamp,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority").finish_non_exhaustive()
    }
}

impl CertificateAuthority {
    /// Opens the CA of a folder, creating it if there is none.
    pub fn open(folder: &Path, purpose: Purpose<'_>, now: Timestamp) -> Result<Self, CaError> {
        let (certificate_file, key_file) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        if !files::exists(&certificate_file) || !files::exists(&key_file) {
            make(folder, purpose, now)?;
        }
        let mode = std::fs::metadata(&key_file).map(|found| found.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            return Err(CaError::OpenKey { path: key_file });
        }
        let pem = files::read_text(&certificate_file)?;
        let broken = |source| CaError::Read { folder: folder.to_owned(), source };
        let key = KeyPair::from_pem(&files::read_text(&key_file)?).map_err(broken)?;
        let certificate = der_of(&pem)
            .ok_or_else(|| broken(rcgen::Error::PemError("the file has no certificate".into())))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(broken)?;
        Ok(Self { issuer, certificate, pem, leaves: Mutex::default() })
    }

    /// Returns the CA certificate, for trust stores.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns a leaf for a host, creating it if there is none or it is about to expire.
    pub fn leaf(&self, host: &str, now: Timestamp) -> Option<Arc<CertifiedKey>> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(host).filter(|leaf| now < leaf.renew) {
            return Some(leaf.key.clone());
        }
        if leaves.len() >= LEAF_LIMIT {
            leaves.clear();
        }
        let key = match self.make_leaf(host, now) {
            Ok(key) => Arc::new(key),
            Err(error) => {
                tracing::error!(%error, host, "no certificate could be made");
                return None;
            }
        };
        let renew = now.checked_add(days(LEAF_DAYS - RENEW_DAYS)).ok()?;
        leaves.insert(host.to_owned(), Leaf { key: key.clone(), renew });
        Some(key)
    }

    fn make_leaf(&self, host: &str, now: Timestamp) -> Result<CertifiedKey, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Hothouse");
        params.subject_alt_names = vec![SanType::DnsName(host.try_into()?)];
        params.not_before = date(now, -1);
        params.not_after = date(now, LEAF_DAYS);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let der = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
        let signing = aws_lc_rs::sign::any_supported_type(&der)
            .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        Ok(CertifiedKey::new(chain, signing))
    }
}

fn make(folder: &Path, purpose: Purpose<'_>, now: Timestamp) -> Result<(), CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(purpose.name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.name_constraints = purpose.zone.map(|zone| NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName(zone.into())],
        // A name constraint applies only to names of its own kind (RFC 5280, section 4.2.1.10), so
        // addresses need one of their own.
        excluded_subtrees: vec![
            GeneralSubtree::IpAddress(CidrSubnet::V4([0; 4], [0; 4])),
            GeneralSubtree::IpAddress(CidrSubnet::V6([0; 16], [0; 16])),
        ],
    });
    params.not_before = date(now, -1);
    params.not_after = date(now, 3650);
    let key = KeyPair::generate().map_err(CaError::Make)?;
    let certificate = params.self_signed(&key).map_err(CaError::Make)?;
    files::make_private_folder(folder)?;
    files::replace(&folder.join(KEY_FILE), key.serialize_pem().as_bytes(), 0o600)?;
    Ok(files::replace(&folder.join(CERTIFICATE_FILE), certificate.pem().as_bytes(), 0o644)?)
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::OrganizationName, "Hothouse");
    names.push(DnType::CommonName, name);
    names
}

fn days(count: i64) -> jiff::Span {
    (count * 24).hours()
}

fn date(now: Timestamp, offset_days: i64) -> time::OffsetDateTime {
    let then = now.checked_add(days(offset_days)).unwrap_or(now);
    time::OffsetDateTime::from_unix_timestamp(then.as_second())
        .unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

/// Returns the first certificate of a PEM text.
fn der_of(pem: &str) -> Option<CertificateDer<'static>> {
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

/// Makes the settings of a TLS server that speaks HTTP/2 and HTTP/1.1.
pub fn server_config(leaves: Arc<dyn ResolvesServerCert>) -> io::Result<rustls::ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(leaves);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSE: Purpose<'_> = Purpose { name: "test", zone: Some("localhost") };

    #[test]
    fn a_ca_is_made_once_and_guards_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let first =
            CertificateAuthority::open(folder.path(), PURPOSE, now).unwrap().pem().to_owned();
        assert_eq!(CertificateAuthority::open(folder.path(), PURPOSE, now).unwrap().pem(), first);
        let key = folder.path().join(KEY_FILE);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = CertificateAuthority::open(folder.path(), PURPOSE, now).unwrap_err();
        assert!(matches!(refused, CaError::OpenKey { .. }), "{refused}");
    }

    #[test]
    fn a_ca_of_a_zone_vouches_for_nothing_else() {
        use rustls::{
            RootCertStore,
            client::{WebPkiServerVerifier, danger::ServerCertVerifier},
            pki_types::{ServerName, UnixTime},
        };
        let folder = tempfile::tempdir().unwrap();
        let ca = CertificateAuthority::open(folder.path(), PURPOSE, Timestamp::now()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(ca.certificate.clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().unwrap();
        let vouches = |name: &str| {
            // With a stolen key anyone can sign leaves.
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            let key = KeyPair::generate().unwrap();
            let leaf = params.signed_by(&key, &ca.issuer).unwrap();
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let now = UnixTime::now();
            verifier.verify_server_cert(leaf.der(), &[], &name, &[], now).is_ok()
        };
        assert!(vouches("web.a.shop.localhost"));
        for name in ["example.com", "evillocalhost", "127.0.0.1", "192.0.2.1", "2001:db8::1"] {
            assert!(!vouches(name), "{name}");
        }
    }

    #[test]
    fn a_leaf_is_kept_and_made_again_before_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let ca = CertificateAuthority::open(folder.path(), PURPOSE, now).unwrap();
        let leaf = |at| ca.leaf("web.a.shop.localhost", at).unwrap();
        let first = leaf(now);
        assert!(Arc::ptr_eq(&first, &leaf(now)));
        let later = now.checked_add(days(LEAF_DAYS)).unwrap();
        assert!(!Arc::ptr_eq(&first, &leaf(later)));
    }
}
