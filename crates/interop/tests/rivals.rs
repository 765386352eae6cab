//! A slice of the campaign that has both engines do the lists of the ground. The whole of it is the
//! program `rivals`.

use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::rivals::{Args, List, run};
use siltstone_sim::differential::reference::Flaw;

#[test]
fn both_engines_answer_as_the_model_does() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    // The last seed's list is in a custom order.
    let report = run(leveldb, &Args { operations: 12_000, len: 3000, ..Args::default() });
    assert!(report.passed(), "{}", report.lines());
}

#[test]
fn a_wrong_model_is_found_out() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    for (flaw, most) in
        [(Flaw::ForgetsDeletions, 3), (Flaw::ViewsMove, 4), (Flaw::ReopenLosesTheLastWrite, 2)]
    {
        let list = List { leveldb, seed: 1, len: 2000, flaw };
        let failure = list.run(None).expect_err("the model is wrong");
        println!("{}", failure.report());
        assert!(failure.operations.len() <= most, "{}", failure.report());
    }
}
