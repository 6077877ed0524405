//! Several address maps: two processes with different code at one address, and code that changes.

#![allow(clippy::expect_used)]

use unspool_coresight::{Atoms, Context, Element, FlowRules, Located, Security, Target};
use unspool_flow::{CodeMemory, FlowItem, FlowSink, Item, MapId, Run, Space, Walker};

const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;
const START: u64 = 0x1000;

/// Processes 1 and 2 have code at [`START`]. That of process 1 has been patched if `is_patched`. Other processes are unknown.
#[derive(Clone, Copy)]
struct Processes {
    is_patched: bool,
}

const FIRST: MapId = MapId(1);
const PATCHED: MapId = MapId(2);
const SECOND: MapId = MapId(3);
const UNKNOWN: MapId = MapId(4);

impl CodeMemory for Processes {
    fn read<'b>(&'b self, address: u64, space: Space, buffer: &'b mut [u8]) -> &'b [u8] {
        let code: &[u32] = match space.map {
            FIRST => &[NOP, RET],
            PATCHED => &[NOP, NOP, RET],
            SECOND => &[RET],
            _ => &[],
        };
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let left = bytes.get(address.wrapping_sub(START) as usize..).unwrap_or_default();
        buffer[..left.len()].copy_from_slice(left);
        &buffer[..left.len()]
    }

    fn map_of(&self, context: &Context) -> MapId {
        match context.context_id {
            Some(1) if self.is_patched => PATCHED,
            Some(1) => FIRST,
            Some(2) => SECOND,
            _ => UNKNOWN,
        }
    }

    fn is_ambiguous(&self, address: u64, space: Space) -> bool {
        space.map == UNKNOWN && address == START
    }
}

#[derive(Default)]
struct Listing(Vec<String>);

impl FlowSink for Listing {
    fn run(&mut self, run: Run<'_>) {
        self.0.extend(run.ranges().map(|range| format!("{:x}..{:x}", range.start(), range.end())));
    }

    fn item(&mut self, item: FlowItem) {
        match item.expect("no error").value {
            Item::Finding(finding) => self.0.push(finding.name().to_string()),
            Item::NoCode { address, .. } => self.0.push(format!("no code at {address:x}")),
            _ => {}
        }
    }
}

struct Walk {
    walker: Walker<Processes>,
    listing: Listing,
}

impl Walk {
    fn new() -> Self {
        let rules = FlowRules {
            wfx_is_p0: false,
            return_stack: false,
            silent_exception_returns: true,
            may_mispredict: false,
            ..FlowRules::default()
        };
        Self { walker: Walker::new(rules, Processes { is_patched: false }), listing: Listing::default() }
    }

    fn push(&mut self, value: Element) {
        self.walker.push(Ok(Located { offset: 0, length: 1, value }), &mut self.listing);
    }

    /// The process executes the function at [`START`].
    fn execute(&mut self, process: u32) {
        self.enter(process);
        self.leave();
    }

    fn enter(&mut self, process: u32) {
        let security = Security::NonSecure;
        self.push(Element::Context(Context { el: 0, aarch64: true, security, vmid: None, context_id: Some(process) }));
        self.push(Element::TargetAddress(Target { address: START, ..Target::default() }));
    }

    fn leave(&mut self) {
        self.push(Element::Atoms(Atoms::new(1, 1)));
    }

    #[track_caller]
    fn shows(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.listing.0), expected);
    }
}

#[test]
fn processes_have_their_own_code() {
    let mut walk = Walk::new();
    for _ in 0..100 {
        walk.execute(1);
        walk.execute(1);
        walk.execute(2);
        walk.execute(1);
        walk.shows(&["1000..1008", "1000..1008", "1000..1004", "1000..1008"]);
    }
}

#[test]
fn changed_code_is_read_again() {
    let mut walk = Walk::new();
    for is_patched in [false, true, false, true] {
        // The address is known before the map changes.
        walk.enter(1);
        walk.walker.change_map(0, Processes { is_patched }, &mut walk.listing);
        walk.leave();
        walk.execute(2);
        walk.execute(1);
        let of_first = if is_patched { "1000..100c" } else { "1000..1008" };
        walk.shows(&[of_first, "1000..1004", of_first]);
    }
}

#[test]
fn code_of_an_unknown_process_is_not_executed() {
    let mut walk = Walk::new();
    walk.execute(1);
    walk.execute(7);
    walk.execute(2);
    walk.shows(&["1000..1008", "ambiguous_image", "1000..1004"]);
}
