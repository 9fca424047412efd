//! `pool create` and `pool status`.

use std::process::ExitCode;

use hothouse_api::{PoolView, pool::PoolBody, route};
use hothouse_model::{Failure, FailureKind, config::ByteSize};

use crate::{
    args::PoolCreateArgs,
    progress::Progress,
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// Creates a pool and prints its folder.
pub(crate) fn create(
    session: &Session,
    ui: &Ui,
    args: &PoolCreateArgs,
    variables: &[(String, String)],
) -> Result<ExitCode, Failure> {
    let size = args.size.as_deref().map(str::parse::<ByteSize>).transpose().map_err(|error| {
        Failure::new(FailureKind::Usage, format!("--size {error}")).hint("such as `--size 20G`")
    })?;
    let body = PoolBody {
        folder: session.folder_text()?,
        size: size.map(ByteSize::bytes),
        variables: variables.iter().cloned().collect(),
    };
    let operation = session.operation();
    let progress = Progress::follow(session, ui, &operation);
    let made: Result<PoolView, Failure> = session.post(route::POOLS, &operation, &body);
    drop(progress);
    let made = made?;
    if ui.json {
        ui.print_json(&made);
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Made a pool of at most {}; its file grows as needed.", rounded(made.size)));
    ui.print(&made.folder);
    Ok(ExitCode::SUCCESS)
}

/// Shows the pools of all projects.
pub(crate) fn status(session: &Session, ui: &Ui) -> Result<ExitCode, Failure> {
    let all: Vec<PoolView> = session.get(route::POOLS)?;
    if ui.json {
        ui.print_json(&all);
    } else if all.is_empty() {
        ui.say("No pools; `hothouse pool create` makes one.");
    } else {
        let rows = all.iter().map(|pool| {
            let (state, tone) = match pool.mounted {
                true => ("mounted", Tone::Good),
                false => ("not mounted", Tone::Warning),
            };
            vec![
                Cell::new(state).tone(tone),
                Cell::new(rounded(pool.used)),
                Cell::new(rounded(pool.size)),
                Cell::new(plain(&pool.folder)).tone(Tone::Strong),
            ]
        });
        ui.print(&table(ui, &["STATE", "USED", "SIZE", "FOLDER"], rows.collect()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a size in the largest unit that leaves at least two digits.
fn rounded(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >> shift >= 10);
    unit.map_or_else(|| bytes.to_string(), |(name, shift)| format!("{}{name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_short() {
        for (bytes, said) in [(7, "7"), (10 << 10, "10K"), (9 << 30, "9216M"), (64 << 30, "64G")] {
            assert_eq!(rounded(bytes), said);
        }
    }
}
