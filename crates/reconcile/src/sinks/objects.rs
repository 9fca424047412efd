//! Object storage: S3 requests of an app are served from the sandbox's own store, and recorded on
//! the timeline.
//!
//! A bucket named by a production host exists, as it does in production. Others are created by the
//! app, or by the first object that is put into them.

mod answers;
mod azure;
mod gcs;
mod told;

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    ledger::RoomProcess,
    record::bodies::{ObjectBody, ObjectOperation},
};
use hothouse_objects::{
    About, Deleted, Digests, Expected, Incoming, Object, Received, Store, StoreError,
};
use hothouse_sinks::objects::{
    Asked, ObjectError, Operation, Place,
    chunked::{self, Chunked},
    conditions, form,
    operation::{Setting, SettingAct},
    place, signed,
    tags::{self, Tags},
    xml,
};
use hothouse_terminate::{Streamed, StreamedAnswer, StreamedBody, StreamedRequest};

pub(super) use self::told::ToldOfChanges;
use self::{
    answers::{empty, failed, of_object, text},
    told::event_of,
};
use super::{LONG_BODY, RunSinks};

/// How much is buffered before it is written.
const HELD: usize = 256 << 10;

/// Pieces shorter than this are copied.
const SHORT: usize = 16 << 10;

/// The maximum length of an XML body.
const XML_LIMIT: usize = 2 << 20;

/// The object stores of one run.
pub(crate) struct ObjectSink {
    sinks: Arc<RunSinks>,
    store: Arc<Store>,
}

impl ObjectSink {
    pub(crate) fn new(sinks: Arc<RunSinks>, store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self { sinks, store })
    }
}

impl Streamed for ObjectSink {
    fn answer(
        self: Arc<Self>,
        request: StreamedRequest,
    ) -> Pin<Box<dyn Future<Output = StreamedAnswer> + Send>> {
        Box::pin(async move {
            let StreamedRequest { host, method, path, query, headers, body, process } = request;
            let call = Call { host: host.to_string(), method, path, query, headers, process };
            let mut answer = match api_of(&call) {
                Api::Azure => self.azure(&call, body).await,
                Api::Gcs => self.gcs(&call, body).await,
                Api::S3 => self.clone().serve(&call, body).await.unwrap_or_else(|error| {
                    if let StoreError::File(error) = &error {
                        tracing::warn!(%error, "an object could not be kept");
                    }
                    failed(&error.told(), &call.path)
                }),
            };
            answers::share(&mut answer, &call.asked());
            answer
        })
    }
}

/// The API of a request.
enum Api {
    S3,
    Gcs,
    Azure,
}

fn api_of(call: &Call) -> Api {
    use hothouse_sinks::objects::{azure, gcs};
    match (azure::is_asked(&call.asked()), gcs::is_asked(&call.path)) {
        (true, _) => Api::Azure,
        (false, true) => Api::Gcs,
        (false, false) => Api::S3,
    }
}

/// A request without its body.
struct Call {
    host: String,
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, Vec<u8>)>,
    process: Option<RoomProcess>,
}

impl Call {
    fn asked(&self) -> Asked<'_> {
        let Self { host, method, path, query, headers, .. } = self;
        Asked { host, method, path, query, headers }
    }
}

type Answered = Result<StreamedAnswer, StoreError>;

impl ObjectSink {
    async fn serve(self: Arc<Self>, call: &Call, mut body: StreamedBody) -> Answered {
        let asked = call.asked();
        let place = place(asked.host, asked.path)?;
        let operation = Operation::read(&asked, &place)?;
        let is_signed = signed::is_signed(&asked, HostClock.now())?;
        if operation.writes() && !is_signed && operation != Operation::PostForm {
            let message = "this is not signed; an app's own SDK signs what it sends";
            return Err(ObjectError::new(403, "AccessDenied", message).into());
        }
        if let Some(bucket) = &place.bucket
            && (place.by_host || puts(&operation))
            && !self.store.has_bucket(bucket)
        {
            let bucket = bucket.clone();
            self.on_disk(move |store| store.make_bucket(&bucket, HostClock.now())).await?;
        }
        match (&place.bucket, &place.key) {
            (None, _) => self.buckets(operation).await,
            (Some(bucket), None) => self.bucket(operation, bucket.clone(), call, &mut body).await,
            (Some(bucket), Some(key)) => {
                let at = At { bucket: bucket.clone(), key: key.clone() };
                self.object(operation, (at, place), call, &mut body).await
            }
        }
    }

