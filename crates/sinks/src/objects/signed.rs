//! Checks whether a request is signed, and in time.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use super::{Asked, ObjectError};

/// The maximum validity of a signed URL: seven days.
const LONGEST: i64 = 7 * 24 * 3600;

/// Returns whether a request is signed. An expired signed URL is refused, as the vendor would.
pub fn is_signed(asked: &Asked<'_>, now: Timestamp) -> Result<bool, ObjectError> {
    if asked.parameter("X-Amz-Signature").is_some() {
        let until = four(asked).ok_or_else(|| {
            ObjectError::new(
                400,
                "AuthorizationQueryParametersError",
                "a signed URL has `X-Amz-Date` and `X-Amz-Expires`",
            )
        })?;
        return in_time(until, now);
    }
    if asked.parameter("Signature").is_some() {
        let until = asked.parameter("Expires").and_then(|text| text.parse().ok());
        let until = until.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let missing = || ObjectError::new(403, "AccessDenied", "a signed URL has `Expires`");
        return in_time(until.ok_or_else(missing)?, now);
    }
    Ok(asked.header("authorization").is_some())
}

/// Returns when a URL with signature version 4 expires.
fn four(asked: &Asked<'_>) -> Option<Timestamp> {
    let date = asked.parameter("X-Amz-Date")?;
    let date = DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok()?;
    let seconds: i64 = asked.parameter("X-Amz-Expires")?.parse().ok()?;
    let begun = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let lasts = SignedDuration::from_secs(seconds.clamp(0, LONGEST));
    begun.checked_add(lasts).ok()
}

fn in_time(until: Timestamp, now: Timestamp) -> Result<bool, ObjectError> {
    match now <= until {
        true => Ok(true),
        false => Err(ObjectError::new(403, "AccessDenied", "Request has expired")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_good_for_as_long_as_they_say() {
        let now: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        let check = |query: &str, expected: Result<bool, &str>| {
            let (host, method, path) = ("localhost", "GET", "/goods/a");
            let asked = Asked { host, method, path, query, headers: &[] };
            assert_eq!(is_signed(&asked, now).map_err(|error| error.code), expected, "{query}");
        };
        check("", Ok(false));
        let url = |date: &str, seconds: i64| {
            format!("X-Amz-Signature=ab&X-Amz-Date={date}&X-Amz-Expires={seconds}")
        };
        check(&url("20260304T050507Z", 60), Ok(true));
        check(&url("20260304T050506Z", 60), Err("AccessDenied"));
        // Longer validity is not allowed.
        check(&url("20260101T000000Z", 99_999_999_999), Err("AccessDenied"));
        check(&url("yesterday", 60), Err("AuthorizationQueryParametersError"));
        check("Signature=ab&Expires=1772600767", Ok(true));
        check("Signature=ab&Expires=1772600766", Err("AccessDenied"));
        check("Signature=ab", Err("AccessDenied"));
    }
}
