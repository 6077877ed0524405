//! A trace that comes through a pipe, for two who count.
//!
//! pipe ─▶ pieces ─┬─▶ what the format says itself
//!                 └─▶ steps
//!
//! Whoever stops reading gets no more pieces, and does not keep the other one waiting.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use unspool::What;

use super::Args;
use crate::astf::{Astf, is_standard};
use crate::file::Opened;
use crate::stf::Stf;
use crate::tarmac::Tarmac;

/// A trace to count, twice if it counts by itself.
pub(super) struct Both {
    /// `None`: it is damaged before the first record; that was told.
    pub(super) trace: Option<Opened>,
    /// The same for steps; `None`: it can be opened again.
    pub(super) again: Option<Opened>,
}

/// Opens a pipe.
pub(super) fn open(args: &Args) -> anyhow::Result<Both> {
    let (name, input): (_, Box<dyn Read + Send>) = match is_standard(&args.file) {
        true => ("standard input".to_string(), Box::new(io::stdin())),
        false => {
            let name = args.file.display().to_string();
            let file = File::open(&args.file).with_context(|| name.clone())?;
            (name, Box::new(file))
        }
    };
    let (mut what, input) = What::peek(input).with_context(|| name.clone())?;
    if args.tarmac.is_said() {
        what = What::Tarmac;
    }
    match what {
        What::Stf | What::Tarmac => {
            let [one, other] = tee(Box::new(input))?;
            let Some(trace) = of(args, &name, what, one)? else { return Ok(Both { trace: None, again: None }) };
            Ok(Both { trace: Some(trace), again: of(args, &name, what, other)? })
        }
        _ => {
            let trace =
                Astf::of(&name, Box::new(input), None, args.threads(), Some(args.tarmac.hint))?.map(Opened::Astf);
            Ok(Both { trace, again: None })
        }
    }
}

fn of(args: &Args, name: &str, what: What, half: Half) -> anyhow::Result<Option<Opened>> {
    match what {
        What::Stf => Ok(Stf::of(name, Box::new(half), args.threads())?.map(Opened::Stf)),
        _ => Ok(Some(Opened::Tarmac(Tarmac::of(name, Box::new(half), &args.tarmac)?))),
    }
}

/// Bytes of a piece, and pieces that may wait for each.
const PIECE: usize = 64 << 10;
const WAITING: usize = 16;

/// Makes two streams of one.
fn tee(mut input: Box<dyn Read + Send>) -> anyhow::Result<[Half; 2]> {
    let [(one_way, one), (other_way, other)] = [sync_channel(WAITING), sync_channel(WAITING)];
    let work = move || {
        let mut ways: Vec<SyncSender<Piece>> = vec![one_way, other_way];
        while !ways.is_empty() {
            let piece = read(&mut input);
            let is_last = !matches!(&piece, Ok(bytes) if !bytes.is_empty());
            ways.retain(|way| way.send(piece.clone()).is_ok());
            if is_last {
                break;
            }
        }
    };
    thread::Builder::new().name("tee".into()).spawn(work).context("cannot start a thread")?;
    Ok([one, other].map(|pieces| Half { pieces, piece: Arc::new(Vec::new()), at: 0 }))
}

/// Bytes, none at the end; or why there are no more.
type Piece = Result<Arc<Vec<u8>>, (io::ErrorKind, String)>;

fn read(input: &mut impl Read) -> Piece {
    let mut bytes = Vec::new();
    match input.take(PIECE as u64).read_to_end(&mut bytes) {
        Ok(_) => Ok(Arc::new(bytes)),
        Err(error) => Err((error.kind(), error.to_string())),
    }
}

/// One of two streams with the same bytes.
struct Half {
    pieces: Receiver<Piece>,
    piece: Arc<Vec<u8>>,
    at: usize,
}

impl Read for Half {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            // Behind the last piece there are no more, however often it is asked.
            match self.pieces.recv() {
                Ok(Ok(piece)) => (self.piece, self.at) = (piece, 0),
                Ok(Err((kind, text))) => return Err(io::Error::new(kind, text)),
                Err(_) => return Ok(0),
            }
        }
        let read = (&self.piece[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
