"""Quality gates that run: what is asked of the arms after the last block, and what their outputs are like."""
