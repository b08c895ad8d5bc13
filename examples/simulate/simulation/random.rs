//! Numbers from a seed: the same on every machine and in every release, so that a seed in a document stays good.

/// SplitMix64 (Steele, Lea, Flood 2014). A stream of its own for each part of a cluster, so that a change in one part
/// leaves the others as they were.
pub(crate) struct Random(u64);

impl Random {
    /// The stream of `part` of the cluster with this seed.
    pub(crate) fn of(seed: u64, part: &str) -> Random {
        let hash = part.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash);
        r.next();
        r
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to, but not, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Alike in the logarithm: as many between 1 and 10 as between 10 and 100.
    pub(crate) fn decades(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Between events of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// One of these, each as often as its weight says.
    pub(crate) fn weighted<T: Clone>(&mut self, from: &[(T, f64)]) -> T {
        let mut left = self.unit() * from.iter().map(|f| f.1).sum::<f64>();
        for (value, weight) in from {
            left -= weight;
            if left < 0.0 {
                return value.clone();
            }
        }
        from[from.len() - 1].0.clone()
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}
