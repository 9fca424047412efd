//! Elixir: Mix and Phoenix.

use crate::{
    finding::{App, Certainty, Findings, Install, Step, Store, StoreKind},
    text,
    view::View,
};

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let Some(manifest) = view.named(&["mix.exs"]).into_iter().find(|path| !super::is_aside(path))
    else {
        return;
    };
    let dir = text::folder(&manifest).to_owned();
    let text = view.text(&manifest).unwrap_or_default();
    let evidence = view.evidence(&manifest, "deps", "dependencies are installed by Mix");
    found.needs("mix", &evidence);
    found.installs.push(Install {
        manager: "mix",
        dir: dir.clone(),
        run: "mix local.hex --force --if-missing && mix local.rebar --force --if-missing && mix deps.get".to_owned(),
        fills: vec!["deps", "_build"],
        evidence: vec![evidence.clone()],
    });
    if text.contains(":postgrex") {
        found.store(Store::new(
            StoreKind::Postgres,
            Certainty::Named,
            view.evidence(&manifest, ":postgrex", "Ecto on PostgreSQL"),
        ));
    }
    if text.contains(":myxql") {
        found.store(Store::new(
            StoreKind::Mysql,
            Certainty::Named,
            view.evidence(&manifest, ":myxql", "Ecto on MySQL"),
        ));
    }
    found.checks.push(Step {
        name: "test".to_owned(),
        dir: dir.clone(),
        run: "mix test".to_owned(),
        evidence: vec![evidence.clone()],
    });
    if !text.contains(":phoenix") {
        return;
    }
    let name = if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(&dir)) };
    let mut app = App::web(&name, &dir, "mix phx.server");
    (app.framework, app.port) = (Some("Phoenix"), Some(4000));
    app.evidence.push(view.evidence(&manifest, ":phoenix", "Phoenix"));
    found.apps.push(app);
    if text.contains(":ecto_sql") || text.contains(":phoenix_ecto") {
        found.migrations.push(Step {
            name: "migrate".to_owned(),
            dir,
            run: "mix ecto.create --quiet && mix ecto.migrate".to_owned(),
            evidence: vec![evidence],
        });
    }
}
