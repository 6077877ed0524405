//! Steps of any file, in every format: steps that are written without a loss survive a round trip.
//!
//! Input: the lowest two bits of byte 0 select the format of the rest: ASTF, STF, Tarmac, or auto-detected. The other bits
//! select how it is read and written, see [`Choice`].
//!
//! Checked: every file is steps, then an end or an error; a block sink receives the same; every sink accepts the steps, or
//! refuses them with a reason; steps written to STF and Tarmac without a loss survive, except for positions, the number of the
//! core (STF) and empty steps (Tarmac); written ASTF breaks no rule, and ASTF that breaks none survives, except for contexts
//! without an instruction; statistics and rules accept all steps.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool::{FileKind, OpenSteps, open_steps_of};
use unspool_analyze::check::Checker;
use unspool_analyze::stats::Stats;
use unspool_astf as astf;
use unspool_astf::record::{Level, Storage};
use unspool_model::{
    BlockSink, Context, Coverage, Event, Losses, Security, SinkError, Step, StepSink, StepSource, TimeUnit,
};
use unspool_stf as stf;
use unspool_stf::builder::StfVersion;
use unspool_tarmac as tarmac;
use unspool_tarmac::lower::Style;
use unspool_tarmac::parse::ParseOptions;

/// Maximum number of steps that are read: a few bytes may decompress to gigabytes.
const MAX_STEPS: usize = 20_000;

/// Options for reading a file and writing its steps.
#[derive(Debug, Clone, Copy)]
pub struct Choice(pub u8);

impl Choice {
    fn has(self, bit: u8) -> bool {
        self.0 >> bit & 1 != 0
    }

    fn kind(self) -> Option<FileKind> {
        [Some(FileKind::Astf), Some(FileKind::Stf), Some(FileKind::Tarmac), None][usize::from(self.0 & 3)]
    }

    /// Bit 2: ASTF is a Basic trace.
    fn level(self) -> Level {
        if self.has(2) { Level::Basic } else { Level::BasicPlus }
    }

    /// Bit 3: a state of execution is assumed.
    fn assumed(self) -> Context {
        let context = Context {
            level: Some(1),
            security: Some(Security::NonSecure),
            is_aarch64: Some(true),
            is_handler: Some(true),
            ..Context::default()
        };
        if self.has(3) { context } else { Context::default() }
    }

    /// Bit 4: STF has version 1.6.
    fn version(self) -> StfVersion {
        if self.has(4) { StfVersion::V1_6 } else { StfVersion::V1_3 }
    }

    /// Bit 5: Tarmac in the style of Fast Models.
    fn style(self) -> Style {
        if self.has(5) { Style::FastModels } else { Style::Rev3 }
    }

    /// Bit 6: data of Tarmac is big-endian. Bit 7: Thumb is implied there.
    fn options(self) -> OpenSteps {
        let parse = ParseOptions { implicit_thumb: self.has(7) };
        OpenSteps {
            kind: self.kind(),
            tarmac: tarmac::read::ReadOptions { parse },
            big_endian: self.has(6),
            threads: Some(1),
            ..OpenSteps::default()
        }
    }
}

#[derive(Debug)]
pub struct ReadSteps {
    coverage: Coverage,
    unit: TimeUnit,
    steps: Vec<Step>,
}

