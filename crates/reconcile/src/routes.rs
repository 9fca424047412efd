//! Routes reported by frameworks in the room: by their own command in the app's folder and with the
//! environment of its service, or from the OpenAPI description that the app serves.
//!
//! *To add a framework:* add its detection and its command to `ASK`, and its parser to
//! `model::routes::told`.

use std::time::Duration;

use hothouse_model::{
    Failure, SandboxRecord,
    routes::{Route, told},
};

use crate::{
    Keepers,
    in_room::{InRoom, RoomTask},
};

/// The time limit of an app, and the maximum output.
const PATIENCE: Duration = Duration::from_secs(30);
const KEEP: usize = 4 << 20;

const LABEL: &str = "routes";

/// Detects the framework of a folder, and queries it. The first line names it, followed by its
/// routes.
const ASK: &str = r#"python=python3
for p in .venv/bin/python venv/bin/python; do [ -x "$p" ] && python=./$p && break; done
if [ -f manage.py ]; then
  echo Django; exec "$python" manage.py shell -c "$DJANGO"
elif [ -f config/routes.rb ] && [ -f bin/rails ]; then
  echo Rails; exec ruby bin/rails runner "$RAILS"
elif [ -f artisan ]; then
  echo Laravel; exec php artisan route:list --json
elif [ -n "$FLASK_APP" ] || [ -f app.py ] || [ -f wsgi.py ]; then
  grep -qs flask "${FLASK_APP:-/dev/null}" app.py wsgi.py "${FLASK_APP:-none}.py" "${FLASK_APP:-none}/__init__.py" || exit 0
  echo Flask; exec "$python" -c "$FLASK"
fi
"#;

const DJANGO: &str = r#"
from django.urls import get_resolver, URLResolver
def walk(patterns, prefix):
    for one in patterns:
        path = prefix + str(one.pattern)
        if isinstance(one, URLResolver): walk(one.url_patterns, path)
        else:
            of = getattr(one.callback, "view_class", None) or getattr(one.callback, "cls", None)
            names = [m for m in ("get", "post", "put", "patch", "delete") if of and hasattr(of, m)]
            print(",".join(names) + "\t/" + path)
walk(get_resolver().url_patterns, "")
"#;

const FLASK: &str = r#"
from flask.cli import ScriptInfo
for rule in ScriptInfo().load_app().url_map.iter_rules(): print(",".join(sorted(rule.methods)) + "\t" + rule.rule)
"#;

const RAILS: &str = r#"
Rails.application.routes.routes.each { |r| puts [r.verb, r.path.spec].join("\t") unless r.internal }
"#;

/// Queries the apps of a running sandbox, or one of them. Apps that do not answer are skipped.
pub async fn ask(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    app: Option<&str>,
) -> Result<Vec<Route>, Failure> {
    let room = InRoom::of(&keepers.engine, &keepers.connections, sandbox).await?;
    let mut all = Vec::new();
    for service in &room.stack.services {
        let Some(label) =
            service.app.as_deref().filter(|label| app.is_none_or(|app| app == *label))
        else {
            continue;
        };
        let mut told = by_command(&room, service.name(), label).await?;
        if told.is_empty()
            && let Some(port) = service.port
        {
            told = by_description(&room, port, label).await;
        }
        all.extend(told);
    }
    Ok(all)
}

async fn by_command(room: &InRoom, service: &str, app: &str) -> Result<Vec<Route>, Failure> {
    let mut task = RoomTask::shell(ASK).of_service(service);
    (task.label, task.timeout, task.keep) = (LABEL, PATIENCE, KEEP);
    task.env = [("DJANGO", DJANGO), ("FLASK", FLASK), ("RAILS", RAILS)]
        .map(|(name, question)| (name.to_owned(), question.to_owned()))
        .to_vec();
    let ended = room.run(task).await?;
    if !ended.is_ok() {
        tracing::debug!(app, end = %ended.end, said = ?ended.last_lines(3), "no routes were told");
        return Ok(Vec::new());
    }
    let printed = ended.stdout.text();
    let (framework, rest) = printed.split_once('\n').unwrap_or((&printed, ""));
    Ok(match framework {
        "Laravel" => told::read_laravel(rest, app),
        "Django" | "Flask" | "Rails" => told::read_lines(rest, app, framework),
        _ => Vec::new(),
    })
}

/// Reads `/openapi.json` of the app itself, if it serves one.
async fn by_description(room: &InRoom, port: u16, app: &str) -> Vec<Route> {
    match room.get(port, "/openapi.json", "hothouse-routes", KEEP, PATIENCE).await {
        Ok((200, body)) => told::read_openapi(&body, app),
        _ => Vec::new(),
    }
}
