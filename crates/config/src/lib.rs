//! Reads the configuration, `hothouse.toml`: from text to a validated value.
//!
//! ```text
//! text --source--> spanned tree --walk--> Node --layers--> merged Node --check--> Config
//! ```
//!
//! One table of keys (`keys.rs`) drives the walk, the merge and the JSON Schema. All problems are
//! reported at once, with place, near miss and allowed values. Pure on purpose: files and variables
//! come in as values.

mod check;
mod grants;
mod judged;
mod keys;
mod layers;
mod schema;
mod settle;
mod shape;
mod source;
mod tree;
mod walk;

pub use self::{
    grants::{RoomSettings, in_words},
    judged::{Judged, judged},
    layers::{
        ENVIRONMENT, EnvironmentVariable, File, Layers, Resolved, Shown, USER_KEYS, parse,
        parse_bytes, resolve,
    },
    schema::json_schema,
    source::MAX_BYTES,
};
