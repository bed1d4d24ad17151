//! The decoder against itself: padding, neighbours, cache, adapters, and files.

use crate::model::cache::Cache;
use crate::model::{Decoder, Extension, toy};
use crate::random::Key;

fn logits(decoder: &Decoder, tokens: &[u32], rows: usize) -> Vec<f32> {
    toy::numbers(decoder.logits(decoder.forward(tokens, rows)))
}

/// Trap 8: a row's logits depend neither on padding nor on the rows beside it.
#[test]
fn ragged_rows_in_a_batch_equal_rows_alone() {
    let decoder = toy::decoder(1);
    let rows: Vec<Vec<u32>> = [5, 9, 12, 1].map(|n| toy::tokens(n, Key::new(n as u64))).to_vec();
    let time = 14;
    let mut padded = vec![0; rows.len() * time];
    for (row, tokens) in rows.iter().enumerate() {
        padded[row * time..row * time + tokens.len()].copy_from_slice(tokens);
    }
    let together = logits(&decoder, &padded, rows.len());
    for (row, tokens) in rows.iter().enumerate() {
        let alone = logits(&decoder, tokens, 1);
        let start = row * time * toy::VOCABULARY;
        assert!(toy::gap(&alone, &together[start..start + alone.len()]) < 1e-5);
    }
}

/// Rows of different lengths, extended in uneven pieces, out of slot order, give what one pass
/// gives.
#[test]
fn decoding_with_the_cache_equals_prefill() {
    let decoder = toy::decoder(2);
    let rows: Vec<Vec<u32>> = [10, 7].map(|n| toy::tokens(n, Key::new(n as u64))).to_vec();
    let mut cache = Cache::new(&decoder.config, 3, 12, &decoder.embedding.device());
    let slots = [2, 0];
    let pieces: [[usize; 2]; 4] = [[4, 1], [1, 3], [2, 2], [3, 1]];
    let mut starts = [0, 0];
    for lengths in pieces {
        let piece = |row: usize| &rows[row][starts[row]..starts[row] + lengths[row]];
        let tokens = [piece(0), piece(1)];
        let extension = Extension { slots: &slots, starts: &starts, tokens: &tokens };
        let found = toy::numbers(decoder.logits(decoder.extend(&mut cache, &extension)));
        for row in 0..2 {
            starts[row] += lengths[row];
            let whole = logits(&decoder, &rows[row][..starts[row]], 1);
            let last = &whole[whole.len() - toy::VOCABULARY..];
            let found = &found[row * toy::VOCABULARY..(row + 1) * toy::VOCABULARY];
            assert!(toy::gap(last, found) < 1e-5, "row {row} at {starts:?}");
        }
    }
}

/// A slot's next owner sees nothing of the last one.
#[test]
fn a_slot_can_be_used_again() {
    let decoder = toy::decoder(3);
    let mut cache = Cache::new(&decoder.config, 1, 12, &decoder.embedding.device());
    let mut extend = |tokens: &[u32]| {
        let rows = Extension { slots: &[0], starts: &[0], tokens: &[tokens] };
        toy::numbers(decoder.logits(decoder.extend(&mut cache, &rows)))
    };
    let short = toy::tokens(4, Key::new(1));
    let before = extend(&short);
    extend(&toy::tokens(11, Key::new(2)));
    assert_eq!(extend(&short), before);
}

/// Trap 26: a new adapter changes nothing, a trained one is what merging gives, and without it the
/// decoder is the reference again.
#[test]
fn adapters_start_silent_and_merge_exactly() {
    let base = toy::decoder(4);
    let tokens = toy::tokens(9, Key::new(4));
    let mut adapted = base.clone();
    adapted.adapt(3, 6.0, Key::new(5));
    assert_eq!(logits(&adapted, &tokens, 1), logits(&base, &tokens, 1));
    let trained: Vec<String> = adapted
        .parameters()
        .into_iter()
        .filter(|parameter| parameter.trained)
        .map(|parameter| parameter.name)
        .collect();
    assert_eq!(trained.len(), 2 * 7 * 2, "A and B of seven maps in two layers");
    for (index, parameter) in adapted.parameters().into_iter().enumerate() {
        if parameter.name.ends_with(".lora_B") {
            let dims = parameter.tensor.dims();
            *parameter.tensor = toy::random(dims, Key::new(6).part(index as u64), 0.3);
        }
    }
    let changed = logits(&adapted, &tokens, 1);
    assert!(toy::gap(&changed, &logits(&base, &tokens, 1)) > 0.1);
    assert!(toy::gap(&changed, &logits(&adapted.merged(), &tokens, 1)) < 1e-4);
    assert_eq!(logits(&adapted.base(), &tokens, 1), logits(&base, &tokens, 1));
}

#[test]
fn what_is_saved_loads_as_the_same_numbers() {
    let mut decoder = toy::decoder(7);
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({"model_type": "llama", "vocab_size": 24, "hidden_size": 16,
        "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
        "rope_theta": 100.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": false});
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    decoder.save(dir.path()).unwrap();
    let mut loaded = Decoder::load(dir.path(), &decoder.embedding.device()).unwrap();
    assert_eq!(loaded.config, decoder.config);
    for (loaded, saved) in loaded.parameters().into_iter().zip(decoder.parameters()) {
        assert_eq!(loaded.name, saved.name);
        assert_eq!(toy::numbers(loaded.tensor.clone()), toy::numbers(saved.tensor.clone()));
    }
}
