//! Counts branch outcomes: atoms are what a trace unit emits for branches.

use unspool::coresight::{Element, ElementItem, Transactions};
use unspool::{Trace, capture::Capture};

fn main() -> Result<(), unspool::Error> {
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
        println!("{}: {atoms} atoms", trace.source().name);
    }
    Ok(())
}
