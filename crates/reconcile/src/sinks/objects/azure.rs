//! The basics of Azure Blob Storage, on the same store: containers are buckets.

use hothouse_host::{Clock, clock::HostClock};
use hothouse_objects::{About, Object, StoreError};
use hothouse_sinks::objects::{
    Asked, List, ObjectError,
    azure::{self, AzureCall, ListedBlob},
    conditions, gcs, xml,
};
use hothouse_terminate::{AnswerBody, StreamedAnswer, StreamedBody};

use super::{
    Answered, At, Call, ObjectSink, XML_LIMIT,
    answers::{http_date, of_object},
    short,
};

/// The fixture named in the request's record.
const FIXTURE: &str = "azure-blob";

/// The API version in responses.
const VERSION: &str = "2025-01-05";

impl ObjectSink {
    /// Answers a request, including errors, in the format of this API.
    pub(super) async fn azure(&self, call: &Call, body: StreamedBody) -> StreamedAnswer {
        let answered = self.azure_answer(call, body).await;
        let mut answer = answered.unwrap_or_else(|error| {
            if let StoreError::File(error) = &error {
                tracing::warn!(%error, "an object could not be kept");
            }
            let error = error.told();
            let mut answer = text(error.status, azure::error(&error));
            answer.headers.push(("x-ms-error-code".into(), azure::code(&error).into()));
            answer
        });
        answer.fixture = FIXTURE.into();
        answer
            .headers
            .push(("x-ms-request-id".into(), "00000000-0000-4000-8000-000000000000".into()));
        answer.headers.push(("x-ms-version".into(), VERSION.into()));
        answer
    }

    async fn azure_answer(&self, call: &Call, mut body: StreamedBody) -> Answered {
        let asked = call.asked();
        match azure::read(&asked)? {
            AzureCall::Containers => {
                let all = self.on_disk(hothouse_objects::Store::buckets).await?;
                let all: Vec<_> =
                    all.into_iter().map(|(name, made)| (name, http_date(made))).collect();
                Ok(text(200, azure::containers(&all)))
            }
            AzureCall::CreateContainer(name) => {
                let made =
                    self.on_disk(move |store| store.make_bucket(&name, HostClock.now())).await?;
                match made {
                    true => Ok(empty(201)),
                    false => Err(ObjectError::new(
                        409,
                        "ContainerAlreadyExists",
                        "the container exists already",
                    )
                    .into()),
                }
            }
            AzureCall::Container(name) => match self.store.has_bucket(&name) {
                true => Ok(empty(200)),
                false => Err(ObjectError::no_such_bucket(&name).into()),
            },
            AzureCall::DeleteContainer(name) => self.azure_remove(name, call).await,
            AzureCall::List(container, list) => self.azure_list(container, list).await,
            AzureCall::Put { container, blob } => {
                let at = At { bucket: container, key: blob };
                self.existing_bucket(&at.bucket)?;
                let received = self.receive(&asked, &mut body).await?;
                let object = self.put(at, received, about(&asked), call).await?;
                Ok(stored(201, &object))
            }
            AzureCall::PutBlock { container, blob, name } => {
                self.existing_bucket(&container)?;
                let received = self.receive(&asked, &mut body).await?;
                self.on_disk(move |store| store.stage_block((&container, &blob), &name, received))
                    .await?;
                Ok(empty(201))
            }
            AzureCall::PutBlockList { container, blob } => {
                let at = At { bucket: container, key: blob };
                self.azure_commit(at, call, &mut body).await
            }
            AzureCall::Blocks { container, blob } => {
                let found =
                    self.on_disk(move |store| store.staged_blocks((&container, &blob))).await?;
                let found: Vec<_> = found.into_iter().map(|one| (one.name, one.size)).collect();
                Ok(text(200, azure::blocks(&found)))
            }
            AzureCall::Copy { container, blob, from } => {
                let source = self.existing(At { bucket: from.0, key: from.1 }).await?;
                let about = source.1.about.clone();
                let received = self.copy(source, None).await?;
                let at = At { bucket: container, key: blob };
                self.existing_bucket(&at.bucket)?;
                let object = self.put(at, received, about, call).await?;
                let mut answer = stored(202, &object);
                answer.headers.push(("x-ms-copy-id".into(), object.etag.clone()));
                answer.headers.push(("x-ms-copy-status".into(), "success".into()));
                Ok(answer)
            }
            AzureCall::Get { container, blob } => {
                self.azure_get(At { bucket: container, key: blob }, call).await
            }
            AzureCall::Delete { container, blob } => {
                let (at, _) = self.existing(At { bucket: container, key: blob }).await?;
                self.delete(at, None, call).await?;
                Ok(empty(202))
            }
        }
    }

    /// Creates a blob from the listed blocks.
    async fn azure_commit(&self, at: At, call: &Call, body: &mut StreamedBody) -> Answered {
        let names = azure::read_block_list(&short(body, XML_LIMIT).await?)?;
        let here = at.clone();
        let joined =
            self.on_disk(move |store| store.join_blocks((&here.bucket, &here.key), &names));
        let received = joined.await?;
        let object = self.put(at.clone(), received, about(&call.asked()), call).await?;
        self.on_disk(move |store| store.drop_blocks((&at.bucket, &at.key))).await?;
        Ok(stored(201, &object))
    }

