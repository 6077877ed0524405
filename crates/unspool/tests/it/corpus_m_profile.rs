//! ETMv4 trace of microcontrollers in the corpus, compared with the reference decoder: ranges, exceptions and their returns,
//! contexts and times, in order.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use unspool::capture::Capture;
use unspool::coresight::{Context, ProcessorMode, Security, Transactions};
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{Program, Trace, Watch};
use unspool_testing::corpus;

use super::fixtures::assert_same;

const SNAPSHOTS: [&str; 2] = ["v7m_svc", "v8m_svc"];

/// The flow of a program in the words of the reference.
#[derive(Default)]
struct Lines(Vec<String>);

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let (isa, outcome) = (range.isa().name().to_uppercase(), if range.taken() { "E" } else { "N" });
            let (start, end, length) = (range.start(), range.end(), range.last().length);
            self.0.push(format!("R {start:x} {end:x} {} {length} {isa} {outcome}", range.instructions()));
        }
    }

    fn item(&mut self, item: FlowItem) {
        let line = match item.map(|item| item.value) {
            Ok(Item::TraceOn) => "TRACE_ON".into(),
            Ok(Item::Context(context)) => format!("PE_CONTEXT {}", mode(&context)),
            Ok(Item::Exception { number, return_address: Some(address) }) => {
                format!("EXCEPTION {number:#04x} {} {address:x}", number.name().unwrap())
            }
            Ok(Item::ExceptionReturn) => "EXCEPTION_RET".into(),
            Ok(Item::Timestamp { value, .. }) => format!("TIMESTAMP {value:x}"),
            Ok(Item::Discard { .. } | Item::End) => return,
            other => panic!("{other:?}"),
        };
        self.0.push(line);
    }
}

impl Watch for Lines {}

/// The reference shows the modes of the M profile as Exception levels.
fn mode(context: &Context) -> String {
    let level = match context.mode() {
        Some(ProcessorMode::Thread) => "EL0",
        Some(ProcessorMode::Handler) => "EL3",
        None => "none",
    };
    format!("{level}{}", if context.security == Security::Secure { "S" } else { "N" })
}

fn their_line(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let after = |text: &str, key: &str| text.split_once(key)?.1.split([';', ' ', ')', ']']).next().map(str::to_string);
    Some(match fields[..] {
        ["R", start, end, count, length, isa, outcome, ..] => {
            format!("R {start} {end} {count} {length} {isa} {outcome}")
        }
        ["TRACE_ON", ..] => "TRACE_ON".into(),
        ["PE_CONTEXT", text] => format!("PE_CONTEXT {}", after(text, "(ISA=T32) ")?),
        ["EXCEPTION", text] => {
            let name = if text.contains("excep num (0x0b)") { "SVC" } else { "?" };
            format!("EXCEPTION {} {name} {}", after(text, "excep num (")?, after(text, "pref ret addr:0x")?)
        }
        ["EXCEPTION_RET", ..] => "EXCEPTION_RET".into(),
        ["TIMESTAMP", text] => format!("TIMESTAMP {}", after(text, "TS=0x")?.trim_start_matches('0')),
        ["NO_SYNC" | "EO_TRACE", ..] => return None,
        _ => panic!("{line}"),
    })
}

fn theirs(path: &Path) -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().filter_map(their_line).collect()
}

#[test]
fn flow_agrees_with_the_reference() {
    let Some(corpus) = corpus("coresight") else { return };
    for name in SNAPSHOTS {
        let path = corpus.join(name);
        let capture = Capture::open(&path).unwrap();
        let [trace] = Trace::all(&capture)[..] else { panic!("{name} has one source") };
        let (program, _) = Program::of(&capture, trace.source().core, &[]);
        let mut ours = Lines::default();
        trace.flow(Transactions::Show, &program, &mut ours).unwrap();
        assert_same(name, &ours.0, &theirs(&path.join("expected/s0.6.txt.gz")));
        assert_eq!(ours.0.len(), 10, "{name}");
    }
}
