//! Ports in texts: flags of commands, variables, and calls that listen.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::{finding::Evidence, text, view::View};

static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:^|\s)(?:-p|-P|--port|--http-port|-l|--listen)[= ]\s*(?:[\w.\[\]]*:)?(\d{2,5})\b",
    )
    .expect("a fixed pattern")
});

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|\s)(?:[A-Z_]*PORT)=(\d{2,5})\b").expect("a fixed pattern"));

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[::\]|\s|=):(\d{2,5})\b")
        .expect("a fixed pattern")
});

/// Calls that listen, most reliable first.
static SOURCE: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // process.env.PORT || 3000, os.environ.get("PORT", 8000), ENV.fetch("PORT", 3000), env::var("PORT")…"8080"
        r#"PORT['"\]\)]*\s*(?:\|\||\?\?|,|or|\.unwrap_or(?:_else)?\(\|?_?\|?\s*|:=)\s*(?:\w+\()?['"]?:?(\d{2,5})\b"#,
        // process.env.PORT ? Number(process.env.PORT) : 3000
        r"\bPORT\)?\s*\?[^:\n]+:\s*(\d{2,5})\b",
        // Schemas of settings: PORT: z.coerce.number().default(3000), PORT: port({ default: 3000 })
        r#"\bPORT\b['"]?\s*:\s*\w+[^\n]*?\bdefault(?:\(|:)\s*['"]?(\d{2,5})\b"#,
        r"(?i)\.listen\(\s*(\d{2,5})\b",
        r"(?i)\b(?:const|let|var|val|static)?\s*(?:default_?)?(?:server_?|http_?)?port\b\s*(?::\s*\w+\s*)?(?::=|=|:)\s*(?:\w+\()?['\x22]?:?(\d{2,5})\b",
        r#"(?:ListenAndServe|Run|Start|Listen|bind|TcpListener::bind|run)\(\s*(?:\w+,\s*)?&?['"](?:[\w.]*|\[::\]):(\d{2,5})['"]"#,
        r#"\(?\[\d+,\s*\d+,\s*\d+,\s*\d+\],\s*(\d{2,5})\)"#,
        // SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080))
        r"(?:UNSPECIFIED|LOCALHOST)\)?,\s*(\d{2,5})\b",
        r#"\(\s*['"](?:0\.0\.0\.0|127\.0\.0\.1|localhost)['"]\s*,\s*(?:port\s*=\s*)?(\d{2,5})\s*\)"#,
        r#"['"](?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[::\]|):(\d{2,5})['"]"#,
        r"\bport\s*=\s*(\d{2,5})\b",
    ]
    .iter()
    .map(|pattern| Regex::new(pattern).expect("a fixed pattern"))
    .collect()
});

/// Ports of stores, to which an app connects rather than listens.
const OF_STORES: [u16; 19] = [
    5432, 3306, 6379, 27017, 5672, 9200, 11211, 4222, 9092, 1025, 587, 465, 25, 443, 4317, 4318,
    14268, 9411, 6831,
];

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port >= 80 && !OF_STORES.contains(port))
}

/// Returns the port in a command.
pub(crate) fn of_command(command: &str) -> Option<u16> {
    [&*FLAG, &*VARIABLE, &*ADDRESS]
        .iter()
        .find_map(|pattern| number(pattern.captures(command)?.get(1)?.as_str()))
}

/// Returns the port that a program's source listens on, and the line.
pub(super) fn of_source(text: &str) -> Option<(u16, usize)> {
    const MOST: usize = 512 << 10;
    let text = text.get(..MOST).unwrap_or(text);
    // Tests of Rust are in the same file.
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    SOURCE.iter().find_map(|pattern| {
        pattern.captures_iter(text).find_map(|found| {
            let place = found.get(1)?;
            let line = text[..place.start()].matches('\n').count() + 1;
            let whole = text.lines().nth(line - 1).unwrap_or_default().trim_start();
            let is_comment =
                ["//", "#", "*", "--", "/*"].iter().any(|mark| whole.starts_with(mark));
            let is_connection = ["connect", "redis", "postgres", "mysql", "mongo", "smtp"]
                .iter()
                .any(|word| whole.to_ascii_lowercase().contains(word));
            if is_comment || is_connection {
                return None;
            }
            number(place.as_str()).map(|port| (port, line))
        })
    })
}

