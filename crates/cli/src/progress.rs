//! The progress line: drawn only on a terminal, and only once something takes over a second.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hothouse_model::{Happening, OperationId};

use crate::{render::plain, session::Session, ui::Ui};

const PATIENCE: Duration = Duration::from_secs(1);
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// Draws until it is dropped.
pub(crate) struct Progress {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    drawn: Arc<Mutex<bool>>,
    ui: Ui,
}

impl Progress {
    /// Follows an operation; begins before it is requested so that no event is missed.
    pub(crate) fn follow(session: &Session, ui: &Ui, operation: &OperationId) -> Self {
        match ui.shows_progress() {
            true => Self::tell(session, ui, operation),
            false => Self { tasks: Vec::new(), drawn: Arc::default(), ui: *ui },
        }
    }

    /// The same, and says without a terminal too what cannot wait for the end.
    pub(crate) fn tell(session: &Session, ui: &Ui, operation: &OperationId) -> Self {
        let drawn = Arc::new(Mutex::new(false));
        let mut progress = Self { tasks: Vec::new(), drawn: drawn.clone(), ui: *ui };
        let title = Arc::new(Mutex::new("working".to_owned()));
        // Progress is optional: the command works without the stream.
        if let Some(mut events) = session.events(operation) {
            let (title, notes) = (title.clone(), *ui);
            progress.tasks.push(session.spawn(async move {
                while let Some(event) = events.next().await {
                    match event.what {
                        Happening::StepBegun { title: next, .. }
                        | Happening::Waiting { title: next } => {
                            *title.lock().expect("nobody panics with the title") = next;
                        }
                        Happening::Note { text } => {
                            text.lines().for_each(|line| notes.say(&plain(line)));
                        }
                        _ => {}
                    }
                }
            }));
        }
        if ui.shows_progress() {
            progress.tasks.push(session.spawn(draw(*ui, title, drawn)));
        }
        progress
    }
}

async fn draw(ui: Ui, title: Arc<Mutex<String>>, drawn: Arc<Mutex<bool>>) {
    let begun = Instant::now();
    tokio::time::sleep(PATIENCE).await;
    for frame in FRAMES.iter().cycle() {
        let text = title.lock().expect("nobody panics with the title").clone();
        ui.redraw(&format!("{frame} {text} ({}s)", begun.elapsed().as_secs()));
        *drawn.lock().expect("nobody panics with this flag") = true;
        tokio::time::sleep(FRAME).await;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if *self.drawn.lock().expect("nobody panics with this flag") {
            self.ui.redraw("");
        }
    }
}
