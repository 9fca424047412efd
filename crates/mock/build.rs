//! Embeds the vendor packages: every file of every folder below `vendors/`.

use std::{
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

fn main() {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("vendors");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("vendors.rs");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut text =
        String::from("/// Vendor, file name, bytes.\nconst FILES: &[(&str, &str, &[u8])] = &[\n");
    for vendor in list(&root) {
        println!("cargo::rerun-if-changed={}", vendor.display());
        for file in list(&vendor) {
            println!("cargo::rerun-if-changed={}", file.display());
            let (vendor, name) = (name(&vendor), name(&file));
            text += &format!(
                "({vendor:?}, {name:?}, include_bytes!({:?})),\n",
                file.display().to_string()
            );
        }
    }
    text += "];\n";
    let mut file = File::create(&out).expect("OUT_DIR can be written");
    file.write_all(text.as_bytes()).expect("OUT_DIR can be written");
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of vendors can be read");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
