//! Draws that depend on the task and on nothing else, so that an episode replays bit for bit.
//!
//! A draw is a pure function of where it is used, not of how many draws came before: asking the
//! expert for advice does not change what the opponent plays.

/// What a draw is for: draws of different uses are independent.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// The opponent's move.
    Opponent = 1,
    /// The expert's choice among equally good moves.
    Expert = 2,
}

/// The key of a task: everything that tells it from others, mixed into one number.
pub fn key(split: &str, index: u64, seed: u64) -> u64 {
    let named = split.bytes().fold(0, |key, byte| mix(key, u64::from(byte)));
    mix(mix(named, index), seed)
}

/// A number below `bound`, which is not 0, for this use at this move of the game.
pub fn draw(key: u64, purpose: Use, moves: usize, bound: usize) -> usize {
    let bits = mix(mix(key, purpose as u64), moves as u64);
    ((u128::from(bits) * bound as u128) >> 64) as usize
}

/// One round of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014) with `value` added to the state.
fn mix(state: u64, value: u64) -> u64 {
    let mut z = state.wrapping_add(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Use, draw, key};

    #[test]
    fn every_field_of_a_task_changes_its_key() {
        let base = key("train", 3, 7);
        assert_ne!(base, key("eval", 3, 7));
        assert_ne!(base, key("train", 7, 3));
        assert_ne!(base, key("train", 3, 8));
    }

    #[test]
    fn draws_are_even_and_in_range() {
        let mut counts = [0_u32; 9];
        for task in 0..9_000 {
            counts[draw(key("train", task, 0), Use::Opponent, 1, 9)] += 1;
        }
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }
}
