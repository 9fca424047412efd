//! An SQLite file. There is no server: the service is a folder that is forked and snapshotted with
//! the rest of the data, and an idle process, so that `needs`, `status` and `db` work as for every
//! other database.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, TERMINATE, quoted, words};

/// Counts the rows of each table; Python includes SQLite even if its shell is not installed.
const TABLES: &str = "import sqlite3, sys\n\
    c = sqlite3.connect(sys.argv[1])\n\
    for (n,) in c.execute(\"select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by 1\"):\n\
    \x20   print(n, c.execute('select count(*) from \"%s\"' % n.replace('\"', '\"\"')).fetchone()[0], sep='\\t')\n";

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { data, programs, account, .. } = *with;
    let file = format!("{}/{}.db", data.display(), account.database());
    let sleep = quoted(&programs.folder.display().to_string());
    let url = format!("sqlite://{file}");
    PreparedRecipe {
        run: words(["/bin/sh", "-c", &format!("exec {sleep} infinity")]),
        env: vec![("SQLITE_FILE".to_owned(), file.clone())],
        path: Vec::new(),
        url,
        account: [
            ("database", account.database().to_owned()),
            ("user", String::new()),
            ("password", String::new()),
        ],
        question: Question::Exec { words: words(["test", "-w", &data.display().to_string()]) },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words(["sqlite3", &file]),
            tables: words(["python3", "-c", TABLES, &file]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "sqlite".to_owned(),
    }
}
