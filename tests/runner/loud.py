"""A launched server that says all it knows: it prints its environment in many forms, then is the embedded engine.

python loud.py [die] ARGUMENTS…
"""

import base64
import json
import os
import sys
import time
import urllib.parse


def main() -> None:
    for name, value in os.environ.items():
        if "CANARY" in value.upper() or name == "SHORT_KEY":
            print(f"{name}={value}")
            print(json.dumps({name: value, "again": value}), repr({name: value}), repr(value.encode()), file=sys.stderr)
            print(urllib.parse.quote(value, safe=""), value.encode().hex())
            print(base64.b64encode(f"user:{value}".encode()).decode())
            sys.stdout.flush()
            # in two writes, and without an end of line
            os.write(2, value[:5].encode())
            time.sleep(0.01)
            os.write(2, value[5:].encode())
            os.write(2, b"\n")
    sys.stdout.flush()
    os.write(1, f"last words {os.environ.get('HF_TOKEN')}".encode())
    if sys.argv[1] == "die":
        sys.exit(7)
    engine = [sys.executable, "-m", "benchcard.runner.engines.simulated", *sys.argv[1:]]
    os.execv(sys.executable, engine)


main()
