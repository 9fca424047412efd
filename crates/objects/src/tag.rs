//! Computes the entity tag, which is MD5, for several objects at once.
//!
//! Each step of MD5 depends on the previous one, so one object leaves most of a CPU core idle: four take as long as
//! one. Uploads pass their bytes to one thread and continue; the thread hashes a block of each in parallel lanes.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use bytes::Bytes;

/// The number of parallel lanes, for many objects and for few.
const MANY: usize = 8;
const FEW: usize = 4;

const BLOCK: usize = 64;

/// How much is hashed before newly queued objects join.
const PIECE: usize = 64 << 10;

/// How many bytes of all objects may be queued. Beyond that, uploads wait for the thread.
const WAITING: usize = 16 << 20;

/// An MD5.
pub(crate) type Hash = [u8; 16];

type State = [u32; 4];

const BEGIN: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// How far each step rotates, by round.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The constants of the steps: the sines of whole numbers (RFC 1321, section 3.4).
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// One word of each object.
type Lanes<const N: usize> = [u32; N];

/// Computes a value for each lane; the compiler vectorizes it.
#[inline(always)]
fn each<const N: usize>(of: impl Fn(usize) -> u32) -> Lanes<N> {
    let mut all = [0; N];
    let mut lane = 0;
    while lane < N {
        all[lane] = of(lane);
        lane += 1;
    }
    all
}

/// Processes one block of each object.
#[inline(always)]
fn take_blocks<const N: usize>(states: &mut [Lanes<N>; 4], blocks: [&[u8; BLOCK]; N]) {
    let word = |lane: usize, at: usize| {
        let bytes = &blocks[lane][at * 4..at * 4 + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let words: [Lanes<N>; 16] = std::array::from_fn(|at| each(|lane| word(lane, at)));
    let [mut a, mut b, mut c, mut d] = *states;
    macro_rules! step {
        ($mix:expr, $round:expr, $step:expr, $word:expr) => {{
            let mixed: Lanes<N> = each(|lane| {
                a[lane]
                    .wrapping_add($mix(b[lane], c[lane], d[lane]))
                    .wrapping_add(SINES[$round * 16 + $step])
                    .wrapping_add(words[$word % 16][lane])
                    .rotate_left(ROTATIONS[$round][$step % 4])
                    .wrapping_add(b[lane])
            });
            (a, b, c, d) = (d, mixed, b, c);
        }};
    }
    // Unrolled by hand, so that all indices are compile-time constants.
    macro_rules! round {
        ($mix:expr, $round:expr, $times:expr, $plus:expr, [$($step:expr)*]) => {
            $(step!($mix, $round, $step, $step * $times + $plus);)*
        };
    }
    macro_rules! sixteen {
        ($mix:expr, $round:expr, $times:expr, $plus:expr) => {
            round!($mix, $round, $times, $plus, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15])
        };
    }
    sixteen!(|b: u32, c: u32, d: u32| d ^ b & (c ^ d), 0, 1, 0);
    sixteen!(|b: u32, c: u32, d: u32| b & d | c & !d, 1, 5, 1);
    sixteen!(|b: u32, c: u32, d: u32| b ^ c ^ d, 2, 3, 5);
    sixteen!(|b: u32, c: u32, d: u32| c ^ (b | !d), 3, 7, 0);
    let sum =
        |place: usize, with: Lanes<N>| each(|lane| states[place][lane].wrapping_add(with[lane]));
    *states = [sum(0, a), sum(1, b), sum(2, c), sum(3, d)];
}

/// Processes whole blocks of equally long inputs.
fn take_all<const N: usize>(states: [State; N], inputs: [&[u8]; N]) -> [State; N] {
    let mut lanes: [Lanes<N>; 4] = std::array::from_fn(|place| each(|lane| states[lane][place]));
    let blocks = inputs.map(|input| input.as_chunks::<BLOCK>().0);
    for at in 0..blocks[0].len() {
        take_blocks(&mut lanes, blocks.map(|blocks| &blocks[at]));
    }
    std::array::from_fn(|lane| std::array::from_fn(|place| lanes[place][lane]))
}

/// The hash of one object, computed incrementally.
pub(crate) struct Tag {
    stream: Arc<Stream>,
    /// The bytes after the last complete block.
    rest: Vec<u8>,
    length: u64,
}

/// The state that an upload shares with the thread.
#[derive(Default)]
struct Stream {
    progress: Mutex<Progress>,
    done: Condvar,
}

struct Progress {
    state: State,
    /// Complete blocks that are queued.
    waiting: VecDeque<Bytes>,
    /// Whether it is in the thread's queue, or being hashed.
    is_queued: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { state: BEGIN, waiting: VecDeque::new(), is_queued: false }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tag {
    pub(crate) fn new() -> Self {
        Self { stream: Arc::default(), rest: Vec::with_capacity(BLOCK), length: 0 }
    }

    /// Queues the next bytes, without waiting until they are hashed.
    pub(crate) fn update(&mut self, mut bytes: Bytes) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let missing = bytes.split_to(bytes.len().min(BLOCK - self.rest.len()));
            self.rest.extend_from_slice(&missing);
            if self.rest.len() < BLOCK {
                return;
            }
            let block = std::mem::take(&mut self.rest);
            self.send(block.into());
        }
        let whole = bytes.split_to(bytes.len() / BLOCK * BLOCK);
        self.rest.extend_from_slice(&bytes);
        if !whole.is_empty() {
            self.send(whole);
        }
    }

    /// Waits for the hash.
    pub(crate) fn finish(mut self) -> Hash {
        let bits = self.length.wrapping_mul(8);
        let mut last = std::mem::take(&mut self.rest);
        last.push(0x80);
        last.resize((last.len() + 8).next_multiple_of(BLOCK) - 8, 0);
        last.extend_from_slice(&bits.to_le_bytes());
        self.send(last.into());
        let busy = |progress: &mut Progress| progress.is_queued;
        let progress = self.stream.done.wait_while(locked(&self.stream.progress), busy);
        let state = progress.unwrap_or_else(PoisonError::into_inner).state;
        let mut hash = Hash::default();
        for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        hash
    }

    fn send(&self, blocks: Bytes) {
        let Some(pool) = Pool::get() else {
            // The thread could not be started: hash here.
            let mut progress = locked(&self.stream.progress);
            progress.state = take_all([progress.state], [&blocks])[0];
            return;
        };
        pool.send(&self.stream, blocks);
    }
}

