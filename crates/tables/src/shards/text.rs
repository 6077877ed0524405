//! Shards, and what is known of them, as JSON: it goes from one process to another.
//!
//! Text that another process wrote may be anything: what does not describe a shard is an error.

use serde_json::{Map, Value, json};
use unspool::{CaptureShard, Carried, ShardEnd};

use super::{Assembled, Counted, Shard, Start};
use crate::Error;
use crate::extract::{CoreState, Gaps, Source};

/// A value that is described by text.
pub trait Text: Sized {
    /// The text.
    fn to_text(&self) -> String;

    /// The value that a text describes.
    ///
    /// # Errors
    ///
    /// If it describes none.
    fn from_text(text: &str) -> Result<Self, Error>;
}

impl<T: Described> Text for T {
    fn to_text(&self) -> String {
        self.describe().to_string()
    }

    fn from_text(text: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(text).map_err(|_| Error::NoShard)?;
        value.as_object().and_then(Self::described).ok_or(Error::NoShard)
    }
}

/// A value that is a JSON object.
pub trait Described: Sized {
    /// The object.
    fn describe(&self) -> Value;

    /// The value that an object is.
    fn described(object: &Map<String, Value>) -> Option<Self>;
}

impl Described for Shard {
    fn describe(&self) -> Value {
        json!({ "source": self.source, "points": self.part.as_ref().map(CaptureShard::to_numbers) })
    }

    fn described(object: &Map<String, Value>) -> Option<Self> {
        let part = match object.get("points")? {
            Value::Null => None,
            points => {
                let numbers = |point: &Value| point.as_array()?.iter().map(Value::as_u64).collect();
                let numbers: Vec<Vec<u64>> = points.as_array()?.iter().map(numbers).collect::<Option<_>>()?;
                Some(CaptureShard::from_numbers(&numbers)?)
            }
        };
        Some(Self { source: number(object, "source")?, part })
    }
}

impl Described for Counted {
    fn describe(&self) -> Value {
        let ShardEnd { shards, carried, is_other_buffer } = &self.end;
        json!({
            "source": self.source,
            "shards": shards,
            "carried": of_carried(carried),
            "is_other_buffer": is_other_buffer,
            "state": of_state(&self.state),
            "sources": self.sources.iter().map(of_source).collect::<Vec<_>>(),
            "gaps": self.gaps.count,
            "damaged": self.gaps.damaged,
            "first_damage": self.gaps.first_damage,
        })
    }

    fn described(object: &Map<String, Value>) -> Option<Self> {
        let end = ShardEnd {
            shards: number(object, "shards"),
            carried: carried(object.get("carried")?.as_object()?),
            is_other_buffer: object.get("is_other_buffer")?.as_bool()?,
        };
        let gaps = Gaps {
            count: number(object, "gaps")?,
            damaged: number(object, "damaged")?,
            first_damage: number(object, "first_damage"),
        };
        let state = state(object.get("state")?.as_object()?)?;
        Some(Self { source: number(object, "source")?, end, state, sources: sources(object)?, gaps })
    }
}

impl Described for Start {
    fn describe(&self) -> Value {
        json!({
            "shard": self.shard,
            "source": self.source,
            "is_first": self.is_first,
            "state": of_state(&self.state),
            "carried": of_carried(&self.carried),
        })
    }

    fn described(object: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            shard: number(object, "shard")?,
            source: number(object, "source")?,
            is_first: object.get("is_first")?.as_bool()?,
            state: state(object.get("state")?.as_object()?)?,
            carried: carried(object.get("carried")?.as_object()?),
        })
    }
}

impl Described for Assembled {
    fn describe(&self) -> Value {
        json!({
            "starts": self.starts.iter().map(Start::describe).collect::<Vec<_>>(),
            "sources": self.sources.iter().map(of_source).collect::<Vec<_>>(),
        })
    }

    fn described(object: &Map<String, Value>) -> Option<Self> {
        let starts = object.get("starts")?.as_array()?.iter().map(|start| Start::described(start.as_object()?));
        Some(Self { starts: starts.collect::<Option<_>>()?, sources: sources(object)? })
    }
}

/// A number, if it is one that fits.
fn number<T: TryFrom<u64>>(object: &Map<String, Value>, name: &str) -> Option<T> {
    T::try_from(object.get(name)?.as_u64()?).ok()
}

fn of_carried(Carried { time, timestamp }: &Carried) -> Value {
    json!({ "time": time, "timestamp": timestamp })
}

fn carried(object: &Map<String, Value>) -> Carried {
    Carried { time: number(object, "time"), timestamp: number(object, "timestamp") }
}

fn of_state(CoreState { count, process, thread }: &CoreState) -> Value {
    json!({ "count": count, "process": process, "thread": thread })
}

fn state(object: &Map<String, Value>) -> Option<CoreState> {
    let (process, thread) = (number(object, "process"), number(object, "thread"));
    Some(CoreState { count: number(object, "count")?, process, thread })
}

fn of_source(Source { name, core, instructions, time_unit, problem }: &Source) -> Value {
    json!({ "name": name, "core": core, "instructions": instructions, "time_unit": time_unit, "problem": problem })
}

fn sources(object: &Map<String, Value>) -> Option<Vec<Source>> {
    let text = |source: &Map<String, Value>, name: &str| Some(source.get(name)?.as_str()?.to_string());
    let source = |value: &Value| {
        let value = value.as_object()?;
        Some(Source {
            name: text(value, "name")?,
            core: number(value, "core")?,
            instructions: number(value, "instructions")?,
            time_unit: text(value, "time_unit"),
            problem: text(value, "problem"),
        })
    };
    object.get("sources")?.as_array()?.iter().map(source).collect()
}
