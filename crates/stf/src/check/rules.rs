//! The table of rules: name, severity, section and summary.

use unspool_model::rule::rules;

rules! {
NotEmpty "stf-not-empty" Error "STF File Anatomy"
    "A file has at least one record.";
EndHeader "stf-end-header" Error "EndHeaderRecord"
    "The header ends before the first instruction or transaction.";
OneHeader "stf-one-header" Error "STF File Anatomy"
    "Header records are in the header, not after its end.";
BodyInHeader "stf-body-in-header" Error "STF File Anatomy"
    "Records of instructions come after the end of the header.";
HeaderOnce "stf-header-once" Error "STF File Anatomy"
    "The header has one record of each kind, except comments, trace info and clocks.";
HeaderOrder "stf-header-order" Warning "Reference writer"
    "Header records are in the order of their descriptors; comments may be anywhere.";
RecordVersion "stf-record-version" Warning "VersionRecord"
    "No record is newer than the version: vector length 1.4, wide events and transactions 1.5, extensions 1.6.";
NoInstruction "stf-no-instruction" Warning "STF File Anatomy"
    "A trace has at least one instruction or transaction.";
OpenGroup "stf-open-group" Warning "STF File Anatomy"
    "Every record belongs to a following instruction or transaction; only a comment may be the last.";
Mixed "stf-mixed" Error "Reference writer"
    "A trace has either instructions or transactions, not both.";
RecordOrder "stf-record-order" Warning "Reference writer"
    "The records of an instruction are in the order of their descriptors, with the exceptions of the reference writer.";
IdentifierFirst "stf-identifier-first" Error "STFIdentifierRecord"
    "The first record is the identifier `STF`.";
VersionSecond "stf-version-second" Error "VersionRecord"
    "The second record is the version.";
VersionReadable "stf-version-readable" Error "VersionRecord"
    "The version is 1.2 or a later 1.x: other versions have other descriptors.";
VersionKnown "stf-version-known" Warning "VersionRecord"
    "The version is a known one, up to 1.6.";
CommentMissing "stf-comment-missing" Warning "CommentRecord"
    "The header has a comment.";
CommentNul "stf-comment-nul" Warning "CommentRecord"
    "A comment does not end with a zero byte.";
IsaMissing "stf-isa-missing" Error "ISARecord"
    "The header names the instruction set.";
IsaBeforeIem "stf-isa-before-iem" Error "ISARecord"
    "The instruction set precedes the encoding mode.";
IsaKnown "stf-isa-known" Warning "ISARecord"
    "The instruction set is a specified one.";
IemMissing "stf-iem-missing" Error "InstIEMRecord"
    "The header names the encoding mode, so that it precedes the first opcode.";
IemKnown "stf-iem-known" Warning "InstIEMRecord"
    "The encoding mode is one of the instruction set.";
TraceInfoMissing "stf-trace-info-missing" Error "TraceInfoRecord"
    "The header names the tool that wrote the trace.";
GeneratorKnown "stf-generator-known" Warning "TraceInfoRecord"
    "The generator number is a known one.";
FeatureMissing "stf-feature-missing" Error "TraceInfoFeatureRecord"
    "The header declares the features of the trace.";
FeatureClaim "stf-feature-claim" Warning "TraceInfoFeatureRecord"
    "The trace uses the features that the header declares.";
FeatureRv64 "stf-feature-rv64" Warning "TraceInfoFeatureRecord"
    "The feature RV64 is set exactly if the encoding mode is RV64.";
FeatureUnclaimed "stf-feature-unclaimed" Warning "TraceInfoFeatureRecord"
    "Page table walks, micro-operations and transactions are declared as features.";
ForcePcMissing "stf-force-pc-missing" Error "ForcePCRecord"
    "The header has the address of the first instruction.";
ForcePcOnce "stf-force-pc-once" Warning "ForcePCRecord"
    "All forced addresses of an instruction are equal.";
PcOdd "stf-pc-odd" Error "ForcePCRecord"
    "Addresses and targets of RISC-V instructions are even.";
PcWidth "stf-pc-width" Warning "ForcePCRecord"
    "An address in RV32 has 32 bits, zero-extended or sign-extended.";
VlenRange "stf-vlen-range" Error "Reference writer"
    "A vector register has 64 to 65536 bits.";
VlenPower "stf-vlen-power" Warning "Reference writer"
    "The number of bits of a vector register is a power of two.";
ExtensionsMode "stf-extensions-mode" Warning "Reference writer"
    "The list of extensions starts with the encoding mode, rv32 or rv64.";
ProtocolMissing "stf-protocol-missing" Error "Reference writer"
    "The header of a trace of transactions names their protocol.";
ProtocolKnown "stf-protocol-known" Warning "Reference writer"
    "The protocol is TileLink, the only one defined.";
ClockMissing "stf-clock-missing" Error "Reference writer"
    "The header of a trace of transactions has a clock.";
ClockNumber "stf-clock-number" Error "Reference writer"
    "The number of a clock is not zero and not used by another clock.";
ClockKnown "stf-clock-known" Error "Reference writer"
    "The clock of a transaction is in the header.";
TransactionNumber "stf-transaction-number" Warning "Reference writer"
    "The numbers of transactions start with 1.";
TargetMissing "stf-target-missing" Error "InstPCTargetRecord"
    "A taken branch, a jump and a return from a trap have a target, or the next address is forced.";
TargetOpcode "stf-target-opcode" Error "InstPCTargetRecord"
    "The target of a direct branch or jump is that of its opcode.";
TargetNotTaken "stf-target-not-taken" Warning "InstPCTargetRecord"
    "A branch that is not taken has no target.";
TargetNoBranch "stf-target-no-branch" Error "InstPCTargetRecord"
    "Only branches, jumps, returns from traps and instructions with an event have a target.";
TargetOnce "stf-target-once" Warning "InstPCTargetRecord"
    "All targets of an instruction are equal.";
RegisterMeta "stf-register-meta" Error "InstRegRecord"
    "A register is integer, floating-point, vector or CSR, and it is state, source or destination.";
RegisterNumber "stf-register-number" Error "InstRegRecord"
    "The register number exists for the type.";
WalkBeforeAccess "stf-walk-before-access" Error "PageTableWalkRecord"
    "Page table walks precede the accesses of their instruction.";
WalkPageSize "stf-walk-page-size" Warning "PageTableWalkRecord"
    "The size of a page is a power of two, at least 4096 bytes.";
WalkLeaf "stf-walk-leaf" Warning "PageTableWalkRecord"
    "The last entry of a walk is a leaf, unless there is an event.";
AccessMissing "stf-access-missing" Error "InstMemAccessRecord"
    "An instruction that must read or write memory has an access, unless there is an event.";
AccessLast "stf-access-last" Warning "InstMemAccessRecord"
    "The last instruction has its access, even if it is the store that ends the simulation.";
AccessesAbsent "stf-accesses-absent" Warning "InstMemAccessRecord"
    "A trace with instructions that read or write memory has some accesses.";
AccessUnexpected "stf-access-unexpected" Error "InstMemAccessRecord"
    "An instruction that neither reads nor writes memory has no access.";
AccessKind "stf-access-kind" Error "InstMemAccessRecord"
    "An access either reads (1) or writes (2).";
AccessDirection "stf-access-direction" Error "InstMemAccessRecord"
    "Loads read and stores write.";
AccessAtomic "stf-access-atomic" Warning "InstMemAccessRecord"
    "An atomic memory operation both reads and writes.";
AccessSize "stf-access-size" Error "InstMemAccessRecord"
    "The total size of the accesses of an instruction is that of its opcode.";
AccessBits "stf-access-bits" Warning "InstMemAccessRecord"
    "Sizes are in bytes, not bits. Sizes in bits are reported once and then understood.";
ContentMissing "stf-content-missing" Error "InstMemContentRecord"
    "An access is followed by its content.";
ContentAlone "stf-content-alone" Error "InstMemContentRecord"
    "Content follows an access.";
ContentCount "stf-content-count" Error "InstMemContentRecord"
    "An access has one content record per eight bytes.";
ContentFirstOnly "stf-content-first-only" Warning "InstMemContentRecord"
    "An access of more than eight bytes has more than one content record, unlike in traces before 2025; reported once.";
ContentJustified "stf-content-justified" Warning "InstMemContentRecord"
    "Content is right-justified, with zeros above.";
BusKind "stf-bus-kind" Error "BusMasterAccessRecord"
    "An access by another bus master either reads (1) or writes (2).";
BusInitiator "stf-bus-initiator" Warning "BusMasterAccessRecord"
    "The kind of bus master is a known one.";
BusContent "stf-bus-content" Error "BusMasterContentRecord"
    "An access by another bus master is followed by content, and content follows only such an access.";
BusContentCount "stf-bus-content-count" Warning "BusMasterContentRecord"
    "An access by another bus master has one content record per eight bytes.";
EventKnown "stf-event-known" Warning "STF Exception Event and Event Meta-Data"
    "The event number is a defined one.";
EventData "stf-event-data" Warning "STF Exception Event and Event Meta-Data"
    "An event has its specified fields.";
EventMissing "stf-event-missing" Warning "EventRecord"
    "A RISC-V exception that a forced address reveals, after a call or a missing access, has an event; reported once.";
EventZeroExtended "stf-event-zero-extended" Warning "EventRecord"
    "In RV32 the fields of an event have 32 bits, zero-extended.";
FetchFault "stf-fetch-fault-nop" Warning "EventRecord"
    "The opcode of an instruction that could not be fetched is a nop.";
ModeStart "stf-mode-start" Warning "EventRecord"
    "The first instruction has an event with the mode.";
ModeKnown "stf-mode-known" Error "EventRecord"
    "A change of mode contains the mode: user, supervisor, hypervisor or machine.";
ModeDown "stf-mode-down" Warning "EventRecord"
    "Only a return from a trap leads to a lower mode, or to user mode, unless the next address is forced.";
EventTarget "stf-event-target" Error "EventPCTargetRecord"
    "The target of an event follows the event.";
MicroOpSize "stf-microop-size" Warning "InstMicroOpRecord"
    "A micro-operation has 2 or 4 bytes.";
OpcodeLength "stf-opcode-length" Error "Inst32Record, Inst16Record"
    "The length of an opcode record is that encoded in the lowest bits of the opcode.";
OpcodeMode "stf-opcode-mode" Warning "Inst32Record, Inst16Record"
    "An instruction exists in the encoding mode.";
OpcodeIllegal "stf-opcode-illegal" Warning "Inst32Record, Inst16Record"
    "An opcode that is never valid, all zeros or all ones, has an event.";
EndLast "stf-end-last" Error "STFReserveEndRecord"
    "Nothing follows the end mark.";
}
