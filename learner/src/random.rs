//! Counter-based random numbers: a draw is a pure function of a key and a counter.
//!
//! Sampling must not depend on which rows share a batch or on how many threads run, so there is no
//! generator whose state could be advanced by somebody else. The mixing function is SplitMix64's
//! finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).

/// A stream of random numbers, addressed by counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Key {
        Key(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The stream for a numbered part of this one, independent of every other part.
    pub fn part(self, number: u64) -> Key {
        Key(mix(self.0.wrapping_add(mix(number.wrapping_add(0xd1b5_4a32_d192_ed03)))))
    }

    /// The stream for a named part of this one.
    pub fn named(self, name: &str) -> Key {
        name.bytes().fold(self.part(name.len() as u64), |key, byte| key.part(u64::from(byte)))
    }

    /// 64 random bits.
    pub fn bits(self, counter: u64) -> u64 {
        mix(self.0 ^ mix(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1)))
    }

    /// A number in [0, 1), with 53 random bits.
    pub fn uniform(self, counter: u64) -> f64 {
        (self.bits(counter) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number from the standard normal distribution (Box and Muller, 1958).
    pub fn normal(self, counter: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform(2 * counter)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(2 * counter + 1)).cos()
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn draws_are_uniform_and_streams_differ() {
        let key = Key::new(7);
        let draws: Vec<f64> = (0..40_000).map(|i| key.uniform(i)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.01, "mean {mean}");
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let shared = (0..1000).filter(|&i| key.part(1).bits(i) == key.part(2).bits(i)).count();
        assert_eq!(shared, 0);
        assert_ne!(key.named("x"), key.named("o"));
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let key = Key::new(3);
        let draws: Vec<f64> = (0..40_000).map(|i| key.normal(i)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
