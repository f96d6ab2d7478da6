"""How a secret may be written: encoded in a URL, in JSON, HTML, hexadecimal, or base64, alone or within more. Pure."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

#: a piece of base64 shorter than this may be found in anything
_BASE64_PIECE = 8
#: what escapers of JSON (.NET) and HTML (Mustache) write besides what Python's do
_JSON_OF_NET = str.maketrans({c: f"\\u{ord(c):04x}" for c in "+&<>'`"})
_MUSTACHE = str.maketrans({"/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"})


def folded_forms(secret: str) -> set[bytes]:
    """The forms that are looked for whatever their case is, in lower case (of ASCII)."""
    text = json.dumps(secret)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret, secret.lower(), secret.upper(),
        quote(secret, safe=""), quote(secret), quote_plus(secret), "".join(f"%{byte:02x}" for byte in raw),
        text, json.dumps(secret, ensure_ascii=False)[1:-1], text.replace("/", "\\/"), json.dumps(text)[1:-1],
        quote(quote(secret, safe=""), safe=""), quote(quote(secret)), text.translate(_JSON_OF_NET),
        "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in secret), html.escape(secret).translate(_MUSTACHE),
        html.escape(secret), html.escape(secret).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        repr(secret)[1:-1], repr(raw)[2:-1], raw.hex(),
    }  # fmt: skip
    return {form.encode("utf-8", "surrogatepass").lower() for form in forms}


def exact_forms(secret: str) -> set[bytes]:
    """The base64 forms, of which only what does not depend on the bytes around the secret is looked for: one for each
    of the three places that a byte can have in a group of three."""
    raw, found = secret.encode("utf-8", "surrogatepass"), set()
    for before in range(3):
        size = before + len(raw)
        whole = base64.b64encode(b"\0" * before + raw)[(0, 2, 3)[before] : size * 8 // 6]
        if len(whole) >= _BASE64_PIECE:
            found |= {whole, whole.translate(bytes.maketrans(b"+/", b"-_"))}
    return found
