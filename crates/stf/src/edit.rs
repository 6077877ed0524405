//! Edited traces: records left out, and changes of the header.
//!
//! records ─▶ **editor** ─▶ records
//!
//! The header names this tool, as that of every changed trace. Features that only the records left out had are cleared. Where the target of an event is left
//! out, the address of the next instruction is forced, so that the instructions stay where they were. Records without which a
//! trace cannot be read are never left out, and features that determine the length of records are never changed.
//! Specification: STF 1.3, "STF File Anatomy": a tool that modifies a file updates its header.

use std::collections::BTreeSet;

use super::builder::Features;
use super::layout::FEATURE_EVENT64;
use super::names;
use super::record::{Record, descriptor};
use super::sign::HeaderRecords;

/// Records that may be left out, others that depend on them, and features that only they have.
const OPTIONAL: [(u8, &[u8], u64); 13] = [
    (descriptor::COMMENT, &[], 0),
    (descriptor::TRACE_INFO, &[], 0),
    (descriptor::PROCESS_ID_EXT, &[], Features::PROCESS_ID.0),
    (descriptor::ISA_EXTENDED, &[], 0),
    (descriptor::INST_REG, &[], Features::OPERAND_VALUE.0 | Features::REG_STATE.0),
    (descriptor::INST_READY_REG, &[], 0),
    (descriptor::PAGE_TABLE_WALK, &[], Features::PTE.0),
    (descriptor::INST_MEM_ACCESS, &[descriptor::INST_MEM_CONTENT], 0),
    (descriptor::INST_MEM_CONTENT, &[], 0),
    (descriptor::BUS_MASTER_ACCESS, &[descriptor::BUS_MASTER_CONTENT], 0),
    (descriptor::BUS_MASTER_CONTENT, &[], 0),
    (descriptor::EVENT, &[descriptor::EVENT_PC_TARGET], Features::EVENT.0),
    (descriptor::INST_MICROOP, &[], Features::MICROOP.0),
];

/// Features that determine the length of records.
const FIXED: u64 = FEATURE_EVENT64;

/// Changes of a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdit {
    /// Instruction set.
    pub isa: Option<u16>,
    /// Extensions of the instruction set.
    pub extensions: Option<String>,
    /// Hardware thread, process and thread at the start.
    pub process: Option<[u32; 3]>,
    /// Further comments.
    pub comments: Vec<String>,
    /// Do not name this tool.
    pub unsigned: bool,
}

/// Changes of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    header: HeaderEdit,
    without: BTreeSet<u8>,
    set: u64,
    clear: u64,
}

impl Edit {
    /// These changes of the header, and no others.
    pub fn new(header: HeaderEdit) -> Self {
        Self { header, ..Self::default() }
    }

    /// Leaves records out, by their name in any case: `inst_reg`, or `STF_INST_REG` as in stf_tools.
    ///
    /// # Errors
    ///
    /// If no record has this name, or if a trace cannot be read without it.
    pub fn leave_out(&mut self, name: &str) -> Result<(), String> {
        let plain = name.to_lowercase();
        let plain = plain.strip_prefix("stf_").unwrap_or(&plain);
        let is_named = |descriptor: &u8| names::record(*descriptor) == Some(plain);
        let found = OPTIONAL.iter().find(|(descriptor, ..)| is_named(descriptor));
        match found {
            Some((descriptor, dependent, features)) => {
                self.without.insert(*descriptor);
                self.without.extend(*dependent);
                self.clear |= features;
                Ok(())
            }
            None if (0..=u8::MAX).any(|descriptor| is_named(&descriptor)) => {
                Err(format!("a trace cannot be read without its {plain} records"))
            }
            None => Err(format!("no record is called '{name}'; choose from {}", optional_names().join(", "))),
        }
    }

