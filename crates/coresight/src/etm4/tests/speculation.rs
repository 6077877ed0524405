//! Committed, canceled and surviving elements, one scenario per row.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::ete;
use crate::etm4::{Config, Speculation};
use crate::exception::ExceptionNumber;
use crate::{Atoms, Broken, Element, ElementError, ElementItem, Located, Malformed, SubIsa, Target, Transactions};

/// An element from its short form: `EEN`, `commit:2`, `addr:10`, `ts:5` ...
fn element(word: &str) -> Element {
    let (name, number) = word.split_once(':').unwrap_or((word, "0"));
    let number = u32::from_str_radix(number, 16).unwrap_or_else(|_| panic!("{word}"));
    let target = Target { address: u64::from(number), isa: SubIsa::Is0 };
    match name {
        "info" | "infot" => Element::TraceInfo {
            cycle_counting: false,
            cycle_threshold: 0,
            speculation: number,
            in_transaction: name == "infot",
        },
        "on" => Element::TraceOn,
        "discard" => Element::Discard,
        "overflow" => Element::Overflow,
        "commit" => Element::Commit(number),
        "cancel" => Element::Cancel(number),
        "mispredict" => Element::Mispredict,
        "q" => Element::Q { count: Some(number) },
        "irq" => Element::Exception { number: ExceptionNumber::etm4(14), address: Some(u64::from(number)) },
        "src" => Element::SourceAddress(target),
        "addr" => Element::TargetAddress(target),
        "start" => Element::TransactionStart,
        "success" => Element::TransactionCommit,
        "failure" => Element::TransactionFailure,
        "ts" => Element::Timestamp { value: u64::from(number), cycles: None },
        "cc" => Element::CycleCount(Some(number)),
        "event" => Element::Event { mask: number as u8 },
        "marker" => Element::TimestampMarker,
        "ite" => Element::Instrumentation { el: 0, value: u64::from(number) },
        atoms => {
            let bits = atoms.bytes().rev().fold(0, |bits, atom| bits << 1 | u32::from(atom == b'E'));
            assert!(atoms.bytes().all(|atom| matches!(atom, b'E' | b'N')), "{word}");
            Element::Atoms(Atoms::new(bits, atoms.len() as u8))
        }
    }
}

/// The short form of an item; that of the element is in the input.
fn word(item: &ElementItem, words: &[&str]) -> String {
    match item {
        Err(error) => format!("!{}", error.kind),
        Ok(Located { value: Element::Atoms(atoms), .. }) => atoms.to_string(),
        Ok(Located { offset, value, .. }) => {
            let word = words[*offset as usize];
            assert_eq!(*value, element(word));
            word.to_string()
        }
    }
}

fn resolved_words(config: &Config, transactions: Transactions, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut speculation = Speculation::new(config, transactions);
    let mut out = vec![];
    for (offset, word) in (0..).zip(&words) {
        let item = match *word {
            "damage" => Err(ElementError { offset, skipped: 1, kind: Broken::Packet(Malformed::ReservedHeader(8)) }),
            word => Ok(Located { offset, length: 1, value: element(word) }),
        };
        speculation.push(item, &mut |item| out.push(item));
    }
    speculation.finish(&mut |item| out.push(item));
    out.iter().map(|item| word(item, &words)).collect::<Vec<_>>().join(" ")
}

