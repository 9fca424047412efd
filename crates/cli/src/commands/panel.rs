//! The launch panel: where a sandbox is, its state, and what to type next. `up` and `status` print
//! it to teach the commands.

use hothouse_api::{SandboxView, sandbox::CaveatView, seed::RunSeedView, service::ServiceView};
use hothouse_model::{
    SandboxState,
    caveat::{Area, Caveat, Class},
    stack::service::ServiceState,
};

use crate::{
    render::{Cell, cut, indented_table, plain, wrapped},
    ui::{Tone, Ui},
};

/// Renders the panel of a sandbox, the most important parts first.
pub(super) fn panel(ui: &Ui, sandbox: &SandboxView) -> String {
    let shown = std::iter::once(title(ui, sandbox)).chain(pending(ui, sandbox));
    let shown = shown.chain(running(ui, sandbox)).chain(told_caveats(ui, sandbox, ui.is_verbose()));
    shown.chain(further(ui, sandbox)).collect::<Vec<_>>().join("\n\n")
}

/// Renders the state and the name.
pub(super) fn title(ui: &Ui, sandbox: &SandboxView) -> String {
    let title = format!("Sandbox {}: {}", state_word(sandbox), sandbox.name);
    format!("{}  {}", ui.paint(Tone::Strong, &title), ui.paint(Tone::Faint, &sandbox.id))
}

/// Returns the state as a reader would put it: a sleeping sandbox is asleep.
pub(super) fn state_word(sandbox: &SandboxView) -> &'static str {
    if sandbox.asleep { "asleep" } else { sandbox.state.as_str() }
}

/// Lists the host ports that lead to the apps.
pub(super) fn ports(sandbox: &SandboxView) -> String {
    let port = |url: &String| url.rsplit(':').next().map(str::to_owned);
    let apps = sandbox.apps.values().filter_map(|app| port(&app.direct));
    let exposed = sandbox.exposed.iter().map(|exposed| exposed.host_port.to_string());
    let all: Vec<_> = apps.chain(exposed).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

/// Renders what waits for the user's decision.
pub(super) fn pending(ui: &Ui, sandbox: &SandboxView) -> Option<String> {
    let pending = sandbox.caveats.iter().find(|caveat| caveat.class == Class::Pending)?;
    let text = format!("Approval needed: {}", plain(&pending.text));
    let lines = wrapped(&text, ui.columns().unwrap_or(usize::MAX));
    let lines = lines.iter().map(|line| ui.paint(Tone::Warning, line));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Renders the URLs of apps and the states of services, one section each.
pub(super) fn running(ui: &Ui, sandbox: &SandboxView) -> Vec<String> {
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
        all.push(section(ui, "Services", &services(ui, sandbox)));
    }
    if let Some(seed) = sandbox.run.as_ref().and_then(|run| run.seed.as_ref()) {
        all.push(section(ui, "Seed", &seeded(ui, seed)));
    }
    all
}

/// Renders what else a sandbox offers: commands that inspect it, and its artifacts.
pub(super) fn further(ui: &Ui, sandbox: &SandboxView) -> Vec<String> {
    let mut all = Vec::new();
    if is_up(sandbox.state) {
        let rows = commands(sandbox)
            .into_iter()
            .map(|(what, command)| vec![Cell::new(what).tone(Tone::Faint), Cell::new(command)]);
        all.push(section(ui, "Inspect", &rows_of(ui, rows.collect())));
    }
    if let Some(run) = &sandbox.run {
        all.push(section(ui, "Artifacts", &plain(&run.artifacts)));
    }
    all
}

/// Renders caveats: each in full, or all on one line that names the most important ones.
pub(super) fn told_caveats(ui: &Ui, sandbox: &SandboxView, whole: bool) -> Option<String> {
    let is_told_above = |caveat: &&CaveatView| caveat.class == Class::Pending;
    if sandbox.caveats.iter().all(|caveat| is_told_above(&caveat)) {
        return None;
    }
    Some(match whole {
        true => section(ui, "Caveats", &caveats(ui, sandbox)),
        false => {
            let line = format!("Caveats: {}", caveat_line(&sandbox.caveats, &sandbox.name));
            let lines = wrapped(&line, ui.columns().unwrap_or(usize::MAX)).join("\n");
            lines.replacen("Caveats:", &ui.paint(Tone::Strong, "Caveats:"), 1)
        }
    })
}

/// Names missing fences and integrations that are not real, and counts the rest.
fn caveat_line(caveats: &[CaveatView], sandbox: &str) -> String {
    let told: Vec<_> = caveats.iter().filter(|caveat| caveat.class != Class::Pending).collect();
    let mut named: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, area) in told.iter().filter_map(|caveat| short(caveat)) {
        match named.iter_mut().find(|(known, _)| *known == what) {
            Some((_, areas)) => areas.extend(area),
            None => named.push((what, area.into_iter().collect())),
        }
    }
    let more = told.iter().filter(|caveat| short(caveat).is_none()).count();
    let more = match (more, named.is_empty()) {
        (0, _) => None,
        (more, true) => Some(format!("{more}, see `hothouse status {sandbox} --caveats`")),
        (more, false) => Some(format!("{more} more: `hothouse status {sandbox} --caveats`")),
    };
    let names = named.iter().map(|(what, areas)| match areas.as_slice() {
        [] => (*what).to_owned(),
        [one] => format!("{} {what}", plain(one)),
        [all @ .., last] => format!("{} and {} {what}", plain(&all.join(", ")), plain(last)),
    });
    names.chain(more).collect::<Vec<_>>().join("; ")
}

