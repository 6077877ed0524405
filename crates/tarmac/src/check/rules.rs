//! The table of rules: requirements and recommendations, with the section that states each.

use unspool_model::rule::rules;

rules! {
HeaderFirst "tarmac-header-first" Error "2.1 Header"
    "The first line of a Rev 3 log is the header.";
HeaderOnce "tarmac-header-once" Error "2.1 Header"
    "There is one header.";
HeaderRevision "tarmac-header-revision" Warning "2.1 Header"
    "The revision is 3, the only published one.";
HeaderFlags "tarmac-header-flags" Warning "2.1 Header"
    "The only header flag is `t`.";
TimeMissing "tarmac-time-missing" Error "2.2 Timestamp"
    "With the flag `t` every step starts with a time or with dashes.";
TimeUnannounced "tarmac-time-unannounced" Error "2.2 Timestamp"
    "Without the flag `t` no line has a time. Reported once.";
TimeColumns "tarmac-time-columns" Warning "2.2 Timestamp"
    "Times end in column 11. Reported once.";
TimeDecimals "tarmac-time-decimals" Error "2.2 Timestamp"
    "Times in Rev 3 are integers. Reported once.";
TimeUnit "tarmac-time-unit" Warning "2.2 Timestamp"
    "The unit is one that the specification lists, or tic, which plug-ins print. Reported once.";
TimeUnitChange "tarmac-time-unit-change" Warning "2.2 Timestamp"
    "The unit does not change.";
TimeOrder "tarmac-time-order" Error "2.2 Timestamp"
    "The times of a core do not decrease.";
TimeInStep "tarmac-time-in-step" Warning "2.2 Timestamp"
    "Only the first line of a step has a time. Reported once.";
StepFirst "tarmac-step-first" Warning "2.3 Execution Event"
    "Register, memory and branch lines follow a step. Reported once.";
Malformed "tarmac-malformed-line" Error "2.3 Execution Event"
    "A line of a known kind has the fields of that kind.";
UnknownLine "tarmac-unknown-line" Warning "1.4 Scope"
    "The kind of a line is known. Implementations may add others.";
NoInstruction "tarmac-no-instruction" Warning "2.3 Execution Event"
    "A log has at least one instruction.";
AddressDigits "tarmac-address-digits" Error "2.3.1 Instruction execution line"
    "An address has 16 digits in AArch64, otherwise 8.";
AddressWidth "tarmac-address-width" Warning "2.3.1 Instruction execution line"
    "AArch32 addresses have at most 32 bits.";
AddressAligned "tarmac-address-aligned" Error "2.3.1 Instruction execution line"
    "The address of a fetched instruction is a multiple of 4, or of 2 in Thumb.";
OpcodeWidth "tarmac-opcode-width" Error "2.3.1 Instruction execution line"
    "An opcode has 8 digits, or 4 for a 16-bit Thumb instruction.";
OpcodePadding "tarmac-opcode-padding" Warning "2.3.1 Instruction execution line"
    "A 4-digit opcode is padded with spaces, so that later columns are aligned. Reported once.";
ModeSet "tarmac-mode-set" Error "2.3.1 Instruction execution line"
    "The mode belongs to the instruction set: el0t to el3h in AArch64, others in AArch32.";
ModeKnown "tarmac-mode-known" Warning "2.3.1 Instruction execution line"
    "The mode is a known one, including those of M-profile. Reported once.";
Security "tarmac-security" Warning "2.3.1 Instruction execution line"
    "The Security state is _ns or absent; _n, _s, _rt and _rl are in use too. Reported once.";
CcfailSet "tarmac-ccfail-set" Error "2.3.1 Instruction execution line"
    "Only AArch32 instructions have CCFAIL.";
Condition "tarmac-condition" Error "2.3.1 Instruction execution line"
    "Only a conditional instruction can fail its condition or be skipped.";
Number "tarmac-instruction-number" Warning "Fast Models"
    "The instruction numbers of a core increase.";
NextPc "tarmac-next-pc" Error "2.3.1 Instruction execution line"
    "Execution continues after an instruction or at its branch target, unless there is an event in between.";
AsynchronousName "tarmac-asynchronous-name" Error "2.3.2 Asynchronous event line"
    "An asynchronous event is one that the specification lists.";
ExceptionVector "tarmac-exception-vector" Error "2.3.3 Exception entry line"
    "The vector is one that the specification lists.";
ExceptionName "tarmac-exception-name" Warning "2.3.3 Exception entry line"
    "The name of an exception matches its vector.";
PictureAligned "tarmac-picture-aligned" Error "2.3.4 Memory access line"
    "The address of a memory chunk is a multiple of 16.";
PictureDigits "tarmac-picture-digits" Error "2.3.4 Memory access line"
    "The address of a memory chunk has 16 digits in AArch64, otherwise 8.";
PictureEmpty "tarmac-picture-empty" Warning "2.3.4 Memory access line"
    "A memory chunk has at least one accessed byte.";
SecureBit "tarmac-secure-bit" Warning "2.3.4 Memory access line"
    "The physical address space is S or NS; RT and RL are in use too. Reported once.";
PhysicalAligned "tarmac-physical-aligned" Error "2.3.4 Memory access line"
    "The physical address has the alignment of the virtual one.";
PageOffset "tarmac-page-offset" Warning "2.3.4 Memory access line"
    "Virtual and physical address have the same page offset.";
MemoryType "tarmac-memory-type" Warning "2.3.4 Memory access line"
    "The memory type is one that the specification lists. Reported once.";
Shareability "tarmac-shareability" Warning "2.3.4 Memory access line"
    "The shareability is OSH, ISH or NSH. Reported once.";
Cacheability "tarmac-cacheability" Warning "2.3.4 Memory access line"
    "Cache attributes are those that the specification lists, inner before outer. Reported once.";
AccessUnexpected "tarmac-access-unexpected" Error "2.3.4 Memory access line"
    "An instruction whose opcode makes no access has no memory line.";
AccessDirection "tarmac-access-direction" Warning "2.3.4 Memory access line"
    "Loads read and stores write.";
AccessMissing "tarmac-access-missing" Warning "2.3.4 Memory access line"
    "A load or store has a memory line, if others have.";
AccessSize "tarmac-access-size" Error "2.3.4 Memory access line"
    "An instruction accesses as many bytes as its opcode encodes.";
RegisterWidth "tarmac-register-width" Warning "2.3.5 Register update line"
    "A value has as many digits as its register.";
BranchDigits "tarmac-branch-digits" Error "2.3.6 Branch line"
    "A branch target has 16 digits in AArch64, otherwise 8.";
BranchTarget "tarmac-branch-target" Error "2.3.6 Branch line"
    "Execution continues at the target of the branch line.";
BranchOpcode "tarmac-branch-opcode" Error "2.3.6 Branch line"
    "A direct branch goes to the target that its opcode encodes.";
BranchUnexpected "tarmac-branch-unexpected" Error "2.3.6 Branch line"
    "Only branches and exceptions have a branch line.";
BranchMissing "tarmac-branch-missing" Warning "2.3.6 Branch line"
    "A taken branch has a branch line, if others have.";
}
