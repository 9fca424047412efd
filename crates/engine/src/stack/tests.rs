//! Tests that resolve the services of small configs.

use super::*;

static HOST: BTreeMap<String, String> = BTreeMap::new();

fn facts(profile: &str) -> Facts<'_> {
    let programs = Programs { folder: "/pg/bin".into(), version: "15".into() };
    Facts {
        profile,
        worktree: Path::new("/w/a"),
        environment: vec![("PATH".into(), "/bin".into())],
        host: &HOST,
        logs: "/state/logs/a".into(),
        data: "/s/.hothouse/data/a".into(),
        golden: "/s/.hothouse/golden-data".into(),
        programs: BTreeMap::from([("db".parse().unwrap(), programs)]),
        images: BTreeMap::new(),
        names: Some(Names { sandbox: "a", project: "shop", port: 8443 }),
        sandbox: "shop-a-1",
    }
}

fn stack(text: &str, profile: &str) -> Result<Stack, StackError> {
    let config = hothouse_config::parse("hothouse.toml", text).unwrap().config;
    resolve(&config.for_profile(Some(profile)).unwrap(), &facts(profile))
}

const SHOP: &str = r#"
    [service.db]
    recipe = "postgres"
    [service.api]
    run = "npm start"
    dir = "apps/api"
    needs = ["db"]
    port = 3000
    ready = { http = "/health" }
    watch = ["src"]
    [service.api.env]
    DATABASE_URL = "{db.url}"
    SELF = "{port}"
    WEB = "{web.url}/x"
    WEB_INSIDE = "{web.local}"
    [service.web]
    run = "npm run web"
    url = "web"
    port = 80
    [profile.e2e.service.api]
    build = "npm run build"
"#;

#[test]
fn a_port_that_takes_something_has_no_program_and_an_address() {
    let text = r#"
        [service.mail]
        recipe = "mailbox"
        [service.traces]
        recipe = "otel"
        port = 4000
        [service.api]
        run = "x"
        needs = [{ service = "mail", condition = "ready" }]
        env = { MAIL = "{mail.url}", TRACES = "{traces.url}", PORT_OF_MAIL = "{mail.port}" }
    "#;
    let stack = stack(text, "dev").unwrap();
    let [api, mail, traces] = &stack.order.services[..] else { panic!("three services") };
    assert_eq!(api.spec.env["MAIL"], "smtp://127.0.0.1:1025");
    assert_eq!(api.spec.env["TRACES"], "http://127.0.0.1:4000");
    assert_eq!((api.spec.env["PORT_OF_MAIL"].as_str(), api.spec.needs.len()), ("1025", 1));
    assert_eq!((mail.sink, traces.sink), (Some(SinkRecipe::Mailbox), Some(SinkRecipe::Otel)));
    assert!(mail.spec.run.is_empty() && mail.database.is_none() && api.sink.is_none());
    assert_eq!(mail.spec.probe.as_ref().unwrap().question, Question::Tcp { port: 1025 });
    assert!(stack.data.is_empty(), "there is nothing to keep");
}

#[test]
fn references_are_resolved_and_folders_lie_in_the_worktree() {
    let stack = stack(SHOP, "dev").unwrap();
    let api = &stack.order.services[0];
    assert_eq!(api.spec.env["DATABASE_URL"], "postgres://postgres:postgres@127.0.0.1:5432/app");
    assert_eq!((api.spec.env["SELF"].as_str(), api.spec.env["PORT"].as_str()), ("3000", "3000"));
    assert_eq!(api.spec.env["WEB"], "https://web.a.shop.localhost:8443/x");
    assert_eq!(api.spec.env["WEB_INSIDE"], "http://127.0.0.1:80");
    assert_eq!(api.spec.folder, Path::new("/w/a/apps/api"));
    assert_eq!(api.spec.watch, [Path::new("/w/a/src")]);
    assert!(matches!(
        &api.spec.probe.as_ref().unwrap().question,
        Question::Http { port: 3000, .. }
    ));
    assert!(!stack.frozen && api.spec.build.is_none());
    let web = &stack.order.services[2].spec.probe.as_ref().unwrap().question;
    assert!(matches!(web, Question::Tcp { port: 80 }), "an app is asked by itself: {web:?}");
}

