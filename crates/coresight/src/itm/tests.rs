//! Tables and properties of the ITM stages.

mod elements;
mod packets;
