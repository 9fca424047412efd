//! Java and Kotlin: Maven, Gradle, Spring Boot, Quarkus, Micronaut.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::{
    finding::{App, Certainty, Evidence, Findings, Step, Store},
    text,
    view::View,
};

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let manifests =
        [view.named(&["pom.xml"]), view.named(&["build.gradle", "build.gradle.kts"])].concat();
    for manifest in manifests.into_iter().filter(|path| !super::is_aside(path)).take(60) {
        one(view, &manifest, found);
    }
}

/// Returns the folder of the wrapper that builds a folder, and the wrapper's command relative to
/// that folder.
fn wrapper(view: &View<'_>, dir: &str, script: &str) -> Option<String> {
    let mut above = dir;
    let mut up = String::from("./");
    loop {
        if view.has(&text::join(above, script)) {
            return Some(format!("{up}{script}"));
        }
        if above.is_empty() {
            return None;
        }
        above = text::folder(above);
        up = if up == "./" { "../".to_owned() } else { format!("{up}../") };
    }
}

fn one(view: &View<'_>, manifest: &str, found: &mut Findings) {
    let dir = text::folder(manifest).to_owned();
    let text_of = view.text(manifest).unwrap_or_default();
    let is_maven = manifest.ends_with("pom.xml");
    let script = if is_maven { "mvnw" } else { "gradlew" };
    let program = if is_maven { "mvn" } else { "gradle" };
    let evidence = view.evidence(manifest, "", format!("built by {program}"));
    let build = match wrapper(view, &dir, script) {
        // A wrapper may lack the executable bit in the repository.
        Some(path) => format!("sh {path}"),
        None => {
            found.needs(program, &evidence);
            program.to_owned()
        }
    };
    found.needs("java", &evidence);
    if found.checks.iter().all(|check| check.name != "jvm-test") {
        let run = format!("{build} test");
        found.checks.push(Step {
            name: "jvm-test".to_owned(),
            dir: dir.clone(),
            run,
            evidence: vec![evidence.clone()],
        });
    }
    let is_spring = if is_maven {
        text_of.contains("spring-boot-maven-plugin")
    } else {
        text_of.contains("org.springframework.boot") && !text_of.contains("apply false")
    };
    let (title, run) = match () {
        () if is_spring && is_maven => ("Spring Boot", format!("{build} -q spring-boot:run")),
        () if is_spring => ("Spring Boot", format!("{build} bootRun")),
        () if text_of.contains("quarkus-maven-plugin") => {
            ("Quarkus", format!("{build} quarkus:dev -Dquarkus.analytics.disabled=true"))
        }
        () if text_of.contains("io.quarkus") && !is_maven => {
            ("Quarkus", format!("{build} quarkusDev"))
        }
        () if text_of.contains("micronaut-maven-plugin") => {
            ("Micronaut", format!("{build} mn:run"))
        }
        () if text_of.contains("io.micronaut.application") => ("Micronaut", format!("{build} run")),
        () if text_of.contains("io.ktor") && text_of.contains("application") && !is_maven => {
            ("Ktor", format!("{build} run"))
        }
        () => return,
    };
    if title == "Spring Boot"
        && !view.below(&text::join(&dir, "src/main")).any(|path| {
            path.ends_with(".java") || path.ends_with(".kt") || path.ends_with(".groovy")
        })
    {
        return;
    }
    // Some projects support both tools.
    if found.apps.iter().any(|app| app.dir == dir && app.framework == Some(title)) {
        return;
    }
    let name = if dir.is_empty() { "web".to_owned() } else { text::service_name(text::name(&dir)) };
    let mut app = App::web(&name, &dir, run);
    (app.framework, app.port) = (Some(title), Some(8080));
    app.evidence.push(evidence);
    settings(view, &dir, &mut app, found);
    if text_of.contains("spring-boot-starter-actuator") {
        app.health = Some("/actuator/health".to_owned());
        app.evidence.push(view.evidence(
            manifest,
            "spring-boot-starter-actuator",
            "the actuator answers /actuator/health",
        ));
    }
    found.apps.push(app);
}

static PORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^\s*(?:server\.port|quarkus\.http\.port|micronaut\.server\.port)\s*=\s*(?:\$\{\w+:)?(\d{2,5})").expect("a fixed pattern")
});

/// Reads port and data source from the application's settings.
fn settings(view: &View<'_>, dir: &str, app: &mut App, found: &mut Findings) {
    let folder = text::join(dir, "src/main/resources");
    let names = [
        "application.properties",
        "application.yml",
        "application.yaml",
        "application-dev.properties",
        "application-dev.yml",
    ];
    for path in names.iter().map(|name| text::join(&folder, name)).filter(|path| view.has(path)) {
        let Some(source) = view.text(&path) else { continue };
        if let Some(port) =
            PORT.captures(&source).and_then(|found| found.get(1)?.as_str().parse().ok())
        {
            app.port = Some(port);
            app.evidence.push(view.evidence(&path, "port", format!("the server's port is {port}")));
        }
        if path.ends_with("ml") {
            let value = view.yaml(&path).unwrap_or_default();
            if let Some(port) =
                value["server"]["port"].as_u64().and_then(|port| port.try_into().ok())
            {
                app.port = Some(port);
                app.evidence.push(view.evidence(
                    &path,
                    "port",
                    format!("the server's port is {port}"),
                ));
            }
        }
        for (line, text) in source.lines().enumerate() {
            let Some(at) = text.find("jdbc:") else { continue };
            let url = text[at..].trim().trim_matches(['"', '\'', '}']);
            let Some(kind) = super::settings::scheme_of(url) else { continue };
            let fact = format!("the data source is {}", kind.word());
            let mut store = Store::new(
                kind,
                Certainty::Named,
                Evidence { file: path.clone(), line: line + 1, fact },
            );
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            let database = rest
                .split_once('/')
                .map(|(_, path)| path.split(['?', ';', '}']).next().unwrap_or_default());
            store.database = database.filter(|name| !name.is_empty()).map(str::to_owned);
            let value = |key: &str| {
                let line = source.lines().find(|line| line.trim_start().starts_with(key))?;
                let value = line.split_once(['=', ':'])?.1.trim().trim_matches(['"', '\'']);
                Some(value.to_owned()).filter(|value| !value.is_empty() && !value.contains("${"))
            };
            store.user = value("spring.datasource.username").or_else(|| value("username"));
            store.password = value("spring.datasource.password").or_else(|| value("password"));
            app.env.insert(
                "SPRING_DATASOURCE_URL".to_owned(),
                format!(
                    "jdbc:{}://{{STORE.host}}:{{STORE.port}}/{{STORE.database}}",
                    if kind == crate::finding::StoreKind::Mysql { "mysql" } else { "postgresql" }
                ),
            );
            app.env.insert("SPRING_DATASOURCE_USERNAME".to_owned(), "{STORE.user}".to_owned());
            app.env.insert("SPRING_DATASOURCE_PASSWORD".to_owned(), "{STORE.password}".to_owned());
            found.store(store);
        }
    }
}
