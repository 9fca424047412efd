//! NATS, with JetStream's data in the sandbox.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, TERMINATE, quoted, words};

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { port, data, programs, .. } = *with;
    let server = quoted(&programs.folder.display().to_string());
    let data = quoted(&data.display().to_string());
    let url = format!("nats://127.0.0.1:{port}");
    PreparedRecipe {
        run: words([
            "/bin/sh",
            "-c",
            &format!("exec {server} --addr 127.0.0.1 --port {port} --jetstream --store_dir {data}"),
        ]),
        env: vec![("NATS_URL".to_owned(), url.clone())],
        path: Vec::new(),
        url,
        account: [
            ("database", String::new()),
            ("user", String::new()),
            ("password", String::new()),
        ],
        question: Question::Tcp { port },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words(["nats"]),
            tables: words(["nats", "stream", "ls", "--names"]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "nats".to_owned(),
    }
}
