//! The other sinks: analytics, flags, models, traces, queues, objects, webhooks.

use hothouse_sinks::{Context, FlagSet, HostSink, Taken, analytics, flags, llm, traces};

/// Checks requests to analytics vendors: the first line names host and path. The records fit in a timeline.
pub fn sunk_analytics(bytes: &[u8]) {
    sunk(bytes, &|host| analytics::find(host).unwrap_or(analytics::GENERIC));
}

/// Checks requests to vendors of feature flags.
pub fn sunk_flags(bytes: &[u8]) {
    sunk(bytes, &|host| flags::find(host).unwrap_or(flags::GENERIC));
}

/// Checks requests to language models.
pub fn sunk_models(bytes: &[u8]) {
    let take = |call: &hothouse_sinks::Call<'_>, context: &mut Context<'_>| {
        llm::echo(call, context).unwrap_or_else(|| Taken::empty(404, "none", Vec::new()))
    };
    sunk(bytes, &|_| HostSink { vendor: "models", take });
}

/// Checks exports of traces, whose body is protobuf unless it begins with a brace.
pub fn sunk_traces(bytes: &[u8]) {
    sunk(bytes, &|_| traces::OTLP);
}

fn sunk(bytes: &[u8], choose: &dyn Fn(&str) -> HostSink) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes.get(end + 1..).unwrap_or_default();
    let (host, path) = line.split_once('/').unwrap_or((&line, ""));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = format!("/{path}");
    let kind: &[u8] = match body.first() {
        Some(b'{' | b'[') => b"application/json",
        _ => b"application/x-protobuf",
    };
    let headers = [
        ("content-type".to_owned(), kind.to_vec()),
        ("authorization".to_owned(), b"Bearer x".to_vec()),
    ];
    let method = if body.is_empty() { "GET" } else { "POST" };
    let request =
        hothouse_mock::Request { method, host, path: &path, query, headers: &headers, body };
    let call = hothouse_sinks::Call::read(request);
    let (set, mut random) = (FlagSet::new(), || [7; 16]);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let taken = (choose(host).take)(
        &call,
        &mut Context { now, random: &mut random, flags: &set, mails: &hothouse_sinks::no_mails },
    );
    assert!((200..600).contains(&taken.answer.status));
    for record in &taken.records {
        assert!(hothouse_model::record::is_shallow(&record.body), "it nests too deeply");
        assert!(record.body.to_string().len() < hothouse_timeline::LINE_LIMIT, "it is too long");
    }
}

/// Checks requests to SQS, one per line: an action and its JSON, or the parameters of older clients. The stored changes
/// match the state.
pub fn queued_messages(bytes: &[u8]) {
    use hothouse_sinks::queue::{broker::Broker, sqs};
    let (mut broker, mut count) = (Broker::default(), 0_u8);
    let flags = hothouse_sinks::FlagSet::default();
    let mut kept = std::collections::BTreeMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(50) {
        let at = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let (action, body) = line.split_at(at);
        let headers = [match at {
            0 => ("content-type".to_owned(), b"application/x-www-form-urlencoded".to_vec()),
            _ => ("x-amz-target".to_owned(), [b"AmazonSQS.", action].concat()),
        }];
        let call = hothouse_sinks::Call::read(hothouse_mock::Request {
            method: "POST",
            host: "sqs.us-east-1.amazonaws.com",
            path: "/",
            query: "",
            headers: &headers,
            body: body.trim_ascii(),
        });
        count += 1;
        let now = jiff::Timestamp::from_second(i64::from(count) * 10).expect("a moment");
        let mut random = || [count; 16];
        let mails = &hothouse_sinks::no_mails;
        let mut context = Context { now, random: &mut random, flags: &flags, mails };
        let (answer, _) = sqs::read(&call, &mut context).done(&mut broker, &mut context);
        assert!(matches!(answer.status, 200 | 400));
        let (changes, records) = broker.take_changes();
        records.iter().for_each(crate::kept);
        for (key, value) in changes {
            match value {
                Some(value) => kept.insert(key, value),
                None => kept.remove(&key),
            };
        }
        let now = now.as_millisecond();
        assert_eq!(Broker::load(kept.clone()).jobs(now), broker.jobs(now));
        broker.take_changes().0.into_iter().for_each(|(key, value)| match value {
            Some(value) => drop(kept.insert(key, value)),
            None => drop(kept.remove(&key)),
        });
    }
}

