//! Translation of a block: its code is recorded once, and callbacks are registered for what is recorded of it.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use super::interface::*;
use super::session::SESSION;
use super::{program, register_values, system};
use crate::memory::Target;
use crate::operands::Operands;
use crate::thread::Block;
use crate::values::Site;

/// A block was translated: records its code, and registers callbacks.
pub(super) extern "C" fn translated(_: Id, block: *mut QemuBlock) {
    let Some(session) = SESSION.get() else { return };
    // SAFETY: the emulator passes a block, which is valid with its instructions until this function returns.
    unsafe {
        let instructions: Vec<*mut QemuInstruction> =
            (0..qemu_plugin_tb_n_insns(block)).map(|index| qemu_plugin_tb_get_insn(block, index)).collect();
        let bytes: Vec<Instruction> = instructions.iter().map(|instruction| session.bytes.of(*instruction)).collect();
        let id = session.next_block.fetch_add(1, Ordering::Relaxed);
        session.recorder.output.send_code(id, qemu_plugin_tb_vaddr(block), bytes.iter().map(Instruction::bytes));
        let (mut is_marked, mut is_whole, mut last_mark) = (false, false, 0);
        for ((index, instruction), bytes) in (0_u16..).zip(&instructions).zip(&bytes) {
            let data = ptr::without_provenance_mut(usize::from(index));
            if is_marked {
                last_mark = index;
            }
            if is_marked && !is_whole {
                let call = if session.is_system { system::marked } else { program::marked };
                qemu_plugin_register_vcpu_insn_exec_cb(*instruction, call, NO_REGISTERS, data);
            }
            is_marked = session.target.may_access(bytes.bytes());
            let is_last = usize::from(index) + 1 == instructions.len();
            is_whole = !session.is_system
                && session.values.is_none()
                && !is_last
                && session.target.accesses_once(bytes.bytes());
            let operands = Operands::of(bytes.bytes(), id, index);
            let operands = operands.filter(|_| session.registers.is_some() && session.target == Target::A64);
            if let Some((operands, at)) =
                operands.and_then(|operands| Some((operands, instructions.get(usize::from(operands.index))?)))
            {
                let data = ptr::without_provenance_mut(operands.pack() as usize);
                qemu_plugin_register_vcpu_insn_exec_cb(*at, system::operands, REGISTERS, data);
            }
            if is_marked && session.is_system {
                let data = ptr::without_provenance_mut((u64::from(id) << 16 | u64::from(index)) as usize);
                qemu_plugin_register_vcpu_mem_cb(*instruction, system::accessed, NO_REGISTERS, BOTH, data);
            } else if is_marked {
                let call = match session.values {
                    _ if is_whole => program::accessed_whole,
                    Some(_) => program::accessed_with_data,
                    None => program::accessed,
                };
                qemu_plugin_register_vcpu_mem_cb(*instruction, call, NO_REGISTERS, BOTH, data);
            }
            if session.written.is_some() {
                let site = Site::new(session.target, bytes.bytes(), (index, is_last), !session.is_system);
                // It is never freed: the emulator does not report when it drops the block.
                let site = Box::into_raw(Box::new(site));
                qemu_plugin_register_vcpu_insn_exec_cb(*instruction, register_values::started, REGISTERS, site.cast());
            }
        }
        // Pages may be mapped elsewhere when the block is executed, which is checked then.
        let mask = if session.registers.is_some() { 0xfff } else { u64::MAX };
        session.addresses.set(id, qemu_plugin_tb_vaddr(block));
        let from = session.start_address().and_then(|from| {
            let is_it = |instruction: &*mut QemuInstruction| (qemu_plugin_insn_vaddr(*instruction) ^ from) & mask == 0;
            instructions.iter().position(is_it)
        });
        let from = from.and_then(|index| u16::try_from(index + 1).ok()).unwrap_or(0);
        let count = u16::try_from(instructions.len()).unwrap_or(u16::MAX);
        let word = Block { id, count, last_mark, from }.pack();
        let data = ptr::without_provenance_mut(word as usize);
        let call = match session.written {
            _ if session.is_system => system::executed,
            Some(_) => program::executed_with_registers,
            None => program::executed,
        };
        let reads_registers = session.registers.is_some() || session.written.is_some();
        let flags = if reads_registers { REGISTERS } else { NO_REGISTERS };
        qemu_plugin_register_vcpu_tb_exec_cb(block, call, flags, data);
    }
}

/// A block was translated, and nothing of it is recorded.
pub(super) extern "C" fn translated_idle(_: Id, block: *mut QemuBlock) {
    extern "C" fn executed(_: c_uint, _: *mut c_void) {}
    extern "C" fn accessed(_: c_uint, _: u32, _: u64, _: *mut c_void) {}
    // SAFETY: the emulator passes a block, which is valid with its instructions until this function returns.
    unsafe {
        for index in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, NO_REGISTERS, ptr::null_mut());
            qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, BOTH, ptr::null_mut());
        }
    }
}