/// The hashing thread and its queue.
#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    /// uploads --stream--> thread
    came: Condvar,
    /// thread --space--> uploads
    taken: Condvar,
}

#[derive(Default)]
struct Queue {
    streams: VecDeque<Arc<Stream>>,
    /// The number of queued bytes.
    bytes: usize,
}

/// An object that is being hashed.
struct Lane {
    stream: Arc<Stream>,
    state: State,
    blocks: Bytes,
}

impl Pool {
    /// Returns the pool, whose thread starts with the first object.
    fn get() -> Option<&'static Self> {
        static POOL: OnceLock<Option<Arc<Pool>>> = OnceLock::new();
        let start = || {
            let pool = Arc::new(Self::default());
            let own = pool.clone();
            let started =
                thread::Builder::new().name("objects-tag".into()).spawn(move || own.run());
            started.ok().map(|_| pool)
        };
        POOL.get_or_init(start).as_deref()
    }

    fn send(&self, stream: &Arc<Stream>, blocks: Bytes) {
        let full = |queue: &mut Queue| queue.bytes >= WAITING;
        let queue = self.taken.wait_while(locked(&self.queue), full);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        queue.bytes += blocks.len();
        let mut progress = locked(&stream.progress);
        progress.waiting.push_back(blocks);
        if !std::mem::replace(&mut progress.is_queued, true) {
            queue.streams.push_back(stream.clone());
            self.came.notify_one();
        }
    }

    fn run(&self) {
        let mut lanes: Vec<Lane> = Vec::with_capacity(MANY);
        loop {
            self.fill(&mut lanes);
            let length = lanes.iter().map(|lane| lane.blocks.len()).min().unwrap_or(0).min(PIECE);
            match lanes.len() {
                1 => hash::<1>(&mut lanes, length),
                2..=FEW => hash::<FEW>(&mut lanes, length),
                _ => hash::<MANY>(&mut lanes, length),
            }
            let mut queue = locked(&self.queue);
            queue.bytes -= length * lanes.len();
            drop(queue);
            self.taken.notify_all();
            lanes.retain_mut(Lane::goes_on);
        }
    }

    /// Takes queued objects; waits for one if there is none.
    fn fill(&self, lanes: &mut Vec<Lane>) {
        let mut queue = locked(&self.queue);
        if lanes.is_empty() && queue.streams.is_empty() {
            let none = |queue: &mut Queue| queue.streams.is_empty();
            let came = self.came.wait_while(queue, none);
            drop(came);
            // Let other uploads queue their bytes first: four objects take as long as one.
            thread::yield_now();
            queue = locked(&self.queue);
        }
        while lanes.len() < MANY
            && let Some(stream) = queue.streams.pop_front()
        {
            let mut progress = locked(&stream.progress);
            let (state, blocks) = (progress.state, progress.waiting.pop_front());
            drop(progress);
            lanes.push(Lane { stream, state, blocks: blocks.unwrap_or_default() });
        }
    }
}