/// Returns a short form of a caveat and its area, if a reader must know it without asking.
fn short(caveat: &CaveatView) -> Option<(&'static str, Option<&str>)> {
    let about = |what| (what, Some(caveat.area.as_str()));
    let area = caveat.value.as_ref().and_then(Caveat::own_area);
    Some(match (area, caveat.class.known()?) {
        (Some(Area::NoMemoryCgroup), _) => ("memory unlimited", None),
        (Some(Area::NoCpuCgroup), _) => ("CPU unlimited", None),
        (Some(Area::NoPidsCgroup), _) => ("processes limited for the user only", None),
        (Some(Area::Memory), _) => ("processes killed for lack of memory", None),
        (Some(Area::SingleUid), _) => ("no root in the room", None),
        (_, Class::NotLoaded) => ("fixtures not loaded", None),
        (_, Class::Mock) => about("mocked"),
        (_, Class::Sink) => about("recorded, not sent"),
        (_, Class::Disable) => about("disabled"),
        (_, Class::Shim) => about("shimmed"),
        (_, Class::TestMode) => about("in test mode"),
        (_, Class::ReadOnly) => about("read-only"),
        (_, Class::NoIntegration) => about("not covered"),
        (_, Class::LiveKey) => ("a live key is allowed", None),
        (_, Class::Closed) => ("network closed", None),
        (_, Class::Died) => ("the room ended unexpectedly", None),
        (_, Class::Outside) => ("a tool is outside the room", None),
        (_, Class::Diverged) => ("branch diverged", None),
        (_, Class::NotImported) => ("commits not imported", None),
        (_, Class::LookClosely) => ("files to look at closely", None),
        (_, Class::SecretMissing) => ("a secret is missing", None),
        (_, Class::RoomOnly) => ("files only in the room", None),
        (_, Class::LeftOut) => ("dependencies left out", None),
        _ => return None,
    })
}

/// Returns the next command, by the state of a sandbox.
pub(super) fn next(sandbox: &SandboxView) -> String {
    let name = &sandbox.name;
    let ill = sandbox.services.iter().find(|service| !service.state.is_well());
    match (sandbox.state, ill) {
        (SandboxState::Created | SandboxState::Stopped | SandboxState::Failed, _) => {
            format!("hothouse up {name}")
        }
        (SandboxState::Paused, _) => format!("hothouse resume {name}"),
        (SandboxState::Deleting, _) => format!("hothouse delete {name}"),
        (SandboxState::Starting, _) => format!("hothouse status {name} -f"),
        (_, Some(service)) => format!("hothouse logs {} -w {name}", plain(&service.name)),
        (_, None) if !sandbox.apps.is_empty() => format!("hothouse open -w {name}"),
        (_, None) => format!("hothouse exec -w {name} -- COMMAND"),
    }
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
    let rows = sandbox
        .caveats
        .iter()
        .map(|caveat| vec![Cell::new(&caveat.area).tone(Tone::Warning), Cell::new(&caveat.text)]);
    rows_of(ui, rows.collect())
}

