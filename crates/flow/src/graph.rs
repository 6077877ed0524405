//! The graph of blocks: code is decoded once, however often it is executed.
//!
//! Takes addresses. Produces the block at an address and the blocks that its last instruction can lead to. Does not know
//! the trace. The graph is a cache of the program and grows with the code that was executed, never with the trace;
//! beyond [`MAX_BYTES`] it is cleared.
//!
//! # Blocks, and cached runs between them
//!
//! A block is straight-line code that ends with a P0 instruction: an instruction that trace has an atom for. Where every
//! instruction has one (ETMv3), a block is one instruction. So one atom is one step in the graph, an array index instead of a memory read and a decode:
//!
//! ```text
//!   0x1000  add                        E: target of cbz
//!   0x1004  ldr                     ┌──────────────▶ block 7 ──▶ ...
//!   0x1008  cbz x0, 0x1020 ── block 4
//!                                   └──────────────▶ block 5 ──▶ NEEDS_ADDRESS (it ends with ret)
//!                                      N: 0x100c
//! ```
//!
//! A trace unit packs several atoms into one packet, and programs repeat themselves. So `runs.rs` keeps, for each block
//! where a packet started (a node), the whole walk that a packet made from there: (node, packed atoms) → (steps, next
//! node, instruction count, effect on the return stack). Four runs share one cache line; the rest are in a hash table:
//!
//! ```text
//!   node 12 (block 4) ┌ key 3×ENE → steps 4E 7N 9E, next node 3 ┐
//!                     │ key 2×NN  → steps 4N 5N,    next node 8 │  64 bytes; a fifth run goes to the table
//!                     └ ...                                     ┘
//! ```
//!
//! While one cached run follows another, a packet costs one comparison of keys and the walk only updates its node.
//! Neither blocks nor runs contain an offset of the trace, so they stay valid for as long as the graph does. `flat.rs`
//! expands cached runs into instructions, with the same keys.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};

use unspool_coresight::FlowRules;
use unspool_isa::{ControlFlow, Decoded, Isa, Target, decode, transfers};

use crate::code::{Code, within};
use crate::memory::{CodeMemory, Space};
use crate::table::Table;

/// The number of a block: its index in [`Graph::blocks`]. Or, below [`FIRST`], one of the states without a block. The nodes
/// of `runs.rs` have other numbers.
pub(crate) type BlockId = u32;

/// After an indirect branch: an address follows, or the return stack has it.
pub(crate) const NEEDS_ADDRESS: BlockId = 0;
/// The position is unknown until an address comes.
pub(crate) const LOST: BlockId = 1;
/// At an address without code.
pub(crate) const NO_CODE: BlockId = 2;
/// Code that is not a block of the program, filled in for one use.
pub(crate) const SCRATCH: BlockId = 3;
/// Blocks of the program have numbers from here on.
pub(crate) const FIRST: BlockId = 4;

/// Greatest number of instructions in a block: no program continues for longer without a branch.
pub(crate) const LONGEST: usize = 1 << 14;

/// Greatest distance in bytes from the start of a range to its waypoint. Before a longer one, the trace has a waypoint
/// update.
const FARTHEST_WAYPOINT: u64 = 4096;

/// Approximate limit of the graph's memory, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Approximate memory of a world with few targets, in bytes. With [`MAX_BYTES`], it also limits the number of worlds.
const WORLD_BYTES: usize = 8 << 10;

/// Blocks with this many instructions are indexed, so that blocks which start inside them share their opcodes.
const LONG: usize = 128;

/// Does trace have an element for this instruction?
fn is_p0(rules: FlowRules, isa: Isa, opcode: u32, flow: ControlFlow) -> bool {
    match flow {
        _ if rules.atom_per_instruction => true,
        _ if transfers_are_p0(rules) && is_p0_transfer(rules, isa, opcode) => true,
        ControlFlow::Wfx => rules.wfx_is_p0,
        ControlFlow::DataBarrier => rules.barrier_waypoints,
        _ if flow.is_thumb_ee() => rules.waypoints,
        _ => flow.is_p0(),
    }
}

/// Does trace have elements for loads or stores?
fn transfers_are_p0(rules: FlowRules) -> bool {
    rules.p0_loads || rules.p0_stores
}

fn is_p0_transfer(rules: FlowRules, isa: Isa, opcode: u32) -> bool {
    let found = transfers(isa, opcode);
    rules.p0_loads && found.loads || rules.p0_stores && found.stores
}

