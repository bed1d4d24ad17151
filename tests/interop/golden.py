"""Makes the golden files that the decoder is held against: logits and gradients by transformers.

Run it in an environment with torch, transformers, safetensors and numpy (versions as in the files'
metadata); the files it writes are committed, so only a change of this script needs a new run:

    python tests/interop/golden.py tests/golden

For each of `llama-tied` (grouped-query attention 4/2 heads, head_dim 12 that is not hidden_size / heads,
tied head) and `llama-untied` (4/4 heads, head_dim 8, own head, another rope_theta) the folder holds

- `config.json`, `model.safetensors`: an ordinary Hugging Face model directory, f32; `llama-untied`'s config is
  written as transformers 4 did (`rope_theta`, `torch_dtype`), `llama-tied`'s as transformers 5 does
  (`rope_parameters`, `dtype`): readers meet both;
- `golden.safetensors`, with T the longest row, B the rows, V the vocabulary:
    input_ids        i64 [B, T]      right-padded with id 0, which also occurs as an ordinary token
    attention_mask   i64 [B, T]      1 where a token stands
    position_ids     i64 [B, T]      0, 1, 2, … from each row's first token; 0 in the padding
    logits           f32 [B, T, V]   exactly 0 where attention_mask is 0
    logprobs         f32 [B, T]      natural log-probability of input_ids[b, t] given the tokens before it;
                                     0 at t = 0 and in the padding
    loss             f32 [1]         −mean of logprobs over all positions t ≥ 1 that hold a token
    grad/NAME        f32, as NAME    the gradient of `loss` for the parameter NAME, for each NAME of GRADIENTS
    left/input_ids, left/attention_mask, left/position_ids, left/logits
                                     the same rows padded on the left; left/logits is 0 in the padding
    step/logits      f32 [T1, V]     logits of row 0 decoded one token at a time with the key-value cache
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

GRADIENTS = [
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.1.mlp.down_proj.weight",
    "model.layers.1.input_layernorm.weight",
    "model.norm.weight",
]

SHARED = dict(
    vocab_size=64,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
CONFIGS = {
    "llama-tied": dict(
        intermediate_size=80,
        num_key_value_heads=2,
        head_dim=12,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    ),
    "llama-untied": dict(
        intermediate_size=64,
        num_key_value_heads=4,
        head_dim=8,
        rope_theta=500.0,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
    ),
}
LENGTHS = [13, 1, 7, 10]


def model_of(name: str, seed: int) -> transformers.LlamaForCausalLM:
    config = transformers.LlamaConfig(**SHARED, **CONFIGS[name], attn_implementation="eager")
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config).float().eval()
    # torch drops the padding id's gradient, also where that id stands as an ordinary token.
    model.model.embed_tokens.padding_idx = None
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            # Far larger than a trained model's start, so that softmax and norms are far from
            # linear.
            if "norm" in parameter_name:
                parameter.copy_(1.0 + 0.2 * torch.randn_like(parameter))
            else:
                parameter.copy_(0.25 * torch.randn_like(parameter))
    return model


def padded(rows: list[torch.Tensor], left: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    longest = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    positions = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        start = longest - len(row) if left else 0
        ids[index, start : start + len(row)] = row
        mask[index, start : start + len(row)] = 1
        positions[index, start : start + len(row)] = torch.arange(len(row))
    return ids, mask, positions


def golden_of(model: transformers.LlamaForCausalLM, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(0, SHARED["vocab_size"], (n,), generator=generator) for n in LENGTHS]
    rows[0][3] = 0  # the padding id, as a token like any other
    ids, mask, positions = padded(rows, left=False)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
    scored = logits.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1)
    scored = scored * mask[:, 1:]
    loss = -scored.sum() / mask[:, 1:].sum()
    loss.backward()
    named = dict(model.named_parameters())
    logprobs = torch.zeros(ids.shape)
    logprobs[:, 1:] = scored.detach()
    golden = {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": positions,
        "logits": logits.detach() * mask[..., None],
        "logprobs": logprobs,
        "loss": loss.detach()[None],
    }
    golden |= {f"grad/{name}": named[name].grad.detach().clone() for name in GRADIENTS}
    with torch.no_grad():
        left = padded(rows, left=True)
        out = model(input_ids=left[0], attention_mask=left[1], position_ids=left[2]).logits
        golden |= dict(zip(["left/input_ids", "left/attention_mask", "left/position_ids"], left))
        golden["left/logits"] = out * left[1][..., None]
        cache, steps = None, []
        for token in rows[0]:
            out = model(input_ids=token[None, None], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            steps.append(out.logits[0, 0])
        golden["step/logits"] = torch.stack(steps)
    check(golden, rows)
    return golden


def check(golden: dict[str, torch.Tensor], rows: list[torch.Tensor]) -> None:
    """What must hold among transformers' own answers, or the golden file would teach an error."""
    for index, row in enumerate(rows):
        right = golden["logits"][index, : len(row)]
        left = golden["left/logits"][index, -len(row) :]
        assert (right - left).abs().max() < 1e-4, f"row {index}: padding sides differ"
    assert (golden["step/logits"] - golden["logits"][0]).abs().max() < 1e-4
    for name, tensor in golden.items():
        assert tensor.is_floating_point() is False or tensor.isfinite().all(), name
        assert not name.startswith("grad/") or tensor.abs().max() > 1e-4, f"{name} is zero"


def write_config_as_transformers_4(path: Path) -> None:
    config = json.loads(path.read_text())
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = None
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    assert transformers.LlamaConfig.from_json_file(path).rope_parameters["rope_theta"] == 500.0


def main() -> None:
    out = Path(sys.argv[1])
    metadata = {"torch": torch.__version__, "transformers": transformers.__version__}
    for seed, name in enumerate(CONFIGS):
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        model = model_of(name, seed)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        if name == "llama-untied":
            write_config_as_transformers_4(folder / "config.json")
        golden = {key: value.contiguous() for key, value in golden_of(model, 100 + seed).items()}
        save_file(golden, folder / "golden.safetensors", metadata=metadata)
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        print(name, json.dumps(sizes))


if __name__ == "__main__":
    main()
