//! What an import accepts: complete histories, within limits on memory, objects and delta chains.

use super::*;

#[test]
fn a_planted_list_of_shallow_commits_hides_nothing() {
    let case = Case::new();
    let tip = case.agent_commits("new", "new");
    fs::write(case.room.join("shallow"), format!("{tip}\n{}\n", case.commit)).unwrap();
    let imported = case.import(&case.commit);
    assert_eq!(imported.branch, BranchOutcome::Updated { from: case.commit.clone() });
    assert_eq!((case.tip("agent"), imported.tip), (tip.clone(), tip));
    assert_eq!(git(case.root(), &["rev-parse", "--is-shallow-repository"]), "false");
}

#[test]
fn what_is_not_a_list_of_shallow_commits_blocks_nothing() {
    for plant in ["pipe", "garbage", "folder"] {
        let case = Case::new();
        let tip = case.agent_commits("new", "new");
        let path = case.room.join("shallow");
        match plant {
            "pipe" => drop(Program::new("mkfifo").arg(&path).output().unwrap()),
            "garbage" => fs::write(&path, "not a commit\n").unwrap(),
            _ => fs::create_dir(&path).unwrap(),
        }
        let imported = case.import(&case.commit);
        assert_eq!((case.tip("agent"), imported.tip), (tip.clone(), tip), "{plant}");
    }
}

#[test]
fn a_history_whose_beginning_is_missing_is_refused_with_a_reason() {
    let case = Case::new();
    let elsewhere = case.folder.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    git(&elsewhere, &["init", "--quiet", "--initial-branch=main"]);
    for message in ["one", "two", "three"] {
        git(&elsewhere, &["commit", "--quiet", "--allow-empty", "-m", message]);
    }
    let address = format!("file://{}", elsewhere.display());
    case.agent(&["fetch", "--quiet", "--depth=1", &address, "main:refs/heads/cut"]);
    let error = case.import_with(&case.commit, case.upload_pack(), 64 << 20).unwrap_err();
    assert!(matches!(error, ImportError::Fetch { .. }), "{error:?}");
    assert_eq!(case.tip("agent"), case.commit);
}

/// A git of an agent's, which answers with a pack and the address of another one. Git fetches that although it did not
/// ask for addresses, by HTTP, with the user's settings.
const ANSWERS_WITH_AN_ADDRESS: &str = r#"
import subprocess, sys
folder, known, address = sys.argv[1:]
git = lambda words, text=b'': subprocess.run(['git', '--git-dir', folder, *words], input=text, stdout=-1, check=True).stdout
tip = git(['rev-parse', 'refs/heads/agent']).strip()
pack = git(['pack-objects', '--stdout', '--revs', '-q'], tip + b'\n^' + known.encode() + b'\n')
packet = lambda text: b'%04x' % (len(text) + 4) + text
def say(*parts): sys.stdout.buffer.write(b''.join(parts)); sys.stdout.buffer.flush()
def hear():
    all = []
    while length := int(sys.stdin.buffer.read(4) or b'0', 16):
        if length > 4: all.append(sys.stdin.buffer.read(length - 4).strip())
    return all
say(packet(b'version 2\n'), packet(b'ls-refs\n'), packet(b'fetch\n'), packet(b'object-format=sha1\n'), b'0000')
while asked := hear():
    if asked[0] == b'command=ls-refs':
        say(packet(tip + b' refs/heads/agent\n'), b'0000')
        continue
    if b'done' not in asked: say(packet(b'acknowledgments\n'), packet(b'ready\n'), b'0001')
    elsewhere = packet(b'0' * 40 + b' ' + address.encode() + b'\n')
    say(packet(b'packfile-uris\n'), elsewhere, b'0001', packet(b'packfile\n'), packet(b'\1' + pack), b'0000')
"#;

