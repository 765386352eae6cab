//! `cloud checkpoint` and `cloud clone`: versions that are kept, under a name or for another database.

use std::time::Duration;

use clap::{Args, Subcommand};
use siltstone_cloud::{
    ErrorKind, Pin, PinName, Root, Token, VersionNumber, clone_database, create_checkpoint,
    find_checkpoint, read_newest, remove_pin, survey,
};

use super::place::{Opened, Place, Tries, fresh_token, refused};
use super::times::{parse_duration, show_moment};
use crate::errors::{Exit, Failure, Outcome};
use crate::output::{Cell, Context, Record};
use crate::sizes::show_duration;

const COLUMNS: [&str; 6] = ["name", "version", "written", "life", "token", "note"];
/// What pins of clones are called: whoever removes one takes the clone's tables away.
const CLONES: &str = "clone";

/// Keep versions under names: list them, create or remove one
#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Option<CheckpointVerb>,
}

#[derive(Debug, Subcommand)]
enum CheckpointVerb {
    /// Keep the newest version
    Create(CreateArgs),
    /// List what is kept, for clones too
    List,
    /// Let a version go: the next collection takes what nobody else needs
    Remove(RemoveArgs),
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// Letters, digits, '-' and '_'
    name: String,
    /// Keep another version than the newest
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    /// How long it is kept [default: until it is removed]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    life: Option<Duration>,
    /// A line for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// As it was created
    name: String,
    /// Which of that name; needed for what a clone that is gone has left
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

/// Make a database that begins as another, and shares its tables
#[derive(Args, Debug)]
pub(crate) struct CloneArgs {
    #[command(flatten)]
    place: Place,
    /// The database to make, in the same bucket
    to: String,
    /// Begin at a checkpoint instead of the newest version
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
}

pub(crate) fn checkpoint(args: &CheckpointArgs, context: &Context) -> Outcome {
    match &args.verb {
        None | Some(CheckpointVerb::List) => list(&args.place.open(Tries::Short)?, context),
        Some(CheckpointVerb::Create(create)) => {
            self::create(&args.place.open(Tries::Long)?, create, context)
        }
        Some(CheckpointVerb::Remove(remove)) => {
            self::remove(&args.place.open(Tries::Long)?, remove, context)
        }
    }
}

fn list(opened: &Opened, context: &Context) -> Outcome {
    let found = survey(&opened.home).map_err(|error| opened.explain(error))?;
    let found = found.ok_or_else(|| opened.absent())?;
    let row = |(pin, written_ms): &(Pin, u64)| -> Record {
        let life = match pin.life {
            Duration::ZERO => Cell::Missing,
            life => Cell::text(show_duration(life)),
        };
        vec![
            ("name", Cell::text(pin.name.as_str())),
            ("version", Cell::Count(pin.version.0)),
            ("written", Cell::text(show_moment(*written_ms))),
            ("life", life),
            ("token", Cell::text(pin.token.to_string())),
            ("note", Cell::text(pin.note.escape_debug().to_string())),
        ]
    };
    context.rows(&COLUMNS, found.pins.iter().map(row).collect())?;
    if found.pins.is_empty() {
        context.note("no checkpoints");
    }
    opened.note_cost(context);
    Ok(Exit::Ok)
}

fn name_of(text: &str) -> Result<PinName, Failure> {
    let name = PinName::new(text).map_err(|error| {
        refused(error).detail("a name has letters, digits, '-' and '_', and at most 100 of them")
    })?;
    Ok(name)
}

fn newest(opened: &Opened) -> Result<VersionNumber, Failure> {
    let newest = read_newest(&opened.home).map_err(|error| opened.explain(error))?;
    Ok(newest.ok_or_else(|| opened.absent())?.state.version())
}

fn create(opened: &Opened, args: &CreateArgs, context: &Context) -> Outcome {
    let name = name_of(&args.name)?;
    if args.name == CLONES {
        return Err(Failure::usage(format!("{CLONES:?} is what pins of clones are called"))
            .detail("choose another name"));
    }
    let newest = newest(opened)?;
    let version = args.version.map_or(newest, VersionNumber);
    let (token, life) = (fresh_token(), args.life.unwrap_or_default());
    let pin = Pin { name, token, version, life, note: args.note.clone() };
    create_checkpoint(&opened.home, &pin).map_err(|error| match error.kind() {
        ErrorKind::Gone => opened.explain(error).detail(format!("the newest version is {newest}")),
        ErrorKind::Exists => opened.explain(error).step("see them", opened.command("checkpoint")),
        _ => opened.explain(error),
    })?;
    let done = vec![
        ("checkpoint", Cell::text(pin.name.as_str())),
        ("version", Cell::Count(version.0)),
        ("token", Cell::text(token.to_string())),
    ];
    context.done(done, format!("{} keeps version {version} of {}", args.name, opened.shown))?;
    opened.note_cost(context);
    Ok(Exit::Ok)
}

fn remove(opened: &Opened, args: &RemoveArgs, context: &Context) -> Outcome {
    let name = name_of(&args.name)?;
    let found = survey(&opened.home).map_err(|error| opened.explain(error))?;
    let found = found.ok_or_else(|| opened.absent())?;
    let of_token = |pin: &Pin| {
        args.token.as_ref().is_none_or(|token| pin.token.to_string() == token.to_ascii_lowercase())
    };
    let mut named = found.pins.iter().map(|(pin, _)| pin);
    let mut named: Vec<&Pin> =
        named.by_ref().filter(|pin| pin.name == name && of_token(pin)).collect();
    let Some(pin) = named.pop() else {
        let headline = format!("no checkpoint {} in {}", args.name, opened.shown);
        return Err(Failure::new(Exit::Absent, "E-NOT-FOUND", headline)
            .step("see them", opened.command("checkpoint")));
    };
    if !named.is_empty() || (args.name == CLONES && args.token.is_none()) {
        return Err(Failure::usage(format!("say by --token which {} is meant", args.name))
            .step("see them", opened.command("checkpoint")));
    }
    check_unused(opened, pin)?;
    remove_pin(&opened.home, pin).map_err(|error| opened.explain(error))?;
    let done = vec![
        ("removed", Cell::text(pin.name.as_str())),
        ("version", Cell::Count(pin.version.0)),
        ("token", Cell::text(pin.token.to_string())),
    ];
    context.done(done, format!("removed {}; version {} may go", args.name, pin.version))?;
    opened.note_cost(context);
    Ok(Exit::Ok)
}

/// A clone that still shares tables by this pin would lose them.
fn check_unused(opened: &Opened, pin: &Pin) -> Result<(), Failure> {
    if pin.name.as_str() != CLONES {
        return Ok(());
    }
    let unreadable = || {
        Failure::usage(format!("whose pin this is cannot be told: {:?}", pin.note))
            .detail("a clone's pin names the clone, and nothing is removed without a look at it")
    };
    let root = Root::new(&pin.note).map_err(|_| unreadable())?;
    let clone = opened.home.at(root);
    let newest = read_newest(&clone).map_err(|error| opened.explain(error))?;
    let Some(newest) = newest else { return Ok(()) };
    let uses = |token: Token| newest.state.ancestors().iter().any(|old| old.token == token);
    if !uses(pin.token) {
        return Ok(());
    }
    Err(Failure::usage(format!("{} is a clone that reads its tables by this pin", pin.note))
        .detail("remove the clone first: without the pin it would lose them"))
}

pub(crate) fn clone(args: &CloneArgs, context: &Context) -> Outcome {
    let path = args.place.sibling(&args.to)?;
    let opened = args.place.open(Tries::Long)?;
    let root = Root::new(&path).map_err(refused)?;
    if root == *opened.home.root() {
        return Err(Failure::usage("a database is no clone of itself"));
    }
    let from = args.checkpoint.as_deref().map(|name| checkpoint_of(&opened, name)).transpose()?;
    let version = match &from {
        Some(pin) => pin.version,
        None => newest(&opened)?,
    };
    let (child, token) = (opened.home.at(root), fresh_token());
    // Whoever does not know what became of it asks again with the same token, and here that ends with this process.
    clone_database(&opened.home, &child, version, from.as_ref(), token).map_err(|error| {
        let undecided = error.kind() == ErrorKind::Undecided;
        let failure = opened.explain(error);
        if undecided {
            failure.detail("clone to another place, or see whether it is there")
        } else {
            failure
        }
    })?;
    let done = vec![("clone", Cell::text(path.clone())), ("version", Cell::Count(version.0))];
    context.done(done, format!("{path} begins as version {version} of {}", opened.shown))?;
    opened.note_cost(context);
    Ok(Exit::Ok)
}

fn checkpoint_of(opened: &Opened, text: &str) -> Result<Pin, Failure> {
    let found = find_checkpoint(&opened.home, &name_of(text)?);
    found.map_err(|error| opened.explain(error))?.ok_or_else(|| {
        Failure::new(
            Exit::Absent,
            "E-NOT-FOUND",
            format!("no checkpoint {text} in {}", opened.shown),
        )
        .step("see them", opened.command("checkpoint"))
    })
}
