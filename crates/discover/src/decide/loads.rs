//! Files that database images load on first start, as tasks: recipes have no such folder.

use crate::{
    draft::{Draft, DraftWork},
    finding::{Evidence, Findings, Load, StoreKind},
    text,
};

use super::{free, service};

/// Adds a task for each database that loads files. Returns their names.
pub(super) fn decide(found: &Findings, draft: &mut Draft) -> Vec<String> {
    let mut tasks = Vec::new();
    for load in &found.loads {
        if !load.others.is_empty() {
            let fact = format!(
                "`{}` runs {} at its first start in compose, and not here: write a task that does the same",
                load.store,
                load.others.join(", ")
            );
            draft.caveats.push(Evidence { fact, ..load.evidence[0].clone() }.to_string());
        }
        let is_recipe = draft.services.iter().any(|known| {
            known.name == load.store && matches!(known.work, DraftWork::Recipe { .. })
        });
        let run = command(load).filter(|_| !load.files.is_empty());
        let Some(run) = run.filter(|_| is_recipe) else {
            if !load.files.is_empty() {
                let fact = format!(
                    "`{}` loads {} at its first start in compose, and not here: write a task or a seed that does",
                    load.store,
                    load.files.join(", ")
                );
                draft.caveats.push(Evidence { fact, ..load.evidence[0].clone() }.to_string());
            }
            continue;
        };
        let name = text::service_name(&format!("{}-load", load.store));
        let name = free(&name, |name| {
            draft.services.iter().any(|service| service.name == name)
                || found.apps.iter().any(|app| app.name == name)
        });
        let mut task = service(&name, "", &run, true, &load.evidence);
        task.needs = vec![load.store.clone()];
        task.note = Some(
            "what compose loads at the first start: only where there are no tables yet".to_owned(),
        );
        draft.services.push(task);
        tasks.push(name);
    }
    tasks
}

/// Returns the command that loads the files into a database without tables.
fn command(load: &Load) -> Option<String> {
    let store = &load.store;
    let files: Vec<_> = load.files.iter().map(|file| text::shell_word(file)).collect();
    match load.kind {
        StoreKind::Postgres => {
            let client = format!("psql {{{store}.url}} -X");
            let flags: Vec<_> = files.iter().map(|file| format!("-f {file}")).collect();
            Some(format!(
                "test $({client} -tAc 'select count(*) from pg_stat_user_tables') != 0 || {client} -q -v ON_ERROR_STOP=1 {}",
                flags.join(" ")
            ))
        }
        StoreKind::Mysql => {
            let client = format!(
                "mysql --host={{{store}.host}} --port={{{store}.port}} --user={{{store}.user}} --password={{{store}.password}} {{{store}.database}}"
            );
            Some(format!(
                "test $({client} -N -e 'select count(*) from information_schema.tables where table_schema = database()') != 0 || cat {} | {client}",
                files.join(" ")
            ))
        }
        _ => None,
    }
}
