//! Opcodes to compare: random ones, and dense ones near branches.

use unspool_testing::Random;

/// Number of random words from the whole space.
fn count() -> usize {
    std::env::var("UNSPOOL_LLVM_SAMPLES").ok().and_then(|text| text.parse().ok()).unwrap_or(40_000)
}

/// The whole space; each top byte of the branch group; and the words that differ little from a branch by register,
/// a hint, a barrier or a system instruction.
pub(crate) fn a64(random: &mut Random) -> Vec<u32> {
    let mut words = random.words(count(), 0, 0);
    for top in (0..=0xff_u32).filter(|top| top >> 2 & 0b111 == 0b101) {
        words.extend(random.words(count() / 10, 0xff00_0000, top << 24));
    }
    let seeds = [
        0xd61f0000, 0xd61f081f, 0xd63f0000, 0xd65f03c0, 0xd65f0bff, 0xd69f03e0, 0xd69f0bff, 0xd6bf03e0, 0xd71f0800,
        0xd73f0800, 0x5500001f, 0xd50320df, 0xd503205f, 0xd503207f, 0xd5033fdf, 0xd5031000, 0xd5031020, 0xd5233060,
        0x54000000, 0x74000000, 0x75000000,
    ];
    words.extend(neighbors(random, &seeds));
    words
}