/// The end of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a P0 instruction.
    P0,
    /// At unknown code.
    NoCode,
    /// None within the longest block.
    TooLong,
}

/// A block of the graph, one cache line.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Block {
    pub(crate) start: u64,
    /// The address after the last instruction.
    pub(crate) end: u64,
    pub(crate) isa: Isa,
    pub(crate) ending: Ending,
    /// The last instruction; without meaning in a block without instructions.
    pub(crate) last: Decoded,
    pub(crate) instructions: u32,
    /// Index of its first opcode.
    opcodes: u32,
    pub(crate) mode: Mode,
    /// The node that the walker assigned, or zero.
    node: u32,
    /// The block after an E atom; `LOST` if not known yet.
    taken: BlockId,
    /// The block after an N atom.
    not_taken: BlockId,
}

impl Block {
    /// Is this outcome possible? In T32 the start of the block may be in an IT block that was not traced.
    pub(crate) fn can_be(&self, taken: bool) -> bool {
        taken || self.last.conditional || self.isa == Isa::T32 && self.instructions <= 4
    }

    /// Was the last instruction taken, if execution continued at `next`? `None`: it cannot lead there.
    pub(crate) fn outcome(&self, next: u64) -> Option<bool> {
        let falls_through = next == self.end;
        let branches = match self.last.flow {
            ControlFlow::Indirect | ControlFlow::ExceptionReturn => true,
            ControlFlow::Direct => self.last.target.is_some_and(|target| target.address == next),
            _ => falls_through,
        };
        let may_fail = self.last.conditional && self.last.flow.is_branch();
        match (branches, falls_through && may_fail) {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        }
    }

    /// The address of the last instruction.
    pub(crate) fn last_address(&self) -> u64 {
        self.end.wrapping_sub(u64::from(self.last.length))
    }

    /// The target of the last instruction; `None`: only the trace has it.
    pub(crate) fn leads_to(&self, taken: bool) -> Option<Target> {
        match self.last.flow {
            ControlFlow::Indirect | ControlFlow::ExceptionReturn if taken => None,
            ControlFlow::Direct if taken => self.last.target,
            _ => Some(self.return_target()),
        }
    }

    /// The first instruction.
    pub(crate) fn entry(&self) -> Target {
        Target { address: self.start, isa: self.isa }
    }

    /// The address after the last instruction, where a function that it calls returns to.
    pub(crate) fn return_target(&self) -> Target {
        Target { address: self.end, isa: self.isa }
    }
}

const _: () = assert!(size_of::<Block>() == 64);

/// A space and an instruction set: one address is one block in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode(u16);

#[derive(Debug)]
struct World {
    space: Space,
    isa: Isa,
    /// Nodes of addresses that the trace contained. The lowest bit of each is set, so that none is zero.
    targets: Table,
}

/// An entry of the hash table of blocks.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Zero: a free slot.
    id: BlockId,
    /// A part of the hash.
    tag: u32,
}

/// All blocks that were executed so far.
#[derive(Debug)]
pub(crate) struct Graph {
    rules: FlowRules,
    worlds: Vec<World>,
    /// The modes of the worlds.
    modes: HashMap<(Space, Isa), Mode>,
    blocks: Vec<Block>,
    /// A hash table of blocks by world and start, at most half full.
    slots: Vec<Slot>,
    opcodes: Vec<u32>,
    /// Long blocks by world and start. A block that starts within one ends with it.
    long: BTreeMap<(u16, u64), BlockId>,
    /// Random seed of the hash, so that a trace cannot be constructed to collide.
    secret: u64,
    scratch_opcodes: Vec<u32>,
}

impl Graph {
    pub(crate) fn new(rules: FlowRules) -> Self {
        // Unused capacity costs nothing; moving blocks while the graph grows does.
        let mut blocks = Vec::with_capacity(1 << 16);
        blocks.resize(FIRST as usize, EMPTY);
        let opcodes = Vec::with_capacity(1 << 18);
        let secret = RandomState::new().build_hasher().finish() | 1;
        Self {
            rules,
            worlds: Vec::new(),
            modes: HashMap::new(),
            blocks,
            slots: vec![Slot::default(); 1 << 16],
            opcodes,
            long: BTreeMap::new(),
            secret,
            scratch_opcodes: Vec::new(),
        }
    }

    /// Has the graph reached its limit?
    pub(crate) fn is_full(&self) -> bool {
        // A block has a slot and perhaps a node too.
        let blocks = self.blocks.len() * (size_of::<Block>() + 32);
        let worlds = self.worlds.len() * WORLD_BYTES;
        self.opcodes.len() * size_of::<u32>() + blocks + worlds > MAX_BYTES
    }

