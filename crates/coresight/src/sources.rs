//! The sources of a buffer as evidence for where its frames start.
//!
//! Takes trace ids with the configurations of their trace units. Produces, for bytes that may be the trace of one of them,
//! how many are packets. Does not know frames: those ask.

use alloc::vec::Vec;

use crate::decode::{DecodePackets as _, Decoders as _};
use crate::frame::{Fit, Ids, SourceEvidence};
use crate::{Malformed, Packet, PacketItem, TraceConfig, with_decoders};

/// Trace ids and the configurations of their sources. One id may have several configurations, each for a part of the
/// buffer.
#[derive(Debug, Clone, Default)]
pub struct ConfiguredSources {
    /// All ids, also those of sources that cannot be decoded.
    ids: Ids,
    configs: Vec<(u8, TraceConfig)>,
}

impl ConfiguredSources {
    /// Adds a source; without a configuration it is known only that the id exists.
    pub fn add(&mut self, id: u8, config: Option<TraceConfig>) {
        self.ids.insert(id);
        self.configs.extend(config.map(|config| (id, config)));
    }
}

impl SourceEvidence for ConfiguredSources {
    fn ids(&self) -> Ids {
        self.ids
    }

    fn examine(&self, id: u8, bytes: &[u8]) -> Fit {
        let configs = self.configs.iter().filter(|(of, _)| *of == id);
        configs.map(|(_, config)| fit(config, bytes)).max_by_key(|fit| fit.well_formed).unwrap_or_default()
    }
}

/// How well bytes fit a source with this configuration.
fn fit(config: &TraceConfig, bytes: &[u8]) -> Fit {
    let mut fit = Fit::default();
    // Nearly any bytes are packets of some protocols, if there is no synchronization to start at.
    let mut is_synchronized = false;
    with_decoders!(config, decoders => {
        let mut count = |item: PacketItem<_>| match item {
            Ok(packet) => {
                is_synchronized |= Packet::from(packet.value).kind().is_sync();
                fit.well_formed += if is_synchronized { packet.length } else { 0 };
            }
            // The bytes end anywhere.
            Err(error) if error.kind.is_ordinary() || error.kind == Malformed::Truncated => {}
            Err(_) => {
                fit.malformed += u64::from(is_synchronized);
                is_synchronized = false;
            }
        };
        let is_last = true;
        decoders.packets().decode(bytes, is_last, &mut count);
    });
    fit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, Protocol};

    #[test]
    fn packets_after_a_synchronization_are_evidence() {
        let mut sources = ConfiguredSources::default();
        sources.add(0x10, Some(TraceConfig::new(Protocol::Etm4, Profile::Unknown, [], []).0));
        sources.add(0x11, None);
        let sync = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
        type Row<'r> = (&'r str, u8, &'r [u8], (u64, u64));
        let rows: &[Row<'_>] = &[
            ("no bytes", 0x10, &[], (0, 0)),
            ("atoms before a synchronization", 0x10, &[0xf7; 20], (0, 0)),
            ("a synchronization and packets", 0x10, &[&[0xf7][..], &sync, &[0x01, 0x00, 0xf7]].concat(), (15, 0)),
            ("a reserved header", 0x10, &[&sync[..], &[0x01, 0x00, 0x8f, 0xf7]].concat(), (14, 1)),
            ("a packet that is cut off", 0x10, &[&sync[..], &[0x9d, 0x00]].concat(), (12, 0)),
            ("a source without a configuration", 0x11, &sync, (0, 0)),
            ("an unknown id", 0x12, &sync, (0, 0)),
        ];
        for (name, id, bytes, (well_formed, malformed)) in rows {
            let expected = Fit { well_formed: *well_formed, malformed: *malformed };
            assert_eq!(sources.examine(*id, bytes), expected, "{name}");
        }
        assert_eq!(sources.ids().iter().collect::<Vec<u8>>(), [0x10, 0x11]);
    }
}
