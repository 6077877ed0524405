//! Tables: their names, columns and types.
//!
//! One place for what readers of the files rely on. A change of a column is a new [`VERSION`].

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// Version of the schema. It is in the metadata of every file.
pub const VERSION: u32 = 1;

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Executed straight-line code: one row for each execution of a block.
    Blocks,
    /// The code that was executed: one row for each instruction of it.
    Instructions,
    /// Calls of functions, each when it ended.
    Calls,
    /// Loads and stores.
    Accesses,
    /// Exceptions, contexts, gaps, notes.
    Events,
    /// What was traced: cores, and sources of a capture.
    Sources,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 6] =
        [Self::Sources, Self::Blocks, Self::Instructions, Self::Calls, Self::Accesses, Self::Events];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Instructions => "instructions",
            Self::Calls => "calls",
            Self::Accesses => "accesses",
            Self::Events => "events",
            Self::Sources => "sources",
        }
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        use DataType::{Binary, Boolean, Int64, UInt8, UInt32, UInt64, Utf8};
        let place: &[Column] = &[
            ("source", UInt32, false),
            ("process", UInt64, true),
            ("thread", UInt64, true),
            ("sequence", Int64, false),
            ("time", UInt64, true),
        ];
        let own: &[Column] = match self {
            Self::Blocks => &[
                ("address", UInt64, false),
                ("instructions", UInt32, false),
                ("taken", Boolean, true),
                ("cycles", UInt64, true),
                ("code", UInt32, false),
            ],
            Self::Instructions => &[
                ("code", UInt32, false),
                ("address", UInt64, false),
                ("number", UInt32, false),
                ("size", UInt8, false),
                ("isa", Utf8, false),
                ("opcode", UInt32, true),
                ("text", Utf8, true),
                ("function", Utf8, true),
                ("function_offset", UInt64, true),
                ("file", Utf8, true),
                ("line", UInt32, true),
                ("image", Utf8, true),
            ],
            Self::Calls => &[
                ("end_sequence", Int64, false),
                ("end_time", UInt64, true),
                ("call", UInt64, false),
                ("last_call", UInt64, false),
                ("address", UInt64, false),
                ("function", Utf8, true),
                ("caller_address", UInt64, true),
                ("caller", Utf8, true),
                ("began", Utf8, false),
                ("ended", Utf8, false),
                ("has_gap", Boolean, false),
                ("own_instructions", UInt64, false),
                ("total_instructions", UInt64, false),
            ],
            Self::Accesses => &[
                ("instruction", UInt64, true),
                ("direction", Utf8, false),
                ("address", UInt64, false),
                ("size", UInt64, false),
                ("value", UInt64, true),
                ("data", Binary, true),
            ],
            Self::Events => &[
                ("position", UInt64, false),
                ("kind", Utf8, false),
                ("name", Utf8, true),
                ("address", UInt64, true),
                ("target", UInt64, true),
                ("master", UInt32, true),
                ("channel", UInt32, true),
                ("text", Utf8, true),
            ],
            Self::Sources => &[
                ("source", UInt32, false),
                ("name", Utf8, false),
                ("core", UInt32, false),
                ("instructions", UInt64, false),
                ("time_unit", Utf8, true),
                ("problem", Utf8, true),
            ],
        };
        let has_place = !matches!(self, Self::Instructions | Self::Sources);
        let fields = place.iter().filter(|_| has_place).chain(own);
        let fields: Vec<Field> = fields.map(|(name, kind, null)| Field::new(*name, kind.clone(), *null)).collect();
        Arc::new(Schema::new(fields))
    }
}

/// Name, type, and whether the value may be missing.
type Column = (&'static str, DataType, bool);
