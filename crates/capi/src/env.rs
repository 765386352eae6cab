//! Environments: `leveldb_create_default_env`, `leveldb_env_*`.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use siltstone::{Env, Site};

use crate::border::{c_text, quietly};

pub(crate) struct leveldb_env_t {
    pub(crate) env: Env,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Box<leveldb_env_t> {
    Box::new(leveldb_env_t { env: Env::posix() })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Option<Box<leveldb_env_t>>) {
    quietly(|| drop(env));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(env: &leveldb_env_t) -> *mut c_char {
    let path = test_directory();
    quietly(|| {
        // As in LevelDB: a folder that cannot be made shows when it is used.
        let _ = env.env.file_system.create_dir(&path, Site::DbDirCreate);
    });
    c_text(path.as_os_str().as_bytes())
}

/// Where LevelDB's tests put their databases: what `TEST_TMPDIR` says, or else a folder of the user's.
fn test_directory() -> PathBuf {
    match std::env::var_os("TEST_TMPDIR") {
        Some(named) if !named.is_empty() => named.into(),
        // SAFETY: `geteuid` has no condition.
        _ => format!("/tmp/leveldbtest-{}", unsafe { libc::geteuid() }).into(),
    }
}
