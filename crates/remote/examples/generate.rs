//! Makes `src/grpc/wire/generated.rs` from `proto/siltstone.proto`: `cargo run -p siltstone-remote --example generate`.
//! Needs no `protoc`. With `--check` it only compares.

#[path = "../tests/wire/generator.rs"]
mod generator;

fn main() {
    let made = generator::generate().expect("the proto files compile");
    if std::env::args().any(|arg| arg == "--check") {
        assert_eq!(made, generator::committed(), "run the example without --check");
    } else {
        std::fs::write(generator::committed_path(), made).expect("the source tree can be written");
    }
}
