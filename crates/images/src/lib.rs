//! Images of containers without a container engine.
//!
//! ```text
//! name --reference--> registry --pull--> blobs, each verified by its digest --flatten--> root.tar + image.json
//! ```
//!
//! - [`reference`]: names of images
//! - `http`, `registry`: a client of the distribution protocol, with resumed downloads
//! - `local`: OCI layouts and files of `docker save`
//! - `flatten`: layers put together: whiteouts applied, links resolved, what could do harm left out
//! - [`store`]: the images of one user, each flattened once
//!
//! Everything in an image is hostile. Nothing of it is unpacked or run here: a room does that.

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
