//! The JSON API of Google Cloud Storage, on the same store.

use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::record::bodies::ObjectOperation;
use hothouse_objects::{About, Digests, Expected, Object, StoreError};
use hothouse_sinks::objects::{
    List, ObjectError, conditions,
    gcs::{self, Chunk, Described, GcsAbout, GcsCall, GcsPlace},
    xml,
};
use hothouse_terminate::{AnswerBody, StreamedAnswer, StreamedBody};
use serde_json::{Value, json};

use super::{
    Answered, At, Call, HELD, Held, LONG_BODY, ObjectSink, answers::of_object, broken, short,
    written,
};

/// The fixture named in the request's record.
const FIXTURE: &str = "gcs";

/// The maximum length of an object's metadata.
const DESCRIPTION: usize = 64 << 10;

/// The digests that this API computes: clients compare them with their own.
const DIGESTS: Digests = Digests { crc32: false, crc32c: true, sha1: false, sha256: false };

impl ObjectSink {
    /// Answers a request, including errors, in the format of this API.
    pub(super) async fn gcs(&self, call: &Call, body: StreamedBody) -> StreamedAnswer {
        self.gcs_answer(call, body).await.unwrap_or_else(|error| {
            if let StoreError::File(error) = &error {
                tracing::warn!(%error, "an object could not be kept");
            }
            let error = error.told();
            tree(error.status, &gcs::error(&error))
        })
    }

    async fn gcs_answer(&self, call: &Call, mut body: StreamedBody) -> Answered {
        let asked = call.asked();
        match gcs::read(&asked)? {
            GcsCall::Buckets => {
                let all = self.on_disk(hothouse_objects::Store::buckets).await?;
                let items: Vec<Value> = all
                    .iter()
                    .map(|(name, made)| gcs::bucket(name, &hothouse_objects::shown(*made)))
                    .collect();
                Ok(tree(200, &json!({ "kind": "storage#buckets", "items": items })))
            }
            GcsCall::CreateBucket => {
                let about = gcs::about(&short(&mut body, DESCRIPTION).await?);
                let name = about.key.unwrap_or_default();
                let checked = hothouse_sinks::objects::place("localhost", &format!("/{name}"))?;
                let name =
                    checked.bucket.ok_or_else(|| ObjectError::invalid("a bucket has a name"))?;
                self.make(&name).await?;
                Ok(tree(200, &gcs::bucket(&name, &hothouse_objects::shown(HostClock.now()))))
            }
            GcsCall::Bucket(name) => match self.store.has_bucket(&name) {
                true => Ok(tree(200, &gcs::bucket(&name, "2026-01-01T00:00:00.000Z"))),
                false => Err(not_found("bucket").into()),
            },
            GcsCall::DeleteBucket(name) => {
                self.on_disk(move |store| store.remove_bucket(&name)).await?;
                Ok(empty(204, &[]))
            }
            GcsCall::List(bucket, list) => self.gcs_list(bucket, list).await,
            GcsCall::Metadata(at) => {
                let (at, object) = self.existing(at.into()).await?;
                Ok(tree(200, &described(&at, &object)))
            }
            GcsCall::Media(at) => self.gcs_media(at, call).await,
            GcsCall::Delete(at) => {
                let (at, _) = self.existing(at.into()).await?;
                self.delete(at, None, call).await?;
                Ok(empty(204, &[]))
            }
            GcsCall::Copy { from, to, is_rewrite } => {
                let source = self.existing(from.into()).await?;
                let (size, about) = (source.1.size, source.1.about.clone());
                let received = self.copy(source, None).await?;
                let to = At::from(to);
                let object = self.put(to.clone(), received, about, call).await?;
                let described = described(&to, &object);
                Ok(match is_rewrite {
                    false => tree(200, &described),
                    true => tree(
                        200,
                        &json!({ "kind": "storage#rewriteResponse", "done": true,
                        "totalBytesRewritten": size.to_string(), "objectSize": size.to_string(), "resource": described }),
                    ),
                })
            }
            GcsCall::UploadMedia(at) => {
                self.make(&at.bucket).await?;
                let received = self.gcs_receive(&mut body).await?;
                let about = About {
                    content_type: asked.header("content-type").map(str::to_owned),
                    ..About::default()
                };
                self.gcs_put(at, received, about, call).await
            }
            GcsCall::UploadMultipart(bucket) => self.gcs_multipart(bucket, call, &mut body).await,
            GcsCall::BeginUpload { bucket, key } => {
                self.gcs_begin((bucket, key), call, &mut body).await
            }
            GcsCall::ContinueUpload { bucket, upload } => {
                self.gcs_continue((bucket, upload), call, &mut body).await
            }
            GcsCall::AbortUpload { bucket, upload } => {
                let key = self.upload_key(&bucket, &upload).await?;
                self.on_disk(move |store| store.abort((&bucket, &key), &upload)).await?;
                Ok(empty(499, &[]))
            }
        }
    }

