//! The container, read: a header, and the records behind it, however they are stored.
