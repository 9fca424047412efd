//! Vendor webhooks: payloads, signatures, and fault injection.
//!
//! - [`fixture`]: vendor payloads from data files; the same time and seed give the same bytes
//! - [`scheme`]: signature schemes of vendors
//! - [`keys`]: secrets and keys of endpoints
//! - [`adversary`]: a webhook as a list of deliveries that an endpoint has to withstand
//! - [`retry`]: retry schedules of vendors
//! - [`verify`]: decides whether a real vendor's delivery is forwarded to an app
//!
//! Nothing is sent here: the caller delivers.

pub mod adversary;
pub mod fixture;
pub mod keys;
pub mod retry;
pub mod scheme;
pub mod verify;

pub use adversary::{Adversary, Delivery, Signing};
pub use fixture::{Payload, UnknownFixture, fixture};
pub use hothouse_model::webhook::Expected;
pub use scheme::{Encoding, HmacForm, Scheme, ToSign, sign};
