//! Blocks that do what they did before, found in the stream at once.
//!
//! words of a chunk, what is known of blocks ─▶ **runs**: which block, was it left by its branch, and addresses
//!
//! Nearly all that a program does is such. What is not (the first time of a block, a fault, a call, a signal, an access
//! of another kind) ends a run, and goes the long way. Here nothing is decided by what the program decides, as far as
//! that can be had: a branch that the program has mispredicted would be mispredicted here too.

use std::ops::Range;

use unspool_isa::{ControlFlow, Decoded};
use unspool_model::{Direction, Pass, Run, Stretch, StretchAccess};

use super::super::stream::{ADDRESS, Touch, Word, block_of};
use super::block::Block;

/// What was learned of blocks, and the run that was found last.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// By the numbers of blocks.
    known: Vec<Known>,
    /// The accesses of all blocks, in pieces.
    pieces: Vec<Piece>,
    stretches: Vec<Stretch>,
    /// As many as `found` are of the run.
    passes: Vec<Pass>,
    found: usize,
    /// As many as `count` are those of the passes.
    addresses: Vec<u64>,
    count: usize,
    /// Instructions of the passes.
    instructions: u64,
    /// No block that was learned has more instructions.
    longest: u64,
}

/// So many words are looked at at a time.
const MOST_WORDS: usize = 1 << 15;

/// Room for as many addresses, and some more that are none.
type Addresses = [u64; MOST_WORDS + FEW];

/// So many accesses are looked at at once.
const FEW: usize = 2;

/// The bits that tell the kinds of so many accesses.
const KINDS: [[u64; FEW]; 8] = {
    let mut bits = [[0; FEW]; 8];
    let mut place = 0;
    while place < 8 * FEW {
        if place % FEW < place / FEW {
            bits[place / FEW][place % FEW] = !ADDRESS;
        }
        place += 1;
    }
    bits
};

/// A block. One that does not always do the same has no stretch.
#[derive(Debug, Clone, Copy)]
struct Known {
    start: u64,
    /// Where it goes on if no branch is taken, and if one is; [`NEVERWHERE`]: it does not.
    behind: u64,
    target: u64,
    stretch: u32,
    /// Its pieces.
    first: u32,
    count: u16,
    instructions: u16,
    /// It goes on anywhere.
    is_indirect: bool,
    /// It has at most [`FEW`] accesses, and each is of one piece.
    is_plain: bool,
    /// What the words of these have but for the address.
    kinds: [u64; FEW],
}

/// Where no instruction is: a block that starts there was not told, or is not what it should be. No other has this bit.
const NOWHERE: u64 = 1;

/// Where no block starts: where one goes that does not go there.
const NEVERWHERE: u64 = 3;

/// Can an instruction be there? A stream that is damaged may say anything.
fn is_place(address: &u64) -> bool {
    address.is_multiple_of(2)
}

/// The stretch of a block that was not executed from its start to its end, and of one that is never told at once.
const NOT_YET: u32 = u32::MAX;
const NEVER: u32 = u32::MAX - 1;

/// A piece of an access.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// What its word has but for the address.
    kind: u64,
    /// The bytes from the piece before; with no bit of the mask it is the first one of its access.
    step: u64,
    mask: u64,
    /// The bytes behind the first byte of its access, if that has more pieces.
    span: u64,
}

/// The smallest page: pieces of one access do not go on from one to the next.
const PAGE_BITS: u32 = 12;

impl Runs {
    /// A block starts here.
    pub(super) fn tell(&mut self, id: usize, start: Option<u64>) {
        let start = start.filter(is_place).unwrap_or(NOWHERE);
        let unknown = Known::unknown(NOWHERE);
        if self.known.len() <= id {
            self.known.resize(id + 1, unknown);
        }
        if let Some(place) = self.known.get_mut(id) {
            *place = Known::unknown(start);
        }
    }

    /// The block was executed from its start to its end: that is what it will do.
    #[inline]
    pub(super) fn learn(&mut self, id: usize, block: &Block, touches: &[Touch]) {
        if self.known.get(id).is_some_and(|known| known.stretch == NOT_YET) {
            self.learn_now(id, block, touches);
        }
    }

    #[cold]
    fn learn_now(&mut self, id: usize, block: &Block, touches: &[Touch]) {
        let learned = self.learned(block, touches);
        if let Some(place) = self.known.get_mut(id) {
            *place = learned.unwrap_or(Known { stretch: NEVER, ..*place });
        }
    }

