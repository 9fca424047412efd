//! Common parts of responses to browsers and to unusual requests.

use hothouse_mock::{Answer, Body, Match};

use crate::{Call, Taken};

/// A script that does nothing, for scripts that a page loads from a vendor.
pub(crate) const SCRIPT: &str =
    "/* Hothouse answers for this host; the vendor's script is not loaded. */\n";

/// Builds a text response.
pub(crate) fn text(status: u16, kind: &str, text: impl Into<Vec<u8>>, vendor: &str) -> Taken {
    let mut answer = Answer::empty(status, Match::Vendor(vendor.to_owned()));
    answer.headers.push(("content-type".into(), kind.into()));
    answer.body = Body::Whole(text.into());
    Taken { answer, records: Vec::new() }
}

/// Answers with a script that does nothing.
pub(crate) fn script(vendor: &str) -> Taken {
    text(200, "application/javascript; charset=utf-8", SCRIPT, vendor)
}

/// Answers with a script that replaces the vendor's: calls of a page are sent to the vendor's host.
pub(crate) fn library(vendor: &str, source: &'static str) -> Taken {
    text(200, "application/javascript; charset=utf-8", source, vendor)
}

/// Returns whether the last part of a path is a script, including compressed ones.
pub(crate) fn is_script(name: &str) -> bool {
    name.ends_with(".js") || name.ends_with(".js.gz")
}

/// Lets pages of any origin read a response, with cookies.
pub(crate) fn shared(mut taken: Taken, call: &Call<'_>) -> Taken {
    let Some(origin) = call.request.header("origin") else { return taken };
    let headers = &mut taken.answer.headers;
    headers.push(("access-control-allow-origin".into(), origin.to_owned()));
    headers.push(("access-control-allow-credentials".into(), "true".into()));
    // LaunchDarkly's client reads the time of an answer.
    headers.push(("access-control-expose-headers".into(), "Date, ETag".into()));
    headers.push(("vary".into(), "Origin".into()));
    taken
}

/// Answers a CORS preflight, if the call is one.
pub(crate) fn preflight(call: &Call<'_>, vendor: &str) -> Option<Taken> {
    if call.request.method != "OPTIONS" {
        return None;
    }
    let mut taken = Taken::empty(204, vendor, Vec::new());
    let wanted = call.request.header("access-control-request-headers").unwrap_or("*");
    for (name, value) in [
        ("access-control-allow-methods", "GET, POST, PUT, DELETE, OPTIONS"),
        ("access-control-allow-headers", wanted),
        ("access-control-max-age", "3600"),
    ] {
        taken.answer.headers.push((name.into(), value.to_owned()));
    }
    Some(shared(taken, call))
}

/// Returns the path as a list for matching.
pub(crate) fn path<'c>(call: &'c Call<'_>) -> Vec<&'c str> {
    call.segments.iter().map(AsRef::as_ref).collect()
}
