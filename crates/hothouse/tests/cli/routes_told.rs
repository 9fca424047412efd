//! Routes that frameworks report in a room, which their source does not show.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hothouse_testkit::{TestEnv, skip};

use crate::{services::is_installed, surroundings};

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

/// Returns a line for each route of `a`.
fn told(env: &TestEnv, repository: &Path, words: &[&str]) -> Vec<String> {
    let routes = env.json(repository, &[&["routes", "-w", "a", "--json"], words].concat());
    let line = |one: &serde_json::Value| {
        let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
        let (app, path, source) = (text("app"), text("path"), text("source"));
        format!("{app} {} {path} ({source})", one["methods"][0].as_str().unwrap())
    };
    routes.as_array().unwrap().iter().map(line).collect()
}

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
    let told = |words: &[&str]| told(&env, &repository, words);
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

/// Creates a repository with one service in `app`, which serves files: only the framework's own command is queried.
fn app(env: &TestEnv, files: &[(&str, &str)]) -> PathBuf {
    let config = "[project]\nname = \"apps\"\n[service.web]\nrun = \"python3 -m http.server 3000 --bind 127.0.0.1\"\ndir = \"app\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";
    let repository = env.repository_with("apps", config, files);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    repository
}

/// Checks that these routes are reported, and that they are not found in the source.
fn adds(env: &TestEnv, repository: &Path, lines: &[&str]) {
    let found = told(env, repository, &[]);
    assert!(!found.iter().any(|line| line.contains("/cats")), "{found:#?}");
    let asked = told(env, repository, &["--ask"]);
    for line in lines {
        assert!(asked.iter().any(|one| one == line), "{line} is not in {asked:#?}");
    }
}

#[test]
fn rails_is_asked() {
    let has_rails = || {
        let ran = Command::new("ruby").args(["-e", "require 'action_controller/railtie'"]).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    if !is_installed("ruby") || !has_rails() {
        return skip("routes of Rails", "ruby-railties");
    }
    let env = surroundings();
    if !env.can_have_rooms("routes of Rails") {
        return;
    }
    let repository = app(
        &env,
        &[
            (
                "app/bin/rails",
                "APP_PATH = File.expand_path('../config/application', __dir__)\nrequire 'rails/commands'\n",
            ),
            (
                "app/config/application.rb",
                "require 'rails'\nrequire 'action_controller/railtie'\nclass Shop < Rails::Application\n  config.eager_load = false\n  config.secret_key_base = 'x' * 32\n  config.logger = Logger.new(nil)\nend\n",
            ),
            (
                "app/config/environment.rb",
                "require_relative 'application'\nRails.application.initialize!\n",
            ),
            (
                "app/config/routes.rb",
                "Rails.application.routes.draw do\n  get '/home', to: 'home#show'\n  %w[cats dogs].each { |name| post \"/#{name}/:id\", to: 'pets#show' }\nend\n",
            ),
        ],
    );
    let lines = [
        "web GET /home (app/config/routes.rb:2)",
        "web POST /cats/:id (told by Rails)",
        "web POST /dogs/:id (told by Rails)",
    ];
    adds(&env, &repository, &lines);
}

/// A Laravel app as Debian packages Laravel: without Composer, its classes below one folder.
const LARAVEL: [(&str, &str); 5] = [
    (
        "app/artisan",
        r#"<?php
spl_autoload_register(function ($class) {
    $file = '/usr/share/php/'.str_replace('\\', '/', $class).'.php';
    if (is_file($file)) { require $file; }
});
foreach (glob('/usr/share/php/Illuminate/*/autoload.php') as $file) { require_once $file; }
foreach (['Support', 'Collections', 'Foundation'] as $part) {
    $file = "/usr/share/php/Illuminate/$part/helpers.php";
    if (is_file($file)) { require_once $file; }
}
$app = require __DIR__.'/bootstrap/app.php';
$kernel = $app->make(Illuminate\Contracts\Console\Kernel::class);
exit($kernel->handle(new Symfony\Component\Console\Input\ArgvInput, new Symfony\Component\Console\Output\ConsoleOutput));
"#,
    ),
    (
        "app/bootstrap/app.php",
        r"<?php
class Routes extends Illuminate\Foundation\Support\Providers\RouteServiceProvider {
    public function map() { require base_path('routes/web.php'); }
}
$app = new Illuminate\Foundation\Application(dirname(__DIR__));
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
return $app;
",
    ),
    ("app/bootstrap/cache/.gitkeep", ""),
    (
        "app/config/app.php",
        r#"<?php
$parts = ['Filesystem\Filesystem', 'View\View', 'Cache\Cache', 'Queue\Queue', 'Database\Database', 'Foundation\Providers\ConsoleSupport', 'Foundation\Providers\Foundation'];
$providers = array_map(fn ($part) => "Illuminate\\{$part}ServiceProvider", $parts);
return ['key' => str_repeat('x', 32), 'cipher' => 'AES-256-CBC', 'timezone' => 'UTC', 'aliases' => [], 'providers' => [...$providers, Routes::class]];
"#,
    ),
    (
        "app/routes/web.php",
        r#"<?php
use Illuminate\Support\Facades\Route;
Route::get('/home', fn () => 'hello');
foreach (['cats', 'dogs'] as $name) { Route::post("/$name/{id}", fn ($id) => $name); }
"#,
    ),
];

#[test]
fn laravel_is_asked() {
    if !is_installed("php") || !Path::new("/usr/share/php/Illuminate/Foundation").exists() {
        return skip("routes of Laravel", "php-cli and php-laravel-framework");
    }
    let env = surroundings();
    if !env.can_have_rooms("routes of Laravel") {
        return;
    }
    let repository = app(&env, &LARAVEL);
    let lines = [
        "web GET /home (app/routes/web.php:3)",
        "web POST /cats/:id (told by Laravel)",
        "web POST /dogs/:id (told by Laravel)",
    ];
    adds(&env, &repository, &lines);
}