impl ReadSteps {
    /// Reads the first steps of a source. Also returns whether it ends without an error.
    pub fn read(mut source: impl StepSource) -> (Self, bool) {
        let (coverage, unit, mut steps) = (source.coverage(), source.time_unit(), Vec::new());
        let end = source.each(&mut |step| {
            steps.push(step.clone());
            if steps.len() < MAX_STEPS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Err(error) = &end {
            assert!(!error.to_string().is_empty());
        }
        (Self { coverage, unit, steps }, end.is_ok())
    }

    /// At most its first `count` steps.
    pub fn start(mut self, count: usize) -> Self {
        self.steps.truncate(count);
        self
    }

    /// Addresses of the instructions.
    fn instructions(&self) -> Vec<u64> {
        self.steps.iter().filter_map(|step| step.event.instruction()).map(|instruction| instruction.address).collect()
    }

    /// The steps of the core that comes first.
    fn of_one_core(&self) -> Self {
        let core = self.steps.first().map(|step| step.core);
        let steps = self.steps.iter().filter(|step| Some(step.core) == core).cloned().collect();
        Self { steps, ..*self }
    }

    /// Lowers the steps to STF. Also returns the losses.
    pub fn stf(&self, version: StfVersion) -> Option<(Vec<u8>, Losses)> {
        let options = stf::lower::LowerOptions { version };
        let mut lowerer = written(stf::lower::Lowerer::new(Vec::new(), self.coverage, self.unit, &options))?;
        self.lower(&mut lowerer).ok()?;
        let losses = lowerer.losses().clone();
        assert!(losses.iter().all(|(loss, _)| stf::lower::LOSSES.contains(&loss)), "{losses}");
        Some((lowerer.into_sink(), losses))
    }

    /// Lowers the steps to Tarmac. Also returns the losses.
    pub fn tarmac(&self, style: Style) -> Option<(Vec<u8>, Losses)> {
        let options = tarmac::lower::LowerOptions { style, disassemble: false };
        let mut lowerer = written(tarmac::lower::Lowerer::new(Vec::new(), self.coverage, self.unit, &options))?;
        self.lower(&mut lowerer).ok()?;
        let losses = lowerer.losses().clone();
        assert!(losses.iter().all(|(loss, _)| tarmac::lower::LOSSES.contains(&loss)), "{losses}");
        Some((lowerer.into_inner(), losses))
    }

    /// Lowers the steps to ASTF records. Also returns the losses.
    fn astf(&self, level: Option<Level>, assumed: Context, is_start: bool) -> Option<(Vec<astf::Bytes>, Losses)> {
        let options = astf::lower::LowerOptions { level, storage: Storage::Raw, assumed, ..Default::default() };
        let header = written(astf::lower::header(self.coverage, self.unit, &options))?;
        let sink = vec![header.to_bytes()];
        let mut lowerer = written(astf::lower::Lowerer::new(sink, &header, self.coverage, self.unit, &options))?;
        if let Err(end) = self.lower(&mut lowerer) {
            if end == 0 || is_start {
                return None;
            }
            // The steps before may be written.
            return ReadSteps { steps: self.steps[..end].to_vec(), ..*self }.astf(level, assumed, true);
        }
        let losses = lowerer.losses().clone();
        assert!(losses.iter().all(|(loss, _)| astf::lower::LOSSES.contains(&loss)), "{losses}");
        Some((lowerer.into_sink(), losses))
    }

    /// Writes all steps, or returns the number of steps before the refused one.
    fn lower(&self, sink: &mut dyn StepSink) -> Result<(), usize> {
        for (index, step) in self.steps.iter().enumerate() {
            written(sink.push(step)).ok_or(index)?;
        }
        written(sink.finish()).ok_or(self.steps.len().saturating_sub(1))
    }
}

/// The part of a step that a block sink receives.
type Execution = (u32, u64, Option<u64>, Event, String);

fn execution(step: &Step) -> Execution {
    (step.core, step.position, step.time, step.event, step.note().to_string())
}

/// The first steps of a source, those of blocks too.
#[derive(Default)]
struct Followed(Vec<Execution>);

impl BlockSink for Followed {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0.push(execution(step));
        if self.0.len() < MAX_STEPS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Checks that a refusal has a reason.
fn written<T>(result: Result<T, SinkError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(SinkError::Refused { reason, .. }) => {
            assert!(!reason.is_empty());
            None
        }
        Err(error) => panic!("memory: {error}"),
    }
}

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let choice = Choice(*choice);
    let Ok(source) = open_steps_of("file", Cursor::new(file.to_vec()), &choice.options()) else { return };
    let (read, ends_well) = ReadSteps::read(source);
    if let Ok(mut source) = open_steps_of("file", Cursor::new(file.to_vec()), &choice.options()) {
        let mut followed = Followed::default();
        assert_eq!(source.follow(&mut followed).is_ok(), ends_well);
        assert_eq!(followed.0, read.steps.iter().map(execution).collect::<Vec<_>>());
    }
    analyze(&read);
    let one = read.of_one_core();
    if let Some((records, _)) = one.astf(Some(choice.level()), choice.assumed(), false) {
        assert_eq!(errors(&records), [""; 0]);
        assert!(ReadSteps::read(open(FileKind::Astf, records.as_flattened().to_vec())).1);
    }
    if choice.kind() == Some(FileKind::Astf) {
        check_round_trip(file, &read);
    }
    if let Some((bytes, losses)) = one.stf(choice.version()) {
        let (again, ends_well) = ReadSteps::read(open(FileKind::Stf, bytes));
        assert!(ends_well);
        let numberless = |step: &Step| (0, plain(step, false));
        if losses.is_empty() {
            same(&one, &again, numberless, |_| true);
        } else {
            // Without its data, an access is lost; its instruction is not. Both may be cut at the maximum.
            let [wanted, found] = [&one, &again].map(ReadSteps::instructions);
            assert!(wanted.starts_with(&found) || found.starts_with(&wanted));
        }
    }
    if let Some((log, losses)) = read.tarmac(choice.style())
        && losses.is_empty()
    {
        let (again, ends_well) = ReadSteps::read(open(FileKind::Tarmac, log));
        assert!(ends_well);
        let numbered = |step: &Step| (step.core, plain(step, true));
        same(&read, &again, numbered, is_not_empty);
    }
}

fn open(kind: FileKind, file: Vec<u8>) -> impl StepSource {
    let options = OpenSteps { kind: Some(kind), threads: Some(1), ..OpenSteps::default() };
    open_steps_of("written", Cursor::new(file), &options).expect("it was written")
}

/// Statistics and rules accept all steps.
fn analyze(read: &ReadSteps) {
    let mut checker = Checker::new(read.coverage);
    let mut stats = Stats::new(|_, opcode| format!("{:x}", opcode >> 24));
    let mut found = |finding: unspool_analyze::check::Finding| assert!(!finding.detail.is_empty());
    for step in &read.steps {
        checker.step(step, &mut found);
        stats.step(step);
    }
    checker.finish(&mut found);
    let report = stats.finish();
    let instructions = read.steps.iter().filter(|step| step.event.instruction().is_some()).count();
    assert_eq!(report.all().instructions, instructions as u64);
}

/// A trace that breaks no rule survives a round trip. A trace that breaks one may change: facts that follow from others are
/// added.
fn check_round_trip(file: &[u8], read: &ReadSteps) {
    let has_instructions = read.steps.iter().any(|step| step.event.instruction().is_some());
    if !has_instructions || !is_faultless(file) {
        return;
    }
    let (again, losses) = read.astf(None, Context::default(), true).expect("it was ASTF");
    assert!(losses.is_empty(), "{losses}");
    let (again, ends_well) = ReadSteps::read(open(FileKind::Astf, again.as_flattened().to_vec()));
    assert!(ends_well);
    same(read, &again, |step| (0, plain(step, false)), |_| true);
}

/// Whether all records can be read, and none breaks a rule.
fn is_faultless(file: &[u8]) -> bool {
    let Ok(mut reader) = astf::read::Reader::in_place(file) else { return false };
    let mut records = vec![reader.header().to_bytes()];
    loop {
        match reader.next_records() {
            // The writer refuses what these rules only warn about: an exception to a lower level, and the records around
            // an unknown record.
            Ok([]) => {
                let odd = findings(&records, |rule| matches!(rule.name, "astf-trap-level" | "astf-unknown-record"));
                return errors(&records).is_empty() && odd.is_empty();
            }
            Ok(more) if records.len() < MAX_STEPS => records.extend_from_slice(more),
            _ => return false,
        }
    }
}

/// Errors of the ASTF rules.
fn errors(records: &[astf::Bytes]) -> Vec<String> {
    let is_error = |rule: &astf::check::Rule| rule.severity == astf::check::Severity::Error;
    findings(records, |rule| is_error(rule) && !astf::builder::OBSERVED.contains(&rule.name))
}

/// Findings of the rules of a kind.
fn findings(records: &[astf::Bytes], is_kind: impl Fn(&astf::check::Rule) -> bool) -> Vec<String> {
    let (mut checker, mut errors) = (astf::check::Checker::new(), Vec::new());
    let mut keep = |finding: astf::check::Finding| {
        if is_kind(finding.rule) {
            errors.push(format!("{finding:?}"));
        }
    };
    records.iter().for_each(|record| checker.push(record, &mut keep));
    checker.finish(&mut keep);
    errors
}

/// Each core has the same steps in the same order. Times may have another unit.
fn same(read: &ReadSteps, again: &ReadSteps, plain: impl Fn(&Step) -> (u32, Step), is_kept: impl Fn(&Step) -> bool) {
    assert_eq!(read.coverage, again.coverage);
    let is_cut = read.steps.len() == MAX_STEPS || again.steps.len() == MAX_STEPS;
    let by_core = |steps: &[Step]| {
        let mut steps: Vec<_> = steps.iter().filter(|step| is_kept(step)).map(&plain).collect();
        steps.sort_by_key(|(core, _)| *core);
        steps
    };
    let (mut wanted, found) = (by_core(&read.steps), by_core(&again.steps));
    if read.unit != again.unit {
        let scale = |time| read.unit.convert(time, again.unit);
        wanted.iter_mut().for_each(|(_, step)| step.time = step.time.and_then(scale));
    }
    for (index, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        assert_eq!(wanted, found, "step {index}");
    }
    assert!(is_cut || wanted.len() == found.len(), "{:?}", wanted.get(found.len()).or(found.get(wanted.len())));
}

fn is_not_empty(step: &Step) -> bool {
    step.event != Event::State || step.registers().len() > 0 || step.accesses().len() > 0
}

/// A step without its position and core, and without unknown bits. In Tarmac, data without a known bit is no data.
fn plain(step: &Step, is_tarmac: bool) -> Step {
    let known = |(value, known): &(u8, u8)| (value & known, *known);
    let mut plain = Step::default();
    (plain.time, plain.event) = (step.time, step.event);
    if step.event == Event::Note {
        plain.set_note(step.note());
    }
    for write in step.registers() {
        plain.write_register_known(write.name, write.low, write.bytes.iter().map(known));
    }
    for access in step.accesses() {
        let is_known = !is_tarmac || access.bytes.iter().any(|(_, known)| *known != 0);
        let bytes = access.bytes.iter().filter(|_| is_known).map(known);
        plain.access_known(access.direction, access.address, access.size, bytes);
        if access.is_tagged {
            plain.tag_last_access();
        }
    }
    plain
}
