//! Tables and properties of the ETMv3 stages.

mod any_packet;
mod elements;
mod packets;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Config, Registers};
use crate::{DecodeElements, ElementItem, Packets, Profile};

/// An alignment synchronization.
const SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];
/// Tracing is enabled at Arm 0x8000.
const ARM_START: [u8; 6] = [0x08, 0x21, 0x00, 0x80, 0x00, 0x00];
/// Tracing is enabled at Thumb 0x0800_8000.
const THUMB_START: [u8; 6] = [0x08, 0x21, 0x01, 0x80, 0x00, 0x08];

/// A Cortex-A7 with this ETMCR: original branch encoding, 64-bit binary timestamps.
fn a7(cr: u32) -> Config {
    let registers = Registers { cr: Some(cr), idr: Some(0x410c_f250), ccer: Some(0x3440_08f2), traceidr: None };
    Config::new(Profile::Application, &registers).0
}

/// A Cortex-M3 with this ETMCR: alternative branch encoding, 48-bit binary timestamps.
fn m3(cr: u32) -> Config {
    let registers = Registers { cr: Some(cr), idr: Some(0x4114_f250), ccer: Some(0x1854_1800), traceidr: None };
    Config::new(Profile::Microcontroller, &registers).0
}

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The texts of the packets that follow an alignment synchronization.
fn packet_texts(config: &Config, bytes: &[u8]) -> Vec<String> {
    let stream = [&SYNC, bytes].concat();
    let items = Packets::new(config, &stream).skip(1);
    items.map(|item| item.map_or_else(|error| error.to_string(), |packet| packet.value.to_string())).collect()
}

/// The texts of the elements of a stream, through this decoder.
fn texts_of<D: DecodeElements<Packet = super::Packet>>(config: &Config, mut decoder: D, bytes: &[u8]) -> Vec<String> {
    let mut texts = vec![];
    let mut sink = |item: ElementItem| {
        texts.push(item.map_or_else(|error| error.to_string(), |element| element.value.to_string()));
    };
    Packets::new(config, bytes).for_each(|packet| decoder.push(packet, &mut sink));
    decoder.finish(&mut sink);
    texts
}
