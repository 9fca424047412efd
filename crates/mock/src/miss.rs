//! The response to an unmatched call: the nearest fixtures, and why they did not match.

use std::borrow::Cow;

use serde_json::json;

use crate::{
    answer::{Answer, Match, NearMiss},
    fixture::{
        Fixture,
        shelf::{Seen, Shelf},
    },
    path::PathTemplate,
    request::{Call, Content},
    stub,
};

/// How many near misses are listed.
const SHOWN: usize = 3;

/// Paths that are farther apart than this count as unrelated.
const FAR: usize = 8;

/// A near miss with its distance, to be sorted.
pub(crate) type Scored = (usize, NearMiss);

/// Compares a call with all fixtures of a shelf.
pub(crate) fn near(shelf: &Shelf, call: &Call<'_>, seen: &mut Seen<'_, '_>) -> Vec<Scored> {
    let far = |fixture: &&Fixture| fixture.wanted.path.distance(&call.segments) <= FAR;
    let near = shelf.fixtures().iter().filter(far);
    near.map(|fixture| {
        let wanted = &fixture.wanted;
        let (distance, path) = path_miss(&wanted.path, &call.segments, call.request.path);
        let parameters = wanted.path.matches(&call.segments).unwrap_or_default();
        let others = wanted.misses(call, &parameters, seen);
        // A different path is worse than a different value.
        let score = distance * 10 + others.len();
        let why = path.into_iter().chain(others).collect();
        (score, NearMiss { fixture: fixture.name.clone(), why })
    })
    .collect()
}

/// Compares a call with the routes of code: method and path.
pub(crate) fn near_routes<'r>(
    vendor: &str,
    routes: impl Iterator<Item = (&'r str, PathTemplate)>,
    call: &Call<'_>,
) -> Vec<Scored> {
    let scored = routes.map(|(method, path)| {
        let (distance, miss) = path_miss(&path, &call.segments, call.request.path);
        let mut why: Vec<String> = miss.into_iter().collect();
        if method != call.request.method {
            why.push(format!("method is {}, not {method}", call.request.method));
        }
        let fixture = format!("{vendor}: {method} {path}");
        (distance * 10 + why.len(), NearMiss { fixture, why })
    });
    scored.filter(|(score, _)| *score < FAR * 10 + 2).collect()
}

fn path_miss(
    template: &PathTemplate,
    segments: &[Cow<'_, str>],
    path: &str,
) -> (usize, Option<String>) {
    match template.matches(segments) {
        Some(_) => (0, None),
        None => {
            let shown: String = path.chars().take(200).collect();
            let why = format!("path is `{}`, not `{template}`", shown.escape_debug());
            (template.distance(segments).max(1), Some(why))
        }
    }
}

/// Builds the answer to an unmatched call: 501, with suggestions.
pub(crate) fn unmatched(call: &Call<'_>, integration: &str, mut near: Vec<Scored>) -> Answer {
    near.sort_by(|a, b| (a.0, &a.1.fixture).cmp(&(b.0, &b.1.fixture)));
    let nearest: Vec<NearMiss> = near.into_iter().take(SHOWN).map(|(_, miss)| miss).collect();
    let request = &call.request;
    let file = stub::file_name(request);
    let stub = stub::stub(request);
    let body = match &call.content {
        Content::Broken(why) => Some(why.as_str()),
        _ => None,
    };
    let message = format!(
        "Hothouse mocks {}, and no fixture of `{integration}` answers {} {}",
        request.host, request.method, request.path
    );
    let told = json!({ "error": {
        "type": "unmatched_request",
        "message": message,
        "body": body,
        "nearest": nearest,
        "stub_file": format!("hothouse/fixtures/{integration}/{file}"),
        "stub": stub,
    }});
    Answer::json(501, &told, Match::Unmatched { nearest, stub })
}

/// Builds the answer for a fixture whose template cannot be rendered.
pub(crate) fn unfilled(call: &Call<'_>, fixture: &str, why: String) -> Answer {
    let told = json!({ "error": {
        "type": "fixture_failed",
        "message": format!("the fixture `{fixture}` cannot answer: {why}"),
        "fixture": fixture,
    }});
    let nearest = vec![NearMiss { fixture: fixture.to_owned(), why: vec![why] }];
    Answer::json(501, &told, Match::Unmatched { nearest, stub: stub::stub(&call.request) })
}
