//! Names the shared library for those who link it: programs ask the loader for this name.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number rises when a function of `siltstone/c.h` changes; those of LevelDB never do.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsiltstone_c.so.0");
    }
}
