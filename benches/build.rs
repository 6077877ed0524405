//! Builds the shim over the reference decoder's C interface.
//!
//! `UNSPOOL_REFERENCE` names a folder with `include` and `libopencsd_all.so`, as `run` makes it; without it, the libraries of the
//! system are linked.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/reference.c");
    println!("cargo::rerun-if-env-changed=UNSPOOL_REFERENCE");
    let mut shim = cc::Build::new();
    shim.file("src/reference.c").opt_level(2);
    match env::var_os("UNSPOOL_REFERENCE").map(PathBuf::from) {
        Some(folder) => {
            shim.include(folder.join("include")).compile("reference_shim");
            println!("cargo::rustc-link-search=native={}", folder.display());
            println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
            println!("cargo::rustc-link-lib=opencsd_all");
        }
        None => {
            shim.compile("reference_shim");
            println!("cargo::rustc-link-lib=opencsd_c_api");
            println!("cargo::rustc-link-lib=opencsd");
        }
    }
    println!("cargo::rustc-link-lib=stdc++");
}
