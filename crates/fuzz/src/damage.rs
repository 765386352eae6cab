//! Body: operations, then damage to the files. What is found may be less; it is never made up, and
//! no flipped bit passes unnoticed.

use siltstone::{Db, Options, repair};
use siltstone_sim::{Folder, World};

use crate::input::Input;
use crate::model::Model;
use crate::operations::Run;
use crate::reading::{DIR, Pairs, contents, options, roam, scan};

/// The first byte: bit 0 reuses logs, bit 1 crashes instead of closing; the rest, how many bytes of
/// the input are operations. What follows is damage: which file, how, where (two bytes). Inputs of odd
/// length are repaired, others opened.
pub(crate) fn damage(input: &[u8]) {
    let mends = input.len() & 1 == 1;
    let mut input = Input(input);
    let mode = input.byte();
    let mut run = Run::new(mode);
    let mut operations = Input(input.bytes(usize::from(mode >> 2)));
    while !operations.is_empty() {
        run.harmless_step(&mut operations);
    }
    let (world, model) = run.leave(mode & 2 != 0);
    let mut cut = false;
    while !input.is_empty() {
        cut |= hurt(&world.folder, &mut input);
    }
    if mends {
        save(&world, &model);
    } else {
        find(&world, &model, cut);
    }
}

/// Damages a file. True if bytes went missing at its end, as a crash may have it.
fn hurt(folder: &Folder, input: &mut Input<'_>) -> bool {
    let names = folder.names();
    let name = &names[input.below(names.len())];
    let how = input.byte();
    let at = usize::from(u16::from_le_bytes([input.byte(), input.byte()]));
    let mut cut = false;
    if name == "LOCK" {
        return false;
    }
    folder.edit(name, |bytes| {
        let at = at % (bytes.len() + 1);
        match how % 8 {
            0 => {
                cut = at < bytes.len();
                bytes.truncate(at);
            }
            1 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = how),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (how >> 5)),
        }
    });
    cut
}

fn find(world: &World, model: &Model, cut: bool) {
    let options = options(&world.env);
    let Ok(db) = Db::open(DIR, options) else { return };
    roam(&db);
    let Ok(found) = scan(&db) else { return };
    check_written(model, &found);
    let report = db.recovery_report();
    let noticed = cut || report.torn_bytes > 0 || !report.dropped.is_empty();
    assert!(noticed || found == model.now(), "{found:?}\nbut written was {:?}", model.now());
}

fn save(world: &World, model: &Model) {
    let options = Options { create_if_missing: false, ..options(&world.env) };
    if repair(DIR, "/out", &options).is_ok() {
        let db = Db::open("/out", options).expect("a repaired database opens");
        check_written(model, &contents(&db).expect("a repaired database can be read"));
    }
}

fn check_written(model: &Model, found: &Pairs) {
    for (key, value) in found {
        let (key_text, value_text) = (key.escape_ascii(), value.escape_ascii());
        assert!(model.ever_wrote(key, value), "{key_text} never was {value_text}");
    }
}
