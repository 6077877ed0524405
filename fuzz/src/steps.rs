//! Steps of any file, in every format: what was written without a loss comes back.
//!
//! Input: byte 0 chooses. Its lowest two bits say what the rest is: ASTF, STF, Tarmac, or what its first bytes say. The
//! others say how it is read and written, see [`Choice`].
//!
//! Held against it: every file is steps, then an end or an error; a block sink gets the same; every sink takes them, or refuses them with a reason;
//! what STF and Tarmac got without a loss comes back, but for places, the number of the core (STF) and steps that say
//! nothing (Tarmac); ASTF that was written breaks no rule of ASTF, and ASTF that breaks none comes back, but for
//! contexts in which nothing happened; statistics and
//! rules take all steps.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool::{OpenSteps, FileKind, open_steps_of};
use unspool_analyze::check::Checker;
use unspool_analyze::stats::Stats;
use unspool_astf::record::{Level, Storage};
use unspool_stf::builder::StfVersion;
use unspool_tarmac::lower::Style;
use unspool_tarmac::parse::ParseOptions;
use unspool_astf as astf;
use unspool_stf as stf;
use unspool_tarmac as tarmac;
use unspool_model::{
    BlockSink, Context, Coverage, Event, Losses, Security, SinkError, Step, StepSink, StepSource, TimeUnit,
};

/// More steps than this are not taken: a few bytes may be gigabytes.
const MOST: usize = 20_000;

/// How a file is read, and how its steps are written.
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

    /// Bit 3: the user vouches for a state of execution.
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

    /// Bit 5: Tarmac in the words of Fast Models.
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

/// What a source tells.
#[derive(Debug)]
pub struct Told {
    coverage: Coverage,
    unit: TimeUnit,
    steps: Vec<Step>,
}

