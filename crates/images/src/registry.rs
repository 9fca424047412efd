//! The distribution protocol: tokens, manifests, and blobs whose downloads are resumed.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use aws_lc_rs::digest::{Context, SHA256};
use serde_json::Value;

use crate::{
    credentials::{Basic, Logins},
    http::{Answer, Client, Url},
    reference::{TagOrDigest, is_digest},
    store::ImageError,
};

/// The maximum size of a manifest or configuration.
pub(crate) const DOCUMENT_MOST: u64 = 4 << 20;

/// The maximum size of a layer.
const LAYER_MOST: u64 = 16 << 30;

/// How often a download is resumed.
const ATTEMPTS: usize = 5;

const REDIRECTS: usize = 5;

const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                      application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// One repository of a registry.
pub(crate) struct Registry<'a> {
    client: &'a Client,
    host: String,
    name: String,
    secure: bool,
    basic: Option<Basic>,
    token: Option<String>,
}

/// A part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) digest: String,
    pub(crate) size: u64,
    pub(crate) media_type: String,
}

/// The parts of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) digest: String,
    pub(crate) config: Blob,
    /// Lowest first.
    pub(crate) layers: Vec<Blob>,
}

impl<'a> Registry<'a> {
    pub(crate) fn new(client: &'a Client, host: &str, name: &str, logins: &Logins<'_>) -> Self {
        // A local registry has no certificate, and nobody else can intercept the connection.
        let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
        let secure = !matches!(bare, "localhost" | "127.0.0.1");
        Self {
            client,
            host: host.to_owned(),
            name: name.to_owned(),
            secure,
            basic: logins.find(host),
            token: None,
        }
    }

    fn url(&self, rest: &str) -> Result<Url, ImageError> {
        let scheme = if self.secure { "https" } else { "http" };
        let text = format!("{scheme}://{}/v2/{}/{rest}", self.host, self.name);
        Url::parse(&text).ok_or(ImageError::Protocol {
            host: self.host.clone(),
            what: "its address is not valid".to_owned(),
        })
    }

    fn protocol(&self, what: impl Into<String>) -> ImageError {
        ImageError::Protocol { host: self.host.clone(), what: what.into() }
    }

    fn unreachable(&self, source: io::Error) -> ImageError {
        ImageError::Unreachable { host: self.host.clone(), source }
    }

    /// Sends a request, signs in if required, and follows redirects to the storage of blobs.
    fn ask(&mut self, rest: &str, headers: &[(&str, &str)]) -> Result<Answer, ImageError> {
        let mut url = self.url(rest)?;
        let mut signed_in = false;
        for _ in 0..=REDIRECTS {
            let is_own = url.host == self.url(rest)?.host;
            let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
            let authorization =
                authorization.or_else(|| self.basic.as_ref().map(|basic| basic.value().to_owned()));
            let mut all = headers.to_vec();
            if let Some(value) = authorization.as_deref().filter(|_| is_own) {
                all.push(("Authorization", value));
            }
            let answer = self.client.get(&url, &all).map_err(|error| self.unreachable(error))?;
            match answer.status {
                401 if !signed_in && is_own => {
                    signed_in = true;
                    let challenge =
                        answer.headers.get("www-authenticate").cloned().unwrap_or_default();
                    self.sign_in(&challenge)?;
                }
                301 | 302 | 303 | 307 | 308 => {
                    let location =
                        answer.headers.get("location").and_then(|location| url.join(location));
                    url = location.ok_or_else(|| self.protocol("it redirects to nowhere"))?;
                }
                200 | 206 | 416 => return Ok(answer),
                401 | 403 => {
                    return Err(ImageError::Denied {
                        host: self.host.clone(),
                        name: self.name.clone(),
                    });
                }
                404 => {
                    return Err(ImageError::Missing {
                        host: self.host.clone(),
                        name: self.name.clone(),
                    });
                }
                status => return Err(self.protocol(format!("it answers with status {status}"))),
            }
        }
        Err(self.protocol("it redirects too often"))
    }

