//! Tables and properties of the STM stages.

mod elements;
mod packets;
