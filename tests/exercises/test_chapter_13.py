"""Chapter 13's solutions, which need torch alone, with the library's models themselves."""

import pytest
import torch
import torch.nn.functional as F
import transformers

from d2l_attention.exercises.engine.registry import find
from d2l_attention.real_models import use_attention
from d2l_attention.real_models.cache_numbers import layer_caches

SMALL = {
    "vocab_size": 11,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}


@pytest.mark.parametrize(
    "name", ["Llama", "Mistral", "Qwen3", "Gemma3Text", "GptOss", "DeepseekV3"]
)
@pytest.mark.parametrize("num_tokens", [1, 100, 10000])
def test_cache_of_a_configuration(name, num_tokens):
    config = getattr(transformers, f"{name}Config")()
    expected = sum(layer.numbers(num_tokens) for layer in layer_caches(config))
    assert find("13.3").solution(config.to_dict(), num_tokens) == expected


def test_the_explanation_of_the_configuration():
    gpt_oss, deepseek = transformers.GptOssConfig(), transformers.DeepseekV3Config()
    assert (gpt_oss.head_dim, gpt_oss.hidden_size, gpt_oss.num_attention_heads) == (64, 2880, 64)
    assert deepseek.num_key_value_heads == 128 and deepseek.kv_lora_rank


def small(name, **sizes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL, **sizes)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim > 1 or "sinks" in parameter_name:
                parameter.normal_(std=0.2)
    return model


@pytest.fixture(scope="module")
def llama():
    return small("Llama")


@pytest.fixture(scope="module")
def gpt_oss():
    return small("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2)


def test_groups_as_pytorch_has_them():
    queries, keys, values = (
        torch.randn(2, 6, 5, 4),
        torch.randn(2, 2, 5, 4),
        torch.randn(2, 2, 5, 7),
    )
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = F.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True)
    torch.testing.assert_close(find("13.1").solution(queries, keys, values, mask), expected)


@torch.no_grad()
def test_a_llama_attends_by_it(llama):
    tokens = torch.randint(11, (2, 7))
    expected = llama(input_ids=tokens).logits
    with use_attention(llama, find("13.1").solution):
        torch.testing.assert_close(llama(input_ids=tokens).logits, expected)


@torch.no_grad()
def test_gpt_oss_attends_with_sinks(gpt_oss):
    tokens = torch.randint(11, (2, 7))
    expected = gpt_oss(input_ids=tokens).logits
    with use_attention(gpt_oss, find("13.2").solution):
        torch.testing.assert_close(gpt_oss(input_ids=tokens).logits, expected)


def attend_the_wrong_way(queries, keys, values, mask=None):
    return find("13.1").solution(queries, keys, values, ~mask).nan_to_num()


@torch.no_grad()
def test_the_test_finds_a_wrong_mask_in_a_llama(llama):
    def logits(tokens):
        return llama(input_ids=tokens).logits

    find("13.5").solution(logits)
    with use_attention(llama, attend_the_wrong_way), pytest.raises(AssertionError):
        find("13.5").solution(logits)
