#!/usr/bin/env python3
"""Makes names-a.json and names-b.json from Python's Unicode tables; see README.md.

Run it in this folder. It needs nothing but Python 3 whose tables are of UNICODE, so that a second
run changes nothing: Python 3.11 has them.
"""

import json
import sys
import unicodedata

UNICODE = "14.0.0"
A_COUNT = 20_000
B_COUNT = 10_000
# Every 20th key of A comes again in B: a tenth of B.
SHARED_STEP = 20

# Names that are only a prefix and the number again say nothing; there are 107,000 of them.
NUMBERED = (
    "CJK COMPATIBILITY IDEOGRAPH-",
    "CJK UNIFIED IDEOGRAPH-",
    "HANGUL SYLLABLE ",
    "KHITAN SMALL SCRIPT CHARACTER-",
    "NUSHU CHARACTER-",
    "TANGUT COMPONENT-",
    "TANGUT IDEOGRAPH-",
)


def named():
    """The characters with a name of their own, in code point order."""
    for code in range(sys.maxunicode + 1):
        name = unicodedata.name(chr(code), None)
        if name is not None and not name.startswith(NUMBERED):
            yield chr(code)


def key(character):
    return f"U+{ord(character):04X}"


def details(character):
    """A longer value: JSON text again, kept as a string."""
    found = {
        "name": unicodedata.name(character),
        "category": unicodedata.category(character),
        "bidirectional": unicodedata.bidirectional(character),
    }
    return json.dumps(found, separators=(",", ":"))


def write(path, entries):
    with open(path, "w", encoding="ascii", newline="\n") as file:
        json.dump(entries, file, indent=0, separators=(",", ": "))
        file.write("\n")


def main():
    if unicodedata.unidata_version != UNICODE:
        sys.exit(f"needs Unicode {UNICODE}, Python has {unicodedata.unidata_version}")
    characters = list(named())
    first = characters[:A_COUNT]
    shared = first[::SHARED_STEP]
    second = characters[A_COUNT : A_COUNT + B_COUNT - len(shared)]
    write("names-a.json", {key(c): unicodedata.name(c) for c in first})
    write("names-b.json", {key(c): details(c) for c in shared + second})


if __name__ == "__main__":
    main()
