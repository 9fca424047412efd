//! Notifications of object changes: to the timeline, with their bytes as artifacts, and to the app,
//! like bucket notifications.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use hothouse_engine::WebhookTarget;
use hothouse_host::{Clock, clock::HostClock, files};
use hothouse_model::record::{
    Kind,
    bodies::{MediaSize, ObjectBody, ObjectOperation},
};
use hothouse_objects::{Object, Store, StoreError};
use hothouse_sinks::{
    Recorded,
    objects::{media, notify},
};

use super::{At, Call};
use crate::{
    mocks::webhook_of,
    sinks::{NotKept, RunSinks, trace_in},
    webhooks::VendorWebhook,
};

/// How often the config is checked for the notification target.
const LOOK: Duration = Duration::from_secs(2);

/// The notification target, and when it was read.
pub(crate) type ToldOfChanges = Option<(Instant, Option<(String, WebhookTarget)>)>;

/// Returns S3's name for a change.
pub(super) fn event_of(operation: ObjectOperation, call: &Call) -> &'static str {
    let asked = call.asked();
    match (operation, asked.method) {
        (ObjectOperation::Delete, _) => "ObjectRemoved:Delete",
        (_, "POST") if asked.parameter("uploadId").is_some() => {
            "ObjectCreated:CompleteMultipartUpload"
        }
        (_, "POST") => "ObjectCreated:Post",
        _ if asked.header("x-amz-copy-source").is_some() => "ObjectCreated:Copy",
        _ => "ObjectCreated:Put",
    }
}

impl RunSinks {
    /// Notifies the app of a change, if the store's integration has a webhook target. Failures are
    /// only logged: the object is stored either way.
    pub(super) fn notify(
        &self,
        store: &Store,
        at: &At,
        object: &Object,
        event: &'static str,
    ) -> Result<(), StoreError> {
        let Some((integration, target)) = self.told_of_changes() else { return Ok(()) };
        let setting = store.setting(&at.bucket, "notification").ok().flatten();
        if !notify::is_told(setting.as_deref(), event, &at.key) {
            return Ok(());
        }
        let payload = notify::event(&notify::Change {
            bucket: &at.bucket,
            key: &at.key,
            size: object.size,
            etag: &object.etag,
            version: object.version.as_deref(),
            event,
            time: HostClock.now(),
        });
        let webhook = VendorWebhook {
            integration,
            vendor: Some("s3".to_owned()),
            kind: event.to_owned(),
            payload,
            target,
        };
        // Does not wait: S3 sends notifications before or after its response.
        let (_, now) = tokio::sync::oneshot::channel();
        if let Err(failure) = self.webhooks.queue_vendor(&self.sandbox, vec![webhook], now) {
            tracing::warn!(?failure, "an app is not told of an object");
        }
        Ok(())
    }

    /// Whether it was known a moment ago that nobody is notified.
    pub(super) fn tells_nobody(&self) -> bool {
        let known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|(at, found)| found.is_none() && at.elapsed() < LOOK)
    }

    /// Returns the notification target from the worktree's config; re-read from time to time.
    fn told_of_changes(&self) -> Option<(String, WebhookTarget)> {
        let mut known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = known.as_ref()
            && at.elapsed() < LOOK
        {
            return found.clone();
        }
        let all = self.flags.engine().integrations(&self.sandbox).unwrap_or_default();
        let found = all.iter().find_map(|(name, one)| {
            let (_, (vendor, target)) = webhook_of(name.as_str(), one)?;
            (vendor.as_deref() == Some("s3")).then(|| (name.to_string(), target))
        });
        *known = Some((Instant::now(), found.clone()));
        found
    }

    /// Records that an object was stored or removed, and stores its bytes beside the timeline.
    pub(super) async fn keep_object(
        self: &Arc<Self>,
        body: ObjectBody,
        content: Option<PathBuf>,
        call: &Call,
    ) -> Result<(), NotKept> {
        let (process, trace) = (call.process.clone(), trace_in(&call.headers));
        let timeline = self.timelines.writable(&self.run).ok_or(NotKept::NoRun)?;
        let (id, own) = (timeline.mint(Kind::Object), self.clone());
        let preparing = tokio::task::spawn_blocking(move || {
            let record = recorded(timeline.folder(), id, body, content)?;
            Ok(own.prepared(vec![Recorded { trace, ..record }], process))
        });
        let prepared = preparing.await.map_err(|error| NotKept::Disk(error.to_string()))??;
        self.keep_prepared(prepared).await.map(drop)
    }
}

/// Builds the record of an object, whose bytes get a place in the run's folder.
fn recorded(
    run: &Path,
    id: String,
    mut body: ObjectBody,
    content: Option<PathBuf>,
) -> Result<Recorded, NotKept> {
    if let Some(content) = content {
        let file = format!("objects/{}/{id}{}", body.bucket, extension(&body.key));
        let linked = link(&content, &run.join(&file));
        linked.map_err(|error| NotKept::Disk(error.to_string()))?;
        body.media = measured(&content);
        body.file = Some(file);
    }
    let summary = match body.operation.known() {
        Some(ObjectOperation::Delete) => format!("{}/{} deleted", body.bucket, body.key),
        _ => {
            let image = body.media.as_ref();
            let image = image.map(|image| format!(", {} × {}", image.width, image.height));
            let image = image.unwrap_or_default();
            format!("{}/{}, {} bytes{image}", body.bucket, body.key, body.size)
        }
    };
    let body = serde_json::to_value(body).expect("plain values are JSON");
    let (kind, id) = (Kind::Object, Some(id));
    Ok(Recorded { kind, id, trace: None, summary, body, files: Vec::new() })
}

/// Reads the dimensions of an image from its first bytes.
fn measured(content: &Path) -> Option<MediaSize> {
    let mut head = Vec::new();
    let file = std::fs::File::open(content).ok()?;
    file.take(media::LOOKED_AT as u64).read_to_end(&mut head).ok()?;
    media::measure(&head)
}

/// Hard-links the bytes: an object is never changed, only replaced.
fn link(content: &Path, to: &Path) -> Result<(), hothouse_host::FileError> {
    if let Some(folder) = to.parent() {
        files::make_private_folder(folder)?;
    }
    match std::fs::hard_link(content, to) {
        Ok(()) => Ok(()),
        Err(_) => hothouse_host::copy::copy_file(content, to, 0o600),
    }
}

/// Returns the extension of a key, for viewers.
fn extension(key: &str) -> String {
    let end = key.rsplit_once('.').map(|(_, end)| end).unwrap_or_default();
    let is_plain = (1..=8).contains(&end.len()) && end.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_plain { format!(".{}", end.to_ascii_lowercase()) } else { String::new() }
}
