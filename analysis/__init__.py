"""A bundle of raw events -> verdict.json. Pure: imports the standard library, numpy, scipy and polars only."""
