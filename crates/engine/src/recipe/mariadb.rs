//! MariaDB, or MySQL if the host has that.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, SOCKETS, TERMINATE, quoted, words};

/// The room's user, who needs no password.
const USER: &str = "agent";

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { service, port, data, programs, account } = *with;
    let (database, user) = (account.database(), account.user.unwrap_or(USER));
    let password = account.password.unwrap_or_default();
    let server = programs.folder.display().to_string();
    let is_mariadb = server.ends_with("mariadbd");
    let client = if is_mariadb { "mariadb" } else { "mysql" };
    let data = data.display().to_string();
    let socket = format!("{SOCKETS}/{service}.sock");
    let run = format!(
        "exec {} --no-defaults --datadir={} --port={port} --socket={socket} --bind-address=127.0.0.1 --pid-file={SOCKETS}/{service}.pid \
         --skip-name-resolve --skip-log-bin --innodb-flush-log-at-trx-commit=1 --innodb-doublewrite=1 --innodb-buffer-pool-size=32M \
         --performance-schema=OFF --character-set-server=utf8mb4",
        quoted(&server),
        quoted(&data),
    );
    let port_text = port.to_string();
    let env = [
        ("MYSQL_HOST", "127.0.0.1"),
        ("MYSQL_TCP_PORT", port_text.as_str()),
        ("MYSQL_UNIX_PORT", socket.as_str()),
        ("MYSQL_PWD", password),
    ];
    let env = env.into_iter().filter(|(_, value)| !value.is_empty());
    let shell = [client, "--socket", &socket, "--user", user, database];
    let colon = if password.is_empty() { "" } else { ":" };
    PreparedRecipe {
        run: words(["/bin/sh", "-c", &run]),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        path: Vec::new(),
        url: format!("mysql://{user}{colon}{password}@127.0.0.1:{port}/{database}"),
        account: [
            ("database", database.to_owned()),
            ("user", user.to_owned()),
            ("password", password.to_owned()),
        ],
        question: Question::Tcp { port },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words(shell),
            tables: words(["/bin/sh", "-c", &tables(client, &socket, user, database)]),
        },
        script: script(&server, is_mariadb, [database, user, password]),
        settle: String::new(),
        kind: if is_mariadb { "mariadb".into() } else { "mysql".into() },
    }
}

/// Counts rows exactly, because the server's own numbers are estimates. The server quotes the names, which may contain
/// anything.
fn tables(client: &str, socket: &str, user: &str, database: &str) -> String {
    let ask = format!("{client} --socket {} --user {user} -N -B -r {database}", quoted(socket));
    let counts = quoted(
        "select concat('select ', quote(table_name), ', count(*) from `', replace(table_name, '`', '``'), '`;') \
         from information_schema.tables where table_schema = database() order by table_name",
    );
    format!("counts=$({ask} -e {counts}) && printf '%s' \"$counts\" | {ask}")
}

/// Creates the system tables first, then our own user and database, without a listening server.
fn script(server: &str, is_mariadb: bool, [database, user, password]: [&str; 3]) -> String {
    let server = quoted(server);
    let install = match is_mariadb {
        true => {
            "mariadb-install-db --no-defaults --datadir=\"$DATA\" --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve >\"$LOG\" 2>&1 || { cat \"$LOG\"; exit 1; }".to_owned()
        }
        false => format!("{server} --no-defaults --datadir=\"$DATA\" --initialize-insecure"),
    };
    let known = match password {
        "" => String::new(),
        password => format!(" IDENTIFIED BY \"{password}\""),
    };
    let user = format!("`{user}`");
    // The system tables already have `root`.
    let create = if user == "`root`" { "ALTER USER IF EXISTS" } else { "CREATE USER" };
    let other = if user == "`root`" { "CREATE USER IF NOT EXISTS" } else { "CREATE USER" };
    // If names are not resolved, these take precedence over `%`.
    let more = match user.as_str() {
        "`root`" => ["127.0.0.1", "::1"]
            .map(|host| format!("ALTER USER IF EXISTS {user}@`{host}`{known};\\n"))
            .concat(),
        _ => String::new(),
    };
    let make = format!(
        "CREATE DATABASE `{database}`;\\n{create} {user}@localhost{known};\\n{other} {user}@`%%`{known};\\n{more}\
         GRANT ALL ON *.* TO {user}@localhost WITH GRANT OPTION;\\nGRANT ALL ON *.* TO {user}@`%%` WITH GRANT OPTION;\\n"
    );
    match is_mariadb {
        true => format!(
            "set -e\nLOG=/tmp/install.log\n{install}\n\
             {{ echo 'FLUSH PRIVILEGES;'; printf {make}; }} | {server} --no-defaults --datadir=\"$DATA\" --bootstrap --skip-name-resolve\n",
            make = quoted(&make)
        ),
        false => format!(
            "set -e\nprintf {make} >/tmp/init.sql\n{install} --init-file=/tmp/init.sql\n",
            make = quoted(&make)
        ),
    }
}
