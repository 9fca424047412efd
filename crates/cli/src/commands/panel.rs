//! The launch panel: where a sandbox is, its state, and what to type next. `up` and `status` print
//! it; it teaches the commands.

use hothouse_api::{SandboxView, seed::RunSeedView, service::ServiceView};
use hothouse_host::terminal;
use hothouse_model::{SandboxState, stack::service::ServiceState};

use crate::{
    render::{Cell, plain, table},
    ui::{Tone, Ui},
};

/// Renders the panel of a sandbox.
pub(super) fn panel(ui: &Ui, sandbox: &SandboxView) -> String {
    let title = format!("Sandbox {}: {}", sandbox.state.as_str(), sandbox.name);
    let title =
        format!("{}  {}", ui.paint(Tone::Strong, &title), ui.paint(Tone::Faint, &sandbox.id));
    let caveats =
        (!sandbox.caveats.is_empty()).then(|| section(ui, "Caveats", &caveats(ui, sandbox)));
    std::iter::once(title)
        .chain(sections(ui, sandbox))
        .chain(caveats)
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Renders what a running sandbox offers, one section each.
pub(super) fn sections(ui: &Ui, sandbox: &SandboxView) -> Vec<String> {
    let mut all = Vec::new();
    if !sandbox.apps.is_empty() {
        let rows = sandbox.apps.iter().map(|(app, urls)| {
            vec![
                Cell::new(app).tone(Tone::Strong),
                Cell::new(&urls.url),
                Cell::new(&urls.direct).tone(Tone::Faint),
            ]
        });
        all.push(section(ui, "Apps", &rows_of(ui, rows.collect())));
    }
    if !sandbox.exposed.is_empty() {
        let rows = sandbox.exposed.iter().map(|port| {
            vec![
                Cell::new(format!("port {}", port.port)).tone(Tone::Strong),
                Cell::new(format!("127.0.0.1:{}", port.host_port)),
            ]
        });
        all.push(section(ui, "Exposed", &rows_of(ui, rows.collect())));
    }
    if !sandbox.services.is_empty() {
        all.push(section(ui, "Services", &services(ui, &sandbox.services)));
    }
    if let Some(seed) = sandbox.run.as_ref().and_then(|run| run.seed.as_ref()) {
        all.push(section(ui, "Seed", &seeded(ui, seed)));
    }
    if is_up(sandbox.state) {
        let rows = commands(sandbox)
            .into_iter()
            .map(|(what, command)| vec![Cell::new(what).tone(Tone::Faint), Cell::new(command)]);
        all.push(section(ui, "Next steps", &rows_of(ui, rows.collect())));
    }
    if let Some(run) = &sandbox.run {
        all.push(section(ui, "Artifacts", &plain(&run.artifacts)));
    }
    all
}

pub(super) fn is_up(state: SandboxState) -> bool {
    matches!(state, SandboxState::Ready | SandboxState::Starting | SandboxState::Degraded)
}

/// Returns commands that inspect the sandbox, only those with something to show.
fn commands(sandbox: &SandboxView) -> Vec<(&'static str, String)> {
    let name = &sandbox.name;
    let mut all = vec![
        ("status", format!("hothouse status -w {name}")),
        ("run", format!("hothouse exec -w {name} -- COMMAND")),
        ("shell", format!("hothouse shell -w {name}")),
    ];
    // The logs of the service that is not ready are the useful ones.
    let ill = sandbox.services.iter().find(|service| !service.state.is_well());
    let app = sandbox
        .services
        .iter()
        .find(|service| service.url.as_deref().is_some_and(|url| url.starts_with("https://")));
    if let Some(service) = ill.or(app).or(sandbox.services.first()) {
        all.push(("logs", format!("hothouse logs {} -w {name} -f", plain(&service.name))));
    }
    if sandbox.services.iter().any(|service| service.url.as_deref().is_some_and(is_database)) {
        all.push(("database", format!("hothouse db -w {name}")));
    }
    all.push(("changes", format!("hothouse diff -w {name}")));
    if !sandbox.apps.is_empty() {
        all.push(("dashboard", "hothouse ui".to_owned()));
    }
    all.push(("end", format!("hothouse down -w {name}")));
    all
}

fn is_database(url: &str) -> bool {
    ["postgres://", "mysql://", "mariadb://", "redis://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
}

fn caveats(ui: &Ui, sandbox: &SandboxView) -> String {
    let areas = sandbox.caveats.iter().map(|caveat| caveat.area.as_str().len());
    // Two spaces before an area and two after the longest.
    let left = areas.max().unwrap_or(0) + 4;
    let room = terminal::size().map(|(_, columns)| usize::from(columns).saturating_sub(left));
    let rows = sandbox.caveats.iter().flat_map(|caveat| {
        let lines = wrapped(&caveat.text, room.unwrap_or(usize::MAX));
        lines.into_iter().enumerate().map(|(at, line)| {
            let area = if at == 0 { caveat.area.as_str() } else { "" };
            vec![Cell::new(area).tone(Tone::Warning), Cell::new(line)]
        })
    });
    rows_of(ui, rows.collect())
}

/// Wraps a text at a width; a very narrow terminal wraps by itself.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    const LEAST: usize = 24;
    let room = if room < LEAST { usize::MAX } else { room };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() || line.chars().count() + 1 + word.chars().count() <= room {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Shows services as a table.
fn services(ui: &Ui, services: &[ServiceView]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows = services.iter().map(|service| {
        let told = match &service.exit {
            Some(exit) if service.pid.is_none() => Some(exit.to_string()),
            _ => service.health.as_ref().map(ToString::to_string),
        };
        vec![
            Cell::new(&service.name).tone(Tone::Strong),
            Cell::new(service.state.as_str()).tone(service_tone(service.state)),
            Cell::new(or_dash(service.pid.map(|pid| pid.to_string()))),
            Cell::new(or_dash(service.port.map(|port| port.to_string()))),
            Cell::new(service.restarts.to_string()),
            Cell::new(or_dash(told)),
        ]
    });
    table(ui, &["SERVICE", "STATE", "PID", "PORT", "RESTARTS", "HEALTH"], rows.collect())
}

/// Shows what a run was seeded with.
fn seeded(ui: &Ui, seed: &RunSeedView) -> String {
    let what = match &seed.radius {
        Some(radius) => format!("{radius}: {}", seed.bundles.join(", ")),
        None => seed.bundles.join(", "),
    };
    let what = if seed.ok { what } else { format!("{what} (not whole)") };
    let mut rows = vec![vec![Cell::new("bundles").tone(Tone::Strong), Cell::new(what)]];
    rows.extend(super::seed::ids(seed.ids.iter()));
    let caveats = seed.caveats.iter();
    rows.extend(caveats.map(|text| vec![Cell::new("caveat").tone(Tone::Warning), Cell::new(text)]));
    rows_of(ui, rows)
}

fn service_tone(state: ServiceState) -> Tone {
    match state {
        ServiceState::Ready | ServiceState::Completed => Tone::Good,
        ServiceState::Failed => Tone::Bad,
        ServiceState::Stopped => Tone::Faint,
        _ => Tone::Warning,
    }
}

/// Renders rows without a heading.
fn rows_of(ui: &Ui, rows: Vec<Vec<Cell>>) -> String {
    let whole = table(ui, &[], rows);
    whole.strip_prefix('\n').map(str::to_owned).unwrap_or(whole)
}

fn section(ui: &Ui, title: &str, body: &str) -> String {
    let lines = body.lines().map(|line| format!("  {line}"));
    std::iter::once(ui.paint(Tone::Strong, title)).chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_broken_between_words_where_there_is_room() {
        let text = "this host's resolver does not know names below .localhost";
        assert_eq!(
            wrapped(text, 24),
            ["this host's resolver", "does not know names", "below .localhost"]
        );
        assert_eq!(wrapped(text, usize::MAX), [text]);
        assert_eq!(wrapped(text, 10), [text], "too narrow to be read in a column");
        let long = "/a/path/that/is/longer/than/a/line";
        assert_eq!(wrapped(&format!("see {long} there"), 24), ["see", long, "there"]);
    }
}