    /// Sets or clears a feature, by its name in any case, with or without `STF_CONTAIN_`.
    ///
    /// # Errors
    ///
    /// If no feature has this name, or if it determines the length of records.
    pub fn change_feature(&mut self, name: &str, is_set: bool) -> Result<(), String> {
        let plain = name.to_uppercase();
        let plain = plain.strip_prefix("STF_").unwrap_or(&plain);
        let plain = plain.strip_prefix("CONTAIN_").unwrap_or(plain);
        let Some((bit, _)) = names::FEATURES.iter().find(|(_, known)| *known == plain) else {
            let all = names::FEATURES.map(|(_, name)| name).join(", ");
            return Err(format!("no feature is called '{name}'; choose from {all}"));
        };
        if bit & FIXED != 0 {
            return Err(format!("{plain} determines the length of records, so it cannot be changed"));
        }
        *(if is_set { &mut self.set } else { &mut self.clear }) |= bit;
        Ok(())
    }

    /// Whether nothing would be changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(HeaderEdit { unsigned: self.header.unsigned, ..HeaderEdit::default() })
    }
}

/// Names of the records that may be left out.
pub fn optional_names() -> Vec<&'static str> {
    OPTIONAL.iter().filter_map(|(descriptor, ..)| names::record(*descriptor)).collect()
}

/// Edits records, starting with the first of a file.
///
/// ```
/// use unspool_stf::Record;
/// use unspool_stf::edit::{Edit, Editor, HeaderEdit};
///
/// let mut edit = Edit::new(HeaderEdit { unsigned: true, ..HeaderEdit::default() });
/// edit.leave_out("inst_mem_content")?;
/// let (mut editor, mut bytes) = (Editor::new(edit), Vec::new());
/// for record in [Record::EndHeader, Record::InstMemContent(1), Record::InstOpcode16(1)] {
///     editor.record(&record, &mut bytes);
/// }
/// assert_eq!(bytes, [19, 241, 1, 0]);
/// assert_eq!(editor.left_out(), 1);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Editor {
    edit: Edit,
    /// The header, until it ends.
    header: Option<HeaderRecords>,
    features: Option<u64>,
    /// The target of an event that was left out.
    target: Option<u64>,
    /// The instruction of that event has ended.
    is_past: bool,
    left_out: u64,
}

impl Editor {
    /// An editor at the start of a file.
    pub fn new(edit: Edit) -> Self {
        let header = Some(HeaderRecords::default());
        Self { edit, header, features: None, target: None, is_past: false, left_out: 0 }
    }

