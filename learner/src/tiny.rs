//! The built-in policy: an ordinary Hugging Face directory of a small Llama, made from a seed.
//!
//! It knows nothing yet, but it is a model like any other: what works on it works on a downloaded
//! one, and it needs no download. The same seed gives the same bytes. Training it is others'
//! business.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::{AddedToken, Tokenizer};

use crate::random::Key;
use crate::weights::{NamedTensor, write, write_directory};

/// Tokens: the special ones, all 256 bytes, and what [`CORPUS`] joins most often.
const VOCABULARY: usize = 512;
/// Width of the residual stream.
const HIDDEN: usize = 64;
/// Width of the feed-forward layers.
const FEED_FORWARD: usize = 192;
/// Number of blocks.
const LAYERS: usize = 2;
/// Query heads.
const HEADS: usize = 4;
/// Key and value heads.
const KV_HEADS: usize = 2;
/// Width of a head.
const HEAD_DIM: usize = 16;
/// The most positions.
const CONTEXT: usize = 512;
/// Base of the rotary frequencies. Small, so that all frequencies tell the positions of a short
/// conversation apart: with the usual 10 000 most of them hardly turn over a game's 80 tokens, two
/// boards look alike, and GRPO settles on moves that lose every eighth game to minimax.
const ROPE_THETA: f64 = 100.0;
/// Standard deviation of the embedding, which is also the head: `1 / √HIDDEN`, as for the other
/// matrices. With GPT-2's 0.02 the first answers are closer to uniform, but logits grow so
/// slowly that GRPO learns later.
const EMBEDDING_DEVIATION: f64 = 0.125;

/// The special tokens, in the order of their ids.
const SPECIAL_TOKENS: [&str; 6] = [PAD, END, "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"];
const PAD: &str = "<|pad|>";
const END: &str = "<|end|>";
const PAD_ID: usize = 0;
const END_ID: usize = 1;

/// Plain sentences of the sort that environments write; what is frequent here becomes one token.
/// Digits stand alone in it, so that no two of them ever join.
const CORPUS: &str = include_str!("tiny/corpus.txt");
const CHAT_TEMPLATE: &str = include_str!("tiny/chat_template.jinja");

/// Writes the policy of this seed as a new model directory.
///
/// # Errors
/// When the directory exists or the disk refuses; then nothing is left behind.
pub fn create(dir: &Path, seed: u64) -> Result<()> {
    write_directory(dir, |dir| {
        let tokenizer = tokenizer().map_err(|error| anyhow!("cannot make a tokenizer: {error}"))?;
        let json = [
            ("config.json", config()),
            ("generation_config.json", generation_config()),
            ("tokenizer_config.json", tokenizer_config()),
        ];
        let json = json.map(|(name, value)| (name, format!("{value:#}\n")));
        let texts = [("tokenizer.json", tokenizer), ("chat_template.jinja", CHAT_TEMPLATE.into())];
        for (name, text) in json.into_iter().chain(texts) {
            std::fs::write(dir.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        write_weights(dir, seed)
    })
    .with_context(|| format!("cannot make the tiny policy in `{}`", dir.display()))
}

fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": CONTEXT,
        "rope_theta": ROPE_THETA,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "attention_bias": false,
        "mlp_bias": false,
        "tie_word_embeddings": true,
        "initializer_range": EMBEDDING_DEVIATION,
        "torch_dtype": "float32",
        "bos_token_id": null,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
    })
}

fn generation_config() -> Value {
    json!({ "do_sample": true, "eos_token_id": END_ID, "pad_token_id": PAD_ID })
}

fn tokenizer_config() -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": false,
    })
}

/// A byte-level BPE tokenizer of GPT-2's kind, learnt from [`CORPUS`], as `tokenizer.json`.
fn tokenizer() -> tokenizers::Result<String> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, false, true)));
    tokenizer.with_decoder(Some(ByteLevel::new(false, false, true)));
    let special = SPECIAL_TOKENS.map(|token| AddedToken::from(token, true));
    let trainer = BpeTrainerBuilder::new()
        .vocab_size(VOCABULARY)
        .special_tokens(special.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .show_progress(false)
        .build();
    tokenizer.train(&mut TrainerWrapper::from(trainer), CORPUS.lines())?;
    tokenizer.to_string(true)
}

fn write_weights(dir: &Path, seed: u64) -> Result<()> {
    let key = Key::new(seed).named("tiny");
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = parameters()
        .into_iter()
        .map(|(name, shape, deviation)| {
            let count: usize = shape.iter().product();
            let key = key.named(&name);
            let numbers = (0..count as u64).map(|index| match deviation {
                Some(deviation) => (key.normal(index) * deviation) as f32,
                None => 1.0,
            });
            let numbers = numbers.collect();
            (name, shape, numbers)
        })
        .collect();
    let named: Vec<NamedTensor<'_>> = tensors
        .iter()
        .map(|(name, shape, numbers)| (name.clone(), shape.clone(), numbers.as_slice()))
        .collect();
    Ok(write(dir, &named)?)
}

