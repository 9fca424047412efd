//! The images of one user: each is pulled, verified and flattened once.
//!
//! ```text
//! images/blobs/DIGEST.part   an incomplete download; the next attempt continues it
//! images/names/KEY           the digest that a name last resolved to
//! images/DIGEST/root.tar     all files; renamed into place after it was written completely
//! images/DIGEST/image.json   the runtime settings
//! ```

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, Lock, LockError, files};
use hothouse_model::{Explain, FailureKind};
use serde::{Deserialize, Serialize};

use crate::{
    credentials::Logins,
    flatten::{FlattenError, flatten},
    http::Client,
    local,
    reference::{ImageReference, TagOrDigest},
    registry::{Blob, Manifest, Registry, sha256, verify},
    settings::ImageSettings,
};

/// An image that is ready to unpack in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub digest: String,
    /// One archive of all files.
    pub root: PathBuf,
    pub settings: ImageSettings,
    /// The number of files left out, because a room must not have them.
    pub left_out: usize,
}

/// The description stored beside the archive.
#[derive(Serialize, Deserialize)]
struct Description {
    name: String,
    settings: ImageSettings,
    left_out: usize,
    bytes: u64,
}

/// An image that is not available.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("reach the registry {host}")]
    Unreachable { host: String, source: io::Error },
    #[error("the registry {host} cannot be used: {what}")]
    Protocol { host: String, what: String },
    #[error("the registry {host} has no image `{name}` with this tag")]
    Missing { host: String, name: String },
    #[error("the registry {host} does not let you read `{name}`")]
    Denied { host: String, name: String },
    #[error("what was downloaded is not what was asked for: {found} instead of {wanted}")]
    Digest { wanted: String, found: String },
    #[error("read the image {}: {what}", .path.display())]
    Local { path: PathBuf, what: String },
    #[error("write {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("put the layers of {image} together")]
    Layers { image: String, source: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl Explain for ImageError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Missing { .. } | Self::Local { .. } => FailureKind::NotFound,
            Self::File(error) => error.kind(),
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unreachable { .. } => {
                vec!["check the network; a download continues where it was cut off".to_owned()]
            }
            Self::Denied { host, .. } => vec![format!(
                "sign in with `docker login {host}`: its config file and the credential helpers that it names are used"
            )],
            Self::Missing { .. } => {
                vec!["check the name and the tag under `[service.NAME]`".to_owned()]
            }
            Self::Digest { .. } => vec![
                "try again; if it stays so, the registry or the way to it is not to be trusted"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }
}

/// The images of one user.
#[derive(Clone, Debug)]
pub struct ImageStore {
    folder: PathBuf,
    home: PathBuf,
    /// The host's certificate authorities.
    bundle: PathBuf,
    /// The search path for the user's own programs.
    search_path: String,
}

impl ImageStore {
    /// Makes a store in a folder, which is created when it is needed.
    pub fn new(folder: PathBuf, home: PathBuf, bundle: PathBuf, search_path: String) -> Self {
        Self { folder, home, bundle, search_path }
    }

