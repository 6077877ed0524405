//! The table of rules: what a log must keep to, what it should, and where that is said.

use unspool_model::rule::rules;

rules! {
HeaderFirst "tarmac-header-first" Error "2.1 Header"
    "The first line of Rev 3 is the header.";
HeaderOnce "tarmac-header-once" Error "2.1 Header"
    "There is one header.";
HeaderRevision "tarmac-header-revision" Warning "2.1 Header"
    "The revision is 3, the only one that is published.";
HeaderFlags "tarmac-header-flags" Warning "2.1 Header"
    "The header has no flag but `t`.";
TimeMissing "tarmac-time-missing" Error "2.2 Timestamp"
    "With the flag `t` every step starts with a time, or with dashes.";
TimeUnannounced "tarmac-time-unannounced" Error "2.2 Timestamp"
    "Without the flag `t` there are no times; told once.";
TimeColumns "tarmac-time-columns" Warning "2.2 Timestamp"
    "Times end in column 11; told once.";
TimeDecimals "tarmac-time-decimals" Error "2.2 Timestamp"
    "Times of Rev 3 are whole numbers; told once.";
TimeUnit "tarmac-time-unit" Warning "2.2 Timestamp"
    "The unit is one that the text lists, or tic, which plug-ins write; told once.";
TimeUnitChange "tarmac-time-unit-change" Warning "2.2 Timestamp"
    "The unit stays the same.";
TimeOrder "tarmac-time-order" Warning "2.2 Timestamp"
    "The times of a core do not go back.";
TimeInStep "tarmac-time-in-step" Warning "2.2 Timestamp"
    "Only the first line of a step has a time; told once.";
StepFirst "tarmac-step-first" Warning "2.3 Execution Event"
    "What registers, memory and branches do belongs to a step before it; told once.";
Malformed "tarmac-malformed-line" Error "2.3 Execution Event"
    "A line of a known kind reads as that kind does.";
UnknownLine "tarmac-unknown-line" Warning "1.4 Scope"
    "A line is of a known kind. Implementations may have others.";
NoInstruction "tarmac-no-instruction" Warning "2.3 Execution Event"
    "A log has at least one instruction.";
AddressDigits "tarmac-address-digits" Error "2.3.1 Instruction execution line"
    "The address has 16 digits in AArch64, else 8.";
AddressWidth "tarmac-address-width" Warning "2.3.1 Instruction execution line"
    "Addresses of AArch32 have 32 bits.";
AddressAligned "tarmac-address-aligned" Warning "2.3.1 Instruction execution line"
    "An instruction that was fetched is at a multiple of 4, or of 2 in Thumb.";
OpcodeWidth "tarmac-opcode-width" Error "2.3.1 Instruction execution line"
    "An opcode has the digits that it needs: 8, or 4 where Thumb has 16 bits.";
OpcodePadding "tarmac-opcode-padding" Warning "2.3.1 Instruction execution line"
    "Behind an opcode of 4 digits are spaces, so that columns stay where they are; told once.";
ModeSet "tarmac-mode-set" Error "2.3.1 Instruction execution line"
    "The mode is one of the instruction set: el0t to el3h in AArch64, others in AArch32.";
ModeKnown "tarmac-mode-known" Warning "2.3.1 Instruction execution line"
    "The mode is one that is known, those of M-profile included; told once.";
Security "tarmac-security" Warning "2.3.1 Instruction execution line"
    "The security state is _ns or nothing; _n, _s, _rt and _rl are in use too. Told once.";
CcfailSet "tarmac-ccfail-set" Error "2.3.1 Instruction execution line"
    "Only instructions of AArch32 have CCFAIL.";
Condition "tarmac-condition" Warning "2.3.1 Instruction execution line"
    "Only an instruction with a condition can fail or be skipped.";
Number "tarmac-instruction-number" Warning "Fast Models"
    "The numbers of the instructions of a core grow.";
NextPc "tarmac-next-pc" Warning "2.3.1 Instruction execution line"
    "Execution goes on behind an instruction, or where it branches to, unless an event is between.";
AsynchronousName "tarmac-asynchronous-name" Error "2.3.2 Asynchronous event line"
    "An asynchronous event is one that the text lists.";
ExceptionVector "tarmac-exception-vector" Error "2.3.3 Exception entry line"
    "The vector is one that the text lists.";
ExceptionName "tarmac-exception-name" Warning "2.3.3 Exception entry line"
    "The name of an exception is that of its vector.";
PictureAligned "tarmac-picture-aligned" Error "2.3.4 Memory access line"
    "The address of a chunk of memory is a multiple of 16.";
PictureDigits "tarmac-picture-digits" Error "2.3.4 Memory access line"
    "The address of a chunk of memory has 16 digits in AArch64, else 8.";
PictureEmpty "tarmac-picture-empty" Warning "2.3.4 Memory access line"
    "At least one byte of a chunk is accessed.";
SecureBit "tarmac-secure-bit" Warning "2.3.4 Memory access line"
    "The physical address space is S or NS; RT and RL are in use too. Told once.";
PhysicalAligned "tarmac-physical-aligned" Error "2.3.4 Memory access line"
    "The physical address is aligned as the virtual one is.";
PageOffset "tarmac-page-offset" Warning "2.3.4 Memory access line"
    "Both addresses are at the same place in their pages.";
MemoryType "tarmac-memory-type" Warning "2.3.4 Memory access line"
    "The memory type is one that the text lists; told once.";
Shareability "tarmac-shareability" Warning "2.3.4 Memory access line"
    "The shareability is OSH, ISH or NSH; told once.";
Cacheability "tarmac-cacheability" Warning "2.3.4 Memory access line"
    "Cache attributes are those that the text lists, inner before outer; told once.";
AccessUnexpected "tarmac-access-unexpected" Warning "2.3.4 Memory access line"
    "An instruction that has no access by its opcode has none in the log.";
AccessDirection "tarmac-access-direction" Warning "2.3.4 Memory access line"
    "Loads read, and stores write.";
AccessMissing "tarmac-access-missing" Warning "2.3.4 Memory access line"
    "A load or store has an access, if others have.";
AccessSize "tarmac-access-size" Warning "2.3.4 Memory access line"
    "An instruction accesses as many bytes as its opcode says.";
RegisterWidth "tarmac-register-width" Warning "2.3.5 Register update line"
    "A value has as many digits as its register.";
BranchDigits "tarmac-branch-digits" Error "2.3.6 Branch line"
    "The target has 16 digits in AArch64, else 8.";
BranchTarget "tarmac-branch-target" Warning "2.3.6 Branch line"
    "Execution goes on where the branch line says.";
BranchOpcode "tarmac-branch-opcode" Warning "2.3.6 Branch line"
    "A direct branch goes where its opcode says.";
BranchUnexpected "tarmac-branch-unexpected" Warning "2.3.6 Branch line"
    "Only branches and exceptions have a branch line.";
BranchMissing "tarmac-branch-missing" Warning "2.3.6 Branch line"
    "A branch that is taken has a branch line, if others have.";
}