    async fn buckets(&self, operation: Operation) -> Answered {
        if operation == Operation::Preflight {
            return Ok(answers::preflight());
        }
        let all = self.on_disk(Store::buckets).await?;
        let all: Vec<_> =
            all.into_iter().map(|(name, made)| (name, hothouse_objects::shown(made))).collect();
        Ok(text(200, xml::buckets(&all)))
    }

    async fn bucket(
        &self,
        operation: Operation,
        bucket: String,
        call: &Call,
        body: &mut StreamedBody,
    ) -> Answered {
        match operation {
            Operation::Preflight => Ok(answers::preflight()),
            Operation::CreateBucket => {
                let path = format!("/{bucket}");
                self.on_disk(move |store| store.make_bucket(&bucket, HostClock.now())).await?;
                Ok(empty(200, &[("location", path)]))
            }
            Operation::HeadBucket => match self.store.has_bucket(&bucket) {
                true => Ok(empty(200, &[("x-amz-bucket-region", "us-east-1".into())])),
                false => Ok(empty(404, &[])),
            },
            Operation::DeleteBucket => {
                self.on_disk(move |store| store.remove_bucket(&bucket)).await?;
                Ok(empty(204, &[]))
            }
            Operation::BucketLocation if !self.store.has_bucket(&bucket) => {
                Err(ObjectError::no_such_bucket(&bucket).into())
            }
            Operation::BucketLocation => Ok(text(200, xml::flat("LocationConstraint", &[]))),
            Operation::ListObjects(list) => {
                let name = bucket.clone();
                let all = self.on_disk(move |store| store.list(&name)).await?;
                let page = xml::page(&list, all.iter().map(Object::listed));
                Ok(text(200, xml::listing(&bucket, &list, &page)))
            }
            Operation::ListUploads => {
                let name = bucket.clone();
                let all = self.on_disk(move |store| store.uploads(&name)).await?;
                Ok(text(200, xml::uploads(&bucket, &all)))
            }
            Operation::ListVersions(list) => {
                let name = bucket.clone();
                let all = self.on_disk(move |store| store.versions(&name)).await?;
                let all: Vec<_> = all.iter().map(answers::listed_version).collect();
                let marker = |name| call.asked().parameter(name).unwrap_or_default();
                let after = (marker("key-marker"), marker("version-id-marker"));
                Ok(text(200, xml::versions(&bucket, &list, (&after.0, &after.1), &all)))
            }
            Operation::DeleteObjects => {
                let (keys, quiet) = xml::read_deletion(&short(body, XML_LIMIT).await?)?;
                let mut outcomes = Vec::with_capacity(keys.len());
                for (key, version) in keys {
                    let at = At { bucket: bucket.clone(), key: key.clone() };
                    let outcome = self.delete(at, version.clone(), call).await;
                    let removed = |deleted: Deleted| xml::Removed {
                        marker: deleted.version.clone().filter(|_| deleted.is_marker),
                        version,
                    };
                    outcomes.push((key, outcome.map(removed).map_err(StoreError::told)));
                }
                Ok(text(200, xml::deleted(&outcomes, quiet)))
            }
            Operation::Setting(setting) => self.setting(bucket, setting, body).await,
            Operation::PostForm => self.form(bucket, call, body).await,
            _ => Err(ObjectError::invalid("this call needs a key").into()),
        }
    }