    async fn make(&self, bucket: &str) -> Result<(), StoreError> {
        let bucket = bucket.to_owned();
        self.on_disk(move |store| store.make_bucket(&bucket, HostClock.now())).await.map(drop)
    }

    async fn gcs_list(&self, bucket: String, list: List) -> Answered {
        let name = bucket.clone();
        let all = self.on_disk(move |store| store.list(&name)).await?;
        let page = xml::page(&list, all.iter().map(Object::listed));
        let find = |key: &str| all.iter().find(|object| object.key == key);
        let items: Vec<Value> = page
            .objects
            .iter()
            .filter_map(|one| find(&one.key))
            .map(|object| {
                let at = At { bucket: bucket.clone(), key: object.key.clone() };
                described(&at, object)
            })
            .collect();
        let mut answer = json!({ "kind": "storage#objects", "items": items });
        if !page.prefixes.is_empty() {
            answer["prefixes"] = json!(page.prefixes);
        }
        if let Some(next) = &page.next {
            answer["nextPageToken"] = gcs::token(next).into();
        }
        Ok(tree(200, &answer))
    }

    async fn gcs_media(&self, at: GcsPlace, call: &Call) -> Answered {
        let asked = call.asked();
        let (at, object) = self.existing(at.into()).await?;
        let wanted = conditions::wanted(&asked, (&object.etag, object.size, object.modified))?;
        let file = {
            let object = object.clone();
            self.on_disk(move |store| store.open(&at.bucket, &object)).await?
        };
        let mut answer = of_object(&asked, &object, (wanted, file));
        answer.fixture = FIXTURE.into();
        let generation = object.modified.as_microsecond().to_string();
        answer.headers.push(("x-goog-generation".into(), generation));
        answer.headers.push(("x-goog-metageneration".into(), "1".into()));
        answer.headers.push(("x-goog-stored-content-length".into(), object.size.to_string()));
        let md5 = gcs::md5(&object.etag).map(|md5| format!("md5={md5}"));
        let crc32c = object.crc32c.as_ref().map(|crc32c| format!("crc32c={crc32c}"));
        let hashes: Vec<String> = crc32c.into_iter().chain(md5).collect();
        if !hashes.is_empty() {
            answer.headers.push(("x-goog-hash".into(), hashes.join(",")));
        }
        Ok(answer)
    }

    async fn gcs_receive(
        &self,
        body: &mut StreamedBody,
    ) -> Result<hothouse_objects::Received, StoreError> {
        let mut incoming = self.on_disk(|store| store.receive(DIGESTS)).await?;
        let mut held = Held::default();
        while let Some(bytes) = body.next().await.map_err(|_| broken())? {
            held.add(bytes);
            if held.length >= HELD {
                incoming = written(incoming, held.take()).await?;
            }
        }
        super::blocking(move || {
            super::take_all(&mut incoming, held.take())?;
            incoming.finish(&Expected::default())
        })
        .await
    }

    async fn gcs_put(
        &self,
        at: GcsPlace,
        received: hothouse_objects::Received,
        about: About,
        call: &Call,
    ) -> Answered {
        let at = At::from(at);
        let object = self.put(at.clone(), received, about, call).await?;
        Ok(tree(200, &described(&at, &object)))
    }

