//! Comparison of one instruction of two sources, facet by facet.
//!
//! item of A, item of B ─▶ **tallies**, and the differences as text
//!
//! Only values that both report are compared. Sources split accesses differently, so the touched bytes are compared;
//! they use different register names, so only names that both use are compared.

use std::fmt::Write as _;

use unspool_model::{
    Access, Branch, Context, Coverage, Direction, Exception, ExceptionKind, Facet, RegisterWrite, Step,
};

use super::Tally;
use super::side::Item;

pub(super) struct Difference {
    pub(super) facet: Facet,
    pub(super) name: String,
    pub(super) values: [String; 2],
}

/// Comparison of two items, with its counters.
pub(super) struct Comparison<'c> {
    pub(super) tallies: &'c mut [Tally; Facet::ALL.len()],
    pub(super) differences: &'c mut Vec<Difference>,
    /// The contexts when they last differed. They differ for many instructions, which is reported once.
    pub(super) contexts: &'c mut [Context; 2],
    /// Number of instructions that each comparison stands for.
    pub(super) weight: u64,
}

impl Comparison<'_> {
    /// Compares these facets. `is_restart`: the events before are unknown; `is_attempted`: an exception may be due to it.
    pub(super) fn items(&mut self, [a, b]: [&Item; 2], facets: Coverage, is_restart: bool, is_attempted: bool) {
        let (one, other) = (&a.instruction, &b.instruction);
        if facets.has(Facet::Opcodes) {
            self.option(Facet::Opcodes, "", [one.opcode, other.opcode], |opcode| format!("{opcode:08x}"));
        }
        if facets.has(Facet::Conditions) {
            let text = |held: &bool| if *held { "held" } else { "failed" }.to_string();
            self.option(Facet::Conditions, "", [one.is_executed, other.is_executed], text);
        }
        if facets.has(Facet::Branches) {
            self.branches([a, b]);
        }
        if facets.has(Facet::Accesses) && (a.step.accesses().len() > 0 || b.step.accesses().len() > 0) {
            self.accesses([&a.step, &b.step], is_attempted);
        }
        if facets.has(Facet::Data) && a.step.accesses().len() > 0 && b.step.accesses().len() > 0 {
            self.data([&a.step, &b.step]);
        }
        if facets.has(Facet::Registers) {
            self.registers([&a.step, &b.step]);
        }
        if facets.has(Facet::Exceptions) && !is_restart && !(a.exceptions.is_empty() && b.exceptions.is_empty()) {
            self.exceptions([&a.exceptions, &b.exceptions]);
        }
        self.context([&a.context, &b.context], facets);
    }

    fn tally(&mut self, facet: Facet) -> &mut Tally {
        &mut self.tallies[facet as usize]
    }

    fn count(&mut self, facet: Facet, is_equal: bool) {
        let weight = self.weight;
        let tally = self.tally(facet);
        tally.compared += weight;
        tally.different += weight * u64::from(!is_equal);
    }

    /// Counts a comparison, and adds a difference if the values are not equal.
    fn compared(&mut self, facet: Facet, is_equal: bool, name: &str, values: impl FnOnce() -> [String; 2]) {
        self.count(facet, is_equal);
        if !is_equal {
            self.differences.push(Difference { facet, name: name.to_string(), values: values() });
        }
    }

    fn only(&mut self, facet: Facet, has: [bool; 2]) {
        let weight = self.weight;
        let tally = self.tally(facet);
        tally.only[0] += weight * u64::from(has[0] && !has[1]);
        tally.only[1] += weight * u64::from(has[1] && !has[0]);
    }

    fn option<T: PartialEq + Copy>(
        &mut self,
        facet: Facet,
        name: &str,
        values: [Option<T>; 2],
        text: impl Fn(&T) -> String,
    ) {
        match values {
            [Some(one), Some(other)] => self.compared(facet, one == other, name, || [text(&one), text(&other)]),
            [one, other] => self.only(facet, [one.is_some(), other.is_some()]),
        }
    }

    fn branches(&mut self, [a, b]: [&Item; 2]) {
        let (Some(one), Some(other)) = (a.instruction.branch, b.instruction.branch) else {
            return self.only(Facet::Branches, [a, b].map(|item| item.instruction.branch.is_some()));
        };
        let text = |branch: Branch| match (branch.taken, branch.target) {
            (false, _) => "not taken".to_string(),
            (true, None) => "taken".to_string(),
            (true, Some(target)) => format!("to {target:#x}"),
        };
        self.compared(Facet::Branches, is_same_branch(one, other), "", || [one, other].map(text));
    }

    fn accesses(&mut self, steps: [&Step; 2], is_attempted: bool) {
        if has_same_accesses(steps) {
            return self.same_accesses(steps[0]);
        }
        for direction in [Direction::Read, Direction::Write] {
            let [one, other] = steps.map(|step| touched(step, direction));
            if one.is_empty() && other.is_empty() {
                continue;
            }
            // Sources differ in whether they report an access that faulted.
            if is_attempted && (one.is_empty() || other.is_empty()) {
                self.only(Facet::Accesses, [!one.is_empty(), !other.is_empty()]);
                continue;
            }
            let name = if direction == Direction::Read { "reads" } else { "writes" };
            self.compared(Facet::Accesses, one == other, name, || [spans(&one), spans(&other)]);
        }
    }

    /// Counts the accesses of both steps, which are the same: the most frequent case needs no spans.
    fn same_accesses(&mut self, step: &Step) {
        for direction in [Direction::Read, Direction::Write] {
            if step.accesses().any(|access| is_meant(&access, direction)) {
                self.count(Facet::Accesses, true);
            }
        }
    }

    fn data(&mut self, [a, b]: [&Step; 2]) {
        let (mut is_compared, before) = (false, self.differences.len());
        for one in a.accesses().filter(|access| !access.bytes.is_empty()) {
            for other in b.accesses().filter(|other| !other.bytes.is_empty() && other.direction == one.direction) {
                let Some((address, [x, y])) = overlap(&one, &other) else { continue };
                is_compared = true;
                if !agree(x, y) {
                    let (name, values) = (format!("at {address:#x}"), [hex(x, true), hex(y, true)]);
                    self.differences.push(Difference { facet: Facet::Data, name, values });
                }
            }
        }
        let has = [a, b].map(|step| step.accesses().any(|access| !access.bytes.is_empty()));
        match is_compared {
            true => self.count(Facet::Data, self.differences.len() == before),
            false => self.only(Facet::Data, has),
        }
    }

    fn registers(&mut self, [a, b]: [&Step; 2]) {
        // The most frequent cases first.
        if a.registers().len() == 0 && b.registers().len() == 0 {
            return;
        }
        if let (1, 1) = (a.registers().len(), b.registers().len())
            && let Some((one, other)) = a.registers().zip(b.registers()).next()
            && one.name == other.name
            && (one.low, one.bytes.len()) == (other.low, other.bytes.len())
        {
            return self.contents(one.name, one.bytes, other.bytes);
        }
        for (index, one) in a.registers().enumerate() {
            match b.registers().find(|other| other.name == one.name) {
                None => self.tally(Facet::Registers).only[0] += 1,
                Some(_) if a.registers().take(index).any(|before| before.name == one.name) => {}
                Some(other) => self.register([a, b], &one, &other),
            }
        }
        let only = b.registers().filter(|other| a.registers().all(|one| one.name != other.name)).count();
        self.tally(Facet::Registers).only[1] += only as u64;
    }

    /// Compares the register of these writes, which are its first ones.
    fn register(&mut self, steps: [&Step; 2], one: &RegisterWrite<'_>, other: &RegisterWrite<'_>) {
        let is_single = |step: &Step| step.registers().filter(|write| write.name == one.name).count() == 1;
        if one.low == other.low && one.bytes.len() == other.bytes.len() && steps.iter().all(|step| is_single(step)) {
            return self.contents(one.name, one.bytes, other.bytes);
        }
        let [x, y] = steps.map(|step| contents(step, one.name));
        self.contents(one.name, &x, &y);
    }

    fn contents(&mut self, name: &str, x: &[(u8, u8)], y: &[(u8, u8)]) {
        self.compared(Facet::Registers, agree(x, y), name, || [hex(x, false), hex(y, false)]);
    }

    fn exceptions(&mut self, lists: [&[Exception]; 2]) {
        let [one, other] = lists;
        let is_equal = one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other));
        let text = |list: &[Exception]| match list {
            [] => "none".to_string(),
            list => list.iter().map(exception).collect::<Vec<_>>().join(", "),
        };
        self.compared(Facet::Exceptions, is_equal, "before it", || lists.map(text));
    }

    /// Compares contexts. A difference that was reported is counted, and not reported again.
    pub(super) fn context(&mut self, now: [&Context; 2], facets: Coverage) {
        let before = self.differences.len();
        if facets.has(Facet::Levels) {
            self.option(Facet::Levels, "", now.map(|context| context.level), u8::to_string);
        }
        if facets.has(Facet::Security) {
            let text = |security: &unspool_model::Security| format!("{security:?}").to_lowercase();
            self.option(Facet::Security, "", now.map(|context| context.security), text);
        }
        if facets.has(Facet::Processes) {
            self.option(Facet::Processes, "process", now.map(|context| context.process), |id| format!("{id:#x}"));
            self.option(Facet::Processes, "thread", now.map(|context| context.thread), |id| format!("{id:#x}"));
            self.option(Facet::Processes, "vmid", now.map(|context| context.vmid), |id| format!("{id:#x}"));
        }
        if self.differences.len() == before {
            *self.contexts = [Context::default(); 2];
            return;
        }
        let now = now.map(|context| *context);
        if *self.contexts == now {
            self.differences.truncate(before);
        }
        *self.contexts = now;
    }
}

