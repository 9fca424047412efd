//! Requests for tests.

use std::collections::BTreeMap;

use hothouse_mock::Request;
use hothouse_model::flag::effective;
use jiff::Timestamp;
use serde_json::Value;

use crate::{Call, Context, FlagSet, Taken};

/// A request, with defaults for most tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent<'a> {
    pub(crate) method: &'a str,
    /// Including the query.
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Sent<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, ..Self::default() }
    }

    pub(crate) fn post(path: &'a str, body: impl Into<Vec<u8>>) -> Self {
        Self { method: "POST", path, body: body.into(), ..Self::default() }
    }

    pub(crate) fn json(path: &'a str, tree: &Value) -> Self {
        let headers = vec![("content-type", "application/json")];
        Self { headers, ..Self::post(path, tree.to_string()) }
    }

    pub(crate) fn header(mut self, name: &'a str, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Passes it to the sink of a host.
    pub(crate) fn to(&self, host: &str, flags: &FlagSet) -> Taken {
        let sink = crate::find(host).expect(host);
        self.taken_by(host, sink.take, flags)
    }

    pub(crate) fn taken_by(&self, host: &str, take: crate::Take, flags: &FlagSet) -> Taken {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        let headers: Vec<_> = self.headers.iter().map(owned).collect();
        let (path, query) = self.path.split_once('?').unwrap_or((self.path, ""));
        let request =
            Request { method: self.method, host, path, query, headers: &headers, body: &self.body };
        let mut random = || [7; 16];
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        take(
            &Call::read(request),
            &mut Context { now, random: &mut random, flags, mails: &crate::no_mails },
        )
    }
}

/// Creates pinned flags.
pub(crate) fn pinned<const N: usize>(pins: [(&str, Value); N]) -> FlagSet {
    let pins = pins.map(|(key, value)| (key.to_owned(), value));
    effective(&BTreeMap::new(), &BTreeMap::from(pins))
}

/// Parses the body of a response.
pub(crate) fn tree(taken: &Taken) -> Value {
    let bytes = taken.answer.body.bytes();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8(bytes).unwrap().into())
}

/// Returns a field of each record's body.
pub(crate) fn each<'t>(taken: &'t Taken, pointer: &str) -> Vec<&'t Value> {
    taken
        .records
        .iter()
        .map(|record| record.body.pointer(pointer).unwrap_or(&Value::Null))
        .collect()
}