impl Told {
    /// The first steps of a source, and whether it ends well.
    pub fn of(mut source: impl StepSource) -> (Self, bool) {
        let (coverage, unit, mut steps) = (source.coverage(), source.time_unit(), Vec::new());
        let end = source.each(&mut |step| {
            steps.push(step.clone());
            if steps.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Err(error) = &end {
            assert!(!error.to_string().is_empty());
        }
        (Self { coverage, unit, steps }, end.is_ok())
    }

    /// No more than its first steps.
    pub fn start(mut self, most: usize) -> Self {
        self.steps.truncate(most);
        self
    }

    /// The steps of the core that comes first.
    fn of_one_core(&self) -> Self {
        let core = self.steps.first().map(|step| step.core);
        let steps = self.steps.iter().filter(|step| Some(step.core) == core).cloned().collect();
        Self { steps, ..*self }
    }

    /// As STF.
    pub fn stf(&self, version: StfVersion) -> Option<Vec<u8>> {
        let options = stf::lower::LowerOptions { version };
        let mut lowerer = written(stf::lower::Lowerer::new(Vec::new(), self.coverage, self.unit, &options))?;
        self.lower(&mut lowerer).ok()?;
        assert!(lowerer.losses().is_empty(), "{}", lowerer.losses());
        Some(lowerer.into_sink())
    }

    /// As Tarmac, and what was lost.
    pub fn tarmac(&self, style: Style) -> Option<(Vec<u8>, Losses)> {
        let options = tarmac::lower::LowerOptions { style, disassemble: false };
        let mut lowerer = written(tarmac::lower::Lowerer::new(Vec::new(), self.coverage, self.unit, &options))?;
        self.lower(&mut lowerer).ok()?;
        let losses = lowerer.losses().clone();
        assert!(losses.iter().all(|(loss, _)| tarmac::lower::LOSSES.contains(&loss)), "{losses}");
        Some((lowerer.into_inner(), losses))
    }

    /// As records of ASTF, and what was lost.
    fn astf(&self, level: Option<Level>, assumed: Context, is_start: bool) -> Option<(Vec<astf::Bytes>, Losses)> {
        let options = astf::lower::LowerOptions { level, storage: Storage::Raw, assumed, ..Default::default() };
        let header = written(astf::lower::header(self.coverage, self.unit, &options))?;
        let sink = vec![header.to_bytes()];
        let mut lowerer = written(astf::lower::Lowerer::new(sink, &header, self.coverage, self.unit, &options))?;
        if let Err(end) = self.lower(&mut lowerer) {
            if end == 0 || is_start {
                return None;
            }
            // What comes before may be written.
            return Told { steps: self.steps[..end].to_vec(), ..*self }.astf(level, assumed, true);
        }
        let losses = lowerer.losses().clone();
        assert!(losses.iter().all(|(loss, _)| astf::lower::LOSSES.contains(&loss)), "{losses}");
        Some((lowerer.into_sink(), losses))
    }

    /// Writes all steps; or says how many there are before one that is refused.
    fn lower(&self, sink: &mut dyn StepSink) -> Result<(), usize> {
        for (index, step) in self.steps.iter().enumerate() {
            written(sink.push(step)).ok_or(index)?;
        }
        written(sink.finish()).ok_or(self.steps.len().saturating_sub(1))
    }
}

/// What of a step a block sink takes.
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
        if self.0.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// What is not written has a reason.
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

/// Holds the promises against these bytes.
pub fn check(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let choice = Choice(*choice);
    let Ok(source) = open_steps_of("file", Cursor::new(file.to_vec()), &choice.options()) else { return };
    let (told, ends_well) = Told::of(source);
    if let Ok(mut source) = open_steps_of("file", Cursor::new(file.to_vec()), &choice.options()) {
        let mut followed = Followed::default();
        assert_eq!(source.follow(&mut followed).is_ok(), ends_well);
        assert_eq!(followed.0, told.steps.iter().map(execution).collect::<Vec<_>>());
    }
    analyzed(&told);
    let one = told.of_one_core();
    if let Some((records, _)) = one.astf(Some(choice.level()), choice.assumed(), false) {
        assert_eq!(errors(&records), [""; 0]);
        assert!(Told::of(open(FileKind::Astf, records.as_flattened().to_vec())).1);
    }
    if choice.kind() == Some(FileKind::Astf) {
        returned(file, &told);
    }
    if let Some(bytes) = one.stf(choice.version()) {
        let (again, ends_well) = Told::of(open(FileKind::Stf, bytes));
        assert!(ends_well);
        let numberless = |step: &Step| (0, plain(step, false));
        same(&one, &again, numberless, |_| true);
    }
    if let Some((log, losses)) = told.tarmac(choice.style())
        && losses.is_empty()
    {
        let (again, ends_well) = Told::of(open(FileKind::Tarmac, log));
        assert!(ends_well);
        let numbered = |step: &Step| (step.core, plain(step, true));
        same(&told, &again, numbered, says_something);
    }
}

fn open(what: FileKind, file: Vec<u8>) -> impl StepSource {
    let options = OpenSteps { kind: Some(what), threads: Some(1), ..OpenSteps::default() };
    open_steps_of("written", Cursor::new(file), &options).expect("it was written")
}

/// Takes all steps.
fn analyzed(told: &Told) {
    let mut checker = Checker::new(told.coverage);
    let mut stats = Stats::new(|_, opcode| format!("{:x}", opcode >> 24));
    let mut found = |finding: unspool_analyze::check::Finding| assert!(!finding.detail.is_empty());
    for step in &told.steps {
        checker.step(step, &mut found);
        stats.step(step);
    }
    checker.finish(&mut found);
    let report = stats.finish();
    let instructions = told.steps.iter().filter(|step| step.event.instruction().is_some()).count();
    assert_eq!(report.all().instructions, instructions as u64);
}

/// A trace that breaks no rule is the same when its steps are written again. Of one that does, what it leaves open is
/// told, if it follows from the rest.
fn returned(file: &[u8], told: &Told) {
    let has_instructions = told.steps.iter().any(|step| step.event.instruction().is_some());
    if !has_instructions || !is_faultless(file) {
        return;
    }
    let (again, losses) = told.astf(None, Context::default(), true).expect("it was ASTF");
    assert!(losses.is_empty(), "{losses}");
    let (again, ends_well) = Told::of(open(FileKind::Astf, again.as_flattened().to_vec()));
    assert!(ends_well);
    same(told, &again, |step| (0, plain(step, false)), |_| true);
}

/// Every record is there, and none breaks a rule.
fn is_faultless(file: &[u8]) -> bool {
    let Ok(mut reader) = astf::read::Reader::in_place(file) else { return false };
    let mut records = vec![reader.header().to_bytes()];
    loop {
        match reader.next_records() {
            // Who writes refuses what these rules only warn of: an exception that leads to a lower level, and what stands
            // around a record that nobody knows.
            Ok([]) => {
                let odd = findings(&records, |rule| matches!(rule.name, "astf-trap-level" | "astf-unknown-record"));
                return errors(&records).is_empty() && odd.is_empty();
            }
            Ok(more) if records.len() < MOST => records.extend_from_slice(more),
            _ => return false,
        }
    }
}

/// The rules of ASTF that records break.
fn errors(records: &[astf::Bytes]) -> Vec<String> {
    findings(records, |rule| rule.severity == astf::check::Severity::Error)
}

/// What rules of a kind find.
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

/// The same steps of each core in the same order. Times may be counted in another unit.
fn same(told: &Told, again: &Told, plain: impl Fn(&Step) -> (u32, Step), says: impl Fn(&Step) -> bool) {
    assert_eq!(told.coverage, again.coverage);
    let is_cut = told.steps.len() == MOST || again.steps.len() == MOST;
    let by_core = |steps: &[Step]| {
        let mut steps: Vec<_> = steps.iter().filter(|step| says(step)).map(&plain).collect();
        steps.sort_by_key(|(core, _)| *core);
        steps
    };
    let (mut wanted, found) = (by_core(&told.steps), by_core(&again.steps));
    if told.unit != again.unit {
        let scale = |time| told.unit.convert(time, again.unit);
        wanted.iter_mut().for_each(|(_, step)| step.time = step.time.and_then(scale));
    }
    for (index, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        assert_eq!(wanted, found, "step {index}");
    }
    assert!(is_cut || wanted.len() == found.len(), "{:?}", wanted.get(found.len()).or(found.get(wanted.len())));
}

fn says_something(step: &Step) -> bool {
    step.event != Event::State || step.registers().len() > 0 || step.accesses().len() > 0
}

/// What a step says, but where, and of which core; and without bits that nobody knows. To Tarmac, data of which nothing
/// is known is no data.
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
