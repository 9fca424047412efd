//! `top`: all sandboxes at a glance, live on a terminal.

mod screen;
mod state;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{route, top::TopView};
use hothouse_host::{command::Program, process};
use hothouse_model::{Failure, FailureKind};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::state::{Act, State};
use super::{given::required_duration, url};
use crate::{
    args::TopArgs,
    render::{Cell, table},
    session::Session,
    ui::{Tone, Ui},
};

/// The minimum time between two updates.
const SHORTEST: Duration = Duration::from_millis(200);

/// Watches all sandboxes until the user quits; without a terminal prints one table.
pub(crate) fn watch(session: &Session, ui: &Ui, args: &TopArgs) -> Result<ExitCode, Failure> {
    let every = required_duration("--every", &args.every)?;
    let first: TopView = session.get(route::TOP)?;
    if ui.json {
        ui.print_json(&first);
        return Ok(ExitCode::SUCCESS);
    }
    if args.once || !ui.is_terminal() || !ui.can_ask() {
        ui.print(&plain(ui, &first));
        return Ok(ExitCode::SUCCESS);
    }
    let mut state = State::default();
    state.take(first);
    run(session, ui, state, every.max(SHORTEST))
}

fn run(session: &Session, ui: &Ui, mut state: State, every: Duration) -> Result<ExitCode, Failure> {
    let mut terminal = ratatui::try_init().map_err(|error| terminal_failure(&error))?;
    let mut looked = Instant::now();
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| screen::draw(frame, &mut state)) {
            break Err(terminal_failure(&error));
        }
        let patience = every.saturating_sub(looked.elapsed());
        let act = match event::poll(patience).and_then(|ready| ready.then(event::read).transpose())
        {
            Err(error) => break Err(terminal_failure(&error)),
            Ok(Some(Event::Key(key))) if key.kind == KeyEventKind::Press => state.press(key),
            Ok(_) => None,
        };
        match act {
            Some(Act::Quit) => break Ok(ExitCode::SUCCESS),
            Some(Act::Open(url)) => {
                let failed = url::opened(&url).err();
                state.note = failed.map(|why| format!("{why}. Open {url} yourself."));
            }
            Some(Act::Run(words)) => {
                ratatui::restore();
                state.note = foreground(ui, &words).err();
                match ratatui::try_init() {
                    Ok(again) => terminal = again,
                    Err(error) => break Err(terminal_failure(&error)),
                }
            }
            None => {}
        }
        if looked.elapsed() >= every {
            looked = Instant::now();
            match session.get::<TopView>(route::TOP) {
                Ok(view) => {
                    let asks = state.asks();
                    state.take(view);
                    if state.asks() > asks && super::ask::rings(session) {
                        ui.ring();
                    }
                }
                Err(failure) => state.note = Some(failure.message),
            }
        }
    };
    ratatui::restore();
    ended
}

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Runs this program with other arguments, on the terminal, until it ends. What it says about an error stays until the
/// user has read it.
fn foreground(ui: &Ui, words: &[String]) -> Result<(), String> {
    let program = process::executable().ok_or("the program cannot be found")?;
    let code = Program::new(program).args(words).in_foreground();
    match code {
        Ok(0 | INTERRUPTED) => Ok(()),
        Ok(code) => {
            ui.say("Press Enter to go back.");
            std::io::stdin().read_line(&mut String::new()).ok();
            Err(format!("`hothouse {}` exited with {code}", words.join(" ")))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn terminal_failure(error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Host, format!("the terminal cannot be used: {error}"))
        .hint("`hothouse top --once` prints one table")
}

/// Prints the table once.
fn plain(ui: &Ui, view: &TopView) -> String {
    if view.sandboxes.is_empty() {
        return "No sandboxes yet.".to_owned();
    }
    let rows = view.sandboxes.iter().map(|line| {
        let row = state::row(line, None);
        let tone = match row.tone {
            state::Health::Good => Tone::Good,
            state::Health::Bad => Tone::Bad,
            state::Health::Busy | state::Health::Still => Tone::Faint,
        };
        row.cells
            .into_iter()
            .enumerate()
            .map(|(at, text)| if at == 1 { Cell::new(text).tone(tone) } else { Cell::new(text) })
            .collect()
    });
    let heading = state::COLUMNS.map(|column| column.0.to_uppercase());
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    table(ui, &heading, rows.collect())
}
