//! The functions of the emulator, declared by hand, and what differs between the versions of its interface.
//!
//! Linked is what all versions have; what is new in one is looked up by name, and may not be there. Version 1 is that of
//! QEMU 4.2 to 8.x. The emulators since 9.0 take version 2 and later ones, and nothing of that is taken away later: so a
//! plugin says 1 to the old ones and 2 to the new ones.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

pub(super) type Id = u64;
pub(super) type Callback = extern "C" fn(c_uint, *mut c_void);
pub(super) type AccessCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);

/// A block of code while it is translated.
#[repr(C)]
pub(super) struct QemuBlock([u8; 0]);

/// An instruction of it.
#[repr(C)]
pub(super) struct QemuInstruction([u8; 0]);

/// What the emulator says of itself.
#[repr(C)]
pub(super) struct Info {
    pub(super) target_name: *const c_char,
    oldest_version: c_int,
    pub(super) version: c_int,
    pub(super) is_system: bool,
    cpus: c_int,
    most_cpus: c_int,
}

/// Callbacks do not look at registers, or do.
pub(super) const NO_REGISTERS: c_uint = 0;
pub(super) const REGISTERS: c_uint = 1;
/// Reads and writes.
pub(super) const BOTH: c_uint = 3;
/// What a process gets when the one that started it ends.
pub(super) const PR_SET_PDEATHSIG: c_int = 1;
pub(super) const SIGTERM: c_ulong = 15;
/// The lowest free number from a given one on, closed in programs that are started.
pub(super) const F_DUPFD_CLOEXEC: c_int = 1030;

unsafe extern "C" {
    pub(super) fn qemu_plugin_register_vcpu_init_cb(id: Id, call: extern "C" fn(Id, c_uint));
    pub(super) fn qemu_plugin_register_vcpu_exit_cb(id: Id, call: extern "C" fn(Id, c_uint));
    pub(super) fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, call: extern "C" fn(Id, *mut QemuBlock));
    pub(super) fn qemu_plugin_register_atexit_cb(id: Id, call: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    #[allow(clippy::type_complexity)]
    pub(super) fn qemu_plugin_register_vcpu_syscall_cb(
        id: Id,
        call: extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64),
    );
    pub(super) fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, call: extern "C" fn(Id, c_uint, i64, i64));
    pub(super) fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut QemuBlock,
        call: Callback,
        flags: c_uint,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut QemuInstruction,
        call: Callback,
        flags: c_uint,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut QemuInstruction,
        call: AccessCallback,
        flags: c_uint,
        which: c_uint,
        data: *mut c_void,
    );
    pub(super) fn qemu_plugin_tb_n_insns(block: *const QemuBlock) -> usize;
    pub(super) fn qemu_plugin_tb_get_insn(block: *const QemuBlock, index: usize) -> *mut QemuInstruction;
    pub(super) fn qemu_plugin_tb_vaddr(block: *const QemuBlock) -> u64;
    /// See [`Bytes`].
    fn qemu_plugin_insn_data();
    pub(super) fn qemu_plugin_insn_size(instruction: *const QemuInstruction) -> usize;
    pub(super) fn qemu_plugin_insn_vaddr(instruction: *const QemuInstruction) -> u64;
    pub(super) fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub(super) fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub(super) fn qemu_plugin_mem_is_big_endian(info: u32) -> bool;
    pub(super) fn qemu_plugin_outs(text: *const c_char);
    pub(super) fn qemu_plugin_register_vcpu_idle_cb(id: Id, call: extern "C" fn(Id, c_uint));
    pub(super) fn _exit(code: c_int) -> !;
    pub(super) fn prctl(what: c_int, ...) -> c_int;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(super) fn fcntl(descriptor: c_int, command: c_int, argument: c_int) -> c_int;
}

/// The version of the interface that we are made for. The emulator reads it when we are loaded.
#[unsafe(no_mangle)]
pub(crate) static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Is called when we are loaded, before the emulator looks at us.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    // New in version 2, with which version 1 went.
    if !look_up(c"qemu_plugin_num_vcpus").is_null() {
        qemu_plugin_version.store(2, Ordering::Relaxed);
    }
}

