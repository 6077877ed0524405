//! Readable names of C++ and Rust functions.
//!
//! Takes names of symbol tables, which may be hostile; produces names as they are in the source, of bounded length. A
//! name that is not mangled, or whose readable form is too long, has none.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Longest readable name. A short mangled name can refer to its own parts again and again, and so expand without bound.
const MAX_LENGTH: usize = 4 << 10;

/// Depth of nested parts of a C++ name, so that the stack suffices.
const MAX_DEPTH: u32 = 96;

/// The name of a function as it is in the source: `square(int)` for `_Z6squarei`, `core::fmt::write` for
/// `_ZN4core3fmt5write17h0123456789abcdefE`. `None` if the name is not mangled.
///
/// ```
/// assert_eq!(unspool::demangle("_Z6squarei").as_deref(), Some("square(int)"));
/// assert_eq!(unspool::demangle("main"), None);
/// ```
pub fn demangle(name: &str) -> Option<String> {
    rust(name, false).or_else(|| cpp(name, &DemangleOptions::new().no_return_type()))
}

/// Whether a user may mean this symbol by `wanted`: its readable name, with or without parameters or hash.
pub(crate) fn is_demangled(name: &str, wanted: &str) -> bool {
    let is_wanted = |found: Option<String>| found.is_some_and(|found| found == wanted);
    let without_parameters = || cpp(name, &DemangleOptions::new().no_return_type().no_params());
    is_wanted(demangle(name)) || is_wanted(rust(name, true)) || is_wanted(without_parameters())
}

fn rust(name: &str, with_hash: bool) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded::default();
    let written = if with_hash { write!(text, "{demangled}") } else { write!(text, "{demangled:#}") };
    written.is_ok().then_some(text.0)
}

fn cpp(name: &str, options: &DemangleOptions) -> Option<String> {
    // Other names would be read as types: `i` as `int`.
    name.trim_start_matches('_').strip_prefix('Z').filter(|_| name.starts_with('_'))?;
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = Symbol::new_with_options(name, &parse).ok()?;
    let mut text = Bounded::default();
    let options = options.recursion_limit(MAX_DEPTH);
    symbol.structured_demangle(&mut text, &options).is_ok().then_some(text.0)
}

/// Text that refuses to become longer than [`MAX_LENGTH`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_LENGTH {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected names of C++ are those of `c++filt`; those of Rust follow from the mangling (RFC 2603).
    #[test]
    fn readable_names() {
        let rows = [
            ("main", None),
            ("i", None),
            ("_start", None),
            ("Z6squarei", None),
            ("_Z", None),
            ("_Z6squarei", Some("square(int)")),
            ("_ZN5shape4areaEv", Some("shape::area()")),
            ("_ZNKSt6vectorIiSaIiEE4sizeEv", Some("std::vector<int, std::allocator<int> >::size() const")),
            ("_Z3maxIiET_S0_S0_", Some("max<int>(int, int)")),
            ("_ZN4core3fmt5write17h0123456789abcdefE", Some("core::fmt::write")),
            ("_RNvC6_123foo3bar", Some("123foo::bar")),
            ("_RNvNtCs1234_7mycrate3foo3bar", Some("mycrate::foo::bar")),
        ];
        for (name, expected) in rows {
            assert_eq!(demangle(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_function_has_several_names() {
        let rows = [
            ("_ZN5shape4areaEi", "shape::area(int)", true),
            ("_ZN5shape4areaEi", "shape::area", true),
            ("_ZN5shape4areaEi", "area", false),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", true),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write::h0123456789abcdef", true),
            ("main", "main", false),
        ];
        for (name, wanted, expected) in rows {
            assert_eq!(is_demangled(name, wanted), expected, "{name} {wanted}");
        }
    }

    #[test]
    fn hostile_names_have_bounded_length() {
        // Each pair doubles the last: thirty of them would be a gigabyte.
        let mut doubling = String::from("_Z1fSt4pairIiiE");
        for last in 0..30_u32 {
            let substitution = char::from_digit(last, 36).unwrap().to_ascii_uppercase();
            doubling += &format!("St4pairIS{substitution}_S{substitution}_E");
        }
        let deep = format!("_Z1f{}i", "P".repeat(10_000));
        for name in [doubling, deep, format!("_ZN{}", "1a".repeat(5000)), "_Z".repeat(2000)] {
            assert!(demangle(&name).is_none_or(|found| found.len() <= MAX_LENGTH), "{name}");
        }
    }
}
