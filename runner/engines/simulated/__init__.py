"""The embedded engine: continuous batching with declared costs, played on the clock over real HTTP.

In virtual time (pure): `costs`, `misbehave` and `config` say what an engine is; `tokens`, `sequence`, `cache`, `kv` and
`scheduler` are how it works; `model` and `virtual` play requests. On the clock: `timer`, `player`, and around it
`http`, `api`, `render`, `metrics`, `journal`, `server`.
"""
