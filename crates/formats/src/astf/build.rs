//! Records from instructions: a writer that knows the rules.
