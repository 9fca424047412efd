//! One function per decoder of bytes that a room, or a program in it, can choose.
//!
//! A target panics when a decoder breaks its contract, and is otherwise silent. `cargo fuzz` drives them
//! (`fuzz/fuzz_targets`, nightly); `tests/replay.rs` replays the corpus and mutations of it on every
//! test run, on stable. *To add a decoder:* a function in the module of its area, a line in
//! [`TARGETS`], a seed in `tests/replay.rs`, a wrapper in `fuzz/fuzz_targets`.

mod browsers;
mod mails;
mod mocks;
mod records;
mod rooms;
mod sinks;
mod wall;
mod worktree;

pub use self::{
    browsers::{browser_messages, browser_scripts},
    mails::{error_requests, mail_requests, mails, smtp_sessions},
    mocks::{mock_descriptions, mock_fixtures, mock_requests, mock_templates},
    records::{queries, record_lines, redacted_texts, since},
    rooms::{exec, frames, name_questions, room_answers, sudo},
    sinks::{
        arrived_webhooks, measured_images, queued_messages, stored_objects, sunk_analytics,
        sunk_flags, sunk_models, sunk_traces,
    },
    wall::{
        answer_parts, echoes, http_head, names, packets, request_paths, signed_pieces, socks,
        terminated_answers, terminated_requests, tls_hello, tracked_flows, websocket_frames,
    },
    worktree::{coverage_reports, env_files, guard, lockfiles},
};

/// Takes bytes; panics if a decoder misbehaves.
pub type Decoder = fn(&[u8]);

/// Every target, by the name of its corpus folder.
pub const TARGETS: &[(&str, Decoder)] = &[
    ("frames", frames),
    ("guard", guard),
    ("room_answers", room_answers),
    ("sudo", sudo),
    ("exec", exec),
    ("dns", name_questions),
    ("names", names),
    ("tls_hello", tls_hello),
    ("http_head", http_head),
    ("socks", socks),
    ("packets", packets),
    ("tracked_flows", tracked_flows),
    ("echoes", echoes),
    ("terminated_requests", terminated_requests),
    ("terminated_answers", terminated_answers),
    ("signed_pieces", signed_pieces),
    ("websocket_frames", websocket_frames),
    ("answer_parts", answer_parts),
    ("request_paths", request_paths),
    ("env_files", env_files),
    ("queries", queries),
    ("since", since),
    ("record_lines", record_lines),
    ("redacted_texts", redacted_texts),
    ("mock_fixtures", mock_fixtures),
    ("mock_templates", mock_templates),
    ("mock_requests", mock_requests),
    ("mock_descriptions", mock_descriptions),
    ("lockfiles", lockfiles),
    ("smtp_sessions", smtp_sessions),
    ("mails", mails),
    ("mail_requests", mail_requests),
    ("error_requests", error_requests),
    ("sunk_analytics", sunk_analytics),
    ("sunk_flags", sunk_flags),
    ("sunk_models", sunk_models),
    ("sunk_traces", sunk_traces),
    ("queued_messages", queued_messages),
    ("stored_objects", stored_objects),
    ("measured_images", measured_images),
    ("arrived_webhooks", arrived_webhooks),
    ("browser_messages", browser_messages),
    ("browser_scripts", browser_scripts),
    ("coverage_reports", coverage_reports),
];

/// Checks a record: bounded, with files whose names the room does not choose, and pages that do nothing.
fn kept(recorded: &hothouse_sinks::Recorded) {
    let size = recorded.body.to_string().len();
    assert!(size < 1 << 20, "a record has {size} bytes");
    assert!(hothouse_model::record::is_shallow(&recorded.body));
    for file in &recorded.files {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-./{}".contains(c);
        assert!(file.path.chars().all(plain) && !file.path.contains(".."), "{}", file.path);
        let page = String::from_utf8_lossy(&file.bytes).to_ascii_lowercase();
        assert!(!file.path.ends_with(".html") || !page.contains("<script"), "a page has a script");
    }
}
