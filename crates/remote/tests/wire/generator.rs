//! From proto files to Rust, in memory; shared by the example that writes the result and the test that compares it.

use std::path::PathBuf;

const HEADER: &str = "//! Made from `proto/siltstone.proto` by `cargo run -p siltstone-remote --example generate`; not to be edited. Only the\n//! conversions speak in these.\n\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn committed_path() -> PathBuf {
    root().join("src/grpc/wire/generated.rs")
}

pub(crate) fn committed() -> String {
    std::fs::read_to_string(committed_path()).unwrap_or_default()
}

/// The code for `proto/siltstone.proto`; that `proto/legacy.proto` compiles is only checked.
pub(crate) fn generate() -> Result<String, Box<dyn std::error::Error>> {
    let protos = root().join("proto");
    protox::compile(["legacy.proto"], [&protos])?;
    let files = protox::compile(["siltstone.proto"], [&protos])?;
    let out = std::env::temp_dir().join(format!("siltstone-wire-{}", std::process::id()));
    std::fs::create_dir_all(&out)?;
    let made = tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .build_transport(false)
        .out_dir(&out)
        // Two fields are secrets, and derived `Debug` would show them.
        .skip_debug(["Assign", "Submission"].map(|name| format!("siltstone.remote.v1.{name}")))
        .compile_fds(files);
    let code = std::fs::read_to_string(out.join("siltstone.remote.v1.rs"));
    std::fs::remove_dir_all(&out)?;
    made?;
    Ok(format!("{HEADER}{}", code?))
}