    /// Requests a token for reading this repository.
    fn sign_in(&mut self, challenge: &str) -> Result<(), ImageError> {
        let Some(fields) = challenge.strip_prefix("Bearer ") else {
            return Err(ImageError::Denied { host: self.host.clone(), name: self.name.clone() });
        };
        let field = |name: &str| {
            let (_, rest) = fields.split_once(&format!("{name}=\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        let realm =
            field("realm").ok_or_else(|| self.protocol("it does not say where to sign in"))?;
        let service = field("service").unwrap_or_default();
        let join = if realm.contains('?') { '&' } else { '?' };
        let text = format!(
            "{realm}{join}service={}&scope=repository:{}:pull",
            service.replace(' ', "%20"),
            self.name
        );
        let url = Url::parse(&text)
            .filter(|url| url.secure || !self.secure)
            .ok_or_else(|| self.protocol("it signs in at an address that is not safe"))?;
        let basic: Vec<(&str, &str)> =
            self.basic.iter().map(|basic| ("Authorization", basic.value())).collect();
        let mut answer = self.client.get(&url, &basic).map_err(|error| self.unreachable(error))?;
        if answer.status != 200 {
            return Err(ImageError::Denied { host: self.host.clone(), name: self.name.clone() });
        }
        let body = document(&mut answer.body).map_err(|error| self.unreachable(error))?;
        let value: Value =
            serde_json::from_slice(&body).map_err(|error| self.protocol(error.to_string()))?;
        let token = value["token"].as_str().or_else(|| value["access_token"].as_str());
        self.token = Some(token.ok_or_else(|| self.protocol("it gives no token"))?.to_owned());
        Ok(())
    }

    /// Returns the manifest for this machine's platform.
    pub(crate) fn manifest(&mut self, target: &TagOrDigest) -> Result<Manifest, ImageError> {
        let mut wanted = match target {
            TagOrDigest::Tag(tag) => tag.clone(),
            TagOrDigest::Digest(digest) => digest.clone(),
        };
        // A list of platforms leads to one manifest, and may be nested only once.
        for _ in 0..3 {
            let mut answer = self.ask(&format!("manifests/{wanted}"), &[("Accept", ACCEPT)])?;
            let body = document(&mut answer.body).map_err(|error| self.unreachable(error))?;
            let digest = sha256(&body);
            if is_digest(&wanted) && digest != wanted {
                return Err(ImageError::Digest { wanted, found: digest });
            }
            let value: Value =
                serde_json::from_slice(&body).map_err(|error| self.protocol(error.to_string()))?;
            match value["manifests"].as_array() {
                Some(all) => {
                    wanted = choose(all).ok_or_else(|| {
                        self.protocol(format!("the image has nothing for linux/{}", architecture()))
                    })?;
                }
                None => {
                    return manifest(&value, digest)
                        .ok_or_else(|| self.protocol("the manifest is not one of an image"));
                }
            }
        }
        Err(self.protocol("its lists of platforms lead to one another"))
    }

    /// Downloads a blob into a file, continuing after what the file has, and verifies it.
    pub(crate) fn blob(&mut self, blob: &Blob, file: &Path) -> Result<(), ImageError> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.download(blob, file) {
                Ok(()) => return verify(blob, file),
                Err(error @ (ImageError::Unreachable { .. } | ImageError::Protocol { .. })) => {
                    last = Some(error)
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| self.protocol("it sends nothing")))
    }

    fn download(&mut self, blob: &Blob, file: &Path) -> Result<(), ImageError> {
        let write = |source: io::Error| ImageError::Write { path: file.to_owned(), source };
        let mut out = OpenOptions::new().create(true).append(true).open(file).map_err(write)?;
        let have = out.metadata().map_err(write)?.len();
        if have >= blob.size {
            return Ok(());
        }
        let range = format!("bytes={have}-");
        let headers: &[(&str, &str)] = if have > 0 { &[("Range", &range)] } else { &[] };
        let answer = self.ask(&format!("blobs/{}", blob.digest), headers)?;
        if answer.status == 200 && have > 0 {
            // The server does not support resuming: start from the beginning.
            out.set_len(0).map_err(write)?;
        }
        let start = if answer.status == 206 { have } else { 0 };
        let mut body = answer.body.take(blob.size.saturating_sub(start) + 1);
        let mut buffer = vec![0; 256 << 10];
        let mut total = start;
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(self.unreachable(error)),
            };
            total += count as u64;
            if total > blob.size {
                out.set_len(0).map_err(write)?;
                return Err(self.protocol("a layer is longer than its manifest says"));
            }
            out.write_all(&buffer[..count]).map_err(write)?;
        }
        match total == blob.size {
            true => out.sync_all().map_err(write),
            false => Err(self.unreachable(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn document(body: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    body.take(DOCUMENT_MOST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > DOCUMENT_MOST {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Verifies that a file matches its digest; removes it if not.
pub(crate) fn verify(blob: &Blob, file: &Path) -> Result<(), ImageError> {
    let read = |source: io::Error| ImageError::Write { path: file.to_owned(), source };
    let mut input = File::open(file).map_err(read)?;
    input.seek(SeekFrom::Start(0)).map_err(read)?;
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = input.read(&mut buffer).map_err(read)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
    }
    let found = named(hash.finish().as_ref());
    if found == blob.digest {
        return Ok(());
    }
    hothouse_host::files::remove_file(file).ok();
    Err(ImageError::Digest { wanted: blob.digest.clone(), found })
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    named(aws_lc_rs::digest::digest(&SHA256, bytes).as_ref())
}

/// Formats a digest as registries do.
fn named(digest: &[u8]) -> String {
    format!("sha256:{}", hothouse_model::id::hex(digest))
}

/// Returns the name of this machine's architecture in image indexes.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Chooses the manifest for this machine's platform.
pub(crate) fn choose(all: &[Value]) -> Option<String> {
    let fits = |one: &&Value| {
        let platform = &one["platform"];
        platform.is_null()
            || (platform["os"] == "linux" && platform["architecture"] == architecture())
    };
    let digest = all.iter().find(fits)?["digest"].as_str()?;
    is_digest(digest).then(|| digest.to_owned())
}

/// Parses a manifest; every part must have a digest and a size.
pub(crate) fn manifest(value: &Value, digest: String) -> Option<Manifest> {
    const LAYERS_MOST: usize = 200;
    let blob = |value: &Value, most: u64| {
        let digest = value["digest"].as_str().filter(|digest| is_digest(digest))?.to_owned();
        let size = value["size"].as_u64().filter(|size| *size <= most)?;
        Some(Blob {
            digest,
            size,
            media_type: value["mediaType"].as_str().unwrap_or_default().to_owned(),
        })
    };
    let layers = value["layers"].as_array().filter(|layers| layers.len() <= LAYERS_MOST)?;
    let layers = layers.iter().map(|layer| blob(layer, LAYER_MOST)).collect::<Option<Vec<_>>>()?;
    Some(Manifest { digest, config: blob(&value["config"], DOCUMENT_MOST)?, layers })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        net::{TcpListener, TcpStream},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use super::*;

    const CONTENT: &[u8] = b"the bytes of a layer, which are longer than half of them";

    /// Starts a registry that handles each blob request with its own function, and reports the requested ranges.
    fn registry(treatments: Vec<fn(&mut TcpStream, u64)>) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (range_tx, range_rx) = mpsc::channel();
        thread::spawn(move || {
            for treat in treatments {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut range = String::new();
                while let Some(Ok(line)) =
                    lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                {
                    if let Some(wanted) = line.strip_prefix("Range: ") {
                        range = wanted.to_owned();
                    }
                }
                let from =
                    range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap_or(0);
                range_tx.send(range).unwrap();
                treat(&mut stream, from);
            }
        });
        (host, range_rx)
    }

    fn head(stream: &mut TcpStream, from: u64, length: usize) {
        let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n").unwrap();
    }

    fn rest(stream: &mut TcpStream, from: u64) {
        let rest = &CONTENT[usize::try_from(from).unwrap()..];
        head(stream, from, rest.len());
        stream.write_all(rest).unwrap();
    }

    fn half(stream: &mut TcpStream, from: u64) {
        head(stream, from, CONTENT.len());
        stream.write_all(&CONTENT[..20]).unwrap();
    }

    fn stall(stream: &mut TcpStream, from: u64) {
        half(stream, from);
        // Wait until the client gives up.
        stream.read_exact(&mut [0]).ok();
    }

    fn evil(stream: &mut TcpStream, from: u64) {
        head(stream, from, CONTENT.len());
        stream.write_all(&CONTENT.to_ascii_uppercase()).unwrap();
    }

    fn pull(
        treatments: Vec<fn(&mut TcpStream, u64)>,
        file: &Path,
    ) -> (Result<(), ImageError>, Vec<String>) {
        let (host, ranges) = registry(treatments);
        let mut client = Client::new(&[]).unwrap();
        client.silence = Duration::from_millis(300);
        let logins = Logins { home: Path::new("/nowhere"), search_path: "" };
        let mut registry = Registry::new(&client, &host, "web", &logins);
        let size = CONTENT.len() as u64;
        let blob = Blob { digest: sha256(CONTENT), size, media_type: String::new() };
        let pulled = registry.blob(&blob, file);
        drop(registry);
        (pulled, ranges.try_iter().collect())
    }

    #[test]
    fn a_download_that_was_cut_off_or_stalls_continues_where_it_was() {
        for first in [half, stall] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("part");
            let (pulled, ranges) = pull(vec![first, rest], &file);
            pulled.unwrap();
            assert_eq!(ranges, ["", "bytes=20-"]);
            assert_eq!(hothouse_host::files::read_text(&file).unwrap().as_bytes(), CONTENT);
        }
        // A partial download of an earlier process counts too.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("part");
        hothouse_host::files::write(&file, &CONTENT[..7]).unwrap();
        let (pulled, ranges) = pull(vec![rest], &file);
        pulled.unwrap();
        assert_eq!(ranges, ["bytes=7-"]);
    }

    #[test]
    fn other_bytes_than_the_digest_says_are_refused_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("part");
        let (pulled, _) = pull(vec![evil], &file);
        assert!(matches!(pulled, Err(ImageError::Digest { .. })), "{pulled:?}");
        assert!(!file.exists());
    }

    #[test]
    fn a_registry_that_always_stalls_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let always: Vec<fn(&mut TcpStream, u64)> =
            (0..ATTEMPTS).map(|_| silent as fn(&mut TcpStream, u64)).collect();
        let (pulled, _) = pull(always, &folder.path().join("part"));
        assert!(matches!(pulled, Err(ImageError::Unreachable { .. })), "{pulled:?}");
    }

    fn silent(stream: &mut TcpStream, _: u64) {
        stream.read_exact(&mut [0]).ok();
    }

    #[test]
    fn a_full_disk_is_reported_as_one() {
        let (pulled, _) = pull(vec![rest], Path::new("/dev/full"));
        let Err(ImageError::Write { source, .. }) = pulled else { panic!("{pulled:?}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    }
}
