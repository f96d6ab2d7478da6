"""What a card's tokenizer is used for: chat prompts of exact length, and texts counted again."""
