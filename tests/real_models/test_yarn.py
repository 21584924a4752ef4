"""YaRN as the library has it: the course's ramp over pairs, not the paper's over turns."""

import pytest
import torch
import transformers
from torch.testing import assert_close
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from d2l_attention.variants import yarn_scale, yarn_speeds, yarn_speeds_by_pair


@pytest.mark.parametrize("factor", [4.0, 32.0])
@pytest.mark.parametrize("base", [10000.0, 150000.0])
@pytest.mark.parametrize("whole", [True, False], ids=["whole pairs", "parts of pairs"])
def test_speeds_and_scale_of_the_library(factor, base, whole):
    rotary = {
        "rope_type": "yarn",
        "factor": factor,
        "rope_theta": base,
        "truncate": whole,
        "original_max_position_embeddings": 4096,
    }
    config = transformers.LlamaConfig(
        max_position_embeddings=int(factor * 4096), rope_parameters=rotary
    )
    theirs, scale = ROPE_INIT_FUNCTIONS["yarn"](config, device=torch.device("cpu"))
    ours = yarn_speeds_by_pair(128, factor, 4096, base, whole_pairs=whole)
    assert_close(ours.float(), theirs)
    assert scale == pytest.approx(yarn_scale(factor))
    papers = yarn_speeds(128, factor, 4096, base)
    assert (papers / ours - 1).abs().max() > 0.1