/// Contents of a register after all writes of a step, from bit 0 on.
fn contents(step: &Step, name: &str) -> Vec<(u8, u8)> {
    let mut all: Vec<(u8, u8)> = Vec::new();
    for write in step.registers().filter(|write| write.name == name) {
        let (start, shift) = (usize::from(write.low / 8), write.low % 8);
        let length = all.len().max(start + write.bytes.len() + usize::from(shift > 0));
        all.resize(length, (0, 0));
        for (index, (byte, known)) in write.bytes.iter().enumerate() {
            let [byte, known] = [byte, known].map(|bits| (u16::from(*bits) << shift).to_le_bytes());
            for (merged, (byte, known)) in all[start + index..].iter_mut().zip(byte.into_iter().zip(known)) {
                *merged = (merged.0 & !known | byte & known, merged.1 | known);
            }
        }
    }
    all
}

/// Whether all bits that are known in both are equal.
fn agree(x: &[(u8, u8)], y: &[(u8, u8)]) -> bool {
    x.iter().zip(y).all(|(x, y)| (x.0 ^ y.0) & x.1 & y.1 == 0)
}

/// Bytes as hexadecimal text, with `-` for unknown digits; `in_order`: in memory order, else as a number.
fn hex(bytes: &[(u8, u8)], in_order: bool) -> String {
    let mut text = String::from(if in_order { "" } else { "0x" });
    let mut put = |(byte, known): &(u8, u8)| {
        for shift in [4, 0] {
            let _ = match known >> shift & 0xf {
                0xf => write!(text, "{:x}", byte >> shift & 0xf),
                _ => write!(text, "-"),
            };
        }
    };
    // Long data is truncated.
    match in_order {
        true => bytes.iter().take(64).for_each(&mut put),
        false => bytes.iter().rev().for_each(&mut put),
    }
    text
}