    async fn object(
        &self,
        operation: Operation,
        (at, place): (At, Place),
        call: &Call,
        body: &mut StreamedBody,
    ) -> Answered {
        let asked = call.asked();
        match operation {
            Operation::Preflight => Ok(answers::preflight()),
            Operation::GetObject | Operation::HeadObject => self.get(at, &asked).await,
            Operation::PutObject => {
                let (bucket, key) = (at.bucket.clone(), at.key.clone());
                let digests = answers::digests(&asked);
                let begun = self
                    .on_disk(move |store| Ok((store.get(&bucket, &key)?, store.receive(digests)?)));
                let (before, incoming) = begun.await?;
                conditions::may_replace(&asked, before.as_ref().map(|one| one.etag.as_str()))?;
                let (here, about) = (at.clone(), answers::about(&asked)?);
                let put = move |store: &Store, received| {
                    store.put((&here.bucket, &here.key), received, about, HostClock.now())
                };
                let object = self.receive_into(incoming, &asked, body, put).await?;
                self.tell(&at, &object, ObjectOperation::Put, call).await?;
                Ok(answers::stored(&object))
            }
            Operation::CopyObject { bucket, key } => {
                let source = self.existing(At { bucket, key }).await?;
                let (given, source_about) = (answers::about(&asked)?, source.1.about.clone());
                let tags = match asked.header("x-amz-tagging-directive") {
                    Some("REPLACE") => given.tags.clone(),
                    _ => source_about.tags.clone(),
                };
                let about = match asked.header("x-amz-metadata-directive") {
                    Some("REPLACE") => given,
                    _ => source_about,
                };
                let about = About { tags, ..about };
                let received = self.copy(source, None).await?;
                let object = self.put(at, received, about, call).await?;
                Ok(answers::copied("CopyObjectResult", &object.etag, object.modified))
            }
            Operation::DeleteObject => {
                let deleted = self.delete(at, asked.parameter("versionId"), call).await?;
                Ok(answers::deleted(&deleted))
            }
            Operation::CreateUpload => {
                let about = answers::about(&asked)?;
                let (bucket, key) = (at.bucket.clone(), at.key.clone());
                let upload =
                    self.on_disk(move |store| store.begin_upload(&bucket, &key, about)).await?;
                let texts = [("Bucket", &*at.bucket), ("Key", &*at.key), ("UploadId", &*upload)];
                Ok(text(200, xml::flat("InitiateMultipartUploadResult", &texts)))
            }
            Operation::PutPart { upload, number } => {
                let received = self.receive(&asked, body).await?;
                let checksums = received.checksums.clone();
                let part = self.put_part(at, (upload, number), received).await?;
                Ok(answers::part(&part.md5, &checksums))
            }
            Operation::CopyPart { upload, number, bucket, key } => {
                let source = self.existing(At { bucket, key }).await?;
                let range = asked.header("x-amz-copy-source-range").map(str::to_owned);
                let received = self.copy(source, range).await?;
                let part = self.put_part(at, (upload, number), received).await?;
                Ok(answers::copied("CopyPartResult", &part.md5, part.modified))
            }
            Operation::CompleteUpload { upload } => {
                let named = xml::read_completion(&short(body, XML_LIMIT).await?)?;
                let here = at.clone();
                let completed = self.on_disk(move |store| {
                    store.complete((&here.bucket, &here.key), &upload, &named, HostClock.now())
                });
                let object = completed.await?;
                self.tell(&at, &object, ObjectOperation::Put, call).await?;
                let (etag, location) = (xml::quoted(&object.etag), call.path.as_str());
                let texts = [
                    ("Location", location),
                    ("Bucket", &at.bucket),
                    ("Key", &at.key),
                    ("ETag", &etag),
                ];
                Ok(text(200, xml::flat("CompleteMultipartUploadResult", &texts)))
            }
            Operation::AbortUpload { upload } => {
                self.on_disk(move |store| store.abort((&at.bucket, &at.key), &upload)).await?;
                Ok(empty(204, &[]))
            }
            Operation::ListParts { upload } => {
                let id = upload.clone();
                let parts =
                    self.on_disk(move |store| store.parts((&at.bucket, &at.key), &id)).await?;
                Ok(text(200, xml::parts(&place, &upload, &parts)))
            }
            Operation::GetAttributes => {
                let (_, object) = self.asked_for(at, &asked).await?;
                Ok(answers::attributes(&asked, &object))
            }
            Operation::Setting(setting) if setting.name == "tagging" => {
                let (at, object) = self.asked_for(at, &asked).await?;
                let tags = match setting.act {
                    SettingAct::Get => return Ok(answers::tagged(&object.about.tags)),
                    SettingAct::Put => tags::of_xml(&short(body, XML_LIMIT).await?)?,
                    SettingAct::Delete => Tags::new(),
                };
                let version = asked.parameter("versionId");
                self.on_disk(move |store| {
                    let current = store.get(&at.bucket, &at.key)?;
                    if version.is_some() && current.is_none_or(|one| one.version != object.version)
                    {
                        return Err(ObjectError::not_here("tags of earlier versions").into());
                    }
                    store.tag((&at.bucket, &at.key), tags)
                })
                .await?;
                Ok(answers::setting(&setting, None))
            }
            Operation::Setting(setting) => {
                self.existing(at).await?;
                Ok(answers::setting(&setting, None))
            }
            _ => Err(ObjectError::invalid("this call is about a bucket").into()),
        }
    }

