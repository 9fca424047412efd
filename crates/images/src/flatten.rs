//! Layers put together into one archive: whiteouts applied, links resolved within the root, and nothing in it that could
//! do harm: no devices, no setuid bits, no path that leads out.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use tar::{Archive, Builder, EntryType, Header};

/// The most entries of all layers together.
const ENTRIES_MOST: usize = 1_000_000;

/// The most bytes of all files together.
const BYTES_MOST: u64 = 32 << 30;

/// The most bytes of a name, a target or a set of attributes in a layer: whoever reads one holds it in memory.
const NAME_MOST: u64 = 1 << 20;

/// The longest path.
const PATH_MOST: usize = 4096;

/// Links that are followed for one path.
const HOPS_MOST: usize = 40;

/// Ids beyond what a room has.
const ID_MOST: u64 = 65_534;

/// Files of the image that tell its users.
const KEPT: [&str; 2] = ["etc/passwd", "etc/group"];

/// Layers that cannot be put together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlattenError {
    #[error("read or write a layer")]
    Io(#[from] io::Error),
    #[error("the image has more than {ENTRIES_MOST} files")]
    Entries,
    #[error("the files of the image take more than 32 GiB")]
    Bytes,
    #[error("a name in the image takes more than 1 MiB")]
    Names,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flattened {
    pub(crate) bytes: u64,
    pub(crate) entries: usize,
    /// Devices, pipes and paths that were left out.
    pub(crate) left_out: usize,
    /// The texts of `etc/passwd` and `etc/group`.
    pub(crate) kept: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    /// The layer and entry that has the bytes.
    File {
        layer: usize,
        entry: usize,
        size: u64,
    },
    Link(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    layer: usize,
    kind: Kind,
    mode: u32,
    uid: u64,
    gid: u64,
    time: u64,
}

/// The tree as it is after some layers.
#[derive(Default)]
struct Tree {
    nodes: BTreeMap<String, Node>,
    left_out: usize,
    bytes: u64,
}

/// Opens a layer to be read, from the first one at the bottom.
pub(crate) type OpenLayer<'a> = dyn Fn(usize) -> io::Result<Box<dyn Read>> + 'a;

/// Writes one archive of all layers.
pub(crate) fn flatten(
    count: usize,
    open: &OpenLayer<'_>,
    out: &mut dyn Write,
) -> Result<Flattened, FlattenError> {
    let mut tree = Tree::default();
    for layer in 0..count {
        check(open(layer)?)?;
        tree.read(layer, open(layer)?)?;
    }
    let mut done = Flattened {
        bytes: tree.bytes,
        entries: tree.nodes.len(),
        left_out: tree.left_out,
        kept: BTreeMap::new(),
    };
    let mut builder = Builder::new(out);
    for (path, node) in &tree.nodes {
        if node.kind == Kind::Folder {
            let mut header = header(node, EntryType::Directory, 0);
            builder.append_data(&mut header, format!("./{path}"), io::empty())?;
        }
    }
    write_files(count, open, &tree, &mut builder, &mut done)?;
    for (path, node) in &tree.nodes {
        if let Kind::Link(target) = &node.kind {
            let mut header = header(node, EntryType::Symlink, 0);
            builder.append_link(&mut header, format!("./{path}"), target)?;
        }
    }
    builder.finish()?;
    Ok(done)
}

/// Refuses a layer that would unpack without end, before anything of it is held in memory.
fn check(input: Box<dyn Read>) -> Result<(), FlattenError> {
    let mut archive = Archive::new(input);
    let mut bytes = 0_u64;
    for (at, entry) in archive.entries()?.raw(true).enumerate() {
        let entry = entry?;
        let (kind, size) = (entry.header().entry_type(), entry.size());
        let is_name = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        bytes = bytes.saturating_add(size);
        match () {
            () if is_name && size > NAME_MOST => return Err(FlattenError::Names),
            () if bytes > BYTES_MOST => return Err(FlattenError::Bytes),
            () if at > ENTRIES_MOST * 2 => return Err(FlattenError::Entries),
            () => {}
        }
    }
    Ok(())
}

fn header(node: &Node, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(node.mode & 0o1777);
    header.set_uid(node.uid);
    header.set_gid(node.gid);
    header.set_mtime(node.time);
    header
}

/// Writes the bytes of files, each once; further names of the same are links to the first.
fn write_files(
    count: usize,
    open: &OpenLayer<'_>,
    tree: &Tree,
    builder: &mut Builder<&mut dyn Write>,
    done: &mut Flattened,
) -> Result<(), FlattenError> {
    let mut wanted: BTreeMap<(usize, usize), Vec<(&str, &Node)>> = BTreeMap::new();
    for (path, node) in &tree.nodes {
        if let Kind::File { layer, entry, .. } = node.kind {
            wanted.entry((layer, entry)).or_default().push((path, node));
        }
    }
    for layer in 0..count {
        if wanted.range((layer, 0)..(layer + 1, 0)).next().is_none() {
            continue;
        }
        let mut archive = Archive::new(open(layer)?);
        for (at, entry) in archive.entries()?.enumerate() {
            let mut entry = entry?;
            let Some(names) = wanted.get(&(layer, at)) else { continue };
            let (path, node) = names[0];
            let mut first = header(node, EntryType::Regular, entry.size());
            if names.iter().any(|(path, _)| KEPT.contains(path)) && entry.size() < 1 << 20 {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                for (path, _) in names.iter().filter(|(path, _)| KEPT.contains(path)) {
                    done.kept
                        .insert((*path).to_owned(), String::from_utf8_lossy(&bytes).into_owned());
                }
                builder.append_data(&mut first, format!("./{path}"), bytes.as_slice())?;
            } else {
                builder.append_data(&mut first, format!("./{path}"), &mut entry)?;
            }
            for (other, node) in &names[1..] {
                let mut link = header(node, EntryType::Link, 0);
                builder.append_link(&mut link, format!("./{other}"), format!("./{path}"))?;
            }
        }
    }
    Ok(())
}

impl Tree {
    fn read(&mut self, layer: usize, input: Box<dyn Read>) -> Result<(), FlattenError> {
        let mut archive = Archive::new(input);
        for (at, entry) in archive.entries()?.enumerate() {
            let entry = entry?;
            if at > ENTRIES_MOST || self.nodes.len() > ENTRIES_MOST {
                return Err(FlattenError::Entries);
            }
            self.bytes = self.bytes.saturating_add(entry.size());
            if self.bytes > BYTES_MOST {
                return Err(FlattenError::Bytes);
            }
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let target =
                entry.link_name_bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let head = entry.header();
            let node = Node {
                layer,
                kind: Kind::Folder,
                mode: head.mode().unwrap_or(0o755) & 0o1777,
                uid: head.uid().unwrap_or(0).min(ID_MOST),
                gid: head.gid().unwrap_or(0).min(ID_MOST),
                time: head.mtime().unwrap_or(0).min(u64::from(u32::MAX)),
            };
            self.add(layer, at, &path, head.entry_type(), target, entry.size(), node);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "all of them are fields of one entry")]
    fn add(
        &mut self,
        layer: usize,
        at: usize,
        path: &str,
        kind: EntryType,
        target: Option<String>,
        size: u64,
        node: Node,
    ) {
        let Some(parts) = parts(path) else {
            self.left_out += 1;
            return;
        };
        let Some((name, above)) = parts.split_last() else { return };
        let Some(folder) = self.resolve(above) else {
            self.left_out += 1;
            return;
        };
        let join = |name: &str| {
            if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
        };
        if *name == ".wh..wh..opq" {
            return self.remove_below(&folder, layer);
        }
        if let Some(hidden) = name.strip_prefix(".wh.") {
            return self.remove(&join(hidden));
        }
        let kind = match kind {
            EntryType::Directory => Kind::Folder,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                Kind::File { layer, entry: at, size }
            }
            EntryType::Symlink => match target.filter(|target| {
                !target.is_empty() && target.len() < PATH_MOST && !target.contains('\0')
            }) {
                Some(target) => Kind::Link(target),
                None => return,
            },
            EntryType::Link => {
                let first = target.as_deref().and_then(self::parts).and_then(|parts| {
                    let (name, above) = parts.split_last()?;
                    let folder = self.resolve(above)?;
                    let path = if folder.is_empty() {
                        (*name).to_owned()
                    } else {
                        format!("{folder}/{name}")
                    };
                    self.nodes.get(&path)
                });
                match first.map(|node| node.kind.clone()) {
                    Some(kind @ (Kind::File { .. } | Kind::Link(_))) => kind,
                    _ => {
                        self.left_out += 1;
                        return;
                    }
                }
            }
            _ => {
                self.left_out += 1;
                return;
            }
        };
        self.make_folders(&folder, layer);
        let path = join(name);
        let stays = kind == Kind::Folder
            && self.nodes.get(&path).is_some_and(|known| known.kind == Kind::Folder);
        if !stays {
            self.remove(&path);
        }
        self.nodes.insert(path, Node { kind, ..node });
    }

    /// Follows links in the folders of a path, within the root.
    fn resolve(&self, above: &[&str]) -> Option<String> {
        let mut waiting: Vec<String> = above.iter().rev().map(|part| (*part).to_owned()).collect();
        let (mut here, mut hops): (Vec<String>, usize) = (Vec::new(), 0);
        while let Some(part) = waiting.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    here.pop();
                    continue;
                }
                _ => here.push(part),
            }
            let path = here.join("/");
            match self.nodes.get(&path).map(|node| &node.kind) {
                Some(Kind::Link(target)) => {
                    hops += 1;
                    if hops > HOPS_MOST || path.len() > PATH_MOST {
                        return None;
                    }
                    here.pop();
                    if target.starts_with('/') {
                        here.clear();
                    }
                    waiting.extend(target.split('/').rev().map(str::to_owned));
                }
                Some(Kind::File { .. }) => return None,
                _ => {}
            }
        }
        Some(here.join("/"))
    }

    fn make_folders(&mut self, folder: &str, layer: usize) {
        let ends = folder
            .match_indices('/')
            .map(|(at, _)| at)
            .chain((!folder.is_empty()).then_some(folder.len()));
        for end in ends.collect::<Vec<_>>() {
            let plain = Node { layer, kind: Kind::Folder, mode: 0o755, uid: 0, gid: 0, time: 0 };
            self.nodes.entry(folder[..end].to_owned()).or_insert(plain);
        }
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        self.remove_below(path, usize::MAX);
    }

    /// Removes what earlier layers have below a folder.
    fn remove_below(&mut self, folder: &str, layer: usize) {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let from =
            self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let gone: Vec<String> =
            from.filter(|(_, node)| node.layer < layer).map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| {
            self.nodes.remove(path);
        });
    }
}

