//! Combines layers into one archive: whiteouts are applied, links resolved within the root, and harmful content left
//! out: no devices, no setuid bits, no path that leaves the root.

use std::{
    cell::Cell,
    collections::BTreeMap,
    io::{self, Read, Write},
    rc::Rc,
};

use tar::{Archive, Builder, Entry, EntryType, Header};

/// The maximum number of entries in all layers.
const ENTRIES_MOST: usize = 1_000_000;

/// The maximum total size of all files.
const BYTES_MOST: u64 = 32 << 30;

/// The maximum size of an entry's names, link targets and attributes, which the tar library holds in memory.
const NAME_MOST: u64 = 1 << 20;

/// The maximum total size of all paths and link targets, which are held in memory until the end.
const NAMES_MOST: u64 = if cfg!(test) { 8 << 20 } else { 128 << 20 };

/// The maximum number of path bytes that are built or compared: a layer can make every entry go through long links, or
/// hide everything again and again.
const WORK_MOST: u64 = if cfg!(test) { 64 << 20 } else { 4 << 30 };

/// The maximum length of a path.
const PATH_MOST: usize = 4096;

/// The maximum number of links followed for one path.
const HOPS_MOST: usize = 40;

/// Higher ids do not exist in a room.
const ID_MOST: u64 = 65_534;

/// The files of the image that define its users.
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
    #[error("the names in the image take more than 128 MiB")]
    AllNames,
    #[error("the layers of the image are too entangled to be put together")]
    Work,
}

/// The result of flattening.
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
    /// The layer and entry with the content.
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

/// The tree after the layers read so far.
#[derive(Default)]
struct Tree {
    nodes: BTreeMap<String, Node>,
    left_out: usize,
    bytes: u64,
    /// The total size of paths and link targets so far.
    names: u64,
    /// The number of path bytes built or compared so far.
    work: Cell<u64>,
}

/// Opens a layer for reading; the first one is at the bottom.
pub(crate) type OpenLayer<'a> = dyn Fn(usize) -> io::Result<Box<dyn Read>> + 'a;

