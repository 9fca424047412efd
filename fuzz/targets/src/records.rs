//! Queries, and lines and texts of timelines.

use hothouse_model::query::{Query, Since, is_mark_name};

/// Checks a query: each term, formatted and parsed again, is the same.
pub fn queries(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(query) = Query::parse(&text, None) else { return };
    for term in query.terms() {
        let shown = term.to_string();
        let again = Query::parse(&shown, None).expect("what is shown can be read");
        assert_eq!(again.terms()[0].to_string(), shown);
        assert_eq!(again.terms()[0].fits("A b"), term.fits("A b"));
    }
}

/// Checks where a reader begins: formatted and parsed again, it is the same place.
pub fn since(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(since) = text.parse::<Since>() else { return };
    assert_eq!(matches!(since, Since::Mark(_)), is_mark_name(&text));
    if !matches!(since, Since::Span(_)) {
        assert_eq!(since.to_string().parse(), Ok(since));
    }
}

/// Checks a line of a timeline that somebody may have changed.
pub fn record_lines(bytes: &[u8]) {
    hothouse_timeline::trial::line(bytes);
}

/// Checks a text from a room: redacted twice it is the same, and no key is left.
pub fn redacted_texts(bytes: &[u8]) {
    hothouse_timeline::trial::text(bytes);
}
