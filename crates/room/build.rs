//! Builds room-init, a static non-PIE program, and tells the crate where it is.
//!
//! `HOTHOUSE_ROOM_INIT` names a prebuilt one instead. The nested cargo has its own target folder,
//! so it neither waits for ours nor rebuilds when nothing has changed.

#![expect(clippy::disallowed_methods, reason = "a build script has no hothouse_host to lean on")]

use std::env;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=HOTHOUSE_ROOM_INIT");
    let program = env::var_os("HOTHOUSE_ROOM_INIT").map_or_else(build, ready);
    let bytes = std::fs::read(&program)
        .unwrap_or_else(|error| panic!("read {}: {error}", program.display()));
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    println!("cargo:rustc-env=HOTHOUSE_ROOM_INIT_PATH={}", program.display());
    println!("cargo:rustc-env=HOTHOUSE_ROOM_INIT_HASH={:016x}", hasher.finish());
}

fn ready(program: OsString) -> PathBuf {
    let program = PathBuf::from(program);
    println!("cargo:rerun-if-changed={}", program.display());
    program
}

/// Builds room-init. Its binary is not watched: it is newer than this run, so cargo would build
/// everything above this crate a second time.
fn build() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let crates = here.parent().expect("a crate lies in a folder");
    for part in [
        "room-init/src",
        "room-init/Cargo.toml",
        "room-wire/src",
        "room-wire/Cargo.toml",
        "service/src",
        "service/Cargo.toml",
        "supervise/src",
        "supervise/Cargo.toml",
    ] {
        println!("cargo:rerun-if-changed={}", crates.join(part).display());
    }
    let target = env::var("TARGET").expect("cargo sets it");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("room-init");
    let status =
        cargo(&crates.join("room-init/Cargo.toml"), &target, &folder).status().expect("cargo runs");
    assert!(status.success(), "room-init does not build");
    folder.join(target).join("release/hothouse-room-init")
}

/// `--target` keeps the flags from build scripts and proc macros, which cannot be static.
fn cargo(manifest: &Path, target: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    command
        .args(["build", "--release", "--quiet", "--target", target, "--manifest-path"])
        .arg(manifest);
    command.arg("--target-dir").arg(folder);
    // Variables that the outer cargo sets for its own units must not reach the inner one.
    let inherited = env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_CFG_")
            || name.starts_with("CARGO_FEATURE_")
            || [
                "CARGO_ENCODED_RUSTFLAGS",
                "RUSTC_WORKSPACE_WRAPPER",
                "RUSTC_WRAPPER",
                "CARGO_TARGET_DIR",
                "CARGO_MAKEFLAGS",
            ]
            .contains(&name.as_ref())
    });
    for name in inherited {
        command.env_remove(name);
    }
    command.env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
    for (name, value) in [
        ("PANIC", "abort"),
        ("OPT_LEVEL", "s"),
        ("LTO", "fat"),
        ("CODEGEN_UNITS", "1"),
        ("STRIP", "true"),
    ] {
        command.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
    }
    command
}
