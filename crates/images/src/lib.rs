//! Container images without a container engine.
//!
//! ```text
//! name --reference--> registry --pull--> blobs, each verified by its digest --flatten--> root.tar + image.json
//! ```
//!
//! - [`reference`]: image names
//! - `http`, `registry`: a client of the distribution protocol, with resumed downloads
//! - `local`: OCI layouts and `docker save` files
//! - `flatten`: combines layers: whiteouts applied, links resolved, harmful content left out
//! - [`store`]: the images of one user, each flattened once
//!
//! Everything in an image is hostile. Nothing is unpacked or run here: a room does that.

mod credentials;
mod flatten;
mod http;
mod local;
pub mod reference;
mod registry;
mod settings;
pub mod store;

pub use reference::{BadReference, ImageReference};
pub use settings::ImageSettings;
pub use store::{Image, ImageError, ImageStore};
