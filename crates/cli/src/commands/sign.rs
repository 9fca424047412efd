//! Signatures of summaries: created with the user's key by the user's own programs, never in a room.
//!
//! The signed file is `summary.json`. It contains the head of the chain and the hash of every file that it is
//! based on, so a signature covers the whole folder of the run.

use std::path::{Path, PathBuf};

use hothouse_api::timeline::{SignatureKind, SignatureView};
use hothouse_host::{Program, RunError, beneath::Folder, files, random};
use hothouse_model::{Explain, Failure, FailureKind, id::hex};

use crate::{scope, session::Session};

/// The namespace of SSH signatures: one created for another purpose does not count.
const NAMESPACE: &str = "hothouse-summary";

/// The signed file, and the suffixes of signature files.
const SIGNED: &str = "summary.json";
const SSH: &str = "sig";
const MINISIGN: &str = "minisig";

/// The maximum size of each.
const SIGNED_LIMIT: u64 = 64 << 20;
const SIGNATURE_LIMIT: u64 = 64 << 10;

/// The keys to look for in `~/.ssh` if none is named, in the order that `ssh` uses.
const USUAL: [&str; 4] = ["id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_rsa"];

/// Signs the summary of a run; returns the path of the signature.
pub(super) fn sign(
    session: &Session,
    summary: &Path,
    key: Option<&str>,
) -> Result<PathBuf, Failure> {
    if session.is_inside() {
        return Err(scope::refusal("summary --sign", "hothouse summary --sign"));
    }
    let key = match key.filter(|key| !key.is_empty()) {
        Some(key) => session.folder.join(key),
        None => usual_key(session)?,
    };
    let is_minisign = files::read_capped(&key, SIGNATURE_LIMIT)
        .is_ok_and(|bytes| bytes.starts_with(b"untrusted comment:"));
    let signature = beside(summary, if is_minisign { MINISIGN } else { SSH });
    files::remove_file(&signature).map_err(|error| error.failure())?;
    let program = match is_minisign {
        true => Program::new("minisign").arg("-S").arg("-m").arg(summary).arg("-s").arg(&key),
        false => {
            let words = ["-q", "-Y", "sign", "-n", NAMESPACE, "-f"];
            Program::new("ssh-keygen").args(words).arg(&key).arg(summary)
        }
    };
    // A key may have a passphrase, or a button to be pressed.
    let ended = program.in_foreground().map_err(|error| missing(&error))?;
    match ended == 0 && files::exists(&signature) {
        true => Ok(signature),
        false => {
            let message = format!("sign {} with `{}`", summary.display(), key.display());
            Err(Failure::new(FailureKind::Host, message)
                .hint("the key must be yours and private, or its public half be in your agent"))
        }
    }
}

fn missing(error: &RunError) -> Failure {
    let failure = Failure::of(FailureKind::Host, error);
    match error {
        RunError::Missing { program } if program == "minisign" => {
            failure.hint("install it: `apt-get install minisign`")
        }
        RunError::Missing { .. } => failure.hint("install it: `apt-get install openssh-client`"),
        _ => failure,
    }
}

fn beside(summary: &Path, ending: &str) -> PathBuf {
    summary.with_file_name(format!("{SIGNED}.{ending}"))
}

/// Returns the key that git signs with, or the first of the usual keys.
fn usual_key(session: &Session) -> Result<PathBuf, Failure> {
    let of_git = git_setting("user.signingkey")
        .filter(|_| git_setting("gpg.format").as_deref() == Some("ssh"));
    let home = &session.folders.home;
    let of_git = of_git.map(|key| match key.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(key),
    });
    let usual = USUAL.iter().map(|name| home.join(".ssh").join(name));
    let found = of_git.into_iter().chain(usual).find(|key| files::exists(key));
    found.ok_or_else(|| {
        Failure::new(FailureKind::NotFound, "no key to sign with was found")
            .hint("name one: `hothouse summary --sign ~/.ssh/KEY`, of SSH or minisign")
            .hint("or make one: `ssh-keygen -t ed25519`")
    })
}