#[test]
fn variables_of_integrations_exist_in_the_room_alone_and_a_signing_secret_is_made_up() {
    let text = format!(
        r#"{SHOP}
        [env.MODE]
        kind = "public"
        value = "own"
        [integration.search]
        class = "local"
        env = {{ SEARCH_URL = "{{web.local}}/search", MODE = "emulator" }}
        [integration.pay]
        class = "mock"
        webhook = {{ to = "api", path = "/hook", secret = "PAY_SECRET" }}
        [integration.db]
        class = "mock"
        webhook = {{ to = "api", path = "/hook", secret = "DATABASE_URL" }}
    "#
    );
    let stack = stack(&text, "dev").unwrap();
    assert_eq!(stack.variables["SEARCH_URL"], "http://127.0.0.1:80/search");
    assert_eq!(stack.variables["MODE"], "own");
    assert!(stack.variables["PAY_SECRET"].starts_with("whsec_"));
    assert!(!stack.variables.contains_key("DATABASE_URL"), "the service sets it");
    let api = &stack.order.services[0].spec.env;
    assert_eq!(api["PAY_SECRET"], stack.variables["PAY_SECRET"]);
}

#[test]
fn a_variable_may_be_for_some_services_only() {
    let text = r#"
        [service.db]
        recipe = "postgres"
        database = "shop"
        user = "ann"
        [service.api]
        run = "x"
        [service.worker]
        run = "x"
        env = { A = "own" }
        [service.web]
        run = "x"
        [env.A]
        kind = "public"
        value = "{db.url}"
        services = ["api", "worker"]
        [env.B]
        kind = "public"
        value = "{db.database} {db.user} {db.password}"
    "#;
    let stack = stack(text, "dev").unwrap();
    let of = |name: &str| {
        let found = stack.order.services.iter().find(|service| service.name() == name);
        found.unwrap().spec.env.clone()
    };
    assert_eq!(of("api")["A"], "postgres://ann:ann@127.0.0.1:5432/shop");
    assert_eq!((of("worker")["A"].as_str(), of("web").contains_key("A")), ("own", false));
    assert!(!stack.variables.contains_key("A"), "commands do not have it");
    assert_eq!(stack.variables["B"], "shop ann ann");
}

#[test]
fn references_in_commands_are_resolved_and_other_braces_stay() {
    let text = r#"
        [service.db]
        recipe = "postgres"
        [service.api]
        run = "migrate {db.url} && awk '{print $1}' ${db.url} {a.b} {db.nope} {web.port} {"
        build = "echo {db.port}"
        ready = { exec = "check {db.host}" }
        [service.web]
        run = "x --port {port} ${port} {other}"
        port = 80
    "#;
    let stack = stack(text, "dev").unwrap();
    let run_of = |at: usize| stack.order.services[at].spec.run[2].as_str();
    assert!((0..3).any(|at| run_of(at) == "x --port 80 ${port} {other}"), "its own port");
    let api = &stack.order.services[0].spec;
    let url = "postgres://postgres:postgres@127.0.0.1:5432/app";
    assert_eq!(
        api.run[2],
        format!("migrate {url} && awk '{{print $1}}' ${{db.url}} {{a.b}} {{db.nope}} 80 {{")
    );
    assert_eq!(api.build.as_ref().unwrap()[2], "echo 5432");
    let question = &api.probe.as_ref().unwrap().question;
    assert!(matches!(question, Question::Exec { words } if words[2] == "check 127.0.0.1"));
}

#[test]
fn a_frozen_profile_runs_elsewhere_and_watches_nothing() {
    let stack = stack(SHOP, "e2e").unwrap();
    let api = &stack.order.services[0];
    assert!(stack.frozen && api.spec.build.is_some() && api.spec.watch.is_empty());
    assert_eq!(api.spec.folder, Path::new("/srv/frozen/apps/api"));
}

#[test]
fn a_recipe_brings_data_a_probe_and_an_environment() {
    let stack = stack(SHOP, "dev").unwrap();
    let db = &stack.order.services[1];
    assert_eq!(db.spec.env["PATH"], "/pg/bin:/bin");
    assert_eq!(db.spec.env["PGDATABASE"], "app");
    assert!(db.spec.probe.is_some() && db.database.is_some());
    let [data] = &stack.data[..] else { panic!("{:?}", stack.data) };
    assert_eq!(data.folder, Path::new("/s/.hothouse/data/a/db"));
    assert!(data.golden.starts_with("/s/.hothouse/golden-data"));
    assert_eq!(data.kind, "postgres 15");
}

#[test]
fn services_on_the_host_are_not_started_and_not_waited_for() {
    let stack = stack(
        "[service.a]\nrun = \"x\"\nneeds = [\"b\"]\n[service.b]\nhost = true\nport = 9\n",
        "dev",
    );
    let order = stack.unwrap().order;
    assert_eq!(order.services.len(), 1);
    assert!(order.services[0].spec.needs.is_empty());
    assert_eq!(order.hosted, [HostedOrder { service: "b".into(), port: 9 }]);
}
