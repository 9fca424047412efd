//! `man`: the manual pages, generated from the same command tree as the help.

use std::{path::Path, process::ExitCode};

use clap::Command;
use clap_mangen::Man;
use hothouse_host::files;
use hothouse_model::{Explain, Failure, FailureKind};

use crate::{args::ManArgs, ui::Ui};

/// Prints the page of `hothouse`, or writes all pages to a folder.
pub(crate) fn write(ui: &Ui, args: &ManArgs) -> Result<ExitCode, Failure> {
    let mut tree = crate::args::command();
    tree.build();
    let Some(folder) = &args.folder else {
        ui.print_bytes(&page(tree, "hothouse")?);
        return Ok(ExitCode::SUCCESS);
    };
    files::make_folder(folder).map_err(|error| error.failure())?;
    let count = write_all(tree, "hothouse", folder)?;
    ui.say(&format!(
        "Wrote {count} pages; `man -l {}/hothouse.1` shows the first.",
        folder.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and its subcommands; returns how many.
fn write_all(command: Command, name: &str, folder: &Path) -> Result<usize, Failure> {
    let mut count = 1;
    let documented = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(documented) {
        let name = format!("{name}-{}", below.get_name());
        count += write_all(below.clone(), &name, folder)?;
    }
    let file = folder.join(format!("{name}.1"));
    let text = page(command, name)?;
    files::replace(&file, &text, 0o644).map_err(|error| error.failure())?;
    Ok(count)
}

fn page(command: Command, title: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let written = Man::new(command).title(title).render(&mut text);
    written.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    Ok(text)
}