    async fn gcs_multipart(
        &self,
        bucket: String,
        call: &Call,
        body: &mut StreamedBody,
    ) -> Answered {
        let asked = call.asked();
        let kind = asked.header("content-type").unwrap_or_default().to_owned();
        let named = asked.parameter("name");
        let bytes = short(body, LONG_BODY).await?;
        self.make(&bucket).await?;
        let taking = self.on_disk(move |store| {
            let (about, kind, content) = gcs::multipart(&kind, &bytes)?;
            let mut incoming = store.receive(DIGESTS)?;
            incoming.write(content)?;
            Ok((incoming.finish(&Expected::default())?, about, kind))
        });
        let (received, about, kind) = taking.await?;
        let key = about.key.clone().or(named).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| ObjectError::invalid("an object has a name"))?;
        let about = About { content_type: about.content_type.clone().or(kind), ..kept(about) };
        self.gcs_put(GcsPlace { bucket, key }, received, about, call).await
    }

    async fn gcs_begin(
        &self,
        (bucket, key): (String, Option<String>),
        call: &Call,
        body: &mut StreamedBody,
    ) -> Answered {
        let asked = call.asked();
        let about = gcs::about(&short(body, DESCRIPTION).await?);
        let key = key.or_else(|| about.key.clone()).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| ObjectError::invalid("an object has a name"))?;
        let kind = asked.header("x-upload-content-type").map(str::to_owned);
        let about = About { content_type: about.content_type.clone().or(kind), ..kept(about) };
        self.make(&bucket).await?;
        let place = bucket.clone();
        let upload = self.on_disk(move |store| store.begin_upload(&place, &key, about)).await?;
        // At the host that the client used, whatever its name and port.
        let host = asked.header("host").unwrap_or(asked.host);
        let is_local = host.starts_with("127.") || host.starts_with("localhost");
        let scheme = if is_local { "http" } else { "https" };
        let location = format!(
            "{scheme}://{host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload}"
        );
        Ok(empty(200, &[("location", location), ("x-guploader-uploadid", upload)]))
    }

    /// Returns the key of an upload, which a client does not repeat.
    async fn upload_key(&self, bucket: &str, upload: &str) -> Result<String, StoreError> {
        let (bucket, upload) = (bucket.to_owned(), upload.to_owned());
        let all = self.on_disk(move |store| store.uploads(&bucket)).await?;
        let found = all.into_iter().find(|(_, id)| *id == upload);
        found.map(|(key, _)| key).ok_or_else(|| not_found("upload").into())
    }

    async fn gcs_continue(
        &self,
        (bucket, upload): (String, String),
        call: &Call,
        body: &mut StreamedBody,
    ) -> Answered {
        let key = self.upload_key(&bucket, &upload).await?;
        let at = At { bucket, key };
        let parts = {
            let (at, upload) = (at.clone(), upload.clone());
            self.on_disk(move |store| store.parts((&at.bucket, &at.key), &upload)).await?
        };
        let there: u64 = parts.iter().map(|(_, part)| part.size).sum();
        let chunk = gcs::chunk(call.asked().header("content-range"))?;
        let is_last = match chunk {
            // An empty upload is complete from the beginning.
            Chunk::Question { total } => {
                if total != Some(there) {
                    return Ok(so_far(there));
                }
                true
            }
            Chunk::Last { from } | Chunk::More { from } if from != there => {
                return Ok(so_far(there));
            }
            Chunk::Last { .. } => true,
            Chunk::More { .. } => false,
        };
        let received = self.gcs_receive(body).await?;
        let (size, number) = (received.size, parts.len() + 1);
        if size > 0 {
            let number =
                u32::try_from(number).map_err(|_| ObjectError::invalid("too many parts"))?;
            self.put_part(at.clone(), (upload.clone(), number), received).await?;
        }
        if !is_last {
            return Ok(so_far(there + size));
        }
        let here = at.clone();
        let completing = self.on_disk(move |store| {
            store.complete_all((&here.bucket, &here.key), &upload, (DIGESTS, HostClock.now()))
        });
        let object = completing.await?;
        self.tell(&at, &object, ObjectOperation::Put, call).await?;
        Ok(tree(200, &described(&at, &object)))
    }
}

impl From<GcsPlace> for At {
    fn from(GcsPlace { bucket, key }: GcsPlace) -> Self {
        Self { bucket, key }
    }
}

fn kept(about: GcsAbout) -> About {
    About { metadata: about.metadata.into_iter().collect(), ..About::default() }
}

fn described(at: &At, object: &Object) -> Value {
    let metadata = object.about.metadata.iter();
    gcs::object(&Described {
        at: GcsPlace { bucket: at.bucket.clone(), key: at.key.clone() },
        size: object.size,
        etag: &object.etag,
        crc32c: object.crc32c.as_deref(),
        content_type: object.about.content_type.as_deref(),
        metadata: metadata.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        modified: object.modified.as_microsecond(),
        time: hothouse_objects::shown(object.modified),
    })
}

/// Answers that more is expected, with the range received so far.
fn so_far(there: u64) -> StreamedAnswer {
    match there {
        0 => empty(308, &[]),
        there => empty(308, &[("range", format!("bytes=0-{}", there - 1))]),
    }
}

fn not_found(what: &str) -> ObjectError {
    ObjectError::new(404, "notFound", format!("the {what} does not exist"))
}

fn tree(status: u16, tree: &Value) -> StreamedAnswer {
    StreamedAnswer {
        status,
        headers: vec![("content-type".into(), "application/json; charset=UTF-8".into())],
        body: AnswerBody::Bytes(tree.to_string().into()),
        fixture: FIXTURE.into(),
    }
}

fn empty(status: u16, headers: &[(&str, String)]) -> StreamedAnswer {
    let mut answer = super::answers::empty(status, headers);
    answer.fixture = FIXTURE.into();
    answer
}
