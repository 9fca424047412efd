//! Cycles among things that need each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::{tree::Node, tree::Place};
use hothouse_model::config::{Complaint, Problem};

/// Which services need which, and where that is written.
pub(super) type Graph<'a> = BTreeMap<&'a str, Vec<(&'a str, &'a Place)>>;

/// Builds the graph of services from their `needs`.
pub(super) fn services(services: &Node) -> Graph<'_> {
    let edges =
        |service| list_of(service, "needs").iter().filter_map(|need| edge(need.get("service")?));
    services.entries().map(|(name, service)| (name, edges(service).collect())).collect()
}

/// Builds the graph of seed bundles from their `needs`.
pub(super) fn bundles(tree: &Node) -> Graph<'_> {
    let bundles = tree.get("seed").and_then(|seed| seed.get("bundle"));
    let edges = |bundle| list_of(bundle, "needs").iter().filter_map(edge);
    bundles
        .into_iter()
        .flat_map(Node::entries)
        .map(|(name, bundle)| (name, edges(bundle).collect()))
        .collect()
}

/// Builds the graph of radii from the radii they contain.
pub(super) fn radii(tree: &Node) -> Graph<'_> {
    let radii = tree.get("seed").and_then(|seed| seed.get("radius"));
    radii.into_iter().flat_map(Node::entries).map(|(name, list)| (name, edges(list))).collect()
}

fn edges(list: &Node) -> Vec<(&str, &Place)> {
    list.items().iter().filter_map(edge).collect()
}

fn list_of<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).map(Node::items).unwrap_or_default()
}

fn edge(node: &Node) -> Option<(&str, &Place)> {
    node.text().map(|name| (name, &node.place))
}

/// Reports every cycle once, with all its members.
pub(super) fn check_circles(graph: &Graph<'_>, problems: &mut Vec<Problem>) {
    let mut search =
        Search { graph, path: Vec::new(), done: BTreeSet::new(), circles: BTreeMap::new() };
    for name in graph.keys() {
        search.visit(name);
    }
    for (circle, place) in search.circles {
        let round: Vec<&str> = circle.iter().chain(circle.first()).copied().collect();
        problems.push(
            place.problem(Complaint::new(format!("closes a circle: {}", round.join(" -> ")))),
        );
    }
}

struct Search<'g, 'a> {
    graph: &'g Graph<'a>,
    path: Vec<&'a str>,
    done: BTreeSet<&'a str>,
    circles: BTreeMap<Vec<&'a str>, &'a Place>,
}

impl<'a> Search<'_, 'a> {
    /// Follows the needs of `name`; the depth is limited by the maximum number of table entries.
    fn visit(&mut self, name: &'a str) {
        if self.done.contains(name) {
            return;
        }
        self.path.push(name);
        for (next, place) in self.graph.get(name).into_iter().flatten() {
            match self.path.iter().position(|seen| seen == next) {
                Some(start) => self.record(start, place),
                None => self.visit(next),
            }
        }
        self.path.pop();
        self.done.insert(name);
    }

    /// Records the cycle that begins at `start` of the path, rotated so that its smallest name comes first.
    fn record(&mut self, start: usize, place: &'a Place) {
        let mut circle = self.path[start..].to_vec();
        let smallest = (0..circle.len()).min_by_key(|at| circle[*at]).unwrap_or(0);
        circle.rotate_left(smallest);
        self.circles.entry(circle).or_insert(place);
    }
}
