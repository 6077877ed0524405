//! Sets the version with its commit, and builds the QEMU plugin, which `record` carries inside the binary.
//!
//! sources of the plugin and of the two crates that it needs ─▶ rustc ─▶ **`OUT_DIR/libunspool_plugin.so`**
//!
//! The plugin is a library that the emulator loads, so that no dependency of cargo can express it. It is compiled by rustc itself:
//! that needs no second cargo, no network and no lock, and follows the target of the binary. On targets where the plugin is empty
//! the file is empty. `plugin` is a link to the sources of the plugin, which makes them a part of this package; the other crates
//! are beside it, in the workspace and in the folder that cargo unpacks packages to.

#[path = "build/version.rs"]
mod version;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLUGIN: &str = "libunspool_plugin.so";

fn main() -> Result<(), Box<dyn Error>> {
    version::set();
    let out = PathBuf::from(variable("OUT_DIR")?);
    let plugin = out.join(PLUGIN);
    println!("cargo::rerun-if-changed=build.rs");
    let is_possible =
        variable("CARGO_CFG_TARGET_OS")? == "linux" && variable("CARGO_CFG_TARGET_POINTER_WIDTH")? == "64";
    if is_possible {
        compile(&out, &plugin)?;
    } else {
        fs::write(&plugin, [])?;
    }
    println!("cargo::rustc-env=UNSPOOL_PLUGIN_HASH={:016x}", hash(&fs::read(&plugin)?));
    Ok(())
}

fn compile(out: &Path, plugin: &Path) -> Result<(), Box<dyn Error>> {
    let isa = library(out, "isa")?;
    let wire = library(out, "wire")?;
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("plugin");
    println!("cargo::rerun-if-changed={}", source.display());
    let mut rustc = rustc("unspool_plugin", "cdylib")?;
    rustc.arg("--extern").arg(named("unspool_isa", &isa)).arg("--extern").arg(named("unspool_wire", &wire));
    run(rustc.args(["-C", "strip=symbols"]).arg(source.join("lib.rs")).arg("-o").arg(plugin))
}

/// Compiles a crate that has no dependencies.
fn library(out: &Path, name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let folders = [format!("../{name}"), format!("../unspool-{name}-{}", env!("CARGO_PKG_VERSION"))];
    let found = folders.iter().map(|folder| here.join(folder).join("src")).find(|folder| folder.is_dir());
    let source = found.ok_or_else(|| format!("the sources of unspool-{name} are not beside {}", here.display()))?;
    println!("cargo::rerun-if-changed={}", source.display());
    let library = out.join(format!("libunspool_{name}.rlib"));
    run(rustc(&format!("unspool_{name}"), "rlib")?.arg(source.join("lib.rs")).arg("-o").arg(&library))?;
    Ok(library)
}

/// The compiler for the target of the binary, with the options of the user.
fn rustc(name: &str, kind: &str) -> Result<Command, Box<dyn Error>> {
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.args(["--edition", "2024", "--cap-lints", "allow", "--target"]).arg(variable("TARGET")?);
    rustc.args(["-C", "opt-level=3", "-C", "codegen-units=1", "-C", "panic=abort"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(named("linker", Path::new(&linker)));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.args(["--crate-name", name, "--crate-type", kind]);
    Ok(rustc)
}

fn named(name: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push("=");
    argument.push(path);
    argument
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("the plugin cannot be compiled: {command:?}").into()),
    }
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// FNV-1a. Names a version; contents are compared where it matters.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
