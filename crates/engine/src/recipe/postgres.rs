//! PostgreSQL, any installed major version.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{INTERRUPT, PreparedRecipe, RecipeContext, SOCKETS, quoted, words};

const USER: &str = "postgres";

/// Settings besides paths and ports. None of them can lose a committed row.
const SETTINGS: [&str; 12] = [
    "listen_addresses=*",
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "shared_buffers=32MB",
    "max_connections=100",
    "wal_level=logical",
    "max_wal_size=256MB",
    "min_wal_size=8MB",
    "huge_pages=off",
    "jit=off",
    "log_line_prefix=",
];

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { port, data, programs, account, .. } = *with;
    let (database, user) = (account.database(), account.user.unwrap_or(USER));
    let password = account.password.unwrap_or(user);
    let folder = programs.folder.display().to_string();
    let data = data.display().to_string();
    let settings = SETTINGS.iter().map(|setting| format!(" -c {}", quoted(setting)));
    let settings: String = settings.collect();
    // The lock file of a killed server names a pid that another process of a new room may have by
    // now. No process of the service is running when it is started, so the file is stale.
    let run = format!(
        "rm -f {data}/postmaster.pid {SOCKETS}/.s.PGSQL.{port}*; exec {program} -D {data} -p {port} -k {SOCKETS}{settings}",
        data = quoted(&data),
        program = quoted(&format!("{folder}/postgres")),
    );
    let port_text = port.to_string();
    let env = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", port_text.as_str()),
        ("PGUSER", user),
        ("PGDATABASE", database),
        ("PGDATA", data.as_str()),
    ];
    PreparedRecipe {
        run: words(["/bin/sh", "-c", &run]),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        path: vec![folder.clone()],
        url: format!("postgres://{user}:{password}@127.0.0.1:{port}/{database}"),
        account: [
            ("database", database.to_owned()),
            ("user", user.to_owned()),
            ("password", password.to_owned()),
        ],
        question: Question::Exec {
            words: words([
                &format!("{folder}/pg_isready"),
                "-h",
                "127.0.0.1",
                "-p",
                &port.to_string(),
                "-t",
                "1",
            ]),
        },
        stop_signal: INTERRUPT,
        database: DatabaseOrder {
            shell: words(["psql"]),
            tables: words(["psql", "-qtA", "-F", "\t", "-c", TABLES]),
        },
        script: script(&folder, database, user, password),
        settle: settle(&folder, database),
        kind: format!("postgres {}", major(&programs.version)),
    }
}

/// Returns the part of a version that determines the data format (10 changed the scheme).
fn major(version: &str) -> String {
    let mut parts = version.split('.');
    let first = parts.next().unwrap_or_default();
    match first.parse::<u32>() {
        Ok(0..=9) => format!("{first}.{}", parts.next().unwrap_or("0")),
        _ => first.to_owned(),
    }
}

/// Returns the script that recovers a copy of a server's data. The first start would do so too, but
/// only after syncing every file; here whoever keeps the copy syncs it.
fn settle(folder: &str, database: &str) -> String {
    let server = quoted(&format!("{folder}/postgres"));
    let database = quoted(database);
    format!(
        "rm -f \"$DATA/postmaster.pid\"\nexec {server} --single -F -D \"$DATA\" {database} </dev/null\n"
    )
}

/// Returns the script that creates the data. Small WAL segments keep copies of it small. Passwords
/// are not checked: only the room can reach the server.
fn script(folder: &str, database: &str, user: &str, password: &str) -> String {
    let initdb = quoted(&format!("{folder}/initdb"));
    let server = quoted(&format!("{folder}/postgres"));
    let mut made = match database {
        // Created by initdb.
        "postgres" => Vec::new(),
        database => vec![format!("CREATE DATABASE \"{database}\";")],
    };
    if user != USER {
        // Extensions and dumps often refer to the default role.
        made.push(format!("CREATE ROLE {USER} SUPERUSER LOGIN;"));
    }
    if password != user {
        made.push(format!("ALTER ROLE \"{user}\" PASSWORD '{password}';"));
    }
    let make = match made.is_empty() {
        true => String::new(),
        false => format!(
            "printf '%s\\n' {} | {server} --single -D \"$DATA\" postgres\n",
            made.iter().map(|line| quoted(line)).collect::<Vec<_>>().join(" ")
        ),
    };
    format!(
        "set -e\n\
         init() {{ {initdb} -D \"$DATA\" -U {user} --auth=trust --encoding=UTF8 --locale=\"$1\" --wal-segsize=1 --no-sync; }}\n\
         init C.UTF-8 || {{ find \"$DATA\" -mindepth 1 -delete; init C; }}\n\
         {make}",
        user = quoted(user),
    )
}

const TABLES: &str = "select format('%I.%I', table_schema, table_name), \
    (xpath('/row/c/text()', query_to_xml(format('select count(*) as c from %I.%I', table_schema, table_name), false, true, '')))[1]::text \
    from information_schema.tables where table_type = 'BASE TABLE' \
    and table_schema not in ('pg_catalog', 'information_schema') order by 1";

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn majors_have_one_number_since_ten() {
        assert_eq!([major("9.6"), major("10"), major("15.4")], ["9.6", "10", "15"]);
    }
}
