"""Ten properties of attention without positions, to run on your own layer: ``check_attention``."""

from d2l_attention.testing.check import Report, check_attention
from d2l_attention.testing.properties import PROPERTIES, Property

__all__ = ["PROPERTIES", "Property", "Report", "check_attention"]