    fn existing_bucket(&self, container: &str) -> Result<(), StoreError> {
        match self.store.has_bucket(container) {
            true => Ok(()),
            false => Err(ObjectError::no_such_bucket(container).into()),
        }
    }

    /// Removes a container with its content, as Azure does.
    async fn azure_remove(&self, container: String, call: &Call) -> Answered {
        self.existing_bucket(&container)?;
        let name = container.clone();
        for object in self.on_disk(move |store| store.list(&name)).await? {
            let at = At { bucket: container.clone(), key: object.key };
            self.delete(at, None, call).await?;
        }
        self.on_disk(move |store| store.remove_bucket(&container)).await?;
        Ok(empty(202))
    }

    async fn azure_list(&self, container: String, list: List) -> Answered {
        let all = self.on_disk(move |store| store.list(&container)).await?;
        let page = xml::page(&list, all.iter().map(Object::listed));
        let find = |key: &str| all.iter().find(|object| object.key == key);
        let blobs: Vec<ListedBlob> = page
            .objects
            .iter()
            .filter_map(|one| find(&one.key))
            .map(|object| ListedBlob {
                name: object.key.clone(),
                size: object.size,
                etag: etag(object),
                modified: http_date(object.modified),
                content_type: kind(object),
                md5: gcs::md5(&object.etag),
            })
            .collect();
        Ok(text(200, azure::listing(&list, &blobs, &page.prefixes, page.next.as_deref())))
    }

    async fn azure_get(&self, at: At, call: &Call) -> Answered {
        let (at, object) = self.existing(at).await?;
        // Its clients request ranges with their own header.
        let mut headers = call.headers.clone();
        if let Some(range) = call.asked().header("x-ms-range") {
            headers.push(("range".to_owned(), range.as_bytes().to_vec()));
        }
        let asked = Asked { headers: &headers, ..call.asked() };
        let wanted = conditions::wanted(&asked, (&object.etag, object.size, object.modified))?;
        let file = {
            let object = object.clone();
            self.on_disk(move |store| store.open(&at.bucket, &object)).await?
        };
        let mut answer = of_object(&asked, &object, (wanted, file));
        let own =
            |name: &str| name == "etag" || name == "content-type" || name.starts_with("x-amz-");
        answer.headers.retain(|(name, _)| !own(name));
        answer.headers.extend(described(&object));
        Ok(answer)
    }
}

/// Reads the properties of a blob from a request.
fn about(asked: &Asked<'_>) -> About {
    let text = |(name, value): &(String, Vec<u8>)| {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("x-ms-meta-")?.to_owned();
        Some((name, String::from_utf8_lossy(value).into_owned()))
    };
    // The content type of a block list is not that of the blob.
    let own = asked.header("content-type").filter(|_| asked.parameter("comp").is_none());
    let kind = asked.header("x-ms-blob-content-type").or(own);
    About {
        content_type: kind.map(str::to_owned),
        metadata: asked.headers.iter().filter_map(text).take(100).collect(),
        ..About::default()
    }
}

fn etag(object: &Object) -> String {
    xml::quoted(&format!("0x{}", object.etag))
}

fn kind(object: &Object) -> String {
    object.about.content_type.clone().unwrap_or_else(|| "application/octet-stream".into())
}

/// Returns the headers that describe a blob.
fn described(object: &Object) -> Vec<(String, String)> {
    let mut headers = vec![
        ("etag".to_owned(), etag(object)),
        ("content-type".to_owned(), kind(object)),
        ("x-ms-blob-type".to_owned(), "BlockBlob".to_owned()),
        ("x-ms-creation-time".to_owned(), http_date(object.modified)),
        ("x-ms-server-encrypted".to_owned(), "false".to_owned()),
        ("x-ms-lease-status".to_owned(), "unlocked".to_owned()),
        ("x-ms-lease-state".to_owned(), "available".to_owned()),
    ];
    if let Some(md5) = gcs::md5(&object.etag) {
        headers.push(("x-ms-blob-content-md5".to_owned(), md5));
    }
    let metadata = object.about.metadata.iter();
    headers.extend(metadata.map(|(name, value)| (format!("x-ms-meta-{name}"), value.clone())));
    headers
}

fn stored(status: u16, object: &Object) -> StreamedAnswer {
    let mut answer = super::answers::empty(status, &[("etag", etag(object))]);
    answer.headers.push(("last-modified".into(), http_date(object.modified)));
    answer.headers.push(("x-ms-request-server-encrypted".into(), "false".into()));
    if let Some(md5) = gcs::md5(&object.etag) {
        answer.headers.push(("content-md5".into(), md5));
    }
    answer
}

fn empty(status: u16) -> StreamedAnswer {
    let mut answer = super::answers::empty(status, &[("etag", "\"0x1\"".to_owned())]);
    answer.headers.push(("last-modified".into(), http_date(HostClock.now())));
    answer
}

fn text(status: u16, xml: String) -> StreamedAnswer {
    StreamedAnswer {
        status,
        headers: vec![("content-type".into(), "application/xml".into())],
        body: AnswerBody::Bytes(xml.into()),
        fixture: FIXTURE.into(),
    }
}
