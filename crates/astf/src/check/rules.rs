//! The table of rules: what a trace must keep to, what it should, and where the document says so.

use unspool_model::rule::rules;

rules! {
LevelRecords "astf-level-records" Warning "3 Trace levels"
    "A trace holds at least one Instruction.";
PcContinuity "astf-pc-continuity" Error "3 Trace levels"
    "Each instruction is where the one before or a Trap leads to; in a Basic trace a Context stands where it is not.";
BasicSingleEl "astf-basic-single-el" Error "3.1 Basic"
    "A Basic trace stays in one Exception level.";
LevelChange "astf-level-change" Warning "3.2 BasicPlus"
    "A BasicPlus trace changes the Exception level only behind a Trap.";
UnknownRecord "astf-unknown-record" Warning "4.1 Record types"
    "The type of a record is one that the document lists.";
ReservedZero "astf-reserved-zero" Warning "4.1 Record types"
    "Reserved bits are zero.";
HeaderFirst "astf-header-first" Error "4.2 Header and file format"
    "The first record is a Header.";
HeaderOnce "astf-header-once" Error "4.2 Header and file format"
    "There is no second Header.";
HeaderMagic "astf-header-magic" Error "4.2 Header and file format"
    "The Header starts with the characters ASTF.";
Version "astf-version" Warning "4.2 Header and file format"
    "The version is one that is known: 0.10 or 0.11.";
FutureFlagZero "astf-future-flag-zero" Error "4.2 Header and file format"
    "The feature flags that have no meaning yet are zero.";
StorageFlags "astf-storage-flags" Warning "4.2.1 Trace storage and compression"
    "The flag for zlib is set only together with the one for compression.";
AddressSanitized "astf-address-sanitized" Error "4.3 Sanitized virtual addresses"
    "An address has no tag and no authentication code: bits 63 to 56 are zero, or bits 63 to 55 are one.";
ContextBeforeInstruction "astf-context-before-instruction" Error "4.4 Context changes"
    "There is a Context before the first Instruction.";
ContextUnchanged "astf-context-unchanged" Warning "4.4 Context changes"
    "In a BasicPlus trace a Context that follows no Trap says something new.";
ContextAfterChange "astf-context-after-change" Error "4.4 Context changes"
    "An instruction that sets PSTATE.SP, SM, DIT or SSBS to another value is followed by a Context that has it.";
TidNeedsPid "astf-tid-needs-pid" Error "4.4 Context changes"
    "A Context with a thread has a process.";
ContextBehindTrap "astf-context-behind-trap" Error "4.4 Context changes"
    "An exception or a reset leads out of EL0, so a Context comes before the next Instruction.";
EvlStreaming "astf-evl-streaming" Warning "4.4 Context changes"
    "The vector length in Streaming SVE mode is a power of two.";
HandlerAtEl0 "astf-handler-at-el0" Warning "4.4 Context changes"
    "EL0 uses SP_EL0, so the handler flag is zero there.";
El3Secure "astf-el3-secure" Warning "4.4 Context changes"
    "EL3 is in Secure state.";
UnsupportedInBasic "astf-unsupported-in-basic" Error "4.4.2 Unsupported execution mode"
    "No Context of a Basic trace is in an unsupported mode.";
RecordInUnsupported "astf-record-in-unsupported" Error "4.4.2 Unsupported execution mode"
    "In an unsupported mode there is nothing but two Timestamps, and then one Trap and a Context that leave it.";
SmeIndex "astf-sme-index" Error "4.5 Instruction execution"
    "The extended attribute is an index into ZA if the instruction computes one, and not if it computes none.";
XattrUnusedZero "astf-xattr-unused-zero" Warning "4.5 Instruction execution"
    "An extended attribute that is not in use is zero.";
PcAlignment "astf-pc-alignment" Warning "4.5 Instruction execution"
    "An instruction is at a multiple of 4.";
BranchFlag "astf-branch-flag" Error "4.5.1 Branch instructions"
    "A branch has the branch flag, and nothing else has; exception returns and calls into exceptions are no branches.";
BranchTakenTarget "astf-branch-taken-target" Error "4.5.1 Branch instructions"
    "A direct branch that is taken goes where its opcode says.";
BranchNotTaken "astf-branch-not-taken" Error "4.5.1 Branch instructions"
    "A branch that is not taken has no target.";
BranchAlwaysTaken "astf-branch-always-taken" Error "4.5.1 Branch instructions"
    "An unconditional branch that does not trap is taken.";
BranchNoAccess "astf-branch-no-access" Warning "4.5.1 Branch instructions"
    "A branch says nothing of accesses to memory.";
MemoryEaValid "astf-memory-ea-valid" Error "4.5.2 Memory-accessing instructions"
    "An instruction that must have accessed memory has an address, and one that cannot has none.";
NoAccessFieldsZero "astf-no-access-fields-zero" Error "4.5.2 Memory-accessing instructions"
    "Where no access was made, address, size and all flags of an access are zero.";
MemoryDirection "astf-memory-direction" Error "4.5.2 Memory-accessing instructions"
    "Loads read, stores write, and what modifies memory does both, unless something kept it from it.";
MemorySize "astf-memory-size" Error "4.5.2 Memory-accessing instructions"
    "All accesses of an instruction together have as many bytes as its opcode says.";
VectorSize "astf-vector-size" Warning "4.5.2 Memory-accessing instructions"
    "LDR and STR of a vector or a predicate access as many bytes as it has in the vector length of the Context.";
MergeAccesses "astf-merge-accesses" Warning "4.5.2 Memory-accessing instructions"
    "Accesses that lie side by side in one page are merged into one.";
TrapNoAccess "astf-trap-no-access" Error "4.5.2 Memory-accessing instructions"
    "The only access of an instruction that trapped was not completed, and so neither read nor wrote.";
Prefetch "astf-prefetch" Error "4.5.2 Memory-accessing instructions"
    "A prefetch neither reads nor writes; PRFM and PRFUM have an address, no size, and check no tag.";
CacheTlbAtOperation "astf-cache-tlb-at-operation" Error "4.5.2 Memory-accessing instructions"
    "Maintenance and address translation have an address, no size, and no direction; TLBI and AT check no tag.";
ZeroOperation "astf-zero-operation" Error "4.5.2 Memory-accessing instructions"
    "DC ZVA, GVA and GZVA write, and what they write is a block.";
TagOperation "astf-tag-operation" Error "4.5.2 Memory-accessing instructions"
    "An access to allocation tags is tagged, has its direction, and starts at a granule.";
SveFirstFault "astf-sve-first-fault" Error "4.5.2 Memory-accessing instructions"
    "An access that a first-faulting or non-faulting load left out has the size of an element.";
RangeInstruction "astf-range-instruction" Error "4.5.2.1 Memory range accesses"
    "Only instructions whose size is in a register access ranges.";
RangeSizeField "astf-range-size-field" Error "4.5.2.1 Memory range accesses"
    "A range has zero in the size field of its access.";
RangeOneDirection "astf-range-one-direction" Error "4.5.2.1 Memory range accesses"
    "A range is either read or written; the range of a TLBI may be neither.";
RangeReadFirst "astf-range-read-first" Error "4.5.2.1 Memory range accesses"
    "All ranges that are read come before those that are written.";
TlbRange "astf-tlb-range" Error "4.5.2.1 Memory range accesses"
    "A TLBI by range has a range, and checks no tag.";
MopsRange "astf-mops-range" Error "4.5.2.2 Memory Copy and Memory Set instructions (FEAT_MOPS)"
    "A memory set that did not trap writes ranges, and a memory copy reads and writes them, be they empty.";
RangeZeroUntagged "astf-range-zero-untagged" Error "4.5.2.2 Memory Copy and Memory Set instructions (FEAT_MOPS)"
    "An empty range is not tagged.";
ExceptionFlag "astf-exception-flag" Error "4.5.3 Trapping instructions"
    "An instruction that can do nothing but raise an exception has the trap flag.";
BasicSvcContext "astf-basic-svc-context" Error "4.5.3.1 Basic traces"
    "Between an SVC of a Basic trace and the next Instruction stands a Context.";
BranchTrap "astf-branch-trap" Error "4.5.3.2 BasicPlus traces"
    "A branch that trapped has no target.";
DataAbortAddress "astf-data-abort-address" Error "4.5.3.2 BasicPlus traces"
    "An instruction that trapped has the address of an access only if the exception is a Data Abort.";
DataAbortWithoutAddress "astf-data-abort-without-address" Warning "4.5.3.2 BasicPlus traces"
    "An instruction that took a Data Abort has the address of an access.";
AbortFinalAccess "astf-abort-final-access" Error "4.5.3.2 BasicPlus traces"
    "Of the accesses that took a Data Abort one neither read nor wrote, and of a vector instruction it is the last.";
MopsAbortAddress "astf-mops-abort-address" Warning "4.5.3.2 BasicPlus traces"
    "The last access of a memory set or copy that took a Data Abort is no range, and neither read nor wrote.";
TrapFlagNeedsTrap "astf-trap-flag-needs-trap" Error "4.5.3.2 BasicPlus traces"
    "An Instruction with the trap flag is followed by a Trap.";
ExtraEaFollows "astf-extra-ea-follows" Error "4.6 Extra EA"
    "A record that announces an Extra EA is followed by one.";
ExtraEaChain "astf-extra-ea-chain" Error "4.6 Extra EA"
    "An Extra EA follows a record that announces it.";
ExtraEaRange "astf-extra-ea-range" Error "4.6 Extra EA"
    "An Extra EA with a range has nothing else in the second half.";
TrapInBasic "astf-trap-in-basic" Error "4.7 Traps"
    "There is no Trap in a Basic trace.";
TrapType "astf-trap-type" Error "4.7 Traps"
    "The type of a Trap is one that the document lists, and behind an instruction that trapped it is synchronous.";
TrapOrder "astf-trap-order" Error "4.7 Traps"
    "A Trap comes before the Context of where it leads to.";
TrapLevel "astf-trap-level" Warning "4.7 Traps"
    "An exception or a reset leads to EL1 or higher, an exception never down, and the return from one never up.";
TrapHandler "astf-trap-handler" Warning "4.7 Traps"
    "Behind an exception the stack pointer is that of the Exception level: the handler flag is set.";
TrapVector "astf-trap-vector" Warning "4.7 Traps"
    "The target of an exception is the entry of a vector table that its type has.";
TrapFields "astf-trap-fields" Error "4.7 Traps"
    "Exception return and reset have a target and nothing else, and only asynchronous exceptions are virtual.";
TrapClass "astf-trap-class" Error "4.7.2 Synchronous exception or trap with instruction"
    "The Exception class is one that the instruction, its absence, or an SError can have.";
Syscall "astf-syscall" Error "4.7.2 Synchronous exception or trap with instruction"
    "The type of a system call is that of its instruction; type and index are zero where there is none.";
InterruptClass "astf-interrupt-class" Warning "4.7.3 Asynchronous trap, exception or interrupt"
    "The Exception class of an interrupt is zero.";
ExceptionReturn "astf-exception-return" Error "4.7.4 Exception return"
    "A Trap of an exception return follows an ERET that did not trap, and only that.";
StringChain "astf-string-chain" Error "4.8 String, String continuation"
    "A String is followed by as many String continuations as its size needs, and no more.";
StringPaddingZero "astf-string-padding-zero" Error "4.8 String, String continuation"
    "Bytes behind the end of a string are zero.";
StringInterleaves "astf-string-interleaves" Error "4.8 String, String continuation"
    "No other record stands between those of one string.";
StringPrintable "astf-string-printable" Warning "4.8 String, String continuation"
    "A string is printable: no control characters, and zeros only at its end.";
TimestampFlag "astf-timestamp-flag" Error "4.9 Timestamp"
    "There are Timestamps only if the Header says so.";
TimestampFirst "astf-timestamp-first" Error "4.9 Timestamp"
    "If the Header announces Timestamps, one comes before the first Context and Instruction.";
TimestampUnit "astf-timestamp-unit" Error "4.9 Timestamp"
    "The unit of time is the microsecond.";
TimestampMonotonic "astf-timestamp-monotonic" Error "4.9 Timestamp"
    "A Timestamp is later than the one before.";
TimestampMaximum "astf-timestamp-maximum" Error "4.9 Timestamp"
    "A Timestamp is not the greatest number there is.";
TimestampInterleaves "astf-timestamp-interleaves" Error "4.9 Timestamp"
    "No Timestamp stands inside a string or between an Instruction and its Extra EAs.";
SuspendTimestamps "astf-suspend-timestamps" Warning "4.9 Timestamp"
    "In a BasicPlus trace at most two Timestamps follow each other: suspended and resumed.";
}
