"""Print what vLLM's CPU wheel needs on this Python and machine, one requirement a line.

    .venv-vllm/bin/python tests/vllm/setup/requirements.py WHEEL

pip cannot take the wheel with its dependencies: it asks for `torch==2.13.0+cpu`, which PyPI does not have.
So the wheel goes in without them, and this list, less torch and its companions, beside it.
"""

import sys
import zipfile
from email.parser import Parser

# pip's own copy: the environment is fresh, and this is the one parser of markers it surely holds.
from pip._vendor.packaging.requirements import Requirement

# torch is pinned in pins.txt; the other three read pictures, sound and video, and would ask for torch again.
LEFT_OUT = {"torch", "torchaudio", "torchvision", "torchcodec"}


def metadata_of(wheel):
    """The wheel's METADATA as an email message (the core metadata format)."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def needed(lines):
    """Requirements whose marker holds here, without the markers, extras' own ones and LEFT_OUT; sorted, each once."""
    kept = set()
    for requirement in map(Requirement, lines):
        if requirement.name in LEFT_OUT:
            continue
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        requirement.marker = None
        kept.add(str(requirement))
    return sorted(kept)


if __name__ == "__main__":
    found = needed(metadata_of(sys.argv[1]).get_all("Requires-Dist") or [])
    if not found:
        sys.exit(f"{sys.argv[1]} names no requirements: is it vLLM's wheel?")
    print("\n".join(found))
