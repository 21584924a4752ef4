"""Long texts and many machines: memory, arithmetic, traffic (chapter 10)."""