/// Writes all layers as one archive.
pub(crate) fn flatten(
    count: usize,
    open: &OpenLayer<'_>,
    out: &mut dyn Write,
) -> Result<Flattened, FlattenError> {
    let mut tree = Tree::default();
    for layer in 0..count {
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

/// Limits what is read of a layer before the content of an entry: the tar library holds names and attributes in memory,
/// whatever size they claim.
struct Fused {
    layer: Box<dyn Read>,
    /// How much may still be read; `None` while the content of an entry is read.
    left: Rc<Cell<Option<u64>>>,
}

/// The error when the limit is exceeded.
const BLOWN: &str = "the names of an entry are too long";

impl Read for Fused {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.layer.read(buffer)?;
        if let Some(left) = self.left.get() {
            let left = left.checked_sub(length as u64).ok_or_else(|| io::Error::other(BLOWN))?;
            self.left.set(Some(left));
        }
        Ok(length)
    }
}

/// Calls `take` with each entry of a layer and its index.
fn each_entry(
    layer: Box<dyn Read>,
    mut take: impl FnMut(usize, &mut Entry<'_, Fused>) -> Result<(), FlattenError>,
) -> Result<(), FlattenError> {
    let left = Rc::new(Cell::new(None));
    let mut archive = Archive::new(Fused { layer, left: left.clone() });
    let mut entries = archive.entries()?.enumerate();
    loop {
        left.set(Some(NAME_MOST));
        let Some((at, entry)) = entries.next() else { return Ok(()) };
        let mut entry = entry.map_err(|error| match left.get() {
            Some(left) if left > 0 && error.to_string() != BLOWN => FlattenError::Io(error),
            _ => FlattenError::Names,
        })?;
        left.set(None);
        take(at, &mut entry)?;
        // The library would otherwise skip the rest together with the next names, which are limited.
        io::copy(&mut entry, &mut io::sink())?;
    }
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

/// Writes the content of files, once each; hard links become links to the first name.
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
        each_entry(open(layer)?, |at, entry| {
            let Some(names) = wanted.get(&(layer, at)) else { return Ok(()) };
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
                builder.append_data(&mut first, format!("./{path}"), entry)?;
            }
            for (other, node) in &names[1..] {
                let mut link = header(node, EntryType::Link, 0);
                builder.append_link(&mut link, format!("./{other}"), format!("./{path}"))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl Tree {
    fn read(&mut self, layer: usize, input: Box<dyn Read>) -> Result<(), FlattenError> {
        each_entry(input, |at, entry| {
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
            match () {
                () if self.names > NAMES_MOST => Err(FlattenError::AllNames),
                () if self.work.get() > WORK_MOST => Err(FlattenError::Work),
                () => Ok(()),
            }
        })
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
            return self.hide(&join(hidden), layer);
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
        self.names += path.len() as u64;
        if let Kind::Link(target) = &kind {
            self.names += target.len() as u64;
        }
        self.nodes.insert(path, Node { kind, ..node });
    }

    fn count(&self, bytes: usize) {
        self.work.set(self.work.get().saturating_add(bytes as u64));
    }

    /// Resolves links in the folders of a path, within the root.
    fn resolve(&self, above: &[&str]) -> Option<String> {
        let mut waiting: Vec<String> = above.iter().rev().map(|part| (*part).to_owned()).collect();
        let (mut here, mut hops) = (String::new(), 0);
        let leave = |here: &mut String| here.truncate(here.rfind('/').unwrap_or(0));
        while let Some(part) = waiting.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    leave(&mut here);
                    continue;
                }
                part if here.is_empty() => here.push_str(part),
                part => here.extend(["/", part]),
            }
            self.count(here.len());
            match self.nodes.get(&here).map(|node| &node.kind) {
                Some(Kind::Link(target)) => {
                    hops += 1;
                    if hops > HOPS_MOST || here.len() > PATH_MOST {
                        return None;
                    }
                    match target.starts_with('/') {
                        true => here.clear(),
                        false => leave(&mut here),
                    }
                    waiting.extend(target.split('/').rev().map(str::to_owned));
                }
                Some(Kind::File { .. }) => return None,
                _ => {}
            }
        }
        Some(here)
    }

    fn make_folders(&mut self, folder: &str, layer: usize) {
        let ends = folder
            .match_indices('/')
            .map(|(at, _)| at)
            .chain((!folder.is_empty()).then_some(folder.len()));
        for end in ends.collect::<Vec<_>>() {
            let plain = Node { layer, kind: Kind::Folder, mode: 0o755, uid: 0, gid: 0, time: 0 };
            self.count(end);
            match self.nodes.get_mut(&folder[..end]) {
                // It now belongs to this layer, whose whiteouts must not remove it.
                Some(known) => known.layer = layer,
                None => {
                    self.names += end as u64;
                    self.nodes.insert(folder[..end].to_owned(), plain);
                }
            }
        }
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        self.remove_below(path, usize::MAX);
    }

    /// Hides a path of earlier layers. A whiteout never affects its own layer, whatever the order of entries.
    fn hide(&mut self, path: &str, layer: usize) {
        if self.nodes.get(path).is_some_and(|node| node.layer < layer) {
            self.nodes.remove(path);
        }
        self.remove_below(path, layer);
    }

    /// Removes what earlier layers have below a folder.
    fn remove_below(&mut self, folder: &str, layer: usize) {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let from =
            self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let from = from.inspect(|(path, _)| self.count(path.len()));
        let gone: Vec<String> =
            from.filter(|(_, node)| node.layer < layer).map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| {
            self.nodes.remove(path);
        });
    }
}

/// Splits a path; `None` if it leaves the root or is not valid.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_plain = path.len() < PATH_MOST && !path.contains('\0') && !parts.contains(&"..");
    is_plain.then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Listed<'a> = (&'a str, EntryType, &'a str);

    fn layer(entries: &[Listed<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4755);
            let is_file = *kind == EntryType::Regular;
            header.set_size(if is_file { content.len() as u64 } else { 0 });
            // The library itself would refuse these names.
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

    fn flat(layers: &[&[Listed<'_>]]) -> (Vec<String>, Flattened) {
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
    fn a_whiteout_hides_nothing_of_its_own_layer() {
        let below = &[("a/", D, ""), ("a/old", F, "1"), ("b", F, "old"), ("c/d/old", F, "1")][..];
        let own = &[("a/new", F, "2"), ("b", F, "new"), ("c/d/new", F, "2")][..];
        let whiteouts = &[(".wh.a", F, ""), (".wh.b", F, ""), ("c/.wh..wh..opq", F, "")][..];
        for top in [[own, whiteouts].concat(), [whiteouts, own].concat()] {
            let (shown, _) = flat(&[below, &top]);
            let expected = ["a", "a/new = 2", "b = new", "c", "c/d", "c/d/new = 2"];
            assert_eq!(shown, expected.map(|line| line.to_owned()), "{top:?}");
        }
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

    /// Flattens a layer with a single entry that claims a size, followed by an endless stream.
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
    fn no_attribute_hides_a_name_that_fills_the_memory() {
        // The header claims 1 GiB for the file, its attributes claim that it is empty: so the next header follows
        // immediately, and announces a name of that size.
        let record = |size: u64, kind, path: &str| {
            let mut head = Header::new_gnu();
            head.set_entry_type(kind);
            head.set_size(size);
            head.set_path(path).unwrap();
            head.set_cksum();
            head.as_bytes().to_vec()
        };
        let mut attributes = b"10 size=0\n".to_vec();
        attributes.resize(512, 0);
        let head = [
            record(10, EntryType::XHeader, "x"),
            attributes,
            record(1 << 30, F, "file"),
            record(1 << 30, EntryType::GNULongName, "name"),
        ]
        .concat();
        let read = Rc::new(Cell::new(0));
        struct Counted(Box<dyn Read>, Rc<Cell<usize>>);
        impl Read for Counted {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = self.0.read(buffer)?;
                self.1.set(self.1.get() + length);
                Ok(length)
            }
        }
        let open = |_: usize| -> io::Result<Box<dyn Read>> {
            let layer = io::Cursor::new(head.clone()).chain(io::repeat(b'a'));
            Ok(Box::new(Counted(Box::new(layer), read.clone())))
        };
        assert!(matches!(flatten(1, &open, &mut io::sink()), Err(FlattenError::Names)));
        assert!(read.get() < 4 << 20, "{} bytes were read", read.get());
    }

    /// Flattens a layer of generated entries.
    fn many(count: usize, entry: fn(usize) -> Vec<u8>) -> Result<Flattened, FlattenError> {
        struct Entries(usize, fn(usize) -> Vec<u8>, io::Cursor<Vec<u8>>, usize);
        impl Read for Entries {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                loop {
                    match self.2.read(buffer)? {
                        0 if self.0 < self.3 => {
                            self.2 = io::Cursor::new(self.1(self.0));
                            self.0 += 1;
                        }
                        length => return Ok(length),
                    }
                }
            }
        }
        let open = |_: usize| -> io::Result<Box<dyn Read>> {
            Ok(Box::new(Entries(0, entry, io::Cursor::default(), count)))
        };
        flatten(1, &open, &mut io::sink())
    }

    fn long_entry(path: &str, kind: EntryType) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        builder.append_data(&mut header, path, io::empty()).unwrap();
        let mut bytes = builder.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        bytes
    }

    #[test]
    fn names_that_fill_the_memory_together_are_refused() {
        let made = many(4_000, |number| long_entry(&format!("{}{number}", "n".repeat(4000)), F));
        assert!(matches!(made, Err(FlattenError::AllNames)), "{made:?}");
    }

    #[test]
    fn layers_that_take_forever_are_refused() {
        // Each entry has many folders above it.
        let deep =
            many(200, |number| long_entry(&format!("{}{}", "d/".repeat(1990), number % 50), F));
        assert!(matches!(deep, Err(FlattenError::Work)), "{deep:?}");
        // Every entry hides everything again, but it stays, because it is in the same layer.
        let hidden = many(4_000, |number| match number < 2_000 {
            true => long_entry(&format!("{}{number}", "n".repeat(90)), F),
            false => long_entry(".wh..wh..opq", F),
        });
        assert!(matches!(hidden, Err(FlattenError::Work)), "{hidden:?}");
    }

    #[test]
    fn a_layer_that_unpacks_without_end_is_refused_before_it_is_unpacked() {
        assert!(matches!(bomb(F, 40 << 30), Err(FlattenError::Bytes)));
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
            assert!(matches!(bomb(kind, 4 << 30), Err(FlattenError::Names)), "{kind:?}");
        }
        // These are not held in memory, but they count.
        assert!(matches!(bomb(EntryType::XGlobalHeader, 40 << 30), Err(FlattenError::Bytes)));
    }
}
