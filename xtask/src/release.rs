//! Releases: a tarball and a Debian package whose bytes depend only on the commit and the binary.
//!
//! Only needs tools of every Debian: tar, gzip, sha256sum, and dpkg-deb for the package.

mod install;
mod parts;
mod sbom;

use std::path::{Path, PathBuf};

use hothouse_host::{Program, files};

use self::parts::Part;

/// What a release is made from.
struct Order<'a> {
    root: &'a Path,
    binary: &'a Path,
    out: &'a Path,
    version: String,
    /// The time of all entries, in seconds since 1970: that of the commit.
    epoch: u64,
}

/// Makes a release of a binary in a folder, and prints what was made.
pub(crate) fn run(binary: &Path, out: &Path) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = files::canonical(&root).map_err(|error| error.to_string())?;
    let epoch = text(Program::new("git").folder(&root).args(["log", "-1", "--format=%ct"]))?;
    let epoch =
        epoch.parse().map_err(|_| format!("git tells the time of the commit as `{epoch}`"))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let made = make(&Order { root: &root, binary, out, version, epoch })?;
    made.iter().for_each(|path| crate::bench::print(&path.display().to_string()));
    Ok(())
}

fn make(order: &Order<'_>) -> Result<Vec<PathBuf>, String> {
    files::make_folder(order.out).map_err(|error| error.to_string())?;
    let parts = parts::collect(order)?;
    let tarball = tarball(order, &parts)?;
    let mut made = vec![tarball];
    // Other systems can neither build nor install the package.
    if hothouse_host::programs::look_up("dpkg-deb", &search_path()).is_some() {
        made.push(package(order, &parts)?);
    } else {
        crate::bench::print("dpkg-deb is missing: no Debian package");
    }
    let sbom = order.out.join(format!("{}.cdx.json", order.name()));
    write(&sbom, parts::find(&parts, parts::SBOM)?.bytes.as_slice(), 0o644)?;
    made.push(sbom);
    made.push(sums(order.out, &made)?);
    Ok(made)
}

impl Order<'_> {
    fn name(&self) -> String {
        format!("hothouse-{}-{}-linux", self.version, std::env::consts::ARCH)
    }
}

/// Writes parts below a folder, which is emptied first.
fn stage(folder: &Path, parts: &[Part]) -> Result<(), String> {
    files::remove_tree(folder).map_err(|error| error.to_string())?;
    parts.iter().try_for_each(|part| write(&folder.join(&part.path), &part.bytes, part.mode))
}

fn tarball(order: &Order<'_>, parts: &[Part]) -> Result<PathBuf, String> {
    let (name, stage_at) = (order.name(), order.out.join(".stage"));
    let mut all = parts.to_vec();
    all.push(Part::new("install.sh", install::SCRIPT.as_bytes(), 0o755));
    stage(&stage_at.join(&name), &all)?;
    let archive = order.out.join(format!("{name}.tar"));
    let mtime = format!("--mtime=@{}", order.epoch);
    let fixed =
        ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", &mtime];
    let tar = Program::new("tar").args(fixed).arg("--mode=u=rwX,go=rX").arg("-C").arg(&stage_at);
    text(tar.arg("-cf").arg(&archive).arg(&name))?;
    text(Program::new("gzip").args(["-n", "-9", "-f"]).arg(&archive))?;
    files::remove_tree(&stage_at).map_err(|error| error.to_string())?;
    Ok(order.out.join(format!("{name}.tar.gz")))
}

fn package(order: &Order<'_>, parts: &[Part]) -> Result<PathBuf, String> {
    let stage_at = order.out.join(".deb");
    let below = |part: &Part| Part { path: Path::new("usr").join(&part.path), ..part.clone() };
    let mut all: Vec<Part> = parts.iter().map(below).collect();
    let size: usize = all.iter().map(|part| part.bytes.len().div_ceil(1024)).sum();
    let control = install::control(&order.version, size);
    all.push(Part::new("DEBIAN/control", control.as_bytes(), 0o644));
    stage(&stage_at, &all)?;
    // Otherwise the modes of folders would depend on the umask.
    text(Program::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&stage_at))?;
    let to = order.out.join(format!("hothouse_{}_{}.deb", order.version, install::architecture()));
    let build = Program::new("dpkg-deb").env("SOURCE_DATE_EPOCH", order.epoch.to_string());
    let build = build.args(["--root-owner-group", "-Zgzip", "--build"]);
    text(build.arg(&stage_at).arg(&to))?;
    files::remove_tree(&stage_at).map_err(|error| error.to_string())?;
    Ok(to)
}

/// Writes the checksums of what was made, as `sha256sum --check` reads them.
fn sums(out: &Path, made: &[PathBuf]) -> Result<PathBuf, String> {
    let names = made.iter().filter_map(|path| path.file_name());
    let sums = text(Program::new("sha256sum").folder(out).args(names))?;
    let to = out.join("SHA256SUMS");
    write(&to, format!("{sums}\n").as_bytes(), 0o644)?;
    Ok(to)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    files::make_folder(path.parent().unwrap_or(path)).map_err(|error| error.to_string())?;
    files::write_quick(path, bytes, mode).map_err(|error| error.to_string())
}

/// Runs a program that must succeed, and returns what it printed.
fn text(program: Program) -> Result<String, String> {
    let output = program.output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
}

fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

#[cfg(test)]
mod tests;
