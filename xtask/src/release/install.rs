//! Installing a release: the script in the tarball, and the description of the package. Pure.

/// Included in the tarball.
pub(super) const SCRIPT: &str = include_str!("install.sh");

/// Returns Debian's name for the processor.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Describes the Debian package; the size is in KiB.
pub(super) fn control(version: &str, size: usize) -> String {
    let architecture = architecture();
    format!(
        "Package: hothouse\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Hothouse maintainers\n\
         Installed-Size: {size}\nDepends: git (>= 1:2.38)\nRecommends: uidmap, chromium\nSuggests: btrfs-progs, gh\n\
         Section: devel\nPriority: optional\n\
         Description: isolated copies of a repository and its stack for coding agents\n \
         Every coding agent gets its own branch, files, running services, URLs and\n \
         record of what happened, and cannot harm the machine.\n"
    )
}