    /// Returns the version of an object that a request asks for.
    async fn asked_for(&self, at: At, asked: &Asked<'_>) -> Result<(At, Object), StoreError> {
        match asked.parameter("versionId") {
            Some(version) => self.existing_version(at, version).await,
            None => self.existing(at).await,
        }
    }

    async fn get(&self, at: At, asked: &Asked<'_>) -> Answered {
        let (at, object) = self.asked_for(at, asked).await?;
        let wanted = conditions::wanted(asked, (&object.etag, object.size, object.modified))?;
        let file = {
            let object = object.clone();
            self.on_disk(move |store| store.open(&at.bucket, &object)).await?
        };
        Ok(of_object(asked, &object, (wanted, file)))
    }

    async fn existing(&self, at: At) -> Result<(At, Object), StoreError> {
        self.on_disk(move |store| {
            if !store.has_bucket(&at.bucket) {
                return Err(ObjectError::no_such_bucket(&at.bucket).into());
            }
            let found = store.get(&at.bucket, &at.key)?;
            let found = found.ok_or_else(|| ObjectError::no_such_key(&at.key))?;
            Ok((at, found))
        })
        .await
    }

    async fn existing_version(&self, at: At, version: String) -> Result<(At, Object), StoreError> {
        self.on_disk(move |store| {
            let found = store.get_version(&at.bucket, &at.key, &version)?;
            let found = found.ok_or_else(|| {
                ObjectError::new(404, "NoSuchVersion", "there is no such version of the object")
            })?;
            if found.is_marker {
                let message = "this version is a deletion, which has no content";
                return Err(ObjectError::new(405, "MethodNotAllowed", message).into());
            }
            Ok((at, found))
        })
        .await
    }

    async fn put(
        &self,
        at: At,
        received: Received,
        about: About,
        call: &Call,
    ) -> Result<Object, StoreError> {
        let here = at.clone();
        let object = self
            .on_disk(move |store| {
                store.put((&here.bucket, &here.key), received, about, HostClock.now())
            })
            .await?;
        self.tell(&at, &object, ObjectOperation::Put, call).await?;
        Ok(object)
    }

    async fn put_part(
        &self,
        at: At,
        (upload, number): (String, u32),
        received: Received,
    ) -> Result<hothouse_objects::PartRecord, StoreError> {
        self.on_disk(move |store| {
            let at = (at.bucket.as_str(), at.key.as_str());
            store.put_part(at, (&upload, number), received, HostClock.now())
        })
        .await
    }