/// Returns the state of a service as a reader would put it: in a paused or sleeping room, it is
/// paused or asleep too.
fn service_word(sandbox: &SandboxView, service: &ServiceView) -> &'static str {
    let ran = !matches!(service.state, ServiceState::Completed | ServiceState::Failed);
    match sandbox.state {
        _ if sandbox.asleep && ran => "asleep",
        SandboxState::Paused if service.pid.is_some() => "paused",
        _ => service.state.as_str(),
    }
}

/// Renders services as a table.
fn services(ui: &Ui, sandbox: &SandboxView) -> String {
    let services = &sandbox.services;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let columns = ui.columns();
    let longest = services.iter().map(|service| service.name.chars().count()).max().unwrap_or(0);
    // The width before the last column: margin, name, state, pid, port and restarts.
    const BEFORE: usize = 2 + 2 + 11 + 9 + 7 + 10;
    const LEAST: usize = 12;
    let left = columns.map_or(usize::MAX, |columns| columns.saturating_sub(BEFORE + longest));
    let rows = services.iter().map(|service| {
        let word = service_word(sandbox, service);
        let rests = word != service.state.as_str();
        let tone = if rests { Tone::Faint } else { service_tone(service.state) };
        let told = match &service.exit {
            _ if rests => None,
            Some(exit) if service.pid.is_none() => Some(exit.to_string()),
            _ => service.health.as_ref().map(ToString::to_string),
        };
        vec![
            Cell::new(&service.name).tone(Tone::Strong),
            Cell::new(word).tone(tone),
            Cell::new(or_dash(service.pid.map(|pid| pid.to_string()))),
            Cell::new(or_dash(service.port.map(|port| port.to_string()))),
            Cell::new(service.restarts.to_string()),
            Cell::new(cut(&or_dash(told), left.max(LEAST))),
        ]
    });
    let heads = ["SERVICE", "STATE", "PID", "PORT", "RESTARTS", "HEALTH"];
    indented_table(ui, &heads, rows.collect(), INDENT)
}

/// Renders what a run was seeded with.
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
    let whole = indented_table(ui, &[], rows, INDENT);
    whole.strip_prefix('\n').map(str::to_owned).unwrap_or(whole)
}

/// The indent of a section's body.
const INDENT: usize = 2;

fn section(ui: &Ui, title: &str, body: &str) -> String {
    let lines = body.lines().map(|line| format!("{:INDENT$}{line}", ""));
    std::iter::once(ui.paint(Tone::Strong, title)).chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use hothouse_model::{SandboxName, caveat::Several, config::IntegrationClass, fence::Fence};

    use super::*;

    fn integration(name: &str, class: IntegrationClass) -> Caveat {
        Caveat::Integration { name: name.into(), class, limits: String::new() }
    }

    #[test]
    fn one_line_names_what_matters_and_counts_the_rest() {
        let changes = Several { shown: Vec::new(), more: 1 };
        let all = [
            Caveat::Unlimited(Fence::Memory),
            integration("stripe", IntegrationClass::Mock),
            Caveat::RoomFiles { uid: 1 },
            Caveat::Pending { changes, sandbox: SandboxName::try_from("a".to_owned()).unwrap() },
            Caveat::NoResolver,
        ]
        .map(CaveatView::from);
        assert_eq!(
            caveat_line(&all, "a"),
            "memory unlimited; stripe mocked; 2 more: `hothouse status a --caveats`"
        );
        assert_eq!(caveat_line(&all[1..2], "a"), "stripe mocked");
        let shop = [
            integration("mail", IntegrationClass::Sink),
            integration("llm", IntegrationClass::Mock),
            integration("s3", IntegrationClass::Sink),
            integration("stripe", IntegrationClass::Mock),
            integration("tax", IntegrationClass::Mock),
        ]
        .map(CaveatView::from);
        assert_eq!(
            caveat_line(&shop, "a"),
            "mail and s3 recorded, not sent; llm, stripe and tax mocked"
        );
        assert_eq!(caveat_line(&all[2..4], "a"), "1, see `hothouse status a --caveats`");
    }
}