    pub(crate) fn mode(&mut self, space: Space, isa: Isa) -> Mode {
        *self.modes.entry((space, isa)).or_insert_with(|| {
            self.worlds.push(World { space, isa, targets: Table::new() });
            // A full graph is cleared long before.
            Mode((self.worlds.len() - 1) as u16)
        })
    }

    pub(crate) fn space(&self, mode: Mode) -> Space {
        self.worlds[usize::from(mode.0)].space
    }

    /// Is the last instruction of the block a P0 instruction at this address?
    pub(crate) fn ends_at(&self, id: BlockId, address: u64) -> bool {
        let block = self.block(id);
        self.ends_in_p0(id) && block.last_address() == address
    }

    /// Is the last instruction of the block a P0 instruction?
    pub(crate) fn ends_in_p0(&self, id: BlockId) -> bool {
        let block = self.block(id);
        self.opcodes(id).last().is_some_and(|&last| is_p0(self.rules, block.isa, last, block.last.flow))
    }

    /// Does trace have the outcome of the last instruction of a range?
    pub(crate) fn has_outcome(&self, block: &Block) -> bool {
        let flow = block.last.flow;
        let is_barrier = flow == ControlFlow::DataBarrier && self.rules.barrier_waypoints;
        flow.is_p0() || is_barrier || flow.is_thumb_ee() && self.rules.waypoints
    }

    /// Is there a P0 instruction before the last one?
    pub(crate) fn branches_before_end(&self, id: BlockId) -> bool {
        let isa = self.block(id).isa;
        self.before_end(id).any(|(opcode, decoded)| is_p0(self.rules, isa, opcode, decoded.flow))
    }

    /// Is there an unconditional branch before the last instruction? In T32 an IT block may make any conditional.
    pub(crate) fn passes_unconditional_branch(&self, id: BlockId) -> bool {
        self.block(id).isa != Isa::T32 && self.before_end(id).any(|(_, facts)| is_unconditional_branch(&facts))
    }

    /// Is the last instruction an unconditional branch?
    pub(crate) fn ends_in_unconditional_branch(&self, id: BlockId) -> bool {
        let block = self.block(id);
        block.isa != Isa::T32 && is_unconditional_branch(&block.last)
    }

    fn before_end(&self, id: BlockId) -> impl Iterator<Item = (u32, Decoded)> {
        let isa = self.block(id).isa;
        let before = self.opcodes(id).split_last().map_or(&[][..], |(_, before)| before);
        before.iter().map(move |&opcode| (opcode, decode(isa, 0, opcode)))
    }

    #[inline(always)]
    pub(crate) fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    /// The node that the walker assigned to a block.
    pub(crate) fn node_of(&mut self, id: BlockId) -> &mut u32 {
        &mut self.blocks[id as usize].node
    }

    pub(crate) fn opcodes(&self, id: BlockId) -> &[u32] {
        self.opcodes_of(self.block(id), id == SCRATCH)
    }

    /// The opcodes of a block, which may be the scratch block.
    #[inline(always)]
    pub(crate) fn opcodes_of(&self, block: &Block, is_scratch: bool) -> &[u32] {
        let all = if is_scratch { &self.scratch_opcodes } else { &self.opcodes };
        &all[block.opcodes as usize..][..block.instructions as usize]
    }

    /// The node of an address that the trace contained before.
    #[inline(always)]
    pub(crate) fn target_node(&self, mode: Mode, address: u64) -> Option<u32> {
        self.worlds[usize::from(mode.0)].targets.find(address | 1).map(|node| node as u32)
    }

    /// Stores the node of an address that the trace contained.
    pub(crate) fn set_target_node(&mut self, mode: Mode, address: u64, node: u32) {
        let targets = &mut self.worlds[usize::from(mode.0)].targets;
        if targets.find(address | 1).is_none() {
            targets.insert(address | 1, u64::from(node));
        }
    }