    async fn delete(
        &self,
        at: At,
        version: Option<String>,
        call: &Call,
    ) -> Result<Deleted, StoreError> {
        let here = at.clone();
        let deleting = self.on_disk(move |store| {
            let key = (here.bucket.as_str(), here.key.as_str());
            match version {
                Some(version) => store.delete_version(key, &version),
                None => store.delete_versioned(key, HostClock.now()),
            }
        });
        let deleted = deleting.await?;
        if let Some(object) = &deleted.object {
            self.tell(&at, object, ObjectOperation::Delete, call).await?;
        }
        Ok(deleted)
    }

    async fn form(&self, bucket: String, call: &Call, body: &mut StreamedBody) -> Answered {
        let asked = call.asked();
        let upload = form::read(&asked, &bucket, &short(body, LONG_BODY).await?, HostClock.now())?;
        let received = self
            .on_disk(move |store| {
                let mut incoming = store.receive(Digests::default())?;
                incoming.write(&upload.bytes)?;
                let about = About {
                    content_type: upload.content_type.clone(),
                    metadata: upload.metadata.iter().cloned().collect(),
                    ..About::default()
                };
                Ok((incoming.finish(&Expected::default())?, about, upload))
            })
            .await;
        let (received, about, upload) = received?;
        let at = At { bucket, key: upload.key.clone() };
        let object = self.put(at.clone(), received, about, call).await?;
        Ok(answers::posted((&at.bucket, &at.key), &upload, &object))
    }

    async fn setting(&self, bucket: String, setting: Setting, body: &mut StreamedBody) -> Answered {
        let name = setting.name;
        let value = match setting.act {
            SettingAct::Get => {
                let value = self.on_disk(move |store| store.setting(&bucket, name)).await?;
                return Ok(answers::setting(&setting, value));
            }
            SettingAct::Put => {
                Some(String::from_utf8_lossy(&short(body, XML_LIMIT).await?).into_owned())
            }
            SettingAct::Delete => None,
        };
        self.on_disk(move |store| store.set(&bucket, name, value)).await?;
        Ok(answers::setting(&setting, None))
    }

    /// Receives the bytes of an object as they arrive.
    async fn receive(
        &self,
        asked: &Asked<'_>,
        body: &mut StreamedBody,
    ) -> Result<Received, StoreError> {
        let digests = answers::digests(asked);
        let incoming = self.on_disk(move |store| store.receive(digests)).await?;
        self.receive_into(incoming, asked, body, |_, received| Ok(received)).await
    }

