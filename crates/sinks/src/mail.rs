//! Mail and text messages.
//!
//! - [`smtp`]: a mail server's side of a session

pub mod smtp;