    /// Multiplicative hash: the golden ratio spreads adjacent addresses.
    fn hash(&self, mode: Mode, address: u64) -> u64 {
        let mixed = (address ^ u64::from(mode.0) << 48).wrapping_mul(self.secret);
        (mixed ^ mixed >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The slot of a block, or the free slot where it belongs.
    fn slot(&self, mode: Mode, address: u64) -> usize {
        let mask = self.slots.len() - 1;
        let hash = self.hash(mode, address);
        let mut slot = (hash >> 32) as usize & mask;
        loop {
            let Slot { id, tag } = self.slots[slot];
            // The tag rejects most others without a read of the block.
            let is_same = || self.block(id).start == address && self.block(id).mode == mode;
            if id == 0 || tag == hash as u32 && is_same() {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn add(&mut self, block: Block) -> BlockId {
        let id = self.blocks.len() as BlockId;
        if self.blocks.len() * 2 > self.slots.len() {
            self.slots = vec![Slot::default(); self.slots.len() * 4];
            (FIRST..id).for_each(|id| self.put(id, self.block(id).mode, self.block(id).start));
        }
        self.put(id, block.mode, block.start);
        self.blocks.push(block);
        id
    }

    fn put(&mut self, id: BlockId, mode: Mode, address: u64) {
        let slot = self.slot(mode, address);
        self.slots[slot] = Slot { id, tag: self.hash(mode, address) as u32 };
    }

    /// The block at an address. `NO_CODE`: its code is unknown.
    pub(crate) fn enter(&mut self, memory: &impl CodeMemory, mode: Mode, address: u64) -> BlockId {
        let address = within(self.worlds[usize::from(mode.0)].isa, address);
        match self.slots[self.slot(mode, address)].id {
            0 => self.discover(memory, mode, address),
            known => known,
        }
    }

    /// The block after an atom at the end of a block.
    #[inline]
    pub(crate) fn follow(&mut self, memory: &impl CodeMemory, id: BlockId, taken: bool) -> BlockId {
        let block = self.block(id);
        match if taken { block.taken } else { block.not_taken } {
            LOST => self.connect(memory, id, taken),
            next => next,
        }
    }

    fn connect(&mut self, memory: &impl CodeMemory, id: BlockId, taken: bool) -> BlockId {
        let block = self.block(id);
        let next = match block.leads_to(taken) {
            None => NEEDS_ADDRESS,
            Some(Target { address, isa }) => {
                let mode = if isa == block.isa { block.mode } else { self.mode(self.space(block.mode), isa) };
                self.enter(memory, mode, address)
            }
        };
        if next != NO_CODE && id != SCRATCH {
            let block = &mut self.blocks[id as usize];
            *(if taken { &mut block.taken } else { &mut block.not_taken }) = next;
        }
        next
    }

    fn discover(&mut self, memory: &impl CodeMemory, mode: Mode, address: u64) -> BlockId {
        if let Some(block) = self.end_of_long(mode, address) {
            return self.add(block);
        }
        if let Some((opcode, last)) = self.half_of_call(memory, mode, address) {
            return self.add_half(opcode, last, mode, address);
        }
        let world = &self.worlds[usize::from(mode.0)];
        let mut code = Code::new(memory, world.space, world.isa, address);
        let first = self.opcodes.len();
        let (opcodes, rules, isa) = (&mut self.opcodes, self.rules, world.isa);
        if !transfers_are_p0(rules) {
            code.push_fall_through(opcodes);
        }
        let farthest = if rules.waypoints { FARTHEST_WAYPOINT } else { u64::MAX };
        let (last, known) = code.decode_while(|next, opcode, flow| {
            opcodes.push(opcode);
            !is_p0(rules, isa, opcode, flow)
                && opcodes.len() - first < LONGEST
                && next.wrapping_sub(address) <= farthest
        });
        if opcodes.len() == first {
            return NO_CODE;
        }
        let ends = opcodes.last().is_some_and(|&opcode| is_p0(rules, isa, opcode, last.flow));
        let ending = match known {
            false => Ending::NoCode,
            true if ends => Ending::P0,
            true => Ending::TooLong,
        };
        let block = Block {
            start: address,
            end: code.address,
            isa: world.isa,
            ending,
            last,
            instructions: (self.opcodes.len() - first) as u32,
            opcodes: first as u32,
            mode,
            ..EMPTY
        };
        let is_long = block.instructions as usize >= LONG && block.isa != Isa::T32;
        let id = self.add(block);
        if is_long {
            self.long.insert((mode.0, address), id);
        }
        id
    }

    /// The halfword at this address, if it is one of a T32 call whose halfwords are instructions of their own.
    fn half_of_call(&self, memory: &impl CodeMemory, mode: Mode, address: u64) -> Option<(u32, Decoded)> {
        let &World { space, isa, .. } = &self.worlds[usize::from(mode.0)];
        if !self.rules.two_atoms_per_t32_call || isa != Isa::T32 {
            return None;
        }
        let half = |address: u64| {
            let mut buffer = [0; 2];
            let bytes = memory.read(within(isa, address), space, &mut buffer);
            bytes.first_chunk().map(|&bytes| u32::from(u16::from_le_bytes(bytes)))
        };
        let is_first = |half: u32| half >> 11 == 0b11110;
        let is_second = |half: u32| matches!(half >> 11, 0b11101 | 0b11111);
        let here = half(address)?;
        if is_first(here) {
            return half(address.wrapping_add(2)).filter(|&next| is_second(next)).map(|_| (here, NARROW));
        }
        let first_address = within(isa, address.wrapping_sub(2));
        let first = half(first_address).filter(|&first| is_first(first) && is_second(here))?;
        Some((here, Decoded { length: 2, ..decode(isa, first_address, first << 16 | here) }))
    }

    fn add_half(&mut self, opcode: u32, last: Decoded, mode: Mode, address: u64) -> BlockId {
        let isa = Isa::T32;
        let (end, opcodes) = (within(isa, address.wrapping_add(2)), self.opcodes.len() as u32);
        self.opcodes.push(opcode);
        self.add(Block { start: address, end, isa, ending: Ending::P0, last, instructions: 1, opcodes, mode, ..EMPTY })
    }

    /// The rest of a long block from this address on. Not in T32, where instruction boundaries depend on the start.
    fn end_of_long(&self, mode: Mode, address: u64) -> Option<Block> {
        let (&(world, start), &id) = self.long.range(..=(mode.0, address)).next_back()?;
        let block = self.block(id);
        let passed = address.wrapping_sub(start);
        let instructions = u64::from(block.instructions).checked_sub(passed / 4).filter(|&left| left > 0)?;
        if world != mode.0 || !passed.is_multiple_of(4) || block.ending == Ending::TooLong {
            return None;
        }
        Some(Block {
            start: address,
            instructions: instructions as u32,
            opcodes: block.opcodes + (passed / 4) as u32,
            node: 0,
            taken: LOST,
            not_taken: LOST,
            ..block.clone()
        })
    }

    /// Fills the scratch block with the instructions from `start` on, while `continues` accepts the next address. Returns
    /// how the block ended, if not by that.
    pub(crate) fn fill_scratch(
        &mut self,
        memory: &impl CodeMemory,
        mode: Mode,
        start: u64,
        mut continues: impl FnMut(u64) -> bool,
    ) -> Option<Ending> {
        let world = &self.worlds[usize::from(mode.0)];
        let start = within(world.isa, start);
        let mut code = Code::new(memory, world.space, world.isa, start);
        let opcodes = &mut self.scratch_opcodes;
        opcodes.clear();
        let (last, known) = if continues(start) {
            code.decode_while(|next, opcode, _| {
                opcodes.push(opcode);
                continues(next) && opcodes.len() < LONGEST
            })
        } else {
            (EMPTY.last, true)
        };
        let ending = match known {
            false => Some(Ending::NoCode),
            true => (opcodes.len() == LONGEST && continues(code.address)).then_some(Ending::TooLong),
        };
        self.blocks[SCRATCH as usize] = Block {
            start,
            end: code.address,
            isa: world.isa,
            ending: ending.unwrap_or(Ending::P0),
            last,
            instructions: self.scratch_opcodes.len() as u32,
            mode,
            ..EMPTY
        };
        ending
    }
}

impl Graph {
    /// Ends the scratch block at an address inside its last instruction, if that is one.
    pub(crate) fn end_scratch_at(&mut self, end: u64) {
        let block = &mut self.blocks[SCRATCH as usize];
        let beyond = within(block.isa, block.end.wrapping_sub(end));
        if (1..u64::from(block.last.length)).contains(&beyond) {
            block.end = end;
        }
    }
}

fn is_unconditional_branch(facts: &Decoded) -> bool {
    facts.flow.is_branch() && !facts.conditional
}

/// An instruction of two bytes that does not branch.
const NARROW: Decoded = Decoded { length: 2, ..Decoded::FALL_THROUGH };

/// A block without instructions.
const EMPTY: Block = Block {
    start: 0,
    end: 0,
    isa: Isa::A64,
    ending: Ending::NoCode,
    last: Decoded { length: 0, ..Decoded::FALL_THROUGH },
    instructions: 0,
    opcodes: 0,
    mode: Mode(0),
    node: 0,
    taken: LOST,
    not_taken: LOST,
};