#[test]
fn a_room_has_git_fetch_from_no_address_whatever_the_user_allows() {
    let case = Case::new();
    git(case.root(), &["config", "protocol.http.allow", "always"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/data-of-the-room", listener.local_addr().unwrap());
    let is_asked = Arc::new(AtomicBool::new(false));
    let noted = is_asked.clone();
    thread::spawn(move || noted.store(listener.accept().is_ok(), Ordering::Relaxed));
    case.agent_commits("new", "new");
    let room = case.room.to_str().unwrap();
    let answers = plain("python3".as_ref()).args(["-c", ANSWERS_WITH_AN_ADDRESS, room]);
    let error = case.import_with(&case.commit, answers.args([&case.commit, &address]), 64 << 20);
    assert!(!is_asked.load(Ordering::Relaxed), "git connected to {address}");
    assert!(matches!(error, Err(ImportError::Fetch { .. })), "{error:?}");
    assert_eq!(case.tip("agent"), case.commit);
}

#[test]
fn a_name_that_another_system_takes_for_a_repository_hides_no_file() {
    let case = Case::new();
    let names = [".git ", "evil", "git~1", "src/.git...", "src/.git::$INDEX_ALLOCATION"];
    for name in names.iter().chain(&["src/.GIT"]) {
        fs::write(case.place.path.join(name), "new\n").unwrap();
    }
    let found = case.repository.difference(&case.place.path, "main").unwrap();
    let mut seen: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
    seen.sort();
    assert_eq!(seen, names);
    assert_eq!(found.text.split(|byte| *byte == b'\n').filter(|line| *line == b"+new").count(), 5);
    let closely: Vec<_> = found.closely.iter().map(|finding| &*finding.path).collect();
    assert_eq!(closely, ["src/.GIT"], "git has no way to show it, so it is named");
}

/// Builds a pack in which a few hundred bytes expand to an object of `blocks` times 16 MiB.
fn bomb(blocks: usize) -> Vec<u8> {
    // RFC 1950 and 1951: stored blocks.
    fn stored(bytes: &[u8]) -> Vec<u8> {
        let mut packed = vec![0x78, 0x01];
        let mut chunks = bytes.chunks(0xffff).peekable();
        while let Some(chunk) = chunks.next() {
            let length = u16::try_from(chunk.len()).unwrap();
            packed.push(u8::from(chunks.peek().is_none()));
            packed.extend(length.to_le_bytes());
            packed.extend((!length).to_le_bytes());
            packed.extend(chunk);
        }
        let (one, two) = bytes.iter().fold((1_u32, 0_u32), |(one, two), byte| {
            let one = (one + u32::from(*byte)) % 65521;
            (one, (two + one) % 65521)
        });
        packed.extend((two << 16 | one).to_be_bytes());
        packed
    }
    fn number(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).unwrap());
        bytes
    }
    // gitformat-pack(5): the type and size of an object, then for a delta the distance to its base.
    fn head(kind: u8, size: usize) -> Vec<u8> {
        let first = kind << 4 | u8::try_from(size & 0xf).unwrap();
        if size < 16 { vec![first] } else { [vec![first | 0x80], number(size >> 4)].concat() }
    }
    fn back(mut offset: usize) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(offset & 0x7f).unwrap()];
        while offset > 0x7f {
            offset = (offset >> 7) - 1;
            bytes.insert(0, u8::try_from(offset & 0x7f).unwrap() | 0x80);
        }
        bytes
    }
    const SMALL: usize = 0x8000;
    const LARGE: usize = 512 * SMALL - 512;
    let base = [head(3, SMALL), stored(&[b'x'; SMALL])].concat();
    // Copies of the whole base: the offset is omitted, and the size has two or three bytes.
    let mut delta = [number(SMALL), number(LARGE)].concat();
    delta.extend([0xb0, 0xff, 0x7f].repeat(512));
    let middle = [head(6, delta.len()), back(base.len()), stored(&delta)].concat();
    let mut delta = [number(LARGE), number(LARGE * blocks)].concat();
    let size = LARGE.to_le_bytes();
    delta.extend([0xf0, size[0], size[1], size[2]].repeat(blocks));
    let last = [head(6, delta.len()), back(middle.len()), stored(&delta)].concat();
    [b"PACK\0\0\0\x02\0\0\0\x03".to_vec(), base, middle, last].concat()
}

#[test]
fn an_object_that_grows_beyond_all_memory_is_refused_and_says_so() {
    let case = Case::new();
    let pack = case.folder.join("bomb.pack");
    fs::write(&pack, bomb(30)).unwrap();
    let sum = Program::new("sha1sum").arg(&pack).output().unwrap();
    let sum = String::from_utf8(sum).unwrap();
    let sum = (0..20).map(|at| u8::from_str_radix(&sum[at * 2..at * 2 + 2], 16).unwrap());
    let whole: Vec<u8> = fs::read(&pack).unwrap().into_iter().chain(sum).collect();
    fs::write(&pack, &whole).unwrap();
    assert!(whole.len() < 64 << 10, "it is small");
    let place = case.room.join("objects/pack");
    fs::create_dir_all(&place).unwrap();
    let place = place.join("pack-bomb.pack");
    fs::rename(&pack, &place).unwrap();
    let index = place.with_extension("idx");
    git(&case.folder, &["index-pack", "-o", index.to_str().unwrap(), place.to_str().unwrap()]);
    let all = case.agent(&["cat-file", "--batch-all-objects", "--batch-check"]);
    let size = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let mut large: Vec<_> = all.lines().filter(|line| size(line) > 10_000).collect();
    large.sort_by_key(|line| size(line));
    assert!(large.len() == 3 && size(large[2]) > 2 * MEMORY, "{large:?}");
    // All of them, otherwise the last is sent in full, which takes no memory.
    for line in large {
        let id = line.split(' ').next().unwrap();
        case.agent(&["update-index", "--add", "--cacheinfo", &format!("100644,{id},{id}")]);
    }
    case.agent(&["commit", "--quiet", "-m", "bomb"]);
    let error = case.import_with(&case.commit, case.upload_pack(), 64 << 20).unwrap_err();
    assert!(matches!(error, ImportError::TooMuchMemory { limit: MEMORY, .. }), "{error:?}");
    assert_eq!(case.tip("agent"), case.commit);
    // Ordinary commits are still imported.
    case.agent(&["reset", "--quiet", &case.commit]);
    let tip = case.agent_commits("new", "new");
    assert_eq!(case.import(&case.commit).tip, tip);
}

