//! Counts of records and instructions.

use crate::lift::Instruction;
use crate::names::EventKind;
use crate::read::Gather;
use crate::record::Record;

/// Counts of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Records after the header.
    pub records: u64,
    /// Opcode records.
    pub opcodes: u64,
    /// Of these, instructions that did not fault.
    pub instructions: u64,
    /// Instructions that faulted. A system call is not a fault.
    pub faults: u64,
    /// Accesses to memory.
    pub accesses: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Records of accesses and of their contents.
    pub memory_records: u64,
    /// Register records.
    pub registers: u64,
    /// Micro-operations.
    pub microops: u64,
    /// Comments after the header.
    pub comments: u64,
    /// Events of all kinds.
    pub events: u64,
    /// Page table walks.
    pub walks: u64,
    /// Accesses by other bus masters.
    pub bus_accesses: u64,
    /// Instructions in user mode, as recorded by an event, that did not fault.
    pub user: u64,
    /// Other instructions that did not fault.
    pub non_user: u64,
    /// Instructions by known mode: user, supervisor, hypervisor, machine.
    pub modes: [u64; 4],
    /// Instructions with a target record.
    pub targets: u64,
    /// Instructions with a forced address.
    pub forced: u64,
}

impl Counts {
    /// Counts an instruction. False: it faulted.
    #[inline]
    pub fn add(&mut self, instruction: &Instruction<'_>) -> bool {
        self.records += u64::from(instruction.records);
        self.opcodes += 1;
        self.targets += u64::from(instruction.target.is_some());
        self.forced += u64::from(instruction.is_forced);
        let mut faulted = false;
        if instruction.records > 1 {
            instruction.group().for_each(|record| faulted |= self.record(&record));
        }
        let mode = instruction.mode.filter(|&mode| mode < 4);
        if let Some(mode) = mode {
            self.modes[mode as usize] += 1;
        }
        if faulted {
            self.faults += 1;
            return false;
        }
        self.instructions += 1;
        let count = if mode == Some(0) { &mut self.user } else { &mut self.non_user };
        *count += 1;
        true
    }

    /// Counts a record after the last instruction.
    pub fn add_trailing(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.record(record);
    }

    /// Counts a record. True: it is a fault.
    fn record(&mut self, record: &Record<'_>) -> bool {
        match record {
            Record::InstMemAccess(access) => {
                self.accesses += 1;
                self.memory_records += 1;
                self.reads += u64::from(access.kind == 1);
                self.writes += u64::from(access.kind == 2);
            }
            Record::InstMemContent(_) => self.memory_records += 1,
            Record::InstReg(_) => self.registers += 1,
            Record::InstMicroop { .. } => self.microops += 1,
            Record::Comment(_) => self.comments += 1,
            Record::PageTableWalk(_) => self.walks += 1,
            Record::BusMasterAccess(_) => self.bus_accesses += 1,
            Record::Event(event) => {
                self.events += 1;
                return EventKind::of(event) == EventKind::Fault;
            }
            _ => {}
        }
        false
    }
}

impl Gather for Counts {
    fn push(&mut self, instruction: &Instruction<'_>) {
        self.add(instruction);
    }

    fn part(&self) -> Self {
        Self::default()
    }

    fn append(&mut self, part: Self) {
        for ((_, count), (_, more)) in self.fields_mut().into_iter().zip(part.fields()) {
            *count += more;
        }
    }
}

impl Counts {
    /// Every count with its key in JSON.
    pub fn fields(mut self) -> [(&'static str, u64); 22] {
        self.fields_mut().map(|(key, count)| (key, *count))
    }

    fn fields_mut(&mut self) -> [(&'static str, &mut u64); 22] {
        let [user, supervisor, hypervisor, machine] = &mut self.modes;
        [
            ("records", &mut self.records),
            ("instructions", &mut self.opcodes),
            ("executed", &mut self.instructions),
            ("faulted", &mut self.faults),
            ("user", &mut self.user),
            ("non_user", &mut self.non_user),
            ("in_user_mode", user),
            ("in_supervisor_mode", supervisor),
            ("in_hypervisor_mode", hypervisor),
            ("in_machine_mode", machine),
            ("targets", &mut self.targets),
            ("forced", &mut self.forced),
            ("accesses", &mut self.accesses),
            ("reads", &mut self.reads),
            ("writes", &mut self.writes),
            ("memory_records", &mut self.memory_records),
            ("registers", &mut self.registers),
            ("events", &mut self.events),
            ("walks", &mut self.walks),
            ("bus_accesses", &mut self.bus_accesses),
            ("microops", &mut self.microops),
            ("comment_records", &mut self.comments),
        ]
    }
}