/// Bytes, each with the mask of its known bits.
type Bytes<'s> = &'s [(u8, u8)];

/// The bytes that both accesses have, and their address.
fn overlap<'s>(one: &Access<'s>, other: &Access<'s>) -> Option<(u64, [Bytes<'s>; 2])> {
    let address = one.address.max(other.address);
    let rest = |access: &Access<'s>| access.bytes.get(usize::try_from(address - access.address).ok()?..);
    let (x, y) = (rest(one)?, rest(other)?);
    let length = x.len().min(y.len());
    (length > 0).then(|| (address, [&x[..length], &y[..length]]))
}

/// Whether both branches have the same outcome, as far as both report it.
#[inline]
pub(super) fn is_same_branch(one: Branch, other: Branch) -> bool {
    let is_elsewhere = one.target.zip(other.target).is_some_and(|(one, other)| one != other);
    one.taken == other.taken && !(one.taken && is_elsewhere)
}

/// Whether both steps access the same memory in the same way.
pub(super) fn has_same_accesses([a, b]: [&Step; 2]) -> bool {
    let shape = |access: Access<'_>| (access.direction, access.address, access.size);
    a.accesses().map(shape).eq(b.accesses().map(shape))
}

/// Whether the access touches bytes in this direction.
fn is_meant(access: &Access<'_>, direction: Direction) -> bool {
    (access.direction == direction || access.direction == Direction::Both) && access.size > 0
}

/// The bytes that are read or written, as sorted spans of start and end.
fn touched(step: &Step, direction: Direction) -> Vec<(u64, u64)> {
    let accesses = step.accesses().filter(|access| is_meant(access, direction));
    let mut spans: Vec<(u64, u64)> =
        accesses.map(|access| (access.address, access.address.saturating_add(access.size))).collect();
    spans.sort_unstable();
    spans.dedup_by(|next, span| {
        let joins = next.0 <= span.1;
        if joins {
            span.1 = span.1.max(next.1);
        }
        joins
    });
    spans
}

fn spans(spans: &[(u64, u64)]) -> String {
    match spans {
        [] => "nothing".to_string(),
        spans => {
            let texts: Vec<String> = spans.iter().map(|(from, to)| format!("{from:#x}+{}", to - from)).collect();
            texts.join(", ")
        }
    }
}

fn is_same(one: &Exception, other: &Exception) -> bool {
    let kinds = [one.kind, other.kind];
    let is_kind = kinds.contains(&ExceptionKind::Unknown) || kinds[0] == kinds[1];
    is_kind && one.return_address.zip(other.return_address).is_none_or(|(one, other)| one == other)
}

fn exception(exception: &Exception) -> String {
    let kind = match exception.kind {
        ExceptionKind::Unknown => "exception".to_string(),
        kind => format!("{kind:?}").to_lowercase(),
    };
    exception.return_address.map_or(kind.clone(), |address| format!("{kind} (return to {address:#x})"))
}
