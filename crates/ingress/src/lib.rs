//! The wall, inward: from a URL on the host to an app in a room.
//!
//! ```text
//! browser --TLS--> server --Host--> table --Route--> proxy --dialled by room-init--> app
//! ```
//!
//! Deliberately absent: starting or stopping anything, and knowledge of a sandbox beyond its names.
//! A request reaches the app that its host name selects, or none.

pub mod activity;
pub mod ca;
pub mod cookies;
pub mod direct;
pub mod html;
mod lookup;
pub mod names;
pub mod pages;
pub mod pool;
pub mod proxy;
mod requests;
mod rewrite;
pub mod server;
pub mod sign_in;
pub mod table;
pub mod websocket;

use std::{
    future::Future,
    hash::{Hash, Hasher},
    io,
    path::PathBuf,
    pin::Pin,
};

use tokio::net::TcpStream;

pub use activity::Activity;
pub use ca::{CaError, CertificateAuthority};
pub use names::{Address, HostError};
pub use server::{Server, ServerError, ServerSpec};
pub use table::{Route, RouteTable, StoppedSandbox};

/// The header, query parameter and cookie that pick a sandbox on a shared host.
pub const PICK: &str = "hothouse-sandbox";

/// An app in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomPort {
    /// How to reach the room.
    pub runtime: PathBuf,
    /// The app's port, inside.
    pub port: u16,
}

impl Hash for RoomPort {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A path would hash its components one by one at every request.
        self.runtime.as_os_str().hash(state);
        self.port.hash(state);
    }
}

/// A future that can be sent between threads.
pub type Sendable<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the router needs to know about rooms.
pub trait Rooms: Send + Sync {
    /// Connects to an app.
    fn dial<'a>(&'a self, target: &'a RoomPort) -> Sendable<'a, io::Result<TcpStream>>;

    /// Wakes a sandbox, by its public id; returns the address of one of its apps.
    fn wake<'a>(&'a self, id: &'a str, app: &'a str) -> Sendable<'a, Result<RoomPort, String>>;

    /// Explains why an app does not answer.
    fn explain<'a>(&'a self, route: &'a Route) -> Sendable<'a, Told>;

    /// Reports that an app answered with an error of its own.
    fn failed(&self, _route: &Route, _request: &str, _status: u16) {}

    /// Returns what a sign-in link of an app grants; `uses` uses it up.
    fn sign_in(&self, _id: &str, _app: &str, _key: &str, _uses: bool) -> Option<sign_in::SignIn> {
        None
    }
}

/// What is known of a service that does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The last lines of its log.
    pub lines: String,
    /// Whether it is starting.
    pub starts: bool,
}
