//! Services from container images: pulled once, unpacked in a separate room, and run with that as
//! their root.
//!
//! The whole root is the service's data: it is copied for each sandbox, and included in forks and
//! snapshots. It is unpacked by the room's root, so owners are ids of the room, and nothing in an
//! image can reach beyond that room.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hothouse_host::files;
use hothouse_images::{BadReference, Image, ImageError, ImageReference, ImageStore};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord, ServiceName,
    config::{Command, Config, ImageName, Work},
    room::Capability,
    stack::{DATA_INSIDE, DataOrder, service::AS_ROOT},
};

use crate::{Engine, project::ProjectError};

/// The path of the archive in a room that unpacks an image.
pub(crate) const ARCHIVE_INSIDE: &str = "/run/image.tar";

/// Paths of CA bundles in various distributions.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// An image that cannot be used for a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceImageError {
    #[error("service `{service}`: {source}")]
    Name { service: String, source: BadReference },
    #[error("service `{service}` asks for the image `{image}`, which you have not approved")]
    Unapproved { service: String, image: String },
    #[error(
        "service `{service}` is an image, and the rooms of this user have a single uid: an image needs several"
    )]
    SingleUid { service: String },
    #[error("get the image of service `{service}`")]
    Image { service: String, source: ImageError },
    #[error(transparent)]
    Project(#[from] ProjectError),
}

hothouse_model::explain! {
    ServiceImageError passes on Project;
    kind {
        Self::Name { .. } | Self::Unapproved { .. } => FailureKind::Config,
        Self::SingleUid { .. } => FailureKind::Host,
        Self::Image { source, .. } => source.kind(),
    }
    hints {
        Self::SingleUid { .. } => vec![
            "give this user a range in /etc/subuid and /etc/subgid; `hothouse doctor` shows how".into(),
        ],
        Self::Unapproved { .. } => vec![
            "an image is pulled by your machine and with your logins: it must be in the hothouse.toml that the sandbox was forked from, so add it there and fork again".into(),
        ],
        Self::Image { source, .. } => source.hints(),
        Self::Name { .. } => Vec::new(),
    }
}

impl Engine {
    pub(crate) fn image_store(&self) -> ImageStore {
        let bundle = BUNDLES.iter().map(PathBuf::from).find(|path| files::exists(path));
        let folder = self.with.repositories.with_file_name("images");
        let search_path = self.with.wall.environment.get("PATH").cloned().unwrap_or_default();
        ImageStore::new(folder, self.with.home.clone(), bundle.unwrap_or_default(), search_path)
    }