/// Splits a path; one that leads out or is not plain is nothing.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_plain = path.len() < PATH_MOST && !path.contains('\0') && !parts.contains(&"..");
    is_plain.then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entry<'a> = (&'a str, EntryType, &'a str);

    fn layer(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4755);
            let is_file = *kind == EntryType::Regular;
            header.set_size(if is_file { content.len() as u64 } else { 0 });
            // Names that the library itself would refuse.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            if !is_file {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
            }
            header.set_cksum();
            bytes.extend(header.as_bytes());
            if is_file {
                bytes.extend(content.as_bytes());
                bytes.resize(bytes.len().next_multiple_of(512), 0);
            }
        }
        bytes.extend([0; 1024]);
        bytes
    }

    fn flat(layers: &[&[Entry<'_>]]) -> (Vec<String>, Flattened) {
        let layers: Vec<Vec<u8>> = layers.iter().map(|entries| layer(entries)).collect();
        let open = |at: usize| -> io::Result<Box<dyn Read>> {
            Ok(Box::new(io::Cursor::new(layers[at].clone())))
        };
        let mut out = Vec::new();
        let done = flatten(layers.len(), &open, &mut out).unwrap();
        let mut archive = Archive::new(out.as_slice());
        let shown = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            assert_eq!(entry.header().mode().unwrap() & 0o6000, 0, "no setuid bit survives");
            let path = entry.path().unwrap().display().to_string();
            let link = entry
                .link_name()
                .unwrap()
                .map(|link| format!(" -> {}", link.display()))
                .unwrap_or_default();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            format!(
                "{path}{link}{}",
                if text.is_empty() { String::new() } else { format!(" = {text}") }
            )
        });
        let mut shown: Vec<String> = shown.collect();
        shown.sort();
        (shown, done)
    }

    const F: EntryType = EntryType::Regular;
    const D: EntryType = EntryType::Directory;
    const S: EntryType = EntryType::Symlink;

    #[test]
    fn whiteouts_and_opaque_folders_hide_what_is_below() {
        let (shown, _) = flat(&[
            &[("a/", D, ""), ("a/one", F, "1"), ("a/two", F, "2"), ("b/x", F, "x"), ("c", F, "c")],
            &[
                ("a/.wh.one", F, ""),
                ("b/", D, ""),
                ("b/.wh..wh..opq", F, ""),
                ("b/y", F, "y"),
                (".wh.c", F, ""),
            ],
        ]);
        assert_eq!(shown, ["a", "a/two = 2", "b", "b/y = y"].map(|line| line.to_owned()));
    }

    #[test]
    fn links_of_lower_layers_are_followed_within_the_root() {
        let (shown, done) = flat(&[
            &[
                ("usr/lib/", D, ""),
                ("lib", S, "usr/lib"),
                ("abs", S, "/usr/lib"),
                ("out", S, "../../../etc"),
                ("loop", S, "loop"),
            ],
            &[("lib/x", F, "x"), ("abs/y", F, "y"), ("out/z", F, "z"), ("loop/n", F, "n")],
        ]);
        for expected in ["usr/lib/x = x", "usr/lib/y = y", "etc/z = z"] {
            assert!(shown.iter().any(|line| line == expected), "{shown:?}");
        }
        assert_eq!(done.left_out, 1, "the loop");
    }

    #[test]
    fn what_could_do_harm_is_left_out() {
        let (shown, done) = flat(&[&[
            ("../../etc/passwd", F, "evil"),
            ("/etc/passwd", F, "root:x:0:0"),
            ("dev/null", EntryType::Char, ""),
            ("pipe", EntryType::Fifo, ""),
            ("hard", EntryType::Link, "../../etc/shadow"),
            ("same", EntryType::Link, "etc/passwd"),
        ]]);
        assert_eq!(done.left_out, 4, "{shown:?}");
        assert_eq!(done.kept["etc/passwd"], "root:x:0:0");
        assert!(shown.iter().any(|line| line.starts_with("same")), "{shown:?}");
        assert!(
            !shown.iter().any(|line| line.contains("..") || line.contains("evil")),
            "{shown:?}"
        );
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_takes_it_away() {
        let (shown, _) = flat(&[&[("a/b/c", F, "1")], &[("a", F, "2")], &[("a/d", F, "3")]]);
        assert_eq!(shown, ["a = 2"]);
    }

    /// A layer whose only entry says that it has so many bytes; they would follow from a stream without end.
    fn bomb(kind: EntryType, size: u64) -> Result<Flattened, FlattenError> {
        let mut head = Header::new_gnu();
        head.set_entry_type(kind);
        head.set_size(size);
        head.set_path("x").unwrap();
        head.set_cksum();
        let head = head.as_bytes().to_vec();
        let open = move |_: usize| -> io::Result<Box<dyn Read>> {
            Ok(Box::new(io::Cursor::new(head.clone()).chain(io::repeat(0))))
        };
        flatten(1, &open, &mut io::sink())
    }

    #[test]
    fn a_layer_that_unpacks_without_end_is_refused_before_it_is_unpacked() {
        assert!(matches!(bomb(F, 40 << 30), Err(FlattenError::Bytes)));
        for kind in [
            EntryType::GNULongName,
            EntryType::GNULongLink,
            EntryType::XHeader,
            EntryType::XGlobalHeader,
        ] {
            assert!(matches!(bomb(kind, 4 << 30), Err(FlattenError::Names)), "{kind:?}");
        }
    }
}
