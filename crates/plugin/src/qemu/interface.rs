//! The functions of the emulator, declared by hand, and the differences between versions of its interface.
//!
//! Functions of all versions are linked; newer ones are looked up by name, and may be missing. QEMU 4.2 to 8.x has version 1.
//! QEMU 9.0 and later accepts version 2 and later, and removes nothing of it: the plugin declares 1 to the old ones and 2 to
//! the new ones.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{io, mem, ptr};

pub(super) type Id = u64;
pub(super) type Callback = extern "C" fn(c_uint, *mut c_void);
pub(super) type AccessCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);

/// A block of code while it is translated.
#[repr(C)]
pub(super) struct QemuBlock([u8; 0]);

/// An instruction of it.
#[repr(C)]
pub(super) struct QemuInstruction([u8; 0]);

/// Information about the emulator.
#[repr(C)]
pub(super) struct Info {
    pub(super) target_name: *const c_char,
    oldest_version: c_int,
    pub(super) version: c_int,
    pub(super) is_system: bool,
    cpus: c_int,
    max_cpus: c_int,
}

/// Flags of callbacks: they do not read registers, or do.
pub(super) const NO_REGISTERS: c_uint = 0;
pub(super) const REGISTERS: c_uint = 1;
/// Reads and writes.
pub(super) const BOTH: c_uint = 3;
/// Sets the signal that a process gets when its parent ends.
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
    pub(super) fn mmap(
        at: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(super) fn fcntl(descriptor: c_int, command: c_int, argument: c_int) -> c_int;
}

/// The version of the interface that the plugin is made for. The emulator reads it when it loads the plugin.
#[unsafe(no_mangle)]
pub(crate) static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Called when the plugin is loaded, before the emulator reads its version.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    // New in version 2, which replaced version 1.
    if !lookup(c"qemu_plugin_num_vcpus").is_null() {
        qemu_plugin_version.store(2, Ordering::Relaxed);
    }
}

pub(super) const PROT_READ: c_int = 1;
pub(super) const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;

/// Maps a part of a file into memory.
pub(super) fn map(file: &File, offset: u64, length: usize, protection: c_int) -> io::Result<*mut c_void> {
    // SAFETY: a new mapping overlaps nothing.
    let bytes =
        unsafe { mmap(ptr::null_mut(), length, protection, MAP_SHARED, file.as_raw_fd(), offset.cast_signed()) };
    if bytes.addr() == usize::MAX { Err(io::Error::last_os_error()) } else { Ok(bytes) }
}

/// A function of the emulator; null: there is none of that name.
pub(super) fn lookup(name: &CStr) -> *mut c_void {
    // SAFETY: the name is zero-terminated. Without a library, it is searched in all that was loaded.
    unsafe { dlsym(ptr::null_mut(), name.as_ptr()) }
}

/// The start of the program's code; `None`: this emulator does not report it. The user-mode emulators of QEMU 10.0 do not.
pub(super) fn start_code() -> Option<u64> {
    let function = lookup(c"qemu_plugin_start_code");
    // SAFETY: the type is that of the function with this name, which may be called wherever callbacks are.
    (!function.is_null()).then(|| unsafe { mem::transmute::<*mut c_void, StartCode>(function)() })
}

type StartCode = unsafe extern "C" fn() -> u64;

/// Whether the emulator reports the start of the program's code.
pub(super) fn has_start_code() -> bool {
    !lookup(c"qemu_plugin_start_code").is_null()
}

/// Function that returns the bytes of an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bytes {
    /// Up to version 2: a pointer, valid while a block is translated.
    Lent(Lend),
    /// Since version 3: a copy.
    Copied(CopyOut),
}

type Any = unsafe extern "C" fn();
type Lend = unsafe extern "C" fn(*const QemuInstruction) -> *const c_void;
type CopyOut = unsafe extern "C" fn(*const QemuInstruction, *mut c_void, usize) -> usize;

impl Bytes {
    /// For an emulator with this version of the interface.
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

    /// The bytes of an instruction; none if it could not be fetched.
    ///
    /// # Safety
    /// The block of the instruction is being translated.
    pub(super) unsafe fn of(self, instruction: *const QemuInstruction) -> Instruction {
        let mut bytes = [0; LONGEST];
        // SAFETY: the instruction has that size, and there is room for it.
        let length = unsafe {
            let size = qemu_plugin_insn_size(instruction).min(LONGEST);
            match self {
                _ if size == 0 => 0,
                Self::Lent(pointer) => {
                    ptr::copy_nonoverlapping(pointer(instruction).cast(), bytes.as_mut_ptr(), size);
                    size
                }
                Self::Copied(copy) => copy(instruction, bytes.as_mut_ptr().cast(), size).min(size),
            }
        };
        Instruction { bytes, length }
    }
}

/// Maximum number of bytes of an instruction of a known target.
const LONGEST: usize = 16;

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

/// The data of an access, as the emulator returns it.
#[repr(C)]
struct QemuValue {
    /// log2 of the bytes.
    size: c_int,
    /// The value, lower half first.
    words: [u64; 2],
}

/// Function that returns the data of an access: QEMU 9.2 and later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values(GetValue);

type GetValue = unsafe extern "C" fn(u32) -> QemuValue;

impl Values {
    /// `None`: this emulator does not report it.
    pub(super) fn find() -> Option<Self> {
        let function = lookup(c"qemu_plugin_mem_get_value");
        // SAFETY: the type is that of the function with this name.
        (!function.is_null()).then(|| Self(unsafe { mem::transmute::<*mut c_void, GetValue>(function) }))
    }

    /// The data of a little-endian access; `None`: it is big-endian.
    ///
    /// # Safety
    /// The emulator reports this access now.
    pub(super) unsafe fn of(self, info: u32) -> Option<Value> {
        // SAFETY: as required above.
        let value = unsafe { (!qemu_plugin_mem_is_big_endian(info)).then(|| (self.0)(info)) }?;
        let count = if value.size < 4 { 1 } else { 2 };
        Some(Value { words: value.words, count })
    }
}

/// The data of an access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) words: [u64; 2],
    /// The number of words.
    pub(super) count: u32,
}
