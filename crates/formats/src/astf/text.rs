//! How records read, for people and for programs.