    fn learned(&mut self, block: &Block, touches: &[Touch]) -> Option<Known> {
        let is_inside = |touch: &Touch| usize::from(touch.index) < block.instructions.len();
        if !touches.is_sorted_by_key(|touch| touch.index) || !touches.last().is_none_or(is_inside) {
            return None;
        }
        let end = end(block)?;
        let start = Some(block.instructions.first()?.address).filter(is_place)?;
        let behind = if !end.flow.is_branch() || end.conditional { block.behind } else { NEVERWHERE };
        let target = end.target_address().unwrap_or(NEVERWHERE);
        let (accesses, pieces) = pieces(touches)?;
        let known = Known {
            start,
            behind,
            target,
            stretch: u32::try_from(self.stretches.len()).ok().filter(|number| *number < Pass::MOST)?,
            first: u32::try_from(self.pieces.len()).ok()?,
            count: u16::try_from(pieces.len()).ok()?,
            instructions: u16::try_from(block.instructions.len()).ok()?,
            is_indirect: end.flow.is_indirect(),
            is_plain: pieces.len() <= FEW && pieces.len() == accesses.len(),
            kinds: std::array::from_fn(|at| pieces.get(at).map_or(0, |piece| piece.kind)),
        };
        self.longest = self.longest.max(known.instructions.into());
        self.pieces.extend(pieces);
        self.stretches.push(Stretch { instructions: block.instructions.clone(), accesses, end });
        Some(known)
    }

    /// The block is never told at once.
    pub(super) fn give_up(&mut self, id: usize) {
        if let Some(known) = self.known.get_mut(id) {
            known.stretch = NEVER;
        }
    }

    /// The words of this block, if it did what it always does.
    pub(super) fn words_of(&self, id: usize) -> usize {
        self.known.get(id).map_or(1, |known| 1 + usize::from(known.count))
    }

    /// How many addresses a pass of the run has.
    pub(super) fn addresses_of(&self, pass: usize) -> usize {
        let stretch = self.passes.get(pass).and_then(|pass| self.stretches.get(pass.number()));
        stretch.map_or(0, |stretch| stretch.accesses.len() + usize::from(stretch.end.flow.is_indirect()))
    }

    /// Instructions of the run.
    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The run that was found last, without so many passes, and without so many of its addresses and instructions.
    pub(super) fn run(&self, passes: usize, addresses: usize, instructions: u64) -> Run<'_> {
        Run {
            stretches: &self.stretches,
            passes: self.passes.get(passes..self.found).unwrap_or_default(),
            addresses: self.addresses.get(addresses..self.count).unwrap_or_default(),
            instructions: self.instructions - instructions,
        }
    }

    /// Finds the run that starts with the first word, which is a block, and has fewer instructions than `wanted`. How many
    /// words it has; behind them is a block again. It need not be all that could be found.
    pub(super) fn find(&mut self, words: &[Word], wanted: u64) -> usize {
        let most = usize::try_from(wanted / self.longest.max(1)).unwrap_or(MOST_WORDS).min(MOST_WORDS);
        let words = words.get(..most).unwrap_or(words);
        self.passes.resize(MOST_WORDS, Pass::new(0, false));
        self.addresses.resize(MOST_WORDS + FEW, 0);
        let Self { known, pieces, passes, addresses, .. } = self;
        let (Some(passes), Some(addresses)) = (passes.first_chunk_mut(), addresses.first_chunk_mut()) else { return 0 };
        let (passed, found, count, instructions) = find(known, pieces, words, passes, addresses);
        (self.found, self.count, self.instructions) = (found, count, instructions);
        passed
    }
}

/// Finds the run that starts with the first word: how many words, passes, addresses and instructions it has. Few things are
/// kept in mind, so that registers are enough for most of them.
#[inline(never)]
fn find(
    known: &[Known],
    pieces: &[Piece],
    words: &[Word],
    passes: &mut [Pass; MOST_WORDS],
    addresses: &mut Addresses,
) -> (usize, usize, usize, u64) {
    let (mut found, mut count, mut instructions) = (0, 0, 0);
    let mut rest = words;
    let mut block = rest.first().and_then(|word| block_said(known, word));
    while let Some(this) = block.filter(|block| block.stretch < NEVER) {
        let Some((now, later)) = rest.split_at_checked(1 + usize::from(this.count)) else { break };
        let Some(next) = later.first().and_then(|word| block_said(known, word)) else { break };
        let (odd, used) = match rest.first_chunk() {
            Some(few) if this.is_plain => touch_few(this, few, addresses, count),
            _ => touch(this, pieces, now, addresses, count),
        };
        if odd | this.missed_by(next) != 0 {
            break;
        }
        addresses[used % MOST_WORDS] = next.start;
        passes[found % MOST_WORDS] = Pass::new(this.stretch, next.start != this.behind);
        (found, count) = (found + 1, used + usize::from(this.is_indirect));
        instructions += u64::from(this.instructions);
        (rest, block) = (later, Some(next));
    }
    (words.len() - rest.len(), found, count, instructions)
}

/// The block that the word says, if it says one that was told.
#[inline(always)]
fn block_said<'k>(known: &'k [Known], word: &Word) -> Option<&'k Known> {
    known.get(block_of(word)?)
}

