//! Operators: they make checkpoints and look at them later, have databases set back, and clone them.

use std::time::Duration;

use siltstone_cloud::{
    ErrorKind, Opening, Pin, PinName, Token, VersionLog, VersionNumber, clone_database,
    create_checkpoint, detach, read_newest, read_version, remove_pin,
};

use super::actor::{Actor, Wish};
use super::content::{self, Change};
use super::{reader, writer};

/// More clones than this there are not in a world.
const CLONES_MAX: usize = 3;

/// Keeps some checkpoints of a database, and now and then wishes it back to one.
pub(super) fn checkpoints(actor: &Actor, root: &str, wish: &Wish) {
    let mut pins: Vec<Pin> = Vec::new();
    while !actor.stage.is_over() {
        actor.rest(900);
        match actor.stage.roll(8) {
            0..4 if pins.len() < 3 => pins.extend(create(actor, root)),
            0..5 if !pins.is_empty() => look(actor, root, &pins[0]),
            5 if !pins.is_empty() => {
                let pin = pins.remove(0);
                set_back(actor, wish, &pin);
                remove(actor, root, &pin);
            }
            _ if !pins.is_empty() => {
                let pin = pins.remove(0);
                remove(actor, root, &pin);
            }
            _ => {}
        }
    }
    *wish.lock().unwrap() = None;
    pins.iter().for_each(|pin| remove(actor, root, pin));
}

fn create(actor: &Actor, root: &str) -> Option<Pin> {
    let home = actor.home(root);
    let newest = read_newest(&home).inspect_err(|error| actor.heed(error)).ok()??;
    let back = actor.stage.roll(6);
    let version = VersionNumber(newest.state.version().0.saturating_sub(back).max(1));
    let token = actor.stage.token();
    let name = PinName::new(&format!("check-{}", token.0 % 10_000)).unwrap();
    let pin = Pin { name, token, version, life: Duration::ZERO, note: String::new() };
    match create_checkpoint(&home, &pin) {
        Ok(()) => {
            actor.stage.ledger().pin(root, token, version.0);
            Some(pin)
        }
        Err(error) => {
            actor.heed(&error);
            None
        }
    }
}

/// All that a checkpoint keeps must be there, and as it was.
fn look(actor: &Actor, root: &str, pin: &Pin) {
    let home = actor.home(root);
    match read_version(&home, pin.version) {
        Ok(replay) => {
            let content = content::replayed(&replay.payloads);
            reader::compare(actor, root, pin.version, &content);
            reader::read_all(actor, root, (&home, &replay.state), Duration::MAX, &content);
        }
        Err(error) if error.kind() == ErrorKind::Gone => {
            actor.violation(format!("{root}: checkpoint on {} keeps nothing", pin.version));
        }
        Err(error) => actor.heed(&error),
    }
}

/// Waits until some writer has set the database back, or the day is over.
fn set_back(actor: &Actor, wish: &Wish, pin: &Pin) {
    *wish.lock().unwrap() = Some(pin.clone());
    while !actor.stage.is_over() && wish.lock().unwrap().is_some() {
        actor.rest(20);
    }
}

fn remove(actor: &Actor, root: &str, pin: &Pin) {
    actor.stage.ledger().unpin(root, pin.token);
    let _ = remove_pin(&actor.home(root), pin);
}

/// Clones databases, and clones of them, and lives with them for a while.
pub(super) fn clones(actor: &Actor) {
    for number in 0..CLONES_MAX {
        actor.rest(3600);
        let roots = actor.stage.ledger().roots();
        let Some(parent) = roots.get(actor.stage.roll(roots.len().max(1) as u64) as usize) else {
            continue;
        };
        let child = format!("clone-{number}/");
        if clone(actor, parent, &child) {
            writer::run(actor, &child, 1 + actor.stage.roll(2), None);
            if actor.one_in(2) {
                alone(actor, &child);
            }
        }
        if actor.stage.is_over() {
            return;
        }
    }
}

fn clone(actor: &Actor, parent: &str, child: &str) -> bool {
    let token = actor.stage.token();
    let Ok(Some(newest)) = read_newest(&actor.home(parent)) else { return false };
    let version = newest.state.version();
    actor.stage.ledger().expect_clone(child, parent, version.0);
    for _ in 0..20 {
        match try_clone(actor, parent, child, version, token) {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::Gone => return false,
            Err(error) => actor.heed(&error),
        }
        actor.rest(30);
    }
    false
}

fn try_clone(
    actor: &Actor,
    parent: &str,
    child: &str,
    version: VersionNumber,
    token: Token,
) -> Result<(), siltstone_cloud::Error> {
    clone_database(&actor.home(parent), &actor.home(child), version, None, token)
}

/// Makes a clone stand alone.
fn alone(actor: &Actor, child: &str) {
    let Ok((mut log, replay)) =
        VersionLog::open(&actor.home(child), &Opening::new(actor.stage.token()))
    else {
        return;
    };
    let content = content::replayed(&replay.payloads);
    let payload = content::payload(Change::Whole, &content);
    let mut next = replay.state.tables().keys().max().map_or(1, |last| last + 1);
    let number = || {
        next += 1;
        next
    };
    if let Err(error) = detach(&mut log, vec![payload], number) {
        actor.heed(&error);
    }
}