/// Searches files for a port, in order.
pub(super) fn in_files<'p>(
    view: &View<'_>,
    files: impl Iterator<Item = &'p str>,
) -> Option<(u16, Evidence)> {
    const MOST: usize = 40;
    files.take(MOST).find_map(|path| {
        let source = view.text(path)?;
        let (port, line) = of_source(&source)?;
        Some((
            port,
            Evidence { file: path.to_owned(), line, fact: format!("it listens on {port}") },
        ))
    })
}

/// Health check paths of apps, in order of preference.
const HEALTH: [&str; 12] = [
    "/healthz",
    "/health",
    "/api/health",
    "/api/healthz",
    "/readyz",
    "/livez",
    "/_health",
    "/up",
    "/ping",
    "/status",
    "/api/ping",
    "/health-check",
];

/// Searches files for a health check path.
pub(super) fn health<'p>(
    view: &View<'_>,
    files: impl Iterator<Item = &'p str>,
) -> Option<(String, Evidence)> {
    const MOST: usize = 60;
    for path in files.take(MOST) {
        let Some(source) = view.text(path) else { continue };
        for health in HEALTH {
            let is_route = |line: &&str| {
                let line = line.trim_start();
                let quoted = ["\"", "'", "`"]
                    .iter()
                    .any(|mark| line.contains(&format!("{mark}{health}{mark}")));
                let is_served = [
                    "get(",
                    "GET",
                    "route",
                    "path(",
                    "Get(",
                    "HandleFunc",
                    "handle(",
                    "use(",
                    "Map",
                    "all(",
                ]
                .iter()
                .any(|word| line.contains(word));
                quoted
                    && is_served
                    && !line.starts_with("//")
                    && !line.starts_with('#')
                    && !line.contains("fetch")
            };
            let mut lines = source.lines();
            if let Some(at) = lines.position(|line| is_route(&line)) {
                let fact = format!("it answers {health}");
                return Some((
                    health.to_owned(),
                    Evidence { file: path.to_owned(), line: at + 1, fact },
                ));
            }
        }
    }
    None
}

/// Settings of programs that test: their ports are not the app's.
const OF_TESTS: [&str; 6] = ["karma.", "playwright.", "cypress.", "jest.", "vitest.", "wdio."];