/// Puts the addresses of a block behind the first `count`: no bit is set if its accesses are as they were, and how many
/// addresses there are then. Few are looked at, each of one piece, and always as many: that is faster than to count.
#[inline(always)]
fn touch_few(block: &Known, words: &[Word; 1 + FEW], addresses: &mut Addresses, count: usize) -> (u64, usize) {
    let place = count % MOST_WORDS;
    let [_, words @ ..] = words.map(u64::from_le_bytes);
    addresses[place..place + FEW].iter_mut().zip(words).for_each(|(address, word)| *address = word & ADDRESS);
    let touches = usize::from(block.count);
    let kinds = words.iter().zip(&block.kinds).zip(&KINDS[touches % KINDS.len()]);
    (kinds.fold(0, |odd, ((word, kind), bits)| odd | (word ^ kind) & bits), count + touches)
}

/// The same for any accesses. The first word is that of the block.
#[inline(never)]
fn touch(block: &Known, pieces: &[Piece], words: &[Word], addresses: &mut Addresses, mut count: usize) -> (u64, usize) {
    let (mut odd, mut before) = (0, 0_u64);
    for (word, piece) in words.iter().skip(1).zip(pieces.get(block.pieces()).unwrap_or_default()) {
        let word = u64::from_le_bytes(*word);
        let address = word & ADDRESS;
        odd |= word & !ADDRESS ^ piece.kind;
        odd |= (address ^ before.wrapping_add(piece.step)) & piece.mask;
        odd |= ((address & ((1 << PAGE_BITS) - 1)) + piece.span) >> PAGE_BITS;
        addresses[count % MOST_WORDS] = address;
        count += usize::from(piece.mask == 0);
        before = address;
    }
    (odd, count)
}

impl Known {
    /// Its pieces among all pieces.
    #[inline(always)]
    fn pieces(&self) -> Range<usize> {
        self.first as usize..self.first as usize + usize::from(self.count)
    }

    /// No bit is set if it can go on with this block. Not one way by the other: which one it went is anyone's guess.
    #[inline(always)]
    fn missed_by(&self, next: &Self) -> u64 {
        let missed = (next.start ^ self.behind).min(next.start ^ self.target);
        let certain = u64::from(self.is_indirect).wrapping_sub(1);
        missed & certain | next.start & NOWHERE
    }

    fn unknown(start: u64) -> Self {
        Self {
            start,
            behind: NEVERWHERE,
            target: NEVERWHERE,
            stretch: NOT_YET,
            first: 0,
            count: 0,
            instructions: 0,
            is_indirect: false,
            is_plain: false,
            kinds: [0; FEW],
        }
    }
}

/// How a block ends, if it always does the same.
fn end(block: &Block) -> Option<Decoded> {
    use ControlFlow::{Breakpoint, ExceptionReturn, Halt, Indirect, SupervisorCall, Undefined};
    if !block.exclusive.is_empty() || !block.modifying.is_empty() {
        return None;
    }
    match block.last.flow {
        SupervisorCall | Breakpoint | Halt | Undefined => None,
        Indirect | ExceptionReturn if block.last.conditional => None,
        _ => Some(block.last),
    }
}

/// Accesses as they were, one of an instruction, and the pieces that they are told in.
fn pieces(touches: &[Touch]) -> Option<(Vec<StretchAccess>, Vec<Piece>)> {
    let (mut accesses, mut pieces): (Vec<StretchAccess>, Vec<Piece>) = (Vec::new(), Vec::new());
    let mut before: Option<&Touch> = None;
    // Where the first piece of the access is.
    let mut start = 0;
    for touch in touches {
        let kind = touch.kind()?;
        let direction = if touch.is_write { Direction::Write } else { Direction::Read };
        let is_more = before.is_some_and(|before| {
            let is_next = touch.address == before.address.wrapping_add(before.size.into());
            is_next && (touch.index, touch.is_write) == (before.index, before.is_write)
        });
        if !is_more && before.is_some_and(|before| before.index == touch.index) {
            return None;
        }
        match (accesses.last_mut().filter(|_| is_more), before) {
            (Some(access), Some(before)) => {
                access.size = access.size.checked_add(touch.size)?;
                pieces.push(Piece { kind, step: before.size.into(), mask: u64::MAX, span: 0 });
                pieces.get_mut(start)?.span = u64::from(access.size) - 1;
            }
            _ => {
                start = pieces.len();
                accesses.push(StretchAccess { index: touch.index, size: touch.size, direction });
                pieces.push(Piece { kind, step: 0, mask: 0, span: 0 });
            }
        }
        before = Some(touch);
    }
    let ends = |first: &Piece, touch: &Touch| ((touch.address & ((1 << PAGE_BITS) - 1)) + first.span) >> PAGE_BITS == 0;
    let is_in_pages = pieces.iter().zip(touches).all(|(piece, touch)| ends(piece, touch));
    is_in_pages.then_some((accesses, pieces))
}
