//! Records as instructions, with what belongs to each.