    fn logins(&self) -> Logins<'_> {
        Logins { home: &self.home, search_path: &self.search_path }
    }

    /// Returns the folder of all images.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns an image that was pulled before under this name, without network access.
    pub fn known(&self, reference: &ImageReference) -> Option<Image> {
        let digest = files::read_text(&self.name_file(reference)).ok()?;
        self.read(digest.trim())
    }

    fn name_file(&self, reference: &ImageReference) -> PathBuf {
        let key = sha256(reference.to_string().as_bytes());
        self.folder.join("names").join(key.trim_start_matches("sha256:"))
    }

    fn place(&self, digest: &str) -> PathBuf {
        local::blob_path(&self.folder, digest)
    }

    fn read(&self, digest: &str) -> Option<Image> {
        let place = self.place(digest);
        let bytes = files::read_capped(&place.join("image.json"), 1 << 20).ok()?;
        let Description { settings, left_out, .. } = serde_json::from_slice(&bytes).ok()?;
        let root = place.join("root.tar");
        files::exists(&root).then(|| Image { digest: digest.to_owned(), root, settings, left_out })
    }

    /// Returns an image, pulling it if necessary. A tag is resolved only once: `known` answers later.
    pub fn ensure(
        &self,
        reference: &ImageReference,
        said: &dyn Fn(String),
    ) -> Result<Image, ImageError> {
        if let Some(image) = self.known(reference) {
            return Ok(image);
        }
        for folder in [self.folder.clone(), self.folder.join("names"), self.folder.join("blobs")] {
            files::make_private_folder(&folder)?;
        }
        let _lock = Lock::take(&self.folder.join("lock"))?;
        if let Some(image) = self.known(reference) {
            return Ok(image);
        }
        let (manifest, blobs) = self.fetch(reference, said)?;
        let image = match self.read(&manifest.digest) {
            Some(image) => image,
            None => self.assemble(reference, &manifest, &blobs)?,
        };
        files::replace(&self.name_file(reference), image.digest.as_bytes(), 0o600)?;
        Ok(image)
    }

    /// Fetches all parts.
    fn fetch(
        &self,
        reference: &ImageReference,
        said: &dyn Fn(String),
    ) -> Result<(Manifest, PathBuf), ImageError> {
        let own = self.folder.join("blobs");
        match reference {
            ImageReference::Layout(folder) => {
                let (manifest, blobs) = local::layout(folder)?;
                for blob in manifest.layers.iter().chain([&manifest.config]) {
                    let file = local::blob_path(&blobs, &blob.digest);
                    let copy = local::blob_path(&own, &blob.digest);
                    std::fs::copy(&file, &copy).map_err(|error| ImageError::Local {
                        path: file,
                        what: error.to_string(),
                    })?;
                    verify(blob, &copy)?;
                }
                Ok((manifest, own))
            }
            ImageReference::Archive(file) => Ok((local::archive(file, &own)?, own)),
            ImageReference::Registry { host, name, target } => {
                self.pull(host, name, target, said).map(|manifest| (manifest, own))
            }
        }
    }

    fn pull(
        &self,
        host: &str,
        name: &str,
        target: &TagOrDigest,
        said: &dyn Fn(String),
    ) -> Result<Manifest, ImageError> {
        let bundle = files::read_capped(&self.bundle, 16 << 20).unwrap_or_default();
        let client = Client::new(&bundle)
            .map_err(|source| ImageError::Unreachable { host: host.to_owned(), source })?;
        let mut registry = Registry::new(&client, host, name, &self.logins());
        let manifest = registry.manifest(target)?;
        let bytes: u64 = manifest.layers.iter().map(|layer| layer.size).sum();
        said(format!(
            "pulling {host}/{name}: {} MB in {} layers",
            bytes >> 20,
            manifest.layers.len()
        ));
        for blob in manifest.layers.iter().chain([&manifest.config]) {
            let file = local::blob_path(&self.folder.join("blobs"), &blob.digest);
            if files::exists(&file) && verify(blob, &file).is_ok() {
                continue;
            }
            let part = file.with_extension("part");
            registry.blob(blob, &part)?;
            files::rename(&part, &file)?;
        }
        Ok(manifest)
    }

    /// Flattens the layers into one archive.
    fn assemble(
        &self,
        reference: &ImageReference,
        manifest: &Manifest,
        blobs: &Path,
    ) -> Result<Image, ImageError> {
        let name = reference.to_string();
        let failed = |source: io::Error| ImageError::Layers { image: name.clone(), source };
        let new = self.folder.join("new");
        if files::exists(&new) {
            files::remove_tree(&new)?;
        }
        files::make_private_folder(&new)?;
        let path = new.join("root.tar");
        let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
        let open = |at: usize| opened(&manifest.layers[at], blobs);
        let flat =
            flatten(manifest.layers.len(), &open, &mut out).map_err(|error| match error {
                FlattenError::Io(source) => failed(source),
                other => failed(io::Error::other(other.to_string())),
            })?;
        out.flush().map_err(failed)?;
        let config =
            files::read_capped(&local::blob_path(blobs, &manifest.config.digest), 4 << 20)?;
        let config = serde_json::from_slice(&config).map_err(|error| failed(error.into()))?;
        let kept = |file: &str| flat.kept.get(file).map(String::as_str).unwrap_or_default();
        let settings = ImageSettings::read(&config, kept("etc/passwd"), kept("etc/group"));
        let description = Description {
            name: name.clone(),
            settings: settings.clone(),
            left_out: flat.left_out,
            bytes: flat.bytes,
        };
        let text = serde_json::to_vec_pretty(&description).map_err(|error| failed(error.into()))?;
        files::replace(&new.join("image.json"), &text, 0o600)?;
        files::sync_file_system(&self.folder)?;
        let place = self.place(&manifest.digest);
        if files::exists(&place) {
            files::remove_tree(&place)?;
        }
        files::rename(&new, &place)?;
        // The archive contains all of it now.
        for blob in manifest.layers.iter().chain([&manifest.config]) {
            files::remove_file(&local::blob_path(blobs, &blob.digest)).ok();
        }
        Ok(Image {
            digest: manifest.digest.clone(),
            root: place.join("root.tar"),
            settings,
            left_out: flat.left_out,
        })
    }
}

/// Opens a layer; its first bytes tell the compression.
fn opened(layer: &Blob, blobs: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(File::open(local::blob_path(blobs, &layer.digest))?);
    let magic = io::BufRead::fill_buf(&mut file)?;
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        _ => Box::new(file),
    })
}
