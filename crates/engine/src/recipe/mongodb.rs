//! MongoDB, with its journal on.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, TERMINATE, quoted, words};

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { port, data, programs, account, .. } = *with;
    let server = quoted(&programs.folder.display().to_string());
    let data = quoted(&data.display().to_string());
    let database = account.database();
    let url = format!("mongodb://127.0.0.1:{port}/{database}");
    PreparedRecipe {
        run: words([
            "/bin/sh",
            "-c",
            &format!(
                "exec {server} --dbpath {data} --bind_ip 127.0.0.1 --port {port} --wiredTigerCacheSizeGB 0.25"
            ),
        ]),
        env: vec![("MONGODB_URI".to_owned(), url.clone())],
        path: Vec::new(),
        url: url.clone(),
        account: [
            ("database", database.to_owned()),
            ("user", String::new()),
            ("password", String::new()),
        ],
        question: Question::Tcp { port },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words(["mongosh", "--quiet", &url]),
            tables: words([
                "mongosh",
                "--quiet",
                &url,
                "--eval",
                "db.getCollectionNames().forEach(n => print(n + '\\t' + db[n].estimatedDocumentCount()))",
            ]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "mongodb".to_owned(),
    }
}
