//! The table of rules.

use unspool_model::rules;

rules! {
    PcContinuity "step-pc-continuity" Error "flow"
        "Each instruction follows the previous one, or is where its branch, an exception or an exception return leads, except after a gap.";
    ExceptionPlace "step-exception-place" Error "flow"
        "The return address of an exception is that of the preceding instruction, or where that instruction leads.";
    ReturnOpcode "step-return-opcode" Error "flow"
        "Only an exception return instruction returns from an exception.";
    BranchTarget "step-branch-target" Error "branches"
        "A taken direct branch goes to the target that its opcode encodes.";
    BranchTaken "step-branch-taken" Error "branches"
        "An unconditional branch is taken, unless it raises an exception.";
    BranchOpcode "step-branch-opcode" Error "branches"
        "Only a branch has a branch outcome.";
    Condition "step-condition" Error "branches"
        "Only a conditional instruction can fail its condition, and a branch is taken if and only if its condition holds.";
    IsaChange "step-isa-change" Error "state"
        "A64 and AArch32 alternate only by exceptions and exception returns, A32 and T32 only by interworking branches.";
    IsaState "step-isa-state" Error "state"
        "An instruction belongs to the reported Execution state: A64 to AArch64, A32 and T32 to AArch32.";
    LevelChange "step-level-change" Error "state"
        "The Exception level or privilege mode rises only by an exception and falls only by an exception return.";
    ExceptionLevel "step-exception-level" Error "state"
        "An exception is never taken to EL0.";
    SecurityChange "step-security-change" Error "state"
        "The Security state changes only by an exception to EL3 or a return from EL3.";
    AccessKind "step-access-kind" Error "accesses"
        "Loads read memory, stores write memory, and data processing does neither.";
    AccessSize "step-access-size" Error "accesses"
        "An instruction reads and writes as many bytes as its opcode encodes.";
    AccessMissing "step-access-missing" Warning "accesses"
        "A load reads and a store writes, unless it raises an exception or its opcode makes the access optional.";
    VectorKind "step-vector-kind" Error "vectors"
        "The handler of an exception is at a vector offset for its kind.";
    VectorOrigin "step-vector-origin" Error "vectors"
        "The handler of an exception is in the group of vectors for the state that it was taken from.";
    VectorBase "step-vector-base" Error "vectors"
        "The handler of an exception is in the vector table of VBAR of its Exception level, if that was written.";
    TimeOrder "step-time-order" Error "time"
        "The time of a core never decreases.";
    OpcodeLength "step-opcode-length" Error "opcodes"
        "The length of an instruction is that of its opcode.";
    Alignment "step-alignment" Error "opcodes"
        "A64 and A32 instructions are 4-byte aligned, others 2-byte aligned, unless misalignment raises an exception.";
}
