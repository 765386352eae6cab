//! A slice of `survive kill`, whose full run is part of `.ci/run`.

use std::process::Command;

#[test]
fn nothing_acknowledged_is_lost_with_a_killed_process() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_survive"));
    let output = command.args(["kill", "--cycles", "40", "--seed", "3"]).output();
    let output = output.expect("the program runs");
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("FIGURE\tkill-siltstone\tlost synced batches\t0\t<= 0\tok"));
}
