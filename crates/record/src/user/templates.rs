//! Templates: blocks that do what they did before, found in the stream many at a time.
//!
//! words of a chunk, templates of blocks ─▶ **template trace**: executions and addresses
//!
//! Nearly all executions are of this kind. The rest (the first execution of a block, a fault, a system call, a signal, an
//! access of another kind) ends the trace, and comes as steps. The loop that finds executions branches as little as possible
//! on what the program does: a branch that is hard to predict in the program would be hard to predict here too.

use std::ops::Range;

use unspool_isa::{ControlFlow, Decoded};
use unspool_model::{BlockExecution, Direction, Template, TemplateAccess, TemplateTrace};
use unspool_wire::{ADDRESS_BITS, Access, Word, block_of};

use super::block::Block;

/// Templates, and the executions that were found last.
#[derive(Debug, Default)]
pub(super) struct Templates {
    /// By the numbers of blocks.
    known: Vec<Known>,
    /// The accesses of all blocks, as the emulator reports them.
    parts: Vec<AccessPart>,
    templates: Vec<Template>,
    /// The first `found` are valid.
    executions: Vec<BlockExecution>,
    found: usize,
    /// The first `count` are those of the executions.
    addresses: Vec<u64>,
    count: usize,
    instructions: u64,
    /// Number of instructions of the longest template.
    longest: u64,
}

/// Maximum number of words that are searched at a time.
const MAX_WORDS: usize = 1 << 15;

/// Addresses of that many words, and of those that are stored and not counted.
type Addresses = [u64; MAX_WORDS + FEW];

/// Accesses that are compared at once.
const FEW: usize = 2;

/// Masks for the kinds of 0 to 7 accesses.
const KINDS: [[u64; FEW]; 8] = {
    let mut bits = [[0; FEW]; 8];
    let mut at = 0;
    while at < 8 * FEW {
        if at % FEW < at / FEW {
            bits[at / FEW][at % FEW] = !ADDRESS_BITS;
        }
        at += 1;
    }
    bits
};

/// A block, and its template if it always does the same.
#[derive(Debug, Clone, Copy)]
struct Known {
    start: u64,
    /// Address after it if no branch is taken, and if one is taken; [`NO_TARGET`]: there is none.
    end: u64,
    target: u64,
    template: u32,
    /// Its parts of accesses: the index of the first, and their number.
    first: u32,
    count: u16,
    instructions: u16,
    /// Whether it continues at any address.
    is_indirect: bool,
    /// Whether it has at most [`FEW`] accesses, each of one part.
    is_plain: bool,
    /// Their words without the addresses.
    kinds: [u64; FEW],
}

/// An address without an instruction: the start of a block whose code was not sent or is damaged. No other start has this
/// bit.
const NO_START: u64 = 1;

/// An address where no block starts: the target of a block that does not branch.
const NO_TARGET: u64 = 3;

/// Whether an instruction can be at an address. A damaged stream may contain any.
fn is_aligned(address: &u64) -> bool {
    address.is_multiple_of(2)
}

/// The template of a block that was not executed from start to end yet, and of one that never gets one.
const NOT_YET: u32 = u32::MAX;
const NEVER: u32 = u32::MAX - 1;

/// A part of an access: the emulator reports long ones in several.
#[derive(Debug, Clone, Copy)]
struct AccessPart {
    /// Its word without the address.
    kind: u64,
    /// The distance from the part before; with an empty mask it is the first part of its access.
    step: u64,
    mask: u64,
    /// The bytes of its access after the first, if that has more parts.
    span: u64,
}

/// The smallest page: the parts of one access are in the same.
const PAGE_BITS: u32 = 12;

impl Templates {
    /// Adds a block that starts here.
    pub(super) fn add_block(&mut self, id: usize, start: Option<u64>) {
        let start = start.filter(is_aligned).unwrap_or(NO_START);
        let unknown = Known::unknown(NO_START);
        if self.known.len() <= id {
            self.known.resize(id + 1, unknown);
        }
        if let Some(slot) = self.known.get_mut(id) {
            *slot = Known::unknown(start);
        }
    }

    /// Makes the template of a block that was executed from start to end, if it has none.
    #[inline]
    pub(super) fn learn(&mut self, id: usize, block: &Block, accesses: &[Access]) {
        if self.known.get(id).is_some_and(|known| known.template == NOT_YET) {
            self.learn_now(id, block, accesses);
        }
    }

    #[cold]
    fn learn_now(&mut self, id: usize, block: &Block, accesses: &[Access]) {
        let learned = self.learned(block, accesses);
        if let Some(slot) = self.known.get_mut(id) {
            *slot = learned.unwrap_or(Known { template: NEVER, ..*slot });
        }
    }

