//! Direct ports lead to apps from their start until their sandbox is stopped.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
};

use hothouse_ingress::{
    Sendable,
    proxy::{Body, OwnPages, body_of},
};
use hothouse_reconcile::{Tasks, Urls};
use hyper::{Request, Response, body::Incoming};

use crate::ground::{Ground, PATIENCE, runtime, until};

struct NoPages;

impl OwnPages for NoPages {
    fn answer(&self, _: Request<Incoming>, _: Option<String>) -> Sendable<'static, Response<Body>> {
        Box::pin(async { Response::new(body_of("")) })
    }
}

/// Starts an app that greets every client, on the host like all programs of fake rooms; returns its port.
fn app() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"hello").ok();
        }
    });
    port
}

fn greeting(port: u16) -> Option<String> {
    let mut text = String::new();
    TcpStream::connect(("127.0.0.1", port)).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn a_direct_port_opens_with_its_app_and_closes_with_its_room() {
    let port = app();
    let ground =
        Ground::new(&format!("[service.web]\nrun = \"true\"\nport = {port}\nurl = \"web\"\n"));
    runtime().block_on(async {
        let daemon = ground.daemon();
        let urls = Urls::open(&daemon.keepers, Arc::new(NoPages));
        daemon.keepers.urls.set(urls).ok();
        daemon.fork_and_up(&ground).await;
        let mut tasks = Tasks::default();
        daemon.keepers.start(&mut tasks);
        let direct = daemon.engine.apps(&daemon.sandbox()).unwrap()[0].direct;
        let greets = move || greeting(direct).as_deref() == Some("hello");
        until("the app", || tokio::task::block_in_place(greets)).await;

        let (engine, sandbox) = (daemon.engine.clone(), daemon.sandbox());
        let id = "op_00000002".parse().unwrap();
        let down = move || engine.down(&sandbox, id).unwrap();
        tokio::task::spawn_blocking(down).await.unwrap();
        until("the end", || tokio::task::block_in_place(|| greeting(direct)).is_none()).await;
        assert_eq!(tasks.end(PATIENCE).await, Vec::<&str>::new());
    });
}
