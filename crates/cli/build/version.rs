//! The version that `unspool --version` prints: that of the package, and the commit if it is built from a checkout.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sets `UNSPOOL_VERSION` for the crate.
pub(crate) fn set() {
    println!("cargo:rerun-if-changed=build/version.rs");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo:rustc-env=UNSPOOL_VERSION={version}");
}

/// Abbreviated hash of the commit; `None` if the sources are a package, even one inside another repository.
fn commit() -> Option<String> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if root != top {
        return None;
    }
    // The log of HEAD grows with every commit and checkout.
    for name in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}

/// Output of a git command, run in the folder of the package.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string()).filter(|text| !text.is_empty())
}
