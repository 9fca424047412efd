//! `trust` and `ui`: the CA of URLs, and links to the dashboard.

use std::{path::Path, process::ExitCode};

use hothouse_api::{
    SandboxView, route,
    sandbox::FindQuery,
    ui::{CertificateAuthorityView, UiView},
};
use hothouse_host::trust::{self, Outcome, Place, TrustError, Wish};
use hothouse_model::{Failure, FailureKind};
use serde::Serialize;

use super::{sandbox::check_reference, url::browse};
use crate::{
    args::{TrustArgs, UiArgs},
    session::Session,
    ui::{Tone, Ui},
};

/// The outcome for one trust store, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Told {
    place: String,
    outcome: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
}

/// The outcome for one trust store, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Ending {
    Done,
    Already,
    ByHand,
    Failed,
}

impl Ending {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Already => "already",
            Self::ByHand => "by-hand",
            Self::Failed => "failed",
        }
    }
}

/// Makes this host trust the CA of URLs, or stop trusting it.
pub(crate) fn trust(
    session: &Session,
    ui: &Ui,
    args: &TrustArgs,
    home: &Path,
) -> Result<ExitCode, Failure> {
    let ca: CertificateAuthorityView = session.get(route::CERTIFICATE_AUTHORITY)?;
    let certificate = Path::new(&ca.certificate);
    let wish = if args.remove { Wish::Forget } else { Wish::Trust };
    let places = trust::places(home);
    if !args.yes && !ask(ui, wish, certificate, &places)? {
        ui.say("Cancelled: nothing was changed.");
        return Ok(ExitCode::from(FailureKind::Unmet.exit_code()));
    }
    let told: Vec<_> =
        places.iter().map(|place| told(place, trust::apply(place, certificate, wish))).collect();
    if ui.json {
        ui.print_json(&serde_json::json!({ "certificate": ca.certificate, "places": told }));
    } else {
        told.iter().for_each(|told| say(ui, told));
        if wish == Wish::Trust {
            ui.say("Programs that bring their own CA bundle (Node, Java) need a variable such as NODE_EXTRA_CA_CERTS:");
            ui.say(&format!("  export NODE_EXTRA_CA_CERTS={}", certificate.display()));
        }
    }
    match told.iter().find(|told| told.outcome == Ending::Failed) {
        None => Ok(ExitCode::SUCCESS),
        Some(failed) => {
            let message = format!("{} could not be changed", failed.place);
            let mut failure = Failure::new(FailureKind::Host, message);
            failure.causes.extend(failed.why.clone());
            // With `--json` the outcome has already been printed.
            if ui.json { Ok(ExitCode::from(FailureKind::Host.exit_code())) } else { Err(failure) }
        }
    }
}

fn ask(ui: &Ui, wish: Wish, certificate: &Path, places: &[Place]) -> Result<bool, Failure> {
    let verb = if wish == Wish::Trust { "Trust" } else { "Stop trusting" };
    let places: Vec<_> = places.iter().map(Place::shown).collect();
    ui.say(&format!(
        "The certificate authority {} can only sign names below .localhost.",
        certificate.display()
    ));
    match ui.ask(&format!("{verb} it in {}?", places.join(", "))) {
        Some(agreed) => Ok(agreed),
        None => {
            Err(Failure::new(FailureKind::Usage, "confirmation needed, and this is not a terminal")
                .hint("pass `--yes`"))
        }
    }
}

fn told(place: &Place, outcome: Result<Outcome, TrustError>) -> Told {
    let (outcome, why, commands) = match outcome {
        Ok(Outcome::Done) => (Ending::Done, None, Vec::new()),
        Ok(Outcome::Already) => (Ending::Already, None, Vec::new()),
        Ok(Outcome::ByHand { why, commands }) => (Ending::ByHand, Some(why), commands),
        Err(error) => {
            let failure = Failure::of(FailureKind::Host, &error);
            let whole = std::iter::once(failure.message).chain(failure.causes);
            (Ending::Failed, Some(whole.collect::<Vec<_>>().join(": ")), Vec::new())
        }
    };
    Told { place: place.shown(), outcome, why, commands }
}

fn say(ui: &Ui, told: &Told) {
    let tone = match told.outcome {
        Ending::Done | Ending::Already => Tone::Good,
        Ending::ByHand => Tone::Warning,
        Ending::Failed => Tone::Bad,
    };
    let why = told.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    ui.print(&format!(
        "{} {}{why}",
        ui.paint(tone, &format!("{:<8}", told.outcome.as_str())),
        told.place
    ));
    for command in &told.commands {
        ui.print(&format!("           {command}"));
    }
}

/// Prints a single-use link to the dashboard, or to one sandbox in it.
pub(crate) fn ui(session: &Session, ui: &Ui, args: UiArgs) -> Result<ExitCode, Failure> {
    let one = match args.which.which().sandbox {
        None if args.page.is_none() => None,
        sandbox => {
            sandbox.as_deref().map(check_reference).transpose()?;
            let query = FindQuery { sandbox, folder: session.folder_text()? };
            let found: SandboxView = session.query(route::SANDBOX_FIND, &query)?;
            Some(found.id)
        }
    };
    let mut link: UiView = session.post(route::UI_LINK, &session.operation(), &())?;
    if let Some(id) = one {
        link.url.push_str(&format!("&sandbox={id}"));
        let page = args.page.as_deref().filter(|page| page.bytes().all(|c| c.is_ascii_lowercase()));
        if let Some(page) = page {
            link.url.push_str(&format!("&page={page}"));
        }
    }
    if ui.json {
        ui.print_json(&link);
    } else {
        ui.print(&link.url);
        if args.open {
            browse(ui, &link.url);
            return Ok(ExitCode::SUCCESS);
        }
        ui.say("Open it in a browser on this machine; it works once, within two minutes.");
        ui.say("If the browser warns about the certificate: `hothouse trust`.");
    }
    Ok(ExitCode::SUCCESS)
}
