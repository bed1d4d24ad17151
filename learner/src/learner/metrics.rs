//! What an update did, as numbers to write and to look at; nothing reads them back to steer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one rollout's groups did to the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateMetrics {
    /// The version that came out.
    pub policy_version: u64,
    /// Groups that came in.
    pub groups: usize,
    /// Of them, those in which every attempt earned the same: they teach nothing.
    pub groups_zero_variance: usize,
    /// Trajectories left out, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Rows learnt from.
    pub rows: usize,
    /// Tokens of these rows.
    pub tokens: usize,
    /// Tokens that the loss was computed on.
    pub scored_tokens: usize,
    /// The mean loss over the steps.
    pub loss: f64,
    /// Mean entropy of the sampled distributions, in nats, as the mean of −log p of what was
    /// sampled.
    pub entropy: f64,
    /// Mean k3 divergence from the reference policy where the loss has one, else from the sampling
    /// one.
    pub kl: f64,
    /// Share of tokens whose gradient the clip cut off.
    pub clip_fraction: f64,
    /// The largest probability ratio.
    pub ratio_max: f64,
    /// Mean norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Of the last step.
    pub learning_rate: f64,
    /// The largest difference between a log-probability as sampled and as the unchanged policy
    /// scores it.
    pub sampler_gap_max: f64,
    /// Wall time of the update.
    pub seconds: f64,
}

/// What a supervised warm start did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmStartMetrics {
    /// Expert rows learnt from.
    pub rows: usize,
    /// Answer tokens in them.
    pub scored_tokens: usize,
    /// Steps taken.
    pub steps: u64,
    /// Mean loss of the first pass over the data, in nats per token.
    pub loss_first: f64,
    /// Mean loss of the last pass.
    pub loss_last: f64,
    /// Wall time.
    pub seconds: f64,
}
