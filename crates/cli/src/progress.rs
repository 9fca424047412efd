//! Progress: one line for the current step, and one for each service that is waited for. Drawn only on a terminal, and
//! only if something takes a moment; removed at the end.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hothouse_api::route;
use hothouse_model::{
    Happening, OperationId, event::ServiceProgress, stack::service::ServiceState,
};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{render::plain, session::Session, ui::Ui};

const PATIENCE: Duration = Duration::from_millis(500);
const FRAME: Duration = Duration::from_millis(100);

/// The maximum width of a service's name.
const WIDEST: usize = 32;

/// How many boards there are in this process.
static BOARDS: AtomicUsize = AtomicUsize::new(0);

/// How long a wait may take before it is shown.
const SHORT: Duration = Duration::from_secs(1);

/// Returns what a request without its own progress is waiting for.
fn waited_for(path: &str) -> Option<&'static str> {
    Some(match path {
        route::SANDBOXES => "reading the state of all sandboxes",
        route::SANDBOX_FIND => "reading the state of the sandbox",
        route::SIZES | route::TRASH => "measuring files",
        route::RUNS => "measuring the artifacts of runs",
        route::SANDBOX_DIFF => "comparing files",
        route::SANDBOX_LOG => "reading commits",
        route::SANDBOX_PROMOTE => "pushing or merging the branch",
        route::DOCTOR | route::DOCTOR_FIX => "checking this host",
        route::SNAPSHOTS => "reading snapshots",
        route::PORTS_RELEASE => "releasing ports",
        route::CONFIG_APPROVE => "applying the config",
        route::TIMELINE_WAIT => "waiting for a record",
        _ => return None,
    })
}

/// Runs a request, and shows on a terminal what it is waiting for if that takes long.
pub(crate) async fn told<T>(ui: &Ui, path: &str, request: impl Future<Output = T>) -> T {
    let mut request = std::pin::pin!(request);
    // If two were drawn at once, each would leave lines of the other behind.
    let is_drawn = || BOARDS.load(Ordering::Relaxed) > 0;
    let Some(what) = waited_for(path).filter(|_| ui.shows_progress() && !is_drawn()) else {
        return request.await;
    };
    tokio::select! {
        biased;
        answer = &mut request => return answer,
        () = tokio::time::sleep(SHORT) => {}
    }
    let line = ProgressBar::new_spinner();
    line.set_style(style("{spinner} {wide_msg} {elapsed}"));
    line.set_message(what);
    line.enable_steady_tick(FRAME);
    let answer = request.await;
    line.finish_and_clear();
    answer
}

/// Draws until it is dropped.
pub(crate) struct Progress {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    board: Option<Arc<Board>>,
}

impl Progress {
    /// Follows an operation. Starts before the operation is requested, so that no event is missed.
    pub(crate) fn follow(session: &Session, ui: &Ui, operation: &OperationId) -> Self {
        match ui.shows_progress() {
            true => Self::tell(session, ui, operation),
            false => Self { tasks: Vec::new(), board: None },
        }
    }

    /// Like [`follow`](Self::follow), but also prints notes without a terminal if they cannot wait
    /// for the end.
    pub(crate) fn tell(session: &Session, ui: &Ui, operation: &OperationId) -> Self {
        let board = ui.shows_progress().then(|| Arc::new(Board::new()));
        let mut progress = Self { tasks: Vec::new(), board: board.clone() };
        // Progress is optional: the command works without the stream.
        if let Some(mut events) = session.events(operation) {
            let (ui, board) = (*ui, board.clone());
            progress.tasks.push(session.spawn(async move {
                let mut known = BTreeMap::new();
                while let Some(event) = events.next().await {
                    show(ui, board.as_deref(), event.what, &mut known);
                }
            }));
        }
        if let Some(board) = board {
            progress.tasks.push(session.spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                board.appear();
            }));
        }
        progress
    }
}

impl Progress {
    /// Ends after Ctrl-C. The terminal has echoed it below the last line, because that line is full, so the cursor
    /// must move up to remove the first line.
    pub(crate) fn interrupted(self) {
        if self.board.as_ref().is_some_and(|board| board.is_drawn.load(Ordering::Relaxed)) {
            io::stderr().write_all(b"\r\x1b[2K\x1b[1A").ok();
        }
    }
}

