//! Webhooks as vendors send them: payloads, their signatures, and deliveries that go wrong on purpose.
//!
//! - [`fixture`]: payloads of vendors, made of data files; the same moment and seed make the same bytes
//! - [`scheme`]: how vendors sign
//! - [`keys`]: secrets and keys of endpoints
//! - [`adversary`]: one webhook as a list of deliveries that an endpoint has to withstand
//! - [`retry`]: when vendors try again
//! - [`verify`]: whether a delivery of a real vendor goes on to an app
//!
//! Nothing is sent here: the caller delivers.

pub mod adversary;
pub mod fixture;
pub mod keys;
pub mod retry;
pub mod scheme;
pub mod verify;

pub use adversary::{Adversary, Delivery, Expected, Signing};
pub use fixture::{Payload, UnknownFixture, fixture};
pub use scheme::{Encoding, HmacForm, Scheme, ToSign, sign};
