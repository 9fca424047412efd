//! Draws `top`.

use hothouse_api::sandbox::AgentBrief;
use hothouse_model::visible;
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Cell, Row, Table, TableState},
};

use super::state::{COLUMNS, Health, State};

const KEYS: &str = "Enter open  l logs  s shell  a attach  r restart  u up  p pause/resume  q quit";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(2)])
            .areas(frame.area());
    frame.render_widget(heading(state), top);
    let rows = state.rows();
    let others: u16 = COLUMNS[1..].iter().map(|(_, width)| width + 1).sum();
    let room = usize::from(middle.width.saturating_sub(others).max(COLUMNS[0].1));
    let rows = rows.iter().map(|row| {
        let cells = row.cells.iter().enumerate().map(|(at, text)| {
            let style = match at {
                1 => Style::new().fg(color(row.tone)),
                3 => row.agent.map_or_else(Style::new, |agent| Style::new().fg(color(agent))),
                6 if row.has_errors => Style::new().fg(Color::Red),
                7 if row.denied => Style::new().fg(Color::Yellow),
                _ => Style::new(),
            };
            let text = visible::line(text);
            let text = if at == 0 { ending(&text, room) } else { text.into_owned() };
            Cell::new(text).style(style)
        });
        Row::new(cells)
    });
    // The names have what the others leave.
    let mut widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
    widths[0] = Constraint::Fill(1);
    let names = COLUMNS.map(|(name, _)| name);
    let header = Row::new(names).style(Style::new().add_modifier(Modifier::DIM));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths).header(header).row_highlight_style(chosen);
    let mut at = TableState::new().with_selected(Some(state.chosen));
    frame.render_stateful_widget(table, middle, &mut at);
    frame.render_widget(footer(state), bottom);
}

/// Returns the end of a name that does not fit: sandboxes of a project differ there.
fn ending(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length + 1 - room).collect();
    format!("…{end}")
}

fn heading(state: &State) -> Line<'static> {
    let up = state.lines.iter().filter(|line| line.usage.is_some()).count();
    let memory: u64 =
        state.lines.iter().filter_map(|line| line.usage).map(|u| u.memory_bytes).sum();
    let asks = state.asks();
    let mut spans = vec![
        Span::styled("hothouse", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {up} of {} up, {} MB", state.lines.len(), memory.div_ceil(1 << 20))),
    ];
    if asks > 0 {
        let text = format!("  {asks} waiting for you: `hothouse asks`");
        spans.push(Span::styled(text, Style::new().fg(Color::Yellow)));
    }
    Line::from(spans)
}

fn footer(state: &State) -> Text<'static> {
    let chosen = state.lines.get(state.chosen);
    let choice = state.choice.as_ref().map(|choice| Span::raw(choice.line()));
    let first = match (&state.note, chosen) {
        (Some(note), _) => {
            Span::styled(visible::line(note).into_owned(), Style::new().fg(Color::Red))
        }
        (None, Some(line)) => {
            let task = line.sandbox.task.clone().unwrap_or_default();
            let urls: Vec<&str> = line.sandbox.apps.values().map(|app| app.url.as_str()).collect();
            let task = task.lines().next().unwrap_or_default().to_owned();
            let agent = line.sandbox.agent.as_ref().map(said).unwrap_or_default();
            let parts = [agent, urls.join("  "), task].into_iter().filter(|part| !part.is_empty());
            Span::raw(visible::line(&parts.collect::<Vec<_>>().join("  ")).into_owned())
        }
        (None, None) => Span::raw("No sandboxes yet: `hothouse fork NAME` makes one."),
    };
    let first = choice.unwrap_or(first);
    let keys = Span::styled(KEYS, Style::new().add_modifier(Modifier::DIM));
    Text::from(vec![Line::from(first), Line::from(keys)])
}

/// Describes an agent: the tool, its state, and why.
fn said(agent: &AgentBrief) -> String {
    let tool: String = agent.tool.chars().take(30).collect();
    match &agent.reason {
        Some(reason) => format!("{tool} {}: {reason}", agent.state),
        None => format!("{tool} {}", agent.state),
    }
}

fn color(health: Health) -> Color {
    match health {
        Health::Good => Color::Green,
        Health::Busy => Color::Yellow,
        Health::Bad => Color::Red,
        Health::Still => Color::DarkGray,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    #[test]
    fn a_name_that_does_not_fit_keeps_its_end() {
        for (name, room, shown) in [
            ("acme/fix-checkout", 20, "acme/fix-checkout"),
            ("acme/fix-checkout", 17, "acme/fix-checkout"),
            ("acme/fix-checkout", 14, "…/fix-checkout"),
            ("é/b", 2, "…b"),
        ] {
            assert_eq!(ending(name, room), shown);
        }
    }

    #[test]
    fn an_empty_screen_says_what_to_do() {
        let mut terminal = Terminal::new(TestBackend::new(80, 6)).unwrap();
        terminal.draw(|frame| draw(frame, &mut State::default())).unwrap();
        let text: String = terminal
            .backend()
            .buffer()
            .content()
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect();
        assert!(text.contains("0 of 0 up") && text.contains("hothouse fork NAME"), "{text}");
        assert!(text.contains("q quit"), "{text}");
    }
}
