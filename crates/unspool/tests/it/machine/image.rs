//! Images of the generated machine: random A64 code whose opcodes identify the image, in small ELF files.

use unspool_testing::Random;

/// Offset of the code in a file, and in memory from the base.
pub(crate) const CODE: u64 = 0x100;

pub(crate) const RET: u32 = 0xd65f_03c0;
pub(crate) const JUMP: u32 = 0xd61f_0020;
pub(crate) const CALL_REGISTER: u32 = 0xd63f_0020;
pub(crate) const SYSTEM_CALL: u32 = 0xd400_0001;
pub(crate) const EXCEPTION_RETURN: u32 = 0xd69f_03e0;
pub(crate) const BARRIER: u32 = 0xd503_3fdf;

/// A file with code: its name, its words, and the offsets of its functions.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) words: Vec<u32>,
    pub(crate) functions: Vec<u64>,
}

/// `movz x9, #number`: an instruction without effect on the flow that no other image has.
pub(crate) fn mark(number: u32) -> u32 {
    0xd280_0009 | (number & 0xffff) << 5
}

/// `b.ne` or `bl` over a number of words.
pub(crate) fn branch(opcode: u32, words: i64) -> u32 {
    match opcode {
        0x5400_0001 => opcode | ((words as u32) & 0x7_ffff) << 5,
        _ => opcode | (words as u32) & 0x3ff_ffff,
    }
}

impl Image {
    pub(crate) fn new(name: &str, words: Vec<u32>, starts: &[usize]) -> Self {
        let functions = starts.iter().map(|start| CODE + 4 * *start as u64).collect();
        Self { name: name.to_string(), words, functions }
    }

    /// A few functions with all kinds of branches.
    pub(crate) fn random(name: &str, number: u32, random: &mut Random) -> Self {
        let (mut words, mut starts) = (Vec::new(), Vec::new());
        for _ in 0..2 + random.below(3) {
            function(number, &mut words, &mut starts, random);
        }
        Self::new(name, words, &starts)
    }

    /// An ELF file with one segment, the whole of it.
    pub(crate) fn elf(&self) -> Vec<u8> {
        let code: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = CODE + code.len() as u64;
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // Position-independent, AArch64, version 1.
        file.extend([3, 0, 183, 0, 1, 0, 0, 0]);
        [CODE, 64, 0].iter().for_each(|field: &u64| file.extend(field.to_le_bytes()));
        file.extend([0_u8; 4]);
        [64_u16, 56, 1, 64, 0, 0].iter().for_each(|field| file.extend(field.to_le_bytes()));
        // Loaded, readable and executable.
        file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
        [0, 0, 0, size, size, 0x1000].iter().for_each(|field: &u64| file.extend(field.to_le_bytes()));
        file.resize(CODE as usize, 0);
        file.extend(code);
        file
    }
}

/// Adds a function. Conditional branches lead to its end or back to its start.
fn function(number: u32, words: &mut Vec<u32>, starts: &mut Vec<usize>, random: &mut Random) {
    let start = words.len();
    let mut to_end = Vec::new();
    for _ in 0..2 + random.below(4) {
        for _ in 0..1 + u64::from(number % 5) + random.below(3) {
            words.push(mark(number << 8 | words.len() as u32 & 0xff));
        }
        let at = words.len();
        words.push(match random.below(7) {
            0 => branch(0x5400_0001, start as i64 - at as i64),
            1 if !starts.is_empty() => {
                let callee = random.pick(starts);
                branch(0x9400_0000, callee as i64 - at as i64)
            }
            2 => CALL_REGISTER,
            3 => SYSTEM_CALL,
            4 => JUMP,
            _ => {
                to_end.push(at);
                0
            }
        });
    }
    let end = words.len();
    to_end.into_iter().for_each(|at| words[at] = branch(0x5400_0001, (end - at) as i64));
    words.push(RET);
    starts.push(start);
}
