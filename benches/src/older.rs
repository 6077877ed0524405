//! Speed of the protocols before ETMv4 and of software trace, next to the reference decoder.
//!
//! Takes the snapshots TC2 (ETMv3), tc2-ptm-rstk-t32 (PTM), stm_only and itm_only_raw of the corpus; prints rows of the
//! table. The streams are short, so ours are repeated, and the reference decodes one of them as many times.

use std::hint::black_box;
use std::path::Path;

use unspool_coresight::frame::{Deformatter, Layout, Stream};
use unspool_coresight::unit::{Class, Executed};
use unspool_coresight::{
    Context, DecodeElements as _, DecodePackets as _, Decoders, ElementItem, InstructionDecoders, Profile, Security,
    Transactions, etm3, itm, ptm, stm,
};
use unspool_flow::{FlowDecoder, Instructions};

use super::{Counts, EachInstruction, Images, ReferenceImage, Table};

/// Copies of a stream that are decoded at once.
const COPIES: usize = 64;

#[repr(C)]
struct Unit {
    /// 0: ETMv3, 1: PTM, 2: STM.
    kind: u32,
    id: u32,
    control: u32,
    identification: u32,
    extension: u32,
}

unsafe extern "C" {
    fn reference_older(
        bytes: *const u8,
        length: u32,
        unit: *const Unit,
        full: i32,
        images: *const ReferenceImage,
        count_of_images: u32,
    ) -> i64;
}

/// Packets, or with images the executed instructions, that the reference finds.
fn reference(bytes: &[u8], unit: &Unit, images: Option<&Images>) -> u64 {
    let memory: Vec<ReferenceImage> = images.map_or(vec![], Images::for_reference);
    // SAFETY: the shim reads `length` bytes, the unit and the images, and keeps no pointer.
    let count = unsafe {
        reference_older(
            bytes.as_ptr(),
            bytes.len() as u32,
            unit,
            i32::from(images.is_some()),
            memory.as_ptr(),
            memory.len() as u32,
        )
    };
    u64::try_from(count).expect("the reference decoder reads the stream")
}

/// The bytes of one source of a snapshot.
fn stream(folder: &Path, file: &str, id: Option<u8>) -> Vec<u8> {
    let bytes = std::fs::read(folder.join(file)).expect("a buffer");
    let Some(id) = id else { return bytes };
    let mut stream = Stream::new(id);
    let mut deformatter = Deformatter::new(Layout::FromStart);
    deformatter.push(&bytes, &mut stream);
    deformatter.finish(&mut stream);
    stream.bytes().to_vec()
}

fn packets<C: Decoders>(config: &C, bytes: &[u8]) -> u64 {
    let mut count = 0;
    config.packets().decode(bytes, true, |item| {
        black_box(&item);
        count += 1;
    });
    count
}

fn elements<C: Decoders>(config: &C, bytes: &[u8]) -> u64 {
    let (mut count, mut decoder) = (0, config.elements());
    let mut sink = |item: ElementItem| {
        black_box(&item);
        count += 1;
    };
    config.packets().decode(bytes, true, decoder.decoding(&mut sink));
    decoder.finish(&mut sink);
    count
}

fn ranges<C: InstructionDecoders>(config: &C, bytes: &[u8], images: &Images) -> u64 {
    let (mut counts, mut flow) = (Counts::default(), FlowDecoder::new(config, Transactions::Show, images));
    config.packets().decode(bytes, true, flow.decoding(&mut counts));
    flow.finish(bytes.len() as u64, &mut counts);
    counts.instructions
}

fn instructions<C: InstructionDecoders>(config: &C, bytes: &[u8], images: &Images) -> u64 {
    let mut each = Instructions::new(EachInstruction::default());
    let mut flow = FlowDecoder::new(config, Transactions::Show, images);
    config.packets().decode(bytes, true, flow.decoding(&mut each));
    flow.finish(bytes.len() as u64, &mut each);
    let each = each.into_sink();
    black_box(each.check);
    each.instructions
}

/// Rows of a protocol of instructions.
fn instruction_rows<C: InstructionDecoders>(
    table: &Table,
    name: &str,
    config: &C,
    bytes: &[u8],
    unit: &Unit,
    images: &Images,
) {
    let (long, times) = (bytes.repeat(COPIES), COPIES as u64);
    let row = |stage: &str, ours: &dyn Fn() -> u64, of_reference: Option<&Images>| {
        let reference = || times * reference(bytes, unit, of_reference);
        table.row(&format!("{name} to {stage}"), long.len(), 20, times, ours, reference);
    };
    row("packets", &|| packets(config, &long), None);
    row("ranges", &|| ranges(config, &long, images), Some(images));
    row("instructions", &|| instructions(config, &long, images), Some(images));
}

