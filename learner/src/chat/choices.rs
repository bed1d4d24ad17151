//! Constrained answers: which tokens may come next where an answer is one of several texts.
//!
//! Knows nothing of logits: it says what is allowed, and the sampler takes from that.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::chat::tokenizer::Tokenizer;

/// The token sequences of all choices, each followed by the stop id.
#[derive(Clone, Debug)]
pub struct ChoiceTrie {
    /// The first is the root.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    children: BTreeMap<u32, usize>,
    /// The children's ids, ascending.
    allowed: Vec<u32>,
}

impl ChoiceTrie {
    /// Tokenises the choices as answers of their own.
    ///
    /// # Errors When a choice does not survive its own tokens or holds a stop id, so that no answer
    /// could be it.
    pub fn new(tokenizer: &Tokenizer, choices: &[String]) -> Result<ChoiceTrie> {
        ensure!(!choices.is_empty(), "there is no choice to choose from");
        let mut trie = ChoiceTrie { nodes: vec![Node::default()] };
        for choice in choices {
            let tokens = tokenizer.encode(choice)?;
            let text = tokenizer.decode(&tokens)?;
            ensure!(
                text == *choice,
                "the choice {choice:?} cannot be answered: the policy's tokens make it {text:?}"
            );
            let stop_ids = tokenizer.stop_ids();
            ensure!(
                !tokens.iter().any(|token| stop_ids.contains(token)),
                "the choice {choice:?} cannot be answered: it holds a token that ends an answer"
            );
            trie.insert(tokens.iter().chain(&stop_ids[..1]));
        }
        for node in &mut trie.nodes {
            node.allowed = node.children.keys().copied().collect();
        }
        Ok(trie)
    }

    fn insert<'a>(&mut self, path: impl Iterator<Item = &'a u32>) {
        let mut node = 0;
        for token in path {
            let new = self.nodes.len();
            node = *self.nodes[node].children.entry(*token).or_insert(new);
            if node == new {
                self.nodes.push(Node::default());
            }
        }
    }

    /// The ids that may follow those sampled so far, ascending; none after a stop id or off the
    /// choices.
    pub fn allowed(&self, prefix: &[u32]) -> &[u32] {
        let mut node = &self.nodes[0];
        for token in prefix {
            match node.children.get(token) {
                Some(child) => node = &self.nodes[*child],
                None => return &[],
            }
        }
        &node.allowed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    use super::ChoiceTrie;
    use crate::chat::tests::tiny_chat;

    fn trie(choices: &[&str]) -> anyhow::Result<ChoiceTrie> {
        let choices: Vec<String> = choices.iter().map(|choice| choice.to_string()).collect();
        ChoiceTrie::new(&tiny_chat().tokenizer, &choices)
    }

    #[test]
    fn a_choice_that_begins_another_may_stop_or_go_on() {
        let tokenizer = &tiny_chat().tokenizer;
        let id = |text: &str| tokenizer.encode(text).unwrap()[0];
        let stop = tokenizer.stop_ids()[0];
        let sorted = |mut ids: Vec<u32>| {
            ids.sort_unstable();
            ids
        };
        let trie = trie(&["1", "12", "3", "3"]).unwrap();
        assert_eq!(trie.allowed(&[]), sorted(vec![id("1"), id("3")]));
        assert_eq!(trie.allowed(&[id("1")]), sorted(vec![id("2"), stop]));
        assert_eq!(trie.allowed(&[id("3")]), [stop]);
        assert_eq!(trie.allowed(&[id("3"), stop]), [0; 0]);
        assert_eq!(trie.allowed(&[id("2")]), [0; 0]);
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        assert!(trie(&[]).is_err());
        let error = trie(&["1", "<|end|>"]).unwrap_err().to_string();
        assert!(error.contains("ends an answer"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Any walk through what is allowed ends, and says one of the choices.
        #[test]
        fn every_walk_says_a_choice(
            choices in prop::collection::vec("[a-c1é ]{1,4}", 1..6),
            turns in prop::collection::vec(any::<prop::sample::Index>(), 32),
        ) {
            let tokenizer = &tiny_chat().tokenizer;
            let trie = ChoiceTrie::new(tokenizer, &choices).unwrap();
            let mut sampled = vec![];
            for turn in turns {
                let allowed = trie.allowed(&sampled);
                if allowed.is_empty() {
                    break;
                }
                prop_assert!(allowed.is_sorted());
                sampled.push(allowed[turn.index(allowed.len())]);
            }
            prop_assert_eq!(sampled.pop(), Some(tokenizer.stop_ids()[0]));
            let said = tokenizer.decode(&sampled).unwrap();
            prop_assert!(choices.contains(&said), "{:?}", said);
        }
    }
}
