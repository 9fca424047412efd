//! Random operations and faults against the real binary; `hothouse_testkit::crash` does the work.

use hothouse_host::random;
use hothouse_testkit::crash::{self, CrashEnd, CrashSpec};

use crate::bench::print;

/// The default number of steps.
const ROUNDS: usize = 1000;

/// Parses the arguments, and runs.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let spec = parse(words)?;
    print(&format!("seed {}", spec.seed));
    match crash::run(&spec, &mut print) {
        Ok(()) => {
            print(&format!("{} steps, and everything holds", spec.rounds));
            Ok(())
        }
        Err(CrashEnd::Impossible(why)) => Err(format!("rooms cannot start here: {why}")),
        Err(CrashEnd::Broken { what, steps }) => {
            print(&format!("\nBROKEN: {what}\n\nthe last steps:"));
            steps.iter().for_each(|line| print(line));
            Err(format!("seed {} does not hold", spec.seed))
        }
    }
}

fn parse(words: &[&str]) -> Result<CrashSpec, String> {
    let mut spec = CrashSpec {
        binary: Default::default(),
        rounds: ROUNDS,
        seed: u64::from(u32::from_le_bytes(random::bytes())),
        tree: None,
        user: false,
        without: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().copied().ok_or(format!("`{word}` needs a value"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
        match word {
            "--binary" => spec.binary = value()?.into(),
            "--rounds" => spec.rounds = usize::try_from(number(value()?)?).unwrap_or(ROUNDS),
            "--seed" => spec.seed = number(value()?)?,
            "--tree" => spec.tree = Some(value()?.to_owned()),
            "--user" => spec.user = true,
            "--without" => spec.without = value()?.split(',').map(str::to_owned).collect(),
            other => return Err(format!("`{other}` is unknown to `crash`")),
        }
    }
    match spec.binary.as_os_str().is_empty() {
        true => Err("say which binary with `--binary PATH`".into()),
        false => Ok(spec),
    }
}
