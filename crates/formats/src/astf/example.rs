//! The example of the specification, made by the writer.
