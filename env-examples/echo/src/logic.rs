//! Repeating words. Pure and without dependencies: the host's benchmark compiles this very file
//! natively, to tell what the sandbox costs. Knows nothing of the contract's records.

/// An episode in progress.
#[derive(Debug)]
pub struct Echo {
    /// What the words are drawn from; every observation changes it.
    state: u64,
    /// The word to repeat; every observation changes it.
    word: String,
    /// The least length of an observation in bytes; never changes.
    bytes: usize,
}

impl Echo {
    /// Begins with this seed, and returns the first observation.
    pub fn start(seed: u64, bytes: usize) -> (Echo, String) {
        let mut echo = Echo { state: seed, word: String::new(), bytes };
        let observation = echo.observe();
        (echo, observation)
    }

    /// Takes an answer, and returns the next observation and whether the answer was right.
    pub fn step(&mut self, answer: &str) -> (String, bool) {
        let matched = answer.trim() == self.word;
        (self.observe(), matched)
    }

    /// The word to repeat now.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Draws the next word and writes it out, padded with dots to the length asked for.
    fn observe(&mut self) -> String {
        const RULE: &str = "Repeat this word: ";
        // One round of splitmix64; its bits give four lower-case letters.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.word.clear();
        self.word.extend((1..5).map(|letter| (b'a' + (bits >> (letter * 12)) as u8 % 26) as char));
        let length = RULE.len() + self.word.len();
        let mut observation = String::with_capacity(self.bytes.max(length + 1));
        observation.push_str(RULE);
        observation.push_str(&self.word);
        if self.bytes > length {
            observation.push('\n');
            observation.push_str(&".".repeat(self.bytes - length - 1));
        }
        observation
    }
}

#[cfg(test)]
mod tests {
    use super::Echo;

    #[test]
    fn the_word_is_in_the_observation_and_only_it_matches() {
        let (mut echo, observation) = Echo::start(7, 0);
        assert_eq!(observation, format!("Repeat this word: {}", echo.word()));
        let word = echo.word().to_owned();
        assert!(word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
        assert!(echo.step(&format!(" {word}\n")).1);
        assert!(!echo.step(&word).1);
    }

    #[test]
    fn observations_are_padded_to_the_length() {
        for bytes in [22, 23, 24, 1024] {
            let (mut echo, observation) = Echo::start(1, bytes);
            assert_eq!(observation.len(), bytes);
            assert_eq!(echo.step("").0.len(), bytes);
        }
    }
}
