//! Routes that frameworks report in a room, which their source does not show.

use std::{fs, process::Command};

use hothouse_testkit::skip;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "apps"
[service.flask]
run = "/usr/bin/python3 -m flask run --port 3001"
dir = "flask"
env = { PYTHONPATH = "../.lib", FLASK_APP = "app.py" }
port = 3001
ready = { tcp = true }
url = "flask"
[service.fast]
run = "/usr/bin/python3 -m uvicorn main:app --port 3002"
dir = "fast"
env = { PYTHONPATH = "../.lib" }
port = 3002
ready = { tcp = true }
url = "fast"
[service.django]
run = "/usr/bin/python3 manage.py runserver --noreload 3003"
dir = "django"
env = { PYTHONPATH = "../.lib", PYTHONWARNINGS = "ignore" }
port = 3003
ready = { tcp = true }
url = "django"
[service.silent]
run = "/usr/bin/python3 -m http.server 3004 --bind 127.0.0.1"
dir = "silent"
port = 3004
ready = { tcp = true }
url = "silent"
"#;

const FLASK: &str = "from flask import Flask\napp = Flask(__name__)\nfor name in ['cats', 'dogs']:\n    app.add_url_rule('/%s/<int:id>' % name, name, lambda id: '', methods=['POST'])\n";

const FAST: &str = "from fastapi import FastAPI\napp = FastAPI()\nfor name in ['birds', 'fish']:\n    app.add_api_route('/%s/{id}' % name, lambda id: {}, methods=['DELETE'])\n";

const DJANGO: &str = r#"import os, sys
from django.conf import settings
from django.http import HttpResponse
from django.urls import include, path
if not settings.configured:
    settings.configure(DEBUG=True, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", INSTALLED_APPS=[])
answer = lambda request, **values: HttpResponse("")
urlpatterns = [path("pets/", include([path("%s/<int:id>/" % name, answer) for name in ["mice", "bees"]]))]
if __name__ == "__main__":
    sys.modules["manage"] = sys.modules["__main__"]
    settings.ROOT_URLCONF = "manage"
    from django.core.management import execute_from_command_line
    execute_from_command_line(sys.argv)
"#;

#[test]
fn frameworks_are_asked_in_the_room_for_routes_that_no_source_shows() {
    let env = surroundings();
    if !env.can_have_rooms("routes that frameworks tell") {
        return;
    }
    let files = [
        ("flask/app.py", FLASK),
        ("fast/main.py", FAST),
        ("django/manage.py", DJANGO),
        ("silent/index.html", "hello"),
        (".gitignore", ".lib\n__pycache__\n"),
    ];
    let repository = env.repository_with("apps", CONFIG, &files);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("apps-sandboxes/a");
    let pip =
        ["-m", "pip", "install", "-q", "--target", ".lib", "flask", "fastapi", "uvicorn", "django"];
    let installed = Command::new("/usr/bin/python3").args(pip).current_dir(&worktree).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return skip("routes that frameworks tell", "pip and a registry");
    }
    let down = env.run(&repository, &["routes", "--ask", "-w", "a"]);
    assert!(down.code == 5 && down.stderr.contains("hothouse up"), "{down}");
    env.ok(&repository, &["up", "-w", "a"]);
    let told = |words: &[&str]| -> Vec<String> {
        let routes = env.json(&repository, &[&["routes", "-w", "a", "--json"], words].concat());
        let line = |one: &serde_json::Value| {
            let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} ({})",
                text("app"),
                one["methods"][0].as_str().unwrap(),
                text("path"),
                text("source")
            )
        };
        routes.as_array().unwrap().iter().map(line).collect()
    };
    let found = told(&[]);
    assert!(
        !found.iter().any(|line| line.contains("/cats") || line.contains("/bees")),
        "{found:#?}"
    );
    let asked = told(&["--ask"]);
    for line in [
        "flask POST /cats/:id (told by Flask)",
        "flask POST /dogs/:id (told by Flask)",
        "fast DELETE /birds/:id (told by OpenAPI)",
        "django ANY /pets/mice/:id (told by Django)",
        "django ANY /pets/bees/:id (told by Django)",
    ] {
        assert!(asked.iter().any(|one| one == line), "{line} is not in {asked:#?}");
    }
    let of_one = told(&["flask", "--ask"]);
    assert!(of_one.iter().all(|line| line.starts_with("flask ")), "{of_one:#?}");
    // Output of the app is only text: a flood, or an app that hangs, is cut off.
    let noisy = "print('x' * 10_000_000)\nfrom flask import Flask\napp = Flask(__name__)\n";
    fs::write(worktree.join("flask/app.py"), noisy).unwrap();
    assert!(!told(&["flask", "--ask"]).iter().any(|line| line.contains("xxxx")));
}
