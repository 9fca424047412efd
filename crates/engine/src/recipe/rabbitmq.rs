//! RabbitMQ. Its node is named after the service, so that its data is found again in every fork.

use hothouse_model::stack::{DatabaseOrder, service::Question};

use super::{PreparedRecipe, RecipeContext, TERMINATE, quoted, words};

pub(super) fn prepare(with: &RecipeContext<'_>) -> PreparedRecipe {
    let RecipeContext { service, port, data, programs, .. } = *with;
    let server = quoted(&programs.folder.display().to_string());
    let folder = data.display().to_string();
    let node = format!("{service}@localhost");
    let url = format!("amqp://guest:guest@127.0.0.1:{port}");
    let own = [
        ("AMQP_URL", url.clone()),
        ("HOME", folder.clone()),
        ("RABBITMQ_NODENAME", node),
        ("RABBITMQ_NODE_PORT", port.to_string()),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_DIST_PORT", (port.wrapping_add(20_000)).to_string()),
        ("RABBITMQ_MNESIA_BASE", format!("{folder}/mnesia")),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_LOG_BASE", format!("{folder}/log")),
        ("RABBITMQ_PID_FILE", format!("{folder}/pid")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", format!("{folder}/plugins")),
    ];
    PreparedRecipe {
        run: words([
            "/bin/sh",
            "-c",
            &format!("mkdir -p {0}/mnesia {0}/log; exec {server}", quoted(&folder)),
        ]),
        env: own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        // Debian's wrapper on the search path works only for its own user and root.
        path: words(["/usr/lib/rabbitmq/bin"]),
        url,
        account: [
            ("database", "/".to_owned()),
            ("user", "guest".to_owned()),
            ("password", "guest".to_owned()),
        ],
        question: Question::Tcp { port },
        stop_signal: TERMINATE,
        database: DatabaseOrder {
            shell: words(["rabbitmqctl", "status"]),
            tables: words(["rabbitmqctl", "--quiet", "list_queues", "name", "messages"]),
        },
        script: String::new(),
        settle: String::new(),
        kind: "rabbitmq".to_owned(),
    }
}