/// Hashes this many bytes of each object; unused lanes repeat the first object.
fn hash<const N: usize>(lanes: &mut [Lane], length: usize) {
    let at = |place: usize| if place < lanes.len() { place } else { 0 };
    let states = std::array::from_fn(|place| lanes[at(place)].state);
    let inputs = std::array::from_fn(|place| &lanes[at(place)].blocks[..length]);
    let states = take_all::<N>(states, inputs);
    for (lane, state) in lanes.iter_mut().zip(states) {
        lane.state = state;
        drop(lane.blocks.split_to(length));
    }
}

impl Lane {
    /// Returns whether the object has more blocks; notifies its upload if not.
    fn goes_on(&mut self) -> bool {
        if !self.blocks.is_empty() {
            return true;
        }
        let mut progress = locked(&self.stream.progress);
        progress.state = self.state;
        match progress.waiting.pop_front() {
            Some(blocks) => self.blocks = blocks,
            None => {
                progress.is_queued = false;
                self.stream.done.notify_all();
            }
        }
        progress.is_queued
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashed(parts: &[&[u8]]) -> Hash {
        let mut md5 = Tag::new();
        parts.iter().for_each(|part| md5.update(Bytes::copy_from_slice(part)));
        md5.finish()
    }

    #[test]
    fn it_is_md5() {
        assert_eq!(hashed(&[]), md5::compute("").0);
        for length in [1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 200_000] {
            let bytes: Vec<u8> = (0..length).map(|n: u32| (n * 7 % 251) as u8).collect();
            assert_eq!(hashed(&[&bytes]), md5::compute(&bytes).0, "{length}");
        }
    }

    #[test]
    fn objects_side_by_side_do_not_mix() {
        let object = |n: usize| vec![u8::try_from(n).unwrap(); 10_000 * n + n];
        let mut all: Vec<(Tag, Vec<u8>)> = (0..20).map(|n| (Tag::new(), object(n))).collect();
        for round in 0..40 {
            for (md5, bytes) in &mut all {
                let part = bytes.chunks(7919).nth(round).unwrap_or_default();
                md5.update(Bytes::copy_from_slice(part));
            }
        }
        // An abandoned object does not block the others.
        all.remove(7);
        for (md5, bytes) in all {
            assert_eq!(md5.finish(), md5::compute(&bytes).0, "{}", bytes.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn parts_of_any_length_make_the_same_hash(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
        ) {
            let borrowed: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(hashed(&borrowed), md5::compute(parts.concat()).0);
        }
    }
}
