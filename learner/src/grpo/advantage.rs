//! How much better than its group an attempt was.

use serde::{Deserialize, Serialize};

/// What a deviation from the group's mean is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advantage {
    /// By the group's standard deviation, as in GRPO.
    GroupStd,
    /// By nothing, as in Dr. GRPO (Liu et al., 2025): groups with little spread count less.
    GroupMean,
}

/// Keeps the quotient of a group with hardly any spread finite.
const STD_EPSILON: f64 = 1e-6;

/// The advantages of one agent's attempts at one task.
///
/// A reward that is missing or not finite (the episode failed) neither has an advantage nor counts
/// in the mean. The standard deviation is the unbiased one (n − 1). Attempts that earned the same,
/// or a single one, have advantage exactly 0.
pub fn advantages(rewards: &[Option<f64>], advantage: Advantage) -> Vec<Option<f64>> {
    let scored = |reward: &Option<f64>| reward.filter(|reward| reward.is_finite());
    let kept: Vec<f64> = rewards.iter().filter_map(scored).collect();
    let spread = spread(&kept);
    let of = |reward: f64| match (spread, advantage) {
        (None, _) => 0.0,
        (Some((mean, _)), Advantage::GroupMean) => reward - mean,
        (Some((mean, std)), Advantage::GroupStd) => (reward - mean) / (std + STD_EPSILON),
    };
    rewards.iter().map(|reward| scored(reward).map(of)).collect()
}

/// Mean and unbiased standard deviation, in two passes; none where all are equal.
fn spread(rewards: &[f64]) -> Option<(f64, f64)> {
    if rewards.iter().all(|reward| *reward == rewards[0]) {
        return None;
    }
    let count = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / count;
    let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Advantage, advantages};

    fn of(rewards: &[f64]) -> Vec<f64> {
        let rewards: Vec<Option<f64>> = rewards.iter().copied().map(Some).collect();
        advantages(&rewards, Advantage::GroupStd).into_iter().map(Option::unwrap).collect()
    }

    /// Trap 1: rounding of a mean of equal rewards must not become an advantage.
    #[test]
    fn zero_variance_group_has_advantage_exactly_zero() {
        for reward in [0.1f32, 0.95] {
            assert_eq!(of(&[f64::from(reward); 8]), [0.0; 8]);
        }
    }

    /// Trap 2: one attempt that stands out stays within √(n − 1) deviations.
    #[test]
    fn nearly_uniform_groups_stay_small() {
        let mut rewards = [0.95; 8];
        rewards[0] = 0.0;
        assert!(of(&rewards).iter().all(|advantage| advantage.abs() < 2.7));
        let expected = [1.5, -0.5, -0.5, -0.5];
        for (found, expected) in of(&[1.0, 0.0, 0.0, 0.0]).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    /// Trap 3: unbiased deviation, ε = 1e-6, a group of one learns nothing.
    #[test]
    fn deviation_is_unbiased_with_documented_epsilon() {
        let found = of(&[1.0, 1.00001]);
        assert!((found[0] + 0.6196).abs() < 1e-3 && (found[1] - 0.6196).abs() < 1e-3, "{found:?}");
        assert_eq!(of(&[3.0]), [0.0]);
        assert_eq!(advantages(&[], Advantage::GroupStd), []);
    }

    /// Trap 4: failed attempts are not zeros.
    #[test]
    fn failed_attempts_are_left_out_of_the_mean() {
        let with = [Some(1.0), Some(0.0), Some(f64::NAN), None];
        for kind in [Advantage::GroupStd, Advantage::GroupMean] {
            let without = advantages(&with[..2], kind);
            let found = advantages(&with, kind);
            assert_eq!((&found[..2], &found[2..]), (&without[..], &[None, None][..]));
        }
    }

    #[test]
    fn group_mean_keeps_the_unit_of_the_reward() {
        let found = advantages(&[Some(1.0), Some(0.0)], Advantage::GroupMean);
        assert_eq!(found, [Some(0.5), Some(-0.5)]);
    }

    proptest! {
        #[test]
        fn advantages_sum_to_zero_and_keep_order(
            rewards in proptest::collection::vec(-5.0f64..5.0, 2..12),
        ) {
            let found = of(&rewards);
            prop_assert!(found.iter().sum::<f64>().abs() < 1e-6);
            for (a, b) in (0..rewards.len()).zip(1..rewards.len()) {
                prop_assert!((rewards[a] - rewards[b]) * (found[a] - found[b]) >= 0.0);
            }
        }
    }
}
