//! Java's trust store. Java reads no PEM, so the certificates that a room trusts are written in the
//! format that every version of it reads (JKS; the order of its fields is in `JavaKeyStore.java`).

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// The password of Java's own trust stores. It only detects damage.
const PASSWORD: &str = "changeit";

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;

/// Writes the certificates of a PEM bundle as a trust store. The output is deterministic.
pub fn java_trust_store(bundle: &[u8]) -> Vec<u8> {
    let certificates: Vec<CertificateDer<'_>> =
        CertificateDer::pem_slice_iter(bundle).flatten().collect();
    let mut store = Vec::new();
    let word = |number: u32| number.to_be_bytes();
    let count = u32::try_from(certificates.len()).unwrap_or(u32::MAX);
    for number in [MAGIC, VERSION, count] {
        store.extend(word(number));
    }
    for (number, certificate) in certificates.iter().enumerate() {
        store.extend(word(TRUSTED_CERTIFICATE));
        text(&mut store, &format!("trusted-{number}"));
        // The creation time, which is not used.
        store.extend([0; 8]);
        text(&mut store, "X.509");
        store.extend(word(u32::try_from(certificate.len()).unwrap_or(u32::MAX)));
        store.extend(certificate.as_ref());
    }
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for unit in PASSWORD.encode_utf16() {
        digest.update(&unit.to_be_bytes());
    }
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend(digest.finish().as_ref());
    store
}

/// Writes a text as Java's `writeUTF` does; ours are short ASCII.
fn text(store: &mut Vec<u8>, text: &str) {
    store.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    store.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_holds_every_certificate_and_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let purpose = crate::Purpose { name: "test", zone: None };
        let now = jiff::Timestamp::UNIX_EPOCH;
        let ca = crate::CertificateAuthority::open(folder.path(), purpose, now).unwrap();
        let store = java_trust_store(format!("{0}junk\n{0}", ca.pem()).as_bytes());
        assert_eq!(store[..12], [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 2]);
        let der = &ca.certificate;
        assert_eq!(store.windows(der.len()).filter(|window| *window == der.as_ref()).count(), 2);
        assert_eq!(java_trust_store(b"none").len(), 12 + 20);
    }
}