    /// Receives bytes as they arrive, and does something with all of them.
    async fn receive_into<T: Send + 'static>(
        &self,
        mut incoming: Incoming,
        asked: &Asked<'_>,
        body: &mut StreamedBody,
        then: impl FnOnce(&Store, Received) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut chunks = chunked::is_chunked(asked).then(Chunked::default);
        let mut held = Held::default();
        while let Some(bytes) = body.next().await.map_err(|_| broken())? {
            match &mut chunks {
                Some(chunks) => chunks.push(&bytes, &mut |part| held.copy(part))?,
                None => held.add(bytes),
            }
            if held.length >= HELD {
                incoming = written(incoming, held.take()).await?;
            }
        }
        let mut expected = answers::expected(asked, chunks.is_some());
        if let Some(chunks) = chunks {
            chunks.finish()?;
            let sums = chunks.trailers.into_iter();
            expected.checksums.extend(sums.filter(|(name, _)| answers::is_checksum(name)));
        }
        self.on_disk(move |store| {
            take_all(&mut incoming, held.take())?;
            then(store, incoming.finish(&expected)?)
        })
        .await
    }

    /// Copies the bytes of an object, or a range of them.
    async fn copy(
        &self,
        (at, source): (At, Object),
        range: Option<String>,
    ) -> Result<Received, StoreError> {
        self.on_disk(move |store| {
            let (from, length) = answers::copied_range(range.as_deref(), source.size)?;
            let file = store.open(&at.bucket, &source)?;
            let mut incoming = store.receive(Digests::default())?;
            incoming.write_part(&file, from, length)?;
            incoming.finish(&Expected::default())
        })
        .await
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.store.clone();
        blocking(move || work(&store)).await
    }

    /// Records a change of an object on the timeline, and stores its bytes among the artifacts of
    /// the run.
    async fn tell(
        &self,
        at: &At,
        object: &Object,
        operation: ObjectOperation,
        call: &Call,
    ) -> Result<(), StoreError> {
        let content =
            (operation == ObjectOperation::Put).then(|| self.store.content(&at.bucket, object));
        let body = ObjectBody {
            bucket: at.bucket.clone(),
            key: at.key.clone(),
            size: object.size,
            r#type: object.about.content_type.clone().unwrap_or_default(),
            etag: object.etag.clone(),
            operation: operation.into(),
            file: None,
            media: None,
            version: object.version.clone(),
        };
        let kept = self.sinks.keep_object(body, content, call).await;
        kept.map_err(|why| {
            let message = format!("this was not accepted, because it cannot be kept: {why}");
            ObjectError::new(503, "ServiceUnavailable", message)
        })?;
        if self.sinks.tells_nobody() {
            return Ok(());
        }
        let (sinks, store, at, object) =
            (self.sinks.clone(), self.store.clone(), at.clone(), object.clone());
        let event = event_of(operation, call);
        blocking(move || sinks.notify(&store, &at, &object, event)).await
    }
}

/// The location of an object.
#[derive(Clone, Debug)]
struct At {
    bucket: String,
    key: String,
}

/// Whether an operation puts something into a bucket, which creates it.
fn puts(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::PutObject
            | Operation::CopyObject { .. }
            | Operation::CreateUpload
            | Operation::PostForm
    )
}

fn broken() -> StoreError {
    ObjectError::new(400, "IncompleteBody", "the body of the request broke off").into()
}

/// Reads a short body.
async fn short(body: &mut StreamedBody, most: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await.map_err(|_| broken())? {
        bytes.extend_from_slice(&part);
        if bytes.len() > most {
            let message = format!("this body has more than {most} bytes");
            return Err(ObjectError::new(400, "EntityTooLarge", message).into());
        }
    }
    Ok(bytes)
}

/// Bytes that were received but not written yet. Long pieces are kept as they are, short ones are combined.
#[derive(Default)]
struct Held {
    pieces: Vec<Bytes>,
    short: Vec<u8>,
    length: usize,
}

impl Held {
    fn add(&mut self, bytes: Bytes) {
        if bytes.len() < SHORT {
            return self.copy(&bytes);
        }
        self.join();
        self.length += bytes.len();
        self.pieces.push(bytes);
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        self.short.extend_from_slice(bytes);
    }

    fn join(&mut self) {
        if !self.short.is_empty() {
            self.pieces.push(std::mem::take(&mut self.short).into());
        }
    }

    fn take(&mut self) -> Vec<Bytes> {
        self.join();
        self.length = 0;
        std::mem::take(&mut self.pieces)
    }
}

/// Writes bytes on a blocking thread.
async fn written(mut incoming: Incoming, pieces: Vec<Bytes>) -> Result<Incoming, StoreError> {
    blocking(move || {
        take_all(&mut incoming, pieces)?;
        Ok(incoming)
    })
    .await
}

fn take_all(incoming: &mut Incoming, pieces: Vec<Bytes>) -> Result<(), StoreError> {
    pieces.into_iter().try_for_each(|piece| incoming.take(piece))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "the object store failed");
        let message = "the object store failed; the daemon's log has the reason";
        Err(ObjectError::new(500, "InternalError", message).into())
    })
}
