//! Ranges and conditions of requests for objects.

use jiff::{Timestamp, fmt::rfc2822};

use super::{Asked, ObjectError};

/// The result for a request for an existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The client already has it.
    Unchanged,
    Whole,
    /// From the first byte to the last, inclusive.
    Part(u64, u64),
}

/// Decides what a client gets of an object.
pub fn wanted(
    asked: &Asked<'_>,
    (etag, size, modified): (&str, u64, Timestamp),
) -> Result<Wanted, ObjectError> {
    let names = |list: &str| {
        list.split(',').map(str::trim).any(|one| {
            one == "*" || one.strip_prefix("W/").unwrap_or(one).trim_matches('"') == etag
        })
    };
    let moment = |name| asked.header(name).and_then(|text| rfc2822::parse(text).ok());
    // HTTP dates have no fractions of seconds.
    let modified = modified.as_second();
    let failed = || {
        let message = "At least one of the pre-conditions you specified did not hold";
        Err(ObjectError::new(412, "PreconditionFailed", message))
    };
    match (asked.header("if-match"), moment("if-unmodified-since")) {
        (Some(list), _) if !names(list) => return failed(),
        (None, Some(time)) if modified > time.timestamp().as_second() => return failed(),
        _ => {}
    }
    match (asked.header("if-none-match"), moment("if-modified-since")) {
        (Some(list), _) if names(list) => return Ok(Wanted::Unchanged),
        (None, Some(time)) if modified <= time.timestamp().as_second() => {
            return Ok(Wanted::Unchanged);
        }
        _ => {}
    }
    match asked.header("range") {
        Some(range) => part(range, size),
        None => Ok(Wanted::Whole),
    }
}

/// Refuses a replacement that a condition forbids. `before` is the entity tag of the existing
/// object.
pub fn may_replace(asked: &Asked<'_>, before: Option<&str>) -> Result<(), ObjectError> {
    let holds = match (asked.header("if-none-match"), asked.header("if-match")) {
        (Some("*"), _) => before.is_none(),
        (_, Some(etag)) => before.is_some_and(|before| etag.trim_matches('"') == before),
        _ => true,
    };
    match holds {
        true => Ok(()),
        false => {
            let message = "At least one of the pre-conditions you specified did not hold";
            Err(ObjectError::new(412, "PreconditionFailed", message))
        }
    }
}

/// Parses a single range. Invalid or multiple ranges get the whole object, as with S3.
fn part(range: &str, size: u64) -> Result<Wanted, ObjectError> {
    let spec = range.trim().strip_prefix("bytes=").filter(|spec| !spec.contains(','));
    let Some((first, last)) = spec.and_then(|spec| spec.split_once('-')) else {
        return Ok(Wanted::Whole);
    };
    let (first, last) = (first.trim().parse::<u64>(), last.trim().parse::<u64>());
    let bounds = match (first, last) {
        (Ok(first), Ok(last)) if first <= last => Some((first, last.min(size.saturating_sub(1)))),
        (Ok(_), Ok(_)) => return Ok(Wanted::Whole),
        (Ok(first), Err(_)) => Some((first, size.saturating_sub(1))),
        (Err(_), Ok(0)) => None,
        (Err(_), Ok(count)) => Some((size.saturating_sub(count), size.saturating_sub(1))),
        (Err(_), Err(_)) => return Ok(Wanted::Whole),
    };
    match bounds {
        Some((first, last)) if first < size => Ok(Wanted::Part(first, last)),
        _ => {
            let message = "The requested range is not satisfiable";
            Err(ObjectError::new(416, "InvalidRange", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], expected: Result<Wanted, u16>) {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let (host, method, path, query) = ("localhost", "GET", "/goods/a", "");
        let asked = Asked { host, method, path, query, headers: &headers };
        let modified = "2026-03-04T05:06:07.5Z".parse().unwrap();
        let found = wanted(&asked, ("abc", 10, modified)).map_err(|error| error.status);
        assert_eq!(found, expected, "{headers:?}");
    }

    #[test]
    fn parts_are_cut_as_http_says() {
        for (range, expected) in [
            ("bytes=0-3", Ok(Wanted::Part(0, 3))),
            ("bytes=4-", Ok(Wanted::Part(4, 9))),
            ("bytes=-3", Ok(Wanted::Part(7, 9))),
            ("bytes=-99", Ok(Wanted::Part(0, 9))),
            ("bytes=8-99", Ok(Wanted::Part(8, 9))),
            ("bytes=10-", Err(416)),
            ("bytes=-0", Err(416)),
            ("bytes=3-1", Ok(Wanted::Whole)),
            ("bytes=0-1,3-4", Ok(Wanted::Whole)),
            ("lines=1-2", Ok(Wanted::Whole)),
            ("bytes=a-b", Ok(Wanted::Whole)),
        ] {
            check(&[("range", range)], expected);
        }
    }

    #[test]
    fn conditions_are_looked_at_first() {
        check(&[("if-match", "\"abc\"")], Ok(Wanted::Whole));
        check(&[("if-match", "\"x\"")], Err(412));
        check(&[("if-none-match", "\"x\", W/\"abc\"")], Ok(Wanted::Unchanged));
        check(&[("if-none-match", "\"x\"")], Ok(Wanted::Whole));
        check(&[("if-modified-since", "Wed, 04 Mar 2026 05:06:07 GMT")], Ok(Wanted::Unchanged));
        check(&[("if-modified-since", "Wed, 04 Mar 2026 05:06:06 GMT")], Ok(Wanted::Whole));
        check(&[("if-unmodified-since", "Wed, 04 Mar 2026 05:06:06 GMT")], Err(412));
        check(&[("if-unmodified-since", "no date")], Ok(Wanted::Whole));
    }
}
