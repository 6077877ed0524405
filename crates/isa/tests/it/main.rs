//! All integration tests of the instruction-set tables, in one binary so that they link once.

mod access;
mod corpus_riscv;
mod llvm;
mod riscv;
mod riscv_zcm;
mod rows;
mod text;
mod transfers;

/// The name of a variant in lower case, its words joined by the separator.
fn in_words(variant: impl std::fmt::Debug, separator: &str) -> String {
    let mut words = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words += separator;
        }
        words.extend(letter.to_lowercase());
    }
    words
}
