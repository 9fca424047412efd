//! Meilisearch.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, TERMINATE, quoted, words};

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { port, data, programs, .. } = *with;
    let server = quoted(&programs.folder.display().to_string());
    let data = quoted(&data.display().to_string());
    let url = format!("http://127.0.0.1:{port}");
    let indexes = format!("curl -sS {url}/indexes");
    PreparedRecipe {
        run: words([
            "/bin/sh",
            "-c",
            &format!(
                "exec {server} --http-addr 127.0.0.1:{port} --db-path {data}/data.ms --no-analytics --env development"
            ),
        ]),
        env: vec![("MEILI_URL".to_owned(), url.clone())],
        path: Vec::new(),
        url,
        account: [
            ("database", String::new()),
            ("user", String::new()),
            ("password", String::new()),
        ],
        question: Question::Http { port, path: "/health".to_owned() },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words(["/bin/sh", "-c", &indexes]),
            tables: words(["/bin/sh", "-c", &indexes]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "meilisearch".to_owned(),
    }
}