    fn learned(&mut self, block: &Block, accesses: &[Access]) -> Option<Known> {
        let is_inside = |access: &Access| usize::from(access.index) < block.instructions.len();
        if !accesses.is_sorted_by_key(|access| access.index) || !accesses.last().is_none_or(is_inside) {
            return None;
        }
        let end = end(block)?;
        let start = Some(block.instructions.first()?.address).filter(is_aligned)?;
        let after = if !end.flow.is_branch() || end.conditional { block.end } else { NO_TARGET };
        let target = end.target_address().unwrap_or(NO_TARGET);
        let (accesses, parts) = whole_accesses(accesses)?;
        let known = Known {
            start,
            end: after,
            target,
            template: u32::try_from(self.templates.len()).ok().filter(|number| *number < BlockExecution::MAX_NUMBER)?,
            first: u32::try_from(self.parts.len()).ok()?,
            count: u16::try_from(parts.len()).ok()?,
            instructions: u16::try_from(block.instructions.len()).ok()?,
            is_indirect: end.flow.is_indirect(),
            is_plain: parts.len() <= FEW && parts.len() == accesses.len(),
            kinds: std::array::from_fn(|at| parts.get(at).map_or(0, |part| part.kind)),
        };
        self.longest = self.longest.max(known.instructions.into());
        self.parts.extend(parts);
        self.templates.push(Template { instructions: block.instructions.clone(), accesses, end });
        Some(known)
    }

    /// Drops the template of a block for good.
    pub(super) fn give_up(&mut self, id: usize) {
        if let Some(known) = self.known.get_mut(id) {
            known.template = NEVER;
        }
    }

    /// The words of an execution of this block.
    pub(super) fn words_of(&self, id: usize) -> usize {
        self.known.get(id).map_or(1, |known| 1 + usize::from(known.count))
    }

    /// The number of addresses of the execution at this index.
    pub(super) fn addresses_of(&self, index: usize) -> usize {
        let template = self.executions.get(index).and_then(|execution| self.templates.get(execution.number()));
        template.map_or(0, |template| template.accesses.len() + usize::from(template.end.flow.is_indirect()))
    }

    /// Instructions of the executions that were found last.
    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The executions that were found last, without the first of them, of their addresses and of their instructions.
    pub(super) fn trace(&self, core: u32, executions: usize, addresses: usize, instructions: u64) -> TemplateTrace<'_> {
        TemplateTrace {
            core,
            templates: &self.templates,
            executions: self.executions.get(executions..self.found).unwrap_or_default(),
            addresses: self.addresses.get(addresses..self.count).unwrap_or_default(),
            instructions: self.instructions - instructions,
        }
    }

    /// Finds executions from the first word on, which is a block, with fewer instructions than `wanted`. Returns the number
    /// of their words; a block follows them. These need not be all that could be found.
    pub(super) fn find(&mut self, words: &[Word], wanted: u64) -> usize {
        let limit = usize::try_from(wanted / self.longest.max(1)).unwrap_or(MAX_WORDS).min(MAX_WORDS);
        let words = words.get(..limit).unwrap_or(words);
        self.executions.resize(MAX_WORDS, BlockExecution::new(0, false));
        self.addresses.resize(MAX_WORDS + FEW, 0);
        let Self { known, parts, executions, addresses, .. } = self;
        let (Some(executions), Some(addresses)) = (executions.first_chunk_mut(), addresses.first_chunk_mut()) else {
            return 0;
        };
        let (passed, found, count, instructions) = find(known, parts, words, executions, addresses);
        (self.found, self.count, self.instructions) = (found, count, instructions);
        passed
    }
}

/// Finds executions from the first word on: the numbers of words, executions, addresses and instructions. Few values are
/// live at a time, so that most of them stay in registers.
#[inline(never)]
fn find(
    known: &[Known],
    parts: &[AccessPart],
    words: &[Word],
    executions: &mut [BlockExecution; MAX_WORDS],
    addresses: &mut Addresses,
) -> (usize, usize, usize, u64) {
    let (mut found, mut count, mut instructions) = (0, 0, 0);
    let mut rest = words;
    let mut block = rest.first().and_then(|word| block_in(known, word));
    while let Some(this) = block.filter(|block| block.template < NEVER) {
        let Some((now, later)) = rest.split_at_checked(1 + usize::from(this.count)) else { break };
        let Some(next) = later.first().and_then(|word| block_in(known, word)) else { break };
        let (odd, used) = match rest.first_chunk() {
            Some(few) if this.is_plain => compare_few(this, few, addresses, count),
            _ => compare(this, parts, now, addresses, count),
        };
        if odd | this.missed_by(next) != 0 {
            break;
        }
        addresses[used % MAX_WORDS] = next.start;
        executions[found % MAX_WORDS] = BlockExecution::new(this.template, next.start != this.end);
        (found, count) = (found + 1, used + usize::from(this.is_indirect));
        instructions += u64::from(this.instructions);
        (rest, block) = (later, Some(next));
    }
    (words.len() - rest.len(), found, count, instructions)
}

/// The block in a word, if its code was sent.
#[inline(always)]
fn block_in<'k>(known: &'k [Known], word: &Word) -> Option<&'k Known> {
    known.get(block_of(word)?)
}