pub(super) fn rows(table: &Table, corpus: &Path) {
    let folder = corpus.join("TC2");
    let images = Images::of(&folder, &[("kernel_dump.bin", 0xc000_8000)]);
    let registers = [("ETMCR", 0x1000_1860), ("ETMIDR", 0x410c_f250), ("ETMCCER", 0x3440_08f2)];
    let (config, _) = etm3::Config::described(Profile::Application, registers, []);
    let unit = Unit { kind: 0, id: 0x11, control: 0x1000_1860, identification: 0x410c_f250, extension: 0x3440_08f2 };
    let bytes = stream(&folder, "cstrace.bin", Some(0x11));
    instruction_rows(table, "etm3", &config, &bytes, &unit, &images);

    let folder = corpus.join("tc2-ptm-rstk-t32");
    let files = [("mem_Cortex-A15_0_0_VECTORS.bin", 0x8000_0000), ("mem_Cortex-A15_0_1_RO_CODE.bin", 0x8000_0278)];
    let images = Images::of(&folder, &files);
    let registers = [("ETMCR", 0x2000_0400), ("ETMIDR", 0x411c_f312), ("ETMCCER", 0x34c0_1ac2)];
    let (config, _) = ptm::Config::described(registers, []);
    let unit = Unit { kind: 1, id: 2, control: 0x2000_0400, identification: 0x411c_f312, extension: 0x34c0_1ac2 };
    let bytes = stream(&folder, "PTM_0_2.bin", None);
    instruction_rows(table, "ptm", &config, &bytes, &unit, &images);

    loop_rows(table);

    let bytes = stream(&corpus.join("stm_only"), "cstraceitm.bin", Some(0x20));
    let (config, _) = stm::Config::described([("STMTCSR", 0x00a0_0007)], []);
    let unit = Unit { kind: 2, id: 0x20, control: 0x00a0_0007, identification: 0, extension: 0 };
    let (long, times) = (bytes.repeat(COPIES), COPIES as u64);
    let packets_of = || times * reference(&bytes, &unit, None);
    table.row("stm to packets", long.len(), 20, times, || packets(&config, &long), packets_of);
    table.row("stm to elements", long.len(), 20, times, || elements(&config, &long), packets_of);

    let bytes = stream(&corpus.join("itm_only_raw"), "itm_testdata.bin", None);
    let (config, _) = itm::Config::described([], []);
    for (name, bytes) in [("itm of every kind", bytes.repeat(COPIES * 16)), ("itm, words of software", words())] {
        table.alone(&format!("{name} to packets"), bytes.len(), 20, || packets(&config, &bytes));
        table.alone(&format!("{name} to elements"), bytes.len(), 20, || elements(&config, &bytes));
    }
}

/// Code of a loop with a conditional branch over three instructions: five additions, BEQ, four additions, B.
const LOOP: [u32; 11] = [
    0xe280_0001,
    0xe280_0001,
    0xe280_0001,
    0xe280_0001,
    0xe280_0001,
    0x0a00_0002,
    0xe280_0001,
    0xe280_0001,
    0xe280_0001,
    0xe280_0001,
    0xeaff_fff4,
];
const LOOP_START: u64 = 0x8000;

/// The instructions of the loop, with conditions that always alternate or are random.
fn executions(rounds: u32, is_random: bool) -> impl Iterator<Item = Executed> {
    let mut seed = 1_u32;
    (0..rounds).flat_map(move |round| {
        seed = seed.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        let skips = if is_random { seed >> 31 == 1 } else { round % 2 == 1 };
        (0..LOOP.len() as u64).filter(move |index| !(skips && (6..9).contains(index))).map(move |index| {
            let (class, taken) = match index {
                5 => (Class::Direct, skips),
                10 => (Class::Direct, true),
                _ => (Class::Other, true),
            };
            let address = LOOP_START + 4 * index;
            Executed { address, length: 4, class, conditional: index == 5, taken, ..Executed::default() }
        })
    })
}

/// Rows of the loop, traced by the models of both protocols.
fn loop_rows(table: &Table) {
    let images = Images(vec![(LOOP_START, LOOP.iter().flat_map(|opcode| opcode.to_le_bytes()).collect())]);
    let context = Context { el: 1, aarch64: false, security: Security::NonSecure, vmid: None, context_id: None };
    for (name, is_random) in [("repetitive", false), ("random", true)] {
        let settings = etm3::unit::Settings::default();
        let mut model = etm3::unit::Unit::new(&settings);
        model.context(context);
        executions(20_000, is_random).for_each(|executed| model.instruction(&executed));
        model.finish();
        let unit = Unit { kind: 0, id: 0x10, control: 0, identification: 0x410c_f250, extension: 0x3440_08f2 };
        instruction_rows(table, &format!("{name} etm3"), &settings.config(), model.bytes(), &unit, &images);

        let settings = ptm::unit::Settings::default();
        let mut model = ptm::unit::Unit::new(&settings);
        model.context(context);
        executions(100_000, is_random).for_each(|executed| model.instruction(&executed));
        model.finish();
        let unit = Unit { kind: 1, id: 0x10, control: 0, identification: 0x411c_f312, extension: 0x34c0_1ac2 };
        instruction_rows(table, &format!("{name} ptm"), &settings.config(), model.bytes(), &unit, &images);
    }
}

/// A synchronization packet, then words of port 0 with a local timestamp after every fourth.
fn words() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 0x80];
    for number in 0..400_000_u32 {
        bytes.push(0x03);
        bytes.extend(number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        if number % 4 == 3 {
            bytes.push(0x20);
        }
    }
    bytes
}