#[test]
fn more_objects_than_may_come_are_refused_before_git_reads_them() {
    let case = Case::new();
    for number in 0..OBJECTS {
        fs::write(case.place.path.join(format!("tiny-{number}")), number.to_string()).unwrap();
    }
    case.agent(&["add", "--all"]);
    case.agent(&["commit", "--quiet", "-m", "many"]);
    let before = git(case.root(), &["count-objects", "-v"]);
    let error = case.import_with(&case.commit, case.upload_pack(), 64 << 20).unwrap_err();
    assert!(matches!(error, ImportError::TooManyObjects { limit: OBJECTS, .. }), "{error:?}");
    assert_eq!(git(case.root(), &["count-objects", "-v"]), before);
    assert_eq!(case.tip("agent"), case.commit);
    case.agent(&["reset", "--quiet", &case.commit]);
    let tip = case.agent_commits("new", "new");
    assert_eq!(case.import(&case.commit).tip, tip);
}

#[test]
fn chains_of_deltas_that_are_too_long_are_packed_again() {
    let case = Case::new();
    // A small fetch creates loose objects, which have no deltas (`fetch.unpackLimit`).
    let mut lines: Vec<_> = (0..200).map(|line| format!("line {line} {}", line * 7919)).collect();
    for version in 0..120 {
        lines[version] = format!("changed in version {version}");
        case.agent_commits("long", &lines.join("\n"));
    }
    case.agent(&["config", "pack.depth", "100"]);
    case.agent(&["repack", "-adfq", "--depth=100", "--window=200"]);
    let packs = |folder: &Path| {
        let packs = fs::read_dir(folder.join("objects/pack")).unwrap();
        let packs = packs.map(|pack| pack.unwrap().path());
        packs.filter(|pack| pack.extension().unwrap() == "idx").collect::<Vec<_>>()
    };
    let deepest = |folder: &Path| {
        let chains = packs(folder).into_iter().flat_map(|index| {
            let said = git(folder, &["verify-pack", "-s", index.to_str().unwrap()]);
            let chains = said.lines().filter_map(|line| line.strip_prefix("chain length = "));
            let length = |line: &str| line.split(':').next().unwrap().parse::<u32>().unwrap();
            chains.map(length).collect::<Vec<_>>()
        });
        chains.max().unwrap_or_default()
    };
    assert!(deepest(&case.room) > DEPTH, "{}", deepest(&case.room));
    let tip = case.agent(&["rev-parse", "HEAD"]);
    assert_eq!(case.import(&case.commit).tip, tip);
    let common = case.root().join(".git");
    let found = deepest(&common);
    assert!(found > 0 && found <= DEPTH, "{found}");
    git(case.root(), &["fsck", "--strict"]);
}

#[test]
fn a_large_file_comes_in_little_memory() {
    let case = Case::new();
    let mut bytes = vec![0_u8; usize::try_from(MEMORY).unwrap() + 1];
    for (at, byte) in bytes.iter_mut().enumerate().step_by(4096) {
        *byte = u8::try_from(at / 4096 % 251).unwrap();
    }
    fs::write(case.place.path.join("large"), bytes).unwrap();
    case.agent(&["add", "large"]);
    case.agent(&["commit", "--quiet", "-m", "large"]);
    assert_eq!(case.import(&case.commit).tip, case.agent(&["rev-parse", "HEAD"]));
}

#[test]
fn a_folder_that_becomes_a_link_meanwhile_shows_nothing_from_elsewhere() {
    let case = Case::new();
    let elsewhere = case.folder.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("c"), "a secret of the host\n".repeat(1000)).unwrap();
    let (folder, aside) = (case.place.path.join("src"), case.place.path.join("aside"));
    let over = Arc::new(AtomicBool::new(false));
    let racer = thread::spawn({
        let over = over.clone();
        move || {
            while !over.load(Ordering::Relaxed) {
                fs::rename(&folder, &aside).unwrap();
                symlink(&elsewhere, &folder).unwrap();
                fs::remove_file(&folder).unwrap();
                fs::rename(&aside, &folder).unwrap();
            }
        }
    });
    for round in 0..40 {
        let difference = case.repository.difference(&case.place.path, "main");
        let Ok(difference) = difference else { continue };
        let text = String::from_utf8_lossy(&difference.text);
        assert!(!text.contains("a secret of the host"), "round {round}: {text}");
    }
    over.store(true, Ordering::Relaxed);
    racer.join().unwrap();
}
