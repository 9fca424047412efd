//! One bundle: a command, a file for a database, or a call to a service.

use std::time::Duration;

use bytes::Bytes;
use hothouse_host::files;
use hothouse_model::{
    config::{Bundle, BundleCall, BundleWork, EntryName, Method},
    seed::{BUNDLE_VARIABLE, CONTEXT_FILE, CONTEXT_LIMIT, CONTEXT_VARIABLE},
    stack::ServiceOrder,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{BundleFailure, LABEL, LAST_LINES, Seeding, failed};
use crate::in_room::{RoomTask, TaskOutput};

/// How much of the beginning of a bundle's output is logged.
const LOG_HEAD: usize = 1 << 20;

impl Seeding<'_> {
    /// Runs a bundle.
    pub(super) async fn perform(&mut self, name: &EntryName) -> Result<(), BundleFailure> {
        let Some(bundle) = self.config.seed.bundles.get(name).cloned() else {
            return Err(because("the config does not have it any more"));
        };
        match bundle.work() {
            Some(BundleWork::Command(command)) => {
                let task = RoomTask::shell(format!("exec 2>&1\n{}", command.as_str()));
                self.command(name, &bundle, task, bundle.service.as_ref().map(ToString::to_string))
                    .await
            }
            Some(BundleWork::Sql(file)) => {
                let service = self.database(&bundle)?;
                let script = format!("exec 2>&1\n{}", feeding(&service)?);
                let file = self.sandbox().worktree.join(file.as_str());
                let task = RoomTask::shell(script).with_arguments([file.to_string_lossy()]);
                self.command(name, &bundle, task, Some(service.name().to_owned())).await
            }
            Some(BundleWork::Call(call)) => self.call(name, &bundle, call).await,
            None => Err(because("it has neither `run` nor `sql` nor `http`")),
        }
    }

    async fn command(
        &self,
        name: &EntryName,
        bundle: &Bundle,
        mut task: RoomTask,
        service: Option<String>,
    ) -> Result<(), BundleFailure> {
        if let Some(service) = service.as_deref().filter(|name| self.room.service(name).is_none()) {
            return Err(because(format!(
                "service `{service}` is not part of the profile that is up"
            )));
        }
        task.label = LABEL;
        task.folder = Some(bundle.dir.as_str().into());
        task.service = service;
        task.env = vec![
            (CONTEXT_VARIABLE.to_owned(), self.path(CONTEXT_FILE)),
            (BUNDLE_VARIABLE.to_owned(), name.to_string()),
        ];
        (task.timeout, task.keep) = (bundle.timeout, LOG_HEAD);
        let ended = self.room.run(task).await.map_err(failed)?;
        self.keep_log(name, &ended);
        match ended.is_ok() {
            true => Ok(()),
            false => Err(BundleFailure {
                why: ended.end.to_string(),
                lines: ended.last_lines(LAST_LINES),
            }),
        }
    }

    fn keep_log(&self, name: &EntryName, ended: &TaskOutput) {
        let path = self.artifacts().join(self.log_name(name));
        let mut bytes = ended.stdout.head.clone();
        if ended.stdout.is_cut() {
            bytes.extend_from_slice(b"\n[...]\n");
            bytes.extend_from_slice(ended.stdout.end());
        }
        let folder = path.parent().unwrap_or(&path).to_owned();
        let kept =
            files::make_private_folder(&folder).and_then(|()| files::replace(&path, &bytes, 0o600));
        if let Err(error) = kept {
            tracing::warn!(%error, bundle = %name, "the output of a bundle was not kept");
        }
    }

    /// Returns the database for a file: the one that the bundle names, or the first with tables.
    fn database(&self, bundle: &Bundle) -> Result<ServiceOrder, BundleFailure> {
        let named = bundle.service.as_ref().map(|name| name.as_str());
        let is_wanted = |service: &&ServiceOrder| match named {
            Some(name) => service.name() == name,
            None => scheme(service) != "redis",
        };
        let mut all = self.room.stack.services.iter().filter(|service| service.database.is_some());
        all.find(is_wanted).cloned().ok_or_else(|| match named {
            Some(name) => {
                because(format!("service `{name}` is not a database of the profile that is up"))
            }
            None => because("the profile that is up has no database"),
        })
    }

    /// Calls a service, and adds its response to the context under the bundle's name.
    async fn call(
        &mut self,
        name: &EntryName,
        bundle: &Bundle,
        call: &BundleCall,
    ) -> Result<(), BundleFailure> {
        let wanted = bundle.service.as_ref().map(ToString::to_string).unwrap_or_default();
        let found = self.room.service(&wanted);
        let Some(port) = found.and_then(|service| service.port) else {
            return Err(because(format!(
                "service `{wanted}` has no port in the profile that is up"
            )));
        };
        let asked = async {
            let stream = self.room.room.dial(port).await.map_err(|error| error.to_string())?;
            stream.set_nonblocking(true).map_err(|error| error.to_string())?;
            let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
            ask(stream, call, port).await
        };
        let late = || format!("no answer within {}", shown(bundle.timeout));
        let answered =
            tokio::time::timeout(bundle.timeout, asked).await.unwrap_or_else(|_| Err(late()));
        let method = call.method.map_or("POST", Method::as_str);
        let place = format!("{method} {}", call.path.as_str());
        let (status, body) = answered.map_err(|why| because(format!("{place}: {why}")))?;
        if !(200..300).contains(&status) {
            let lines = String::from_utf8_lossy(&body);
            let lines = lines.lines().take(LAST_LINES).map(|line| line.chars().take(400).collect());
            return Err(BundleFailure {
                why: format!("{place} answered {status}"),
                lines: lines.collect(),
            });
        }
        if let Ok(Value::Object(said)) = serde_json::from_slice(&body) {
            self.context.insert(name.to_string(), Value::Object(said));
            self.write_context().await.map_err(failed)?;
        }
        Ok(())
    }
}

