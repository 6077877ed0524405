//! The table of rules: what a trace must and should comply with, and the chapter of the specification it comes from.

use unspool_model::rule::rules;

rules! {
LevelRecords "astf-level-records" Warning "3 Levels of detail"
    "A trace has at least one Instruction.";
PcContinuity "astf-pc-continuity" Error "3 Levels of detail"
    "Each instruction is where the previous one or a Trap leads; in a Basic trace a Context precedes any other.";
BasicSingleEl "astf-basic-single-el" Error "3.1 One Exception level (Basic)"
    "A Basic trace stays in one Exception level.";
LevelChange "astf-level-change" Error "3.2 All Exception levels (BasicPlus)"
    "A BasicPlus trace changes the Exception level only after a Trap.";
UnknownRecord "astf-unknown-record" Warning "4.1 Kinds of records"
    "The type of a record is a known one.";
ReservedZero "astf-reserved-zero" Warning "4.1 Kinds of records"
    "Reserved bits are zero.";
HeaderFirst "astf-header-first" Error "4.2 Start of a file"
    "The first record is a Header.";
HeaderOnce "astf-header-once" Error "4.2 Start of a file"
    "There is no second Header.";
HeaderMagic "astf-header-magic" Error "4.2 Start of a file"
    "The Header starts with the characters ASTF.";
Version "astf-version" Warning "4.2 Start of a file"
    "The version is a known one: 0.10 or 0.11.";
FutureFlagZero "astf-future-flag-zero" Error "4.2 Start of a file"
    "The feature flags that have no meaning yet are zero.";
StorageFlags "astf-storage-flags" Warning "4.2.1 Compressed files"
    "The zlib flag is set only together with the compression flag.";
AddressSanitized "astf-address-sanitized" Error "4.3 Addresses without tags"
    "An address has no tag and no authentication code: bits 63 to 56 are zero, or bits 63 to 55 are one.";
ContextBeforeInstruction "astf-context-before-instruction" Error "4.4 State of the PE"
    "A Context precedes the first Instruction.";
ContextUnchanged "astf-context-unchanged" Warning "4.4 State of the PE"
    "In a BasicPlus trace a Context that follows no Trap differs from the previous one.";
ContextAfterChange "astf-context-after-change" Error "4.4 State of the PE"
    "An instruction that sets PSTATE.SP, SM, DIT or SSBS to another value is followed by a Context that has it.";
TidNeedsPid "astf-tid-needs-pid" Error "4.4 State of the PE"
    "A Context with a thread has a process.";
ContextAfterTrap "astf-context-behind-trap" Error "4.4 State of the PE"
    "An exception or a reset leaves EL0, so a Context precedes the next Instruction.";
EvlStreaming "astf-evl-streaming" Warning "4.4 State of the PE"
    "The vector length in Streaming SVE mode is a power of two.";
HandlerAtEl0 "astf-handler-at-el0" Warning "4.4 State of the PE"
    "EL0 uses SP_EL0, so the handler flag is zero there.";
El3Secure "astf-el3-secure" Warning "4.4 State of the PE"
    "EL3 is in Secure state.";
UnsupportedInBasic "astf-unsupported-in-basic" Error "4.4.2 Modes outside the format"
    "No Context of a Basic trace is in an unsupported mode.";
RecordInUnsupported "astf-record-in-unsupported" Error "4.4.2 Modes outside the format"
    "In an unsupported mode there are at most two Timestamps, followed by one Trap and a Context that leave it.";
SmeIndex "astf-sme-index" Error "4.5 Executed instructions"
    "The extended attribute is an index into ZA if and only if the instruction computes one.";
XattrUnusedZero "astf-xattr-unused-zero" Warning "4.5 Executed instructions"
    "An extended attribute that is not in use is zero.";
PcAlignment "astf-pc-alignment" Error "4.5 Executed instructions"
    "The address of an instruction is a multiple of 4.";
BranchFlag "astf-branch-flag" Error "4.5.1 Branches"
    "Branches and no other instructions have the branch flag; exception returns and calls are not branches.";
BranchTakenTarget "astf-branch-taken-target" Error "4.5.1 Branches"
    "The target of a taken direct branch is that of its opcode.";
BranchNotTaken "astf-branch-not-taken" Error "4.5.1 Branches"
    "A branch that is not taken has no target.";
BranchAlwaysTaken "astf-branch-always-taken" Error "4.5.1 Branches"
    "An unconditional branch that does not trap is taken.";
BranchNoAccess "astf-branch-no-access" Warning "4.5.1 Branches"
    "A branch has no fields of memory accesses.";
MemoryEaValid "astf-memory-ea-valid" Error "4.5.2 Loads, stores and operations on addresses"
    "An instruction that must access memory has an address, and one that cannot has none.";
NoAccessFieldsZero "astf-no-access-fields-zero" Error "4.5.2 Loads, stores and operations on addresses"
    "Without an access, its address, size and flags are zero.";
MemoryDirection "astf-memory-direction" Error "4.5.2 Loads, stores and operations on addresses"
    "Loads read, stores write, and instructions that modify memory do both, unless they were kept from it.";
MemorySize "astf-memory-size" Error "4.5.2 Loads, stores and operations on addresses"
    "The accesses of an instruction have as many bytes together as its opcode implies.";
VectorSize "astf-vector-size" Warning "4.5.2 Loads, stores and operations on addresses"
    "LDR and STR of a vector or a predicate access its size at the vector length of the Context.";
MergeAccesses "astf-merge-accesses" Warning "4.5.2 Loads, stores and operations on addresses"
    "Adjacent accesses within a page are merged into one.";
TrapNoAccess "astf-trap-no-access" Error "4.5.2 Loads, stores and operations on addresses"
    "The only access of an instruction that trapped was not completed, so it neither read nor wrote.";
Prefetch "astf-prefetch" Error "4.5.2 Loads, stores and operations on addresses"
    "A prefetch neither reads nor writes; PRFM and PRFUM have an address, no size, and check no tag.";
CacheTlbAtOperation "astf-cache-tlb-at-operation" Error "4.5.2 Loads, stores and operations on addresses"
    "Maintenance and address translation have an address, no size and no direction; TLBI and AT check no tag.";
ZeroOperation "astf-zero-operation" Error "4.5.2 Loads, stores and operations on addresses"
    "DC ZVA, GVA and GZVA write a block.";
TagOperation "astf-tag-operation" Error "4.5.2 Loads, stores and operations on addresses"
    "An access to allocation tags is tagged, has its direction, and starts at a granule.";
SveFirstFault "astf-sve-first-fault" Error "4.5.2 Loads, stores and operations on addresses"
    "An access that a first-faulting or non-faulting load skipped has the size of an element.";
RangeInstruction "astf-range-instruction" Error "4.5.2.1 Accesses sized by a register"
    "Only instructions whose size is in a register access ranges.";
RangeSizeField "astf-range-size-field" Error "4.5.2.1 Accesses sized by a register"
    "The size field of an access to a range is zero.";
RangeOneDirection "astf-range-one-direction" Error "4.5.2.1 Accesses sized by a register"
    "A range is either read or written; the range of a TLBI may be neither.";
RangeReadFirst "astf-range-read-first" Error "4.5.2.1 Accesses sized by a register"
    "Ranges that are read precede those that are written.";
TlbRange "astf-tlb-range" Error "4.5.2.1 Accesses sized by a register"
    "A TLBI by range has a range, and checks no tag.";
MopsRange "astf-mops-range" Error "4.5.2.2 Memory copies and fills"
    "A memory set that did not trap writes ranges, and a memory copy reads and writes them, even if they are empty.";
RangeZeroUntagged "astf-range-zero-untagged" Error "4.5.2.2 Memory copies and fills"
    "An empty range is not tagged.";
ExceptionFlag "astf-exception-flag" Error "4.5.3 Instructions that raise exceptions"
    "An instruction that can do nothing but raise an exception has the trap flag.";
BasicSvcContext "astf-basic-svc-context" Error "4.5.3.1 Exceptions in Basic"
    "In a Basic trace, a Context follows an SVC before the next Instruction.";
BranchTrap "astf-branch-trap" Error "4.5.3.2 Exceptions in BasicPlus"
    "A branch that trapped has no target.";
DataAbortAddress "astf-data-abort-address" Error "4.5.3.2 Exceptions in BasicPlus"
    "An instruction that trapped has the address of an access only if the exception is a Data Abort.";
DataAbortWithoutAddress "astf-data-abort-without-address" Warning "4.5.3.2 Exceptions in BasicPlus"
    "An instruction that took a Data Abort has the address of an access.";
AbortFinalAccess "astf-abort-final-access" Error "4.5.3.2 Exceptions in BasicPlus"
    "One of the accesses of a Data Abort neither read nor wrote; for a vector instruction it is the last.";
MopsAbortAddress "astf-mops-abort-address" Warning "4.5.3.2 Exceptions in BasicPlus"
    "The last access of a memory set or copy that took a Data Abort is not a range, and neither read nor wrote.";
TrapFlagNeedsTrap "astf-trap-flag-needs-trap" Error "4.5.3.2 Exceptions in BasicPlus"
    "An Instruction with the trap flag is followed by a Trap.";
ExtraEaFollows "astf-extra-ea-follows" Error "4.6 Further accesses"
    "A record that announces an Extra EA is followed by one.";
ExtraEaChain "astf-extra-ea-chain" Error "4.6 Further accesses"
    "An Extra EA follows a record that announces it.";
ExtraEaRange "astf-extra-ea-range" Error "4.6 Further accesses"
    "An Extra EA with a range has no second access.";
TrapInBasic "astf-trap-in-basic" Error "4.7 Redirected execution"
    "A Basic trace has no Trap.";
TrapType "astf-trap-type" Error "4.7 Redirected execution"
    "The type of a Trap is a known one, and synchronous after an instruction that trapped.";
TrapOrder "astf-trap-order" Error "4.7 Redirected execution"
    "A Trap precedes the Context of its target.";
TrapLevel "astf-trap-level" Error "4.7 Redirected execution"
    "Exceptions and resets lead to EL1 or higher; exceptions never lower the level, and returns never raise it.";
TrapHandler "astf-trap-handler" Warning "4.7 Redirected execution"
    "After an exception the stack pointer is that of the Exception level: the handler flag is set.";
TrapVector "astf-trap-vector" Error "4.7 Redirected execution"
    "The target of an exception is the vector table entry of its type.";
TrapFields "astf-trap-fields" Error "4.7 Redirected execution"
    "Exception returns and resets have only a target, and only asynchronous exceptions are virtual.";
TrapClass "astf-trap-class" Error "4.7.2 Exceptions caused by instructions"
    "The Exception class fits the instruction, its absence, or an SError.";
Syscall "astf-syscall" Error "4.7.2 Exceptions caused by instructions"
    "The type of a system call is that of its instruction; without a call, type and index are zero.";
InterruptClass "astf-interrupt-class" Warning "4.7.3 Interrupts and system errors"
    "The Exception class of an interrupt is zero.";
ExceptionReturn "astf-exception-return" Error "4.7.4 Returns from exceptions"
    "The Trap of an exception return follows an ERET that did not trap, and nothing else.";
StringChain "astf-string-chain" Error "4.8 Text"
    "A String is followed by as many String continuations as its size needs, and no more.";
StringPaddingZero "astf-string-padding-zero" Error "4.8 Text"
    "Bytes after the end of a string are zero.";
StringInterleaves "astf-string-interleaves" Error "4.8 Text"
    "No other record is between those of a string.";
StringPrintable "astf-string-printable" Warning "4.8 Text"
    "A string is printable: no control characters, and zeros only at its end.";
TimestampFlag "astf-timestamp-flag" Error "4.9 Time"
    "There are Timestamps only if the Header announces them.";
TimestampFirst "astf-timestamp-first" Error "4.9 Time"
    "If the Header announces Timestamps, one precedes the first Context and Instruction.";
TimestampUnit "astf-timestamp-unit" Error "4.9 Time"
    "The unit of time is the microsecond.";
TimestampMonotonic "astf-timestamp-monotonic" Error "4.9 Time"
    "A Timestamp is later than the previous one.";
TimestampMaximum "astf-timestamp-maximum" Error "4.9 Time"
    "A Timestamp is not the maximum value.";
TimestampInterleaves "astf-timestamp-interleaves" Error "4.9 Time"
    "No Timestamp is inside a string or between an Instruction and its Extra EAs.";
SuspendTimestamps "astf-suspend-timestamps" Warning "4.9 Time"
    "In a BasicPlus trace at most two Timestamps are consecutive: suspended and resumed.";
}
