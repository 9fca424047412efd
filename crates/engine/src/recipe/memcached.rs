//! memcached. It stores nothing on disk.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, TERMINATE, quoted, words};

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { port, programs, .. } = *with;
    let server = quoted(&programs.folder.display().to_string());
    let ask =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'stats\\r\\nquit\\r\\n' >&3; cat <&3");
    PreparedRecipe {
        run: words(["/bin/sh", "-c", &format!("exec {server} -l 127.0.0.1 -p {port} -m 64")]),
        env: vec![("MEMCACHED_SERVERS".to_owned(), format!("127.0.0.1:{port}"))],
        path: Vec::new(),
        url: format!("memcached://127.0.0.1:{port}"),
        account: [
            ("database", String::new()),
            ("user", String::new()),
            ("password", String::new()),
        ],
        question: Question::Tcp { port },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words([
                "/bin/bash",
                "-c",
                &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3 & cat >&3"),
            ]),
            tables: words(["/bin/bash", "-c", &ask]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "memcached".to_owned(),
    }
}
