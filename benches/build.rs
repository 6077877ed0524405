//! Builds the shim over the reference decoder's C interface.

fn main() {
    println!("cargo::rerun-if-changed=src/reference.c");
    cc::Build::new().file("src/reference.c").opt_level(2).compile("reference_shim");
    println!("cargo::rustc-link-lib=opencsd_c_api");
    println!("cargo::rustc-link-lib=opencsd");
    println!("cargo::rustc-link-lib=stdc++");
}
