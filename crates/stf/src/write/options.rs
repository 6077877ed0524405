//! Options for writing a file in any storage.

/// Options for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteOptions {
    /// Number of threads that compress chunks of .zstf or blocks of .xz.
    pub threads: usize,
    /// Compression level; see [`CompressOptions::level`](unspool_container::CompressOptions::level). .zstf is
    /// compressed with zstd.
    pub level: Option<u32>,
    /// Number of instructions, or transactions, of a chunk of a .zstf file.
    pub chunk_markers: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            level: None,
            chunk_markers: 100_000,
        }
    }
}
