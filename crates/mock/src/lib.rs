//! Answers for the hosts of integrations of class `mock`.
//!
//! Pure: the bytes of a request and a time in, an answer out. There are no sockets, files, clocks
//! or randomness here; what is kept between calls is one value, [`State`].
//!
//! - [`request`]: a call from the room, and its decoded parts
//! - [`answer`]: the answer, and side effects for the caller to perform
//! - [`json`]: JSON as apps send it
//! - [`mock`]: loading, choosing what answers, answering
//! - [`state`]: bounded state with a revision
//! - [`fixture`]: handwritten files, and their parsed form
//! - [`template`]: the template language of fixtures
//! - [`miss`], [`stub`]: the response to an unmatched call
//! - [`vendor`]: vendor packages, by host
//! - [`stripe`]: the one vendor that needs code
//! - [`openapi`]: answers from an OpenAPI description
//! - [`record`]: fixtures made from real answers

pub mod answer;
pub mod fixture;
pub mod form;
pub mod json;
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
