//! Redis and Valkey.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, SOCKETS, TERMINATE, quoted, words};

/// The default port of its client.
const DEFAULT_PORT: u16 = 6379;

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { service, port, data, programs, account } = *with;
    let number = account.database.unwrap_or_default();
    let password = account.password.unwrap_or_default();
    let user = account.user.filter(|_| !password.is_empty()).unwrap_or_default();
    let of_user = match password {
        "" => String::new(),
        password => format!("{user}:{password}@"),
    };
    let slash = if number.is_empty() { "" } else { "/" };
    let url = format!("redis://{of_user}127.0.0.1:{port}{slash}{number}");
    let requires = match (user, password) {
        (_, "") => String::new(),
        ("" | "default", password) => format!(" --requirepass {}", quoted(password)),
        (user, password) => {
            format!(" --user {} on '>{password}' '~*' '&*' +@all", quoted(user))
        }
    };
    let server = programs.folder.display().to_string();
    let client = match server.ends_with("valkey-server") {
        true => "valkey-cli",
        false => "redis-cli",
    };
    let data = data.display().to_string();
    let shims = format!("{SOCKETS}/{service}.bin");
    let serve = format!(
        "exec {} --port {port} --bind 127.0.0.1 -::1 --dir {} --daemonize no --protected-mode no \
         --appendonly yes --appendfsync everysec --save '' --logfile ''{requires}",
        quoted(&server),
        quoted(&data),
    );
    // The client accepts its port only as an argument.
    let is_default = port == DEFAULT_PORT;
    let shim = format!(
        "#!/bin/sh\\nexec /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin {client} -p {port} \"$@\"\\n"
    );
    let prepare = format!(
        "mkdir -p {shims} && printf {} >{shims}/{client} && chmod 755 {shims}/{client}; ",
        quoted(&shim)
    );
    let run = if is_default { serve } else { format!("{prepare}{serve}") };
    let list = "for key in $(redis-cli --raw keys '*' | sort | head -1000); do printf '%s\\t%s\\n' \"$key\" \"$(redis-cli --raw type \"$key\")\"; done";
    // Its client reads the password from here.
    let of_client =
        (!password.is_empty()).then(|| ("REDISCLI_AUTH".to_owned(), password.to_owned()));
    let env = std::iter::once(("REDIS_URL".to_owned(), url.clone())).chain(of_client).collect();
    PreparedRecipe {
        run: words(["/bin/sh", "-c", &run]),
        env,
        path: if is_default { Vec::new() } else { vec![shims] },
        url,
        account: [
            ("database", number.to_owned()),
            ("user", user.to_owned()),
            ("password", password.to_owned()),
        ],
        question: Question::Tcp { port },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words([client]),
            tables: words(["/bin/sh", "-c", &list.replace("redis-cli", client)]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "redis".to_owned(),
    }
}
