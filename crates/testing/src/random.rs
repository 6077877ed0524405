//! Random numbers that are the same in every run.

/// xorshift64*. The state is never zero.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from any seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits; the upper ones are the better ones.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// Words that have these `bits` under this `mask`, and are random elsewhere.
    pub fn words(&mut self, count: usize, mask: u32, bits: u32) -> Vec<u32> {
        (0..count).map(|_| self.word() & !mask | bits).collect()
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 20) % limit
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Heads or tails.
    pub fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// The value, or nothing.
    pub fn maybe<T>(&mut self, value: T) -> Option<T> {
        self.flip().then_some(value)
    }
}
