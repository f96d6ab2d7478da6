"""Another client on the same server: `vllm bench serve` beside ours."""
