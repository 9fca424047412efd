//! What answers for the hosts of integrations of class `mock`.
//!
//! Pure: bytes of a request and a moment come in, an answer goes out. There is no socket, file,
//! clock or chance here; what is remembered between two calls is one value, [`State`].
//!
//! - [`request`]: a call as the room made it, and its decoded forms
//! - [`answer`]: what goes back, and what the caller does besides
//! - [`mock`]: the whole: loading, choosing, answering
//! - [`state`]: what is remembered, bounded, with a revision
//! - [`fixture`]: files that people write, and what they mean
//! - [`template`]: the small language in fixtures
//! - [`miss`], [`stub`]: the response to an unmatched call
//! - [`vendor`]: packages of vendors, by host
//! - [`stripe`]: the one vendor that needs code
//! - [`openapi`]: answers from a description in OpenAPI
//! - [`record`]: fixtures made of real answers

pub mod answer;
pub mod fixture;
pub mod form;
pub mod miss;
pub mod mock;
pub mod openapi;
pub mod path;
pub mod record;
pub mod request;
pub mod state;
pub mod stripe;
pub mod stub;
pub mod template;
pub mod vendor;

pub use answer::{Answer, Body, Effect, Endpoint, Fault, Match, NearMiss, Piece};
pub use mock::{FixtureFile, Integration, Mock, MockSpec};
pub use request::Request;
pub use state::State;
