//! Counts branch outcomes: atoms are what a trace unit emits for branches.

use std::error::Error;
use std::io::{Write, stdout};

use unspool::coresight::{Element, ElementItem, Transactions};
use unspool::{Trace, capture::Capture};

fn main() -> Result<(), Box<dyn Error>> {
    let capture = Capture::open("examples/hello-ete")?;
    for trace in Trace::all(&capture) {
        let mut atoms = 0;
        let mut count = |item: ElementItem| {
            if let Ok(Element::Atoms(some)) = item.map(|element| element.value) {
                atoms += some.count();
            }
        };
        // The second part of the pair is a `Watch`: progress, lost frames, the wish to stop.
        trace.committed(Transactions::Resolve, &mut (&mut count, ()))?;
        writeln!(stdout(), "{}: {atoms} atoms", trace.source().name)?;
    }
    Ok(())
}
