"""Loads a policy directory of ours with transformers, and holds what our sampler recorded against it.

Run it in an environment with transformers and torch, on any policy of ours: a run's `policy-start`
(the tiny policy as made) or `policy` (as trained). With trajectories that this very policy played,
every recorded log-probability is computed again from the recorded token ids:

    art-host rollout tictactoe --policy DIR --episodes 50 --jsonl FILE
    python tests/interop/load_tiny.py DIR FILE

It fails if a weight is missing or unused, if the tokenizer and the template do not load, or if a
log-probability differs by more than TOLERANCE.
"""

import json
import sys

import torch
import transformers

TOLERANCE = 1e-3


def load(folder: str):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager"
    )
    for problem in ["missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"]:
        assert not info.get(problem), f"{problem}: {info[problem]}"
    assert len(tokenizer) <= model.config.vocab_size
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], add_generation_prompt=True, return_tensors="pt",
        return_dict=True,
    )
    torch.manual_seed(0)
    answer = model.generate(**prompt, max_new_tokens=8)[0, prompt.input_ids.shape[1] :]
    print(f"{type(model).__name__}, {model.num_parameters()} parameters")
    print(f"it answers {tokenizer.decode(answer)!r}")
    return model.eval()


def gaps(model, row: dict):
    """The differences of all sampled tokens' log-probabilities."""
    logits = model(torch.tensor([row["tokens"]])).logits[0] / row["temperature"]
    for span in row["spans"]:
        for offset, (logprob, allowed) in enumerate(zip(span["logprobs"], span["allowed"])):
            position = span["start"] + offset
            scores = logits[position - 1]
            token = row["tokens"][position]
            allowed = torch.arange(len(scores)) if allowed is None else torch.tensor(allowed)
            assert token in allowed, f"token {token} at {position} was not allowed"
            expected = scores[token] - scores[allowed].logsumexp(0)
            yield abs(expected.item() - logprob)


def main() -> None:
    folder, *files = sys.argv[1:]
    model = load(folder)
    for file in files:
        with open(file, encoding="utf-8") as lines, torch.no_grad():
            rows = [row for line in lines for row in json.loads(line).get("rows", [])]
            differences = [gap for row in rows for gap in gaps(model, row)]
        assert differences, f"{file} holds no sampled token"
        largest = max(differences)
        print(f"{len(rows)} rows, {len(differences)} sampled tokens, largest difference {largest:.2e}")
        assert largest <= TOLERANCE, "our log-probabilities are not transformers'"


if __name__ == "__main__":
    main()
