#!/usr/bin/env python3
"""Writes what cria knows of the Unicode Character Database (Debian: package unicode-data).

Usage: make_data.py /usr/share/unicode > data.inc             the properties
       make_data.py /usr/share/unicode mappings > mappings.inc   the mappings

Each row has the property's name, its aliases, and its ranges. The ranges are numbers: by turns the
characters that lack the property and those that have it, from U+0000 on. A number is written in
base 45, low digit first; digits but the last of a number have 45 added, and are written as the
character 35 + digit ('!' for the backslash, '~' for the question mark of trigraphs).

A mapping is a list of such numbers. Each run of characters has five: the gap after the run before,
its length, the step from one character to the next, the number of characters that each becomes,
and twice the difference to the first of these (one less and odd if negative). If each becomes
several, the differences of the others to the one before follow; a run then has one character.
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
    return digits(numbers(members))


def digits(values):
    text = ""
    for number in values:
        while True:
            number, digit = divmod(number, 45)
            symbol = chr(35 + digit + (45 if number else 0))
            text += {"\\": "!", "?": "~"}.get(symbol, symbol)
            if not number:
                break
    return text


def signed(number):
    return 2 * number if number >= 0 else -2 * number - 1


def runs(mapping):
    """Yields (first, length, step, targets of the first): equal differences, equal steps."""
    codes, i = sorted(mapping), 0
    while i < len(codes):
        first, n, step = codes[i], 1, 1
        while len(mapping[first]) == 1 and i + n < len(codes):
            code = codes[i + n]
            gap = code - codes[i + n - 1]
            if len(mapping[code]) > 1 or mapping[code][0] - code != mapping[first][0] - first:
                break
            if gap > 2 or n > 1 and gap != step:
                break
            step, n = gap, n + 1
        yield first, n, step, mapping[first]
        i += n


def write_mapping(name, mapping):
    at, values = 0, []
    for first, n, step, targets in runs(mapping):
        values += [first - at, n, step, len(targets), signed(targets[0] - first)]
        values += [signed(b - a) for a, b in zip(targets, targets[1:])]
        at = first + (n - 1) * step
    text = digits(values)
    print("constexpr std::string_view %s =" % name)
    print("\n".join('    "%s"' % text[i:i + 92] for i in range(0, len(text), 92)) + ";")


def mappings():
    """Lower case, and canonical decompositions without nonspacing marks. Hangul is computed."""
    lower, parts, marks = {}, {}, set()
    for fields in rows("UnicodeData.txt"):
        code = int(fields[0], 16)
        if fields[2] == "Mn":
            marks.add(code)
        if fields[13]:
            lower[code] = [int(fields[13], 16)]
        if fields[5] and not fields[5].startswith("<"):
            parts[code] = [int(part, 16) for part in fields[5].split()]
    lower[0x130] = [0x69, 0x307]  # SpecialCasing.txt: the only one without a condition

    def bare(code):
        if code in parts:
            return [one for part in parts[code] for one in bare(part)]
        return [] if code in marks else [code]
    write_mapping("kLowerCase", lower)
    write_mapping("kWithoutMarks", {code: bare(code) for code in parts if bare(code)})


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
    if sys.argv[2:] == ["mappings"]:
        return mappings()
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
