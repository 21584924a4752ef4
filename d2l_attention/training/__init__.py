"""Train a translation model: one loop for a laptop, a GPU or many machines.

From a shell, on one process and on two::

    python -m d2l_attention.training --data grammar --model bahdanau --steps 600 --out run
    accelerate launch --multi_gpu --num_processes 2 -m d2l_attention.training ...

``--multi_gpu`` is right without a GPU too: with ``--cpu`` Accelerate starts a single process.
"""

from d2l_attention.training.checkpoints import History, load_checkpoint, load_weights
from d2l_attention.training.loop import train
from d2l_attention.training.models import LEARNING_RATES, MODELS

__all__ = ["LEARNING_RATES", "MODELS", "History", "load_checkpoint", "load_weights", "train"]