async fn ask(stream: TcpStream, call: &BundleCall, port: u16) -> Result<(u16, Vec<u8>), String> {
    let body = call.body.as_ref().map(|body| body.as_str().to_owned()).unwrap_or_default();
    let is_json = serde_json::from_str::<Value>(&body).is_ok();
    let mut request = Request::builder()
        .method(call.method.map_or("POST", Method::as_str))
        .uri(call.path.as_str())
        .header(header::HOST, format!("127.0.0.1:{port}"))
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "hothouse-seed");
    if !body.is_empty() {
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let served = tokio::spawn(connection);
    let answered = sender.send_request(request).await.map_err(|error| error.to_string());
    let read = match answered {
        Ok(answer) => {
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), CONTEXT_LIMIT).collect().await;
            body.map(|body| (status, body.to_bytes().to_vec())).map_err(|error| error.to_string())
        }
        Err(error) => Err(error),
    };
    served.abort();
    read
}

/// Returns the script that loads a file into a database, stopping at the first error.
fn feeding(service: &ServiceOrder) -> Result<String, BundleFailure> {
    let client = service.database.as_ref().and_then(|database| database.shell.first());
    let client = client.map(String::as_str).unwrap_or_default();
    match scheme(service) {
        "postgres" => {
            Ok("exec psql -X -q -v ON_ERROR_STOP=1 --single-transaction -f \"$1\"".into())
        }
        "mysql" | "mariadb" => Ok(format!("exec {client} < \"$1\"")),
        "redis" => Ok(format!(
            "told=$({client} < \"$1\") || exit; printf '%s\\n' \"$told\"; ! printf '%s\\n' \"$told\" | grep -q '^\\(ERR\\|WRONGTYPE\\)'"
        )),
        other => Err(because(format!("a file cannot be fed to `{}` ({other})", service.name()))),
    }
}

/// Returns the protocol of a service, from its URL.
pub(super) fn scheme(service: &ServiceOrder) -> &str {
    let url = service.url.as_deref().unwrap_or_default();
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

fn shown(time: Duration) -> String {
    hothouse_model::config::format_duration(time)
}

fn because(why: impl Into<String>) -> BundleFailure {
    BundleFailure { why: why.into(), lines: Vec::new() }
}
