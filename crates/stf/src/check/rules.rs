//! The table of rules: what a trace must keep to, what it should, and where that is said.

use unspool_model::rule::rules;

rules! {
NotEmpty "stf-not-empty" Error "STF File Anatomy"
    "A file has at least one record.";
EndHeader "stf-end-header" Error "EndHeaderRecord"
    "The header ends, before the first instruction or transaction.";
OneHeader "stf-one-header" Error "STF File Anatomy"
    "What belongs into the header stands there, and not behind its end.";
BodyInHeader "stf-body-in-header" Error "STF File Anatomy"
    "What belongs to an instruction stands behind the end of the header.";
HeaderOnce "stf-header-once" Error "STF File Anatomy"
    "The header has one record of each kind, but for comments, trace info and clocks.";
HeaderOrder "stf-header-order" Warning "Reference writer"
    "The records of the header are in the order of their descriptors; comments may stand anywhere.";
RecordVersion "stf-record-version" Warning "VersionRecord"
    "No record is newer than the version: vector length 1.4, wide events and transactions 1.5, extensions 1.6.";
NoInstruction "stf-no-instruction" Warning "STF File Anatomy"
    "A trace has at least one instruction or transaction.";
OpenGroup "stf-open-group" Warning "STF File Anatomy"
    "Records belong to an instruction or transaction behind them; only a comment may be the last.";
Mixed "stf-mixed" Error "Reference writer"
    "A trace has either instructions or transactions.";
RecordOrder "stf-record-order" Warning "Reference writer"
    "The records of an instruction are in the order of their descriptors, with the exceptions that the writer makes.";
IdentifierFirst "stf-identifier-first" Error "STFIdentifierRecord"
    "The first record is the identifier, and it reads STF.";
VersionSecond "stf-version-second" Error "VersionRecord"
    "The second record is the version.";
VersionReadable "stf-version-readable" Error "VersionRecord"
    "The version is 1.2 or a later one of 1: others have other descriptors.";
VersionKnown "stf-version-known" Warning "VersionRecord"
    "The version is one that is known, up to 1.6.";
CommentMissing "stf-comment-missing" Warning "CommentRecord"
    "The header has a comment.";
CommentNul "stf-comment-nul" Warning "CommentRecord"
    "A comment does not end with a zero byte.";
IsaMissing "stf-isa-missing" Error "ISARecord"
    "The header tells the instruction set.";
IsaBeforeIem "stf-isa-before-iem" Error "ISARecord"
    "The instruction set comes before the encoding mode.";
IsaKnown "stf-isa-known" Warning "ISARecord"
    "The instruction set is one that the text lists.";
IemMissing "stf-iem-missing" Error "InstIEMRecord"
    "The header tells the encoding mode, so that it comes before the first opcode.";
IemKnown "stf-iem-known" Warning "InstIEMRecord"
    "The encoding mode is one that the instruction set has.";
TraceInfoMissing "stf-trace-info-missing" Error "TraceInfoRecord"
    "The header tells who made the trace.";
GeneratorKnown "stf-generator-known" Warning "TraceInfoRecord"
    "The number of the tool is one that is known.";
FeatureMissing "stf-feature-missing" Error "TraceInfoFeatureRecord"
    "The header tells what the trace has.";
FeatureClaim "stf-feature-claim" Warning "TraceInfoFeatureRecord"
    "The trace has what the header says that it has.";
FeatureRv64 "stf-feature-rv64" Warning "TraceInfoFeatureRecord"
    "The feature of RV64 is set if the encoding mode is RV64, and else not.";
FeatureUnclaimed "stf-feature-unclaimed" Warning "TraceInfoFeatureRecord"
    "Page table walks, micro-operations and transactions are announced by their features.";
ForcePcMissing "stf-force-pc-missing" Error "ForcePCRecord"
    "The header tells where the first instruction is.";
ForcePcOnce "stf-force-pc-once" Warning "ForcePCRecord"
    "No two forced addresses of one instruction differ.";
PcOdd "stf-pc-odd" Error "ForcePCRecord"
    "A RISC-V instruction is at an even address, and so are targets.";
PcWidth "stf-pc-width" Warning "ForcePCRecord"
    "An address in RV32 has 32 bits, extended with zeros or with its sign.";
VlenRange "stf-vlen-range" Error "Reference writer"
    "A vector register has 64 to 65536 bits.";
VlenPower "stf-vlen-power" Warning "Reference writer"
    "The bits of a vector register are a power of two.";
ExtensionsMode "stf-extensions-mode" Warning "Reference writer"
    "The name of the extensions starts with the encoding mode, rv32 or rv64.";
ProtocolMissing "stf-protocol-missing" Error "Reference writer"
    "The header of a trace of transactions tells their protocol.";
ProtocolKnown "stf-protocol-known" Warning "Reference writer"
    "The protocol is TileLink, the only one there is.";
ClockMissing "stf-clock-missing" Error "Reference writer"
    "The header of a trace of transactions has a clock.";
ClockNumber "stf-clock-number" Error "Reference writer"
    "The number of a clock is not zero, and no other clock has it.";
ClockKnown "stf-clock-known" Error "Reference writer"
    "The clock of a transaction is one that the header has.";
TransactionNumber "stf-transaction-number" Warning "Reference writer"
    "The numbers of transactions start with 1.";
TargetMissing "stf-target-missing" Error "InstPCTargetRecord"
    "A branch that is taken, a jump and the return from a trap tell where they lead, or the next address is forced.";
TargetOpcode "stf-target-opcode" Error "InstPCTargetRecord"
    "A direct branch or jump leads where its opcode says.";
TargetNotTaken "stf-target-not-taken" Warning "InstPCTargetRecord"
    "A branch that is not taken has no target.";
TargetNoBranch "stf-target-no-branch" Error "InstPCTargetRecord"
    "Only branches, jumps and returns from traps have a target, unless there is an event.";
TargetOnce "stf-target-once" Warning "InstPCTargetRecord"
    "No two targets of one instruction differ.";
RegisterMeta "stf-register-meta" Error "InstRegRecord"
    "A register is integer, floating-point, vector or CSR, and it is state, source or destination.";
RegisterNumber "stf-register-number" Error "InstRegRecord"
    "There is a register of that type with that number.";
WalkBeforeAccess "stf-walk-before-access" Error "PageTableWalkRecord"
    "Page table walks come before the accesses of their instruction.";
WalkPageSize "stf-walk-page-size" Warning "PageTableWalkRecord"
    "The bytes of a page are a power of two, and at least 4096.";
WalkLeaf "stf-walk-leaf" Warning "PageTableWalkRecord"
    "The last entry of a walk is a leaf, unless there is an event.";
AccessMissing "stf-access-missing" Error "InstMemAccessRecord"
    "An instruction that reads or writes memory has an access, unless there is an event, or it may have made none.";
AccessLast "stf-access-last" Warning "InstMemAccessRecord"
    "The last instruction has its access too, even if it is the store that ends the simulation.";
AccessesAbsent "stf-accesses-absent" Warning "InstMemAccessRecord"
    "A trace with instructions that read or write memory has accesses at all.";
AccessUnexpected "stf-access-unexpected" Error "InstMemAccessRecord"
    "An instruction that neither reads nor writes memory has no access.";
AccessKind "stf-access-kind" Error "InstMemAccessRecord"
    "An access either reads (1) or writes (2).";
AccessDirection "stf-access-direction" Error "InstMemAccessRecord"
    "Loads read and stores write.";
AccessAtomic "stf-access-atomic" Warning "InstMemAccessRecord"
    "An atomic memory operation both reads and writes.";
AccessSize "stf-access-size" Error "InstMemAccessRecord"
    "The accesses of an instruction have as many bytes as its opcode says.";
AccessBits "stf-access-bits" Warning "InstMemAccessRecord"
    "Sizes are told in bytes, and not in bits; where they are in bits, that is told once and understood.";
ContentMissing "stf-content-missing" Error "InstMemContentRecord"
    "An access is followed by its content.";
ContentAlone "stf-content-alone" Error "InstMemContentRecord"
    "Content follows an access.";
ContentCount "stf-content-count" Error "InstMemContentRecord"
    "An access has a record of content for each eight bytes.";
ContentFirstOnly "stf-content-first-only" Warning "InstMemContentRecord"
    "An access of more than eight bytes has more than their first eight, as in traces before 2025; told once.";
ContentJustified "stf-content-justified" Warning "InstMemContentRecord"
    "Content is right-justified, with zeros above.";
BusKind "stf-bus-kind" Error "BusMasterAccessRecord"
    "An access by another master either reads (1) or writes (2).";
BusInitiator "stf-bus-initiator" Warning "BusMasterAccessRecord"
    "The kind of master is one that is known.";
BusContent "stf-bus-content" Error "BusMasterContentRecord"
    "An access by another master is followed by content, and nothing else is.";
BusContentCount "stf-bus-content-count" Warning "BusMasterContentRecord"
    "An access by another master has a record of content for each eight bytes.";
EventKnown "stf-event-known" Warning "STF Exception Event and Event Meta-Data"
    "The number of an event is one that has a meaning.";
EventData "stf-event-data" Warning "STF Exception Event and Event Meta-Data"
    "An event has the fields that the table lists for it.";
EventMissing "stf-event-missing" Warning "EventRecord"
    "An exception that a forced address shows, behind a call or an access that is missing, has an event; told once.";
EventZeroExtended "stf-event-zero-extended" Warning "EventRecord"
    "In RV32 the fields of an event have 32 bits, extended with zeros.";
FetchFault "stf-fetch-fault-nop" Warning "EventRecord"
    "Where an instruction could not be fetched, its opcode is that of a nop.";
ModeStart "stf-mode-start" Warning "EventRecord"
    "The first instruction has an event that tells the mode.";
ModeKnown "stf-mode-known" Error "EventRecord"
    "A change of mode tells the mode: user, supervisor, hypervisor or machine.";
ModeDown "stf-mode-down" Warning "EventRecord"
    "Only the return from a trap leads to a lower mode, or to user mode, unless the next address is forced.";
EventTarget "stf-event-target" Error "EventPCTargetRecord"
    "The target of an event follows an event.";
MicroOpSize "stf-microop-size" Warning "InstMicroOpRecord"
    "A micro-operation has 2 or 4 bytes.";
OpcodeLength "stf-opcode-length" Error "Inst32Record, Inst16Record"
    "The record of an opcode is as long as the lowest bits of the opcode say.";
OpcodeMode "stf-opcode-mode" Warning "Inst32Record, Inst16Record"
    "An instruction is one that the encoding mode has.";
OpcodeIllegal "stf-opcode-illegal" Warning "Inst32Record, Inst16Record"
    "What can never be an instruction, all zeros or all ones, has an event.";
EndLast "stf-end-last" Error "STFReserveEndRecord"
    "Behind the end mark there is nothing.";
}
