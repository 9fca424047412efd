//! A short, deterministic run of `./x crash`.

use hothouse_testkit::crash::{CrashEnd, CrashSpec, run};

use crate::surroundings;

const SEED: u64 = 13;
const ROUNDS: usize = 60;

#[test]
fn nothing_is_lost_whatever_dies() {
    let spec = CrashSpec {
        binary: env!("CARGO_BIN_EXE_hothouse").into(),
        rounds: ROUNDS,
        seed: SEED,
        tree: None,
        user: false,
        without: Vec::new(),
    };
    if !surroundings().can_have_rooms("random crashes") {
        return;
    }
    match run(&spec, &mut |_| {}) {
        Ok(()) => {}
        Err(CrashEnd::Impossible(why)) => panic!("nothing could be tried: {why}"),
        Err(CrashEnd::Broken { what, steps }) => {
            panic!("seed {SEED}: {what}\nthe last steps:\n{}", steps.join("\n"));
        }
    }
}