fn git_setting(name: &str) -> Option<String> {
    let output = Program::new("git").args(["config", "--global", "--get", name]).output().ok()?;
    let text = String::from_utf8(output).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Checks the signature in a run's folder, which may come from anywhere; `None` if there is none.
pub(super) fn check(
    session: &Session,
    folder: &Path,
    signers: Option<&str>,
) -> Result<Option<SignatureView>, Failure> {
    let opened = Folder::open(folder).map_err(|error| error.failure())?;
    let read = |ending: &str| {
        let name = format!("{SIGNED}.{ending}");
        opened.read_capped(Path::new(&name), SIGNATURE_LIMIT).ok()
    };
    let (ssh, minisign) = (read(SSH), read(MINISIGN));
    let Some((signature, is_ssh)) =
        ssh.map(|bytes| (bytes, true)).or(minisign.map(|bytes| (bytes, false)))
    else {
        return Ok(None);
    };
    let signed = opened.read_capped(Path::new(SIGNED), SIGNED_LIMIT);
    let signed = signed.map_err(|error| error.failure())?;
    let aside = Aside::new(session)?;
    let (file, proof) = (aside.0.join(SIGNED), aside.0.join("signature"));
    for (path, bytes) in [(&file, &signed), (&proof, &signature)] {
        files::replace(path, bytes, 0o600).map_err(|error| error.failure())?;
    }
    let signers = signers.map(|path| session.folder.join(path));
    let view = match is_ssh {
        true => of_ssh(session, &signed, &proof, signers),
        false => of_minisign(&file, &proof, signers),
    };
    view.map(Some)
}

fn of_ssh(
    session: &Session,
    signed: &[u8],
    proof: &Path,
    signers: Option<PathBuf>,
) -> Result<SignatureView, Failure> {
    let usual = || {
        let of_git = git_setting("gpg.ssh.allowedSignersFile");
        let of_git = of_git.map(|path| match path.strip_prefix("~/") {
            Some(below) => session.folders.home.join(below),
            None => PathBuf::from(path),
        });
        of_git
            .into_iter()
            .chain([session.folders.home.join(".ssh/allowed_signers")])
            .find(|it| files::exists(it))
    };
    let is_asked = signers.is_some();
    let keygen = |words: &[&str]| Program::new("ssh-keygen").arg("-Y").args(words);
    let stdin = || files::memory(signed).map_err(|error| error.failure());
    // Determines the key, whoever owns it.
    let checked = keygen(&["check-novalidate", "-n", NAMESPACE, "-s"]).arg(proof);
    let checked = checked.stdin(stdin()?).run().map_err(|error| missing(&error))?;
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    let mut view = SignatureView {
        kind: SignatureKind::Ssh,
        key: told.split_whitespace().find(|word| word.starts_with("SHA256:")).map(str::to_owned),
        ..SignatureView::default()
    };
    if !checked.status.success() {
        view.problem = Some("the signature is not one of this summary".into());
        return Ok(view);
    }
    let Some(signers) = signers.or_else(usual) else { return Ok(view) };
    let found = keygen(&["find-principals", "-s"]).arg(proof).arg("-f").arg(&signers).run();
    let found = found.map_err(|error| missing(&error))?;
    let names = String::from_utf8_lossy(&found.stdout).into_owned();
    let Some(name) = names.split_whitespace().next().filter(|_| found.status.success()) else {
        view.problem =
            is_asked.then(|| format!("no key of {} made the signature", signers.display()));
        return Ok(view);
    };
    let verify = keygen(&["verify", "-n", NAMESPACE, "-I", name, "-s"]).arg(proof);
    let verified = verify.arg("-f").arg(&signers).stdin(stdin()?).run();
    match verified.map_err(|error| missing(&error))?.status.success() {
        true => view.by = Some(name.to_owned()),
        false => {
            view.problem =
                Some(format!("`{name}` may not sign summaries, by {}", signers.display()))
        }
    }
    Ok(view)
}

fn of_minisign(
    file: &Path,
    proof: &Path,
    signers: Option<PathBuf>,
) -> Result<SignatureView, Failure> {
    let mut view = SignatureView { kind: SignatureKind::Minisign, ..SignatureView::default() };
    let Some(signers) = signers else { return Ok(SignatureView { unchecked: true, ..view }) };
    let words = Program::new("minisign").args(["-V", "-q", "-m"]).arg(file).arg("-x").arg(proof);
    let ran = words.arg("-p").arg(&signers).run().map_err(|error| missing(&error))?;
    match ran.status.success() {
        true => view.by = Some(signers.display().to_string()),
        false => view.problem = Some(format!("it is not the signature of {}", signers.display())),
    }
    Ok(view)
}

/// A private folder for the files to check: names in a run's folder may lead anywhere.
struct Aside(PathBuf);

impl Aside {
    fn new(session: &Session) -> Result<Self, Failure> {
        let name = format!("signature-{}", hex(&random::bytes::<8>()));
        let path = session.folders.runtime.join(name);
        files::make_private_folder(&path).map_err(|error| error.failure())?;
        Ok(Self(path))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        hothouse_host::remove::remove_tree(&self.0).ok();
    }
}

/// Describes who signed.
pub(super) fn told(signature: &SignatureView) -> String {
    let key = signature.key.as_deref().map(|key| format!(" with {key}")).unwrap_or_default();
    match (&signature.problem, &signature.by) {
        (Some(problem), _) => problem.clone(),
        (None, Some(by)) => format!("signed by {by}{key}"),
        (None, None) if signature.unchecked => {
            "signed with minisign, which was not checked: pass the public key as `--signers FILE`"
                .into()
        }
        (None, None) => format!("signed{key}; whose key that is, `--signers FILE` can tell"),
    }
}