/// Stores the addresses of a block after the first `count`, and compares its accesses: returns zero if they are of the same
/// kinds as before, and the new number of addresses. Always compares [`FEW`] accesses of one part: faster than counting.
#[inline(always)]
fn compare_few(block: &Known, words: &[Word; 1 + FEW], addresses: &mut Addresses, count: usize) -> (u64, usize) {
    let at = count % MAX_WORDS;
    let [_, words @ ..] = words.map(u64::from_le_bytes);
    addresses[at..at + FEW].iter_mut().zip(words).for_each(|(address, word)| *address = word & ADDRESS_BITS);
    let accesses = usize::from(block.count);
    let kinds = words.iter().zip(&block.kinds).zip(&KINDS[accesses % KINDS.len()]);
    (kinds.fold(0, |odd, ((word, kind), bits)| odd | (word ^ kind) & bits), count + accesses)
}

/// The same for any accesses. The first word is that of the block.
#[inline(never)]
fn compare(
    block: &Known,
    parts: &[AccessPart],
    words: &[Word],
    addresses: &mut Addresses,
    mut count: usize,
) -> (u64, usize) {
    let (mut odd, mut before) = (0, 0_u64);
    for (word, part) in words.iter().skip(1).zip(parts.get(block.parts()).unwrap_or_default()) {
        let word = u64::from_le_bytes(*word);
        let address = word & ADDRESS_BITS;
        odd |= word & !ADDRESS_BITS ^ part.kind;
        odd |= (address ^ before.wrapping_add(part.step)) & part.mask;
        odd |= ((address & ((1 << PAGE_BITS) - 1)) + part.span) >> PAGE_BITS;
        addresses[count % MAX_WORDS] = address;
        count += usize::from(part.mask == 0);
        before = address;
    }
    (odd, count)
}

impl Known {
    /// Its parts of accesses among all.
    #[inline(always)]
    fn parts(&self) -> Range<usize> {
        self.first as usize..self.first as usize + usize::from(self.count)
    }

    /// Zero if the block can continue with this one. Both ways are computed: which one it took is hard to predict.
    #[inline(always)]
    fn missed_by(&self, next: &Self) -> u64 {
        let missed = (next.start ^ self.end).min(next.start ^ self.target);
        let certain = u64::from(self.is_indirect).wrapping_sub(1);
        missed & certain | next.start & NO_START
    }

    fn unknown(start: u64) -> Self {
        Self {
            start,
            end: NO_TARGET,
            target: NO_TARGET,
            template: NOT_YET,
            first: 0,
            count: 0,
            instructions: 0,
            is_indirect: false,
            is_plain: false,
            kinds: [0; FEW],
        }
    }
}

/// The end of a template; `None`: the block does not always do the same.
fn end(block: &Block) -> Option<Decoded> {
    use ControlFlow::{Breakpoint, ExceptionReturn, Halt, Indirect, SupervisorCall, Undefined};
    if !block.atomics.is_empty() {
        return None;
    }
    match block.last.flow {
        SupervisorCall | Breakpoint | Halt | Undefined => None,
        Indirect | ExceptionReturn if block.last.conditional => None,
        _ => Some(block.last),
    }
}

/// Accesses, one per instruction, and the parts that the emulator reports them in.
fn whole_accesses(reported: &[Access]) -> Option<(Vec<TemplateAccess>, Vec<AccessPart>)> {
    let (mut accesses, mut parts): (Vec<TemplateAccess>, Vec<AccessPart>) = (Vec::new(), Vec::new());
    let mut before: Option<&Access> = None;
    // The index of the first part of the access.
    let mut start = 0;
    for part in reported {
        let kind = part.word_without_address()?;
        let direction = if part.is_write { Direction::Write } else { Direction::Read };
        let is_more = before.is_some_and(|before| {
            let is_next = part.address == before.address.wrapping_add(before.size.into());
            is_next && (part.index, part.is_write) == (before.index, before.is_write)
        });
        if !is_more && before.is_some_and(|before| before.index == part.index) {
            return None;
        }
        match (accesses.last_mut().filter(|_| is_more), before) {
            (Some(access), Some(before)) => {
                access.size = access.size.checked_add(part.size)?;
                parts.push(AccessPart { kind, step: before.size.into(), mask: u64::MAX, span: 0 });
                parts.get_mut(start)?.span = u64::from(access.size) - 1;
            }
            _ => {
                start = parts.len();
                accesses.push(TemplateAccess { index: part.index, size: part.size, direction });
                parts.push(AccessPart { kind, step: 0, mask: 0, span: 0 });
            }
        }
        before = Some(part);
    }
    let is_in_page =
        |first: &AccessPart, part: &Access| ((part.address & ((1 << PAGE_BITS) - 1)) + first.span) >> PAGE_BITS == 0;
    let is_in_pages = parts.iter().zip(reported).all(|(first, part)| is_in_page(first, part));
    is_in_pages.then_some((accesses, parts))
}