#[test]
fn scenarios_with_speculation() {
    let config = Config { max_speculation: 8, ..ete() };
    let rows: &[(&str, &str, &str)] = &[
        ("committed in order", "info on addr:10 E N commit:2", "info on addr:10 E N"),
        ("held back until committed", "info E addr:20 N", "info"),
        ("part of a run of atoms", "info EENE commit:2 N commit:3", "info EE NE N"),
        ("elements after the last committed one are released", "info E N commit:1 ts:1 commit:1", "info E N ts:1"),
        ("nothing speculative before it", "info ts:5 on addr:1", "info ts:5 on addr:1"),
        ("canceled back to the second branch", "info E N addr:9 E cancel:2 irq:20 commit:2", "info E irq:20"),
        ("part of a run canceled", "info EENE cancel:3 commit:1", "info E"),
        (
            "what survives a cancel, in order",
            "info E N ts:1 addr:5 cc:2 on event:3 mispredict marker ite:7 info E cancel:2 commit:1",
            "info E ts:1 cc:2 event:3 marker ite:7 info",
        ),
        ("a mispredict stays after its atom", "info E cancel:0 mispredict N commit:2", "info E mispredict N"),
        ("Q, exceptions and source addresses count", "info q:5 irq:9 src:8 E cancel:2 commit:2", "info q:5 irq:9"),
        (
            "discard drops speculative elements",
            "info E ts:1 cc:4 N discard on E commit:1",
            "info ts:1 cc:4 discard on E",
        ),
        ("overflow", "info E commit:1 N discard overflow info on N commit:1", "info E discard overflow info on N"),
        ("unseen elements are committed first", "info:2 E commit:2 N commit:2", "info:2 E N"),
        ("unseen elements wait", "info:1 ts:5 E commit:1", "info:1 ts:5"),
        ("the youngest are canceled first", "info:1 EN cancel:1 commit:2", "info:1 E"),
        ("canceled into the unseen", "info:2 EN ts:3 cancel:3 commit:1 E commit:1", "info:2 ts:3 E"),
        ("later trace infos change nothing", "info E info:7 N commit:2", "info E info:7 N"),
        (
            "committing what is not there",
            "info E commit:3 N commit:1",
            "info E !commit of 2 P0 elements that were never traced N",
        ),
        (
            "canceling what is not there",
            "info E cancel:3 N commit:1",
            "info !cancel of 2 P0 elements that were never traced or are committed N",
        ),
        (
            "damage drops speculative elements",
            "info E ts:4 damage info:1 N commit:2",
            "info ts:4 !reserved packet header 0x08 info:1 N",
        ),
    ];
    for (name, words, expected) in rows {
        assert_eq!(resolved_words(&config, Transactions::Resolve, words), *expected, "{name}");
    }
}

#[test]
fn scenarios_without_speculation() {
    let rows: &[(&str, &str, &str)] = &[
        ("all passes", "info on E addr:4 N mispredict ts:3", "info on E addr:4 N mispredict ts:3"),
        ("commits have no effect", "info E commit:1 N", "info E N"),
        (
            "a cancel is an error",
            "info E cancel:1",
            "info E !cancel of 1 P0 elements that were never traced or are committed",
        ),
    ];
    for (name, words, expected) in rows {
        assert_eq!(resolved_words(&ete(), Transactions::Resolve, words), *expected, "{name}");
    }
}

/// The four examples of the specification's section on transactions, and some more.
#[test]
fn scenarios_with_transactions() {
    let none = ete();
    let speculative = Config { max_speculation: 8, ..ete() };
    let rows: &[(&str, &Config, &str, &str)] = &[
        ("success", &none, "info on addr:20 E start E E success ts:1", "info on addr:20 E start E E success ts:1"),
        (
            "failure drops what was done",
            &none,
            "info on addr:20 E start N cc:5 E addr:30 ts:1 event:1 failure addr:24 E",
            "info on addr:20 E start cc:5 ts:1 event:1 failure addr:24 E",
        ),
        (
            "failure after cancels",
            &speculative,
            "info on addr:20 E start N E addr:30 cancel:2 failure addr:24 E commit:3",
            "info on addr:20 E start failure addr:24 E",
        ),
        (
            "the start itself is canceled",
            &speculative,
            "info E E start N E cancel:4 mispredict E commit:2",
            "info E mispredict E",
        ),
        (
            "success only when committed",
            &speculative,
            "info E start N commit:2 E success E commit:3",
            "info E start N E success E",
        ),
        ("tracing starts inside", &none, "infot E E failure N", "infot failure N"),
        ("tracing starts inside one that succeeds", &none, "infot E success N", "infot E success N"),
        (
            "only the first trace info starts one",
            &speculative,
            "info E start infot:2 cancel:1 N commit:2 ts:5",
            "info E infot:2 N ts:5",
        ),
        ("discard ends it", &none, "info start E discard failure on E", "info start discard failure on E"),
        ("never ends", &none, "info start E ts:2", "info start ts:2"),
    ];
    for (name, config, words, expected) in rows {
        assert_eq!(resolved_words(config, Transactions::Resolve, words), *expected, "{name}");
    }
}

#[test]
fn transactions_can_be_shown_as_they_come() {
    let words = "info E start N failure addr:24 E";
    assert_eq!(resolved_words(&ete(), Transactions::Show, words), words);
}

