"""How a check works. An author of exercises needs ``authoring`` and nothing from here."""
