//! Integrations, by the SDKs that lockfiles and manifests name.

use hothouse_sdks::{FileKind, ProjectFile};

use crate::{
    finding::{Evidence, Findings, Integration},
    view::View,
};

/// The maximum number of lockfiles and manifests that are read.
const FILES_MOST: usize = 400;

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let paths = view.paths().filter(|path| FileKind::of(path).is_some() && !super::is_aside(path));
    let texts: Vec<_> =
        paths.take(FILES_MOST).filter_map(|path| Some((path, view.text(path)?))).collect();
    let files: Vec<_> =
        texts.iter().map(|(path, text)| ProjectFile { path, bytes: text.as_bytes() }).collect();
    for (name, sdks) in hothouse_sdks::find(&files) {
        let Some(vendor) = hothouse_sdks::vendor(name) else { continue };
        let evidence = sdks.iter().map(|sdk| {
            let bare = sdk.package.split_once(':').map_or(sdk.package.as_str(), |(_, name)| name);
            let version =
                sdk.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
            view.evidence(&sdk.file, bare, format!("{}{version}", sdk.package))
        });
        let evidence: Vec<Evidence> = evidence.collect();
        found.integrations.push(Integration { vendor, evidence });
    }
}
