//! What is in the registers of a CPU, if the emulator tells that: those since QEMU 9.0 do.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::{mem, ptr};

use super::interface::look_up;
use crate::operands::{PC, Register, SP, TCR_EL1};

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

/// The functions that it takes. All of them are looked up, since older emulators have none of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    all: All,
    /// It says how it went in ways that differ between versions; the array tells it, too.
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
    /// `None`: this emulator does not tell what is in registers.
    pub(super) fn find() -> Option<Self> {
        let found = |name: &CStr| Some(look_up(name)).filter(|function| !function.is_null());
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

/// The registers of one CPU.
pub(super) struct Registers {
    functions: Functions,
    handles: [*mut c_void; COUNT],
    buffer: *mut Array,
    /// DCZID_EL0, if an instruction has read it.
    pub(super) block_size: Cell<Option<u64>>,
}

/// X0 to X30, the stack pointer, TCR_EL1 and the program counter.
const COUNT: usize = PC as usize + 1;

impl Registers {
    /// Those of the CPU that starts.
    ///
    /// # Safety
    /// The emulator has just said that a CPU starts, on the thread that executes it.
    pub(super) unsafe fn of_new_cpu(functions: Functions) -> Self {
        let mut handles: [*mut c_void; COUNT] = [ptr::null_mut(); COUNT];
        // SAFETY: the emulator hands over an array of descriptions, each with a name that ends with a zero. It is not
        // freed, as the names are in use elsewhere.
        unsafe {
            let array = (functions.all)();
            let (size, count) = match array.as_ref() {
                Some(about) => ((functions.element_size)(array) as usize, about.length as usize),
                None => (0, 0),
            };
            for index in (0..count).filter(|_| size >= size_of::<Description>()) {
                let description = &*(*array).data.add(index * size).cast::<Description>();
                let place = Some(description.name).filter(|name| !name.is_null()).and_then(|name| {
                    handles.get_mut(usize::from(register(CStr::from_ptr(name).to_str().unwrap_or_default())?))
                });
                if let Some(place) = place.filter(|place| place.is_null()) {
                    *place = description.handle;
                }
            }
            Self { functions, handles, buffer: (functions.new_bytes)(), block_size: Cell::new(None) }
        }
    }

    /// What is in one of them; `None`: the emulator does not tell.
    ///
    /// # Safety
    /// The emulator calls back for this CPU, by a callback that may look at registers.
    pub(super) unsafe fn read(&self, register: Register) -> Option<u64> {
        let handle = self.handles.get(usize::from(register)).filter(|handle| !handle.is_null())?;
        // SAFETY: the handle is one of this CPU, and the buffer is used by nobody else.
        let bytes = unsafe {
            let buffer = (self.functions.set_size)(self.buffer, 0);
            (self.functions.read)(*handle, buffer);
            let about = buffer.as_ref()?;
            (about.length as usize == size_of::<u64>()).then(|| about.data.cast::<[u8; 8]>().read())?
        };
        // Registers come in the order of bytes of the target, which is this one for all systems that are recorded.
        Some(u64::from_le_bytes(bytes))
    }
}

/// Which one has this name.
fn register(name: &str) -> Option<Register> {
    if let Some(digits) = name.strip_prefix('x') {
        return digits.parse().ok().filter(|number| *number < SP);
    }
    match name {
        "sp" => Some(SP),
        "pc" => Some(PC),
        _ if name.eq_ignore_ascii_case("tcr_el1") => Some(TCR_EL1),
        _ => None,
    }
}
