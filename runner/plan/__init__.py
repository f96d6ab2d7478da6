"""The pure plan: card + seed -> cells in order and every request in them."""
