//! Build script: the version with its commit.

#[path = "build/version.rs"]
mod version;

fn main() {
    version::set();
}
