//! A name looked up in the router's table: among one sandbox's apps and among those of two hundred.
//!
//! Compares the time of `RouteTable::app` for a host as written in a request, 1,000 hosts in a row from as many
//! strings, all of one length. `the same five` looks up the same names in both tables; `each in turn` looks up all
//! 1,000 names of the large table, and the five of the small one repeatedly. A second small table shows the noise: the
//! difference between two equal tables.

use std::{hint::black_box, time::Instant};

use hothouse_ingress::{RoomPort, Route, RouteTable, names};

use crate::bench::{Bar, bar, print};

const APPS: [&str; 5] = ["webs", "apis", "blog", "docs", "mail"];
const MANY: usize = 200;
const HOSTS: usize = 1000;
const ROUNDS: usize = 101;
/// Passes over all hosts in a round.
const PASSES: usize = 100;

pub(super) fn run() {
    let (one, again, many) = (table(1), table(1), table(MANY));
    let (few, all) = (hosts(1), hosts(MANY));
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let round = [(&one, &few), (&again, &few), (&many, &few), (&many, &all)];
        for (times, (table, hosts)) in times.iter_mut().zip(round) {
            times.push(timed(table, hosts));
        }
    }
    let [one, again, same, turn] = times.map(Quartiles::of);
    print(&format!("router: a name looked up, median of {ROUNDS} rounds and its middle half"));
    print(&format!("  in 1 sandbox x 5 apps            {one}"));
    print(&format!("  in another table like that       {again}"));
    print(&format!("  in 200 x 5, the same five        {same}"));
    print(&format!("  in 200 x 5, each in turn         {turn}"));
    let noise = (again.median / one.median).max(one.median / again.median);
    let spread = (one.upper / one.lower).max(turn.upper / turn.lower);
    print(&format!(
        "  noise: two equal tables {noise:>6.2}, the middle half of a table {spread:.2}"
    ));
    // As fast as in a small table, within the noise.
    let most = Bar::AtMost((noise.max(spread) * 100.0).ceil() / 100.0);
    bar("ratio, the same five", same.median / one.median, "", most);
    bar("ratio, each in turn", turn.median / one.median, "", most);
}

fn table(sandboxes: usize) -> RouteTable {
    RouteTable::new((0..sandboxes).flat_map(|sandbox| {
        APPS.into_iter().map(move |app| Route {
            id: format!("shop-s{sandbox:03}-0000"),
            sandbox: format!("s{sandbox:03}"),
            project: "shop".into(),
            app: app.into(),
            service: app.into(),
            target: Some(RoomPort { runtime: format!("/run/{sandbox:03}").into(), port: 3000 }),
            paused: false,
            activity: Default::default(),
        })
    }))
}

/// Generates hosts as written in requests, from this many sandboxes.
fn hosts(sandboxes: usize) -> Vec<String> {
    let host = |n: usize| {
        let (app, sandbox) = (APPS[n % APPS.len()], n / APPS.len() % sandboxes);
        format!("{app}.s{sandbox:03}.shop.localhost:8443")
    };
    (0..HOSTS).map(host).collect()
}

/// Returns nanoseconds per lookup.
fn timed(table: &RouteTable, hosts: &[String]) -> f64 {
    let begun = Instant::now();
    let mut found = 0;
    for _ in 0..PASSES {
        let hosts = black_box(hosts).iter();
        found += hosts.filter(|host| table.app(names::bare(host)).is_some()).count();
    }
    assert_eq!(found, PASSES * HOSTS, "every name is found");
    begun.elapsed().as_nanos() as f64 / (PASSES * HOSTS) as f64
}

struct Quartiles {
    lower: f64,
    median: f64,
    upper: f64,
}

impl Quartiles {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[times.len() * part / 4];
        Self { lower: at(1), median: at(2), upper: at(3) }
    }
}

impl std::fmt::Display for Quartiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>6.1} ns ({:.1} to {:.1})", self.median, self.lower, self.upper)
    }
}
