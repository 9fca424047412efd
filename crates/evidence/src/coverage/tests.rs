use super::*;

fn lines(of: &[u32]) -> LineSet {
    of.iter().copied().collect()
}

fn text(path: &str, changed: &[u32]) -> ChangedText {
    ChangedText { path: path.into(), text: Some(String::new()), lines: lines(changed) }
}

fn changed(path: &str, of: &[u32]) -> ChangedFile {
    ChangedFile {
        path: path.into(),
        added: Some(of.len() as u64),
        removed: Some(0),
        lines: lines(of),
    }
}

#[test]
fn only_changed_lines_count_and_one_meter_is_enough() {
    let files = [text("app.py", &[2, 3, 4, 9]), text("other.py", &[1])];
    let roots = ["/srv/w".to_owned()];
    let mut collector = Collector::new(&files, &roots);
    let states = |ran: &[u32], idle: &[u32]| LineStates { ran: lines(ran), idle: lines(idle) };
    collector.lines(Meter::Python, [("/srv/w/app.py".to_owned(), states(&[1, 2], &[3, 4]))].into());
    collector.lines(Meter::Python, [("/srv/w/app.py".to_owned(), states(&[3], &[1, 2, 4]))].into());
    collector.lines(Meter::Python, [("/usr/lib/x.py".to_owned(), states(&[1], &[]))].into());
    collector.request("GET", "/cart?token=1");
    collector.request("GET", "/cart");
    let coverage = collector.done();
    assert_eq!(coverage.files.len(), 1);
    assert_eq!((&coverage.files[0].ran, &coverage.files[0].idle), (&lines(&[2, 3]), &lines(&[4])));
    assert_eq!(coverage.requests, ["GET /cart"]);

    let route = |path: &str, method: &str| Route {
        app: None,
        path: path.into(),
        methods: vec![method.into()],
        source: "app.py:2".into(),
    };
    let files = [
        changed("app.py", &[2, 3, 4, 9]),
        changed("other.py", &[1]),
        changed("a.rb", &[1]),
        changed("x.css", &[1]),
    ];
    let routes = [route("/cart", "GET"), route("/cart", "POST"), route("/:any", "ANY")];
    let change = of_change(&files, &[&coverage], &routes);
    assert_eq!(change.files[0].not_run, lines(&[4]));
    assert_eq!(change.files[1].unmeasured.as_deref(), Some("never imported by a service"));
    let exercised: Vec<bool> = change.routes.iter().map(|route| route.exercised).collect();
    assert_eq!(exercised, [true, false, true]);
    assert_eq!(
        told(&change, &[]),
        [
            "changed lines that never ran: app.py 4",
            "changed files that were not measured (Ruby is measured only by a service's own `coverage` command): a.rb",
            "changed files that were not measured (never imported by a service): other.py",
            "changed files that were not measured (not code that runs line by line): x.css",
            "routes of changed files that were not requested: POST /cart (app.py:2)",
        ]
    );
}

#[test]
fn routes_of_a_change_are_those_that_a_changed_line_may_be_part_of() {
    let route = |source: &str| Route {
        app: None,
        path: "/".into(),
        methods: Vec::new(),
        source: source.into(),
    };
    let all = ["a.js:3", "a.js:40", "b.js:1", "scenario buy"].map(route).to_vec();
    let left = changed_routes(all, &[changed("a.js", &[5, 9])]);
    assert_eq!(left.iter().map(|one| one.source.as_str()).collect::<Vec<_>>(), ["a.js:3"]);
}
