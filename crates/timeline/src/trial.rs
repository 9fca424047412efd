//! Entry points for fuzzing: bytes from a file or a client.

use crate::{Care, Redactor, chain};

/// Checks a line of a timeline: a valid hash holds for exactly these bytes.
pub fn line(bytes: &[u8]) {
    let Ok(link) = chain::check(bytes) else { return };
    assert!(link.hash != link.prev, "a record does not follow itself");
    if let Some(last) = bytes.last() {
        let mut changed = bytes.to_vec();
        *changed.last_mut().expect("it has a last byte") = last ^ 1;
        assert!(chain::check(&changed).is_err(), "another byte has another hash");
    }
    if let Ok(record) = chain::read(bytes) {
        hothouse_model::record::fields::leaves(&record, &mut |_, _| {});
    }
}

/// Checks a text or bytes of a room: redaction is idempotent, and removes a key of a known shape.
pub fn text(bytes: &[u8]) {
    let redactor = Redactor::new([("KEY", "the-value-itself")], [0; 16]);
    let text = String::from_utf8_lossy(bytes);
    let once = redactor.text(&text).into_owned();
    assert_eq!(redactor.text(&once), once, "once and for all");
    assert!(!once.contains("the-value-itself"));
    let with_key = format!("{text} sk_test_k3y {text}");
    assert!(!redactor.text(&with_key).contains("sk_test_k3y"));
    redactor.bytes(bytes, Care::Full);
    redactor.form(&text);
}