/// Checks requests to an object store: a line with method, host, path and query, then the body.
pub fn stored_objects(bytes: &[u8]) {
    use hothouse_sinks::objects::{
        Asked, Operation, azure, chunked::Chunked, form, gcs, notify, place, signed, tags, xml,
    };
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes.get(end + 1..).unwrap_or_default();
    let mut words = line.splitn(3, ' ');
    let (method, host) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = words.next().unwrap_or_default().split_once('?').unwrap_or_default();
    let headers = [
        ("content-type".to_owned(), b"multipart/form-data; boundary=b".to_vec()),
        ("x-amz-copy-source".to_owned(), path.as_bytes().to_vec()),
    ];
    let asked = Asked { host, method, path, query, headers: &headers };
    if let Ok(place) = place(host, path) {
        // Bucket names become folder names.
        let bucket = place.bucket.as_deref().unwrap_or("none");
        assert!(!bucket.contains('/') && !bucket.starts_with('.') && !bucket.is_empty());
        if let Ok(Operation::ListObjects(list)) = Operation::read(&asked, &place) {
            let shown = xml::listing(bucket, &list, &xml::page(&list, std::iter::empty()));
            assert!(shown.ends_with("</ListBucketResult>"));
        }
    }
    let now = jiff::Timestamp::UNIX_EPOCH;
    signed::is_signed(&asked, now).ok();
    form::read(&asked, "goods", body, now).ok();
    tags::of_xml(body).ok();
    tags::of_header(&String::from_utf8_lossy(body)).ok();
    xml::read_deletion(body).ok();
    xml::read_completion(body).ok();
    azure::read_block_list(body).ok();
    notify::is_told(std::str::from_utf8(body).ok(), "ObjectCreated:Put", path);
    if let Ok(gcs::GcsCall::Media(at) | gcs::GcsCall::Metadata(at)) = gcs::read(&asked) {
        assert!(!at.bucket.contains('/') && !at.bucket.starts_with('.') && !at.key.is_empty());
    }
    if let Ok((_, _, content)) = gcs::multipart("multipart/related; boundary=b", body) {
        assert!(content.len() < body.len());
    }
    gcs::chunk(Some(path)).ok();
    if let Ok(azure::AzureCall::Get { container, blob }) = azure::read(&asked) {
        assert!(!container.contains('/') && !container.starts_with('.') && !blob.is_empty());
    }
    let (mut chunked, mut came) = (Chunked::default(), 0);
    if chunked.push(body, &mut |part| came += part.len()).is_ok() {
        chunked.finish().ok();
    }
    assert!(came <= body.len(), "no more comes out than came in");
}

/// Checks the first bytes of images.
pub fn measured_images(bytes: &[u8]) {
    if let Some(found) = hothouse_sinks::objects::media::measure(bytes) {
        assert!(!found.format.is_empty());
    }
}

/// Checks webhook deliveries from anyone who found a listener: lines of headers, an empty line, a body. The first byte
/// chooses the vendor. Nobody here has the secret, so none is forwarded.
pub fn arrived_webhooks(bytes: &[u8]) {
    use hothouse_sinks::webhook::{
        fixture,
        verify::{self, Arrived},
    };
    let Some((choice, rest)) = bytes.split_first() else { return };
    let vendors = fixture::vendors();
    let vendor = vendors[usize::from(*choice) % vendors.len()];
    let Some(scheme) = fixture::scheme(vendor) else { return };
    let at = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
    let body = rest.get(at + 2..).unwrap_or_default();
    let head = String::from_utf8_lossy(&rest[..at]).into_owned();
    let headers: Vec<(String, String)> = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let arrived = Arrived { headers: &headers, body, url: "https://x/", now };
    assert!(verify::check(&scheme, "a secret that nobody was told", &arrived).is_err());
    assert!(verify::kind(&scheme, &arrived).len() <= 120);
    assert!(verify::message(&arrived).is_none_or(|id| id.len() <= 120));
    assert!(verify::passed_on(&scheme, &headers).len() <= headers.len());
}
