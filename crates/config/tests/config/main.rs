//! The configuration from the outside: whole files in, problems and proved values out.

mod broken;
mod good;
mod hostile;
mod layers;
mod pinned;
mod schema;
