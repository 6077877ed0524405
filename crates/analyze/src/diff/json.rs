//! Findings and the summary of a comparison as JSON lines.

use unspool_model::Loss;
use unspool_model::json::Object;

use super::{Ending, Finding, Site, SkipReason, Summary};

/// Writes a finding as a JSON line; `units` are the keys of positions in the two traces.
pub fn write_finding(finding: &Finding, units: [&str; 2], line: &mut String) {
    let mut object = Object::new(line);
    match finding {
        Finding::Skipped { reason, skipped, at } => {
            object.string("kind", "skipped").string("why", reason_name(*reason));
            object.plain("a_instructions", skipped[0]).plain("b_instructions", skipped[1]);
            put_sites(&mut object, units, [at[0].as_ref(), at[1].as_ref()]);
        }
        Finding::Diverged { around, apart } => {
            object.string("kind", "diverged").flag("joins_again", apart.is_some());
            object.optional("a_instructions", apart.map(|apart| apart[0]));
            object.optional("b_instructions", apart.map(|apart| apart[1]));
            put_sites(&mut object, units, [around.here[0].first(), around.here[1].first()]);
        }
        Finding::Differs { facet, name, values, around } => {
            object.string("kind", "differs").string("facet", facet.name()).string("what", name);
            object.string("a_value", &values[0]).string("b_value", &values[1]);
            put_sites(&mut object, units, [around.here[0].first(), around.here[1].first()]);
        }
    }
    object.end_line();
}

/// Writes the summary as a JSON line.
pub fn write_summary(summary: &Summary, names: [&str; 2], units: [&str; 2], line: &mut String) {
    let mut object = Object::summary(line, "diff");
    object.string("a", names[0]).string("b", names[1]);
    let is_readable = summary.not_in_steps.iter().all(|losses| losses.of(Loss::Unreadable).count == 0);
    object.flag("clean", summary.is_clean() && is_readable).flag("identical", summary.is_clean());
    object.plain("differences", summary.differences);
    object
        .string("ending", ending_name(summary.ending))
        .plain("common", summary.common)
        .plain("in_loops", summary.in_loops);
    let counts = [
        ("instructions", summary.instructions),
        ("before", summary.before),
        ("after", summary.after),
        ("gaps", summary.gaps),
        ("in_gaps", summary.in_gaps),
        ("islands", summary.islands),
        ("attempted", summary.attempted),
    ];
    for (name, [a, b]) in counts {
        object.plain(&format!("a_{name}"), a).plain(&format!("b_{name}"), b);
    }
    for (unit, (key, losses)) in
        units.iter().zip(["a_not_compared", "b_not_compared"].iter().zip(&summary.not_in_steps))
    {
        object.list(key, losses.iter(), |text, (loss, lost)| {
            let mut object = Object::nested(text);
            object.string("what", loss.name()).plain("count", lost.count).plain(unit, lost.first);
            object.close_nested();
        });
    }
    for (key, damage) in ["a_damage", "b_damage"].iter().zip(&summary.damage) {
        if let Some(damage) = damage {
            object.string(key, damage);
        }
    }
    object.list("facets", summary.facets.iter(), |text, facet| {
        let tally = summary.tally(facet);
        let mut object = Object::nested(text);
        object.string("facet", facet.name()).plain("compared", tally.compared).plain("equal", tally.equal());
        object.plain("different", tally.different).plain("only_a", tally.only[0]).plain("only_b", tally.only[1]);
        object.close_nested();
    });
    object.end_line();
}

/// Adds the positions in both traces.
fn put_sites(object: &mut Object<'_>, units: [&str; 2], sites: [Option<&Site>; 2]) {
    for ((letter, unit), site) in ["a", "b"].iter().zip(units).zip(sites) {
        let Some(site) = site else { continue };
        object.plain(&format!("{letter}_{unit}"), site.position);
        object.plain(&format!("{letter}_number"), site.number);
        object.hex(&format!("{letter}_address"), site.instruction.address);
        if let Some(opcode) = site.instruction.opcode {
            object.hex(&format!("{letter}_opcode"), u64::from(opcode));
        }
    }
}

fn reason_name(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Start => "start",
        SkipReason::End => "end",
        SkipReason::Gap(_) => "gap",
        SkipReason::Island => "island",
        SkipReason::Attempted => "attempted",
    }
}

fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Complete => "complete",
        Ending::Stopped => "stopped",
        Ending::Diverged => "diverged",
    }
}
