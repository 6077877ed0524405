//! The rules, as a table.

use unspool_model::rules;

rules! {
    PcContinuity "step-pc-continuity" Error "flow"
        "Each instruction is behind the one before it, or where that, an exception or its return leads; a gap excuses it.";
    ExceptionPlace "step-exception-place" Error "flow"
        "An exception returns to the instruction before it, or to where that leads.";
    ReturnOpcode "step-return-opcode" Error "flow"
        "A return from an exception comes from an instruction that returns from exceptions.";
    BranchTarget "step-branch-target" Error "branches"
        "A direct branch that is taken goes where its opcode says.";
    BranchTaken "step-branch-taken" Error "branches"
        "A branch without a condition is taken, unless it raises an exception.";
    BranchOpcode "step-branch-opcode" Error "branches"
        "Only a branch has the outcome of a branch.";
    Condition "step-condition" Error "branches"
        "Only what has a condition can fail it, and a branch is taken if and only if its condition holds.";
    IsaChange "step-isa-change" Error "state"
        "A64 and AArch32 change by exceptions and their returns, A32 and T32 by branches that may do so.";
    IsaState "step-isa-state" Error "state"
        "An instruction is one of the state that was told: A64 in AArch64, A32 and T32 in AArch32.";
    LevelChange "step-level-change" Error "state"
        "The Exception level, or the privilege mode, changes only by an exception, not down, and its return, not up.";
    ExceptionLevel "step-exception-level" Error "state"
        "An exception is not taken to EL0.";
    SecurityChange "step-security-change" Error "state"
        "The Security state changes only by an exception to EL3 and by a return from there.";
    AccessKind "step-access-kind" Error "accesses"
        "Loads read, stores write, and what computes does neither.";
    AccessSize "step-access-size" Error "accesses"
        "An instruction reads and writes as many bytes as its opcode says.";
    AccessMissing "step-access-missing" Warning "accesses"
        "A load reads and a store writes, unless it raises an exception or its opcode leaves it open.";
    VectorKind "step-vector-kind" Error "vectors"
        "The handler of an exception is at an offset from the vector base that its kind has.";
    VectorOrigin "step-vector-origin" Error "vectors"
        "The handler of an exception is in the group of vectors for where it came from.";
    VectorBase "step-vector-base" Error "vectors"
        "The handler of an exception is where VBAR of its Exception level says, if that was written.";
    TimeOrder "step-time-order" Error "time"
        "The time of a core does not go back.";
    OpcodeLength "step-opcode-length" Error "opcodes"
        "An instruction has as many bytes as its opcode says.";
    Alignment "step-alignment" Error "opcodes"
        "Instructions of A64 and A32 are at multiples of 4, others at multiples of 2, unless that raises an exception.";
}
