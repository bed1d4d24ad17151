//! What a model is: the `config.json` of a Hugging Face directory, read strictly.
//!
//! An option that this decoder does not implement is refused by name; nothing is silently
//! approximated.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The shape of a Llama decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Rows of the embedding, and logits per position.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub feed_forward: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Most positions that the model is made for.
    pub context: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Added to the mean square before its root.
    pub norm_epsilon: f64,
    /// Whether the head is the embedding.
    pub tied_head: bool,
}

impl ModelConfig {
    /// Reads `config.json` of a model directory.
    pub fn from_dir(dir: &Path) -> Result<ModelConfig> {
        let path = dir.join("config.json");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("`{}` is not a model directory: cannot read config.json", dir.display())
        })?;
        let json = serde_json::from_str(&text)
            .with_context(|| format!("`{}` is not valid JSON", path.display()))?;
        ModelConfig::from_json(&json)
            .with_context(|| format!("cannot use the model of `{}`", path.display()))
    }

    /// Reads the parsed `config.json`.
    pub fn from_json(json: &Value) -> Result<ModelConfig> {
        refuse_unsupported(json)?;
        let hidden = required(json, "hidden_size")?;
        let heads = required(json, "num_attention_heads")?;
        ensure!(heads > 0, "`num_attention_heads` is 0");
        let config = ModelConfig {
            vocabulary: required(json, "vocab_size")?,
            hidden,
            feed_forward: required(json, "intermediate_size")?,
            layers: required(json, "num_hidden_layers")?,
            heads,
            kv_heads: optional(json, "num_key_value_heads")?.unwrap_or(heads),
            head_dim: optional(json, "head_dim")?.unwrap_or(hidden / heads),
            context: optional(json, "max_position_embeddings")?.unwrap_or(2048),
            rope_theta: rope_theta(json),
            norm_epsilon: json["rms_norm_eps"].as_f64().unwrap_or(1e-6),
            tied_head: json["tie_word_embeddings"].as_bool().unwrap_or(false),
        };
        config.check()?;
        Ok(config)
    }

    /// Query heads that share one key and value head.
    pub fn queries_per_kv(&self) -> usize {
        self.heads / self.kv_heads
    }

    fn check(&self) -> Result<()> {
        for (name, value) in [
            ("vocab_size", self.vocabulary),
            ("hidden_size", self.hidden),
            ("intermediate_size", self.feed_forward),
            ("num_hidden_layers", self.layers),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.context),
        ] {
            ensure!(value > 0 && value < 1 << 31, "`{name}` is {value}");
        }
        ensure!(
            self.heads.is_multiple_of(self.kv_heads),
            "`num_attention_heads` {} is not a multiple of `num_key_value_heads` {}",
            self.heads,
            self.kv_heads
        );
        ensure!(self.head_dim.is_multiple_of(2), "`head_dim` {} is odd", self.head_dim);
        ensure!(self.norm_epsilon > 0.0, "`rms_norm_eps` is {}", self.norm_epsilon);
        Ok(())
    }
}

fn refuse_unsupported(json: &Value) -> Result<()> {
    let model_type = json["model_type"].as_str().unwrap_or("missing");
    if model_type != "llama" {
        bail!("model_type `{model_type}` is not supported; supported: llama");
    }
    if let Some(act) = json["hidden_act"].as_str().filter(|act| *act != "silu") {
        bail!("hidden_act `{act}` is not supported; supported: silu");
    }
    for key in ["attention_bias", "mlp_bias"] {
        ensure!(json[key].as_bool() != Some(true), "`{key}: true` is not supported");
    }
    let rope_type = ["rope_scaling", "rope_parameters"]
        .iter()
        .find_map(|key| json[key]["rope_type"].as_str().or(json[key]["type"].as_str()));
    if let Some(rope_type) = rope_type.filter(|rope_type| *rope_type != "default") {
        bail!("rope_type `{rope_type}` is not supported; supported: default");
    }
    Ok(())
}

fn rope_theta(json: &Value) -> f64 {
    let nested = json["rope_parameters"]["rope_theta"].as_f64();
    json["rope_theta"].as_f64().or(nested).unwrap_or(10_000.0)
}

fn optional(json: &Value, key: &str) -> Result<Option<usize>> {
    match &json[key] {
        Value::Null => Ok(None),
        value => {
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            let number = number.with_context(|| format!("`{key}` is {value}, not a count"))?;
            Ok(Some(number))
        }
    }
}

fn required(json: &Value, key: &str) -> Result<usize> {
    optional(json, key)?.with_context(|| format!("`{key}` is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ModelConfig;

    fn small() -> serde_json::Value {
        json!({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2})
    }

    #[test]
    fn defaults_are_those_of_transformers() {
        let config = ModelConfig::from_json(&small()).unwrap();
        assert_eq!((config.head_dim, config.queries_per_kv(), config.tied_head), (8, 2, false));
        assert_eq!((config.rope_theta, config.norm_epsilon), (10_000.0, 1e-6));
    }

    #[test]
    fn what_is_not_implemented_is_refused_by_name() {
        for (key, value, told) in [
            ("model_type", json!("qwen3"), "qwen3"),
            ("hidden_act", json!("gelu"), "gelu"),
            ("attention_bias", json!(true), "attention_bias"),
            ("rope_scaling", json!({"rope_type": "llama3"}), "llama3"),
            ("num_key_value_heads", json!(3), "num_key_value_heads"),
            ("vocab_size", json!("many"), "vocab_size"),
        ] {
            let mut json = small();
            json[key] = value;
            let error = ModelConfig::from_json(&json).unwrap_err();
            assert!(format!("{error:#}").contains(told), "{error:#}");
        }
    }
}