/// Shows one event: on the board, or as a line if there is none.
fn show(
    ui: Ui,
    board: Option<&Board>,
    what: Happening,
    known: &mut BTreeMap<String, ServiceState>,
) {
    match what {
        Happening::StepBegun { title, .. } => {
            board.into_iter().for_each(|board| board.title(&title));
        }
        // Services that are waited for have their own lines.
        Happening::Waiting { title } => {
            board.into_iter().filter(|board| !board.waits()).for_each(|board| board.title(&title));
        }
        Happening::Note { text } => {
            let say = || text.lines().for_each(|line| ui.say(&plain(line)));
            match board {
                Some(board) => board.lines.suspend(say),
                None => say(),
            }
        }
        Happening::Services { services } => match board {
            Some(board) => {
                let longest = services.iter().map(|service| service.name.chars().count()).max();
                let width = longest.unwrap_or(0).min(WIDEST);
                services.iter().for_each(|service| board.service(service, width));
                waiting_for(&services).iter().for_each(|title| board.title(title));
            }
            None => services.iter().for_each(|service| {
                let before = known.insert(service.name.clone(), service.state);
                if before != Some(service.state) {
                    ui.say(&format!("{}: {}", plain(&service.name), service.state));
                }
            }),
        },
        _ => {}
    }
}

/// The lines on the terminal.
struct Board {
    lines: MultiProgress,
    head: ProgressBar,
    services: Mutex<BTreeMap<String, ProgressBar>>,
    is_drawn: AtomicBool,
}

impl Board {
    fn new() -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let head = lines.add(ProgressBar::new_spinner());
        head.set_style(style("{spinner} {wide_msg} {elapsed}"));
        head.set_message("working");
        BOARDS.fetch_add(1, Ordering::Relaxed);
        Self { lines, head, services: Mutex::default(), is_drawn: AtomicBool::new(false) }
    }

    /// Starts drawing.
    fn appear(&self) {
        self.is_drawn.store(true, Ordering::Relaxed);
        self.lines.set_draw_target(ProgressDrawTarget::stderr());
        self.head.enable_steady_tick(FRAME);
        // A line that no longer changes is drawn only now.
        let all = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().filter(|bar| bar.is_finished()).for_each(ProgressBar::tick);
    }

    /// Removes every line from the terminal permanently.
    fn vanish(&self) {
        let all = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().chain([&self.head]).for_each(ProgressBar::finish_and_clear);
        self.lines.clear().ok();
        // Otherwise a line that is dropped later would be drawn again.
        self.lines.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Whether any service is being waited for.
    fn waits(&self) -> bool {
        let all = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().any(|bar| !bar.is_finished())
    }

    fn title(&self, title: &str) {
        self.head.set_message(plain(title));
    }

    /// Shows a service, with its name padded to this width.
    fn service(&self, service: &ServiceProgress, width: usize) {
        let mut all = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = all.entry(service.name.clone()).or_insert_with(|| {
            let bar = self.lines.add(ProgressBar::new_spinner());
            bar.set_style(style(&format!(
                "  {{spinner}} {{prefix:<{width}!}}  {{wide_msg}} {{elapsed}}"
            )));
            bar.set_prefix(plain(&service.name));
            bar.enable_steady_tick(FRAME);
            bar
        });
        match service.settled {
            true if bar.is_finished() => {}
            true => {
                bar.set_style(style(&format!(
                    "    {{prefix:<{width}!}}  {{wide_msg}} {{elapsed}}"
                )));
                bar.disable_steady_tick();
                bar.finish_with_message(service.state.as_str());
            }
            false => bar.set_message(service.state.as_str()),
        }
    }
}

/// Returns how many services are being waited for, if any.
fn waiting_for(services: &[ServiceProgress]) -> Option<String> {
    let open = services.iter().filter(|service| !service.settled).count();
    match (open, services.len()) {
        (0, _) => None,
        (1, 1) => Some("waiting for a service".to_owned()),
        (open, all) => Some(format!("waiting for {open} of {all} services")),
    }
}

/// Returns the style of a line. A line too long for the terminal is cut.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_spinner()).tick_chars("|/-\\ ")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if let Some(board) = &self.board {
            board.vanish();
            BOARDS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
