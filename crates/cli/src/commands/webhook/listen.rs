//! `webhook listen`: a port on this host that accepts deliveries from a real vendor and passes them to the daemon,
//! which verifies and records them.
//!
//! It is open only while the command is running, and only on the loopback: the user decides how the vendor reaches
//! it, through a tunnel or the vendor's own program.

use std::{process::ExitCode, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hothouse_api::{
    route,
    secret::Hidden,
    webhook::{ForwardBody, ForwardView, ListenBody, ListenView},
};
use hothouse_host::random;
use hothouse_model::{Failure, FailureKind, OperationId};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, body::Incoming, header};
use serde_json::json;

use super::{super::given::duration, answer, checked};
use crate::{
    args::ListenArgs,
    commands::secret::read_value,
    reach::Reach,
    render::plain,
    serve::{self, ClientLimits},
    session::{Session, failure},
    ui::Ui,
};

/// The maximum size of a delivery.
const BODY_MOST: usize = 4 << 20;

/// How long a vendor may take to send one.
const PATIENCE: Duration = Duration::from_secs(20);

const LIMITS: ClientLimits = ClientLimits { connections: 32, patience: PATIENCE };

/// Listens until interrupted, or for a limited time.
pub(crate) fn listen(session: &Session, ui: &Ui, args: ListenArgs) -> Result<ExitCode, Failure> {
    let time = duration("--for", args.time.as_deref())?;
    let secret = match args.secret {
        true => read_value(ui, &format!("the endpoint's secret at {}", args.vendor))?,
        false => None,
    };
    let (sandbox, folder) = (checked(args.which)?, session.folder_text()?);
    let body = ListenBody {
        sandbox: sandbox.clone(),
        folder: folder.clone(),
        vendor: args.vendor.clone(),
        secret: secret.map(Hidden),
        to: args.to.clone(),
    };
    let made: ListenView = session.post(route::WEBHOOKS_LISTEN, &session.operation(), &body)?;
    let listener = Listener {
        reach: session.reach(),
        ui: *ui,
        wanted: ForwardBody {
            sandbox,
            folder,
            vendor: args.vendor,
            to: args.to,
            headers: Vec::new(),
            base64: String::new(),
            url: String::new(),
        },
        public: args.url,
    };
    session.block_on(async {
        let (socket, port) = serve::bind(args.port).await?;
        begin(ui, &made, port);
        let listener = Arc::new(listener);
        let served = serve::serve(socket, LIMITS, move |request| {
            let listener = listener.clone();
            async move { listener.answer(request).await }
        });
        // When the time runs out, nothing has failed.
        tokio::time::timeout(time.unwrap_or(Duration::MAX), served).await.ok();
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints where to send deliveries, and what the vendor needs to know.
fn begin(ui: &Ui, made: &ListenView, port: u16) {
    let url = format!("http://127.0.0.1:{port}");
    if ui.json {
        ui.print_json_line(&json!({ "url": url, "to": made.to, "secret_file": made.secret_file }));
    } else {
        ui.print(&url);
    }
    ui.say(&format!("Deliveries of {} go on to {}. Stop with Ctrl-C.", made.vendor, made.to));
    match made.vendor.as_str() {
        "stripe" => ui.say(&format!("Such as `stripe listen --forward-to {url}`, in test mode.")),
        _ => ui.say("Let the vendor reach this address, for instance by a tunnel."),
    }
    if made.made {
        ui.say(&format!("Enter the secret in {} at the vendor.", made.secret_file));
    }
    if !made.signed {
        ui.say("The integration names no `secret`, so the app gets them without a signature.");
    }
}

struct Listener {
    reach: Reach,
    ui: Ui,
    /// What is the same for all deliveries.
    wanted: ForwardBody,
    /// The address that the vendor knows.
    public: Option<String>,
}

impl Listener {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::POST {
            return told(StatusCode::METHOD_NOT_ALLOWED, "webhooks are sent with POST");
        }
        let (head, body) = request.into_parts();
        let read = tokio::time::timeout(PATIENCE, Limited::new(body, BODY_MOST).collect()).await;
        let Ok(Ok(body)) = read else {
            return told(StatusCode::PAYLOAD_TOO_LARGE, "the delivery is too long or too slow");
        };
        let Some(headers) = texts(&head.headers) else {
            return told(StatusCode::BAD_REQUEST, "a header is not text");
        };
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let forward = ForwardBody {
            url: format!("{}{target}", self.origin(&headers)),
            headers,
            base64: STANDARD.encode(body.to_bytes()),
            ..self.wanted.clone()
        };
        match self.forward(&forward).await {
            Ok(view) => {
                self.tell(&view);
                response(view)
            }
            Err(failure) => {
                self.ui.say(&plain(&format!("not delivered: {}", failure.message)));
                told(StatusCode::SERVICE_UNAVAILABLE, "the sandbox did not take the delivery")
            }
        }
    }

    async fn forward(&self, body: &ForwardBody) -> Result<ForwardView, Failure> {
        let reach = self.reach.clone();
        let connected = tokio::task::spawn_blocking(move || reach.connect_or_start()).await;
        let client = connected.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
        let operation = OperationId::from_random(random::bytes());
        client.post(route::WEBHOOKS_FORWARD, &operation, body).await.map_err(failure)
    }

    /// Returns the address to which the vendor sent the delivery, without its path.
    fn origin(&self, headers: &[(String, String)]) -> String {
        if let Some(public) = &self.public {
            return public.trim_end_matches('/').to_owned();
        }
        let find = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, v)| v);
        let host = find("x-forwarded-host").or_else(|| find("host"));
        let scheme = find("x-forwarded-proto").map_or("http", String::as_str);
        format!("{scheme}://{}", host.map_or("", String::as_str))
    }

    fn tell(&self, view: &ForwardView) {
        if self.ui.json {
            self.ui.print_json_line(view);
            return;
        }
        let status = answer(view.status, view.error.as_deref());
        let line = format!("{}/{} {status} {} ms", view.vendor, view.kind, view.duration_ms);
        self.ui.print(&plain(&line));
    }
}

fn texts(headers: &HeaderMap) -> Option<Vec<(String, String)>> {
    let text = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    headers.iter().map(text).collect()
}

/// Returns the app's answer to the vendor, so that the vendor retries by its own rules.
fn response(view: ForwardView) -> Response<Full<Bytes>> {
    if view.refused {
        return told(StatusCode::FORBIDDEN, view.error.as_deref().unwrap_or("not passed on"));
    }
    let status = view.status.and_then(|status| StatusCode::from_u16(status).ok());
    let Some(status) = status else {
        return told(StatusCode::BAD_GATEWAY, "the app did not answer");
    };
    let mut response = Response::new(Full::from(view.text.unwrap_or_default()));
    *response.status_mut() = status;
    if let Some(kind) = view.content_type.and_then(|kind| kind.parse().ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

fn told(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{text}\n")));
    *response.status_mut() = status;
    response
}