/// Opcodes of A64 near memory accesses. The whole space; every system instruction, with a register and without; every exception; and
/// all combinations of the bits that distinguish loads and stores, in the base set, in SVE and in SME.
pub(crate) fn a64_memory(random: &mut Random) -> Vec<u32> {
    let mut words = random.words(count(), 0, 0);
    for system in [0xd508_0000, 0xd528_0000, 0xd548_0000] {
        for name in 0..1 << 14 {
            words.push(system | name << 5 | 0b11111);
            words.extend(random.words(1, !0b11110, system | name << 5));
        }
    }
    words.extend(random.words(count() / 10, 0xff00_ffe0, 0xd400_0000));
    words.extend(random.words(count() / 10, 0xffff_0000, 0));
    for top in 0..=0xff_u32 {
        let more = match top >> 1 & 0b1111 {
            0b0100 | 0b0110 | 0b1100 | 0b1110 => forms(random, top, &[21, 22, 23, 10, 11, 12, 13, 14, 15]),
            0b0010 if top >> 7 == 1 => forms(random, top, &[13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
            0b0000 if top >> 7 == 1 => forms(random, top, &[13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
            0b0010 => random.words(count() / 10, 0xff00_0000, top << 24),
            _ => random.words(count() / 100, 0xff00_0000, top << 24),
        };
        words.extend(more);
    }
    words
}

/// All combinations of the bits at these places under the first byte `top`. The others are random, and so that each
/// register is now and then the last one, an even one, or the first; and offsets are often zero.
fn forms(random: &mut Random, top: u32, positions: &[u32]) -> Vec<u32> {
    let chosen: u32 = positions.iter().map(|position| 1 << position).sum();
    let spread =
        |form: u32| positions.iter().enumerate().map(|(bit, position)| (form >> bit & 1) << position).sum::<u32>();
    let mut words = Vec::new();
    for form in (0..1 << positions.len()).map(spread) {
        for rest in [0, 0x001f_0000, 0x0000_001f, 0x001f_7c1f].map(|rest| rest & !chosen) {
            let registers = random.word() & 0x0000_03e0;
            words.push(top << 24 | form | rest | registers & !chosen);
        }
        let fixed = 0xff00_0000 | chosen;
        words.extend(random.words(1 + count() / 80_000, fixed, top << 24 | form));
        words.extend(random.words(1 + count() / 80_000, fixed | 0x0001_0001 & !chosen, top << 24 | form));
    }
    words
}

/// The whole space; everything with the PC as destination; loads of many registers; and the neighbors of the rest.
pub(crate) fn a32(random: &mut Random) -> Vec<u32> {
    let mut words = random.words(count(), 0, 0);
    words.extend(random.words(count(), 0x0000_f000, 0x0000_f000));
    words.extend(random.words(count(), 0x0c00_f000, 0x0000_f000));
    words.extend(random.words(count(), 0x0c00_f000, 0x0400_f000));
    words.extend(random.words(count() / 2, 0x0e00_0000, 0x0800_0000));
    words.extend(random.words(count() / 2, 0x0e00_0000, 0x0a00_0000));
    words.extend(random.words(count() / 2, 0xf000_0000, 0xf000_0000));
    let seeds = [
        0xe12fff1e, 0xe12fff20, 0xe12fff30, 0xe160006e, 0xe320f002, 0xe320f003, 0xf57ff06f, 0xf8100a00, 0xf8bd0a00,
        0xee070f95, 0xe1a0f00e, 0xe1b0f00e, 0xe25ef004, 0xe49df004, 0xe8bd8000, 0xe8fd8000, 0xfa000000, 0xe79ff101,
    ];
    words.extend(neighbors(random, &seeds));
    words
}

/// All halfwords that are whole instructions; the whole space of pairs; each group of pairs; and neighbors.
pub(crate) fn t32(random: &mut Random) -> Vec<u32> {
    let mut words: Vec<u32> = (0..0xe800).collect();
    words.extend(random.words(count(), 0xe000_0000, 0xe000_0000).into_iter().filter(|word| word >> 27 > 0b11100));
    words.extend(random.words(count(), 0xf800_8000, 0xf000_8000));
    words.extend(random.words(count(), 0xf800_d001, 0xf000_c001));
    words.extend(random.words(count(), 0xff80_d001, 0xf000_c001));
    words.extend(random.words(count(), 0xff80_d000, 0xf380_8000));
    words.extend(random.words(count(), 0xfe40_0000, 0xe800_0000));
    words.extend(random.words(count(), 0xff00_f000, 0xf800_f000));
    words.extend(random.words(count() / 4, 0xfff0_f000, 0xf850_f000));
    words.extend(random.words(count() / 4, 0xfff0_f000, 0xf8d0_f000));
    words.extend(random.words(count() / 4, 0xfff0_0000, 0xfb50_0000));
    let seeds = [
        0xe8d0f000, 0xe8d1f010, 0xe810c000, 0xe990c000, 0xe8bd8000, 0xe9118000, 0xe89f8001, 0xf3de8f00, 0xf3de8f04,
        0xf3c18f00, 0xf3bf8f6f, 0xf3af8002, 0xf3af8003, 0xf85dfb04, 0xf8ddf000, 0xf851f002, 0xf85ff000, 0xfb5ecf1d,
        0xf040c001, 0xf00fc001, 0xf02fc001, 0xf01fc001, 0xf000c001, 0xf040e001, 0xf00fe001, 0xee070f95,
    ];
    words.extend(neighbors(random, &seeds).into_iter().filter(|word| word >> 27 > 0b11100));
    words
}

/// All halfwords; the whole space of words; and of every family all bits that distinguish its instructions: `funct3`
/// and the highest seven bits, and in large families the registers too.
pub(crate) fn riscv(random: &mut Random) -> Vec<u32> {
    let mut words: Vec<u32> = (0..1 << 16).filter(|half| half & 0b11 != 0b11).collect();
    words.extend(random.words(count(), 0b11, 0b11));
    for family in 0..32_u32 {
        let family = family << 2 | 0b11;
        for form in 0..1 << 10_u32 {
            let form = family | (form & 0b111) << 12 | (form >> 3) << 25;
            words.extend(random.words(1 + count() / 40_000, 0xfe00_707f, form));
            for register in 0..32_u32 {
                match family {
                    // Numbers, conversions, vectors in memory, the system: the second register distinguishes more.
                    0x07 | 0x0f | 0x13 | 0x1b | 0x27 | 0x2f | 0x33 | 0x53 | 0x73 => {
                        words.extend(random.words(1, 0xfff0_707f, form | register << 20));
                        words.push(form | register << 20);
                        words.push(form | register << 20 | random.word() & 0x000f_8000);
                    }
                    // Vectors: the first register does, and the second may have to be none.
                    0x57 | 0x77 => {
                        words.extend(random.words(1, 0xfe0f_f07f, form | register << 15));
                        words.push(form | register << 15);
                        words.push(form | register << 15 | random.word() & 0x0180_0f00);
                    }
                    _ => {}
                }
            }
        }
    }
    words
}

/// Words that differ from each seed in no bit, in one, in two, and in some random few.
fn neighbors(random: &mut Random, seeds: &[u32]) -> Vec<u32> {
    let mut words = Vec::new();
    for &seed in seeds {
        words.push(seed);
        for first in 0..32 {
            words.extend((first..32).map(|second| seed ^ (1 << first | 1 << second)));
        }
        for _ in 0..count() / 80 {
            let few = random.word() & random.word() & random.word();
            words.push(seed ^ few);
        }
    }
    words
}
