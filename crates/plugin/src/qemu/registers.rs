//! The registers of a CPU, if the emulator reports them: QEMU 9.0 and later.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::{mem, ptr};

use unspool_wire::register::{CONTEXTIDR_EL1, COUNT, FLOAT, PC, Register, SP, STATUS, TCR_EL1, TTBR0_EL1, TTBR1_EL1};

use super::interface::lookup;
use crate::memory::Target;
use crate::values::Value;

/// A growing array of the library that the emulator is made with.
#[repr(C)]
struct Array {
    data: *mut u8,
    length: c_uint,
}

/// A register, as the emulator describes it; more may follow.
#[repr(C)]
struct Description {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

/// The functions that read registers. All are looked up, since older emulators have none of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    all: All,
    /// Its result differs between versions; the length of the array shows success, too.
    read: Read,
    new_bytes: NewBytes,
    set_size: SetSize,
    element_size: ElementSize,
}

type All = unsafe extern "C" fn() -> *mut Array;
type Read = unsafe extern "C" fn(*mut c_void, *mut Array) -> u8;
type NewBytes = unsafe extern "C" fn() -> *mut Array;
type SetSize = unsafe extern "C" fn(*mut Array, c_uint) -> *mut Array;
type ElementSize = unsafe extern "C" fn(*mut Array) -> c_uint;

impl Functions {
    /// `None`: this emulator does not report registers.
    pub(super) fn find() -> Option<Self> {
        let found = |name: &CStr| Some(lookup(name)).filter(|function| !function.is_null());
        // SAFETY: the types are those of the functions with these names.
        unsafe {
            Some(Self {
                all: mem::transmute::<*mut c_void, All>(found(c"qemu_plugin_get_registers")?),
                read: mem::transmute::<*mut c_void, Read>(found(c"qemu_plugin_read_register")?),
                new_bytes: mem::transmute::<*mut c_void, NewBytes>(found(c"g_byte_array_new")?),
                set_size: mem::transmute::<*mut c_void, SetSize>(found(c"g_byte_array_set_size")?),
                element_size: mem::transmute::<*mut c_void, ElementSize>(found(c"g_array_get_element_size")?),
            })
        }
    }
}

pub(super) struct Registers {
    functions: Functions,
    handles: [*mut c_void; COUNT],
    buffer: *mut Array,
    /// DCZID_EL0, if an instruction has read it.
    pub(super) block_size: Cell<Option<u64>>,
}

impl Registers {
    /// The registers of the CPU that starts.
    ///
    /// # Safety
    /// The emulator calls back for the start of a CPU, on the thread that executes it.
    pub(super) unsafe fn of_new_cpu(functions: Functions, target: Target) -> Self {
        let mut handles: [*mut c_void; COUNT] = [ptr::null_mut(); COUNT];
        // SAFETY: the emulator returns an array of descriptions with zero-terminated names. It is not freed, since the
        // names are in use elsewhere.
        unsafe {
            let array = (functions.all)();
            let (size, count) = match array.as_ref() {
                Some(about) => ((functions.element_size)(array) as usize, about.length as usize),
                None => (0, 0),
            };
            for index in (0..count).filter(|_| size >= size_of::<Description>()) {
                let description = &*(*array).data.add(index * size).cast::<Description>();
                let slot = Some(description.name).filter(|name| !name.is_null()).and_then(|name| {
                    handles.get_mut(usize::from(register(target, CStr::from_ptr(name).to_str().unwrap_or_default())?))
                });
                if let Some(slot) = slot.filter(|slot| slot.is_null()) {
                    *slot = description.handle;
                }
            }
            Self { functions, handles, buffer: (functions.new_bytes)(), block_size: Cell::new(None) }
        }
    }

    /// The value of a register of 64 bits; `None`: the emulator does not report it.
    ///
    /// # Safety
    /// The emulator calls back for this CPU, by a callback that may read registers.
    pub(super) unsafe fn read(&self, register: Register) -> Option<u64> {
        // SAFETY: as required above.
        let (value, length) = unsafe { self.read_any(register) }?;
        (length == size_of::<u64>()).then_some(value[0])
    }

    /// The lowest 128 bits of a register.
    ///
    /// # Safety
    /// The emulator calls back for this CPU, by a callback that may read registers.
    pub(super) unsafe fn read_value(&self, register: Register) -> Option<Value> {
        // SAFETY: as required above.
        unsafe { self.read_any(register) }.map(|(value, _)| value)
    }

    /// The lowest 128 bits of a register, and its size in bytes.
    ///
    /// # Safety
    /// The same as for [`read`](Self::read).
    unsafe fn read_any(&self, register: Register) -> Option<(Value, usize)> {
        let handle = self.handles.get(usize::from(register)).filter(|handle| !handle.is_null())?;
        let mut bytes = [0_u8; size_of::<Value>()];
        // SAFETY: the handle is one of this CPU, the buffer has no other user, and its length is valid.
        let length = unsafe {
            let buffer = (self.functions.set_size)(self.buffer, 0);
            (self.functions.read)(*handle, buffer);
            let about = buffer.as_ref()?;
            let length = about.length as usize;
            ptr::copy_nonoverlapping(about.data, bytes.as_mut_ptr(), length.min(bytes.len()));
            length
        };
        // Registers come in the order of bytes of the target, which is this one for all that is recorded.
        let number = u128::from_le_bytes(bytes);
        (length >= size_of::<u32>()).then_some(([number as u64, (number >> 64) as u64], length))
    }
}

/// The register of a target with this name.
fn register(target: Target, name: &str) -> Option<Register> {
    let numbered = |letter: char, count: Register| {
        let number: Register = name.strip_prefix(letter)?.parse().ok()?;
        (number < count).then_some(number)
    };
    let float = |letter: char| numbered(letter, 32).map(|number| FLOAT + number);
    match (target, name) {
        (_, "pc") => Some(PC),
        (Target::A64, "sp") => Some(SP),
        (Target::A64 | Target::Arm, "cpsr") => Some(STATUS),
        // With SVE, a vector is the lowest part of a longer one.
        (Target::A64, _) => {
            numbered('x', SP).or_else(|| float('v')).or_else(|| float('z')).or_else(|| translation(name))
        }
        (Target::Arm, "sp") => Some(13),
        (Target::Arm, "lr") => Some(14),
        (Target::Arm, _) => numbered('r', 15).or_else(|| float('d')),
        (Target::Riscv(_), _) => riscv(name),
        (Target::Other, _) => None,
    }
}

/// The system register of AArch64 with this name that the address space follows from.
fn translation(name: &str) -> Option<Register> {
    let names =
        [("TCR_EL1", TCR_EL1), ("TTBR0_EL1", TTBR0_EL1), ("TTBR1_EL1", TTBR1_EL1), ("CONTEXTIDR_EL1", CONTEXTIDR_EL1)];
    names.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, register)| *register)
}

/// The register of RISC-V with this name in the calling convention.
fn riscv(name: &str) -> Option<Register> {
    const GENERAL: [&str; 32] = [
        "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
        "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
    ];
    const FLOATS: [&str; 32] = [
        "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5",
        "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10",
        "ft11",
    ];
    let find = |names: &[&str], first: Register| {
        let index = names.iter().position(|other| *other == name)?;
        Some(first + index as Register)
    };
    let name_of_frame = (name == "s0").then_some(8);
    find(&GENERAL, 0).or(name_of_frame).or_else(|| find(&FLOATS, FLOAT))
}
