"""Stamps: small files that say what a folder was made from and that it was finished. Standard library only."""

import hashlib
import json
import platform


def digest(recipe, inputs):
    """What a folder is made from: this Python and machine, the recipe's number, and the input files' bytes."""
    found = hashlib.sha256(f"{recipe} {platform.python_version()} {platform.machine()}".encode())
    for path in inputs:
        found.update(path.read_bytes())
    return found.hexdigest()


def sizes(folder, patterns):
    """Sizes by name of the folder's files that the stamp vouches for."""
    paths = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(paths)}


def holds(stamp, made_from, files):
    """Whether the stamp exists and names this digest and exactly these files."""
    try:
        said = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    return bool(files) and said == {"made_from": made_from, "files": files}


def write(stamp, made_from, files):
    """Write the stamp whole or not at all."""
    fresh = stamp.with_suffix(".new")
    fresh.write_text(json.dumps({"made_from": made_from, "files": files}, indent=1) + "\n")
    fresh.replace(stamp)