    /// Returns the images of a config's services, pulling missing ones.
    pub(crate) fn images_of(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Result<BTreeMap<ServiceName, Image>, ServiceImageError> {
        let mut images = BTreeMap::new();
        for (name, service) in &config.services {
            let Work::Image(image) = service.work() else { continue };
            let of = || name.to_string();
            let reference: ImageReference = image
                .as_str()
                .parse()
                .map_err(|source| ServiceImageError::Name { service: of(), source })?;
            if !self.capabilities().offered.contains(&Capability::Root) {
                return Err(ServiceImageError::SingleUid { service: of() });
            }
            if !self.is_approved(sandbox, image)? {
                return Err(ServiceImageError::Unapproved {
                    service: of(),
                    image: image.to_string(),
                });
            }
            let found = self.image_store().ensure(&reference, &|text| self.note(None, text));
            let found =
                found.map_err(|source| ServiceImageError::Image { service: of(), source })?;
            images.insert(name.clone(), found);
        }
        Ok(images)
    }

    /// Whether the user's own config names an image, for any of its services.
    fn is_approved(
        &self,
        sandbox: &SandboxRecord,
        image: &ImageName,
    ) -> Result<bool, ProjectError> {
        let pinned = self.pinned_config(sandbox)?;
        let of_profiles = pinned.profiles.values().flat_map(|profile| profile.services.values());
        Ok(pinned
            .services
            .values()
            .chain(of_profiles)
            .any(|service| service.image.as_ref() == Some(image)))
    }

    /// Removes all images.
    pub(crate) fn remove_images(&self) -> Result<(), Failure> {
        let folder = self.image_store().folder().to_owned();
        match files::exists(&folder) {
            true => files::remove_tree(&folder)
                .map_err(|error| hothouse_model::Explain::failure(&error)),
            false => Ok(()),
        }
    }
}

/// Returns the data order for an image's root.
pub(crate) fn data(service: &str, image: &Image, data: &Path, golden: &Path) -> DataOrder {
    let short: String = image.digest.trim_start_matches("sha256:").chars().take(16).collect();
    DataOrder {
        service: service.to_owned(),
        kind: format!("image {short}"),
        folder: data.join(service),
        golden: golden.join(format!("image-{short}")),
        script: format!(
            "exec sudo tar --extract --file={ARCHIVE_INSIDE} --directory=\"$DATA\" --numeric-owner --same-permissions --same-owner --delay-directory-restore"
        ),
        settle: String::new(),
        archive: Some(image.root.clone()),
        stack: Vec::new(),
    }
}

/// Folders that every root needs as mount points.
const SHOWN: [&str; 3] = ["proc", "dev", "sys"];

/// Returns the command of an image service: it enters the image's root, then executes its program.
pub(crate) fn run(service: &str, image: &Image, command: Option<&Command>) -> Vec<String> {
    let root = Path::new(DATA_INSIDE).join(service).display().to_string();
    let settings = &image.settings;
    let own = match command {
        Some(command) => {
            vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("exec {}", command.as_str())]
        }
        None => settings.command.clone(),
    };
    let words = match command {
        // A user-defined command runs in the image's shell.
        Some(_) => own,
        None => settings.entrypoint.iter().chain(&own).cloned().collect(),
    };
    let mut script =
        String::from("set -e; root=$1; shift; wd=$1; shift; uid=$1; shift; gid=$1; shift\n");
    script.push_str("mkdir -p \"$root/proc\" \"$root/dev\" \"$root/sys\" \"$root/etc\" \"$root/tmp\" \"$root$wd\"\n");
    script.push_str("/bin/chmod 755 \"$root\"; /bin/chmod 1777 \"$root/tmp\"\n");
    for folder in SHOWN {
        script.push_str(&format!(
            "/bin/mount --rbind /{folder} \"$root/{folder}\" 2>/dev/null || :\n"
        ));
    }
    for file in ["hosts", "resolv.conf"] {
        script.push_str(&format!(
            "rm -f \"$root/etc/{file}\"; cat /etc/{file} > \"$root/etc/{file}\" 2>/dev/null || :\n"
        ));
    }
    script.push_str("exec /usr/bin/unshare --root=\"$root\" --wd=\"$wd\" --setgid=\"$gid\" --setuid=\"$uid\" -- \"$@\"\n");
    let (uid, gid) = settings.user;
    let fixed = [
        AS_ROOT,
        "/usr/bin/unshare",
        "--mount",
        "--propagation=private",
        "--",
        "/bin/sh",
        "-c",
        &script,
        "image",
        &root,
        &settings.folder,
    ];
    let ids = [uid.to_string(), gid.to_string()];
    fixed.iter().map(|word| (*word).to_owned()).chain(ids).chain(words).collect()
}

/// Returns the environment that an image defines.
pub(crate) fn environment(image: &Image) -> BTreeMap<String, String> {
    let mut env = image.settings.env.clone();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    env.entry("PATH".to_owned()).or_insert_with(|| path.to_owned());
    env.entry("HOME".to_owned()).or_insert_with(|| "/root".to_owned());
    env
}

/// Returns the number of the signal that stops an image's program.
pub(crate) fn stop_signal(image: &Image) -> i32 {
    match image.settings.stop_signal.as_deref() {
        Some("SIGINT" | "2") => 2,
        Some("SIGQUIT" | "3") => 3,
        Some("SIGHUP" | "1") => 1,
        Some("SIGUSR1" | "10") => 10,
        Some("SIGKILL" | "9") => 9,
        _ => 15,
    }
}

#[cfg(test)]
mod tests {
    use hothouse_images::ImageSettings;

    use super::*;

    fn image() -> Image {
        let settings = ImageSettings {
            entrypoint: vec!["docker-entrypoint.sh".into()],
            command: vec!["postgres".into()],
            folder: "/".into(),
            user: (0, 0),
            stop_signal: Some("SIGINT".into()),
            ..ImageSettings::default()
        };
        Image {
            digest: format!("sha256:{}", "ab".repeat(32)),
            root: "/i/root.tar".into(),
            settings,
            left_out: 0,
        }
    }

    #[test]
    fn an_image_runs_in_its_own_root() {
        let words = run("db", &image(), None);
        assert_eq!(words[0], AS_ROOT);
        assert_eq!(words[words.len() - 2..], ["docker-entrypoint.sh", "postgres"]);
        assert!(words.iter().any(|word| word == "/var/lib/hothouse/db"), "{words:?}");
        assert_eq!(stop_signal(&image()), 2);
        assert!(environment(&image()).contains_key("PATH"));
        let own = run("db", &image(), Some(&"sleep 5".parse().unwrap()));
        assert_eq!(own.last().unwrap(), "exec sleep 5");
    }

    #[test]
    fn two_tags_have_two_roots() {
        let other = Image { digest: format!("sha256:{}", "cd".repeat(32)), ..image() };
        let order = |image: &Image| data("db", image, Path::new("/d"), Path::new("/g"));
        assert_ne!(order(&image()).golden, order(&other).golden);
        assert_ne!(order(&image()).kind, order(&other).kind);
    }
}
