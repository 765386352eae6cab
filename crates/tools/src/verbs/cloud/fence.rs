//! `cloud fence`: takes a database over, so that a writer that is lost can never commit again.

use clap::Args;
use siltstone_cloud::{Opening, Owner, VersionLog, read_newest, read_owner};

use super::place::{Opened, Place, Tries, fresh_token};
use crate::errors::{Exit, Outcome};
use crate::output::{Cell, Context};
use crate::sizes::show_duration;

/// What stands in the owner's register afterwards, for people.
const ADDRESS: &str = "siltstone cloud fence";

/// Shut a lost writer out for good: a plan, unless --yes
#[derive(Args, Debug)]
pub(crate) struct FenceArgs {
    #[command(flatten)]
    place: Place,
    /// Do it
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &FenceArgs, context: &Context) -> Outcome {
    let opened = args.place.open(if args.yes { Tries::Long } else { Tries::Short })?;
    let explain = |error| opened.explain(error);
    // Taking over would make a database where there is none.
    let newest = read_newest(&opened.home).map_err(explain)?.ok_or_else(|| opened.absent())?;
    let owner = read_owner(&opened.home).map_err(explain)?;
    let ends = owner.as_ref().map_or(newest.state.epoch(), |owner| owner.epoch).0;
    let who = owner.as_ref().map_or("nobody".to_owned(), described);
    if !args.yes {
        let done = vec![
            ("fenced", Cell::Flag(false)),
            ("ended_epoch", Cell::Count(ends)),
            ("owner", Cell::text(who.clone())),
        ];
        let shown = &opened.shown;
        context.done(
            done,
            format!("would end epoch {ends} of {shown}: {who}\nnothing was done; --yes does it"),
        )?;
        return Ok(Exit::Ok);
    }
    take_over(&opened, owner.as_ref(), &who, context)
}

fn take_over(opened: &Opened, owner: Option<&Owner>, who: &str, context: &Context) -> Outcome {
    if let Some(owner) = owner.filter(|owner| !owner.lease.is_zero()) {
        context.note(format!("waiting for the owner's lease: {}", show_duration(owner.lease)));
    }
    let opening = Opening { address: ADDRESS.to_owned(), ..Opening::new(fresh_token()) };
    let (log, _) =
        VersionLog::open(&opened.home, &opening).map_err(|error| opened.explain(error))?;
    // Epochs have no holes: whoever came in between is shut out as well.
    let (epoch, version) = (log.epoch().0, log.state().version());
    let ended = epoch - 1;
    context.done(
        vec![
            ("fenced", Cell::Flag(true)),
            ("ended_epoch", Cell::Count(ended)),
            ("owner", Cell::text(who)),
            ("epoch", Cell::Count(epoch)),
            ("version", Cell::Count(version.0)),
        ],
        format!(
            "epoch {ended} of {} has ended ({who}): nobody of it can commit any more\n\
             the database is at version {version} of epoch {epoch}; whoever opens it next goes on from there",
            opened.shown
        ),
    )?;
    opened.note_cost(context);
    Ok(Exit::Ok)
}

fn described(owner: &Owner) -> String {
    match owner.address.as_str() {
        "" => "an owner who gave no address".to_owned(),
        address => address.escape_debug().to_string(),
    }
}
