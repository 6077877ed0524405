//! The container, written: a header, and the records behind it, stored as it says.
