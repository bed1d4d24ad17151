//! One draw from a row of logits. Pure: the random number comes in, the id and its log-probability
//! come out.

/// A sampled id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The id.
    pub token: u32,
    /// Natural logarithm of its probability under the distribution that was drawn from.
    pub logprob: f32,
}

/// Draws from `softmax(logits / temperature)` over the allowed ids, by inversion of its cumulative
/// sum.
///
/// `logits: [vocabulary]`; `allowed` is ascending, none for the whole vocabulary; `uniform` in [0,
/// 1). At temperature 0 the likeliest id is taken, the lowest of equals, with probability 1.
pub fn draw(logits: &[f32], temperature: f32, allowed: Option<&[u32]>, uniform: f64) -> Draw {
    match allowed {
        Some(allowed) => {
            let kept: Vec<f32> = allowed.iter().map(|&id| logits[id as usize]).collect();
            let draw = draw_index(&kept, temperature, uniform);
            Draw { token: allowed[draw.token as usize], ..draw }
        }
        None => draw_index(logits, temperature, uniform),
    }
}

fn draw_index(logits: &[f32], temperature: f32, uniform: f64) -> Draw {
    let likeliest = likeliest(logits);
    if temperature == 0.0 {
        return Draw { token: likeliest as u32, logprob: 0.0 };
    }
    let (top, temperature) = (f64::from(logits[likeliest]), f64::from(temperature));
    let weight = |logit: f32| ((f64::from(logit) - top) / temperature).exp();
    let total: f64 = logits.iter().map(|&logit| weight(logit)).sum();
    let mut left = uniform * total;
    // Rounding can leave a remainder behind the last id: then the likeliest one stands.
    let mut token = likeliest;
    for (index, &logit) in logits.iter().enumerate() {
        left -= weight(logit);
        if left < 0.0 {
            token = index;
            break;
        }
    }
    let logprob = (f64::from(logits[token]) - top) / temperature - total.ln();
    Draw { token: token as u32, logprob: logprob as f32 }
}

fn likeliest(logits: &[f32]) -> usize {
    let better =
        |best: usize, index: usize| if logits[index] > logits[best] { index } else { best };
    (1..logits.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::random::Key;

    #[test]
    fn frequencies_and_logprobs_are_those_of_the_tempered_softmax() {
        let logits = [0.0f32, 1.0, 2.0, -1.0];
        let temperature = 0.7;
        let weights = logits.map(|logit| f64::from(logit / temperature).exp());
        let total: f64 = weights.iter().sum();
        let key = Key::new(1);
        let mut counts = [0usize; 4];
        for i in 0..200_000 {
            let drawn = draw(&logits, temperature, None, key.uniform(i));
            let token = drawn.token as usize;
            counts[token] += 1;
            assert!((f64::from(drawn.logprob) - (weights[token] / total).ln()).abs() < 1e-6);
        }
        for (count, weight) in counts.iter().zip(weights) {
            assert!((*count as f64 / 200_000.0 - weight / total).abs() < 5e-3, "{counts:?}");
        }
    }

    /// Trap 7: the log-probability is that of the distribution over the allowed ids.
    #[test]
    fn constrained_draws_renormalise_over_the_allowed_ids() {
        let logits = [5.0f32, 1.0, 9.0, 1.0];
        for i in 0..100 {
            let drawn = draw(&logits, 1.0, Some(&[1, 3]), Key::new(2).uniform(i));
            assert!(drawn.token == 1 || drawn.token == 3);
            assert!((drawn.logprob - 0.5f32.ln()).abs() < 1e-6);
        }
        assert_eq!(draw(&logits, 1.0, Some(&[0]), 0.99).logprob, 0.0);
    }

    #[test]
    fn the_ends_of_the_unit_interval_draw_the_first_and_last_id() {
        let logits = [0.0f32; 8];
        assert_eq!(draw(&logits, 1.0, None, 0.0).token, 0);
        assert_eq!(draw(&logits, 1.0, None, 1.0 - f64::EPSILON / 2.0).token, 7);
        assert_eq!(draw(&[1.0, 3.0, 3.0], 0.0, None, 0.9).token, 1);
    }
}