/// The name, the shape and the standard deviation of every parameter; norms have none and are 1.
///
/// A matrix keeps the variance of what it multiplies, and those that write to the residual stream
/// share it among themselves (Radford et al., "Language Models are Unsupervised Multitask
/// Learners", 2019).
fn parameters() -> Vec<(String, Vec<usize>, Option<f64>)> {
    let shared = (2.0 * LAYERS as f64).sqrt().recip();
    let matrix = |rows: usize, columns: usize, scale: f64| {
        (vec![rows, columns], Some(scale / (columns as f64).sqrt()))
    };
    let norm = || (vec![HIDDEN], None);
    let embedding = (vec![VOCABULARY, HIDDEN], Some(EMBEDDING_DEVIATION));
    let mut parameters = vec![
        ("model.embed_tokens.weight".to_owned(), embedding),
        ("model.norm.weight".to_owned(), norm()),
    ];
    for layer in 0..LAYERS {
        let of_layer = [
            ("input_layernorm", norm()),
            ("self_attn.q_proj", matrix(HEADS * HEAD_DIM, HIDDEN, 1.0)),
            ("self_attn.k_proj", matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.0)),
            ("self_attn.v_proj", matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.0)),
            ("self_attn.o_proj", matrix(HIDDEN, HEADS * HEAD_DIM, shared)),
            ("post_attention_layernorm", norm()),
            ("mlp.gate_proj", matrix(FEED_FORWARD, HIDDEN, 1.0)),
            ("mlp.up_proj", matrix(FEED_FORWARD, HIDDEN, 1.0)),
            ("mlp.down_proj", matrix(HIDDEN, FEED_FORWARD, shared)),
        ];
        let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
        parameters.extend(of_layer.map(|(part, parameter)| (name(part), parameter)));
    }
    parameters.into_iter().map(|(name, (shape, deviation))| (name, shape, deviation)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::{END_ID, PAD_ID, SPECIAL_TOKENS, VOCABULARY, create};
    use crate::chat::tests::tiny_chat;

    fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
        let read = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        };
        std::fs::read_dir(dir).unwrap().map(|entry| read(entry.unwrap())).collect()
    }

    #[test]
    fn a_seed_gives_the_same_bytes_and_another_seed_other_weights() {
        let home = tempfile::tempdir().unwrap();
        let [one, again, other] = [("a", 1), ("b", 1), ("c", 2)].map(|(name, seed)| {
            create(&home.path().join(name), seed).unwrap();
            files(&home.path().join(name))
        });
        assert!(one == again);
        assert_ne!(one["model.safetensors"], other["model.safetensors"]);
        assert!(one["tokenizer.json"] == other["tokenizer.json"]);
        let error = create(&home.path().join("a"), 1).unwrap_err();
        assert!(format!("{error:#}").contains("exists"), "{error:#}");
    }

    #[test]
    fn games_are_few_tokens() {
        let tokenizer = &tiny_chat().tokenizer;
        let pieces = |text: &str| -> Vec<String> {
            let ids = tokenizer.encode(text).unwrap();
            ids.into_iter().map(|id| tokenizer.token_text(id).unwrap()).collect()
        };
        let board = "1 2 3\n4 o 6\nx 8 9";
        let cells = ["1", " 2", " 3", "\n", "4", " o", " 6", "\n", "x", " 8", " 9"];
        assert_eq!(pieces(board), cells);
        // One token for each word and mark is the least that GPT-2's splitting allows.
        let rule = pieces("Tic-tac-toe, you are x. Answer with a free cell.");
        assert_eq!(rule.len(), 16, "{rule:?}");
        for digit in "0123456789".chars() {
            assert_eq!(pieces(&format!(" {digit}{digit}")), [format!(" {digit}"), digit.into()]);
        }
    }

    #[test]
    fn ids_fill_the_vocabulary_and_every_byte_has_one() {
        let tokenizer = &tiny_chat().tokenizer;
        assert_eq!(tokenizer.vocabulary(), VOCABULARY);
        assert_eq!(tokenizer.stop_ids(), [END_ID as u32]);
        for (id, token) in SPECIAL_TOKENS.iter().enumerate() {
            assert_eq!(tokenizer.encode(token).unwrap(), [id as u32]);
        }
        assert_eq!(tokenizer.token_text(PAD_ID as u32).as_deref(), Some("<|pad|>"));
        let all: String = (0..=255u8).map(char::from).collect();
        assert_eq!(tokenizer.decode(&tokenizer.encode(&all).unwrap()).unwrap(), all);
    }

    #[test]
    fn the_template_speaks_of_tools() {
        use crate::conversation::{Message, Role, Tool, ToolCall};
        let tool = Tool {
            name: "add".into(),
            description: "Adds.".into(),
            parameters: r#"{"type": "object"}"#.into(),
        };
        let call = ToolCall { id: "1".into(), name: "add".into(), arguments: r#"{"a": 1}"#.into() };
        let messages = [
            Message::new(Role::User, "1+1"),
            Message { tool_calls: vec![call], ..Message::assistant("so") },
            Message::new(Role::Tool, "2"),
        ];
        let expected = "<|system|>Tools: [{\"type\": \"function\", \"function\": \
                        {\"name\": \"add\", \"description\": \"Adds.\", \
                        \"parameters\": {\"type\": \"object\"}}}]<|end|>\
                        <|user|>1+1<|end|><|assistant|>so<tool_call>{\"name\": \"add\", \
                        \"arguments\": {\"a\": 1}}</tool_call><|end|><|tool|>2<|end|><|assistant|>";
        let text = tiny_chat().template.render(&messages, &[tool], true).unwrap();
        assert_eq!(text, expected);
    }
}