    /// Number of records that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Appends the next record, if it is kept. The header is appended when it ends.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let is_header = self.header.is_some() && record.descriptor() < descriptor::END_HEADER;
        if !is_header && let Some(header) = self.header.take() {
            self.end_header(header, out);
        }
        if self.edit.without.contains(&record.descriptor()) {
            self.left_out += 1;
            self.target = if let Record::EventPcTarget(target) = record { Some(*target) } else { self.target };
            return;
        }
        match &mut self.header {
            Some(header) => {
                if let Record::TraceInfoFeature(features) = record {
                    self.features = Some(*features);
                }
                header.push(record);
            }
            None => self.body(record, out),
        }
    }

    fn body(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if self.is_past
            && let Some(target) = self.target.take()
        {
            self.is_past = false;
            // A record of its own has precedence.
            if !matches!(record, Record::ForcePc(_)) {
                Record::ForcePc(target).encode(out);
            }
        }
        let is_end = matches!(record, Record::InstOpcode16(_) | Record::InstOpcode32(_));
        self.is_past |= is_end && self.target.is_some();
        record.encode(out);
    }

    fn end_header(&mut self, mut header: HeaderRecords, out: &mut Vec<u8>) {
        let Edit { set, clear, header: HeaderEdit { isa, extensions, process, comments, unsigned }, .. } = &self.edit;
        let features = self.features.map(|features| features & !clear | set).or((*set != 0).then_some(*set));
        features.into_iter().for_each(|features| header.put(&Record::TraceInfoFeature(features)));
        isa.iter().for_each(|isa| header.put(&Record::Isa(*isa)));
        extensions.iter().for_each(|text| header.put(&Record::IsaExtended(text.as_bytes())));
        process.iter().for_each(|ids| header.put(&Record::ProcessIdExt(*ids)));
        for comment in comments {
            header.insert_after(descriptor::COMMENT, &Record::Comment(comment.as_bytes()));
        }
        if !unsigned {
            header.sign();
        }
        header.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(edit: &Edit, records: &[Record<'_>]) -> Vec<u8> {
        let (mut editor, mut bytes) = (Editor::new(edit.clone()), Vec::new());
        records.iter().for_each(|record| editor.record(record, &mut bytes));
        bytes
    }

    fn encoded(records: &[Record<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        bytes
    }

    #[test]
    fn names_are_checked() {
        let rows = [
            ("inst_reg", Ok(())),
            ("STF_INST_REG", Ok(())),
            ("stf_inst_opcode32", Err("a trace cannot be read without its inst_opcode32 records")),
            ("registers", Err("no record is called 'registers'")),
        ];
        for (name, expected) in rows {
            let found = Edit::default().leave_out(name);
            match expected {
                Ok(()) => assert_eq!(found, Ok(()), "{name}"),
                Err(start) => assert!(found.is_err_and(|error| error.starts_with(start)), "{name}"),
            }
        }
        let mut edit = Edit::default();
        assert_eq!(edit.change_feature("STF_CONTAIN_PTE", true), Ok(()));
        assert_eq!(edit.change_feature("vec", false), Ok(()));
        assert_eq!((edit.set, edit.clear), (0x100, 0x4_0000));
        assert!(edit.change_feature("EVENT64", false).is_err());
        assert!(edit.change_feature("ROUND", false).is_err());
    }

    #[test]
    fn features_of_records_that_are_left_out_are_cleared() {
        let mut edit = Edit::new(HeaderEdit { unsigned: true, ..HeaderEdit::default() });
        assert_eq!(edit.leave_out("process_id_ext"), Ok(()));
        let features = Features::PROCESS_ID.0 | Features::RV64.0;
        let before = [Record::TraceInfoFeature(features), Record::ProcessIdExt([1, 2, 3]), Record::EndHeader];
        let after = [Record::TraceInfoFeature(Features::RV64.0), Record::EndHeader];
        assert_eq!(edited(&edit, &before), encoded(&after));
    }

    #[test]
    fn header_records_are_replaced_or_inserted() {
        let extensions = Some("rv64gc".into());
        let edit = Edit::new(HeaderEdit { unsigned: true, isa: Some(2), extensions, ..HeaderEdit::default() });
        let before = [Record::Isa(1), Record::InstIem(2), Record::ForcePc(8), Record::EndHeader];
        let text = Record::IsaExtended(b"rv64gc");
        let after = [Record::Isa(2), Record::InstIem(2), Record::ForcePc(8), text, Record::EndHeader];
        assert_eq!(edited(&edit, &before), encoded(&after));
    }

    /// The instruction after an event stays where it was.
    #[test]
    fn targets_of_events_become_addresses() {
        let mut edit = Edit::new(HeaderEdit { unsigned: true, ..HeaderEdit::default() });
        assert_eq!(edit.leave_out("event"), Ok(()));
        let event = super::super::record::Event { raw: 2, is_wide: false, data: &[] };
        let opcode = Record::InstOpcode32(0x13);
        let before = [
            Record::EndHeader,
            Record::Event(event),
            Record::EventPcTarget(0x1000),
            opcode,
            Record::ProcessIdExt([0, 1, 2]),
            opcode,
            opcode,
        ];
        let after =
            [Record::EndHeader, opcode, Record::ForcePc(0x1000), Record::ProcessIdExt([0, 1, 2]), opcode, opcode];
        assert_eq!(edited(&edit, &before), encoded(&after));
    }
}
