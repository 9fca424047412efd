//! Local images: OCI layouts and `docker save` files.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use hothouse_model::id::hex;
use serde_json::Value;
use tar::Archive;

use crate::{
    reference::is_digest,
    registry::{Blob, DOCUMENT_MOST, Manifest, choose, manifest, sha256},
    store::ImageError,
};

/// Reads the manifest of an OCI layout.
pub(crate) fn layout(folder: &Path) -> Result<(Manifest, PathBuf), ImageError> {
    let broken = |what: &str| ImageError::Local { path: folder.to_owned(), what: what.to_owned() };
    let index = document(&folder.join("index.json")).map_err(|error| broken(&error.to_string()))?;
    let mut value: Value =
        serde_json::from_slice(&index).map_err(|_| broken("index.json is not valid"))?;
    let blobs = folder.join("blobs/sha256");
    for _ in 0..3 {
        let all =
            value["manifests"].as_array().ok_or_else(|| broken("index.json names no manifest"))?;
        let digest = choose(all).ok_or_else(|| broken("it has nothing for this machine"))?;
        let bytes =
            document(&blob_path(&blobs, &digest)).map_err(|error| broken(&error.to_string()))?;
        if sha256(&bytes) != digest {
            return Err(ImageError::Digest { wanted: digest, found: sha256(&bytes) });
        }
        value = serde_json::from_slice(&bytes).map_err(|_| broken("a manifest is not valid"))?;
        if value["manifests"].is_null() {
            let found = manifest(&value, digest)
                .ok_or_else(|| broken("a manifest is not one of an image"))?;
            return Ok((found, blobs));
        }
    }
    Err(broken("its manifests lead to one another"))
}

/// Returns the path of a blob in a folder.
pub(crate) fn blob_path(blobs: &Path, digest: &str) -> PathBuf {
    blobs.join(digest.strip_prefix("sha256:").filter(|_| is_digest(digest)).unwrap_or("none"))
}

fn document(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(DOCUMENT_MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Extracts the parts of a `docker save` file into a folder of blobs, named by their digests.
pub(crate) fn archive(file: &Path, blobs: &Path) -> Result<Manifest, ImageError> {
    let broken = |what: String| ImageError::Local { path: file.to_owned(), what };
    let read = |error: io::Error| broken(error.to_string());
    let open = || File::open(file).map(Archive::new);
    let mut list = None;
    for entry in open()
        .and_then(|mut archive| archive.entries().map(|_| ()))
        .and_then(|()| open())
        .map_err(read)?
        .entries()
        .map_err(read)?
    {
        let mut entry = entry.map_err(read)?;
        if entry.path_bytes().as_ref() == b"manifest.json" {
            let mut bytes = Vec::new();
            entry.by_ref().take(DOCUMENT_MOST).read_to_end(&mut bytes).map_err(read)?;
            list = serde_json::from_slice::<Value>(&bytes).ok();
        }
    }
    let list = list.ok_or_else(|| broken("it has no manifest.json".to_owned()))?;
    let first = &list[0];
    let config = first["Config"].as_str().unwrap_or_default().to_owned();
    let layers: Vec<String> = first["Layers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|layer| layer.as_str().map(str::to_owned))
        .collect();
    if layers.is_empty() || layers.len() > 200 {
        return Err(broken("its manifest names no layers".to_owned()));
    }
    let wanted: Vec<&String> = layers.iter().chain([&config]).collect();
    let mut parts = std::collections::BTreeMap::new();
    for entry in open().map_err(read)?.entries().map_err(read)? {
        let mut entry = entry.map_err(read)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if !wanted.iter().any(|wanted| **wanted == name) || !entry.header().entry_type().is_file() {
            continue;
        }
        let new = blobs.join("new");
        let size = io::copy(&mut entry, &mut File::create(&new).map_err(read)?).map_err(read)?;
        let digest = file_digest(&new).map_err(read)?;
        fs::rename(&new, blob_path(blobs, &digest)).map_err(read)?;
        parts.insert(name, Blob { digest, size, media_type: String::new() });
    }
    let part =
        |name: &String| parts.get(name).cloned().ok_or_else(|| broken(format!("it has no {name}")));
    let layers = layers.iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let config = part(&config)?;
    let digest = sha256(
        layers
            .iter()
            .chain([&config])
            .map(|blob| blob.digest.as_str())
            .collect::<Vec<_>>()
            .join("\n")
            .as_bytes(),
    );
    Ok(Manifest { digest, config, layers })
}

fn file_digest(path: &Path) -> io::Result<String> {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    let mut input = File::open(path)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
    }
    Ok(format!("sha256:{}", hex(hash.finish().as_ref())))
}
