//! All integration tests of the instruction-set tables, in one binary so that they link once.

mod access;
mod corpus_riscv;
mod llvm;
mod riscv;
mod riscv_zcm;
mod rows;
mod text;
