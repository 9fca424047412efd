//! Recently rendered pages, by session and address.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::contents::Content;

/// How long a rendering is reused.
const FRESH: Duration = Duration::from_millis(900);

/// How many pages are kept.
const LIMIT: usize = 256;

/// A page, if it was rendered.
#[derive(Default)]
pub(super) struct Held(Option<(Instant, Arc<Content>)>);

impl Held {
    /// Returns the page if it was rendered recently.
    pub(super) fn fresh(&self, now: Instant) -> Option<Arc<Content>> {
        let (made, content) = self.0.as_ref()?;
        (now.duration_since(*made) < FRESH).then(|| content.clone())
    }

    pub(super) fn keep(&mut self, content: Arc<Content>, now: Instant) {
        self.0 = Some((now, content));
    }
}

type Slot = Arc<tokio::sync::Mutex<Held>>;

/// All recently rendered pages.
#[derive(Default)]
pub(super) struct Rendered(Mutex<HashMap<(String, String), Slot>>);

impl Rendered {
    /// Returns the slot of a page. Whoever locks it renders; the others wait for the result.
    pub(super) fn slot(&self, session: &str, address: &str) -> Slot {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= LIMIT {
            all.clear();
        }
        all.entry((session.to_owned(), address.to_owned())).or_default().clone()
    }

    /// Forgets all pages, after an action.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