#[test]
fn a_transaction_start_that_is_not_p0_is_not_counted() {
    let config = Config { max_speculation: 8, transaction_start_not_p0: true, ..ete() };
    assert_eq!(resolved_words(&config, Transactions::Show, "info E start N cancel:1 commit:1"), "info E start");
}

#[test]
fn memory_is_bounded() {
    let config = Config { max_speculation: u32::MAX, ..ete() };
    for (config, words) in [(&config, ["info", "E"]), (&ete(), ["start", "E"])] {
        let mut speculation = Speculation::new(config, Transactions::Resolve);
        let mut reported = false;
        let mut push = |word: &str| {
            let item = Ok(Located { offset: 0, length: 1, value: element(word) });
            speculation.push(item, &mut |item: ElementItem| reported |= item.is_err());
        };
        push(words[0]);
        (0..70_000).for_each(|_| push(words[1]));
        assert!(reported, "{words:?}");
        assert!(speculation.outstanding() <= 70_000);
    }
}

/// Each cancel used to visit all survivors of the others, and 120 kB of such trace took more than a minute.
#[test]
fn cancels_do_not_visit_surviving_elements() {
    const MANY: usize = 60_000;
    let config = Config { max_speculation: u32::MAX, ..ete() };
    let rows = [
        ("before the first trace info", vec!["info:ffffffff"], "cancel:1"),
        ("after a speculative one", vec!["info", "E"], "mispredict"),
        ("between canceled ones", vec!["info", "E"], "E"),
    ];
    for (name, start, each) in rows {
        let events = vec!["event:1"; MANY];
        let cancels = [each, "cancel:1"].repeat(MANY / 2);
        let words = [start, events, cancels].concat();
        let out = resolved_words(&config, Transactions::Resolve, &words.join(" "));
        assert_eq!(out.matches("event:1").count(), MANY, "{name}");
    }
}

/// The specification's queue, taken literally and one atom at a time: slow, simple and independent of ours.
fn reference(words: &[&str]) -> Vec<String> {
    let mut queue: Vec<&str> = vec![];
    let mut out = vec![];
    let is_p0 = |word: &str| matches!(word, "E" | "N" | "q:1" | "irq:4");
    let survives = |word: &str| word.starts_with("ts") || word.starts_with("cc") || word.starts_with("event");
    for word in words {
        match word.split_once(':') {
            Some(("commit", count)) => {
                let mut left: u32 = count.parse().unwrap_or(0);
                while left > 0 && queue.iter().any(|word| is_p0(word)) {
                    let front = queue.remove(0);
                    left -= u32::from(is_p0(front));
                    out.push(front.to_string());
                }
            }
            Some(("cancel", count)) => {
                let mut left: u32 = count.parse().unwrap_or(0);
                while left > 0 && queue.iter().any(|word| is_p0(word)) {
                    let last = queue.iter().rposition(|word| !survives(word)).unwrap_or(0);
                    left -= u32::from(is_p0(queue.remove(last)));
                }
            }
            _ => queue.push(word),
        }
        while queue.first().is_some_and(|word| !is_p0(word)) {
            out.push(queue.remove(0).to_string());
        }
    }
    out.extend(queue.into_iter().filter(|word| survives(word)).map(ToString::to_string));
    out
}

proptest! {
    #[test]
    fn agrees_with_the_reference(words in prop::collection::vec(prop::sample::select(vec![
        "E", "N", "q:1", "irq:4", "ts:1", "cc:2", "event:1", "addr:8", "on", "mispredict",
        "commit:1", "commit:2", "commit:3", "cancel:1", "cancel:2", "cancel:3",
    ]), 0..60)) {
        let config = Config { max_speculation: 1000, ..ete() };
        let ours = resolved_words(&config, Transactions::Resolve, &words.join(" "));
        prop_assert_eq!(without_errors(ours), reference(&words));
    }
}

/// Errors are texts; the reference has none.
fn without_errors(text: String) -> Vec<String> {
    let text = (1..=3).fold(text, |text, count| {
        text.replace(&format!("!commit of {count} P0 elements that were never traced"), "")
            .replace(&format!("!cancel of {count} P0 elements that were never traced or are committed"), "")
    });
    text.split_whitespace().map(ToString::to_string).collect()
}