/// A function of the emulator; null: it has none of that name.
pub(super) fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero. Without a library, it is looked for in all that was loaded.
    unsafe { dlsym(ptr::null_mut(), name.as_ptr()) }
}

/// Where the code of the program starts; `None`: this emulator does not tell. Those for programs of QEMU 10.0 were built
/// without.
pub(super) fn start_code() -> Option<u64> {
    let function = look_up(c"qemu_plugin_start_code");
    // SAFETY: the type is that of the function with this name, which may be called wherever callbacks are.
    (!function.is_null()).then(|| unsafe { mem::transmute::<*mut c_void, StartCode>(function)() })
}

type StartCode = unsafe extern "C" fn() -> u64;

/// Does the emulator tell where the code of the program starts?
pub(super) fn tells_start_code() -> bool {
    !look_up(c"qemu_plugin_start_code").is_null()
}

/// How the emulator gives out the bytes of an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bytes {
    /// Up to version 2: where they are, while a block is translated.
    Lent(Lend),
    /// Since version 3: it copies them.
    Copied(CopyOut),
}

type Any = unsafe extern "C" fn();
type Lend = unsafe extern "C" fn(*const QemuInstruction) -> *const c_void;
type CopyOut = unsafe extern "C" fn(*const QemuInstruction, *mut c_void, usize) -> usize;

impl Bytes {
    /// As an emulator with this version of the interface does it.
    pub(super) fn new(version: c_int) -> Self {
        let function: Any = qemu_plugin_insn_data;
        // SAFETY: the type is the one that this version has.
        unsafe {
            if version < 3 {
                Self::Lent(mem::transmute::<Any, Lend>(function))
            } else {
                Self::Copied(mem::transmute::<Any, CopyOut>(function))
            }
        }
    }

    /// Those of an instruction; none of one that raises an exception before it is read.
    ///
    /// # Safety
    /// The block of the instruction is being translated.
    pub(super) unsafe fn of(self, instruction: *const QemuInstruction) -> Instruction {
        let mut bytes = [0; LONGEST];
        // SAFETY: there are so many bytes, and there is room for them.
        let length = unsafe {
            let size = qemu_plugin_insn_size(instruction).min(LONGEST);
            match self {
                _ if size == 0 => 0,
                Self::Lent(place) => {
                    ptr::copy_nonoverlapping(place(instruction).cast(), bytes.as_mut_ptr(), size);
                    size
                }
                Self::Copied(copy) => copy(instruction, bytes.as_mut_ptr().cast(), size).min(size),
            }
        };
        Instruction { bytes, length }
    }
}

/// No instruction of a target that we know has more bytes.
const LONGEST: usize = 16;

/// The bytes of an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Instruction {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// What an access reads or writes, as the emulator gives it out.
#[repr(C)]
struct QemuValue {
    /// log2 of the bytes.
    size: c_int,
    /// As a number, its lower half first.
    words: [u64; 2],
}

/// How the emulator gives out what an access reads or writes: those since 9.2 do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values(GetValue);

type GetValue = unsafe extern "C" fn(u32) -> QemuValue;

impl Values {
    /// `None`: this emulator does not tell it.
    pub(super) fn find() -> Option<Self> {
        let function = look_up(c"qemu_plugin_mem_get_value");
        // SAFETY: the type is that of the function with this name.
        (!function.is_null()).then(|| Self(unsafe { mem::transmute::<*mut c_void, GetValue>(function) }))
    }

    /// That of an access with the lowest byte first; `None`: it has another order of bytes.
    ///
    /// # Safety
    /// The emulator tells this access at the moment.
    pub(super) unsafe fn of(self, info: u32) -> Option<Value> {
        // SAFETY: it is asked about what it tells.
        let value = unsafe { (!qemu_plugin_mem_is_big_endian(info)).then(|| (self.0)(info)) }?;
        let count = if value.size < 4 { 1 } else { 2 };
        Some(Value { words: value.words, count })
    }
}

/// What an access reads or writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    words: [u64; 2],
    count: usize,
}

impl Value {
    pub(super) fn words(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or_default()
    }
}
