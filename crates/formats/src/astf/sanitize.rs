//! Addresses without tags and authentication codes.