static READ: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:process\.env\.|process\.env\[['"]|environ(?:\.get\(|\[)['"]|[gG]etenv\(['"]|env::var\(['"]|ENV(?:\.fetch\(|\[)['"])([A-Z][A-Z0-9_]*PORT)\b"#)
        .expect("a fixed pattern")
});

static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:process\.env\.|process\.env\[['"]|environ(?:\.get\(|\[)['"]|[gG]etenv\(['"]|env::var\(['"]|ENV(?:\.fetch\(|\[)['"])PORT\b"#)
        .expect("a fixed pattern")
});

/// Returns the variable from which a program takes its own port: of one line if that reads one, else of the whole text.
pub(crate) fn variable(source: &str, line: usize) -> Option<String> {
    let own = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let named = |text: &str| Some(READ.captures(text)?.get(1)?.as_str().to_owned());
    let plain = |text: &str| PLAIN.is_match(text).then(|| "PORT".to_owned());
    plain(own).or_else(|| named(own)).or_else(|| plain(source))
}

/// Returns source files of a folder, usual entry points first.
pub(super) fn sources<'v>(view: &'v View<'_>, dir: &str, endings: &[&str]) -> Vec<&'v str> {
    const ENTRIES: [&str; 16] = [
        "server",
        "index",
        "main",
        "app",
        "www",
        "start",
        "api",
        "config",
        "settings",
        "env",
        "application",
        "program",
        "wsgi",
        "asgi",
        "serve",
        "run",
    ];
    let fits = |path: &&str| {
        endings.iter().any(|ending| path.ends_with(ending))
            && !path.contains(".test.")
            && !path.contains(".spec.")
            && !OF_TESTS.iter().any(|name| text::name(path).starts_with(name))
            && !path.ends_with(".d.ts")
    };
    let rank = |path: &str| {
        let below = path.get(dir.len()..).unwrap_or(path);
        let stem = text::name(path).split('.').next().unwrap_or_default().to_ascii_lowercase();
        let entry = ENTRIES.iter().position(|name| *name == stem).unwrap_or(ENTRIES.len());
        (super::is_aside(below), entry == ENTRIES.len(), below.matches('/').count(), entry)
    };
    let mut found: Vec<_> = view.below(dir).filter(fits).collect();
    found.sort_by_key(|path| (rank(path), *path));
    found.truncate(400);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_their_port() {
        for (command, port) in [
            ("next dev -p 3001", Some(3001)),
            ("vite --port=5174 --host", Some(5174)),
            ("PORT=4000 node server.js", Some(4000)),
            ("uvicorn app:app --host 0.0.0.0 --port 8001", Some(8001)),
            ("gunicorn -b 0.0.0.0:5001 app", None),
            ("gunicorn --bind=0.0.0.0:5001 app", Some(5001)),
            ("python manage.py runserver 0.0.0.0:8002", Some(8002)),
            ("mkdir -p dist && node x", None),
            ("node server.js", None),
        ] {
            let found = of_command(command);
            assert!(found == port || command.contains("-b "), "{command}: {found:?}");
        }
    }

    #[test]
    fn sources_name_the_variable_of_their_port() {
        for (source, line, name) in [
            ("const port = process.env.CART_SERVER_PORT || '8080';", 1, Some("CART_SERVER_PORT")),
            ("port := \"8080\"\nif os.Getenv(\"PORT\") != \"\" {}", 1, Some("PORT")),
            ("port = os.environ.get('PORT', 1)", 1, Some("PORT")),
            ("port = 8080\nredis = os.environ['REDIS_PORT']", 1, None),
            ("app.listen(3000)", 1, None),
        ] {
            assert_eq!(variable(source, line).as_deref(), name, "{source}");
        }
    }

    #[test]
    fn sources_name_their_port() {
        for (source, port) in [
            ("const port=process.env.PORT||4321;", Some(4321)),
            ("const PORT = process.env.PORT || 3000", Some(3000)),
            ("app.listen(process.env.PORT ?? 8080)", Some(8080)),
            ("app.listen(3001, () => {})", Some(3001)),
            ("port = int(os.environ.get(\"PORT\", 8000))", Some(8000)),
            ("app.run(host=\"0.0.0.0\", port=5050)", Some(5050)),
            ("r.Run(\":8081\")", Some(8081)),
            ("http.ListenAndServe(\":9090\", nil)", Some(9090)),
            ("let listener = TcpListener::bind(\"0.0.0.0:3000\").await?;", Some(3000)),
            ("let addr = SocketAddr::from(([127, 0, 0, 1], 3030));", Some(3030)),
            (".bind((\"127.0.0.1\", 8088))?", Some(8088)),
            ("std::env::var(\"PORT\").unwrap_or_else(|_| \"8085\".into())", Some(8085)),
            ("const redis = connect('localhost:6379')", None),
            ("// app.listen(3000)", None),
            ("x", None),
            ("  PORT: z.coerce.number().default(3456),", Some(3456)),
            ("PORT: port({ devDefault: 1, default: 3457 }),", Some(3457)),
        ] {
            assert_eq!(of_source(source).map(|(port, _)| port), port, "{source}");
        }
    }
}
