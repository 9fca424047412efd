//! Input from browsers, and the scripts that drive them.

use hothouse_browser::{
    Arrival, accessibility,
    capture::{Capture, CaptureSpec},
    locate::Locator,
    page::{Kept, Look},
    report::{Found, report},
    script,
    shim::{ShimSet, shipped},
    source_map,
    state::StorageState,
    wire::{Frames, Message},
};
use hothouse_model::config::ShipShim;

/// Checks messages of a browser in a room, which arrive in pieces: whatever comes, the records of a page are bounded,
/// and a report can be made of them.
pub fn browser_messages(bytes: &[u8]) {
    let (cut, rest) =
        bytes.split_first().map_or((0, bytes), |(cut, rest)| (usize::from(*cut), rest));
    let spec = CaptureSpec {
        session: "S".into(),
        context: "C".into(),
        traced: vec!["https://web.a.shop.localhost".into()],
        shims: ShimSet(shipped("pay", ShipShim::Stripe)),
        video: true,
        ..CaptureSpec::default()
    };
    let (mut frames, mut capture) = (Frames::default(), Capture::new(spec));
    let mut look = Look::default();
    for piece in [&rest[..cut.min(rest.len())], &rest[cut.min(rest.len())..]] {
        let taken = frames.take(piece, &mut |message| match message {
            Message::Event(event) => {
                for command in capture.on_event(&event) {
                    assert!(command.encode(1).ends_with(&[0]));
                }
            }
            Message::Answer { outcome: Ok(value), .. } => {
                look.nodes = accessibility::read(&value);
                look.page = serde_json::from_value(value).unwrap_or_default();
            }
            Message::Answer { .. } => {}
        });
        if taken.is_err() {
            return;
        }
    }
    let before = Kept::default();
    let (capture, look) = (&capture, &look);
    let arrival = Arrival::Loaded;
    let found =
        Found { app: "web", url: "u", arrival, capture, look, before: &before, steps: Vec::new() };
    let told = report(found);
    assert!(told.console.len() <= 500 && told.failed_requests.len() <= 500);
    let record = serde_json::to_string(&told.for_record()).expect("a report is JSON");
    assert!(record.len() < 1 << 20 || rest.len() > 1 << 16, "a record has its limit");
    hothouse_browser::video::avi(&capture.video_frames);
    hothouse_browser::har::har(&capture.requests.all, "t", "u");
}

/// Checks scripts, locators, keys and storage states of a worktree: what was parsed and formatted can be parsed again.
pub fn browser_scripts(bytes: &[u8]) {
    StorageState::parse(bytes).ok().map(|state| state.adapted("https://a.localhost").script());
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(locator) = text.parse::<Locator>() {
        let again = locator.to_string().parse::<Locator>();
        assert!(again.is_ok(), "{locator}");
    }
    hothouse_browser::keys::find(text);
    let places = source_map::places(text);
    source_map::told(text, &source_map::find(bytes, &places));
    source_map::address(text).and_then(source_map::inline);
    if let Ok(steps) = script::parse(text) {
        let written: String = steps.iter().map(script::Step::to_toml).collect();
        let again = script::parse(&written).expect("what was written is a script");
        assert_eq!(again.len(), steps.len());
    }
}
