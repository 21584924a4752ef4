"""Ten properties that any attention has, to run on a layer of your own: ``check_attention``."""

from d2l_attention.testing.check import Report, check_attention
from d2l_attention.testing.properties import PROPERTIES, Property

__all__ = ["PROPERTIES", "Property", "Report", "check_attention"]
