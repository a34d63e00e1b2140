#!/usr/bin/env python3
"""Writes data.inc, the Unicode properties that cria knows, from the Unicode Character Database.

Usage: make_data.py /usr/share/unicode > data.inc   (Debian: package unicode-data)

Each row has the property's name, its aliases, and its ranges. The ranges are numbers: by turns the
characters that lack the property and those that have it, from U+0000 on. A number is written in
base 45, low digit first; digits but the last of a number have 45 added, and are written as the
character 35 + digit ('!' for the backslash, '~' for the question mark of trigraphs).
"""
import os
import re
import sys
from collections import defaultdict

ROOT = sys.argv[1]
LAST = 0x10FFFF
BINARY_FILES = ["PropList.txt", "DerivedCoreProperties.txt", "emoji/emoji-data.txt",
                "extracted/DerivedBinaryProperties.txt"]
BINARY = """Alphabetic ASCII_Hex_Digit Bidi_Control Bidi_Mirrored Case_Ignorable Cased
    Changes_When_Casefolded Changes_When_Casemapped Changes_When_Lowercased Changes_When_Titlecased
    Changes_When_Uppercased Dash Default_Ignorable_Code_Point Deprecated Diacritic Emoji
    Emoji_Component Emoji_Modifier Emoji_Modifier_Base Emoji_Presentation Extended_Pictographic
    Extender Grapheme_Base Grapheme_Extend Hex_Digit IDS_Binary_Operator IDS_Trinary_Operator
    ID_Continue ID_Start Ideographic Join_Control Logical_Order_Exception Lowercase Math
    Noncharacter_Code_Point Pattern_Syntax Pattern_White_Space Quotation_Mark Radical
    Regional_Indicator Sentence_Terminal Soft_Dotted Terminal_Punctuation Unified_Ideograph
    Uppercase Variation_Selector White_Space XID_Continue XID_Start""".split()


def rows(name):
    """Yields the fields of each line of a file of the database."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        for line in file:
            fields = [field.strip() for field in line.split("#")[0].split(";")]
            if len(fields) > 1:
                yield fields


def characters(field):
    first, _, last = field.partition("..")
    return range(int(first, 16), int(last or first, 16) + 1)


def categories():
    sets, first = defaultdict(set), None
    for fields in rows("UnicodeData.txt"):
        code = int(fields[0], 16)
        if fields[1].endswith(", First>"):
            first = code
            continue
        sets[fields[2]].update(range(code if first is None else first, code + 1))
        first = None
    sets["Cn"] = set(range(LAST + 1)).difference(*sets.values())
    return sets


def aliases(name, kind):
    """Names by short name, of a property's values or (kind "") of properties."""
    names = {}
    for fields in rows(name):
        if not kind:
            names[fields[1]] = [fields[1], fields[0], *fields[2:]]
        elif fields[0] == kind:
            names[fields[1]] = fields[1:]
    return names


def numbers(members):
    at, inside, out, run = 0, False, [], 0
    for code in sorted(members) + [LAST + 2]:
        if code != at + run or not run:
            if run:
                out += [at - end if out else at, run]
                end = at + run
            at, run = code, 0
        run += 1
    return out


def encoded(members):
    text = ""
    for number in numbers(members):
        while True:
            number, digit = divmod(number, 45)
            symbol = chr(35 + digit + (45 if number else 0))
            text += {"\\": "!", "?": "~"}.get(symbol, symbol)
            if not number:
                break
    return text


def write(kind, names, members):
    names = list(dict.fromkeys(name for name in names if name))
    text = encoded(members)
    pieces = [text[i:i + 92] for i in range(0, len(text), 92)] or [""]
    print('{%s, "%s",' % (kind, " ".join(names)))
    print("\n".join('    "%s"' % piece for piece in pieces) + "},")


def main():
    scripts, extensions, binary = defaultdict(set), defaultdict(set), defaultdict(set)
    for fields in rows("Scripts.txt"):
        scripts[fields[1]].update(characters(fields[0]))
    script_names = aliases("PropertyValueAliases.txt", "sc")
    extended = set()
    for fields in rows("ScriptExtensions.txt"):
        extended.update(characters(fields[0]))
        for short in fields[1].split():
            extensions[script_names[short][1]].update(characters(fields[0]))
    for name in BINARY_FILES:
        if os.path.exists(os.path.join(ROOT, name)):
            for fields in rows(name):
                binary[fields[1]].update(characters(fields[0]))
    with open(os.path.join(ROOT, "PropList.txt"), encoding="utf-8") as file:
        version = re.search(r"-(\d+\.\d+\.\d+)\.txt", file.readline()).group(1)
    print("// Unicode %s. Written by make_data.py; do not edit." % version)
    names = aliases("PropertyValueAliases.txt", "gc")
    for short, members in sorted(categories().items()):
        write("Kind::Category", names[short], members)
    by_long_name = {row[1]: row for row in script_names.values()}
    for name, members in sorted(scripts.items()):
        row = [name] + by_long_name[name]
        write("Kind::Script", row, members)
        whole = (members - extended) | extensions[name]
        if whole != members:
            write("Kind::ScriptExtensions", row, whole)
    names = aliases("PropertyAliases.txt", "")
    for name in BINARY:
        write("Kind::Binary", names.get(name, [name]), binary[name])


main()
