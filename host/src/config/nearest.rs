//! The known word nearest to one that was mistyped, for error messages.

/// The candidate that was most likely meant; none when nothing is near.
///
/// Dotted keys match by their last part too, so that `group_size` finds `rollout.group_size`.
pub fn nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let closeness = |candidate: &str| {
        let last = candidate.rsplit('.').next().unwrap_or(candidate);
        let whole = strsim::jaro_winkler(typed, candidate);
        let typed_last = typed.rsplit('.').next().unwrap_or(typed);
        whole.max(0.97 * strsim::jaro_winkler(typed_last, last))
    };
    candidates
        .map(|candidate| (candidate, closeness(candidate)))
        .filter(|(_, score)| *score > 0.75)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(candidate, _)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_what_was_meant_and_nothing_where_nothing_is_near() {
        let keys = ["run.seed", "rollout.group_size", "grpo.learning_rate", "eval.episodes"];
        let find = |typed| nearest(typed, keys.into_iter());
        assert_eq!(find("rollout.groupsize"), Some("rollout.group_size"));
        assert_eq!(find("group_size"), Some("rollout.group_size"));
        assert_eq!(find("seed"), Some("run.seed"));
        assert_eq!(find("grpo.lerning_rate"), Some("grpo.learning_rate"));
        assert_eq!(find("qqqq"), None);
    }
}
