//! A jitdump of a program that ran on a PC, and what `perf inject --jit` (perf 6.1) made of it: one file per function, and a
//! mapping with address, size and time.

use unspool_capture::{Call, Jitdump, Machine, PatchCode};

#[test]
fn patches_are_what_perf_injects() {
    let dump = Jitdump::parse("jit-4939.dump", include_bytes!("jit-4939.dump")).unwrap();
    assert_eq!((dump.pid, dump.machine, dump.has_counter_times), (4939, Machine::Other(62), false));
    // Time and address of the mappings that perf wrote; the bytes and the symbol of its files.
    let rows = [
        (14_692_936_990_921, 0x7f4b_f151_5000, 0xb801_0000_0048_31c9_48ff_c190_9090_c3cc, "jitted function 0"),
        (14_693_001_733_839, 0x7f4b_f151_5040, 0xb802_0000_0048_31c9_48ff_c190_9090_c3cc, "jitted function 1"),
        (14_693_073_393_771, 0x7f4b_f151_5080, 0xb803_0000_0048_31c9_48ff_c190_9090_c3cc, "jitted function 2"),
    ];
    assert_eq!((dump.events.len(), dump.notes.len()), (rows.len(), 0));
    for (event, (time, address, bytes, name)) in dump.events.iter().zip(rows) {
        let code = PatchCode::Bytes(u128::to_be_bytes(bytes).to_vec());
        let patch = Call::Patch { pid: 4939, address, length: 16, code, name: name.to_string() };
        assert_eq!((event.time, &event.call), (Some(time), &patch));
        assert_eq!(dump.symbols_at(4939, Some(time)).find(address + 3), Some((name, 3)));
        assert_eq!(dump.symbols_at(4939, Some(time - 1)).find(address), None);
    }
}
