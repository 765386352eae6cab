//! `checkpoint` and `destroy`: a database more, or one less.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::errors::{Exit, Failure, Outcome};
use crate::open::{explain, open_to_read, reading_options, require_database};
use crate::output::{Cell, Context};
use crate::sizes::show_size;

/// Make a copy that opens by itself; tables are shared by hard links where possible
#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    /// The database
    db: PathBuf,
    /// The folder to make
    to: PathBuf,
}

/// Delete a database: a plan, unless --yes
#[derive(Args, Debug)]
pub(crate) struct DestroyArgs {
    /// The database
    db: PathBuf,
    /// Do it
    #[arg(long)]
    yes: bool,
}

pub(crate) fn checkpoint(args: &CheckpointArgs, context: &Context) -> Outcome {
    if args.to.exists() {
        return Err(Failure::usage(format!("{} is there already", args.to.display()))
            .detail("a checkpoint makes a new folder, so that nothing can be overwritten"));
    }
    let db = open_to_read(&args.db)?;
    db.checkpoint(&args.to).map_err(|error| explain(error, &args.db))?;
    let shown = args.to.display().to_string();
    context.done(
        vec![("checkpoint", Cell::text(shown.clone()))],
        format!("{shown} is a database of its own"),
    )?;
    Ok(Exit::Ok)
}

pub(crate) fn destroy(args: &DestroyArgs, context: &Context) -> Outcome {
    require_database(&args.db)?;
    let (files, bytes) = contents(&args.db)?;
    if args.yes {
        siltstone::destroy(&args.db, &reading_options())
            .map_err(|error| explain(error, &args.db))?;
    }
    let shown = args.db.display();
    let size = show_size(bytes);
    let sentence = if args.yes {
        format!("destroyed {shown}: {files} files, {size}")
    } else {
        format!("would destroy {shown}: {files} files, {size}\nnothing was done; --yes does it")
    };
    context.done(
        vec![
            ("destroyed", Cell::Flag(args.yes)),
            ("files", Cell::Count(files)),
            ("total_bytes", Cell::Size(bytes)),
        ],
        sentence,
    )?;
    Ok(Exit::Ok)
}

/// Number and bytes of the files in a database's folder.
fn contents(path: &Path) -> Result<(u64, u64), Failure> {
    let entries = fs::read_dir(path).map_err(|error| Failure::file("list", path, &error))?;
    let sizes = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len()));
    Ok(sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size)))
}
