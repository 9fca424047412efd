//! Secrets and keys of endpoints.
//!
//! A vendor that signs with a private key shares no secret with the app. Here the key pair is
//! derived from the endpoint's secret, so that only one text per endpoint is stored; the app gets
//! the [`public_key`].

use aws_lc_rs::{
    agreement, digest,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_model::id::hex;

use super::Scheme;

/// The DER prefix of a P-256 public key (RFC 5480).
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Generates the secret of an endpoint from random bytes, in the vendor's format.
pub fn new_secret(scheme: &Scheme, random: &[u8; 24]) -> String {
    match scheme {
        Scheme::Stripe => format!("whsec_{}", hex(random)),
        Scheme::Standard | Scheme::Svix => format!("whsec_{}", STANDARD.encode(random)),
        Scheme::Slack | Scheme::Twilio => hex(&random[..16]),
        Scheme::Shopify => format!("shpss_{}", hex(&random[..16])),
        _ => hex(random),
    }
}

/// Returns what an app verifies with instead of the secret, if the vendor signs with a private key.
pub fn public_key(scheme: &Scheme, secret: &str) -> Option<String> {
    match scheme {
        Scheme::Discord => Some(hex(discord_pair(secret).public_key().as_ref())),
        Scheme::SendGrid => {
            let point = sendgrid_pair(secret).public_key().as_ref().to_vec();
            Some(STANDARD.encode([&P256_HEAD, point.as_slice()].concat()))
        }
        _ => None,
    }
}

/// Returns the key in a Standard Webhooks secret. One in another format is used as it is.
pub(super) fn standard_key(secret: &str) -> Vec<u8> {
    let text = secret.strip_prefix("whsec_").unwrap_or(secret);
    STANDARD.decode(text).unwrap_or_else(|_| secret.as_bytes().to_vec())
}

pub(super) fn discord_pair(secret: &str) -> Ed25519KeyPair {
    let seed = derived("discord", secret, 0);
    Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed of Ed25519")
}

/// Signs for SendGrid. ECDSA signatures differ each time, but all of them verify.
pub(super) fn sendgrid_signature(secret: &str, message: &[u8]) -> Vec<u8> {
    let signature = sendgrid_pair(secret).sign(&SystemRandom::new(), message);
    signature.expect("a key pair that could be made can sign").as_ref().to_vec()
}

fn sendgrid_pair(secret: &str) -> EcdsaKeyPair {
    // A scalar must be less than the order of the curve: all but one in 2^32 are.
    let pair = (0..=u8::MAX).find_map(|round| p256(&derived("sendgrid", secret, round)));
    pair.expect("256 scalars in a row cannot all be too large")
}

fn p256(scalar: &[u8; 32]) -> Option<EcdsaKeyPair> {
    let key = agreement::PrivateKey::from_private_key(&agreement::ECDH_P256, scalar).ok()?;
    let public = key.compute_public_key().ok()?;
    EcdsaKeyPair::from_private_key_and_public_key(
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        scalar,
        public.as_ref(),
    )
    .ok()
}

fn derived(purpose: &str, secret: &str, round: u8) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [b"hothouse webhook ", purpose.as_bytes(), &[0, round], secret.as_bytes()] {
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}
